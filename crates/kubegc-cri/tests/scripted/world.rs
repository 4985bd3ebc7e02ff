//! A simulated node with objects in every state, and its collectors.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_core::{
    Runtime, Timestamp, Uid,
    node_facts::{ContainerState, LogTarget, annotation},
};
use kubegc_node::{
    Environment, GoDuration, Node, Policy, PolicySpec,
    container::Mode,
    driver::{ContainersReport, ImagesReport, Settings},
    image::Task,
};
use kubegc_sim::{ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode};

/// A node with restarts, a completed, an evicted, a deleted and a forgotten pod, a container of unknown
/// state, a dangling link, and images that are used by living and dead containers, mounted, pinned, or
/// unused.
pub(crate) fn busy() -> (SimNode, SimClock) {
    let clock = SimClock::new(Timestamp::from_secs(1_000_000));
    let settings = NodeSettings {
        capacity_bytes: 10_000,
        ..NodeSettings::default()
    };
    let node = SimNode::new(clock.clone(), settings);
    for image in [
        ImageSpec::new("web:1").layer("base", 2_000).layer("web", 500),
        ImageSpec::new("job:1").layer("base", 2_000).layer("job", 500),
        ImageSpec::new("old:1").layer("old", 1_000),
        ImageSpec::new("older:1").layer("older", 700),
        ImageSpec::new("data:1").layer("data", 500),
        ImageSpec::new("pause:1").layer("pause", 100).pinned(),
    ] {
        node.pull(&image).expect("there is room");
    }
    let run = |name: &str, image: &str, volumes: &[&str]| {
        clock.advance(Duration::from_secs(1));
        let container = ContainerSpec {
            log_bytes: 10,
            image_volumes: volumes.iter().map(|&volume| volume.into()).collect(),
            ..ContainerSpec::new("main", image)
        };
        let pod = PodSpec {
            uid: Some(Uid::new(name)),
            ..PodSpec::new("shop", name).container(container)
        };
        node.run_pod(&pod).expect("it runs")
    };
    let web = run("web", "web:1", &["data:1"]);
    let mut last = Arc::clone(&web.container_ids[0]);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        last = node.restart_container(&last).expect("it restarts");
    }
    run("done", "job:1", &[]);
    node.complete_pod(&Uid::new("done")).expect("known");
    for name in ["evicted", "deleted", "forgotten"] {
        run(name, "job:1", &[]);
    }
    node.evict_pod(&Uid::new("evicted")).expect("known");
    node.delete_pod(&Uid::new("deleted")).expect("known");
    node.forget_pod(&Uid::new("forgotten"));
    let undetermined = run("undetermined", "job:1", &[]);
    node.forget_pod(&Uid::new("undetermined"));
    let unknown = &undetermined.container_ids[0];
    node.set_container_state(unknown, ContainerState::Unknown)
        .expect("there is one");
    node.edit_container(unknown, |container| {
        container
            .annotations
            .insert(annotation::TERMINATION_GRACE_PERIOD.into(), "30".into());
    })
    .expect("there is one");
    node.insert_log_link("/var/log/containers/short-x.log", LogTarget::Missing);
    clock.advance(Duration::from_secs(3_600));
    drop(node.take_calls());
    (node, clock)
}

/// Images of any age can be removed.
fn settings(release: &str) -> Settings {
    let spec = PolicySpec {
        image_minimum_gc_age: GoDuration::ZERO,
        ..PolicySpec::default()
    };
    let release = release.parse().expect("a version that is known");
    Settings::from(&Policy::new(&spec, release).expect("a valid policy"))
}

/// The reports of one run over everything.
#[derive(Debug, PartialEq)]
pub(crate) struct Reports {
    pub(crate) containers: ContainersReport,
    pub(crate) images: ImagesReport,
}

/// Collects once: containers, sandboxes and logs, then so many images that removing both unused ones is enough
/// and removing one of them is not. Logs and pods are the simulated node's own.
pub(crate) async fn collect(
    runtime: &dyn Runtime,
    sim: &SimNode,
    clock: &SimClock,
    release: &str,
) -> Reports {
    let world = Environment {
        runtime,
        logs: Some(sim),
        pods: sim,
        clock,
    };
    let mut node = Node::new(world, settings(release));
    Reports {
        containers: node.collect_containers(Mode::Periodic).await,
        images: node.images(Task::Free { bytes: 1_500 }).await,
    }
}

/// Everything that is left on a node.
pub(crate) fn left(node: &SimNode) -> BTreeSet<String> {
    let containers = node
        .all_containers()
        .into_iter()
        .map(|container| format!("container {}", container.id));
    let sandboxes = node
        .all_sandboxes()
        .into_iter()
        .map(|sandbox| format!("sandbox {}", sandbox.id));
    let images = node
        .all_images()
        .into_iter()
        .map(|image| format!("image {}", image.id));
    let entries = node
        .all_log_entries()
        .into_iter()
        .map(|entry| format!("entry {entry}"));
    let links = node
        .all_log_links()
        .into_iter()
        .map(|link| format!("link {}", link.path));
    containers
        .chain(sandboxes)
        .chain(images)
        .chain(entries)
        .chain(links)
        .collect()
}
