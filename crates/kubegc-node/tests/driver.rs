//! The driver over a simulated node, with and without faults.

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
    node_facts::{ContainerState, PodIdentity, Pods, annotation},
};
use kubegc_node::{
    Node, Policy, PolicySpec, World,
    container::Occasion,
    driver::{ImagesReport, NodeAction, Outcome, Report, Settings},
    eviction, image,
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

/// What a simulated node answers, which it does at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a simulated node answers at once")
}

fn world<'a, R: Runtime + LogDirectory + PodSource>(runtime: &'a R, clock: &'a SimClock) -> World<'a> {
    World {
        runtime,
        logs: Some(runtime),
        pods: runtime,
        clock,
    }
}

/// Room is made from half full, whatever the age of images; one dead container of each name stays.
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

/// What the tests ask a busy node for.
struct Busy {
    node: SimNode,
    clock: SimClock,
    /// Its dead containers of a living pod, the oldest first, and those of pods that are gone.
    dead: Vec<Arc<str>>,
    orphans: Vec<Arc<str>>,
    gone_sandboxes: Vec<Arc<str>>,
    unused: Arc<str>,
    mounted: Arc<str>,
    pinned: Arc<str>,
}

/// A node with something of everything: restarts, a completed, an evicted, a deleted and a forgotten pod, a container of unknown state, dangling
/// links, and images that are used by living and dead containers, mounted, pinned, or unused.
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
    let doubtful = run("doubtful", "job:1", &[]);
    node.end_sandbox(&doubtful.sandbox_id).expect("there is one");
    node.set_container_state(&doubtful.container_ids[0], ContainerState::Unknown)
        .expect("there is one");
    node.edit_container(&doubtful.container_ids[0], |container| {
        container
            .annotations
            .insert(annotation::TERMINATION_GRACE_PERIOD.into(), "30".into());
    })
    .expect("there is one");
    node.forget_pod(&uid("doubtful"));
    node.set_container_state(&doubtful.container_ids[0], ContainerState::Unknown)
        .expect("there is one");
    orphans.extend(doubtful.container_ids);
    gone_sandboxes.push(doubtful.sandbox_id);
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

/// All that is left on a node.
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

fn image_ids(report: &ImagesReport) -> Vec<&str> {
    let ids = report
        .plan
        .actions
        .iter()
        .map(|image::Action::Remove { image, .. }| &*image.id);
    ids.collect()
}

#[test]
fn a_pass_over_a_busy_node_takes_what_may_go_and_a_second_one_nothing() {
    for release in RELEASES {
        let busy = busy();
        let mut node = Node::new(world(&busy.node, &busy.clock), settings(release));
        let report = now(node.collect_containers(Occasion::Periodic));
        assert_eq!(report.error(), None, "{release}");
        let [oldest, older, newest] = &busy.dead[..] else {
            panic!("three dead ones")
        };
        let there = |id: &Arc<str>| busy.node.container(id).is_some();
        assert_eq!(
            [there(oldest), there(older), there(newest)],
            [false, false, true],
            "{release}"
        );
        assert!(!busy.orphans.iter().any(there), "{release}");
        // Idea 24: sandboxes go in the pass in which their last container goes.
        assert!(
            busy.gone_sandboxes
                .iter()
                .all(|id| busy.node.sandbox(id).is_none()),
            "{release}"
        );
        let entries: Vec<_> = busy.node.all_log_entries();
        assert_eq!(
            entries.iter().map(|entry| &**entry).collect::<Vec<_>>(),
            ["shop_done_done", "shop_web_web"],
            "{release}"
        );
        let links: Vec<_> = busy.node.all_log_links();
        assert_eq!(
            links.len(),
            4,
            "of the living, of its newest dead one, of the completed, and the one that cannot be told: {links:?}"
        );
        assert!(
            report.performed.iter().all(|done| done.outcome == Outcome::Done),
            "{release}: {:?}",
            report.performed
        );

        let images = now(node.collect_images());
        assert_eq!(
            images.error().is_some(),
            images.plan.summary.shortfall_bytes() > 0
        );
        assert!(busy.node.image(&busy.unused).is_none(), "{release}");
        let spared = |image: &Arc<str>| busy.node.image(image).is_some();
        if release != "1.20.2" {
            assert!(spared(&busy.pinned), "{release}");
        }
        assert_eq!(spared(&busy.mounted), release == "1.36.0", "{release}");
        let violations = busy.node.violations();
        let harmless = |harm: &Harm| match harm {
            // What upstream does in these versions.
            Harm::PinnedImageRemoved => release == "1.20.2",
            Harm::MountedImageRemoved { .. } => release != "1.36.0",
            _ => false,
        };
        assert!(
            violations.iter().all(|violation| harmless(&violation.harm)),
            "{release}: {violations:?}"
        );

        drop(busy.node.take_calls());
        now(node.collect_containers(Occasion::Periodic));
        now(node.collect_images());
        assert_eq!(busy.node.changes(), [], "{release}");
        // N2.62: only forced collection takes what a completed pod left.
        now(node.collect_containers(Occasion::Forced));
        assert_eq!(
            busy.node
                .changes()
                .iter()
                .filter(|call| call.operation == Operation::RemoveContainer)
                .count(),
            1
        );
        assert!(
            busy.node
                .all_log_entries()
                .iter()
                .any(|entry| &**entry == "shop_done_done"),
            "but not its logs"
        );
    }
}

