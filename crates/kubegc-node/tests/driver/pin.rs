//! Images with a kept reference are pinned and cannot be removed.

use kubegc_core::node_facts::Image;
use kubegc_node::driver::PinImages;

use super::{begins::between, *};

const PAUSE: &str = "sha256:0e6f1a";
const OLD_PAUSE: &str = "sha256:0e6f1b";
const WEB: &str = "sha256:77aa";
const BARE: &str = "sha256:88bb";

fn image(id: &str, tags: &[&str], digests: &[&str]) -> Image {
    let shared = |texts: &[&str]| texts.iter().map(|&text| Arc::from(text)).collect();
    Image {
        id: id.into(),
        size_bytes: 10,
        tags: shared(tags),
        digests: shared(digests),
        ..Image::default()
    }
}

/// A node with two sandbox images, an image of another name, and one without any. None is pinned, and none is
/// used.
fn node() -> SimNode {
    let node = SimNode::new(SimClock::new(at(1_000_000)), NodeSettings::default());
    for image in [
        image(
            PAUSE,
            &["registry.k8s.io/pause:3.9", "mirror.example/pause:3.9"],
            &["registry.k8s.io/pause@sha256:d9"],
        ),
        image(
            OLD_PAUSE,
            &["registry.k8s.io/pause:3.8"],
            &["registry.k8s.io/pause@sha256:d8"],
        ),
        image(
            WEB,
            &["docker.io/library/web:latest"],
            &["docker.io/library/web@sha256:d7"],
        ),
        image(BARE, &[], &[]),
    ] {
        node.insert_image(image).expect("there is room");
    }
    node
}

fn pinned(runtime: &impl Runtime) -> BTreeSet<String> {
    let images = now(runtime.images()).expect("listed");
    let pinned = images.iter().filter(|image| image.pinned);
    pinned.map(|image| image.id.to_string()).collect()
}

/// References, the images that they match, and the references without a match.
const CASES: [(&[&str], &[&str], &[&str]); 16] = [
    (&[], &[], &[]),
    (&["registry.k8s.io/pause:3.9"], &[PAUSE], &[]),
    (&["mirror.example/pause:3.9"], &[PAUSE], &[]),
    (&["registry.k8s.io/pause@sha256:d8"], &[OLD_PAUSE], &[]),
    (&["registry.k8s.io/pause@sha256:"], &[PAUSE, OLD_PAUSE], &[]),
    (&[BARE], &[BARE], &[]),
    (&[PAUSE, WEB], &[PAUSE, WEB], &[]),
    // Nothing is completed or shortened.
    (&["web"], &[], &["web"]),
    (&["web:latest"], &[], &["web:latest"]),
    (&["docker.io/library/web"], &[], &["docker.io/library/web"]),
    (&["registry.k8s.io/pause"], &[], &["registry.k8s.io/pause"]),
    (&["registry.k8s.io/pause@"], &[], &["registry.k8s.io/pause@"]),
    (
        &["registry.k8s.io/pau@sha256:", "@sha256:", "sha256:"],
        &[],
        &["@sha256:", "registry.k8s.io/pau@sha256:", "sha256:"],
    ),
    (&["sha256:0e6f1"], &[], &["sha256:0e6f1"]),
    (&["", " "], &[], &["", " "]),
    (&["gone:1", WEB, "gone:1"], &[WEB], &["gone:1"]),
];

#[test]
fn references_match_images_exactly() {
    for (references, expected, unmatched) in CASES {
        let runtime = PinImages::new(node(), references.iter().copied());
        let expected: BTreeSet<String> = expected.iter().map(|&id| id.to_owned()).collect();
        assert_eq!(pinned(&runtime), expected, "{references:?}");
        let reported = now(runtime.unmatched()).expect("listed");
        let reported: Vec<&str> = reported.iter().map(|reference| &**reference).collect();
        assert_eq!(reported, unmatched, "{references:?}");
        let distinct: BTreeSet<&str> = references.iter().copied().collect();
        assert!(runtime.references().eq(distinct), "{references:?}");
    }
}

