//! The threshold that a sync acts on, the kept ones, and the state for the next sync.

use super::*;

#[test]
fn n4_7_the_first_threshold_has_an_event() {
    use {Layout::*, Signal::*};
    for (signal, layout, event, actions) in [
        (NodeFsAvailable, Single, "ephemeral-storage", &[C, I][..]),
        (NodeFsInodesFree, Single, "inodes", &[C, I]),
        (ImageFsAvailable, DedicatedImages, "ephemeral-storage", &[C, I]),
        (ImageFsInodesFree, Split, "inodes", &[I]),
        (NodeFsAvailable, Split, "ephemeral-storage", &[C]),
        (MemoryAvailable, Single, "memory", &[]),
        (PidAvailable, Single, "pids", &[]),
        (NodeFsAvailable, DedicatedImages, "ephemeral-storage", &[]),
    ] {
        let thresholds = hard(&[(signal.as_str(), "5%")]).on(36);
        let plan = thresholds.plan(&pressure(layout, measured(&[(signal, 0)], 1)), at(1));
        let ran: Vec<Function> = plan.actions.iter().map(|action| action.function).collect();
        assert_eq!(ran, actions, "{signal}, {layout}");
        assert!(plan.actions.iter().all(|action| action.signal == signal));
        let trigger = plan.summary.trigger.expect("met");
        let announced = trigger.event();
        assert_eq!(
            (announced.kind, announced.reason, announced.message),
            (
                EventKind::Warning,
                "EvictionThresholdMet",
                format!("Attempting to reclaim {event}")
            )
        );
        let kept = reason_of(&plan.kept, signal);
        assert_eq!(
            kept,
            actions.is_empty().then_some(&Reason::NothingToCollect),
            "{signal}"
        );
    }
}

#[test]
fn n4_6_memory_comes_first_and_the_rest_in_the_order_of_the_thresholds() {
    let names = [
        "imagefs.available",
        "memory.available",
        "nodefs.available",
        "pid.available",
    ];
    let entries: Vec<(&str, &str)> = names.map(|name| (name, "5%")).to_vec();
    let thresholds = hard(&entries).on(36);
    for (free, expected) in [
        ([0, 0, 0, 0], Some(Signal::MemoryAvailable)),
        ([0, GI * 9, 0, 0], Some(Signal::ImageFsAvailable)),
        ([GI * 9, GI * 9, 0, 0], Some(Signal::NodeFsAvailable)),
        ([GI * 9, GI * 9, GI * 9, 0], Some(Signal::PidAvailable)),
        ([GI * 9; 4], None),
    ] {
        let signals = names.map(|name| name.parse().expect("a signal"));
        let free: Vec<(Signal, u64)> = signals.into_iter().zip(free).collect();
        let plan = thresholds.plan(&pressure(Layout::DedicatedImages, measured(&free, 1)), at(1));
        let answered = plan.summary.trigger.map(|trigger| trigger.threshold.signal);
        assert_eq!(answered, expected, "{free:?}");
        for (signal, free) in free {
            let expected = match answered {
                _ if free > 0 => Some(Reason::NotMet),
                Some(than) if than != signal => Some(Reason::LessUrgent { than }),
                Some(Signal::ImageFsAvailable) | None => None,
                Some(_) => Some(Reason::NothingToCollect),
            };
            assert_eq!(reason_of(&plan.kept, signal), expected.as_ref(), "{signal}");
        }
    }
}

