//! A simulated node with objects in every state.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{ContainerState, LogTarget, annotation},
};
use kubegc_sim::{ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode};

/// A node with restarts, a completed, an evicted, a deleted and a forgotten pod, a container of unknown state,
/// dangling links, and images that are used by running and dead containers, mounted, pinned, or unused.
pub(crate) fn busy_node() -> (SimNode, SimClock) {
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
    let mut last = Arc::clone(&web.container_ids[0]);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        last = node.restart_container(&last).expect("it restarts");
    }
    run("done", "job:1", &[]);
    node.complete_pod(&uid("done")).expect("known");
    for name in ["evicted", "deleted", "forgotten"] {
        run(name, "job:1", &[]);
    }
    node.evict_pod(&uid("evicted")).expect("known");
    node.delete_pod(&uid("deleted")).expect("known");
    node.forget_pod(&uid("forgotten"));
    let undetermined = run("undetermined", "job:1", &[]);
    let unknown = &undetermined.container_ids[0];
    node.end_sandbox(&undetermined.sandbox_id).expect("there is one");
    node.forget_pod(&uid("undetermined"));
    node.set_container_state(unknown, ContainerState::Unknown)
        .expect("there is one");
    node.edit_container(unknown, |container| {
        container
            .annotations
            .insert(annotation::TERMINATION_GRACE_PERIOD.into(), "30".into());
    })
    .expect("there is one");
    node.insert_log_entry("123", 20).expect("there is room");
    node.insert_log_link("/var/log/containers/short-x.log", LogTarget::Missing);
    node.insert_log_link("/var/log/containers/other-0123456789.log", LogTarget::Unknown);
    clock.advance(Duration::from_secs(3_600));
    drop(node.take_calls());
    (node, clock)
}

/// Everything that is left on a node.
pub(crate) fn left(node: &SimNode) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for container in node.all_containers() {
        left.insert(format!("container {}", container.id));
    }
    for sandbox in node.all_sandboxes() {
        left.insert(format!("sandbox {}", sandbox.id));
    }
    for image in node.all_images() {
        left.insert(format!("image {}", image.id));
    }
    for entry in node.all_log_entries() {
        left.insert(format!("entry {entry}"));
    }
    for link in node.all_log_links() {
        left.insert(format!("link {}", link.path));
    }
    left
}