#[test]
fn n3_17_pinned_images_are_kept_in_every_version_and_all_others_are_removed() {
    for release in RELEASES {
        for (references, expected, _) in CASES {
            let sim = node();
            let runtime = PinImages::new(sim.clone(), references.iter().copied());
            let clock = sim.clock().clone();
            let world = Environment {
                runtime: &runtime,
                logs: Some(&sim),
                pods: &sim,
                clock: &clock,
            };
            let mut driver = Node::new(world, settings(release));
            let report = now(driver.delete_unused_images());
            let left: BTreeSet<String> = sim
                .all_images()
                .iter()
                .map(|image| image.id.to_string())
                .collect();
            let expected: BTreeSet<String> = expected.iter().map(|&id| id.to_owned()).collect();
            assert_eq!(left, expected, "{release} {references:?}");
            // Before 1.23 nothing is pinned: there the wrapper refuses the planned removal.
            let refused = release == "1.20.2" && !expected.is_empty();
            assert_eq!(
                report
                    .error()
                    .is_some_and(|error| error.contains("is pinned by the reference ")),
                refused,
                "{release} {references:?}"
            );
        }
    }
}

#[test]
fn a_pinned_image_is_not_removed_under_any_name() {
    let kept = ["registry.k8s.io/pause:3.9"];
    for (text, refused) in [
        (PAUSE, true),
        ("registry.k8s.io/pause:3.9", true),
        ("mirror.example/pause:3.9", true),
        ("registry.k8s.io/pause@sha256:d9", true),
        ("sha256:0e6f1a", true),
        ("sha256:0e6f", true),
        ("0e6f1a", true),
        ("0e6f", true),
        ("", true),
        (OLD_PAUSE, false),
        ("0e6f1b", false),
        ("registry.k8s.io/pause:3.8", false),
        ("nothing", false),
    ] {
        let sim = node();
        let runtime = PinImages::new(sim.clone(), kept);
        let result = now(runtime.remove_image(text, ""));
        assert_eq!(result.is_err(), refused, "{text:?}");
        let changes = sim.changes();
        if let Err(error) = result {
            let expected = format!("image {text} is pinned by the reference {}", kept[0]);
            assert_eq!(error, RuntimeError::refused(expected));
            assert_eq!(changes, [], "{text:?}");
        } else {
            assert_eq!(changes.len(), 1, "{text:?}");
        }
        assert!(sim.image(PAUSE).is_some(), "{text:?}");
    }
}

#[test]
fn an_image_that_is_listed_for_several_handlers_is_kept_as_a_whole() {
    let sim = node();
    let kata = Image {
        runtime_handler: "kata".into(),
        ..image(PAUSE, &["kata.example/pause:1"], &[])
    };
    sim.insert_image(kata).expect("there is room");
    for reference in ["registry.k8s.io/pause:3.9", "kata.example/pause:1"] {
        let runtime = PinImages::new(sim.clone(), [reference]);
        let images = now(runtime.images()).expect("listed");
        let of_pause: Vec<bool> = images
            .iter()
            .filter(|image| &*image.id == PAUSE)
            .map(|image| image.pinned)
            .collect();
        assert_eq!(of_pause, [true, true], "{reference}");
        for (text, handler) in [(PAUSE, ""), (PAUSE, "kata"), ("kata.example/pause:1", "kata")] {
            assert!(
                now(runtime.remove_image(text, handler)).is_err(),
                "{reference} {text}"
            );
        }
    }
    assert_eq!(sim.changes(), []);
}

#[test]
fn a_tag_that_moves_after_the_plan_pins_its_new_image() {
    let sim = node();
    let runtime = PinImages::new(sim.clone(), ["registry.k8s.io/pause:4.0"]);
    assert_eq!(now(runtime.unmatched()).map(|unmatched| unmatched.len()), Ok(1));
    let listed = now(runtime.images()).expect("listed");
    assert!(listed.iter().all(|image| !image.pinned));
    sim.insert_image(image("sha256:99", &["registry.k8s.io/pause:4.0"], &[]))
        .expect("there is room");
    assert!(now(runtime.remove_image("sha256:99", "")).is_err());
    assert_eq!(now(runtime.remove_image(PAUSE, "")), Ok(()));
    assert_eq!(now(runtime.unmatched()).map(|unmatched| unmatched.len()), Ok(0));
}