#[test]
fn a_dry_run_changes_nothing_and_remembers_nothing() {
    for release in RELEASES {
        let busy = busy();
        let dry = Settings {
            dry_run: true,
            ..settings(release)
        };
        let before = left(&busy.node);
        let mut node = Node::new(world(&busy.node, &busy.clock), dry);
        for occasion in [Occasion::Periodic, Occasion::Forced] {
            let report = now(node.collect_containers(occasion));
            assert!(report.performed.len() > 3, "{:?}", report.performed);
            assert!(
                report
                    .performed
                    .iter()
                    .all(|done| done.outcome == Outcome::DryRun)
            );
            assert_eq!(report.events, [], "nothing is stopped");
            assert_eq!(report.error(), None);
        }
        for task in [
            Task::Collect,
            Task::DeleteUnused,
            Task::Free { bytes: 1 },
            Task::Detect,
        ] {
            let report = now(node.images(task));
            assert_eq!(report.performed.is_empty(), task == Task::Detect, "{task:?}");
            assert!(
                report
                    .performed
                    .iter()
                    .all(|done| done.outcome == Outcome::DryRun)
            );
        }
        assert!(node.records().is_empty());
        assert_eq!(busy.node.changes(), [], "{release}");
        assert_eq!(left(&busy.node), before);
    }
}

#[test]
fn n2_30_n2_40_listings_are_read_anew_before_each_stage() {
    use Operation::{ContainerLinks, Containers, PodEntries, Pods, Sandboxes};
    let busy = busy();
    let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    now(node.collect_containers(Occasion::Periodic));
    let reads: Vec<_> = operations(&busy.node)
        .into_iter()
        .filter(|operation| !operation.changes() && *operation != Operation::ContainerStatus)
        .collect();
    assert_eq!(
        reads,
        [
            Containers,
            Pods,
            Containers,
            Sandboxes,
            Pods,
            PodEntries,
            Pods,
            ContainerLinks
        ]
    );
    let last = |operation| operations(&busy.node).iter().rposition(|done| *done == operation);
    let first = |operation| operations(&busy.node).iter().position(|done| *done == operation);
    assert!(last(Operation::RemoveContainer) < first(Sandboxes));
    assert!(last(Operation::RemoveSandbox) < first(PodEntries));
    assert!(
        last(Operation::RemovePodEntry) < first(ContainerLinks),
        "links dangle only once directories are gone"
    );
}

/// Pods that are asked for, and a new one that begins right after they answered, with an init container that has ended already.
struct Racing(SimNode);

#[async_trait::async_trait]
impl PodSource for Racing {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let pods = self.0.pods().await;
        let begun = self.0.all_sandboxes().len();
        let pod = PodSpec::new("shop", &format!("new{begun}")).container(ContainerSpec::new("init", ""));
        let pod = self.0.run_pod(&pod).expect("it runs");
        self.0.exit_container(&pod.container_ids[0]).expect("it runs");
        pods
    }
}

#[test]
fn a_pod_that_begins_during_a_pass_is_not_taken_for_one_that_nobody_knows() {
    let busy = busy();
    let racing = Racing(busy.node.clone());
    let world = World {
        pods: &racing,
        ..world(&busy.node, &busy.clock)
    };
    let node = Node::new(world, settings("1.36.0"));
    for occasion in [Occasion::Periodic, Occasion::Forced, Occasion::Periodic] {
        now(node.collect_containers(occasion));
    }
    let new = |pod: &PodIdentity| pod.name.starts_with("new");
    let sandboxes = busy.node.all_sandboxes();
    let sandboxes = sandboxes.iter().filter(|sandbox| new(&sandbox.pod)).count();
    let containers = busy.node.all_containers();
    let containers = containers.iter().filter(|container| new(&container.pod)).count();
    let entries = busy.node.all_log_entries();
    let entries = entries
        .iter()
        .filter(|entry| entry.starts_with("shop_new"))
        .count();
    assert_eq!(
        [sandboxes, containers, entries],
        [9; 3],
        "three began in each pass"
    );
    assert_eq!(busy.node.violations(), []);
}