#[test]
fn n4_4_a_soft_threshold_counts_after_its_grace_without_interruption() {
    let disk = Signal::NodeFsAvailable;
    let setting = Setting {
        soft: &[(disk.as_str(), "10%", 60)],
        ..Setting::default()
    };
    let thresholds = setting.on(36);
    let mut facts = pressure(Layout::Single, Observations::default());
    for (now, free, kept, until) in [
        (0, 20, Some(Reason::NotMet), None),
        (10, 5, Some(Reason::InGrace { until: at(70) }), Some(at(70))),
        (69, 5, Some(Reason::InGrace { until: at(70) }), Some(at(70))),
        (70, 5, None, None),
        // Still met: it continues to count.
        (80, 5, None, None),
        (90, 20, Some(Reason::NotMet), None),
        // A break, and the grace period starts again.
        (100, 5, Some(Reason::InGrace { until: at(160) }), Some(at(160))),
        (159, 5, Some(Reason::InGrace { until: at(160) }), Some(at(160))),
        (160, 5, None, None),
    ] {
        facts.observations = measured(&[(disk, free * GI)], now);
        let plan = thresholds.plan(&facts, at(now));
        assert_eq!(reason_of(&plan.kept, disk), kept.as_ref(), "at {now}");
        assert_eq!(plan.next_at, until, "at {now}");
        assert_eq!(plan.actions.is_empty(), kept.is_some(), "at {now}");
        // The node's condition does not wait for the grace period.
        assert_eq!(plan.summary.conditions.len(), usize::from(free < 10), "at {now}");
        facts.history = plan.summary.history;
    }
}

#[test]
fn n4_4_a_threshold_counts_until_its_minimum_reclaim_is_available() {
    let disk = Signal::NodeFsAvailable;
    let setting = Setting {
        hard: &[(disk.as_str(), "10Gi")],
        reclaim: &[(disk.as_str(), "5Gi")],
        ..Setting::default()
    };
    let thresholds = setting.on(36);
    let mut facts = pressure(Layout::Single, Observations::default());
    for (now, free, acts) in [
        (0, 12, false),
        (10, 9, true),
        (20, 12, true),
        (30, 14, true),
        (40, 15, false),
        (50, 12, false),
    ] {
        facts.observations = measured(&[(disk, free * GI)], now);
        let plan = thresholds.plan(&facts, at(now));
        assert_eq!(!plan.actions.is_empty(), acts, "at {now}");
        facts.history = plan.summary.history;
    }
}

#[test]
fn n4_4_only_a_new_measurement_counts() {
    let disk = Signal::NodeFsAvailable;
    let thresholds = hard(&[(disk.as_str(), "10%")]).on(36);
    let mut facts = pressure(Layout::Single, Observations::default());
    for (step, (measured_at, expected)) in [
        (Some(5), None),
        (Some(5), Some(Reason::OldMeasurement)),
        (Some(4), Some(Reason::OldMeasurement)),
        (Some(5), None),
        (Some(6), None),
        // Without a time, a measurement is always new.
        (None, None),
        (None, None),
        (Some(1), None),
    ]
    .into_iter()
    .enumerate()
    {
        let observation = Observation {
            available: 0,
            capacity: 100,
            at: measured_at.map(at),
        };
        facts.observations = [(disk, observation)].into_iter().collect();
        let plan = thresholds.plan(&facts, at(100));
        assert_eq!(reason_of(&plan.kept, disk), expected.as_ref(), "step {step}");
        facts.history = plan.summary.history;
    }
}

#[test]
fn a_hard_threshold_counts_if_the_clock_went_backwards() {
    let disk = Signal::NodeFsAvailable;
    let thresholds = hard(&[(disk.as_str(), "10%")]).on(36);
    let mut facts = pressure(Layout::Single, measured(&[(disk, 0)], 100));
    facts.history = thresholds.plan(&facts, at(100)).summary.history;
    facts.observations = measured(&[(disk, 0)], 101);
    assert_eq!(thresholds.plan(&facts, at(50)).actions.len(), 2);
}

