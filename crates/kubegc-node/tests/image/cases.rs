//! Worked examples, and further guarantees of runs and records.

use super::*;

#[test]
fn images_are_removed_by_usage_last_use_and_age() {
    for version in crate::world::RELEASES {
        for (case, high, low, available, images, expected, fails) in [
            (
                "below the threshold",
                90,
                80,
                600,
                &[("a", 450, None)][..],
                &[][..],
                false,
            ),
            (
                "one image is enough",
                90,
                80,
                50,
                &[("a", 450, None)],
                &["a"],
                false,
            ),
            ("not enough", 90, 80, 50, &[("a", 50, None)], &["a"], true),
            (
                "exactly at the threshold",
                90,
                80,
                100,
                &[("a", 450, None)],
                &["a"],
                false,
            ),
            (
                "the least recently used",
                90,
                80,
                100,
                &[("a", 450, Some(1)), ("b", 450, Some(2))],
                &["a"],
                false,
            ),
            (
                "never used",
                90,
                80,
                100,
                &[("a", 450, Some(1)), ("b", 450, None)],
                &["b"],
                false,
            ),
            (
                "equal thresholds",
                80,
                80,
                200,
                &[("a", 1, None), ("b", 1, None)],
                &["a"],
                false,
            ),
        ] {
            let mut node = full(&[]);
            node.images = listed(images.iter().map(|&(id, size, _)| image(id, size)));
            node.image_records = images
                .iter()
                .map(|&(id, _, used)| record(id, Some(0), used))
                .collect();
            node.image_file_system = Ok(file_system(1_000, available));
            let plan = policy(thresholds(high, low), release(version)).plan(&node, at(900));
            assert_eq!(removed(&plan), expected, "{case} on {version}");
            assert_eq!(plan.summary.error.is_some(), fails, "{case} on {version}");
        }
        // Of images with the same last use, the one detected first.
        let mut node = full(&[("a", 450), ("b", 450)]);
        node.image_file_system = Ok(file_system(1_000, 100));
        node.image_records = [record("a", Some(2), Some(5)), record("b", Some(1), Some(5))]
            .into_iter()
            .collect();
        assert_eq!(
            removed(&policy(thresholds(90, 80), release(version)).plan(&node, at(900))),
            ["b"],
            "{version}"
        );
        // Younger than the minimum age by a nanosecond, and exactly that old.
        let mut node = full(&[("a", 450)]);
        node.image_records = [record("a", Some(780), None)].into_iter().collect();
        for (now, expected) in [(899_999_999_999, 0), (900_000_000_000, 1)] {
            let plan = newest().plan(&node, Timestamp::from_nanos(now));
            assert_eq!(plan.actions.len(), expected, "{now}");
            assert_eq!(plan.next_at, (expected == 0).then(|| at(900)));
        }
    }
    // With a high threshold of 100 and a maximum age, images are still removed if the computed usage is 100.
    for (available, expected) in [(9, 1), (10, 0)] {
        let mut node = full(&[("a", 450)]);
        node.image_records = [record("a", Some(0), Some(890))].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, available));
        let thresholds = Thresholds {
            age_max: seconds(3_600),
            ..thresholds(100, 80)
        };
        let plan = policy(thresholds, release("1.36.0")).plan(&node, at(900));
        assert_eq!(plan.actions.len(), expected, "{available}");
    }
}

#[test]
fn next_at_is_when_time_alone_changes_a_plan() {
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
            "removed to free space; by age later",
            Task::Collect,
            1_000,
            0,
            Some(0),
            Some(500),
            0,
            Some(nano(at(1_500))),
        ),
        (
            "removed by age",
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
        node.image_gc_began_at = at(since);
        let thresholds = Thresholds {
            age_max: seconds(age_max),
            ..Thresholds::default()
        };
        let plan = policy(thresholds, release("1.36.0"))
            .with_task(task)
            .plan(&node, at(900));
        assert_eq!(plan.next_at, next, "{name}");
        // Without a start of image collection, no image becomes old.
        node.image_gc_began_at = Inventory::default().image_gc_began_at;
        let plan = policy(thresholds, release("1.36.0"))
            .with_task(task)
            .plan(&node, at(900));
        assert!(plan.next_at.is_none() || plan.next_at == next, "{name}");
    }
}

#[test]
fn responses_to_other_steps_are_ignored() {
    let node = full(&[("a", 900), ("b", 900)]);
    let listing = Response::Listed {
        inventory: &node,
        at: at(900),
    };
    let measurement = || Response::Measured(Ok(file_system(1_000, 0)));
    let done = || Response::Removed(Ok(()));
    let mut run = Run::new(
        newest(),
        Task::Collect,
        node.image_records.clone(),
        at(0),
        at(900),
    );
    for wrong in [done(), measurement()] {
        assert_eq!(run.next(Some(wrong)), Step::List);
    }
    assert_eq!(run.next(Some(listing.clone())), Step::Measure);
    for wrong in [done(), listing.clone()] {
        assert_eq!(run.next(Some(wrong)), Step::Measure);
    }
    let first = run.next(Some(measurement()));
    assert!(matches!(&first, Step::Remove(Action::Remove { image, .. }) if &*image.id == "a"));
    for wrong in [listing, measurement()] {
        assert_eq!(run.next(Some(wrong)), first);
    }
    assert_eq!(run.next(Some(done())), Step::Done);
    assert_eq!(run.next(Some(done())), Step::Done);
    assert_eq!(removed(&run.finish()), ["a"]);
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
        Reason::RunFailed(Box::new(Error::InvalidCapacity)),
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
    assert!(texts.contains("the run failed: invalid capacity 0 on image filesystem"));
    assert!(texts.contains("the disk usage is 10%, below 85%"));
}