#[test]
fn n2_3_a_stage_that_fails_does_not_stop_the_next() {
    let rule = |operation, skip| Rule {
        skip,
        times: 1,
        ..Rule::always(operation, refuse())
    };
    for (name, rules, error, removes) in [
        (
            "first listing",
            vec![rule(Operation::Containers, 0)],
            "device busy",
            [false, false, true],
        ),
        (
            "second listing",
            vec![rule(Operation::Containers, 1)],
            "device busy",
            [true, false, true],
        ),
        (
            "sandboxes",
            vec![rule(Operation::Sandboxes, 0)],
            "device busy",
            [true, false, true],
        ),
        (
            "directory",
            vec![rule(Operation::PodEntries, 0)],
            "failed to read podLogsDirectory \"/var/log/pods\": device busy",
            [true, true, false],
        ),
        (
            "links",
            vec![rule(Operation::ContainerLinks, 0)],
            "",
            [true, true, true],
        ),
        (
            "all",
            vec![
                Rule::always(Operation::Containers, refuse()),
                rule(Operation::PodEntries, 0),
            ],
            "[device busy, failed to read podLogsDirectory \"/var/log/pods\": device busy]",
            [false, false, false],
        ),
        (
            "pods of the first stage",
            vec![rule(Operation::Pods, 0)],
            "list pods: device busy",
            [true, true, true],
        ),
        (
            "pods of the second stage",
            vec![rule(Operation::Pods, 1)],
            "list pods: device busy",
            [true, false, true],
        ),
        (
            "pods of the third stage",
            vec![rule(Operation::Pods, 2)],
            "list pods: device busy",
            [true, true, false],
        ),
    ] {
        let busy = busy();
        let runtime = faulty(&busy.node, rules);
        let node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
        let report = now(node.collect_containers(Occasion::Periodic));
        assert_eq!(report.error().unwrap_or_default(), error, "{name}");
        let done = [
            Operation::RemoveContainer,
            Operation::RemoveSandbox,
            Operation::RemovePodEntry,
        ]
        .map(|operation| operations(&busy.node).contains(&operation));
        // Where the pods were not known to the first stage, its containers hold on to their sandboxes.
        let expected = if name.starts_with("pods of the first") {
            [true, false, true]
        } else {
            removes
        };
        assert_eq!(done, expected, "{name}");
        let read_links = operations(&busy.node).contains(&Operation::ContainerLinks);
        assert_eq!(
            read_links,
            !["directory", "all", "links"].contains(&name),
            "{name}: a directory that cannot be read stops links too"
        );
        assert_eq!(busy.node.violations(), [], "{name}");
        // The next pass makes up for it.
        let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
        assert_eq!(now(node.collect_containers(Occasion::Periodic)).error(), None);
        assert!(
            busy.gone_sandboxes
                .iter()
                .all(|id| busy.node.sandbox(id).is_none()),
            "{name}"
        );
    }
}

#[test]
fn n2_17_n2_50_a_container_of_unknown_state_is_stopped_with_its_grace_and_told() {
    let busy = busy();
    let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let report = now(node.collect_containers(Occasion::Periodic));
    let stops: Vec<_> = busy
        .node
        .calls()
        .into_iter()
        .filter(|call| call.operation == Operation::StopContainer)
        .collect();
    let doubtful = busy.orphans.last().expect("one");
    assert_eq!(
        stops
            .iter()
            .map(|call| (&call.target, call.grace_seconds))
            .collect::<Vec<_>>(),
        [(doubtful, 30)]
    );
    let events: Vec<_> = report
        .events
        .iter()
        .map(|(_, event)| (event.kind.as_str(), event.reason, &*event.message))
        .collect();
    assert_eq!(
        events,
        [(
            "Normal",
            "Killing",
            "Container is in unknown state, try killing it before removal"
        )]
    );
}

