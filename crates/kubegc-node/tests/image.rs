//! Image plans: reasons, texts, missing listings, releases and gates. The recordings contain the rules of 1.28
//! and of the releases from 1.29 to 1.34.

use std::collections::BTreeSet;

use kubegc_core::{PlanOf, Planner, RuntimeError, Timestamp, node_facts::Image};
use kubegc_node::{
    Event, EventKind, Inventory, Semantics, Unlisted,
    image::{
        Action, Arithmetic, Error, FreeSpace, Reason, Records, Response, Run, Step, Subject, Task, Thresholds,
    },
    semantics::gate,
};

use crate::world::{at, empty, file_system, gated, image, listed, record, release, seconds, user};

fn thresholds(high: i32, low: i32) -> Thresholds {
    Thresholds {
        high_percent: high,
        low_percent: low,
        ..Thresholds::default()
    }
}

fn policy(thresholds: Thresholds, semantics: Semantics) -> FreeSpace {
    FreeSpace::new(thresholds, semantics).expect("valid thresholds")
}

/// Upstream's thresholds on the newest version.
fn newest() -> FreeSpace {
    policy(Thresholds::default(), release("1.36.0"))
}

/// A full disk of 1000 bytes with these images, all detected at 0 and never used. The image `pinned` is pinned.
fn full(images: &[(&str, u64)]) -> Inventory {
    let image = |&(id, size): &(&str, u64)| Image {
        pinned: id == "pinned",
        ..image(id, size)
    };
    Inventory {
        images: listed(images.iter().map(image)),
        image_records: images.iter().map(|&(id, _)| record(id, Some(0), None)).collect(),
        image_file_system: Ok(file_system(1_000, 0)),
        ..empty()
    }
}

fn removed(plan: &PlanOf<FreeSpace>) -> Vec<&str> {
    let ids = plan.actions.iter().map(|Action { image, .. }| &*image.id);
    ids.collect()
}

/// The reason to keep the image of this id.
fn reason<'a>(plan: &'a PlanOf<FreeSpace>, id: &str) -> Option<&'a Reason> {
    let about = |subject: &Subject| matches!(subject, Subject::Image(image) if &*image.id == id);
    plan.kept
        .iter()
        .find(|kept| about(&kept.object))
        .map(|kept| &kept.reason)
}