#[test]
fn an_id_is_equal_with_and_without_its_prefix() {
    for listed in ["sha256:5a5b", "5a5b"] {
        for reference in ["sha256:5a5b", "5a5b"] {
            let sim = node();
            sim.insert_image(image(listed, &["web:2"], &[]))
                .expect("there is room");
            let runtime = PinImages::new(sim.clone(), [reference]);
            assert_eq!(
                pinned(&runtime),
                [listed.to_owned()].into(),
                "{listed} {reference}"
            );
            assert_eq!(now(runtime.unmatched()), Ok(vec![]), "{listed} {reference}");
            for text in ["sha256:5a5b", "5a5b", "sha256:5a", "5a", "web:2"] {
                let error = now(runtime.remove_image(text, "")).expect_err(text);
                let expected = format!("image {text} is pinned by the reference {reference}");
                assert_eq!(error, RuntimeError::refused(expected), "{listed}");
            }
            assert_eq!(sim.changes(), [], "{listed} {reference}");
        }
    }
    for part in ["sha256:5a", "5a", "a5b", "sha512:5a5b", "sha256:sha256:5a5b"] {
        let sim = node();
        sim.insert_image(image("5a5b", &[], &[])).expect("there is room");
        let runtime = PinImages::new(sim, [part]);
        assert_eq!(
            pinned(&runtime),
            BTreeSet::new(),
            "{part}: in full, or not at all"
        );
    }
}

#[test]
fn a_name_that_resolves_to_a_pinned_image_is_not_removed() {
    // The name is created after images were listed: only the runtime can resolve it.
    let removal = |sim: &SimNode| {
        let pausing = Pausing {
            inner: sim.clone(),
            clock: sim.clock().clone(),
            listing_takes: Duration::ZERO,
        };
        let runtime = PinImages::new(pausing, ["registry.k8s.io/pause:3.9"]);
        let work = |_| {
            let listed = operations(sim) == [Operation::Images];
            if listed && sim.all_images().len() == 4 {
                let late = Image {
                    runtime_handler: "kata".into(),
                    ..image(PAUSE, &["late:1"], &[])
                };
                sim.insert_image(late).expect("there is room");
            }
        };
        between(runtime.remove_image("late:1", ""), work).0
    };
    let sim = node();
    assert_eq!(
        removal(&sim),
        Err(RuntimeError::refused(
            "image late:1 is pinned by the reference registry.k8s.io/pause:3.9"
        ))
    );
    assert_eq!(sim.changes(), []);

    for (error, text, refused) in [
        (RuntimeError::refused("device busy"), "other:1", true),
        (RuntimeError::unknown("lost"), "other:1", true),
        (RuntimeError::refused("device busy"), WEB, false),
        (RuntimeError::NotFound, "other:1", false),
        (
            RuntimeError::NotSupported {
                operation: "image_id",
            },
            "other:1",
            false,
        ),
    ] {
        let sim = node();
        let rule = Rule::always(Operation::ImageId, Fault::Refuse(error.clone()));
        let runtime = PinImages::new(faulty(&sim, vec![rule]), [PAUSE]);
        let result = now(runtime.remove_image(text, ""));
        let expected = format!("image {text}: cannot determine whether it is pinned: {error}");
        let expected = if refused {
            Err(RuntimeError::refused(expected))
        } else {
            Ok(())
        };
        assert_eq!(result, expected, "{error:?}");
        assert_eq!(sim.changes().len(), usize::from(!refused), "{error:?}");
    }
}

#[test]
fn without_a_list_of_images_none_is_removed() {
    for fault in [refuse(), Fault::LoseResponse, Fault::Die] {
        let sim = node();
        let faulty = faulty(&sim, vec![Rule::always(Operation::Images, fault.clone())]);
        let runtime = PinImages::new(faulty, ["gone:1"]);
        let error = now(runtime.remove_image(WEB, "")).expect_err("it is not known whether it is pinned");
        let RuntimeError::Refused { message } = &error else {
            panic!("{fault:?}: {error:?}");
        };
        assert!(
            message.starts_with("image sha256:77aa: cannot determine whether it is pinned: "),
            "{message}"
        );
        assert!(now(runtime.images()).is_err());
        assert!(now(runtime.unmatched()).is_err());
        assert_eq!(sim.changes(), [], "{fault:?}");
    }
    let sim = node();
    let faulty = faulty(&sim, vec![Rule::always(Operation::Images, refuse())]);
    let runtime = PinImages::new(faulty, [""; 0]);
    assert_eq!(
        now(runtime.remove_image(WEB, "")),
        Ok(()),
        "nothing is to be kept"
    );
}