#[test]
fn n4_19_thresholds_on_writable_layers_are_copies_since_1_31() {
    let setting = Setting {
        hard: &[
            ("containerfs.available", "1%"),
            ("imagefs.available", "15%"),
            ("nodefs.available", "10%"),
            ("nodefs.inodesFree", "5%"),
        ],
        ..Setting::default()
    };
    let copied = |layout| {
        let effective = setting.on(36).effective(layout);
        let configured = effective
            .iter()
            .take_while(|threshold| threshold.origin == Origin::Configured);
        assert_eq!(configured.count(), 3, "the configured ones come first");
        effective
            .iter()
            .skip(3)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let of_node = [
        "containerfs.available<10% (copied from nodefs.available)",
        "containerfs.inodesFree<5% (copied from nodefs.inodesFree)",
    ];
    assert_eq!(copied(Layout::Single), of_node);
    assert_eq!(copied(Layout::Split), of_node);
    assert_eq!(
        copied(Layout::DedicatedImages),
        ["containerfs.available<15% (copied from imagefs.available)"]
    );
    let plan = setting
        .on(36)
        .plan(&pressure(Layout::DedicatedImages, Observations::default()), at(0));
    let layers = Signal::ContainerFsAvailable;
    let odd: Vec<&Reason> = plan
        .findings
        .iter()
        .filter(
            |finding| matches!(&finding.object, Subject::Threshold(threshold) if threshold.signal == layers),
        )
        .map(|finding| &finding.reason)
        .collect();
    let from = Signal::ImageFsAvailable;
    assert_eq!(odd, [&Reason::Replaced, &Reason::Copied { from }]);

    let older = hard(&[("nodefs.available", "10%")]).on(30);
    for layout in LAYOUTS {
        assert_eq!(older.effective(layout), older.configured());
    }
}

#[test]
fn n4_20_a_random_order_of_upstream_is_a_finding() {
    let (node, layers) = (Signal::NodeFsAvailable, Signal::ContainerFsAvailable);
    let thresholds = hard(&[(node.as_str(), "10%")]).on(36);
    for (observed, chance) in [(&[(node, 0), (layers, 0)][..], true), (&[(node, 0)], false)] {
        let plan = thresholds.plan(&pressure(Layout::Single, measured(observed, 1)), at(1));
        assert_eq!(plan.actions.len(), 2, "the configured one is answered");
        let found = plan
            .findings
            .iter()
            .any(|finding| finding.reason == Reason::OrderIsRandom { other: layers });
        assert_eq!(found, chance);
    }
}

#[test]
fn implausible_measurements_are_findings() {
    let disk = Signal::NodeFsAvailable;
    for (observation, expected, acts) in [
        (None, Some(Reason::NotMeasured), false),
        (Some((0, 0, 1)), Some(Reason::CapacityIsZero), false),
        (Some((7, 0, 1)), Some(Reason::CapacityIsZero), false),
        (
            Some((2 * GI, GI, 1)),
            Some(Reason::AvailableAboveCapacity {
                available: 2 * GI,
                capacity: GI,
            }),
            false,
        ),
        (
            Some((0, GI, 99)),
            Some(Reason::MeasuredInFuture { at: at(99) }),
            true,
        ),
        (Some((0, GI, 5)), None, true),
    ] {
        let thresholds = hard(&[(disk.as_str(), "1Gi")]).on(30);
        let observations = observation.map(|(available, capacity, seconds)| {
            let observation = Observation {
                available,
                capacity,
                at: Some(at(seconds)),
            };
            (disk, observation)
        });
        let plan = thresholds.plan(
            &pressure(Layout::Single, observations.into_iter().collect()),
            at(5),
        );
        assert_eq!(
            plan.findings.first().map(|finding| finding.reason.clone()),
            expected
        );
        assert_eq!(!plan.actions.is_empty(), acts, "{observation:?}");
    }
}

#[test]
fn file_systems_are_inserted_if_both_numbers_are_known() {
    let whole = FileSystem {
        capacity_bytes: Some(100),
        available_bytes: Some(10),
        inodes: Some(50),
        inodes_free: Some(5),
        ..FileSystem::default()
    };
    let partial = FileSystem {
        inodes: None,
        ..whole
    };
    use {FileSystemRole::*, Signal::*};
    for (role, bytes, inodes) in [
        (Node, NodeFsAvailable, NodeFsInodesFree),
        (Images, ImageFsAvailable, ImageFsInodesFree),
        (Containers, ContainerFsAvailable, ContainerFsInodesFree),
    ] {
        let mut observations = role.observations(&partial, None);
        assert_eq!(observations.keys().copied().collect::<Vec<_>>(), [bytes]);
        observations.extend(role.observations(&whole, Some(at(3))));
        let inodes = observations.get(&inodes).copied();
        assert_eq!(
            inodes,
            Some(Observation {
                available: 5,
                capacity: 50,
                at: Some(at(3))
            })
        );
    }
}
