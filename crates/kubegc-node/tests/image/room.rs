//! Rules N3.18 to N3.37: the order of candidates, the disk usage, and the texts of a run.

use super::*;

#[test]
fn n3_18_least_recently_used_first_then_first_detected_then_by_key() {
    let mut node = full(&[("f", 1), ("e", 1), ("d", 900), ("c", 1), ("b", 1), ("a", 1)]);
    node.image_records = [
        record("a", Some(1), Some(20)),
        record("b", Some(2), Some(10)),
        record("c", Some(1), Some(10)),
        record("d", Some(3), None),
        record("e", None, None),
        record("f", Some(1), Some(10)),
    ]
    .into_iter()
    .collect();
    for (order, expected) in [
        (Order::Total, ["e", "d", "c", "f", "b", "a"]),
        (Order::Listing, ["e", "d", "f", "c", "b", "a"]),
    ] {
        for version in crate::world::RELEASES {
            let forced = policy(Thresholds::default(), release(version))
                .with_order(order)
                .with_task(Task::DeleteUnused);
            assert_eq!(
                removed(&forced.plan(&node, at(900))),
                expected,
                "{order:?} {version}"
            );
        }
    }
}

#[test]
fn n3_19_a_record_that_names_no_image_is_skipped_with_an_event_under_the_gate() {
    for (on, id, handler, events, removals) in [
        (true, "", "kata", 1, 0),
        (true, "", "", 1, 0),
        (true, ",x", "", 1, 0),
        (true, "a", "kata", 0, 1),
        (false, "", "", 0, 1),
    ] {
        let semantics = gated("1.36.0", &[(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, on)]);
        let odd = Image {
            runtime_handler: handler.into(),
            ..image(id, 900)
        };
        let mut node = full(&[]);
        node.images = listed([odd]);
        node.image_records = [record(
            &if on && !handler.is_empty() {
                format!("{id},{handler}")
            } else {
                id.to_owned()
            },
            Some(0),
            None,
        )]
        .into_iter()
        .collect();
        let plan = policy(Thresholds::default(), semantics)
            .with_task(Task::DeleteUnused)
            .plan(&node, at(900));
        let expected = vec![
            Event {
                kind: EventKind::Warning,
                reason: "ImageID is not valid, skipping, ImageID: %v",
                message: String::new(),
            };
            events
        ];
        assert_eq!(plan.summary.events, expected, "{on} {id:?}");
        assert_eq!(plan.actions.len(), removals, "{on} {id:?}");
        let is_found = plan
            .findings
            .iter()
            .any(|finding| finding.reason == Reason::InvalidId);
        assert_eq!(is_found, id != "a", "reported in either case");
        assert_eq!(reason(&plan, id), (removals == 0).then_some(&Reason::InvalidId));
    }
}

#[test]
fn n3_30_unusable_capacities() {
    for (disk, text, reasons) in [
        (
            FileSystem::default(),
            "invalid capacity 0 on image filesystem",
            &["InvalidDiskCapacity"][..],
        ),
        (
            file_system(0, 0),
            "invalid capacity 0 on image filesystem",
            &["InvalidDiskCapacity"],
        ),
        (
            file_system(0, 5),
            "invalid capacity 0 on image filesystem",
            &["InvalidDiskCapacity"],
        ),
        (
            FileSystem {
                capacity_bytes: None,
                ..file_system(0, 5)
            },
            "invalid capacity 0 on image filesystem",
            &["InvalidDiskCapacity"],
        ),
        // Available missing: nothing is free.
        (
            FileSystem {
                available_bytes: None,
                ..file_system(1_000, 0)
            },
            "",
            &[],
        ),
    ] {
        for version in crate::world::RELEASES {
            let node = Inventory {
                image_file_system: Ok(disk),
                ..full(&[("a", 900)])
            };
            let plan = policy(Thresholds::default(), release(version)).plan(&node, at(900));
            assert_eq!(error(&plan), text, "{version}");
            let got: Vec<_> = plan.summary.events.iter().map(|event| event.reason).collect();
            assert_eq!(got, reasons);
            if let [event] = &plan.summary.events[..] {
                assert_eq!((event.kind, &*event.message), (EventKind::Warning, text));
            }
            assert_eq!(plan.actions.len(), usize::from(text.is_empty()));
        }
    }
    let more = Inventory {
        image_file_system: Ok(file_system(1_000, 5_000)),
        ..full(&[("a", 900)])
    };
    let plan = newest().plan(&more, at(900));
    assert_eq!(plan.summary.usage_percent, Some(0));
    assert_eq!(plan.findings[0].reason, Reason::AvailableAboveCapacity);
    assert!(plan.actions.is_empty() && plan.summary.error.is_none());
}

