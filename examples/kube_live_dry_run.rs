//! What would this delete do to the cluster that my kubeconfig points to?
//!
//! Lists the metadata of everything, and predicts. Nothing is written. Without objects it says what the collector would do right now: then each
//! write is sent as a dry run, so that the API server itself judges it.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --features kube --example kube_live_dry_run -- shop/Deployment/storefront --cascade foreground
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, process::ExitCode};

use clap::{Parser, ValueEnum};
use kube::Client;
use kubegc::{
    core::{DeleteOptions, PropagationPolicy},
    predict::{Cluster, Detail, Intent, ObjectName},
};
use kubegc_examples::{dump::AssumptionArguments, exit_code, interrupted};
use kubegc_kube::{GarbageCollector, SnapshotOptions, snapshot};

/// Predicts what deleting objects does to a live cluster, without deleting anything.
#[derive(Parser)]
struct Arguments {
    /// Objects to delete, one after another: namespace/Kind/name, or Kind/name for cluster-scoped objects. None: what the collector would do now.
    objects: Vec<ObjectName>,
    /// What happens to dependents; without it, what the kind's default says.
    #[arg(long, value_enum)]
    cascade: Option<Cascade>,
    #[command(flatten)]
    assumptions: AssumptionArguments,
    /// Say why this object has its fate.
    #[arg(long, value_name = "OBJECT")]
    explain: Vec<ObjectName>,
    /// Show every write.
    #[arg(long)]
    timeline: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

impl Cascade {
    const fn policy(self) -> PropagationPolicy {
        match self {
            Self::Background => PropagationPolicy::Background,
            Self::Foreground => PropagationPolicy::Foreground,
            Self::Orphan => PropagationPolicy::Orphan,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let client = kubegc_kube::client().await?;
    if arguments.objects.is_empty() {
        return collector_now(client).await;
    }
    let snapshot = snapshot(&client, &SnapshotOptions::default()).await?;
    let version = kubegc_kube::version(&client).await?;
    eprintln!("{} objects of Kubernetes {version}", snapshot.len());
    let cluster = Cluster::new(version, snapshot, (&arguments.assumptions).into());
    let options = arguments.cascade.map_or_else(DeleteOptions::default, |cascade| {
        DeleteOptions::policy(cascade.policy())
    });
    let intents: Vec<Intent> = arguments
        .objects
        .into_iter()
        .map(|object| Intent::delete(object, options.clone()))
        .collect();
    let forecast = cluster.predict(&intents)?;
    let detail = Detail {
        steps: arguments.timeline,
        ..Detail::default()
    };
    print!("{}", forecast.to_text(detail));
    for name in &arguments.explain {
        let position = cluster.position(name)? as usize;
        // A position that was found is in the snapshot.
        if let Some(object) = cluster.snapshot().object(position) {
            print!("\n{}", forecast.explain(&object.object_ref()));
        }
    }
    Ok(())
}

/// What a collector that starts now would write.
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
