//! Rules N3.1 to N3.50: images and what is remembered of them.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    PlanOf, Planner, RuntimeError, Timestamp,
    node_facts::{Container, FileSystem, Image},
};
use kubegc_node::{
    Event, EventKind, Inventory, Order, Semantics, Unlisted,
    image::{
        Action, Answer, Arithmetic, Error, Pass, Policy, Reason, Record, Records, Step, Subject, Task,
        Thresholds,
    },
    semantics::gate,
};

use crate::world::{at, empty, file_system, gated, image, listed, release, seconds, user};

const OFF: i64 = 0;

fn thresholds(high: i32, low: i32) -> Thresholds {
    Thresholds {
        high_percent: high,
        low_percent: low,
        ..Thresholds::default()
    }
}

fn policy(thresholds: Thresholds, semantics: Semantics) -> Policy {
    Policy::new(thresholds, semantics).expect("valid thresholds")
}

/// Upstream's thresholds on the newest version.
fn newest() -> Policy {
    policy(Thresholds::default(), release("1.36.0"))
}

/// A record by key, second of first detection and second of last use.
fn record(key: &str, detected: Option<i64>, used: Option<i64>) -> Record {
    Record {
        key: key.into(),
        first_detected: detected.map(at),
        last_used: used.map(at),
        size_bytes: 0,
        pinned: false,
        runtime_handler: "".into(),
    }
}

/// A full disk of 1000 bytes with these images, all detected at 0 and never used.
fn full(images: &[(&str, u64)]) -> Inventory {
    Inventory {
        images: listed(images.iter().map(|&(id, size)| image(id, size))),
        image_records: images.iter().map(|&(id, _)| record(id, Some(0), None)).collect(),
        image_file_system: Ok(file_system(1_000, 0)),
        ..empty()
    }
}

fn removed(plan: &PlanOf<Policy>) -> Vec<&str> {
    let ids = plan.actions.iter().map(|Action::Remove { image, .. }| &*image.id);
    ids.collect()
}

/// Why the image of this id stays.
fn reason<'a>(plan: &'a PlanOf<Policy>, id: &str) -> Option<&'a Reason> {
    let about = |subject: &Subject| matches!(subject, Subject::Image(image) if &*image.id == id);
    plan.kept
        .iter()
        .find(|kept| about(&kept.object))
        .map(|kept| &kept.reason)
}

fn error(plan: &PlanOf<Policy>) -> String {
    plan.summary
        .error
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Runs a pass over one inventory, in which removing these images fails, and says which steps it took.
fn pass(
    policy: Policy,
    task: Task,
    node: &Inventory,
    now: Timestamp,
    fails: &[&str],
) -> (Vec<String>, PlanOf<Policy>) {
    let since = node.images_watched_since;
    let mut pass = Pass::new(policy, task, node.image_records.clone(), since, now);
    let (mut steps, mut answer) = (Vec::new(), None);
    loop {
        let step = pass.next(answer.take());
        assert_eq!(step, pass.next(None), "without an answer the step stays");
        answer = match step {
            Step::List => {
                steps.push("list".to_owned());
                Some(Answer::Listed {
                    inventory: node,
                    at: now,
                })
            }
            Step::Measure => {
                steps.push("measure".to_owned());
                Some(Answer::Measured(node.image_file_system.clone()))
            }
            Step::Remove(Action::Remove { image, .. }) => {
                steps.push(image.id.to_string());
                let refused = RuntimeError::refused(format!("{} is busy", image.id));
                Some(Answer::Removed(if fails.contains(&&*image.id) {
                    Err(refused)
                } else {
                    Ok(())
                }))
            }
            Step::Done => return (steps, pass.finish()),
        };
    }
}

#[test]
fn n3_1_n3_10_records_hold_what_was_listed_and_when_it_was_used() {
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
    let detect = newest().to(Task::Detect);
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

    // N3.11: dropped, and new when it comes back.
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
            .to(Task::Detect)
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
            .to(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            used,
            "gate {on}, {handler:?}"
        );
    }
}