#[test]
fn n3_31_to_n3_33_percentages_and_amounts() {
    for (capacity, available, high, low, percent, to_free) in [
        (1_000, 159, 85, 80, 85, Some(41)),
        (1_000, 150, 85, 80, 85, Some(50)),
        (1_000, 160, 85, 80, 84, None),
        (1_000, 9, 100, 99, 100, Some(1)),
        (1_000, 10, 100, 99, 99, None),
        (1_000, 0, 100, 0, 100, Some(1_000)),
        (1_000, 1_000, 0, 0, 0, Some(0)),
        (1_000, 600, 90, 80, 40, None),
        (1_000, 50, 90, 80, 95, Some(150)),
        (1_000, 200, 80, 80, 80, Some(0)),
        (999, 155, 85, 84, 85, Some(4)),
        (3, 1, 67, 66, 67, Some(0)),
        (1, 1, 0, 0, 0, Some(0)),
        // Below 92 PB nothing wraps.
        (
            92_233_720_368_547_758,
            0,
            85,
            0,
            100,
            Some(92_233_720_368_547_758),
        ),
    ] {
        for (arithmetic, version) in [
            (Arithmetic::Checked, "1.36.0"),
            (Arithmetic::Upstream, "1.36.0"),
            (Arithmetic::Upstream, "1.20.2"),
        ] {
            let node = Inventory {
                image_file_system: Ok(file_system(capacity, available)),
                ..full(&[])
            };
            let plan = policy(thresholds(high, low), release(version))
                .with_arithmetic(arithmetic)
                .plan(&node, at(9));
            assert_eq!(
                plan.summary.usage_percent,
                Some(percent),
                "{available} of {capacity}"
            );
            assert_eq!(plan.summary.to_free_bytes, to_free, "{available} of {capacity}");
            let below = policy(thresholds(high, low), release(version)).collects_below_bytes(capacity);
            assert_eq!(Some(available) <= below, to_free.is_some());
        }
    }
}

#[test]
fn n3_31_wrapped_products_are_a_finding_and_free_nothing_unless_wrapping_is_set() {
    let pebibyte = 1_u64 << 50;
    let node = Inventory {
        image_file_system: Ok(file_system(128 * pebibyte, 100 * pebibyte)),
        ..full(&[("a", 900)])
    };
    for (arithmetic, removals) in [(Arithmetic::Checked, 0), (Arithmetic::Upstream, 1)] {
        let plan = newest().with_arithmetic(arithmetic).plan(&node, at(900));
        // 100 PiB * 100 wraps: the node seems more than full.
        assert_eq!(plan.summary.usage_percent, Some(149), "{arithmetic:?}");
        assert_eq!(plan.actions.len(), removals);
        assert_eq!(plan.findings[0].reason, Reason::ArithmeticOverflow);
        if arithmetic == Arithmetic::Checked {
            assert_eq!(reason(&plan, "a"), Some(&Reason::ArithmeticOverflow));
            assert_eq!(plan.summary.to_free_bytes, None);
        }
    }
}

