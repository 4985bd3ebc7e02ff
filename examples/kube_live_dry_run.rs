//! What would this delete do to the cluster that my kubeconfig points to?
//!
//! Lists the metadata of everything, and predicts. Nothing is written. Without objects it reports what the
//! collector would do now: each write is then sent as a dry run to the API server.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --features kube --example kube_live_dry_run -- deployment/storefront -n shop --cascade foreground
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, process::ExitCode};

use clap::Parser;
use kube::Client;
use kubegc::predict::{Cluster, Detail};
use kubegc_examples::{dump::AssumptionArguments, exit_code, interrupted, selection::SelectionArguments};
use kubegc_kube::{GarbageCollector, SnapshotOptions, snapshot};

/// Predicts what deleting objects does to a live cluster, without deleting anything.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    assumptions: AssumptionArguments,
    /// Explain the fate of this object, such as `pod/web-0`.
    #[arg(long, value_name = "OBJECT")]
    explain: Vec<String>,
    /// Show every write.
    #[arg(long)]
    timeline: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let client = kubegc_kube::client().await?;
    if arguments.selection.is_empty() {
        return collector_now(client).await;
    }
    let snapshot = snapshot(&client, &SnapshotOptions::default()).await?;
    let version = kubegc_kube::version(&client).await?;
    eprintln!("{} objects of Kubernetes {version}", snapshot.len());
    let cluster = Cluster::new(version, snapshot, (&arguments.assumptions).into());
    let forecast = cluster.predict(&arguments.selection.intents(&cluster)?)?;
    let detail = Detail {
        steps: arguments.timeline,
        ..Detail::default()
    };
    print!("{}", forecast.to_text(detail));
    for object in arguments.selection.objects_named(&cluster, &arguments.explain)? {
        print!("\n{}", forecast.explain(&object));
    }
    Ok(())
}

/// The writes of a collector that starts now.
async fn collector_now(client: Client) -> Result<(), Box<dyn Error>> {
    let summary = GarbageCollector::new(client)
        .dry_run(true)
        .run(interrupted())
        .await?;
    if let Some(report) = summary.dry_run {
        print!("{report}");
    }
    Ok(())
}
