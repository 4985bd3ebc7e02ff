//! Rules N3.38 to N3.50: removal by age, to free space, and by force.

use super::*;

#[test]
fn n3_38_to_n3_40_images_unused_for_longer_than_the_maximum_age_are_removed() {
    let nano = |seconds: i64, more: i64| Timestamp::from_nanos(seconds * 1_000_000_000 + more);
    for (name, version, age_max, since, used, now, expected) in [
        ("off", "1.36.0", 0, 0, None, nano(9_000, 0), false),
        ("just started", "1.36.0", 60, 0, None, nano(60, 0), false),
        ("a nanosecond later", "1.36.0", 60, 0, None, nano(60, 1), true),
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
        // Detected just now: the minimum age does not count.
        let detected = now.as_secs();
        node.image_records = [record("a", Some(detected), used)].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, 1_000));
        node.image_gc_began_at = at(since);
        let thresholds = Thresholds {
            age_max: seconds(age_max),
            ..Thresholds::default()
        };
        let plan = policy(thresholds, release(version)).plan(&node, now);
        assert_eq!(plan.actions.len(), usize::from(expected), "{name}");
        assert_eq!(plan.summary.freed_by_age_bytes, if expected { 7 } else { 0 });
        assert_eq!(
            (plan.summary.freed_bytes, plan.summary.hook),
            (None, None),
            "n3_37: {name}"
        );
        if expected {
            let Action::Remove { reason, .. } = &plan.actions[0];
            assert_eq!(reason.as_str(), "age");
            assert!(
                plan.summary.records.is_empty(),
                "n3_45: the record is removed too"
            );
        }
    }
}

#[test]
fn n3_40_all_old_images_are_tried_before_the_error_is_returned_and_the_disk_is_not_measured() {
    let mut node = full(&[("a", 1), ("b", 2), ("c", 4)]);
    node.image_file_system = Ok(file_system(1_000, 0));
    let thresholds = Thresholds {
        age_max: seconds(604_800),
        ..Thresholds::default()
    };
    let old = policy(thresholds, release("1.36.0"));
    let (steps, plan) = perform(old, Task::Collect, &node, at(604_801), &["a", "c"]);
    assert_eq!(steps, ["list", "a", "b", "c"]);
    assert_eq!(
        error(&plan),
        "wanted to free images older than 168h0m0s, encountered errors in image deletion: [a is busy, c is busy]"
    );
    assert_eq!(removed(&plan), ["a", "b", "c"], "failed removals are actions too");
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
    let (_, plan) = perform(minute, Task::Collect, &node, at(61), &["a"]);
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
        let (got, _) = perform(
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
            let (got, _) = perform(
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
    for (bytes, expected) in [
        (i64::MIN, &["first"][..]),
        (0, &["first"]),
        (30, &["first"]),
        (31, &["first", "second"]),
        (90, &["first", "second", "third"]),
        (1_000, &["first", "second", "third"]),
    ] {
        let (_, plan) = perform(newest(), Task::Free { bytes }, &node, at(900), &[]);
        assert_eq!(removed(&plan), expected, "{bytes}");
        assert_eq!(error(&plan), "", "n3_47: less than wanted is not an error here");
        assert_eq!(plan.summary.freed_bytes, Some(30 * expected.len() as i64));
        let young = Reason::TooYoung {
            age: seconds(119),
            age_min: seconds(120),
        };
        // Never used ones come first: by their detection, so the young one second.
        let waits = Reason::EnoughFreed {
            freed_bytes: 30 * expected.len() as i64,
        };
        assert_eq!(
            reason(&plan, "young"),
            Some(if expected.len() == 1 { &waits } else { &young })
        );
        if bytes > 90 {
            assert_eq!(reason(&plan, "used"), Some(&Reason::UsedSince));
        }
    }
}

#[test]
fn n3_43_a_failed_removal_fails_the_run_even_if_enough_was_freed() {
    let node = Inventory {
        image_file_system: Ok(file_system(1_000, 100)),
        ..full(&[("a", 100), ("b", 100), ("c", 100)])
    };
    for version in crate::world::RELEASES {
        let policy = policy(Thresholds::default(), release(version));
        let (steps, plan) = perform(policy, Task::Collect, &node, at(900), &["a"]);
        assert_eq!(
            steps.last().map(String::as_str),
            Some("b"),
            "the next image is removed instead"
        );
        assert_eq!(
            error(&plan),
            "wanted to free 100 bytes, but freed 100 bytes space with errors in image deletion: a is busy"
        );
        assert_eq!((plan.summary.events.len(), plan.summary.hook.as_ref()), (0, None));
        let (_, plan) = perform(policy, Task::DeleteUnused, &node, at(900), &["a", "c"]);
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
fn n3_45_the_recorded_handler_is_passed_to_the_runtime_since_1_29() {
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
    node.image_file_system = Err(Unlisted::NotRequested);
    let thresholds = Thresholds {
        age_max: seconds(1),
        ..Thresholds::default()
    };
    let plan = policy(thresholds, release("1.36.0"))
        .with_task(Task::DeleteUnused)
        .plan(&node, at(900));
    assert_eq!(removed(&plan), ["a"], "there is no age step");
    assert_eq!(error(&plan), "");
    let Action::Remove { reason: why, .. } = &plan.actions[0];
    assert_eq!(why.to_string(), "unused, and all unused images are removed");
    assert_eq!(plan.summary.usage_percent, None, "no threshold is checked");
    assert_eq!(reason(&plan, "b"), Some(&Reason::InUse));
    assert_eq!(reason(&plan, "c"), Some(&Reason::Pinned));
    assert!(matches!(reason(&plan, "new"), Some(Reason::TooYoung { .. })));
}

#[test]
fn n3_50_equal_errors_occur_once_and_in_their_first_order() {
    let node = full(&[("a", 1), ("b", 1), ("c", 1)]);
    for (texts, joined) in [
        (["e1", "e1", "e2"], "[e1, e2]"),
        (["e1", "e1", "e1"], "e1"),
        (["e2", "e1", "e2"], "[e2, e1]"),
    ] {
        let mut run = Run::new(
            newest(),
            Task::DeleteUnused,
            node.image_records.clone(),
            at(0),
            at(900),
        );
        run.next(None);
        run.next(Some(Response::Listed {
            inventory: &node,
            at: at(900),
        }));
        for text in texts {
            run.next(Some(Response::Removed(Err(RuntimeError::refused(text)))));
        }
        assert_eq!(run.next(None), Step::Done);
        assert!(
            error(&run.finish()).ends_with(&format!("image deletion: {joined}")),
            "{joined}"
        );
    }
}
