//! The pods that exist according to their running objects.

use kubegc_core::node_facts::{Container, PodState, Sandbox, SandboxState};
use kubegc_node::driver::{WithRunning, add_created_since, add_running};

use super::{begins::between, *};
use crate::world::{EVICTED, dead, in_state, pods, sandbox};

/// A container of a pod, in a sandbox and a state.
fn container(uid: &str, sandbox_id: &str, state: ContainerState) -> Container {
    Container {
        sandbox_id: sandbox_id.into(),
        ..in_state(state, dead(&format!("{uid} {state:?}"), uid, "main", 0))
    }
}

#[test]
fn a_pod_is_known_while_a_sandbox_or_container_of_it_runs() {
    use ContainerState::{Created, Exited, Running, Unknown};
    use SandboxState::{NotReady, Ready};
    type Case = (Vec<Sandbox>, Vec<Container>, &'static [&'static str]);
    let cases: [Case; 10] = [
        (vec![sandbox("s", "a", Ready, 0)], vec![], &["a"]),
        (vec![sandbox("s", "a", NotReady, 0)], vec![], &[]),
        (vec![], vec![container("a", "s", Running)], &["a"]),
        (vec![], vec![container("a", "s", Created)], &["a"]),
        (vec![], vec![container("a", "s", Unknown)], &["a"]),
        (vec![], vec![container("a", "s", Exited)], &[]),
        // Containers without labels, in a ready and in an ended sandbox.
        (
            vec![sandbox("s", "a", Ready, 0)],
            vec![container("", "s", Exited)],
            &["", "a"],
        ),
        (
            vec![sandbox("s", "a", NotReady, 0)],
            vec![container("", "s", Running), container("b", "s", Exited)],
            &["", "a", "b"],
        ),
        // Containers that name no sandbox do not protect each other.
        (
            vec![],
            vec![container("a", "", Running), container("b", "", Exited)],
            &["a"],
        ),
        (
            vec![sandbox("s1", "a", Ready, 0), sandbox("s2", "b", NotReady, 0)],
            vec![container("a", "s1", Exited), container("b", "s2", Exited)],
            &["a"],
        ),
    ];
    for (sandboxes, containers, expected) in cases {
        let mut known = Pods::default();
        let containers: Vec<_> = containers.into_iter().map(Arc::new).collect();
        let sandboxes: Vec<_> = sandboxes.into_iter().map(Arc::new).collect();
        add_running(&mut known, &containers, &sandboxes);
        let living = expected.iter().map(|&uid| (Uid::new(uid), PodState::ACTIVE));
        let expected = Pods {
            known: living.collect(),
            ..Pods::default()
        };
        assert_eq!(known, expected, "{sandboxes:?} {containers:?}");
    }
}

#[test]
fn n2_60_running_pods_have_not_terminated_and_other_known_states_stay() {
    let deleted = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    for (said, runs, expected) in [
        (PodState::COMPLETED, true, PodState::ACTIVE),
        (PodState::COMPLETED, false, PodState::COMPLETED),
        (PodState::DELETED, true, deleted),
        (PodState::DELETED, false, PodState::DELETED),
        (EVICTED, true, EVICTED),
        (PodState::ACTIVE, false, PodState::ACTIVE),
    ] {
        let mut known = Pods {
            synced: false,
            ..pods(&[("a", said), ("elsewhere", PodState::DELETED)])
        };
        let state = if runs {
            ContainerState::Unknown
        } else {
            ContainerState::Exited
        };
        add_running(&mut known, &[Arc::new(container("a", "s", state))], &[]);
        let expected = Pods {
            synced: false,
            ..pods(&[("a", expected), ("elsewhere", PodState::DELETED)])
        };
        assert_eq!(known, expected, "{said:?} {runs}");
    }
}

