//! The driver over a simulated node, with and without faults.

mod approval;
mod begins;
mod containers;
mod images;
mod inventory;
mod loops;
mod running;

use std::{
    collections::BTreeSet,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures_util::FutureExt;
use kubegc_core::{
    Clock, LogDirectory, PodSource, Runtime, RuntimeError, Uid,
    node_facts::{ContainerState, Pods, annotation},
};
use kubegc_node::{
    Environment, Node, Policy, PolicySpec,
    container::Mode,
    driver::{NodeAction, Outcome, Report, Settings, WithRunning},
    eviction,
    image::Task,
};
use kubegc_sim::{
    ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
    runtime::{Fault, FaultPlan, Harm, Operation, Rule},
};
use proptest::prelude::*;

use crate::{
    pausing::Pausing,
    world::{RELEASES, at, seconds, version},
};

/// The responses of a simulated node, which are immediate.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a simulated node responds at once")
}

fn world<'a, R: Runtime + LogDirectory + PodSource>(runtime: &'a R, clock: &'a SimClock) -> Environment<'a> {
    Environment {
        runtime,
        logs: Some(runtime),
        pods: runtime,
        clock,
    }
}

/// A pod source without pods.
struct NoPods;

#[async_trait::async_trait]
impl PodSource for NoPods {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        Ok(crate::world::pods(&[]))
    }
}

/// A source of the pods that are running in this runtime.
fn running_pods(runtime: Arc<dyn Runtime>) -> impl PodSource {
    WithRunning::new(NoPods, runtime)
}

/// Images of any age are removed from 50 % usage on; one dead container of each name is kept.
fn spec() -> PolicySpec {
    PolicySpec {
        image_gc_high_threshold_percent: 50,
        image_gc_low_threshold_percent: 20,
        image_minimum_gc_age: seconds(0),
        ..PolicySpec::default()
    }
}

fn settings(release: &str) -> Settings {
    Settings::from(&Policy::new(&spec(), version(release)).expect("a valid policy"))
}

/// The expected garbage of a busy node.
struct Busy {
    node: SimNode,
    clock: SimClock,
    /// Its dead containers of an existing pod, the oldest first, and those of removed pods.
    dead: Vec<Arc<str>>,
    orphans: Vec<Arc<str>>,
    gone_sandboxes: Vec<Arc<str>>,
    unused: Arc<str>,
    mounted: Arc<str>,
    pinned: Arc<str>,
}

/// A node with all kinds of objects: restarts, a completed, an evicted, a deleted and a forgotten pod, a
/// container of unknown state, dangling links, and images that are used by running and dead containers,
/// mounted, pinned, or unused.
fn busy() -> Busy {
    let clock = SimClock::new(at(1_000_000));
    let settings = NodeSettings {
        capacity_bytes: 10_000,
        ..NodeSettings::default()
    };
    let node = SimNode::new(clock.clone(), settings);
    let pull = |spec: ImageSpec| node.pull(&spec).expect("there is room");
    pull(ImageSpec::new("web:1").layer("base", 2_000).layer("web", 500));
    pull(ImageSpec::new("job:1").layer("base", 2_000).layer("job", 500));
    let unused = pull(ImageSpec::new("old:1").layer("old", 2_000));
    let mounted = pull(ImageSpec::new("data:1").layer("data", 500));
    let pinned = pull(ImageSpec::new("pause:1").layer("pause", 100).pinned());
    let uid = |name: &str| Uid::new(name);
    let run = |name: &str, image: &str, volumes: &[&str]| {
        clock.advance(Duration::from_secs(1));
        let container = ContainerSpec {
            log_bytes: 10,
            image_volumes: volumes.iter().map(|&volume| volume.into()).collect(),
            ..ContainerSpec::new("main", image)
        };
        let pod = PodSpec {
            uid: Some(uid(name)),
            ..PodSpec::new("shop", name).container(container)
        };
        node.run_pod(&pod).expect("it runs")
    };
    let web = run("web", "web:1", &["data:1"]);
    let mut dead = vec![Arc::clone(&web.container_ids[0])];
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        let last = dead.last().expect("one");
        dead.push(node.restart_container(last).expect("it restarts"));
    }
    let running = dead.pop().expect("the last one runs");
    assert_eq!(
        node.container(&running).map(|container| container.state),
        Some(ContainerState::Running)
    );
    run("done", "job:1", &[]);
    node.complete_pod(&uid("done")).expect("known");
    let mut orphans = Vec::new();
    let mut gone_sandboxes = Vec::new();
    for name in ["evicted", "deleted", "forgotten"] {
        let pod = run(name, "job:1", &[]);
        orphans.extend(pod.container_ids);
        gone_sandboxes.push(pod.sandbox_id);
    }
    node.evict_pod(&uid("evicted")).expect("known");
    node.delete_pod(&uid("deleted")).expect("known");
    node.forget_pod(&uid("forgotten"));
    let undetermined = run("undetermined", "job:1", &[]);
    node.end_sandbox(&undetermined.sandbox_id).expect("there is one");
    node.set_container_state(&undetermined.container_ids[0], ContainerState::Unknown)
        .expect("there is one");
    node.edit_container(&undetermined.container_ids[0], |container| {
        container
            .annotations
            .insert(annotation::TERMINATION_GRACE_PERIOD.into(), "30".into());
    })
    .expect("there is one");
    node.forget_pod(&uid("undetermined"));
    node.set_container_state(&undetermined.container_ids[0], ContainerState::Unknown)
        .expect("there is one");
    orphans.extend(undetermined.container_ids);
    gone_sandboxes.push(undetermined.sandbox_id);
    node.insert_log_entry("123", 20).expect("there is room");
    node.insert_log_link(
        "/var/log/containers/short-x.log",
        kubegc_core::node_facts::LogTarget::Missing,
    );
    node.insert_log_link(
        "/var/log/containers/other-0123456789.log",
        kubegc_core::node_facts::LogTarget::Unknown,
    );
    clock.advance(Duration::from_secs(3_600));
    drop(node.take_calls());
    Busy {
        node,
        clock,
        dead,
        orphans,
        gone_sandboxes,
        unused,
        mounted,
        pinned,
    }
}

/// The remaining objects of a node.
fn left(node: &SimNode) -> Vec<BTreeSet<String>> {
    vec![
        node.all_containers()
            .iter()
            .map(|container| container.id.to_string())
            .collect(),
        node.all_sandboxes()
            .iter()
            .map(|sandbox| sandbox.id.to_string())
            .collect(),
        node.all_images()
            .iter()
            .map(|image| image.id.to_string())
            .collect(),
        node.all_log_entries().iter().map(ToString::to_string).collect(),
        node.all_log_links()
            .iter()
            .map(|link| link.path.to_string())
            .collect(),
    ]
}

fn faulty(node: &SimNode, rules: Vec<Rule>) -> FaultyRuntime<SimNode> {
    let plan = FaultPlan {
        rules,
        ..FaultPlan::default()
    };
    FaultyRuntime::new(node.clone(), plan)
}

fn refuse() -> Fault {
    Fault::Refuse(RuntimeError::refused("device busy"))
}

fn operations(node: &SimNode) -> Vec<Operation> {
    node.calls().iter().map(|call| call.operation).collect()
}