#[test]
fn n2_17_n2_37_what_cannot_be_stopped_is_not_removed_and_the_pass_has_no_error() {
    let busy = busy();
    let rules = vec![
        Rule::always(Operation::StopContainer, refuse()),
        Rule::always(Operation::StopSandbox, refuse()),
    ];
    let runtime = faulty(&busy.node, rules);
    let node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
    let report = now(node.collect_containers(Occasion::Periodic));
    assert_eq!(report.error(), None, "idea 26");
    let doubtful = busy.orphans.last().expect("one");
    assert!(busy.node.container(doubtful).is_some(), "idea 16");
    assert!(!operations(&busy.node).contains(&Operation::RemoveSandbox));
    let not_stopped = report
        .performed
        .iter()
        .filter(|done| matches!(done.outcome, Outcome::NotStopped(_)));
    // The container, and the sandboxes of the three other pods: its own still has it.
    assert_eq!(not_stopped.count(), 4);
    assert_eq!(busy.node.violations(), []);
}

#[test]
fn n2_52_removing_a_container_takes_its_logs_and_link_first_and_stops_at_the_first_failure() {
    use Operation::{ContainerStatus, RemoveContainer, RemoveContainerLink, RemoveContainerLogs};
    for (fails, done) in [
        (
            None,
            &[
                ContainerStatus,
                RemoveContainerLogs,
                RemoveContainerLink,
                RemoveContainer,
            ][..],
        ),
        (Some(ContainerStatus), &[]),
        (Some(RemoveContainerLogs), &[ContainerStatus]),
        (Some(RemoveContainerLink), &[ContainerStatus, RemoveContainerLogs]),
        (
            Some(RemoveContainer),
            &[ContainerStatus, RemoveContainerLogs, RemoveContainerLink],
        ),
    ] {
        let clock = SimClock::new(at(1_000));
        let node = SimNode::new(clock.clone(), NodeSettings::default());
        let pod = PodSpec::new("shop", "web").container(ContainerSpec::new("main", ""));
        let pod = node.run_pod(&pod).expect("it runs");
        node.exit_container(&pod.container_ids[0]).expect("it runs");
        drop(node.take_calls());
        let rules = fails.map(|operation| Rule::always(operation, refuse()));
        let runtime = faulty(&node, rules.into_iter().collect());
        let spec = PolicySpec {
            maximum_dead_containers_per_container: 0,
            ..spec()
        };
        let settings = Settings::from(&Policy::new(&spec, version("1.36.0")).expect("a valid policy"));
        let driver = Node::new(world(&runtime, &clock), settings);
        let mut report = kubegc_node::driver::ContainersReport::default();
        now(driver.collect_dead(Occasion::Periodic, &mut report));
        let calls: Vec<_> = operations(&node).into_iter().skip(2).collect();
        assert_eq!(calls, done, "{fails:?}");
        assert_eq!(report.error(), None);
        let failed = matches!(report.performed[0].outcome, Outcome::NotRemoved(_));
        assert_eq!(failed, fails.is_some());
        // A link that is gone is no failure: the next pass finishes.
        let driver = Node::new(world(&node, &clock), driver.settings().clone());
        now(driver.collect_containers(Occasion::Periodic));
        assert!(node.all_containers().is_empty(), "{fails:?}");
    }
}

#[test]
fn without_a_log_directory_logs_are_left_alone() {
    let busy = busy();
    let without = World {
        logs: None,
        ..world(&busy.node, &busy.clock)
    };
    let report = now(Node::new(without, settings("1.36.0")).collect_containers(Occasion::Periodic));
    assert_eq!((report.error(), report.logs.actions.len()), (None, 0));
    let touched = operations(&busy.node)
        .into_iter()
        .filter(|operation| !operation.is_of_runtime() && *operation != Operation::Pods);
    assert_eq!(touched.count(), 0);
    assert!(busy.orphans.iter().all(|id| busy.node.container(id).is_none()));
}

#[test]
fn n2_47_what_a_status_makes_of_a_dangling_link() {
    for (release, fault, stays) in [
        ("1.36.0", None, true),
        ("1.36.0", Some(refuse()), false),
        ("1.36.0", Some(Fault::SayNothing), true),
        ("1.28.0", Some(Fault::SayNothing), true),
    ] {
        let clock = SimClock::new(at(1_000));
        let node = SimNode::new(clock.clone(), NodeSettings::default());
        let pod = PodSpec::new("shop", "web").container(ContainerSpec::new("main", ""));
        let pod = node.run_pod(&pod).expect("it runs");
        // Its log is being rotated.
        node.lose_log(&pod.container_ids[0]).expect("there is one");
        let rules = fault
            .clone()
            .map(|fault| Rule::always(Operation::ContainerStatus, fault));
        let runtime = faulty(&node, rules.into_iter().collect());
        let driver = Node::new(world(&runtime, &clock), settings(release));
        now(driver.collect_containers(Occasion::Periodic));
        assert_eq!(
            node.all_log_links().len(),
            usize::from(stays),
            "{release} {fault:?}"
        );
    }
}

