//! Passes over images, and reclaim under pressure.

use super::*;

#[test]
fn n3_8_n3_9_sandbox_image_and_volumes_are_read_in_the_versions_that_use_them() {
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
fn n3_9_a_failed_or_empty_status_fails_the_run() {
    for fault in [refuse(), Fault::EmptyStatus, Fault::LoseResponse] {
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
            "{fault:?}: {error:?}"
        );
        assert_eq!(busy.node.changes(), [], "{fault:?}");
        assert!(node.records().is_empty());
        assert_eq!(
            now(node.delete_unused_images()).error(),
            None,
            "the next run finishes"
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
fn n3_14_up_to_1_28_new_images_are_removed_right_after_a_restart() {
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
            "{release}: two minutes later it is removed in any case"
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
    assert_eq!(node.image_gc_began_at(), None);
    now(node.detect_images());
    now(node.delete_unused_images());
    assert_eq!(
        node.image_gc_began_at(),
        None,
        "neither detection nor forced removal begins it"
    );
    let unused = busy
        .node
        .pull(&ImageSpec::new("new:1").layer("new", 5))
        .expect("there is room");
    let began = busy.clock.now();
    now(node.collect_images());
    assert_eq!(node.image_gc_began_at(), Some(began));
    for (after, there) in [(60, true), (61, false)] {
        busy.clock.set(began.saturating_add(Duration::from_secs(after)));
        now(node.collect_images());
        assert_eq!(busy.node.image(&unused).is_some(), there, "{after}");
    }
    assert_eq!(node.image_gc_began_at(), Some(began), "fixed");
    node.set_image_gc_began_at(at(5));
    assert_eq!(node.image_gc_began_at(), Some(at(5)));
}

#[test]
fn n3_45_the_handler_of_the_record_is_passed_to_the_runtime() {
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
        let run = eviction::Run::new(
            policy.eviction(),
            eviction::Layout::default(),
            eviction::Signal::NodeFsAvailable,
        );
        let report = now(node.reclaim(run, || async { Err("no measurement".to_owned()) }));
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
            report.decision,
            eviction::Decision::NoEviction,
            "without a measurement pods are evicted"
        );
        assert_eq!(busy.node.violations(), []);
    }
}
