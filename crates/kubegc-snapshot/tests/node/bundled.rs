//! The bundled node is read completely and matches its README.

use std::collections::BTreeSet;

use kubegc_core::node_facts::{ContainerState, SandboxState};
use kubegc_node::{GoDuration, Inventory};
use kubegc_snapshot::{NodeReader, NodeSnapshot};

use crate::common::{bundled, bundled_text, findings, now};

fn node() -> NodeSnapshot {
    let mut reader = NodeReader::new().now(now()).pods_are_whole().no_image_volumes();
    reader
        .read_path(&bundled())
        .unwrap_or_else(|error| panic!("{}", error.full_text()));
    reader.finish().expect("nothing was refused")
}

#[test]
fn the_bundled_node_is_read_without_a_finding_but_its_readme() {
    let node = node();
    let found = findings(&node);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("SkippedFile: ")
            && found[0].ends_with("README.md: not a .json, .yaml or .yml file")
    );

    let Inventory {
        containers,
        sandboxes,
        images,
        image_file_system,
        pods,
        image_records,
        ..
    } = node.inventory;
    let (containers, sandboxes, images) = (
        containers.expect("listed"),
        sandboxes.expect("listed"),
        images.expect("listed"),
    );
    assert_eq!((containers.len(), sandboxes.len(), images.len()), (60, 30, 41));
    let of = |state| containers.iter().filter(|one| one.state == state).count();
    assert_eq!(
        [
            of(ContainerState::Running),
            of(ContainerState::Exited),
            of(ContainerState::Created),
            of(ContainerState::Unknown)
        ],
        [21, 37, 1, 1]
    );
    assert_eq!(
        sandboxes
            .iter()
            .filter(|one| one.state == SandboxState::Ready)
            .count(),
        21
    );
    // 25 of the API, one of them known by two uids.
    assert_eq!(
        (pods.known.len(), pods.synced, pods.sources_ready),
        (26, true, true)
    );
    let deleted: BTreeSet<_> = sandboxes
        .iter()
        .filter(|one| !pods.known.contains_key(&one.pod.uid))
        .map(|one| &one.pod)
        .collect();
    assert_eq!(deleted.len(), 4);
    assert_eq!(pods.known.values().filter(|pod| pod.evicted).count(), 1);
    assert_eq!(
        pods.known
            .values()
            .filter(|pod| pod.deleted && !pod.terminated)
            .count(),
        1
    );
    assert_eq!(pods.known.values().filter(|pod| pod.terminated).count(), 4);

    let disk = image_file_system.expect("measured");
    assert_eq!(
        (disk.capacity_bytes, disk.available_bytes),
        (Some(100_000_000_000), Some(11_640_000_000))
    );
    assert!(images.iter().map(|image| image.size_bytes).sum::<u64>() > disk.used_bytes.expect("measured"));
    let used: BTreeSet<&str> = containers.iter().map(|one| &*one.image.id).collect();
    let unused = images
        .iter()
        .filter(|image| !used.contains(&*image.id) && !image.pinned);
    assert_eq!(unused.count(), 15);
    assert_eq!(images.iter().filter(|image| image.pinned).count(), 1);
    assert_eq!(images.iter().filter(|image| image.tags.is_empty()).count(), 1);
    // Every image has a record, and every image in use was in use at the last observation.
    assert_eq!(image_records.len(), images.len());
    for image in &images {
        let record = image_records.get(&image.id).expect("a record");
        assert_eq!(record.size_bytes, image.size_bytes);
        assert_eq!(
            used.contains(&*image.id),
            record
                .last_used
                .is_some_and(|last| now().since(last).as_secs() < 300),
            "{}",
            image.name()
        );
    }
    assert!(node.inventory.image_gc_began_at < now());
}

#[test]
fn the_bundled_policy_is_the_same_from_the_file_and_from_configz() {
    let policy = node().policy.expect("configured");
    assert_eq!(policy.image_minimum_gc_age, GoDuration::from_secs(120));
    assert_eq!(
        policy.eviction_hard.get("nodefs.available").map(String::as_str),
        Some("8%")
    );
    for name in ["kubelet.yaml", "configz.json"] {
        let mut reader = NodeReader::new();
        reader
            .read(name, bundled_text(name).as_bytes())
            .expect("a configuration");
        assert_eq!(
            reader.finish().expect("read").policy.as_ref(),
            Some(&policy),
            "{name}"
        );
    }
}

#[test]
fn the_order_of_files_changes_nothing() {
    let names = [
        "stats-summary.json",
        "records.json",
        "ps.json",
        "pods.json",
        "kubelet.yaml",
        "kubectl-pods.json",
        "images.json",
        "imagefsinfo.json",
        "configz.json",
    ];
    let mut reader = NodeReader::new().now(now()).pods_are_whole().no_image_volumes();
    for name in names {
        reader
            .read(name, bundled_text(name).as_bytes())
            .expect("a document");
    }
    let other = reader.finish().expect("read");
    let node = node();
    assert_eq!(other.inventory, node.inventory);
    assert_eq!(
        (other.policy, other.stats, other.usage),
        (node.policy, node.stats, node.usage)
    );
}
