//! Collects on this machine's container runtime as the kubelet would: dead containers, sandboxes, logs, then
//! images, after a confirmation.
//!
//! ```sh
//! sudo -E cargo run --release -p kubegc-examples --features cri --example cri_collect -- --pods manifests:/etc/kubernetes/manifests --node-name edge-7 --records images.json
//! ```
//!
//! Only listed objects are removed. Other garbage that appears meanwhile waits for the next run. With
//! `--records`, the last use of images is stored from one run to the next; otherwise it is unknown.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;
use kubegc::{
    core::{Clock as _, RuntimeError},
    node::{
        Node,
        container::Mode,
        driver::{NodeAction, Outcome, Performed, Report},
    },
    predict::node::{NodeForecast, NodeFrame, node_forecast},
};
use kubegc_examples::{
    cri::{NodeArguments, OpenNode},
    simulated::in_words,
};
use tokio::signal::unix::{SignalKind, signal};

/// Collects on this machine's container runtime, after a confirmation.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 done, or nothing to do, or not approved; 1 something failed; 2 wrong usage."
)]
struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Collect at the kubelet's periods until interrupted.
    #[arg(long, requires = "yes")]
    watch: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    kubegc_examples::cri::block_on(async {
        match run(&arguments).await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    })
}

/// Returns whether all removals succeeded.
async fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let node = arguments.node.open().await?;
    eprintln!("{}", node.about);
    if arguments.watch {
        return watch(&node).await;
    }
    let mut observer = node.driver(node.environment());
    if observer.records().is_empty() {
        observer.detect_images().await;
    }
    let report = observer.read_inventory().await;
    if let Some(error) = &report.pods_error {
        eprintln!("note: {error}");
    }
    let forecast = node_forecast(&report.inventory, &node.policy, NodeFrame::at(node.clock.now()));
    print!("{forecast}");
    let approved = actions(&forecast);
    if approved.is_empty() {
        println!("\nNothing is removed.");
        node.records_file.write(observer.records())?;
        return Ok(true);
    }
    println!("\nTo be removed:");
    approved
        .iter()
        .for_each(|action| println!("  {}", in_words(action)));
    if !arguments.yes && !is_approved()? {
        println!("Nothing was removed.");
        node.records_file.write(observer.records())?;
        return Ok(true);
    }
    let records = observer.records().clone();
    let is_approved = |action: &NodeAction| approved.iter().any(|approved| approved.has_same_object(action));
    let mut driver =
        Node::with_records(node.environment(), node.settings(), records).require_approval(is_approved);
    driver.set_image_gc_began_at(node.records_file.watched_since);
    let containers = driver.collect_containers(Mode::Periodic).await;
    let images = driver.collect_images().await;
    node.records_file.write(driver.records())?;
    // An image that was not approved is an error of the run, but not of this tool.
    let some_not_approved = images
        .performed
        .iter()
        .any(|performed| performed.outcome == Outcome::NotApproved);
    let error = images.error().filter(|_| !some_not_approved);
    let errors: Vec<String> = containers.error().into_iter().chain(error).collect();
    let performed: Vec<Performed> = containers.performed.into_iter().chain(images.performed).collect();
    performed.iter().for_each(print);
    errors.iter().for_each(|error| eprintln!("error: {error}"));
    Ok(errors.is_empty() && !performed.iter().any(failed))
}

/// All actions of the forecast's next runs.
fn actions(forecast: &NodeForecast) -> Vec<NodeAction> {
    let containers = forecast.containers.actions.iter().cloned();
    let sandboxes = forecast.sandboxes.actions.iter().cloned();
    let logs = forecast.logs.iter().flat_map(|logs| logs.actions.iter().cloned());
    let images = forecast
        .images
        .iter()
        .flat_map(|images| images.actions.iter().cloned());
    containers
        .map(NodeAction::Container)
        .chain(sandboxes.map(NodeAction::Sandbox))
        .chain(logs.map(NodeAction::Log))
        .chain(images.map(NodeAction::Image))
        .collect()
}

fn is_approved() -> io::Result<bool> {
    print!("Remove these? [y/N] ");
    io::stdout().flush()?;
    let mut input = String::new();
    io::stdin().read_line(&mut input)?;
    Ok(matches!(input.trim(), "y" | "Y" | "yes"))
}

/// Whether some garbage remains.
fn failed(performed: &Performed) -> bool {
    match &performed.outcome {
        Outcome::NotStopped(error) | Outcome::NotRemoved(error) => *error != RuntimeError::NotFound,
        Outcome::Done | Outcome::Kept(_) | Outcome::NotApproved | Outcome::DryRun => false,
    }
}

fn print(performed: &Performed) {
    let action = in_words(&performed.action);
    match &performed.outcome {
        Outcome::NotApproved => println!("not approved, kept: {action}"),
        Outcome::Done => println!("removed {action}"),
        Outcome::NotStopped(RuntimeError::NotFound) | Outcome::NotRemoved(RuntimeError::NotFound) => {
            println!("no longer exists: {action}");
        }
        Outcome::NotStopped(error) => println!("could not stop {action}: {error}"),
        Outcome::NotRemoved(error) => println!("could not remove {action}: {error}"),
        Outcome::Kept(_) | Outcome::DryRun => println!("stays: {action}"),
    }
}

/// Runs all loops of the kubelet until the process is interrupted. A run in progress is finished first.
async fn watch(node: &OpenNode) -> Result<bool, Box<dyn Error>> {
    // Signals are received from here on, not only while waiting.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    let mut driver = node.driver(node.environment());
    let mut written = Ok(());
    driver
        .run(stop, |report| match report {
            Report::Containers(done) => done.performed.iter().for_each(print),
            Report::Images(done) => {
                done.performed.iter().for_each(print);
                written = node.records_file.write(&done.plan.summary.records);
                if let Err(error) = &written {
                    eprintln!("error: {error}");
                }
            }
            Report::Event(event) => println!("{} {}: {}", event.kind.as_str(), event.reason, event.message),
            _ => {}
        })
        .await;
    node.records_file.write(driver.records())?;
    Ok(written.is_ok())
}
