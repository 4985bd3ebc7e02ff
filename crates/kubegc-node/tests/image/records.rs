//! Rules N3.1 to N3.17: image records and use.

use super::*;

#[test]
fn n3_1_n3_10_records_contain_the_listed_facts_and_the_times_of_use() {
    let mut node = Inventory {
        images: listed([
            Image {
                pinned: true,
                runtime_handler: "kata".into(),
                ..image("a", 7)
            },
            image("b", 8),
        ]),
        containers: listed([user("c", "b", "", "")]),
        ..empty()
    };
    let detect = newest().with_task(Task::Detect);
    let first = detect.plan(&node, at(10)).summary.records;
    assert_eq!(
        (first.len(), first.is_empty(), first.detected()),
        (2, false, true)
    );
    let expected = Record {
        size_bytes: 7,
        pinned: true,
        runtime_handler: "kata".into(),
        ..record("a", Some(10), None)
    };
    assert_eq!(first.get("a"), Some(&expected));
    let used = Record {
        size_bytes: 8,
        ..record("b", Some(10), Some(10))
    };
    assert_eq!(first.get("b"), Some(&used));
    assert_eq!(first.get("c"), None);

    // Size and pin follow the listing; first detection, handler and last use stay.
    node.images = listed([image("a", 9), image("b", 8)]);
    node.containers = listed([]);
    node.image_records = first;
    let second = detect.plan(&node, at(20)).summary.records;
    let expected = Record {
        size_bytes: 9,
        runtime_handler: "kata".into(),
        ..record("a", Some(10), None)
    };
    assert_eq!(second.get("a"), Some(&expected));
    assert_eq!(
        second.get("b"),
        Some(&used),
        "n3_12: last seen in use, not last used"
    );

    // N3.11: dropped, and new when it is listed again.
    node.images = listed([image("a", 9)]);
    node.image_records = second;
    node.image_records = detect.plan(&node, at(30)).summary.records;
    assert_eq!(
        node.image_records
            .iter()
            .map(|record| &*record.key)
            .collect::<Vec<_>>(),
        ["a"]
    );
    node.images = listed([image("a", 9), image("b", 8)]);
    let back = detect.plan(&node, at(40)).summary.records;
    assert_eq!(
        back.get("b")
            .map(|record| (record.first_detected, record.last_used)),
        Some((Some(at(40)), None))
    );
}

#[test]
fn n3_2_keys_name_the_handler_under_the_gate_only() {
    let on = [(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, true)];
    for (semantics, keys) in [
        (release("1.36.0"), &["a", "b"][..]),
        (gated("1.36.0", &on), &["a", "b,kata"]),
        (gated("1.29.0", &on), &["a", "b,kata"]),
        (gated("1.28.0", &on), &["a", "b"]),
    ] {
        let handled = Image {
            runtime_handler: "kata".into(),
            ..image("b", 1)
        };
        let node = Inventory {
            images: listed([image("a", 1), handled]),
            ..empty()
        };
        let plan = policy(Thresholds::default(), semantics)
            .with_task(Task::Detect)
            .plan(&node, at(1));
        let got: Vec<_> = plan.summary.records.iter().map(|record| &*record.key).collect();
        assert_eq!(got, keys, "{semantics:?}");
    }
}

#[test]
fn n3_2_n3_6_use_under_the_gate_is_use_with_the_same_handler() {
    for (on, handler, used) in [
        (true, "kata", true),
        (true, "", false),
        (false, "", true),
        (false, "runc", true),
    ] {
        let semantics = gated("1.36.0", &[(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, on)]);
        let handled = Image {
            runtime_handler: "kata".into(),
            ..image("a", 1)
        };
        let node = Inventory {
            images: listed([handled]),
            containers: listed([user("c", "a", "a", handler)]),
            ..empty()
        };
        let plan = policy(thresholds(85, 80), semantics)
            .with_task(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            used,
            "gate {on}, {handler:?}"
        );
    }
}

#[test]
fn n3_5_a_failed_listing_keeps_the_records_and_returns_its_error() {
    let why = |text: &str| Unlisted::Failed(RuntimeError::refused(text));
    let whole = full(&[("a", 100)]);
    for (broken, text) in [
        (
            Inventory {
                images: Err(why("no images")),
                ..whole.clone()
            },
            "no images",
        ),
        (
            Inventory {
                containers: Err(why("no pods")),
                ..whole.clone()
            },
            "no pods",
        ),
        (
            Inventory {
                image_volumes: Err(why("gone")),
                ..whole.clone()
            },
            "get container status: gone",
        ),
        (
            Inventory {
                images: Err(Unlisted::NotRequested),
                ..whole.clone()
            },
            "not listed",
        ),
        (
            Inventory {
                image_file_system: Err(why("no disk")),
                ..whole.clone()
            },
            "no disk",
        ),
    ] {
        for task in [
            Task::Detect,
            Task::Collect,
            Task::DeleteUnused,
            Task::Free { bytes: 1 },
        ] {
            let measures = broken.image_file_system.is_err() && task != Task::Collect;
            let plan = newest().with_task(task).plan(&broken, at(900));
            if measures {
                assert_eq!(error(&plan), "", "{task:?} measures no disk");
                continue;
            }
            assert_eq!(error(&plan), text, "{task:?}");
            assert!(plan.actions.is_empty() && plan.summary.events.is_empty());
            if broken.image_file_system.is_ok() {
                assert_eq!(plan.summary.records, whole.image_records);
                assert!(plan.kept.is_empty());
            }
        }
    }
}

