//! The pods that exist according to their running objects, and the objects that a run keeps.

use std::collections::BTreeMap;

use kubegc_core::node_facts::{Container, PodState, Sandbox, SandboxState};
use kubegc_node::driver::{ReadySandboxes, WithRunning, add_created_since, add_running};

use super::{begins::between, *};
use crate::world::{EVICTED, dead, in_state, pods, sandbox};

fn ready(node: &SimNode) -> ReadySandboxes {
    ReadySandboxes::new(Arc::new(node.clone()))
}

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
    type Case = (
        &'static str,
        Vec<Sandbox>,
        Vec<Container>,
        &'static [&'static str],
    );
    let cases: [Case; 13] = [
        ("nothing", vec![], vec![], &[]),
        (
            "a ready sandbox",
            vec![sandbox("s", "a", Ready, 0)],
            vec![],
            &["a"],
        ),
        (
            "an ended sandbox",
            vec![sandbox("s", "a", NotReady, 0)],
            vec![],
            &[],
        ),
        (
            "an older one ended",
            vec![sandbox("s1", "a", NotReady, 0), sandbox("s2", "a", Ready, 1)],
            vec![],
            &["a"],
        ),
        (
            "a running container",
            vec![],
            vec![container("a", "s", Running)],
            &["a"],
        ),
        (
            "a created container",
            vec![],
            vec![container("a", "s", Created)],
            &["a"],
        ),
        (
            "one of unknown state",
            vec![],
            vec![container("a", "s", Unknown)],
            &["a"],
        ),
        ("a dead container", vec![], vec![container("a", "s", Exited)], &[]),
        (
            "a dead container in an ended sandbox",
            vec![sandbox("s", "a", NotReady, 0)],
            vec![container("a", "s", Exited)],
            &[],
        ),
        (
            "a dead container without labels in a ready sandbox",
            vec![sandbox("s", "a", Ready, 0)],
            vec![container("", "s", Exited)],
            &["", "a"],
        ),
        (
            "a running container without labels in an ended sandbox",
            vec![sandbox("s", "a", NotReady, 0)],
            vec![container("", "s", Running), container("b", "s", Exited)],
            &["", "a", "b"],
        ),
        (
            "containers that name no sandbox do not protect each other",
            vec![],
            vec![container("a", "", Running), container("b", "", Exited)],
            &["a"],
        ),
        (
            "two pods",
            vec![sandbox("s1", "a", Ready, 0), sandbox("s2", "b", NotReady, 0)],
            vec![container("a", "s1", Exited), container("b", "s2", Exited)],
            &["a"],
        ),
    ];
    for (name, sandboxes, containers, expected) in cases {
        let mut known = Pods::default();
        let containers: Vec<_> = containers.into_iter().map(Arc::new).collect();
        let sandboxes: Vec<_> = sandboxes.into_iter().map(Arc::new).collect();
        add_running(&mut known, &containers, &sandboxes);
        let living = expected.iter().map(|&uid| (Uid::new(uid), PodState::ACTIVE));
        let expected = Pods {
            known: living.collect(),
            ..Pods::default()
        };
        assert_eq!(known, expected, "{name}");
    }
}

