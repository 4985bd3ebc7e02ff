//! A cluster for `kubectl`, and for clients in any language, in one process: an API server in memory with the
//! control plane that deletion needs.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --features kube --example serve_cluster -- --kubeconfig /tmp/kubegc.kubeconfig objects.yaml
//! KUBECONFIG=/tmp/kubegc.kubeconfig kubectl get namespaces
//! ```
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{error::Error, fs, path::PathBuf, process::ExitCode};

use clap::Parser;
use kubegc::core::KubernetesVersion;
use kubegc_examples::{exit_code, interrupted};
use kubegc_testkit::Cluster;

/// Serves a simulated cluster on a loopback socket until it is interrupted. Nothing is stored.
#[derive(Parser)]
struct Arguments {
    /// Manifests to begin with.
    manifests: Vec<PathBuf>,
    /// The kubeconfig file to write.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The Kubernetes version to behave as.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// Run no garbage collector, so that another one can be tested.
    #[arg(long)]
    without_collector: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(serve(Arguments::parse()).await)
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut builder = Cluster::builder()
        .version(arguments.kubernetes)
        .follow_tokio_clock(true);
    if arguments.without_collector {
        builder = builder.without_collector();
    }
    for path in &arguments.manifests {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        builder = builder.yaml(&text);
    }
    let cluster = builder.build()?;
    let (loopback, _running) = (cluster.serve().await?, cluster.run());
    loopback.write_kubeconfig(&arguments.kubeconfig)?;
    println!("Kubernetes {} at {}", cluster.version(), loopback.url());
    println!("KUBECONFIG={}", arguments.kubeconfig.display());
    interrupted().await;
    Ok(())
}