#[test]
fn n3_8_n3_9_sandbox_image_and_volumes_are_looked_up_in_the_versions_that_do() {
    for (release, sandbox_image, volumes) in [
        ("1.20.2", true, false),
        ("1.28.0", true, false),
        ("1.29.0", false, false),
        ("1.30.0", false, false),
        ("1.34.0", false, false),
        ("1.36.0", false, true),
    ] {
        let busy = busy();
        let settings = Settings {
            sandbox_image: Some("old:1".into()),
            ..settings(release)
        };
        let mut node = Node::new(world(&busy.node, &busy.clock), settings);
        now(node.detect_images());
        let calls = operations(&busy.node);
        assert_eq!(calls.contains(&Operation::ImageId), sandbox_image, "{release}");
        let statuses = calls
            .iter()
            .filter(|operation| **operation == Operation::ContainerStatus)
            .count();
        assert_eq!(
            statuses,
            if volumes {
                busy.node.all_containers().len()
            } else {
                0
            },
            "{release}"
        );
        now(node.delete_unused_images());
        assert_eq!(
            busy.node.image(&busy.unused).is_some(),
            sandbox_image,
            "{release}"
        );
    }
}

#[test]
fn n3_9_a_status_that_fails_or_says_nothing_fails_the_pass() {
    for fault in [refuse(), Fault::SayNothing, Fault::LoseAnswer] {
        let busy = busy();
        let rule = Rule {
            skip: 2,
            times: 1,
            ..Rule::always(Operation::ContainerStatus, fault.clone())
        };
        let runtime = faulty(&busy.node, vec![rule]);
        let mut node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
        let report = now(node.delete_unused_images());
        let error = report.error().unwrap_or_default();
        assert!(
            error.starts_with("get container status: "),
            "idea 54: {fault:?}: {error:?}"
        );
        assert_eq!(busy.node.changes(), [], "{fault:?}");
        assert!(node.records().is_empty());
        assert_eq!(
            now(node.delete_unused_images()).error(),
            None,
            "the next pass finishes"
        );
    }
}

#[test]
fn n3_20_the_order_of_calls_per_version() {
    use Operation::{Containers, ImageFileSystem, Images};
    for (release, calls) in [
        ("1.20.2", [ImageFileSystem, Images, Containers]),
        ("1.28.0", [ImageFileSystem, Images, Containers]),
        ("1.29.0", [Images, Containers, ImageFileSystem]),
        ("1.36.0", [Images, Containers, ImageFileSystem]),
    ] {
        let busy = busy();
        let mut node = Node::new(world(&busy.node, &busy.clock), settings(release));
        now(node.collect_images());
        let reads = operations(&busy.node)
            .into_iter()
            .filter(|operation| calls.contains(operation));
        assert_eq!(reads.collect::<Vec<_>>(), calls, "{release}");
    }
}

#[test]
fn n3_14_images_vanish_right_after_a_restart_up_to_1_28_only() {
    for (release, vanishes) in [("1.28.0", true), ("1.29.0", false), ("1.36.0", false)] {
        let busy = busy();
        let spec = PolicySpec {
            image_minimum_gc_age: seconds(120),
            ..spec()
        };
        let settings = Settings::from(&Policy::new(&spec, version(release)).expect("a valid policy"));
        let mut node = Node::new(world(&busy.node, &busy.clock), settings);
        let detected = now(node.detect_images());
        assert_eq!((detected.images, detected.error), (5, None));
        busy.clock.advance(Duration::from_secs(1));
        let report = now(node.collect_images());
        assert_eq!(image_ids(&report).contains(&&*busy.unused), vanishes, "{release}");
        busy.clock.advance(Duration::from_secs(120));
        now(node.collect_images());
        assert!(
            busy.node.image(&busy.unused).is_none(),
            "{release}: two minutes later it goes in any case"
        );
    }
}

