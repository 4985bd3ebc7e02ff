//! The statuses of a pod that runs, edits, the order of listings, and copies of a node.

use std::sync::Arc;

use kubegc_core::{
    PodSource, Runtime, Timestamp,
    node_facts::{Container, ContainerState, PodIdentity, PodState, SandboxState, label},
};
use kubegc_sim::NodeSettings;

use crate::node::{START, WEB, clock, node, node_with, now, run};

#[test]
fn a_pod_that_runs_is_listed_with_all_that_the_runtime_knows() {
    let node = node();
    let pod = run(&node, "web", WEB);
    let container = node.container(&pod.container_ids[0]).unwrap();
    let sandbox = node.sandbox(&pod.sandbox_id).unwrap();
    let uid = pod.pod.uid.text();

    let image = node.image(WEB).unwrap();
    assert_eq!(image.name(), WEB);
    let content = image.id.strip_prefix("sha256:").unwrap();
    for id in [&*container.id, &*sandbox.id, content] {
        assert!(
            id.len() == 64 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            "{id}"
        );
    }
    assert!(pod.pod.uid.as_uuid().is_some());
    assert_eq!(
        (container.state, sandbox.state),
        (ContainerState::Running, SandboxState::Ready)
    );
    assert_eq!((container.created_at, sandbox.created_at), (START, START));
    assert_eq!(container.sandbox_id, sandbox.id);
    assert_eq!((&container.pod, &sandbox.pod), (&pod.pod, &pod.pod));
    assert_eq!(container.name.as_deref(), Some("app"));
    assert_eq!(
        (&container.image.reference, &container.image.id),
        (&image.id, &image.id)
    );
    for labels in [&container.labels, &sandbox.labels] {
        assert_eq!(PodIdentity::from_labels(labels), pod.pod);
    }
    assert_eq!(
        container.labels.get(label::POD_UID).map(|text| &**text),
        Some(uid.as_str())
    );
    assert_eq!(now(node.containers()).unwrap(), [container]);
    assert_eq!(now(node.sandboxes()).unwrap(), [sandbox]);
    let known = now(node.pods()).unwrap();
    assert_eq!(
        known.known.into_iter().collect::<Vec<_>>(),
        [(pod.pod.uid.clone(), PodState::ACTIVE)]
    );
    assert!(known.sources_ready && known.synced);
}

#[test]
fn a_new_sandbox_of_a_pod_counts_on_and_edits_keep_ids() {
    let node = node();
    let pod = run(&node, "web", WEB);
    let again = node.run_sandbox(&pod.pod);
    assert_eq!(node.sandbox(&again).unwrap().attempt, 1);
    node.edit_sandbox(&again, |sandbox| {
        sandbox.id = "other".into();
        sandbox.pod.uid = "u9".into();
    })
    .unwrap();
    node.edit_container(&pod.container_ids[0], |container| {
        container.id = "other".into();
        container.name = None;
        container.created_at = Timestamp::EPOCH;
    })
    .unwrap();
    let edited = node.container(&pod.container_ids[0]).unwrap();
    assert_eq!((&edited.name, edited.created_at), (&None, Timestamp::EPOCH));
    assert_eq!(node.sandbox(&again).unwrap().id, again);
    // It ends with the pod that its labels name.
    node.forget_pod(&pod.pod.uid);
    assert_eq!(node.sandbox(&again).unwrap().state, SandboxState::Ready);
    node.forget_pod(&"u9".into());
    assert_eq!(node.sandbox(&again).unwrap().state, SandboxState::NotReady);
}

#[test]
fn listings_are_permutations_that_the_seed_repeats() {
    let listed = |seed| {
        let node = node_with(NodeSettings {
            seed,
            ..NodeSettings::default()
        });
        for index in 0..20 {
            run(&node, &format!("web-{index}"), WEB);
        }
        let arrival = node.all_containers();
        let listings: Vec<_> = (0..2).map(|_| now(node.containers()).unwrap()).collect();
        for listing in &listings {
            let sorted = |containers: &[Arc<Container>]| {
                let mut ids: Vec<_> = containers.iter().map(|container| container.id.clone()).collect();
                ids.sort();
                ids
            };
            assert_eq!(sorted(listing), sorted(&arrival));
        }
        let sandboxes = now(node.sandboxes()).unwrap();
        assert_eq!((sandboxes.len(), now(node.images()).unwrap().len()), (20, 2));
        (arrival, listings)
    };
    let (arrival, listings) = listed(7);
    assert_ne!(listings[0], arrival);
    assert_ne!(listings[0], listings[1], "another order each time");
    assert_eq!(listed(7), (arrival, listings.clone()), "repeats");
    assert_ne!(listed(8).1, listings);
}

#[test]
fn clones_are_one_node_and_a_fork_is_another() {
    let node = node();
    let (clone, fork) = (node.clone(), node.fork(clock()));
    run(&clone, "web", WEB);
    assert_eq!(node.all_containers().len(), 1);
    assert!(fork.all_containers().is_empty());
    // With equal calls both draw equal ids.
    assert_eq!(
        run(&fork, "web", WEB).container_ids[0],
        node.all_containers()[0].id
    );
}
