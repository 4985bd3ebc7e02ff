//! Collects on this machine's container runtime as the kubelet would: dead containers, sandboxes, logs, then images. It asks first.
//!
//! ```sh
//! sudo -E cargo run --release -p kubegc-examples --features cri --example cri_collect -- --pods manifests:/etc/kubernetes/manifests --node-name edge-7 --records images.json
//! ```
//!
//! What is shown is what may go: whatever else turns out to be garbage meanwhile waits for the next time. How long images have been unused is known
//! only where it is remembered: with `--records`, from one run to the next.
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
        container::Occasion,
        driver::{Approved, NodeAction, Outcome, Performed, Report},
    },
    predict::node::{NodeForecast, NodeFrame, node_forecast},
};
use kubegc_examples::{
    cri::{NodeArguments, OpenNode},
    simulated::in_words,
};

/// Collects on this machine's container runtime, after asking.
#[derive(Parser)]
#[command(after_help = "Exit codes: 0 done, or nothing to do, or not approved; 1 something failed; 2 wrong usage.")]
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all that was tried succeeded.
async fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let node = arguments.node.open().await?;
    eprintln!("{}", node.about);
    if arguments.watch {
        return watch(&node).await;
    }
    let survey = node.driver(node.world()).survey().await;
    if let Some(error) = &survey.pods_error {
        eprintln!("note: {error}");
    }
    let forecast = node_forecast(&survey.inventory, &node.policy, NodeFrame::at(node.clock.now()));
    print!("{forecast}");
    let approved = actions(&forecast);
    if !approved.is_empty() && !arguments.yes && !asked(approved.len())? {
        println!("Nothing was touched.");
        return Ok(true);
    }
    let guard = Approved::new(&*node.runtime, node.world().logs, &approved);
    let mut world = node.world();
    (world.runtime, world.logs) = (&guard, world.logs.is_some().then_some(&guard as _));
    let mut driver = node.driver(world);
    let containers = driver.collect_containers(Occasion::Periodic).await;
    let images = driver.collect_images().await;
    let errors: Vec<String> = containers.error().into_iter().chain(images.error()).collect();
    let performed: Vec<Performed> = containers.performed.into_iter().chain(images.performed).collect();
    performed.iter().for_each(tell);
    errors.iter().for_each(|error| eprintln!("error: {error}"));
    node.remember(driver.records(), driver.watched_since())?;
    Ok(errors.is_empty() && !performed.iter().any(failed))
}

/// What is shown is what may go. Images: what goes for certain, so without records only what goes right after a start.
fn actions(forecast: &NodeForecast) -> Vec<NodeAction> {
    let containers = forecast.containers.actions.iter().cloned().map(NodeAction::Container);
    let sandboxes = forecast.sandboxes.actions.iter().cloned().map(NodeAction::Sandbox);
    let logs = forecast.logs.iter().flat_map(|logs| logs.actions.iter().cloned().map(NodeAction::Log));
    let images = forecast.images_after_restart.as_ref().or(forecast.images.as_ref());
    let images = images.into_iter().flat_map(|images| images.actions.iter().cloned().map(NodeAction::Image));
    containers.chain(sandboxes).chain(logs).chain(images).collect()
}

fn asked(count: usize) -> io::Result<bool> {
    print!("\nRemove these {count}? [y/N] ");
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn failed(performed: &Performed) -> bool {
    match &performed.outcome {
        Outcome::NotStopped(error) | Outcome::NotRemoved(error) => !is_refusal(error),
        Outcome::Done | Outcome::Stays(_) | Outcome::DryRun => false,
    }
}

fn is_refusal(error: &RuntimeError) -> bool {
    *error == RuntimeError::refused(Approved::REFUSAL)
}

fn tell(performed: &Performed) {
    let action = in_words(&performed.action);
    match &performed.outcome {
        Outcome::Done => println!("removed {action}"),
        Outcome::NotStopped(error) | Outcome::NotRemoved(error) if is_refusal(error) => {
            println!("left for the next time: {action}");
        }
        Outcome::NotStopped(error) => println!("could not stop {action}: {error}"),
        Outcome::NotRemoved(error) => println!("could not remove {action}: {error}"),
        Outcome::Stays(_) | Outcome::DryRun => println!("stays: {action}"),
    }
}

/// All loops of the kubelet until somebody interrupts; a pass that is under way is finished first.
async fn watch(node: &OpenNode) -> Result<bool, Box<dyn Error>> {
    let mut driver = node.driver(node.world());
    let stop = async {
        // Without a signal there is no end to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    driver
        .run(stop, |report| match report {
            Report::Containers(done) => done.performed.iter().for_each(tell),
            Report::Images(done) => done.performed.iter().for_each(tell),
            Report::Event(event) => println!("{} {}: {}", event.kind.as_str(), event.reason, event.message),
            _ => {}
        })
        .await;
    node.remember(driver.records(), driver.watched_since())?;
    Ok(true)
}