#[test]
fn n3_5_listings_that_fail_leave_the_records_and_give_their_error() {
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
                images: Err(Unlisted::NotAsked),
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
            let plan = newest().to(task).plan(&broken, at(900));
            if measures {
                assert_eq!(error(&plan), "", "{task:?} looks at no disk");
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
fn n3_6_n3_13_use_is_told_by_the_id_since_1_30() {
    for (version, reference, id, used) in [
        ("1.20.2", "a", "", true),
        ("1.20.2", "a", "other", true),
        ("1.29.9", "a", "other", true),
        ("1.29.9", "other", "a", false),
        ("1.30.0", "a", "other", false),
        ("1.30.0", "other", "a", true),
        ("1.30.0", "a", "", true),
        ("1.36.0", "other", "a", true),
        // Names, tags and digests are not looked at.
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
            .to(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            used,
            "{version} {reference} {id}"
        );
    }
}

#[test]
fn n3_7_a_container_without_an_image_fails_the_pass_for_any_image_may_be_its() {
    for (version, reference, id) in [("1.36.0", "", ""), ("1.29.0", "", "a")] {
        let mut node = full(&[("a", 100)]);
        node.containers = listed([user("c7", reference, id, "")]);
        let plan = policy(Thresholds::default(), release(version)).plan(&node, at(900));
        assert!(plan.actions.is_empty());
        assert_eq!(
            error(&plan),
            "container c7 does not say what image it was made from"
        );
    }
}

#[test]
fn n3_8_the_sandbox_image_is_spared_up_to_1_28() {
    for (version, spared) in [
        ("1.20.2", true),
        ("1.28.0", true),
        ("1.28.15", true),
        ("1.29.0", false),
        ("1.36.0", false),
    ] {
        for told in [Some("pause"), None, Some("")] {
            let mut node = full(&[("pause", 100), ("a", 100)]);
            node.sandbox_image = told.map(Arc::from);
            let plan = policy(Thresholds::default(), release(version))
                .to(Task::DeleteUnused)
                .plan(&node, at(900));
            let spared = spared && told == Some("pause");
            assert_eq!(removed(&plan).contains(&"pause"), !spared, "{version} {told:?}");
            assert!(removed(&plan).contains(&"a"));
        }
    }
}

#[test]
fn n3_9_images_mounted_as_volumes_are_in_use_where_the_gate_is_on() {
    for (version, set, looked_at) in [
        ("1.30.0", Some(true), false),
        ("1.31.0", Some(true), true),
        ("1.31.0", None, false),
        ("1.34.0", None, false),
        ("1.35.0", None, true),
        ("1.36.0", None, true),
        ("1.36.0", Some(false), false),
    ] {
        let gates: Vec<_> = set.map(|on| (gate::IMAGE_VOLUME, on)).into_iter().collect();
        let policy = policy(Thresholds::default(), gated(version, &gates)).to(Task::DeleteUnused);
        let mut node = full(&[("a", 100), ("b", 100)]);
        node.image_volumes = Ok(vec!["a".into(), "gone".into()]);
        let plan = policy.plan(&node, at(900));
        assert_eq!(
            reason(&plan, "a") == Some(&Reason::InUse),
            looked_at,
            "{version} {set:?}"
        );
        node.image_volumes = Err(Unlisted::Failed(RuntimeError::NotFound));
        let plan = policy.plan(&node, at(900));
        let text = if looked_at {
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
        .to(Task::Detect)
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
    for (first, second, goes) in [(true, false, 1), (false, true, 0)] {
        let node = twice(first, second);
        let plan = newest().to(Task::DeleteUnused).plan(&node, at(900));
        let records = newest().to(Task::Detect).plan(&node, at(900)).summary.records;
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
        let forced = young.expect("valid").to(Task::DeleteUnused).plan(&node, at(900));
        assert_eq!(forced.actions.len(), goes, "idea 48");
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
    let mut pass = Pass::new(newest(), Task::Detect, Records::default(), at(0), at(5));
    assert_eq!(pass.next(None), Step::List);
    assert!(!pass.has_listed());
    let answer = Answer::Listed {
        inventory: &node,
        at: at(8),
    };
    assert_eq!(pass.next(Some(answer)), Step::Done);
    assert!(pass.has_listed());
    let got = pass
        .records()
        .get("a")
        .map(|record| (record.first_detected, record.last_used));
    assert_eq!(got, Some((Some(at(5)), Some(at(8)))));
}

#[test]
fn n3_14_to_n3_16_the_first_detection_is_before_all_times_up_to_1_28() {
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
        node.image_records = policy.to(Task::Detect).plan(&node, at(1_000)).summary.records;
        let detected = node
            .image_records
            .get("a")
            .and_then(|record| record.first_detected);
        assert_eq!(detected, dated.then(|| at(1_000)), "{version}");
        // Idea 46: right after a restart the minimum age protects only what was dated.
        let plan = policy.plan(&node, at(1_001));
        assert_eq!(plan.actions.len(), usize::from(!dated), "{version}");
        // What the second detection sees first is dated in every version.
        node.images = listed([image("a", 900), image("b", 1)]);
        let again = policy.to(Task::Detect).plan(&node, at(1_010)).summary.records;
        assert_eq!(
            again.get("b").and_then(|record| record.first_detected),
            Some(at(1_010))
        );
        // What a collection sees first gets its time, whoever runs first.
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
            "a collection is no first detection"
        );
    }
    // The first detection that fails leaves the next one the first.
    let mut node = full(&[("a", 900)]);
    node.images = Err(Unlisted::NotAsked);
    node.image_records = Records::default();
    let old = policy(Thresholds::default(), release("1.28.0")).to(Task::Detect);
    assert!(!old.plan(&node, at(1)).summary.records.detected());
    // A caller can ask for it in any version.
    let node = full(&[("a", 900)]);
    let mut undated = Pass::new(newest(), Task::Detect, Records::default(), at(0), at(5)).undated();
    undated.next(None);
    undated.next(Some(Answer::Listed {
        inventory: &node,
        at: at(5),
    }));
    assert_eq!(
        undated.records().get("a").map(|record| record.first_detected),
        Some(None)
    );
}

#[test]
fn n3_17_pinned_images_stay_since_about_1_23() {
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
            .to(Task::DeleteUnused)
            .plan(&node, at(900));
        assert_eq!(reason(&plan, "a") == Some(&Reason::Pinned), spared, "{version}");
        assert_eq!(plan.actions.len(), usize::from(!spared), "{version}");
    }
}

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
    for (order, goes) in [
        (Order::Total, ["e", "d", "c", "f", "b", "a"]),
        (Order::Listing, ["e", "d", "f", "c", "b", "a"]),
    ] {
        for version in crate::world::RELEASES {
            let forced = policy(Thresholds::default(), release(version))
                .ordered(order)
                .to(Task::DeleteUnused);
            assert_eq!(removed(&forced.plan(&node, at(900))), goes, "{order:?} {version}");
        }
    }
}

#[test]
fn n3_19_a_record_that_names_no_image_is_skipped_with_an_odd_event_under_the_gate() {
    for (on, id, handler, events, goes) in [
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
            .to(Task::DeleteUnused)
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
        assert_eq!(plan.actions.len(), goes, "{on} {id:?}");
        let told = plan
            .findings
            .iter()
            .any(|finding| finding.reason == Reason::InvalidId);
        assert_eq!(told, id != "a", "told in either case");
        assert_eq!(reason(&plan, id), (goes == 0).then_some(&Reason::InvalidId));
    }
}

#[test]
fn n3_30_capacities_that_say_nothing() {
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
    assert_eq!(plan.summary.usage_percent, Some(0), "idea 40");
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
                .computing(arithmetic)
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
fn n3_31_what_wraps_is_told_and_asks_for_nothing_unless_wrapping_is_wanted() {
    let pebibyte = 1_u64 << 50;
    let node = Inventory {
        image_file_system: Ok(file_system(128 * pebibyte, 100 * pebibyte)),
        ..full(&[("a", 900)])
    };
    for (arithmetic, goes) in [(Arithmetic::Checked, 0), (Arithmetic::Upstream, 1)] {
        let plan = newest().computing(arithmetic).plan(&node, at(900));
        // 100 PiB * 100 wraps: the node seems more than full.
        assert_eq!(plan.summary.usage_percent, Some(149), "{arithmetic:?}");
        assert_eq!(plan.actions.len(), goes);
        assert_eq!(plan.findings[0].reason, Reason::ArithmeticOverflow);
        if arithmetic == Arithmetic::Checked {
            assert_eq!(reason(&plan, "a"), Some(&Reason::ArithmeticOverflow));
            assert_eq!(plan.summary.to_free_bytes, None);
        }
    }
}

#[test]
fn n3_35_n3_36_versions_word_a_shortfall_differently() {
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
        ("1.33.9", attempted),
        ("1.34.0", disk),
        ("1.36.0", disk),
    ] {
        let node = Inventory {
            image_file_system: Ok(file_system(1_000, 50)),
            ..full(&[("a", 50)])
        };
        let plan = policy(thresholds(90, 80), release(version)).plan(&node, at(900));
        assert_eq!(removed(&plan), ["a"], "idea 38 on {version}");
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
fn n3_37_n3_48_hooks_run_after_room_was_made_only_and_hear_of_what_was_looked_at() {
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
        // A shortfall: hooks ran before it was told.
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
                "idea 55: nothing behind the early stop, none in use, none pinned"
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
    // A failure: idea 52.
    node.image_file_system = Ok(file_system(1_000, 100));
    let (_, plan) = pass(newest(), Task::Collect, &node, at(900), &["done"]);
    assert_eq!(plan.summary.hook, None);
    // N3.46: forced removal runs them as well.
    let plan = newest().to(Task::DeleteUnused).plan(&node, at(900));
    let remaining = plan.summary.hook.map(|hook| hook.remaining);
    assert_eq!(remaining, Some(vec!["young".into()]));
}

#[test]
fn n3_38_to_n3_40_images_unused_for_longer_than_the_maximum_age_go() {
    let nano = |seconds: i64, more: i64| Timestamp::from_nanos(seconds * 1_000_000_000 + more);
    for (name, version, age_max, since, used, now, goes) in [
        ("off", "1.36.0", 0, 0, None, nano(9_000, 0), false),
        ("idea 50: just started", "1.36.0", 60, 0, None, nano(60, 0), false),
        (
            "idea 50: a nanosecond later",
            "1.36.0",
            60,
            0,
            None,
            nano(60, 1),
            true,
        ),
        ("used long ago", "1.36.0", 60, 0, Some(100), nano(160, 1), true),
        (
            "used as long ago as allowed",
            "1.36.0",
            60,
            0,
            Some(100),
            nano(160, 0),
            false,
        ),
        (
            "watched for too short a time",
            "1.36.0",
            60,
            1_000,
            Some(100),
            nano(1_060, 0),
            false,
        ),
        ("1.29", "1.29.0", 60, 0, None, nano(61, 0), true),
        (
            "1.28 knows no maximum age",
            "1.28.0",
            60,
            0,
            None,
            nano(61, 0),
            false,
        ),
    ] {
        let mut node = full(&[]);
        node.images = listed([image("a", 7)]);
        // Detected just now: the minimum age is not looked at.
        let detected = now.as_secs();
        node.image_records = [record("a", Some(detected), used)].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, 1_000));
        node.images_watched_since = at(since);
        let thresholds = Thresholds {
            age_max: seconds(age_max),
            ..Thresholds::default()
        };
        let plan = policy(thresholds, release(version)).plan(&node, now);
        assert_eq!(plan.actions.len(), usize::from(goes), "{name}");
        assert_eq!(plan.summary.freed_by_age_bytes, if goes { 7 } else { 0 });
        assert_eq!(
            (plan.summary.freed_bytes, plan.summary.hook),
            (None, None),
            "n3_37: {name}"
        );
        if goes {
            let Action::Remove { reason, .. } = &plan.actions[0];
            assert_eq!(reason.as_str(), "age");
            assert!(plan.summary.records.is_empty(), "n3_45: the record goes too");
        }
    }
}

#[test]
fn n3_40_all_old_images_are_tried_before_the_error_is_told_and_the_disk_is_not_looked_at() {
    let mut node = full(&[("a", 1), ("b", 2), ("c", 4)]);
    node.image_file_system = Ok(file_system(1_000, 0));
    let thresholds = Thresholds {
        age_max: seconds(604_800),
        ..Thresholds::default()
    };
    let old = policy(thresholds, release("1.36.0"));
    let (steps, plan) = pass(old, Task::Collect, &node, at(604_801), &["a", "c"]);
    assert_eq!(steps, ["list", "a", "b", "c"]);
    assert_eq!(
        error(&plan),
        "wanted to free images older than 168h0m0s, encountered errors in image deletion: [a is busy, c is busy]"
    );
    assert_eq!(removed(&plan), ["a", "b", "c"], "actions are what was tried");
    assert_eq!(
        reason(&plan, "a"),
        Some(&Reason::RemovalFailed("a is busy".into()))
    );
    assert_eq!(
        plan.summary
            .records
            .iter()
            .map(|record| &*record.key)
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
    assert_eq!(
        (plan.summary.freed_by_age_bytes, plan.summary.usage_percent),
        (2, None)
    );

    let minute = policy(
        Thresholds {
            age_max: seconds(60),
            ..thresholds
        },
        release("1.29.0"),
    );
    let (_, plan) = pass(minute, Task::Collect, &node, at(61), &["a"]);
    assert_eq!(
        error(&plan),
        "wanted to free images older than 1m0s, encountered errors in image deletion: a is busy"
    );
}

#[test]
fn n3_20_the_order_of_reads_per_version() {
    let node = full(&[("a", 900)]);
    for (version, available, steps) in [
        ("1.20.2", 0, &["measure", "list", "a"][..]),
        ("1.28.0", 500, &["measure"]),
        ("1.29.0", 0, &["list", "measure", "a"]),
        ("1.36.0", 500, &["list", "measure"]),
    ] {
        let node = Inventory {
            image_file_system: Ok(file_system(1_000, available)),
            ..node.clone()
        };
        let (got, _) = pass(
            policy(Thresholds::default(), release(version)),
            Task::Collect,
            &node,
            at(900),
            &[],
        );
        assert_eq!(got, steps, "{version}");
    }
    for version in crate::world::RELEASES {
        for (task, steps) in [
            (Task::Detect, &["list"][..]),
            (Task::DeleteUnused, &["list", "a"]),
            (Task::Free { bytes: 1 }, &["list", "a"]),
        ] {
            let (got, _) = pass(
                policy(Thresholds::default(), release(version)),
                task,
                &node,
                at(900),
                &[],
            );
            assert_eq!(got, steps, "{version} {task:?}");
        }
    }
}

#[test]
fn n3_41_n3_42_the_skips_and_the_stop() {
    let mut node = full(&[
        ("used", 1),
        ("young", 1),
        ("first", 30),
        ("second", 30),
        ("third", 30),
    ]);
    node.image_records = [
        record("young", Some(781), None),
        record("first", Some(780), None),
        record("second", Some(0), Some(10)),
        record("third", Some(0), Some(20)),
        record("used", Some(0), Some(900)),
    ]
    .into_iter()
    .collect();
    for (bytes, goes) in [
        (i64::MIN, &["first"][..]),
        (0, &["first"]),
        (30, &["first"]),
        (31, &["first", "second"]),
        (90, &["first", "second", "third"]),
        (1_000, &["first", "second", "third"]),
    ] {
        let (_, plan) = pass(newest(), Task::Free { bytes }, &node, at(900), &[]);
        assert_eq!(removed(&plan), goes, "{bytes}");
        assert_eq!(error(&plan), "", "n3_47: less than wanted is no error here");
        assert_eq!(plan.summary.freed_bytes, Some(30 * goes.len() as i64));
        let young = Reason::TooYoung {
            age: seconds(119),
            age_min: seconds(120),
        };
        // Never used ones come first: by their detection, so the young one second.
        let waits = Reason::EnoughFreed {
            freed_bytes: 30 * goes.len() as i64,
        };
        assert_eq!(
            reason(&plan, "young"),
            Some(if goes.len() == 1 { &waits } else { &young })
        );
        if bytes > 90 {
            assert_eq!(reason(&plan, "used"), Some(&Reason::UsedSince));
        }
    }
}

#[test]
fn n3_43_a_failed_removal_fails_the_pass_even_where_enough_was_freed() {
    let node = Inventory {
        image_file_system: Ok(file_system(1_000, 100)),
        ..full(&[("a", 100), ("b", 100), ("c", 100)])
    };
    for version in crate::world::RELEASES {
        let policy = policy(Thresholds::default(), release(version));
        let (steps, plan) = pass(policy, Task::Collect, &node, at(900), &["a"]);
        assert_eq!(
            steps.last().map(String::as_str),
            Some("b"),
            "idea 52: the next covers it"
        );
        assert_eq!(
            error(&plan),
            "wanted to free 100 bytes, but freed 100 bytes space with errors in image deletion: a is busy"
        );
        assert_eq!((plan.summary.events.len(), plan.summary.hook.as_ref()), (0, None));
        let (_, plan) = pass(policy, Task::DeleteUnused, &node, at(900), &["a", "c"]);
        assert_eq!(
            error(&plan),
            "wanted to free 9223372036854775807 bytes, but freed 100 bytes space with errors in image deletion: [a is busy, c is busy]"
        );
        assert_eq!(
            plan.summary
                .records
                .iter()
                .map(|record| &*record.key)
                .collect::<Vec<_>>(),
            ["a", "c"]
        );
    }
}

#[test]
fn n3_45_the_recorded_handler_is_handed_in_since_1_29() {
    for (version, handler) in [("1.28.0", ""), ("1.29.0", "kata"), ("1.36.0", "kata")] {
        let handled = Image {
            runtime_handler: "kata".into(),
            ..image("a", 900)
        };
        let mut node = full(&[]);
        node.images = listed([handled]);
        let thresholds = Thresholds {
            age_min: seconds(OFF),
            ..Thresholds::default()
        };
        let plan = policy(thresholds, release(version)).plan(&node, at(900));
        let [
            Action::Remove {
                runtime_handler,
                reason,
                ..
            },
        ] = &plan.actions[..]
        else {
            panic!("one action: {:?}", plan.actions)
        };
        assert_eq!(
            (&**runtime_handler, reason.as_str()),
            (handler, "space"),
            "{version}"
        );
    }
}

#[test]
fn n3_46_n3_47_forced_removal_takes_all_that_is_unused_and_old_enough() {
    let mut node = full(&[("a", 1), ("b", 1), ("c", 1)]);
    node.images = listed([
        image("a", 1),
        image("b", 1),
        Image {
            pinned: true,
            ..image("c", 1)
        },
        image("new", 1),
    ]);
    node.containers = listed([Container {
        ..user("ended", "b", "", "")
    }]);
    node.image_file_system = Err(Unlisted::NotAsked);
    let thresholds = Thresholds {
        age_max: seconds(1),
        ..Thresholds::default()
    };
    let plan = policy(thresholds, release("1.36.0"))
        .to(Task::DeleteUnused)
        .plan(&node, at(900));
    assert_eq!(removed(&plan), ["a"], "ideas 47 and 49; no age step");
    assert_eq!(error(&plan), "");
    let Action::Remove { reason: why, .. } = &plan.actions[0];
    assert_eq!(why.to_string(), "all unused images go");
    assert_eq!(plan.summary.usage_percent, None, "no threshold is looked at");
    assert_eq!(reason(&plan, "b"), Some(&Reason::InUse));
    assert_eq!(reason(&plan, "c"), Some(&Reason::Pinned));
    assert!(matches!(reason(&plan, "new"), Some(Reason::TooYoung { .. })));
}

#[test]
fn n3_50_equal_errors_are_told_once_and_in_their_first_order() {
    let node = full(&[("a", 1), ("b", 1), ("c", 1)]);
    for (texts, joined) in [
        (["e1", "e1", "e2"], "[e1, e2]"),
        (["e1", "e1", "e1"], "e1"),
        (["e2", "e1", "e2"], "[e2, e1]"),
    ] {
        let mut pass = Pass::new(
            newest(),
            Task::DeleteUnused,
            node.image_records.clone(),
            at(0),
            at(900),
        );
        pass.next(None);
        pass.next(Some(Answer::Listed {
            inventory: &node,
            at: at(900),
        }));
        for text in texts {
            pass.next(Some(Answer::Removed(Err(RuntimeError::refused(text)))));
        }
        assert_eq!(pass.next(None), Step::Done);
        assert!(
            error(&pass.finish()).ends_with(&format!("image deletion: {joined}")),
            "idea 56"
        );
    }
}

#[test]
fn ideas_36_to_45_50_51_and_53_images() {
    for version in crate::world::RELEASES {
        for (idea, high, low, available, images, goes, fails) in [
            (36, 90, 80, 600, &[("a", 450, None)][..], &[][..], false),
            (37, 90, 80, 50, &[("a", 450, None)], &["a"], false),
            (38, 90, 80, 50, &[("a", 50, None)], &["a"], true),
            (41, 90, 80, 100, &[("a", 450, None)], &["a"], false),
            (
                42,
                90,
                80,
                100,
                &[("a", 450, Some(1)), ("b", 450, Some(2))],
                &["a"],
                false,
            ),
            (
                44,
                90,
                80,
                100,
                &[("a", 450, Some(1)), ("b", 450, None)],
                &["b"],
                false,
            ),
            (53, 80, 80, 200, &[("a", 1, None), ("b", 1, None)], &["a"], false),
        ] {
            let mut node = full(&[]);
            node.images = listed(images.iter().map(|&(id, size, _)| image(id, size)));
            node.image_records = images
                .iter()
                .map(|&(id, _, used)| record(id, Some(0), used))
                .collect();
            node.image_file_system = Ok(file_system(1_000, available));
            let plan = policy(thresholds(high, low), release(version)).plan(&node, at(900));
            assert_eq!(removed(&plan), goes, "idea {idea} on {version}");
            assert_eq!(plan.summary.error.is_some(), fails, "idea {idea} on {version}");
        }
        // 43: of equally unused ones the one detected first.
        let mut node = full(&[("a", 450), ("b", 450)]);
        node.image_file_system = Ok(file_system(1_000, 100));
        node.image_records = [record("a", Some(2), Some(5)), record("b", Some(1), Some(5))]
            .into_iter()
            .collect();
        assert_eq!(
            removed(&policy(thresholds(90, 80), release(version)).plan(&node, at(900))),
            ["b"],
            "idea 43"
        );
        // 45: too young by a nanosecond, and not.
        let mut node = full(&[("a", 450)]);
        node.image_records = [record("a", Some(780), None)].into_iter().collect();
        for (now, goes) in [(899_999_999_999, 0), (900_000_000_000, 1)] {
            let plan = newest().plan(&node, Timestamp::from_nanos(now));
            assert_eq!(plan.actions.len(), goes, "idea 45");
            assert_eq!(plan.next_at, (goes == 0).then(|| at(900)));
        }
    }
    // 51: with a high threshold of 100 and a maximum age, room is still made where usage computes to 100.
    for (available, goes) in [(9, 1), (10, 0)] {
        let mut node = full(&[("a", 450)]);
        node.image_records = [record("a", Some(0), Some(890))].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, available));
        let thresholds = Thresholds {
            age_max: seconds(3_600),
            ..thresholds(100, 80)
        };
        let plan = policy(thresholds, release("1.36.0")).plan(&node, at(900));
        assert_eq!(plan.actions.len(), goes, "idea 51");
    }
}