#[test]
fn pods_that_started_after_a_source_was_read_are_known() {
    use SandboxState::{NotReady, Ready};
    let aged = |uid: &str, at_seconds: i64| dead(&format!("{uid} {at_seconds}"), uid, "main", at_seconds);
    let containers = [
        aged("old", 99),
        aged("young", 100),
        aged("", 101),
        aged("again", 5),
        aged("again", 200),
    ];
    let sandboxes = [
        sandbox("s1", "old sandbox", Ready, 99),
        sandbox("s2", "young sandbox", NotReady, 100),
        sandbox("s3", "reported", NotReady, 101),
    ];
    let said = pods(&[
        ("reported", PodState::DELETED),
        ("elsewhere", PodState::COMPLETED),
    ]);
    let mut known = said.clone();
    let containers: Vec<_> = containers.into_iter().map(Arc::new).collect();
    let sandboxes: Vec<_> = sandboxes.into_iter().map(Arc::new).collect();
    add_created_since(&mut known, &containers, &sandboxes, at(100));
    let mut expected = said;
    for uid in ["young", "", "again", "young sandbox"] {
        expected.known.insert(Uid::new(uid), PodState::ACTIVE);
    }
    assert_eq!(known, expected);
}

#[test]
fn a_sandbox_that_is_created_between_the_listings_is_known() {
    for start in 0..5 {
        for with_container in [false, true] {
            let busy = busy();
            let pausing = Arc::new(Pausing {
                inner: busy.node.clone(),
                clock: busy.clock.clone(),
                listing_takes: Duration::ZERO,
            });
            let source = WithRunning::new(busy.node.fork(busy.clock.clone()), pausing);
            drop(busy.node.take_calls());
            let name = format!("new{}", busy.node.all_sandboxes().len());
            let mut in_time = false;
            let (reported, _) = between(source.pods(), |calls| {
                if calls != start {
                    return;
                }
                in_time = !operations(&busy.node).contains(&Operation::Sandboxes);
                let id = busy.node.run_sandbox(&crate::world::pod(&name));
                if with_container {
                    let spec = ContainerSpec::new("main", "web:1");
                    busy.node.create_container(&id, &spec).expect("there is room");
                }
            });
            assert_eq!(in_time, start < 4, "{start}");
            let known = reported.expect("a response").known.contains_key(&Uid::new(&name));
            assert_eq!(known, in_time, "{start} {with_container}");
        }
    }
}

#[test]
fn a_failed_listing_makes_the_pods_unknown() {
    for operation in [Operation::Sandboxes, Operation::Containers] {
        for fault in [refuse(), Fault::LoseResponse, Fault::Die] {
            let busy = busy();
            let runtime = Arc::new(faulty(&busy.node, vec![Rule::always(operation, fault.clone())]));
            let source = WithRunning::new(busy.node.clone(), runtime);
            assert!(now(source.pods()).is_err(), "{operation:?} {fault:?}");
            let world = Environment {
                pods: &source,
                ..world(&busy.node, &busy.clock)
            };
            let node = Node::new(world, settings("1.36.0"));
            let report = now(node.collect_containers(Mode::Forced));
            let errors = report.errors;
            assert!(
                errors.iter().all(|error| error.starts_with("list pods: ")),
                "{errors:?}"
            );
            assert_eq!(errors.len(), 3, "{operation:?} {fault:?}");
            let left: BTreeSet<_> = busy.node.all_log_entries().into_iter().collect();
            assert!(left.contains("123"), "no log directory is removed");
            assert!(
                busy.gone_sandboxes
                    .iter()
                    .all(|id| busy.node.sandbox(id).is_some())
            );
        }
    }
    let busy = busy();
    let runtime = faulty(&busy.node, vec![Rule::always(Operation::Pods, refuse())]);
    let combined = WithRunning::new(runtime, Arc::new(busy.node.clone()));
    assert_eq!(now(combined.pods()), Err(RuntimeError::refused("device busy")));
}

#[test]
fn an_outdated_source_is_corrected_about_running_pods() {
    let busy = busy();
    // A source listed the pods before one existed, and another as ended.
    let behind = busy.node.fork(busy.clock.clone());
    behind.set_pod(&Uid::new("web"), PodState::DELETED);
    let late = PodSpec {
        uid: Some(Uid::new("late")),
        ..PodSpec::new("shop", "late").container(ContainerSpec::new("main", "web:1"))
    };
    busy.node.run_pod(&late).expect("it runs");
    let combined = WithRunning::new(behind, Arc::new(busy.node.clone()));
    let reported = now(combined.pods()).expect("a response");
    assert_eq!(reported.known.get(&Uid::new("late")), Some(&PodState::ACTIVE));
    let ending = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    assert_eq!(reported.known.get(&Uid::new("web")), Some(&ending));
    assert!(reported.sources_ready && reported.synced);
}
