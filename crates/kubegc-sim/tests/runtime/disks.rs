//! File systems: the places of files, growth, and full file systems.

use std::time::Duration;

use kubegc_core::{
    Runtime,
    node_facts::{FileSystem, LogTarget},
};
use kubegc_sim::{
    ContainerSpec, NodeSettings, PodSpec, SimNode,
    runtime::{FileSystemRole, Layout, NodeError},
};

use crate::node::{WEB, clock, free, node, node_with, now, run, small};

const HOUR: Duration = Duration::from_secs(3_600);

/// A file system with its capacity, available and used bytes.
type Row = (FileSystemRole, [u64; 3]);

fn numbers(reported: FileSystem) -> [u64; 3] {
    [
        reported.capacity_bytes,
        reported.available_bytes,
        reported.used_bytes,
    ]
    .map(|number| number.unwrap())
}

#[test]
fn each_layout_determines_the_places_of_layers_writable_layers_and_logs() {
    use FileSystemRole::{Containers, Images, Node};
    // 600 bytes of layers, 50 of a writable layer, 30 of a log, 7 of others.
    let tables: [(Layout, [Row; 3]); 3] = [
        (
            Layout::Shared,
            [
                (Node, [1_000, 313, 687]),
                (Images, [1_000, 313, 650]),
                (Containers, [1_000, 313, 650]),
            ],
        ),
        (
            Layout::DedicatedImages {
                capacity_bytes: 2_000,
            },
            [
                (Node, [1_000, 963, 37]),
                (Images, [2_000, 1_350, 650]),
                (Containers, [2_000, 1_350, 650]),
            ],
        ),
        (
            Layout::SplitImages {
                capacity_bytes: 2_000,
            },
            [
                (Node, [1_000, 913, 87]),
                (Images, [2_000, 1_400, 600]),
                (Containers, [1_000, 913, 50]),
            ],
        ),
    ];
    for (layout, expected) in tables {
        let node = node_with(NodeSettings { layout, ..small() });
        let spec = ContainerSpec {
            writable_bytes: 50,
            log_bytes: 30,
            ..ContainerSpec::new("app", WEB)
        };
        node.run_pod(&PodSpec::new("shop", "web").container(spec))
            .unwrap();
        assert_eq!(node.fill(Node, 7), 7);
        for (role, numbers_expected) in expected {
            assert_eq!(
                numbers(node.file_system(role)),
                numbers_expected,
                "{layout:?} {role:?}"
            );
        }
        assert_eq!(
            now(node.image_file_system()),
            Ok(node.file_system(Images)),
            "{layout:?}"
        );
    }
}

#[test]
fn the_runtime_may_not_know_the_capacity() {
    let node = node_with(NodeSettings {
        reports_capacity: false,
        ..small()
    });
    let reported = now(node.image_file_system()).unwrap();
    assert_eq!(
        (
            reported.capacity_bytes,
            reported.available_bytes,
            reported.used_bytes
        ),
        (None, None, Some(600))
    );
    assert_eq!(
        node.file_system(FileSystemRole::Images).capacity_bytes,
        Some(1_000),
        "the disk itself has the numbers"
    );
}

#[test]
fn other_processes_fill_a_file_system_and_free_their_own_bytes() {
    for layout in [
        Layout::Shared,
        Layout::DedicatedImages {
            capacity_bytes: 1_000,
        },
    ] {
        let node = node_with(NodeSettings { layout, ..small() });
        assert_eq!(node.fill(FileSystemRole::Images, 5_000), 400, "{layout:?}");
        assert_eq!(free(&node), 0);
        assert_eq!(node.clear(FileSystemRole::Images, 150), 150);
        assert_eq!(node.clear(FileSystemRole::Images, 5_000), 250, "{layout:?}");
        assert_eq!(free(&node), 400);
    }
}

#[test]
fn containers_write_until_the_disk_is_full() {
    let node = node();
    let pod = run(&node, "web", WEB);
    let id = &pod.container_ids[0];
    assert_eq!(node.write_layer(id, 150), Ok(150));
    assert_eq!(node.write_log(id, 200), Ok(200));
    assert_eq!(node.write_layer(id, 60), Ok(50), "as many as fit");
    assert_eq!(node.write_log(id, 1), Ok(0));
    let big = ContainerSpec {
        writable_bytes: 1,
        ..ContainerSpec::new("late", WEB)
    };
    let refused = node.create_container(&pod.sandbox_id, &big);
    assert!(matches!(
        refused,
        Err(NodeError::NoSpace {
            wanted_bytes: 1,
            available_bytes: 0
        })
    ));
    now(node.remove_container(id)).unwrap();
    let usage = node.usage();
    assert_eq!(
        (usage.writable_bytes, usage.logs_bytes),
        (0, 200),
        "its log is not a file of the runtime"
    );
}

fn growing() -> (SimNode, std::sync::Arc<str>) {
    let node = SimNode::new(
        clock(),
        NodeSettings {
            capacity_bytes: 10_000,
            ..NodeSettings::default()
        },
    );
    let spec = ContainerSpec {
        writable_bytes_per_hour: 100,
        log_bytes_per_hour: 7,
        ..ContainerSpec::new("app", "")
    };
    let pod = node
        .run_pod(&PodSpec::new("shop", "web").container(spec))
        .unwrap();
    node.set_growth(1_000);
    (node, pod.container_ids[0].clone())
}

#[test]
fn disks_fill_over_time_while_containers_run_only() {
    let numbers = |node: &SimNode| {
        let usage = node.usage();
        (usage.writable_bytes, usage.logs_bytes, usage.other_bytes)
    };
    let (often, _) = growing();
    for _ in 0..360 {
        often.clock().advance(HOUR / 120);
        let _ = often.usage();
    }
    let (once, id) = growing();
    once.clock().advance(3 * HOUR);
    assert_eq!(numbers(&once), (300, 21, 3_000));
    assert_eq!(numbers(&often), numbers(&once));

    once.exit_container(&id).unwrap();
    once.clock().advance(HOUR);
    assert_eq!(numbers(&once), (300, 21, 4_000), "it writes no more");
    once.restart_container(&id).unwrap();
    once.clock().advance(HOUR);
    assert_eq!(numbers(&once), (400, 28, 5_000));
    once.set_growth(0);
    once.clock().advance(HOUR);
    assert_eq!(numbers(&once).2, 5_000);
    once.set_growth(u64::MAX);
    once.clock().advance(Duration::from_secs(u64::MAX));
    assert_eq!(free(&once), 0, "full, and no further");
}

#[test]
fn bytes_freed_while_disks_fill_count_from_their_release() {
    let settings = NodeSettings {
        frees_after: HOUR,
        ..small()
    };
    let node = node_with(settings);
    node.set_growth(500);
    now(node.remove_image(WEB, "")).unwrap();
    // 400 bytes are full after 48 minutes; 200 come free after 60, of which 12 minutes take 100.
    node.clock().advance(HOUR + HOUR / 5);
    assert_eq!((node.usage().other_bytes, free(&node)), (500, 100));
}

#[test]
fn a_container_without_a_log_fills_no_disk() {
    let (node, id) = growing();
    node.lose_log(&id).unwrap();
    node.clock().advance(HOUR);
    let usage = node.usage();
    assert_eq!((usage.writable_bytes, usage.logs_bytes), (100, 0));
    let links = node.all_log_links();
    assert!(links.iter().all(|link| link.target == LogTarget::Missing));
}