#[test]
fn next_at_says_when_time_alone_changes_a_plan() {
    let nano = |at: Timestamp| Timestamp::from_nanos(at.as_nanos() + 1);
    for (name, task, age_max, since, detected, used, available, next) in [
        (
            "nothing will change",
            Task::Collect,
            0,
            0,
            Some(0),
            Some(10),
            500,
            None,
        ),
        (
            "too young for room",
            Task::Collect,
            0,
            0,
            Some(890),
            Some(10),
            0,
            Some(at(1_010)),
        ),
        (
            "too young when forced",
            Task::DeleteUnused,
            0,
            0,
            Some(890),
            None,
            0,
            Some(at(1_010)),
        ),
        (
            "used at this instant",
            Task::Collect,
            0,
            0,
            Some(0),
            Some(900),
            0,
            Some(nano(at(900))),
        ),
        (
            "used in the future",
            Task::DeleteUnused,
            0,
            0,
            Some(0),
            Some(950),
            0,
            Some(nano(at(950))),
        ),
        (
            "becomes too old",
            Task::Collect,
            1_000,
            0,
            Some(0),
            Some(500),
            500,
            Some(nano(at(1_500))),
        ),
        (
            "never used, watched since",
            Task::Collect,
            1_000,
            700,
            Some(0),
            None,
            500,
            Some(nano(at(1_700))),
        ),
        (
            "goes for room, by age later",
            Task::Collect,
            1_000,
            0,
            Some(0),
            Some(500),
            0,
            Some(nano(at(1_500))),
        ),
        (
            "went by age",
            Task::Collect,
            100,
            0,
            Some(0),
            Some(500),
            500,
            None,
        ),
        (
            "age counts for collection only",
            Task::DeleteUnused,
            1_000,
            0,
            Some(0),
            Some(500),
            0,
            None,
        ),
        (
            "detection removes nothing",
            Task::Detect,
            1_000,
            0,
            Some(890),
            Some(500),
            0,
            None,
        ),
    ] {
        let mut node = full(&[("a", 900)]);
        node.image_records = [record("a", detected, used)].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, available));
        node.images_watched_since = at(since);
        let thresholds = Thresholds {
            age_max: seconds(age_max),
            ..Thresholds::default()
        };
        let plan = policy(thresholds, release("1.36.0"))
            .to(task)
            .plan(&node, at(900));
        assert_eq!(plan.next_at, next, "{name}");
        // Where nobody says since when use is watched, nothing comes of age.
        node.images_watched_since = Inventory::default().images_watched_since;
        let plan = policy(thresholds, release("1.36.0"))
            .to(task)
            .plan(&node, at(900));
        assert!(plan.next_at.is_none() || plan.next_at == next, "{name}");
    }
}