#[test]
fn n3_4_n3_40_the_maximum_age_counts_from_the_first_collection() {
    let busy = busy();
    let spec = PolicySpec {
        image_gc_high_threshold_percent: 100,
        image_maximum_gc_age: seconds(60),
        ..spec()
    };
    let settings = Settings::from(&Policy::new(&spec, version("1.36.0")).expect("a valid policy"));
    let mut node = Node::new(world(&busy.node, &busy.clock), settings);
    assert_eq!(node.watched_since(), None);
    now(node.detect_images());
    now(node.delete_unused_images());
    assert_eq!(
        node.watched_since(),
        None,
        "neither detection nor forced removal begins it"
    );
    let unused = busy
        .node
        .pull(&ImageSpec::new("new:1").layer("new", 5))
        .expect("there is room");
    let began = busy.clock.now();
    now(node.collect_images());
    assert_eq!(node.watched_since(), Some(began));
    for (after, there) in [(60, true), (61, false)] {
        busy.clock.set(began.saturating_add(Duration::from_secs(after)));
        now(node.collect_images());
        assert_eq!(busy.node.image(&unused).is_some(), there, "{after}");
    }
    assert_eq!(node.watched_since(), Some(began), "fixed");
    node.watch_since(at(5));
    assert_eq!(node.watched_since(), Some(at(5)));
}

#[test]
fn n3_45_the_handler_of_the_record_is_handed_in() {
    let busy = busy();
    let kata = ImageSpec {
        runtime_handler: "kata".into(),
        ..ImageSpec::new("kata:1").layer("kata", 5)
    };
    busy.node.pull(&kata).expect("there is room");
    let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    now(node.delete_unused_images());
    let handlers: BTreeSet<_> = busy
        .node
        .changes()
        .iter()
        .map(|call| call.runtime_handler.to_string())
        .collect();
    assert_eq!(handlers, ["".to_owned(), "kata".to_owned()].into());
}

#[test]
fn n4_11_forced_collection_runs_images_although_containers_failed() {
    for (rules, errors) in [
        (vec![], [None, None]),
        (
            vec![Rule {
                times: 2,
                ..Rule::always(Operation::Containers, refuse())
            }],
            [Some("device busy"), None],
        ),
    ] {
        let busy = busy();
        let runtime = faulty(&busy.node, rules);
        let policy = Policy::new(&spec(), version("1.36.0")).expect("a valid policy");
        let mut node = Node::new(world(&runtime, &busy.clock), Settings::from(&policy));
        let pass = eviction::Pass::new(
            policy.eviction(),
            eviction::Layout::default(),
            eviction::Signal::NodeFsAvailable,
        );
        let report = now(node.reclaim(pass, || async { Err("no measurement".to_owned()) }));
        let ran: Vec<_> = report
            .ran
            .iter()
            .map(|(function, error)| (*function, error.as_deref()))
            .collect();
        let expected = [
            eviction::Function::DeleteAllUnusedContainers,
            eviction::Function::DeleteUnusedImages,
        ];
        assert_eq!(ran, expected.into_iter().zip(errors).collect::<Vec<_>>());
        assert_eq!((report.containers.len(), report.images.len()), (1, 1));
        assert!(busy.node.image(&busy.unused).is_none());
        assert_ne!(
            report.verdict,
            eviction::Verdict::Spared,
            "without a measurement pods go"
        );
        assert_eq!(busy.node.violations(), []);
    }
}

#[test]
fn a_runtime_that_dies_in_the_middle_gives_errors_and_the_next_pass_finishes() {
    let whole = {
        let busy = busy();
        let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
        now(node.collect_containers(Occasion::Periodic));
        now(node.delete_unused_images());
        left(&busy.node)
    };
    for operation in [
        Operation::Containers,
        Operation::Sandboxes,
        Operation::StopContainer,
        Operation::RemoveContainer,
        Operation::RemoveSandbox,
        Operation::ContainerStatus,
        Operation::Images,
        Operation::RemoveImage,
    ] {
        for skip in 0..3 {
            let busy = busy();
            let rule = Rule {
                skip,
                times: 1,
                ..Rule::always(operation, Fault::Die)
            };
            let runtime = faulty(&busy.node, vec![rule]);
            let mut node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
            let containers = now(node.collect_containers(Occasion::Periodic));
            let images = now(node.delete_unused_images());
            if runtime.is_dead() {
                let failed = containers.error().is_some() || images.error().is_some();
                assert!(failed, "{operation:?} {skip}");
            }
            assert_eq!(busy.node.violations(), [], "{operation:?} {skip}");
            let records = node.records().clone();
            let mut node = Node::remembering(world(&busy.node, &busy.clock), settings("1.36.0"), records);
            now(node.collect_containers(Occasion::Periodic));
            assert_eq!(
                now(node.delete_unused_images()).error(),
                None,
                "{operation:?} {skip}"
            );
            assert_eq!(left(&busy.node), whole, "{operation:?} {skip}");
            assert_eq!(busy.node.violations(), [], "{operation:?} {skip}");
        }
    }
}