fn error(plan: &PlanOf<FreeSpace>) -> String {
    plan.summary
        .error
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[test]
fn every_kept_image_has_a_reason() {
    let mut node = full(&[
        ("failed", 100),
        ("later", 1),
        ("old", 200),
        ("pinned", 1),
        ("since", 1),
        ("used", 1),
        ("young", 1),
    ]);
    node.containers = listed([user("c", "used", "", "")]);
    node.image_records = [
        record("failed", Some(0), None),
        record("young", Some(899), None),
        record("old", Some(0), Some(5)),
        record("later", Some(0), Some(6)),
        record("since", Some(0), Some(900)),
    ]
    .into_iter()
    .collect();
    let failed = |removal: bool, available, task| {
        let records = node.image_records.clone();
        let mut run = Run::new(newest(), task, records, at(0), at(900));
        let mut response = None;
        loop {
            response = match run.next(response) {
                Step::List => Some(Response::Listed {
                    inventory: &node,
                    at: at(900),
                }),
                Step::Measure => Some(Response::Measured(Ok(file_system(1_000, available)))),
                Step::Remove(Action { image, .. }) => {
                    let fails = removal && &*image.id == "failed";
                    let busy = Err(RuntimeError::refused("it is busy"));
                    Some(Response::Removed(if fails { busy } else { Ok(()) }))
                }
                Step::Done => return run.finish(),
            };
        }
    };
    let collected = failed(true, 0, Task::Collect);
    assert_eq!(
        removed(&collected),
        ["failed", "old"],
        "n3_43: the next one is tried"
    );
    let enough = Reason::EnoughFreed { freed_bytes: 200 };
    for (id, expected) in [
        ("failed", &Reason::RemovalFailed("it is busy".into())),
        ("later", &enough),
        ("pinned", &Reason::Pinned),
        ("since", &enough),
        ("used", &Reason::InUse),
        (
            "young",
            &Reason::TooYoung {
                age: seconds(1),
                age_min: seconds(120),
            },
        ),
    ] {
        assert_eq!(reason(&collected, id), Some(expected), "{id}");
    }
    let below = Reason::BelowThreshold {
        usage_percent: 50,
        high_percent: 85,
    };
    for (plan, id, expected) in [
        (failed(false, 0, Task::DeleteUnused), "since", Reason::UsedSince),
        (failed(false, 0, Task::Detect), "old", Reason::OnlyDetected),
        (failed(false, 500, Task::Collect), "old", below),
    ] {
        assert_eq!(reason(&plan, id), Some(&expected));
    }
    let unknown = Inventory {
        image_file_system: Err(Unlisted::NotRequested),
        ..node.clone()
    };
    let plan = newest().plan(&unknown, at(900));
    let error = Error::FileSystem(Unlisted::NotRequested);
    assert_eq!(reason(&plan, "old"), Some(&Reason::RunFailed(Box::new(error))));
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

#[test]
fn n3_6_to_n3_9_n3_17_use_and_pins_count_by_release_and_gate() {
    type Case = (
        &'static str,
        &'static [(&'static str, bool)],
        fn(&mut Inventory),
        bool,
    );
    let by_reference = |node: &mut Inventory| node.containers = listed([user("c", "a", "other", "")]);
    let by_id = |node: &mut Inventory| node.containers = listed([user("c", "other", "a", "")]);
    let by_tag = |node: &mut Inventory| node.containers = listed([user("c", "shop/a:1", "", "")]);
    let for_sandboxes = |node: &mut Inventory| node.sandbox_image = Some("a".into());
    let not_resolved = |node: &mut Inventory| node.sandbox_image = Some("".into());
    let mounted = |node: &mut Inventory| node.image_volumes = Ok(vec!["a".into(), "gone".into()]);
    let pinned = |node: &mut Inventory| {
        node.images = listed([Image {
            pinned: true,
            ..image("a", 900)
        }]);
    };
    let on = &[(gate::IMAGE_VOLUME, true)];
    let off = &[(gate::IMAGE_VOLUME, false)];
    let cases: [Case; 17] = [
        ("1.20.2", &[], by_reference, true),
        ("1.29.9", &[], by_reference, true),
        ("1.30.0", &[], by_reference, false),
        ("1.29.9", &[], by_id, false),
        ("1.30.0", &[], by_id, true),
        ("1.36.0", &[], by_tag, false),
        ("1.28.15", &[], for_sandboxes, true),
        ("1.28.15", &[], not_resolved, false),
        ("1.29.0", &[], for_sandboxes, false),
        ("1.30.0", on, mounted, false),
        ("1.31.0", on, mounted, true),
        ("1.31.0", &[], mounted, false),
        ("1.34.0", &[], mounted, false),
        ("1.35.0", &[], mounted, true),
        ("1.36.0", off, mounted, false),
        ("1.22.9", &[], pinned, false),
        ("1.23.0", &[], pinned, true),
    ];
    for (at_case, (version, gates, change, is_kept)) in cases.into_iter().enumerate() {
        let mut node = full(&[("a", 900)]);
        if let Ok(images) = &mut node.images {
            let tagged = Image {
                tags: vec!["shop/a:1".into()],
                ..image("a", 900)
            };
            images[0] = tagged.into();
        }
        change(&mut node);
        let policy = policy(Thresholds::default(), gated(version, gates)).with_task(Task::DeleteUnused);
        let plan = policy.plan(&node, at(900));
        assert_eq!(
            plan.actions.is_empty(),
            is_kept,
            "{version} {gates:?}, case {at_case}"
        );
        // Volumes whose listing failed are an error exactly where they count.
        node.image_volumes = Err(Unlisted::Failed(RuntimeError::NotFound));
        let counts = gated(version, gates).image_volumes;
        let text = if counts {
            "get container status: not found"
        } else {
            ""
        };
        assert_eq!(error(&policy.plan(&node, at(900))), text, "{version} {gates:?}");
    }
}

