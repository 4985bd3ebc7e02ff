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
        let measure = || async { Err("no measurement".to_owned()) };
        let (layout, signal) = (eviction::Layout::default(), eviction::Signal::NodeFsAvailable);
        let report = now(node.reclaim(&policy.eviction, layout, signal, measure));
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

#[test]
fn n3_17_images_to_keep_are_pinned_and_not_removed_in_any_version() {
    for release in RELEASES {
        for (reference, is_kept) in [("old:1", true), ("old", false), ("", false)] {
            let busy = busy();
            let settings = Settings {
                keep_images: vec![reference.into()],
                ..settings(release)
            };
            let mut node = Node::new(world(&busy.node, &busy.clock), settings);
            let images = now(node.read_inventory()).inventory.images.expect("listed");
            let unused = images
                .iter()
                .find(|image| image.id == busy.unused)
                .expect("listed");
            assert_eq!(unused.pinned, is_kept, "{release} {reference:?}");
            let report = now(node.delete_unused_images());
            assert_eq!(
                busy.node.image(&busy.unused).is_some(),
                is_kept,
                "{release} {reference:?}"
            );
            // Before 1.23 pins are ignored, so the removal is planned and refused.
            let refused = report
                .error()
                .is_some_and(|error| error.contains("one of the images to keep"));
            assert_eq!(refused, is_kept && release == "1.20.2", "{release} {reference:?}");
        }
    }
}