#[test]
fn n3_6_n3_13_the_id_identifies_use_since_1_30() {
    for (version, reference, id, used) in [
        ("1.20.2", "a", "", true),
        ("1.20.2", "a", "other", true),
        ("1.29.9", "a", "other", true),
        ("1.29.9", "other", "a", false),
        ("1.30.0", "a", "other", false),
        ("1.30.0", "other", "a", true),
        ("1.30.0", "a", "", true),
        ("1.36.0", "other", "a", true),
        // Names, tags and digests do not count.
        ("1.36.0", "shop/a:1", "", false),
        ("1.36.0", "sha256:a", "", false),
    ] {
        let named = Image {
            tags: vec!["shop/a:1".into()],
            ..image("a", 1)
        };
        let node = Inventory {
            images: listed([named]),
            containers: listed([user("c", reference, id, "")]),
            ..empty()
        };
        let plan = policy(Thresholds::default(), release(version))
            .with_task(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            used,
            "{version} {reference} {id}"
        );
    }
}

#[test]
fn n3_7_a_container_without_an_image_fails_the_run() {
    for (version, reference, id) in [("1.36.0", "", ""), ("1.29.0", "", "a")] {
        let mut node = full(&[("a", 100)]);
        node.containers = listed([user("c7", reference, id, "")]);
        let plan = policy(Thresholds::default(), release(version)).plan(&node, at(900));
        assert!(plan.actions.is_empty());
        assert_eq!(
            error(&plan),
            "container c7 has neither an image reference nor an image id"
        );
    }
}

#[test]
fn n3_8_the_sandbox_image_is_protected_up_to_1_28() {
    for (version, spared) in [
        ("1.20.2", true),
        ("1.28.0", true),
        ("1.28.15", true),
        ("1.29.0", false),
        ("1.36.0", false),
    ] {
        for reported in [Some("pause"), None, Some("")] {
            let mut node = full(&[("pause", 100), ("a", 100)]);
            node.sandbox_image = reported.map(Arc::from);
            let plan = policy(Thresholds::default(), release(version))
                .with_task(Task::DeleteUnused)
                .plan(&node, at(900));
            let spared = spared && reported == Some("pause");
            assert_eq!(
                removed(&plan).contains(&"pause"),
                !spared,
                "{version} {reported:?}"
            );
            assert!(removed(&plan).contains(&"a"));
        }
    }
}

#[test]
fn n3_9_images_mounted_as_volumes_are_in_use_where_the_gate_is_on() {
    for (version, set, considered) in [
        ("1.30.0", Some(true), false),
        ("1.31.0", Some(true), true),
        ("1.31.0", None, false),
        ("1.34.0", None, false),
        ("1.35.0", None, true),
        ("1.36.0", None, true),
        ("1.36.0", Some(false), false),
    ] {
        let gates: Vec<_> = set.map(|on| (gate::IMAGE_VOLUME, on)).into_iter().collect();
        let policy = policy(Thresholds::default(), gated(version, &gates)).with_task(Task::DeleteUnused);
        let mut node = full(&[("a", 100), ("b", 100)]);
        node.image_volumes = Ok(vec!["a".into(), "gone".into()]);
        let plan = policy.plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            considered,
            "{version} {set:?}"
        );
        node.image_volumes = Err(Unlisted::Failed(RuntimeError::NotFound));
        let plan = policy.plan(&node, at(900));
        let text = if considered {
            "get container status: not found"
        } else {
            ""
        };
        assert_eq!(error(&plan), text, "{version} {set:?}");
    }
    // The plain id counts: under the other gate, no handler follows it.
    let semantics = gated("1.36.0", &[(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, true)]);
    let handled = Image {
        runtime_handler: "kata".into(),
        ..image("a", 1)
    };
    let node = Inventory {
        images: listed([handled]),
        image_volumes: Ok(vec!["a".into()]),
        ..empty()
    };
    let plan = policy(Thresholds::default(), semantics)
        .with_task(Task::Detect)
        .plan(&node, at(900));
    assert_eq!(reason(&plan, "a"), Some(&Reason::OnlyDetected));
}

