//! What would the kubelet's collector remove from this machine's container runtime, in which order, and why?
//!
//! ```sh
//! sudo -E cargo run --release -p kubegc-examples --features cri --example cri_dry_run -- --pods ready-sandboxes --change imageGCHighThresholdPercent=60
//! ```
//!
//! Lists what containerd, CRI-O or another runtime has, and forecasts. It only reads.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, process::ExitCode};

use clap::Parser;
use kubegc::{
    core::Clock as _,
    node::driver::NodeAction,
    predict::node::{Growth, NodeFrame, node_forecast},
};
use kubegc_examples::{cri::NodeArguments, exit_code, simulated::in_words};

/// Prints what would be collected on this machine, and changes nothing.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 forecast; 1 the runtime, a file or the settings cannot be read; 2 wrong usage."
)]
struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
    /// The growth of the disk usage, such as 2GB/h or 500MB/d.
    #[arg(long, value_name = "AMOUNT")]
    growth: Option<Growth>,
    /// Writes JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    kubegc_examples::cri::block_on(async { exit_code(run(&arguments).await) })
}

async fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let node = arguments.node.open().await?;
    eprintln!("{}", node.about);
    let report = node.driver(node.environment()).read_inventory().await;
    if let Some(error) = &report.pods_error {
        eprintln!("note: {error}");
    }
    let frame = NodeFrame {
        now: node.clock.now(),
        growth_bytes_per_hour: arguments.growth.unwrap_or_default().bytes_per_hour,
    };
    let forecast = node_forecast(&report.inventory, &node.policy, frame);
    match arguments.json {
        true => println!("{:#}", forecast.to_json()),
        false => {
            print!("{forecast}");
            // The forecast only counts log directories. They are removed recursively, so each is printed.
            let logs = forecast.logs.iter().flat_map(|logs| logs.actions.iter().cloned());
            logs.map(NodeAction::Log)
                .for_each(|action| println!("  {}", in_words(&action)));
        }
    }
    Ok(())
}
