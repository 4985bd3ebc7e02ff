//! Containers, sandboxes and pods: their states, and the operations that end them.

use std::sync::Arc;

use kubegc_core::{
    PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, PodIdentity, PodState, SandboxState, label},
};
use kubegc_sim::{ContainerSpec, NodeSettings, PodSpec, SimNode, runtime::NodeError};

use crate::node::{MISSING, START, WEB, clock, node, node_with, now, run};

fn state(node: &SimNode, id: &str) -> Option<ContainerState> {
    node.container(id).map(|container| container.state)
}

/// A container in each state, in the order of the states.
fn in_each_state(node: &SimNode) -> [(ContainerState, Arc<str>); 4] {
    let pod = run(node, "web", WEB);
    let spec = ContainerSpec::new("other", WEB);
    [
        ContainerState::Created,
        ContainerState::Running,
        ContainerState::Exited,
        ContainerState::Unknown,
    ]
    .map(|state| {
        let id = node.create_container(&pod.sandbox_id, &spec).unwrap();
        node.set_container_state(&id, state).unwrap();
        (state, id)
    })
}

#[test]
fn a_pod_that_runs_is_listed_with_all_that_the_runtime_knows() {
    let node = node();
    let pod = run(&node, "web", WEB);
    let container = node.container(&pod.container_ids[0]).unwrap();
    let sandbox = node.sandbox(&pod.sandbox_id).unwrap();
    let uid = pod.pod.uid.text();

    for id in [&container.id, &sandbox.id] {
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
    let image = node.image(WEB).unwrap();
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
fn stopping_ends_running_and_unknown_containers_and_can_be_repeated() {
    let node = node();
    for (before, id) in in_each_state(&node) {
        let after = match before {
            ContainerState::Created => ContainerState::Created,
            _ => ContainerState::Exited,
        };
        for _ in 0..2 {
            assert_eq!(now(node.stop_container(&id, 2)), Ok(()), "{before:?}");
            assert_eq!(state(&node, &id), Some(after), "{before:?}");
        }
    }
}

#[test]
fn removing_a_container_succeeds_in_every_state_and_again() {
    let node = node();
    for (before, id) in in_each_state(&node) {
        for _ in 0..2 {
            assert_eq!(now(node.remove_container(&id)), Ok(()), "{before:?}");
            assert_eq!(state(&node, &id), None, "{before:?}");
        }
        assert_eq!(now(node.container_status(&id)), Err(RuntimeError::NotFound));
        assert_eq!(now(node.stop_container(&id, 0)), Ok(()));
    }
}

#[test]
fn removing_a_sandbox_removes_its_containers() {
    let node = node();
    let (web, job) = (run(&node, "web", WEB), run(&node, "job", WEB));
    let second = node.restart_container(&web.container_ids[0]).unwrap();
    for _ in 0..2 {
        assert_eq!(now(node.stop_sandbox(&web.sandbox_id)), Ok(()));
        assert_eq!(
            node.sandbox(&web.sandbox_id).unwrap().state,
            SandboxState::NotReady
        );
        assert_eq!(state(&node, &second), Some(ContainerState::Exited));
    }
    for _ in 0..2 {
        assert_eq!(now(node.remove_sandbox(&web.sandbox_id)), Ok(()));
        assert!(node.sandbox(&web.sandbox_id).is_none());
    }
    let left: Vec<_> = node
        .all_containers()
        .iter()
        .map(|container| container.id.clone())
        .collect();
    assert_eq!(left, job.container_ids);
    assert_eq!(
        state(&node, &left[0]),
        Some(ContainerState::Running),
        "another pod's"
    );
}

#[test]
fn missing_objects_are_removed_and_stopped_without_an_error() {
    let node = node();
    assert_eq!(now(node.stop_container(MISSING, 2)), Ok(()));
    assert_eq!(now(node.remove_container(MISSING)), Ok(()));
    assert_eq!(now(node.stop_sandbox(MISSING)), Ok(()));
    assert_eq!(now(node.remove_sandbox(MISSING)), Ok(()));
    assert_eq!(now(node.remove_image("sha256:none", "")), Ok(()));
    assert_eq!(now(node.container_status(MISSING)), Err(RuntimeError::NotFound));
    assert_eq!(now(node.image_id("shop/none:1")), Ok(None));
    assert!(node.violations().is_empty());
}

#[test]
fn a_restart_ends_one_attempt_and_starts_the_next() {
    let node = node();
    let pod = run(&node, "web", WEB);
    node.clock().set(Timestamp::from_secs(1_000_060));
    let first = &pod.container_ids[0];
    let second = node.restart_container(first).unwrap();
    let third = node.restart_container(&second).unwrap();
    let attempts: Vec<_> = node
        .all_containers()
        .iter()
        .map(|container| {
            (
                container.attempt,
                container.state,
                container.created_at.since(START).as_secs(),
            )
        })
        .collect();
    assert_eq!(
        attempts,
        [
            (0, ContainerState::Exited, 0),
            (1, ContainerState::Exited, 60),
            (2, ContainerState::Running, 60)
        ]
    );
    // An attempt that has ended is followed by the next, too.
    node.exit_container(&third).unwrap();
    let fourth = node.restart_container(&third).unwrap();
    assert_eq!(node.container(&fourth).unwrap().attempt, 3);
}

#[test]
fn a_container_needs_a_ready_sandbox_and_an_image_and_starts_only_once() {
    let node = node();
    let pod = run(&node, "web", WEB);
    let missing = node.create_container(&pod.sandbox_id, &ContainerSpec::new("app", "shop/none:1"));
    assert_eq!(
        missing.unwrap_err().to_string(),
        r#"there is no image "shop/none:1""#
    );
    let id = &pod.container_ids[0];
    assert!(matches!(
        node.start_container(id),
        Err(NodeError::State { state: "running", .. })
    ));
    assert_eq!(node.exit_container(id), Ok(()));
    assert!(matches!(
        node.exit_container(id),
        Err(NodeError::State { state: "exited", .. })
    ));
    assert!(matches!(
        node.start_container(id),
        Err(NodeError::State { state: "exited", .. })
    ));
    node.end_sandbox(&pod.sandbox_id).unwrap();
    let late = node.create_container(&pod.sandbox_id, &ContainerSpec::new("app", WEB));
    assert!(matches!(
        late,
        Err(NodeError::State {
            state: "not ready",
            ..
        })
    ));
    assert!(matches!(node.restart_container(id), Err(NodeError::State { .. })));
    assert!(matches!(
        node.exit_container(MISSING),
        Err(NodeError::NotFound { .. })
    ));
    let unpulled = PodSpec::new("shop", "late").container(ContainerSpec::new("app", "shop/none:1"));
    assert!(matches!(node.run_pod(&unpulled), Err(NodeError::NotFound { .. })));
    assert_eq!(node.all_sandboxes().len(), 1, "nothing of it was started");
}

type End = fn(&SimNode, &Uid);

#[test]
fn n2_60_pods_end_in_different_ways() {
    let evicted = PodState {
        evicted: true,
        ..PodState::COMPLETED
    };
    let ends: [(End, Option<PodState>); 5] = [
        (
            |node, uid| node.complete_pod(uid).unwrap(),
            Some(PodState::COMPLETED),
        ),
        (|node, uid| node.evict_pod(uid).unwrap(), Some(evicted)),
        (|node, uid| node.delete_pod(uid).unwrap(), Some(PodState::DELETED)),
        (SimNode::forget_pod, None),
        (
            |node, uid| node.set_pod(uid, PodState::DELETED),
            Some(PodState::DELETED),
        ),
    ];
    for (index, (end, expected)) in ends.into_iter().enumerate() {
        let node = node();
        let (pod, other) = (run(&node, "web", WEB), run(&node, "other", WEB));
        end(&node, &pod.pod.uid);
        let known = node.known_pods().known;
        assert_eq!(known.get(&pod.pod.uid).copied(), expected, "{index}");
        assert_eq!(known.get(&other.pod.uid), Some(&PodState::ACTIVE), "{index}");
        // Setting the state of a pod is the only operation that ends nothing.
        let runs = index == 4;
        let expected = if runs {
            ContainerState::Running
        } else {
            ContainerState::Exited
        };
        assert_eq!(state(&node, &pod.container_ids[0]), Some(expected), "{index}");
        assert_eq!(
            node.sandbox(&pod.sandbox_id).unwrap().state == SandboxState::Ready,
            runs,
            "{index}"
        );
        assert_eq!(
            state(&node, &other.container_ids[0]),
            Some(ContainerState::Running),
            "{index}"
        );
    }
    assert!(matches!(
        node().delete_pod(&"u1".into()),
        Err(NodeError::NotFound { .. })
    ));
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
