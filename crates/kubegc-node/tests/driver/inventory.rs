//! Reading the inventory of a node: it reports failures and changes nothing.

use kubegc_core::{Planner, Timestamp, node_facts::PodState};
use kubegc_node::{
    Inventory, Listing, Unlisted, container::EvictUnits, driver::InventoryReport, image::FreeSpace,
    sandbox::EvictSandboxes,
};

use super::*;

fn read(runtime: &(impl Runtime + LogDirectory + PodSource), busy: &Busy, release: &str) -> InventoryReport {
    let mut node = Node::new(world(runtime, &busy.clock), settings(release));
    node.set_image_gc_began_at(at(7));
    now(node.read_inventory())
}

/// The texts of all facts of a listing, which has no order.
fn texts<T: std::fmt::Debug>(all: Vec<T>) -> BTreeSet<String> {
    all.iter().map(|one| format!("{one:?}")).collect()
}

/// Images that are mounted, each once.
fn distinct(volumes: Listing<Vec<Arc<str>>>) -> Listing<BTreeSet<Arc<str>>> {
    volumes.map(|volumes| volumes.into_iter().collect())
}

#[test]
fn the_inventory_contains_all_objects_of_the_node() {
    let busy = busy();
    let InventoryReport {
        inventory,
        pods_error,
        ..
    } = read(&busy.node, &busy, "1.36.0");
    let node = &busy.node;
    let containers = inventory.containers.expect("listed");
    assert_eq!(texts(containers), texts(node.all_containers()));
    let sandboxes = inventory.sandboxes.expect("listed");
    assert_eq!(texts(sandboxes), texts(node.all_sandboxes()));
    let images = inventory.images.expect("listed");
    assert_eq!(texts(images), texts(node.all_images()));
    assert_eq!(
        distinct(inventory.image_volumes),
        Ok([Arc::clone(&busy.mounted)].into())
    );
    assert_eq!(inventory.log_entries.expect("listed"), node.all_log_entries());
    assert_eq!(inventory.log_links.expect("listed"), node.all_log_links());
    let disk = inventory.image_file_system.expect("measured");
    assert_eq!(disk.capacity_bytes, Some(10_000));
    assert_eq!(inventory.pods, node.known_pods());
    assert_eq!(inventory.image_gc_began_at, at(7));
    assert_eq!(pods_error, None);
    assert_eq!(node.changes(), []);
    let calls = operations(node);
    assert_eq!(calls.last(), Some(&Operation::Pods), "pods come last: {calls:?}");
}

/// The known facts of each part: `+`, or the reason.
fn known(report: &InventoryReport) -> String {
    let Inventory {
        containers,
        sandboxes,
        images,
        image_volumes,
        image_file_system,
        log_entries,
        log_links,
        ..
    } = &report.inventory;
    let parts = [
        ("containers", containers.as_ref().err()),
        ("sandboxes", sandboxes.as_ref().err()),
        ("images", images.as_ref().err()),
        ("volumes", image_volumes.as_ref().err()),
        ("disk", image_file_system.as_ref().err()),
        ("entries", log_entries.as_ref().err()),
        ("links", log_links.as_ref().err()),
    ];
    let failed = parts.iter().filter_map(|(name, error)| match error {
        None => None,
        Some(Unlisted::NotRequested) => Some((*name).to_owned()),
        Some(Unlisted::Failed(why)) => Some(format!("{name}: {why}")),
    });
    let pods = report.pods_error.clone();
    failed.chain(pods).collect::<Vec<_>>().join("; ")
}

#[test]
fn failures_are_reported_and_the_rest_is_still_read() {
    for (operation, expected) in [
        (
            Operation::Containers,
            "containers: device busy; volumes: device busy",
        ),
        (Operation::Sandboxes, "sandboxes: device busy"),
        (Operation::Images, "images: device busy"),
        (Operation::ContainerStatus, "volumes: device busy"),
        (Operation::ImageFileSystem, "disk: device busy"),
        (Operation::PodEntries, "entries: device busy"),
        (Operation::ContainerLinks, "links: device busy"),
        (Operation::Pods, "list pods: device busy"),
        (Operation::ImageId, ""),
        (Operation::RemoveImage, ""),
    ] {
        let busy = busy();
        let runtime = faulty(&busy.node, vec![Rule::always(operation, refuse())]);
        let found = read(&runtime, &busy, "1.36.0");
        assert_eq!(known(&found), expected, "{operation:?}");
        let pods = &found.inventory.pods;
        assert_eq!(
            *pods == Pods::default(),
            operation == Operation::Pods,
            "{operation:?}: {pods:?}"
        );
        if operation == Operation::Images {
            assert_eq!(
                distinct(found.inventory.image_volumes),
                Ok([Arc::clone(&busy.mounted)].into()),
                "volumes are facts of containers"
            );
        }
    }
}

#[test]
fn a_dead_runtime_lists_nothing_and_an_absent_log_directory_is_not_read() {
    let busy = busy();
    let runtime = faulty(&busy.node, vec![]);
    runtime.die();
    let found = read(&runtime, &busy, "1.36.0");
    let dead = "the runtime does not respond";
    assert_eq!(
        known(&found),
        format!("containers: {dead}; sandboxes: {dead}; images: {dead}; volumes: {dead}; disk: {dead}")
    );
    let world = Environment {
        logs: None,
        ..world(&busy.node, &busy.clock)
    };
    let node = Node::new(world, settings("1.36.0"));
    let found = now(node.read_inventory());
    assert_eq!(known(&found), "entries; links");
    let never = Timestamp::from_nanos(i64::MAX);
    assert_eq!(found.inventory.image_gc_began_at, never, "use was not watched");
}

#[test]
fn plans_from_the_inventory_are_those_of_a_dry_run() {
    for release in RELEASES {
        for pressed in [false, true] {
            let busy = busy();
            let mode = if pressed { Mode::Forced } else { Mode::Periodic };
            let settings = Settings {
                dry_run: true,
                ..settings(release)
            };
            busy.node.set_pod(&Uid::new("web"), PodState::ACTIVE);
            let mut node = Node::new(world(&busy.node, &busy.clock), settings.clone());
            now(node.detect_images());
            let inventory = now(node.read_inventory()).inventory;
            let at = busy.clock.now();
            let run = now(node.collect_containers(mode));
            let containers = EvictUnits {
                mode,
                ..settings.container
            };
            let containers = containers.plan(&inventory, at);
            assert_eq!(containers, run.containers, "{release} {mode:?}");
            let sandboxes = EvictSandboxes {
                mode,
                ..settings.sandbox
            };
            let sandboxes = sandboxes.plan(&inventory, at);
            assert_eq!(sandboxes, run.sandboxes, "{release} {mode:?}");
            assert!(!containers.actions.is_empty(), "{release}");
            let images = FreeSpace {
                task: Task::DeleteUnused,
                ..settings.image
            };
            let images = images.plan(&inventory, at);
            assert!(!images.actions.is_empty(), "{release}");
            assert_eq!(
                images.actions,
                now(node.delete_unused_images()).plan.actions,
                "{release}"
            );
            assert_eq!(busy.node.changes(), [], "{release}");
        }
    }
}
