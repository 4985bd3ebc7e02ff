//! How does a node without a kubelet collect its garbage? An agent runs static pods on a small device and
//! lets the driver clean up after them.
//!
//! `cargo run -p kubegc-examples --example edge_agent`
//!
//! One hour on the device: an update fills the disk, the runtime refuses to remove an image once, an app
//! crashes, and the runtime loses sight of a container. Prints `expected/edge_agent.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    collections::BTreeMap,
    error::Error,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use async_trait::async_trait;
use kubegc::{
    core::{
        Clock as _, KubernetesVersion, PodSource, RuntimeError, Timestamp,
        node_facts::{ContainerState, PodState, Pods},
    },
    node::{
        Environment, Node, Policy, PolicySpec,
        driver::{Outcome, Performed, Report, Settings},
    },
    sim::{
        ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
        runtime::{Fault, FaultPlan, Operation, Rule, RunningPod},
    },
};

use kubegc_examples::simulated::in_words;

const MB: u64 = 1_000_000;

/// The pods that the device should run, by app. Everything else in the runtime is garbage.
#[derive(Default)]
struct StaticPods(Mutex<BTreeMap<&'static str, RunningPod>>);

#[async_trait]
impl PodSource for StaticPods {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let pods = self.lock();
        let known = pods
            .values()
            .map(|running| (running.pod.uid.clone(), PodState::ACTIVE));
        let (sources_ready, synced) = (true, true);
        Ok(Pods {
            known: known.collect(),
            sources_ready,
            synced,
        })
    }
}

impl StaticPods {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, RunningPod>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an app in a version; the pod of its former version ends, and becomes garbage.
    fn run(
        &self,
        device: &SimNode,
        app: &'static str,
        version: u32,
        size_mb: u64,
    ) -> Result<(), Box<dyn Error>> {
        let tag = format!("{app}:{version}");
        device.pull(
            &ImageSpec::new(&tag)
                .layer("base", 300 * MB)
                .layer(&tag, size_mb * MB),
        )?;
        let pod = device.run_pod(&PodSpec::new("edge", app).container(ContainerSpec::new(app, &tag)))?;
        if let Some(former) = self.lock().insert(app, pod) {
            device.delete_pod(&former.pod.uid)?;
            device.forget_pod(&former.pod.uid);
        }
        Ok(())
    }

    /// Crashes and restarts an app.
    fn crash(&self, device: &SimNode, app: &str) -> Result<(), Box<dyn Error>> {
        let mut pods = self.lock();
        let running = pods.get_mut(app).ok_or("no such app")?;
        device.exit_container(&running.container_ids[0])?;
        running.container_ids[0] = device.restart_container(&running.container_ids[0])?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = SimClock::new(Timestamp::EPOCH);
    let disk = NodeSettings {
        capacity_bytes: 16_000 * MB,
        ..NodeSettings::default()
    };
    let device = SimNode::new(clock.clone(), disk);
    device.fill(8_600 * MB);
    let pods = StaticPods::default();
    for (app, size_mb) in [("camera", 600), ("detector", 2_400), ("uplink", 200)] {
        pods.run(&device, app, 1, size_mb)?;
    }
    let busy = Fault::Refuse(RuntimeError::refused("device or resource busy"));
    let mut faults = FaultPlan::default();
    faults.rules.push(Rule {
        times: 1,
        ..Rule::always(Operation::RemoveImage, busy)
    });
    let runtime = FaultyRuntime::new(device.clone(), faults);

    let settings = Settings::from(&Policy::new(&PolicySpec::default(), KubernetesVersion::LATEST)?);
    let (logs, now) = (Some(&device as _), || clock.now());
    let mut agent = Node::new(
        Environment {
            runtime: &runtime,
            logs,
            pods: &pods,
            clock: &clock,
        },
        settings,
    );
    let mut agent = pin!(agent.run(pending(), |done| report(now(), &done)));
    for minute in 0..60 {
        match minute {
            12 => {
                log(now(), "detector:2 replaces detector:1");
                pods.run(&device, "detector", 2, 2_600)?;
            }
            31..=33 => {
                log(now(), "camera crashes and is started again");
                pods.crash(&device, "camera")?;
            }
            44 => {
                log(
                    now(),
                    "uplink:2 replaces uplink:1, of which the runtime no longer knows whether it runs",
                );
                let lost = pods
                    .lock()
                    .get("uplink")
                    .map(|running| Arc::clone(&running.container_ids[0]));
                pods.run(&device, "uplink", 2, 220)?;
                device.set_container_state(&lost.ok_or("no such app")?, ContainerState::Unknown)?;
            }
            _ => {}
        }
        // Any executor would do. Here each second of simulated time is one poll.
        for _ in 0..60 {
            let _never_ends = agent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            clock.advance(Duration::from_secs(1));
        }
    }
    let left: Vec<String> = device
        .all_images()
        .iter()
        .map(|image| image.name().to_owned())
        .collect();
    log(
        now(),
        &format!(
            "images left: {}; harm done: {}",
            left.join(", "),
            device.violations().len()
        ),
    );
    Ok(())
}

fn log(now: Timestamp, what: &str) {
    println!("{}  {what}", &now.to_string()[11..19]);
}

/// Prints a line for each event, each action with its outcome, and each failed run.
fn report(now: Timestamp, done: &Report) {
    let (performed, error): (&[Performed], _) = match done {
        Report::Containers(done) => (&done.performed, done.error()),
        Report::Images(done) => (&done.performed, done.error()),
        Report::Event(event) | Report::ContainerEvent { event, .. } => {
            let kind = event.kind.as_str();
            return log(
                now,
                &format!("  {kind} event {}: {}", event.reason, event.message),
            );
        }
        _ => return,
    };
    for Performed { action, outcome } in performed {
        let action = in_words(action);
        match outcome {
            Outcome::Done => log(now, &format!("  removed {action}")),
            Outcome::NotRemoved(error) => log(now, &format!("  could not remove {action}: {error}")),
            other => log(now, &format!("  {other:?}: {action}")),
        }
    }
    if let Some(error) = error {
        log(now, &format!("  the pass failed: {error}"));
    }
}