/// Asks a future for its result as often as `times`; `None` where it has none by then.
fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    })
}

#[test]
fn a_pass_may_be_dropped_at_any_await_and_begun_anew() {
    let whole = {
        let busy = busy();
        let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
        now(node.collect_containers(Occasion::Periodic));
        now(node.delete_unused_images());
        left(&busy.node)
    };
    let (mut dropped, mut polls) = (0, 1);
    loop {
        let busy = busy();
        let pausing = Pausing {
            inner: busy.node.clone(),
            clock: busy.clock.clone(),
            listing_takes: Duration::ZERO,
        };
        let mut node = Node::new(world(&pausing, &busy.clock), settings("1.36.0"));
        let first = poll_times(
            async {
                node.collect_containers(Occasion::Periodic).await;
                node.delete_unused_images().await
            },
            polls,
        );
        let enough = usize::MAX;
        poll_times(node.collect_containers(Occasion::Periodic), enough).expect("it ends");
        let images = poll_times(node.delete_unused_images(), enough).expect("it ends");
        assert_eq!(images.error(), None, "{polls}");
        assert_eq!(left(&busy.node), whole, "dropped after {polls}");
        assert_eq!(busy.node.violations(), [], "dropped after {polls}");
        let known: BTreeSet<_> = node
            .records()
            .iter()
            .map(|record| record.key.to_string())
            .collect();
        assert_eq!(
            known,
            left(&busy.node)[2],
            "records are those of the images that stay"
        );
        if first.is_some() {
            break;
        }
        (dropped, polls) = (dropped + 1, polls + 1);
    }
    assert!(dropped > 100, "{dropped} places to be dropped at");
}

/// Whether a future asked to be polled again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the loops until a time; gives what they reported, with the second of it.
fn run_until(node: &mut Node<'_>, clock: &SimClock, until: i64) -> Vec<(i64, &'static str)> {
    let start = clock.now().as_secs();
    let mut reports = Vec::new();
    let seen = |report: Report| {
        let name = match report {
            Report::Containers(_) => "containers",
            Report::Images(_) => "images",
            Report::Detection(_) => "detection",
            Report::Event(event) | Report::OfContainer { event, .. } => event.reason,
            _ => "something else",
        };
        reports.push((clock.now().as_secs() - start, name));
    };
    {
        let stop = clock.sleep_until(at(start + until));
        let mut run = pin!(node.run(stop, seen));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        while run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            // Where it does not go on by itself, it waits for the time.
            if !woken.0.swap(false, Ordering::Relaxed) {
                clock.set(clock.next_wake().expect("somebody waits"));
            }
        }
    }
    reports
}

#[test]
fn n1_1_to_n1_3_the_loops_keep_upstreams_periods() {
    let busy = busy();
    let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let reports = run_until(&mut node, &busy.clock, 601);
    let times = |name: &str| -> Vec<i64> {
        let of_name = reports.iter().filter(|(_, other)| *other == name);
        of_name.map(|(at, _)| *at).collect()
    };
    assert_eq!(
        times("containers"),
        [0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600]
    );
    assert_eq!(times("images"), [0, 300, 600]);
    assert_eq!(times("detection"), [0, 300, 600]);
    assert_eq!(times("Killing"), [0]);
    assert_eq!(busy.clock.next_wake(), None, "nobody waits any more");
}

#[test]
fn n1_1_a_period_counts_from_the_end_of_the_last_run() {
    let busy = busy();
    let pausing = Pausing {
        inner: busy.node.clone(),
        clock: busy.clock.clone(),
        listing_takes: Duration::from_secs(10),
    };
    let spec = PolicySpec {
        image_gc_high_threshold_percent: 100,
        ..spec()
    };
    let settings = Settings::from(&Policy::new(&spec, version("1.36.0")).expect("a valid policy"));
    let mut node = Node::new(world(&pausing, &busy.clock), settings);
    let reports = run_until(&mut node, &busy.clock, 200);
    let ended: Vec<_> = reports
        .iter()
        .filter(|(_, name)| *name == "containers")
        .map(|(at, _)| *at)
        .collect();
    // Each run lists containers twice: it takes 20 s and ends 80 s after the one before.
    assert_eq!(ended[..2], [20, 100]);
    assert!(
        reports.iter().all(|(_, name)| *name != "images"),
        "n1_7: switched off"
    );
    assert!(reports.contains(&(30, "detection")), "n1_8: detection goes on");
}

