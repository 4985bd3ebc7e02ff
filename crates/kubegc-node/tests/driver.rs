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
    node_facts::{Container, ContainerState, PodIdentity, Pods},
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
    busy::{busy_node, left},
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

/// A busy node, and its garbage, the oldest first.
struct Busy {
    node: SimNode,
    clock: SimClock,
    /// The dead containers of a running pod, and all those of removed pods.
    dead: Vec<Arc<str>>,
    orphans: Vec<Arc<str>>,
    gone_sandboxes: Vec<Arc<str>>,
    unused: Arc<str>,
    mounted: Arc<str>,
    pinned: Arc<str>,
}

fn busy() -> Busy {
    let (node, clock) = busy_node();
    let is_gone = |pod: &PodIdentity| !["web", "done"].contains(&&*pod.name);
    let containers = node.all_containers();
    let is_dead = |container: &Container| container.state != ContainerState::Running;
    let ids = |is: &dyn Fn(&Container) -> bool| {
        let found = containers.iter().filter(|container| is(container));
        found.map(|container| Arc::clone(&container.id)).collect()
    };
    let dead = ids(&|container| &*container.pod.name == "web" && is_dead(container));
    let orphans = ids(&|container| is_gone(&container.pod));
    let sandboxes = node.all_sandboxes();
    let gone_sandboxes = sandboxes.iter().filter(|sandbox| is_gone(&sandbox.pod));
    let gone_sandboxes = gone_sandboxes.map(|sandbox| Arc::clone(&sandbox.id)).collect();
    let images = node.all_images();
    let image = |name: &str| {
        let found = images.iter().find(|image| image.name() == name);
        Arc::clone(&found.expect("it was pulled").id)
    };
    let [unused, mounted, pinned] = ["old:1", "data:1", "pause:1"].map(image);
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