#[test]
fn a_pass_passes_over_answers_to_other_steps() {
    let node = full(&[("a", 900), ("b", 900)]);
    let listing = Answer::Listed {
        inventory: &node,
        at: at(900),
    };
    let measurement = || Answer::Measured(Ok(file_system(1_000, 0)));
    let done = || Answer::Removed(Ok(()));
    let mut pass = Pass::new(
        newest(),
        Task::Collect,
        node.image_records.clone(),
        at(0),
        at(900),
    );
    for wrong in [done(), measurement()] {
        assert_eq!(pass.next(Some(wrong)), Step::List);
    }
    assert_eq!(pass.next(Some(listing.clone())), Step::Measure);
    for wrong in [done(), listing.clone()] {
        assert_eq!(pass.next(Some(wrong)), Step::Measure);
    }
    let first = pass.next(Some(measurement()));
    assert!(matches!(&first, Step::Remove(Action::Remove { image, .. }) if &*image.id == "a"));
    for wrong in [listing, measurement()] {
        assert_eq!(pass.next(Some(wrong)), first);
    }
    assert_eq!(pass.next(Some(done())), Step::Done);
    assert_eq!(pass.next(Some(done())), Step::Done);
    assert_eq!(removed(&pass.finish()), ["a"]);
}

#[test]
fn records_are_a_sorted_table_of_which_the_later_of_equals_counts() {
    let records: Records = [
        record("b", Some(1), None),
        record("a", Some(2), None),
        record("b", Some(3), None),
    ]
    .into_iter()
    .collect();
    let keys: Vec<_> = records
        .iter()
        .map(|record| (&*record.key, record.first_detected))
        .collect();
    assert_eq!(keys, [("a", Some(at(2))), ("b", Some(at(3)))]);
    assert!(records.detected());
}

#[test]
fn every_reason_has_a_text_of_its_own() {
    let reasons = [
        Reason::InUse,
        Reason::Pinned,
        Reason::OnlyDetected,
        Reason::BelowThreshold {
            usage_percent: 10,
            high_percent: 85,
        },
        Reason::TooYoung {
            age: seconds(1),
            age_min: seconds(2),
        },
        Reason::UsedSince,
        Reason::EnoughFreed { freed_bytes: 7 },
        Reason::RemovalFailed("busy".into()),
        Reason::PassEnded(Box::new(Error::InvalidCapacity)),
        Reason::Repeated,
        Reason::InvalidId,
        Reason::SizeOverflow,
        Reason::InFuture,
        Reason::AvailableAboveCapacity,
        Reason::ArithmeticOverflow,
        Reason::Shortfall { missing_bytes: 8 },
    ];
    let texts: BTreeSet<String> = reasons.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), reasons.len());
    assert!(texts.contains("the pass ended: invalid capacity 0 on image filesystem"));
    assert!(texts.contains("the disk is 10% full, below 85%"));
}
