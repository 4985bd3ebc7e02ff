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
        driver::{Approved, NodeAction, Outcome, Performed, Report},
    },
    predict::node::{NodeForecast, NodeFrame, node_forecast},
};
use kubegc_examples::{
    cri::{NodeArguments, OpenNode},
    simulated::in_words,
};
use tokio::signal::unix::{SignalKind, signal};

/// Collects on this machine's container runtime, after asking.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 done, or nothing to do, or not approved; 1 something failed; 2 wrong usage."
)]
struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Go on as the kubelet does, at its periods, until interrupted.
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

/// Whether all that was tried succeeded.
async fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let node = arguments.node.open().await?;
    eprintln!("{}", node.about);
    if arguments.watch {
        return watch(&node).await;
    }
    let mut looking = node.driver(node.world());
    if looking.records().is_empty() {
        looking.detect_images().await;
    }
    let survey = looking.read_inventory().await;
    if let Some(error) = &survey.pods_error {
        eprintln!("note: {error}");
    }
    let forecast = node_forecast(&survey.inventory, &node.policy, NodeFrame::at(node.clock.now()));
    print!("{forecast}");
    let approved = actions(&forecast);
    if approved.is_empty() {
        println!("\nNothing is removed.");
        node.memory.write(looking.records())?;
        return Ok(true);
    }
    println!("\nTo be removed:");
    approved
        .iter()
        .for_each(|action| println!("  {}", in_words(action)));
    if !arguments.yes && !is_approved()? {
        println!("Nothing was touched.");
        node.memory.write(looking.records())?;
        return Ok(true);
    }
    let guard = Approved::new(&*node.runtime, node.world().logs, &approved);
    let mut world = node.world();
    (world.runtime, world.logs) = (&guard, world.logs.is_some().then_some(&guard as _));
    let mut driver = Node::with_records(world, node.settings(), looking.records().clone());
    driver.set_image_gc_began_at(node.memory.watched_since);
    let containers = driver.collect_containers(Mode::Periodic).await;
    let images = driver.collect_images().await;
    node.memory.write(driver.records())?;
    // A refusal to remove what was not approved is an error of the run, too.
    let kept_back = images.performed.iter().any(is_left);
    let error = images.error().filter(|_| !kept_back);
    let errors: Vec<String> = containers.error().into_iter().chain(error).collect();
    let performed: Vec<Performed> = containers.performed.into_iter().chain(images.performed).collect();
    performed.iter().for_each(print);
    errors.iter().for_each(|error| eprintln!("error: {error}"));
    Ok(errors.is_empty() && !performed.iter().any(failed))
}

/// All that the forecast foresees to go at the next passes.
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
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Whether something stays because it was not shown.
fn is_left(performed: &Performed) -> bool {
    let refusal = RuntimeError::refused(Approved::REFUSAL);
    matches!(&performed.outcome, Outcome::NotStopped(error) | Outcome::NotRemoved(error) if *error == refusal)
}

/// Whether some garbage remains.
fn failed(performed: &Performed) -> bool {
    match &performed.outcome {
        Outcome::NotStopped(error) | Outcome::NotRemoved(error) => {
            !is_left(performed) && *error != RuntimeError::NotFound
        }
        Outcome::Done | Outcome::Kept(_) | Outcome::DryRun => false,
    }
}

fn print(performed: &Performed) {
    let action = in_words(&performed.action);
    match &performed.outcome {
        _ if is_left(performed) => println!("left for the next time: {action}"),
        Outcome::Done => println!("removed {action}"),
        Outcome::NotStopped(RuntimeError::NotFound) | Outcome::NotRemoved(RuntimeError::NotFound) => {
            println!("no longer exists: {action}");
        }
        Outcome::NotStopped(error) => println!("could not stop {action}: {error}"),
        Outcome::NotRemoved(error) => println!("could not remove {action}: {error}"),
        Outcome::Kept(_) | Outcome::DryRun => println!("stays: {action}"),
    }
}

/// All loops of the kubelet until the process is interrupted; a pass that is under way is
/// finished first.
async fn watch(node: &OpenNode) -> Result<bool, Box<dyn Error>> {
    // Signals are received from here on, not only from the first wait on.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    let mut driver = node.driver(node.world());
    let mut written = Ok(());
    driver
        .run(stop, |report| match report {
            Report::Containers(done) => done.performed.iter().for_each(print),
            Report::Images(done) => {
                done.performed.iter().for_each(print);
                written = node.memory.write(&done.plan.summary.records);
                if let Err(error) = &written {
                    eprintln!("error: {error}");
                }
            }
            Report::Event(event) => println!("{} {}: {}", event.kind.as_str(), event.reason, event.message),
            _ => {}
        })
        .await;
    node.memory.write(driver.records())?;
    Ok(written.is_ok())
}