#[test]
fn n1_11_to_n1_15_failures_are_worth_events() {
    let busy = busy();
    let rules = vec![
        Rule {
            times: 2,
            ..Rule::always(Operation::Images, refuse())
        },
        Rule {
            times: 1,
            ..Rule::always(Operation::Sandboxes, refuse())
        },
    ];
    let runtime = faulty(&busy.node, rules);
    // Images are listed by detection as well, right after. No room is to be made on this disk.
    let roomy =
        Settings::from(&Policy::new(&PolicySpec::default(), version("1.36.0")).expect("a valid policy"));
    let mut node = Node::new(world(&runtime, &busy.clock), roomy);
    let mut reports = run_until(&mut node, &busy.clock, 301);
    reports.retain(|(_, name)| name.ends_with("Failed"));
    // The first failure of images is worth none, and detection's never is.
    assert_eq!(reports, [(0, "ContainerGCFailed")]);

    let always = faulty(&busy.node, vec![Rule::always(Operation::Images, refuse())]);
    let mut node = Node::new(world(&always, &busy.clock), settings("1.36.0"));
    let mut reports = run_until(&mut node, &busy.clock, 601);
    reports.retain(|(_, name)| name.ends_with("Failed"));
    assert_eq!(
        reports,
        [(300, "ImageGCFailed"), (600, "ImageGCFailed")],
        "idea 57"
    );
}

#[test]
fn stopping_before_the_start_still_runs_what_is_due_once_at_most() {
    let busy = busy();
    let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let mut reports = 0;
    now(node.run(std::future::ready(()), |_| reports += 1));
    assert!(reports <= 2, "one pass and its event at most: {reports}");
    assert_eq!(busy.node.violations(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_protected_goes_whatever_fails_and_once_nothing_fails_all_is_done(
        seed in any::<u64>(),
        per_mille in 0_u16..400,
        release in prop::sample::select(vec!["1.35.0", "1.36.0"]),
        forced in any::<bool>(),
    ) {
        let busy = busy();
        let plan = FaultPlan {
            seed,
            faults_per_mille: per_mille,
            faults: vec![refuse(), Fault::LoseAnswer, Fault::SayNothing, Fault::Die],
            ..FaultPlan::default()
        };
        let runtime = FaultyRuntime::new(busy.node.clone(), plan);
        let mut node = Node::new(world(&runtime, &busy.clock), settings(release));
        let occasion = if forced { Occasion::Forced } else { Occasion::Periodic };
        for _ in 0..4 {
            let containers = now(node.collect_containers(occasion));
            // What was tried is what was planned, in the order of the stages.
            let stages = containers.performed.iter().map(|done| match done.action {
                NodeAction::Container(_) => 0,
                NodeAction::Sandbox(_) => 1,
                NodeAction::Log(_) => 2,
                NodeAction::Image(_) => 3,
            });
            prop_assert!(stages.collect::<Vec<_>>().is_sorted());
            let planned = containers.containers.actions.len() + containers.sandboxes.actions.len() + containers.logs.actions.len();
            prop_assert_eq!(containers.performed.len(), planned);
            now(node.detect_images());
            now(node.collect_images());
            busy.clock.advance(Duration::from_secs(60));
            runtime.revive();
        }
        let mut violations = busy.node.violations();
        // A status that says nothing hides where a log is: the link of a container that goes leaves before it, as recorded of upstream.
        violations.retain(|violation| violation.harm != Harm::LiveLinkRemoved || !runtime.injected().iter().any(|(_, _, fault)| *fault == Fault::SayNothing));
        prop_assert_eq!(violations, vec![]);
        let known = busy.node.violations().len();
        // Without faults, from what is remembered.
        let mut node = Node::remembering(world(&busy.node, &busy.clock), settings(release), node.records().clone());
        for _ in 0..2 {
            now(node.collect_containers(occasion));
            now(node.delete_unused_images());
        }
        prop_assert_eq!(busy.node.violations().len(), known);
        drop(busy.node.take_calls());
        now(node.collect_containers(occasion));
        now(node.delete_unused_images());
        prop_assert_eq!(busy.node.changes(), vec![]);
        prop_assert!(busy.orphans.iter().all(|id| busy.node.container(id).is_none()));
        prop_assert!(busy.node.image(&busy.unused).is_none());
        prop_assert!(busy.node.image(&busy.mounted).is_some() && busy.node.image(&busy.pinned).is_some());
    }
}