#[test]
fn n3_2_n3_45_handlers_are_recorded_since_1_29_and_part_of_keys_under_the_gate() {
    let on: &[(&str, bool)] = &[(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, true)];
    for (version, gates, key, handler) in [
        ("1.28.0", on, "a", ""),
        ("1.28.0", &[], "a", ""),
        ("1.29.0", &[], "a", "kata"),
        ("1.29.0", on, "a,kata", "kata"),
        ("1.36.0", on, "a,kata", "kata"),
    ] {
        let mut node = full(&[]);
        node.images = listed([Image {
            runtime_handler: "kata".into(),
            ..image("a", 900)
        }]);
        // The key of a mounted image has no handler.
        node.image_volumes = Ok(vec!["a".into()]);
        let policy = policy(Thresholds::default(), gated(version, gates));
        let records = policy.with_task(Task::Detect).plan(&node, at(1)).summary.records;
        let keys: Vec<_> = records.iter().map(|record| &*record.key).collect();
        assert_eq!(keys, [key], "{version} {gates:?}");
        node.image_records = records;
        node.image_volumes = Ok(Vec::new());
        let plan = policy.plan(&node, at(900));
        let handlers = plan
            .actions
            .iter()
            .map(|Action { runtime_handler, .. }| &**runtime_handler);
        assert_eq!(handlers.collect::<Vec<_>>(), [handler], "{version} {gates:?}");
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
        ("1.25.16", wanted),
        ("1.26.0", attempted),
        ("1.34.9", attempted),
        ("1.35.0", disk),
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
        (1_023, "1023 B"),
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
    // N3.46: forced removal runs them as well.
    node.image_file_system = Ok(file_system(1_000, 100));
    let plan = newest().with_task(Task::DeleteUnused).plan(&node, at(900));
    let remaining = plan.summary.hook.map(|hook| hook.remaining);
    assert_eq!(remaining, Some(vec!["young".into()]));
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

/// Task, maximum age, start of image collection, detection, last use, free bytes, next change, and why.
const NEXT: &str = "
collect 0 0 890 10 0 1010 too young for room
collect 0 0 0 900 0 900+ used at this instant
collect 1000 0 0 500 500 1500+ becomes too old
collect 1000 700 0 - 500 1700+ never used, watched since
collect 1000 700 0 500 500 1700+ used before it was watched
collect 1000 0 0 500 0 1500+ removed to free space; by age later
collect 100 0 0 500 500 - removed by age
delete 1000 0 0 500 0 - age counts for collection only
detect 1000 0 890 500 0 - detection removes nothing
";

#[test]
fn next_at_is_when_time_alone_changes_a_plan() {
    for row in NEXT.lines().filter(|row| !row.is_empty()) {
        let words: Vec<&str> = row.split(' ').collect();
        let number = |at: usize| words[at].parse().ok();
        let task = match words[0] {
            "collect" => Task::Collect,
            "delete" => Task::DeleteUnused,
            _ => Task::Detect,
        };
        let next = words[6].trim_end_matches('+').parse().ok().map(at);
        // A `+` is a nanosecond.
        let later = i64::from(words[6].ends_with('+'));
        let next = next.map(|next| Timestamp::from_nanos(next.as_nanos() + later));
        let mut node = full(&[("a", 900)]);
        node.image_records = [record("a", number(3), number(4))].into_iter().collect();
        node.image_file_system = Ok(file_system(1_000, words[5].parse().expect("bytes")));
        node.image_gc_began_at = at(number(2).expect("seconds"));
        let thresholds = Thresholds {
            age_max: seconds(number(1).expect("seconds")),
            ..Thresholds::default()
        };
        let policy = policy(thresholds, release("1.36.0")).with_task(task);
        assert_eq!(policy.plan(&node, at(900)).next_at, next, "{row}");
        // Without a start of image collection, no image becomes old.
        node.image_gc_began_at = Inventory::default().image_gc_began_at;
        let plan = policy.plan(&node, at(900));
        assert!(plan.next_at.is_none() || plan.next_at == next, "{row}");
    }
}

#[test]
fn n3_10_use_is_dated_with_the_end_of_the_reads_which_is_not_in_the_future() {
    let mut node = full(&[("a", 1)]);
    node.containers = listed([user("c", "a", "", "")]);
    let mut run = Run::new(newest(), Task::Detect, Records::default(), at(0), at(5));
    run.next(None);
    assert!(!run.has_listed());
    let response = Response::Listed {
        inventory: &node,
        at: at(8),
    };
    assert_eq!(run.next(Some(response)), Step::Done);
    assert!(run.has_listed());
    let plan = run.finish();
    assert_eq!(plan.findings, []);
    let got = plan.summary.records.get("a").map(|record| record.last_used);
    assert_eq!(got, Some(Some(at(8))));
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
    assert!(matches!(&first, Step::Remove(Action { image, .. }) if &*image.id == "a"));
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
