//! What would this delete do to the cluster that my kubeconfig points to?
//!
//! Takes a snapshot of the cluster and predicts from it. Nothing is written. Without objects it forecasts
//! what the garbage collector and the other controllers delete anyway.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --features kube --example kube_live_dry_run -- deployment/storefront -n shop --cascade foreground
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, process::ExitCode, time::Duration};

use clap::Parser;
use kubegc::predict::{Cluster, Detail, Question};
use kubegc_examples::{dump::AssumptionArguments, exit_code, selection::SelectionArguments, time};
use kubegc_kube::{SnapshotOptions, snapshot};

/// Predicts what deleting objects does to a live cluster, or what happens anyway, without deleting anything.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    assumptions: AssumptionArguments,
    /// The duration of the forecast without objects, in minutes.
    #[arg(long, value_name = "NUMBER", default_value_t = 60)]
    minutes: u32,
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
    let version = kubegc_kube::version(&client).await?;
    let mut options = SnapshotOptions::default();
    options.version = Some(version);
    // The controllers read more than metadata.
    options.whole = arguments.selection.is_empty();
    let snapshot = snapshot(&client, &options).await?;
    eprintln!("{} objects of Kubernetes {version}", snapshot.len());
    let cluster = Cluster::new(version, snapshot, (&arguments.assumptions).into());
    let forecast = if arguments.selection.is_empty() {
        let horizon = Duration::from_secs(u64::from(arguments.minutes) * 60);
        cluster.forecast(&Question::new(version).at(time("now")?).up_to(horizon))?
    } else {
        cluster.predict(&arguments.selection.intents(&cluster)?)?
    };
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