#[test]
fn n3_35_n3_36_the_text_of_a_shortfall_depends_on_the_version() {
    let wanted =
        "failed to garbage collect required amount of images. Wanted to free 150 bytes, but freed 50 bytes";
    let attempted = "Failed to garbage collect required amount of images. Attempted to free 150 bytes, but only found 50 bytes eligible to free.";
    let disk = "Insufficient free disk space on the node's image filesystem (95% of 1000 B used). Failed to free sufficient space by deleting \
                unused images (freed 50 bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data.";
    for (version, text) in [
        ("1.20.2", wanted),
        ("1.22.0", wanted),
        ("1.23.0", attempted),
        ("1.28.0", attempted),
        ("1.29.0", attempted),
        ("1.30.0", attempted),
        ("1.34.9", attempted),
        ("1.35.0", disk),
        ("1.36.0", disk),
    ] {
        let node = Inventory {
            image_file_system: Ok(file_system(1_000, 50)),
            ..full(&[("a", 50)])
        };
        let plan = policy(thresholds(90, 80), release(version)).plan(&node, at(900));
        assert_eq!(removed(&plan), ["a"], "{version}");
        assert_eq!(error(&plan), text);
        let event = Event {
            kind: EventKind::Warning,
            reason: "FreeDiskSpaceFailed",
            message: text.to_owned(),
        };
        assert_eq!(plan.summary.events, [event]);
        assert_eq!(plan.summary.shortfall_bytes(), 100);
        assert_eq!(plan.findings[0].reason, Reason::Shortfall { missing_bytes: 100 });
    }
    for (capacity, text) in [
        (1_000, "1000 B"),
        (1_024, "1.0 KiB"),
        (1_536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (107_374_182_400, "100.0 GiB"),
        (1 << 41, "2.0 TiB"),
        (1 << 51, "2048.0 TiB"),
    ] {
        let node = Inventory {
            image_file_system: Ok(file_system(capacity, 0)),
            ..full(&[])
        };
        let text = format!("(100% of {text} used)");
        assert!(error(&newest().plan(&node, at(9))).contains(&text), "{text}");
    }
}

#[test]
fn n3_37_n3_48_hooks_run_only_after_the_space_step_and_get_the_considered_images() {
    let mut node = full(&[
        ("done", 100),
        ("later", 1),
        ("pinned", 1),
        ("used", 1),
        ("young", 1),
    ]);
    node.images = listed([
        image("done", 100),
        image("later", 1),
        Image {
            pinned: true,
            ..image("pinned", 1)
        },
        image("used", 1),
        image("young", 1),
    ]);
    node.containers = listed([user("c", "used", "used", "")]);
    node.image_records = [
        record("young", Some(899), None),
        record("done", Some(0), Some(5)),
        record("later", Some(0), Some(6)),
    ]
    .into_iter()
    .collect();
    for (version, gates, available, runs) in [
        ("1.36.0", &[][..], 100, true),
        ("1.35.0", &[], 100, true),
        ("1.34.0", &[], 100, false),
        ("1.33.0", &[(gate::ENSURE_SECRET_PULLED_IMAGES, true)], 100, true),
        ("1.32.0", &[(gate::ENSURE_SECRET_PULLED_IMAGES, true)], 100, false),
        (
            "1.36.0",
            &[(gate::ENSURE_SECRET_PULLED_IMAGES, false)],
            100,
            false,
        ),
        // Below the threshold.
        ("1.36.0", &[], 500, false),
        // A shortfall: hooks ran before it was reported.
        ("1.36.0", &[], 0, true),
    ] {
        node.image_file_system = Ok(file_system(1_000, available));
        let plan = policy(Thresholds::default(), gated(version, gates)).plan(&node, at(900));
        let hook = plan.summary.hook.as_ref();
        assert_eq!(hook.is_some(), runs, "{version} {gates:?} {available}");
        if let Some(hook) = hook {
            let remaining: Vec<_> = hook.remaining.iter().map(|id| &**id).collect();
            assert_eq!(
                remaining,
                ["young"],
                "not the images after the early stop, in use or pinned"
            );
            assert_eq!(hook.began_at, at(900));
        }
        if available == 100 {
            assert_eq!(
                reason(&plan, "later"),
                Some(&Reason::EnoughFreed { freed_bytes: 100 })
            );
        }
    }
    // A failed removal.
    node.image_file_system = Ok(file_system(1_000, 100));
    let (_, plan) = perform(newest(), Task::Collect, &node, at(900), &["done"]);
    assert_eq!(plan.summary.hook, None);
    // N3.46: forced removal runs them as well.
    let plan = newest().with_task(Task::DeleteUnused).plan(&node, at(900));
    let remaining = plan.summary.hook.map(|hook| hook.remaining);
    assert_eq!(remaining, Some(vec!["young".into()]));
}
