//! Passes over containers, sandboxes and logs.

use super::*;

#[test]
fn a_dry_run_changes_nothing_and_records_nothing() {
    for release in RELEASES {
        let busy = busy();
        let dry = Settings {
            dry_run: true,
            ..settings(release)
        };
        let before = left(&busy.node);
        let mut node = Node::new(world(&busy.node, &busy.clock), dry);
        for mode in [Mode::Periodic, Mode::Forced] {
            let report = now(node.collect_containers(mode));
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
fn n2_30_n2_40_listings_are_read_again_before_each_stage() {
    use Operation::{ContainerLinks, Containers, PodEntries, Pods, Sandboxes};
    let busy = busy();
    let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    now(node.collect_containers(Mode::Periodic));
    let mut reads: Vec<_> = operations(&busy.node)
        .into_iter()
        .filter(|operation| !operation.changes() && *operation != Operation::ContainerStatus)
        .collect();
    // Pods are read before each directory that is removed.
    reads.dedup();
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
        "links dangle only after their directories are removed"
    );
    let all = operations(&busy.node);
    let pairs: Vec<_> = all
        .windows(2)
        .filter(|pair| pair[1] == Operation::RemovePodEntry)
        .collect();
    assert_eq!(pairs, [[Pods, Operation::RemovePodEntry]; 5]);
}

#[test]
fn n2_3_a_stage_without_pods_or_links_does_not_stop_the_next() {
    // The recordings contain failed listings of containers, sandboxes and log directories.
    let rule = |operation, skip| Rule {
        skip,
        times: 1,
        ..Rule::always(operation, refuse())
    };
    for (name, rule, error, expected) in [
        ("links", rule(Operation::ContainerLinks, 0), "", [true; 3]),
        // If the pods were unknown to the first stage, its containers keep their sandboxes.
        (
            "pods of the first stage",
            rule(Operation::Pods, 0),
            "list pods: device busy",
            [true, false, true],
        ),
        (
            "pods of the second stage",
            rule(Operation::Pods, 1),
            "list pods: device busy",
            [true, false, true],
        ),
        (
            "pods of the third stage",
            rule(Operation::Pods, 2),
            "list pods: device busy",
            [true, true, false],
        ),
    ] {
        let busy = busy();
        let runtime = faulty(&busy.node, vec![rule]);
        let node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
        let report = now(node.collect_containers(Mode::Periodic));
        assert_eq!(report.error().unwrap_or_default(), error, "{name}");
        let done = [
            Operation::RemoveContainer,
            Operation::RemoveSandbox,
            Operation::RemovePodEntry,
        ]
        .map(|operation| operations(&busy.node).contains(&operation));
        assert_eq!(done, expected, "{name}");
        let read_links = operations(&busy.node).contains(&Operation::ContainerLinks);
        assert_eq!(read_links, name != "links", "{name}");
        assert_eq!(busy.node.violations(), [], "{name}");
        // The next run completes it.
        let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
        assert_eq!(now(node.collect_containers(Mode::Periodic)).error(), None);
        assert!(
            busy.gone_sandboxes
                .iter()
                .all(|id| busy.node.sandbox(id).is_none()),
            "{name}"
        );
    }
}

#[test]
fn n2_17_n2_50_a_container_of_unknown_state_is_stopped_with_its_grace_period_and_reported() {
    let busy = busy();
    let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let report = now(node.collect_containers(Mode::Periodic));
    let stops: Vec<_> = busy
        .node
        .calls()
        .into_iter()
        .filter(|call| call.operation == Operation::StopContainer)
        .collect();
    let undetermined = busy.orphans.last().expect("one");
    assert_eq!(
        stops
            .iter()
            .map(|call| (&call.target, call.grace_seconds))
            .collect::<Vec<_>>(),
        [(undetermined, 30)]
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
fn n2_17_a_container_that_cannot_be_stopped_is_not_removed() {
    let busy = busy();
    let runtime = faulty(&busy.node, vec![Rule::always(Operation::StopContainer, refuse())]);
    let node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
    let mut report = kubegc_node::driver::ContainersReport::default();
    now(node.collect_dead_containers(Mode::Periodic, &mut report));
    let undetermined = busy.orphans.last().expect("one");
    for kubegc_node::driver::Performed { action, outcome } in &report.performed {
        let NodeAction::Container(action) = action else {
            panic!("{action:?}");
        };
        let is_stopped = *action.container.id == **undetermined;
        assert_eq!(
            matches!(outcome, Outcome::NotStopped(_)),
            is_stopped,
            "{outcome:?}"
        );
    }
    let remaining = busy.node.all_containers();
    assert!(remaining.iter().any(|container| *container.id == **undetermined));
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
        now(driver.collect_dead_containers(Mode::Periodic, &mut report));
        let calls: Vec<_> = operations(&node).into_iter().skip(2).collect();
        assert_eq!(calls, done, "{fails:?}");
        assert_eq!(report.error(), None);
        let failed = matches!(report.performed[0].outcome, Outcome::NotRemoved(_));
        assert_eq!(failed, fails.is_some());
        // A link that no longer exists is not a failure: the next run completes it.
        let driver = Node::new(world(&node, &clock), driver.settings().clone());
        now(driver.collect_containers(Mode::Periodic));
        assert!(node.all_containers().is_empty(), "{fails:?}");
    }
}

#[test]
fn without_a_log_directory_no_logs_are_removed() {
    let busy = busy();
    let without = Environment {
        logs: None,
        ..world(&busy.node, &busy.clock)
    };
    let report = now(Node::new(without, settings("1.36.0")).collect_containers(Mode::Periodic));
    assert_eq!((report.error(), report.logs.actions.len()), (None, 0));
    let touched = operations(&busy.node)
        .into_iter()
        .filter(|operation| !operation.is_of_runtime() && *operation != Operation::Pods);
    assert_eq!(touched.count(), 0);
    assert!(busy.orphans.iter().all(|id| busy.node.container(id).is_none()));
}