#[test]
fn other_requests_are_forwarded_unchanged() {
    let busy = busy();
    let runtime = PinImages::new(busy.node.clone(), ["old:1"]);
    let (container, sandbox) = (&busy.dead[0], &busy.gone_sandboxes[0]);
    let query = async {
        runtime.containers().await?;
        runtime.sandboxes().await?;
        runtime.image_file_system().await?;
        runtime.container_status(container).await?;
        runtime.image_id("old:1").await?;
        runtime.stop_container(container, 3).await?;
        runtime.remove_container(container).await?;
        runtime.stop_sandbox(sandbox).await?;
        runtime.remove_sandbox(sandbox).await
    };
    assert_eq!(now(query), Ok(()));
    let calls = runtime.runtime().take_calls();
    let calls: Vec<_> = calls.iter().map(|call| (call.operation, &*call.target)).collect();
    assert_eq!(
        calls,
        [
            (Operation::Containers, ""),
            (Operation::Sandboxes, ""),
            (Operation::ImageFileSystem, ""),
            (Operation::ContainerStatus, container),
            (Operation::ImageId, "old:1"),
            (Operation::StopContainer, container),
            (Operation::RemoveContainer, container),
            (Operation::StopSandbox, sandbox),
            (Operation::RemoveSandbox, sandbox),
        ]
    );
    let kept = now(runtime.images()).expect("listed");
    let before = busy.node.all_images();
    for image in kept {
        let was = before
            .iter()
            .find(|one| one.id == image.id)
            .expect("listed before");
        let pinned = was.pinned || image.id == busy.unused;
        assert_eq!(
            *image,
            Image {
                pinned,
                ..(**was).clone()
            }
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_run_removes_a_pinned_image(
        names in proptest::collection::vec((0..6_u8, 0..4_u8, any::<bool>()), 1..12),
        kept in proptest::collection::btree_set(0..6_u8, 0..4),
        by in 0..4_u8,
        release in proptest::sample::select(&RELEASES[..]),
    ) {
        let sim = SimNode::new(SimClock::new(at(1_000_000)), NodeSettings { capacity_bytes: 10_000, ..NodeSettings::default() });
        let id = |number: u8| format!("sha256:{number:02}");
        for (number, tag, used) in names {
            let image = image(&id(number), &[&format!("r{number}.example/a:{tag}")], &[&format!("r{number}.example/a@sha256:{number}{tag}")]);
            if sim.image(&image.id).is_none() {
                sim.insert_image(Image { size_bytes: 1_500, ..image }).expect("there is room");
                if used {
                    let pod = PodSpec::new("shop", &format!("p{number}")).container(ContainerSpec::new("c", &id(number)));
                    sim.run_pod(&pod).expect("it runs");
                }
            }
        }
        let references: Vec<String> = kept.iter().flat_map(|&number| {
            let image = sim.image(&id(number));
            let name = |names: &[Arc<str>]| names.first().map(ToString::to_string);
            match by {
                0 => Some(id(number)),
                1 => image.and_then(|image| name(&image.tags)),
                2 => image.and_then(|image| name(&image.digests)),
                _ => Some(format!("r{number}.example/a@sha256:")),
            }
        }).collect();
        let there: Vec<Arc<Image>> = kept.iter().filter_map(|&number| sim.image(&id(number))).collect();
        let runtime = PinImages::new(sim.clone(), references);
        let clock = sim.clock().clone();
        let world = Environment { runtime: &runtime, logs: Some(&sim), pods: &sim, clock: &clock };
        let mut driver = Node::new(world, settings(release));
        for _ in 0..3 {
            now(driver.detect_images());
            clock.advance(Duration::from_secs(3_600));
            now(driver.collect_images());
            now(driver.delete_unused_images());
        }
        for image in there {
            prop_assert_eq!(sim.image(&image.id), Some(Arc::clone(&image)), "{}", release);
        }
        prop_assert_eq!(sim.violations(), []);
    }
}