#[test]
fn n2_60_running_pods_have_not_terminated_and_other_known_states_stay() {
    let both = |deleted| PodState {
        evicted: true,
        deleted,
        terminated: true,
    };
    for (said, containers, sandbox_ready, expected) in [
        (
            PodState::COMPLETED,
            ContainerState::Running,
            true,
            PodState::ACTIVE,
        ),
        (
            PodState::COMPLETED,
            ContainerState::Exited,
            true,
            PodState::ACTIVE,
        ),
        (
            PodState::COMPLETED,
            ContainerState::Exited,
            false,
            PodState::COMPLETED,
        ),
        (
            PodState::GONE,
            ContainerState::Exited,
            true,
            PodState {
                deleted: true,
                ..PodState::ACTIVE
            },
        ),
        (PodState::GONE, ContainerState::Exited, false, PodState::GONE),
        (
            PodState::GONE,
            ContainerState::Unknown,
            false,
            PodState {
                deleted: true,
                ..PodState::ACTIVE
            },
        ),
        (both(false), ContainerState::Running, true, EVICTED),
        (both(true), ContainerState::Exited, false, both(true)),
        (PodState::ACTIVE, ContainerState::Exited, false, PodState::ACTIVE),
    ] {
        for (sources_ready, synced) in [(false, false), (true, false), (true, true)] {
            let mut known = Pods {
                sources_ready,
                synced,
                ..pods(&[("a", said), ("elsewhere", PodState::GONE)])
            };
            let state = if sandbox_ready {
                SandboxState::Ready
            } else {
                SandboxState::NotReady
            };
            add_running(
                &mut known,
                &[Arc::new(container("a", "s", containers))],
                &[Arc::new(sandbox("s", "a", state, 0))],
            );
            let expected = Pods {
                sources_ready,
                synced,
                ..pods(&[("a", expected), ("elsewhere", PodState::GONE)])
            };
            assert_eq!(known, expected, "{said:?} {containers:?} {sandbox_ready}");
        }
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
    let said = pods(&[("reported", PodState::GONE), ("elsewhere", PodState::COMPLETED)]);
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
fn if_nothing_runs_nothing_is_known_and_no_pod_counts_as_removed() {
    let busy = busy();
    for sandbox in busy.node.all_sandboxes() {
        drop(busy.node.end_sandbox(&sandbox.id));
    }
    for state in [ContainerState::Unknown, ContainerState::Exited] {
        let undetermined = busy.orphans.last().expect("one");
        busy.node
            .set_container_state(undetermined, state)
            .expect("there is one");
        let known = now(ready(&busy.node).pods()).map(|pods| pods.known.into_keys().collect());
        let may_run = (state == ContainerState::Unknown).then(|| vec![Uid::new("undetermined")]);
        assert_eq!(known.ok(), may_run, "{state:?}");
    }
    let logs = busy.node.all_log_entries();
    let sandboxes = busy.node.all_sandboxes();
    let source = ready(&busy.node);
    let world = Environment {
        pods: &source,
        ..world(&busy.node, &busy.clock)
    };
    let report = now(Node::new(world, settings("1.36.0")).collect_containers(Mode::Forced));
    let expected = "list pods: no pod is running: no sandbox is ready, and all containers have exited; \
        the runtime may be the wrong one, or the machine may have just booted";
    assert_eq!(report.errors, [expected; 3]);
    assert_eq!(busy.node.all_log_entries(), logs);
    assert_eq!(busy.node.all_sandboxes(), sandboxes);
    let empty = SimNode::new(busy.clock.clone(), NodeSettings::default());
    assert!(now(ready(&empty).pods()).is_err());
    let combined = WithRunning::new(busy.node.clone(), Arc::new(empty));
    assert!(
        now(combined.pods()).is_ok(),
        "the other source responds as before"
    );
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
            let alone = ReadySandboxes::new(Arc::clone(&pausing) as _);
            let combined = WithRunning::new(busy.node.fork(busy.clock.clone()), pausing);
            for source in [&alone as &dyn PodSource, &combined] {
                drop(busy.node.take_calls());
                let name = format!("new{}", busy.node.all_sandboxes().len());
                let mut in_time = false;
                let (reported, _) = between(source.pods(), |calls| {
                    if calls != start {
                        return;
                    }
                    in_time = !operations(&busy.node).contains(&Operation::Sandboxes);
                    let id = busy
                        .node
                        .run_sandbox(&crate::world::pod(&name))
                        .expect("there is room");
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
}

#[test]
fn a_failed_listing_makes_the_pods_unknown() {
    for operation in [Operation::Sandboxes, Operation::Containers] {
        for fault in [refuse(), Fault::LoseResponse, Fault::Die] {
            let busy = busy();
            let runtime = Arc::new(faulty(&busy.node, vec![Rule::always(operation, fault.clone())]));
            let alone = ReadySandboxes::new(Arc::clone(&runtime) as _);
            let combined = WithRunning::new(busy.node.clone(), runtime);
            for source in [&alone as &dyn PodSource, &combined] {
                assert!(now(source.pods()).is_err(), "{operation:?} {fault:?}");
                let world = Environment {
                    pods: source,
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
            }
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
fn an_outdated_source_removes_nothing_of_a_running_pod() {
    let busy = busy();
    // A source listed the pods before one existed, and another as ended.
    let behind = busy.node.fork(busy.clock.clone());
    behind.set_pod(&Uid::new("web"), PodState::GONE);
    let late = PodSpec {
        uid: Some(Uid::new("late")),
        ..PodSpec::new("shop", "late").container(ContainerSpec::new("main", "web:1"))
    };
    let late = busy.node.run_pod(&late).expect("it runs");
    let combined = WithRunning::new(behind, Arc::new(busy.node.clone()));
    let reported = now(combined.pods()).expect("a response");
    assert_eq!(reported.known.get(&Uid::new("late")), Some(&PodState::ACTIVE));
    let ending = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    assert_eq!(reported.known.get(&Uid::new("web")), Some(&ending));
    assert!(reported.sources_ready && reported.synced);
    let world = Environment {
        pods: &combined,
        ..world(&busy.node, &busy.clock)
    };
    let node = Node::new(world, settings("1.36.0"));
    now(node.collect_containers(Mode::Forced));
    let logs = busy.node.all_log_entries();
    for name in ["web", "late"] {
        let entry: Arc<str> = format!("shop_{name}_{name}").into();
        assert!(logs.contains(&entry), "{name}: {logs:?}");
    }
    assert!(busy.node.container(&late.container_ids[0]).is_some());
    let entry: Arc<str> = "shop_deleted_deleted".into();
    assert!(
        !logs.contains(&entry),
        "objects of deleted pods that do not run are removed all the same"
    );
}

#[test]
fn ended_pods_are_removed_and_running_ones_are_kept() {
    let busy = busy();
    busy.node.set_pods_known(false, false);
    let source = ready(&busy.node);
    let reported = now(source.pods()).expect("a response");
    let known: Vec<String> = reported.known.keys().map(ToString::to_string).collect();
    assert_eq!(known, ["undetermined", "web"]);
    assert!(reported.known.values().all(|state| *state == PodState::ACTIVE));
    assert!(reported.sources_ready && reported.synced);
    let world = Environment {
        pods: &source,
        ..world(&busy.node, &busy.clock)
    };
    let node = Node::new(world, settings("1.36.0"));
    now(node.collect_containers(Mode::Periodic));
    let entries = busy.node.all_log_entries();
    let entries: Vec<&str> = entries.iter().map(|entry| &**entry).collect();
    assert_eq!(entries, ["shop_undetermined_undetermined", "shop_web_web"]);
    let pods_left: BTreeSet<String> = busy
        .node
        .all_containers()
        .iter()
        .map(|one| one.pod.uid.to_string())
        .collect();
    assert_eq!(pods_left, ["undetermined".to_owned(), "web".to_owned()].into());
}

/// An operation on one of a few pods.
#[derive(Clone, Copy, Debug)]
enum PodOperation {
    Start,
    Restart,
    Exit,
    SandboxEnds,
    SandboxAnew,
    Create,
    BecomesDoubtful,
    Forgotten,
}

fn happening() -> impl Strategy<Value = (PodOperation, usize)> {
    use PodOperation::{BecomesDoubtful, Create, Exit, Forgotten, Restart, SandboxAnew, SandboxEnds, Start};
    let kinds = [
        Start,
        Restart,
        Restart,
        Exit,
        SandboxEnds,
        SandboxAnew,
        Create,
        BecomesDoubtful,
        Forgotten,
    ];
    (proptest::sample::select(kinds.to_vec()), 0..4_usize)
}

fn happen(node: &SimNode, what: PodOperation, number: usize) {
    let name = format!("p{number}");
    let uid = Uid::new(&name);
    let container = node.all_containers().into_iter().rfind(|one| one.pod.uid == uid);
    let sandbox = node.all_sandboxes().into_iter().rfind(|one| one.pod.uid == uid);
    // A kubelet continues to count attempts in the next sandbox, so that no two containers write one log.
    // Here names are distinct.
    let name_in_sandbox = format!("main{}", sandbox.as_ref().map_or(0, |sandbox| sandbox.attempt));
    let spec = ContainerSpec {
        log_bytes: 1,
        ..ContainerSpec::new(&name_in_sandbox, "web:1")
    };
    // An operation that does not fit the state of the pod is skipped.
    match (what, container, sandbox) {
        (PodOperation::Start, _, None) => {
            let pod = PodSpec {
                uid: Some(uid.clone()),
                ..PodSpec::new("shop", &name).container(spec)
            };
            node.run_pod(&pod).expect("it runs");
        }
        (PodOperation::Restart, Some(container), _) => drop(node.restart_container(&container.id)),
        (PodOperation::Exit, Some(container), _) => drop(node.exit_container(&container.id)),
        (PodOperation::SandboxEnds, _, Some(sandbox)) => drop(node.end_sandbox(&sandbox.id)),
        (PodOperation::SandboxAnew, _, Some(sandbox)) => {
            drop(node.end_sandbox(&sandbox.id));
            drop(node.run_sandbox(&sandbox.pod));
        }
        (PodOperation::Create, _, Some(sandbox)) => drop(node.create_container(&sandbox.id, &spec)),
        (PodOperation::BecomesDoubtful, Some(container), _) => {
            drop(node.set_container_state(&container.id, ContainerState::Unknown));
        }
        (PodOperation::Forgotten, ..) => node.forget_pod(&uid),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn of_a_pod_with_a_ready_sandbox_only_dead_containers_and_ended_sandboxes_are_removed_within_the_limits(
        history in proptest::collection::vec(happening(), 1..40),
        forced in any::<bool>(),
        release in proptest::sample::select(&RELEASES[..]),
    ) {
        let clock = SimClock::new(at(1_000_000));
        let node = SimNode::new(clock.clone(), NodeSettings::default());
        node.pull(&ImageSpec::new("web:1").layer("web", 10)).expect("there is room");
        for (what, number) in history {
            clock.advance(Duration::from_secs(1));
            happen(&node, what, number);
        }
        clock.advance(Duration::from_secs(3_600));
        let (containers, sandboxes, entries) = (node.all_containers(), node.all_sandboxes(), node.all_log_entries());
        let source = ready(&node);
        let nothing_runs = containers.iter().all(|one| one.state == ContainerState::Exited)
            && sandboxes.iter().all(|one| one.state != SandboxState::Ready);
        prop_assert_eq!(now(source.pods()).is_err(), nothing_runs);
        // If nothing runs, no pod counts as removed.
        let protected: BTreeSet<Uid> = sandboxes
            .iter()
            .filter(|sandbox| sandbox.state == SandboxState::Ready || nothing_runs)
            .map(|sandbox| sandbox.pod.uid.clone())
            .collect();

        let world = Environment { runtime: &node, logs: Some(&node), pods: &source, clock: &clock };
        let mut driver = Node::new(world, settings(release));
        let mode = if forced { Mode::Forced } else { Mode::Periodic };
        now(driver.collect_containers(mode));
        now(driver.delete_unused_images());

        let is_dead = |one: &&Arc<Container>| one.state != ContainerState::Running;
        let of = |all: &[Arc<Container>], dead: bool| {
            let mut counts = BTreeMap::new();
            for one in all.iter().filter(|one| is_dead(one) == dead && protected.contains(&one.pod.uid)) {
                *counts.entry((one.pod.uid.clone(), one.name.clone())).or_insert(0) += 1;
            }
            counts
        };
        let left = node.all_containers();
        prop_assert_eq!(of(&left, false), of(&containers, false), "running containers stay");
        // One dead container of each name can be kept, and is.
        let limited = of(&containers, true).into_iter().map(|(unit, count)| (unit, count.min(1)));
        prop_assert_eq!(of(&left, true), limited.collect::<BTreeMap<_, _>>());
        for sandbox in sandboxes.iter().filter(|sandbox| protected.contains(&sandbox.pod.uid)) {
            let newest = sandboxes.iter().filter(|one| one.pod.uid == sandbox.pod.uid).max_by_key(|one| one.created_at);
            if sandbox.state == SandboxState::Ready || newest.is_some_and(|newest| newest.id == sandbox.id) {
                prop_assert!(node.sandbox(&sandbox.id).is_some(), "{}", sandbox.id);
            }
        }
        let entries_left = node.all_log_entries();
        for uid in &protected {
            let of_pod = |all: &[Arc<str>]| all.iter().filter(|entry| entry.ends_with(&format!("_{uid}"))).count();
            prop_assert_eq!(of_pod(&entries_left), of_pod(&entries), "logs of {}", uid);
        }
        let harms = node.violations();
        let harms: Vec<_> = harms
            .iter()
            // The node itself still knows pods that only ended.
            .filter(|one| !matches!(one.harm, Harm::LivingPodLogsRemoved))
            .collect();
        prop_assert!(harms.is_empty(), "{:?}", harms);
    }
}
