//! Runs chosen controllers of kube-controller-manager against the cluster that the kubeconfig points to.
//!
//! `--rbac` prints the roles that they need, without a cluster; with `podgc --rbac` it prints
//! `expected/kube_controllers.txt`.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --features kube --example kube_controllers
//! cargo run --release -p kubegc-examples --features kube --example kube_controllers -- podgc ttl-after-finished
//! ```
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{error::Error, process::ExitCode};

use clap::Parser;
use kubegc::{controllers::select_controllers, core::KubernetesVersion};
use kubegc_examples::{exit_code, interrupted, log_to_stderr};
use kubegc_kube::{ControllerManager, LeaderElection, rbac};

/// Runs controllers against a cluster until it is interrupted.
#[derive(Parser)]
struct Arguments {
    /// Controllers, as in --controllers of kube-controller-manager: a name, -NAME (after --), or * for all
    /// that run by default.
    #[arg(default_value = "*")]
    controllers: Vec<String>,
    /// Print the roles that the controllers need.
    #[arg(long)]
    rbac: bool,
    /// Work only while holding the Lease kube-system/kubegc-controllers under this identity.
    #[arg(long, value_name = "IDENTITY")]
    leader_election: Option<String>,
    /// Behave as this release, instead of the API server's own.
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<KubernetesVersion>,
}

#[tokio::main]
async fn main() -> ExitCode {
    log_to_stderr();
    exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.rbac {
        let version = arguments.kubernetes.unwrap_or(KubernetesVersion::LATEST);
        let controllers = select_controllers(version, &arguments.controllers)?;
        let LeaderElection { namespace, name, .. } = LeaderElection::for_controllers("");
        print!("{}", rbac::for_controllers(&controllers, &namespace, &name));
        return Ok(());
    }
    let client = kubegc_kube::client().await?;
    let mut manager = ControllerManager::new(client).controllers(arguments.controllers);
    if let Some(version) = arguments.kubernetes {
        manager = manager.version(version);
    }
    if let Some(identity) = arguments.leader_election {
        manager = manager.leader_election(LeaderElection::for_controllers(&identity));
    }
    let summary = manager.run(interrupted()).await?;
    for (controller, object, missing) in &summary.unknown {
        println!("{controller}: {object}: cannot decide: {missing}");
    }
    println!("{} writes, {} failed", summary.writes, summary.writes_failed);
    Ok(())
}