#[test]
fn n3_10_use_is_dated_with_the_end_of_the_reads_and_of_equal_ids_the_later_counts() {
    let twice = |first: bool, second: bool| {
        let pinned = |pinned, size| Image {
            pinned,
            ..image("a", size)
        };
        Inventory {
            images: listed([pinned(first, 1), pinned(second, 2)]),
            containers: listed([user("c", "b", "", "")]),
            ..empty()
        }
    };
    for (first, second, expected) in [(true, false, 1), (false, true, 0)] {
        let node = twice(first, second);
        let plan = newest().with_task(Task::DeleteUnused).plan(&node, at(900));
        let records = newest()
            .with_task(Task::Detect)
            .plan(&node, at(900))
            .summary
            .records;
        assert_eq!(
            records.get("a").map(|record| (record.size_bytes, record.pinned)),
            Some((2, second))
        );
        let young = Policy::new(
            Thresholds {
                age_min: seconds(OFF),
                ..Thresholds::default()
            },
            release("1.36.0"),
        );
        let forced = young
            .expect("valid")
            .with_task(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(forced.actions.len(), expected);
        assert_eq!(
            plan.findings
                .iter()
                .filter(|finding| finding.reason == Reason::Repeated)
                .count(),
            1
        );
    }
    let mut node = full(&[("a", 1)]);
    node.containers = listed([user("c", "a", "", "")]);
    let mut run = Run::new(newest(), Task::Detect, Records::default(), at(0), at(5));
    assert_eq!(run.next(None), Step::List);
    assert!(!run.has_listed());
    let response = Response::Listed {
        inventory: &node,
        at: at(8),
    };
    assert_eq!(run.next(Some(response)), Step::Done);
    assert!(run.has_listed());
    let got = run
        .records()
        .get("a")
        .map(|record| (record.first_detected, record.last_used));
    assert_eq!(got, Some((Some(at(5)), Some(at(8)))));
}

#[test]
fn n3_14_to_n3_16_up_to_1_28_the_first_detection_has_no_time() {
    for (version, dated) in [
        ("1.20.2", false),
        ("1.28.0", false),
        ("1.29.0", true),
        ("1.30.0", true),
        ("1.36.0", true),
    ] {
        let policy = policy(Thresholds::default(), release(version));
        let mut node = full(&[("a", 900)]);
        node.image_records = Records::default();
        assert!(!node.image_records.detected());
        node.image_records = policy
            .with_task(Task::Detect)
            .plan(&node, at(1_000))
            .summary
            .records;
        let detected = node
            .image_records
            .get("a")
            .and_then(|record| record.first_detected);
        assert_eq!(detected, dated.then(|| at(1_000)), "{version}");
        // Idea 46: right after a restart the minimum age protects only dated images.
        let plan = policy.plan(&node, at(1_001));
        assert_eq!(plan.actions.len(), usize::from(!dated), "{version}");
        // New images of the second detection are dated in every version.
        node.images = listed([image("a", 900), image("b", 1)]);
        let again = policy
            .with_task(Task::Detect)
            .plan(&node, at(1_010))
            .summary
            .records;
        assert_eq!(
            again.get("b").and_then(|record| record.first_detected),
            Some(at(1_010))
        );
        // New images of a collection get its time, whether collection or detection runs first.
        node.image_records = Records::default();
        let plan = policy.plan(&node, at(1_020));
        let first = plan
            .summary
            .records
            .get("a")
            .and_then(|record| record.first_detected);
        assert_eq!(first, Some(at(1_020)), "{version}");
        assert!(
            !plan.summary.records.detected(),
            "a collection is not a first detection"
        );
    }
    // The first detection that fails leaves the next one the first.
    let mut node = full(&[("a", 900)]);
    node.images = Err(Unlisted::NotRequested);
    node.image_records = Records::default();
    let old = policy(Thresholds::default(), release("1.28.0")).with_task(Task::Detect);
    assert!(!old.plan(&node, at(1)).summary.records.detected());
    // A caller can set it in any version.
    let node = full(&[("a", 900)]);
    let mut with_zero_detection_time =
        Run::new(newest(), Task::Detect, Records::default(), at(0), at(5)).with_zero_detection_time();
    with_zero_detection_time.next(None);
    with_zero_detection_time.next(Some(Response::Listed {
        inventory: &node,
        at: at(5),
    }));
    assert_eq!(
        with_zero_detection_time
            .records()
            .get("a")
            .map(|record| record.first_detected),
        Some(None)
    );
}

#[test]
fn n3_17_pinned_images_are_kept_since_about_1_23() {
    for (version, spared) in [
        ("1.20.2", false),
        ("1.22.9", false),
        ("1.23.0", true),
        ("1.28.0", true),
        ("1.36.0", true),
    ] {
        let pinned = Image {
            pinned: true,
            ..image("a", 900)
        };
        let mut node = full(&[("a", 900)]);
        node.images = listed([pinned]);
        let plan = policy(Thresholds::default(), release(version))
            .with_task(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(reason(&plan, "a") == Some(&Reason::Pinned), spared, "{version}");
        assert_eq!(plan.actions.len(), usize::from(!spared), "{version}");
    }
}
