//! Runs the collector for an API server that has none: envtest, a bare kube-apiserver, kcp.
//!
//! It waits for an API server that does not respond yet. In a real cluster the controller manager collects
//! already, and a second collector has no effect.
//!
//! ```sh
//! KUBECONFIG=envtest.kubeconfig cargo run --release -p kubegc-examples --features kube --example kube_gc_for_envtest
//! ```
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{error::Error, process::ExitCode};

use clap::Parser;
use kubegc_examples::{exit_code, interrupted, log_to_stderr};
use kubegc_kube::{GarbageCollector, LeaderElection};

/// Collects garbage of an API server until interrupted.
#[derive(Parser)]
struct Arguments {
    /// Collect only while holding the Lease `kubegc` under this identity.
    #[arg(long, value_name = "IDENTITY")]
    leader_election: Option<String>,
    /// Behave as this release, instead of the API server's own.
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<kubegc::core::KubernetesVersion>,
}

#[tokio::main]
async fn main() -> ExitCode {
    log_to_stderr();
    exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let client = kubegc_kube::client().await?;
    let mut collector = GarbageCollector::new(client);
    if let Some(version) = arguments.kubernetes {
        collector = collector.version(version);
    }
    if let Some(identity) = arguments.leader_election {
        collector = collector.leader_election(LeaderElection::new(&identity));
    }
    let summary = collector.run(interrupted()).await?;
    println!(
        "{} calls, {} writes ({} failed), {} warnings",
        summary.calls, summary.writes, summary.writes_failed, summary.warnings
    );
    for resource in &summary.unsynced {
        println!("never seen whole: {resource}");
    }
    Ok(())
}
