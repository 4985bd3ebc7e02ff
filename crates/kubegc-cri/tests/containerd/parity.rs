//! The output of `crictl` leads to the same facts and plans as the listings of the client.

use std::time::Duration;

use kubegc_core::{
    Clock, KubernetesVersion, Planner, Timestamp,
    node_facts::{FileSystem, PodState},
};
use kubegc_cri::TokioClock;
use kubegc_node::{Environment, Inventory, Node, container::Mode, driver::Settings, image::Task};
use kubegc_snapshot::{NodeReader, NodeSnapshot, write_records};
use rustix::fs::statvfs;
use serde_json::{Value, json};

use crate::{
    collector::{Known, client, settings_of},
    crictl::Unset,
    daemon::PAUSE,
    host::{Host, RUNS, pod, until},
    oci::ImageSpec,
    raw::cri,
};

const WEB: &str = "registry.invalid/web:1";
const JOB: &str = "registry.invalid/job:1";
const UNUSED: &str = "registry.invalid/unused:1";

/// The output of crictl for the node; `inspects` adds the output for each container, with its mounts.
async fn printed(host: &Host, unset: Unset, inspects: bool) -> Vec<(&'static str, Value)> {
    let containers = host.raw.containers().await;
    let usage: Result<cri::ImageFsInfoResponse, _> =
        host.raw.images("ImageFsInfo", cri::ImageFsInfoRequest {}).await;
    let usage = usage.expect("the daemon responds");
    let mut documents = vec![
        ("ps.json", unset.ps(&containers)),
        ("pods.json", unset.pods(&host.raw.sandboxes().await)),
        ("images.json", unset.images(&host.raw.listed_images().await)),
        ("imagefsinfo.json", unset.imagefsinfo(&usage)),
        ("stats-summary.json", stats(&usage)),
    ];
    for container in containers.into_iter().filter(|_| inspects) {
        let request = cri::ContainerStatusRequest {
            container_id: container.id,
            verbose: false,
        };
        let response: Result<cri::ContainerStatusResponse, _> =
            host.raw.runtime("ContainerStatus", request).await;
        let status = response
            .expect("the daemon responds")
            .status
            .expect("it says something");
        documents.push(("inspect.json", unset.inspect(&status)));
    }
    documents
}

/// The kubelet's stats of the disk, which the runtime does not report.
fn stats(usage: &cri::ImageFsInfoResponse) -> Value {
    let mountpoint = usage.image_filesystems[0]
        .fs_id
        .clone()
        .unwrap_or_default()
        .mountpoint;
    let found = statvfs(&mountpoint).expect("it is mounted");
    json!({ "node": { "nodeName": "node-1", "runtime": { "imageFs": {
        "capacityBytes": found.f_blocks * found.f_frsize,
        "availableBytes": found.f_bavail * found.f_frsize,
        "usedBytes": usage.image_filesystems[0].used_bytes.unwrap_or_default().value,
        "inodes": found.f_files,
        "inodesFree": found.f_ffree,
    }}}})
}

/// Sorts the facts: neither the runtime nor crictl promises an order.
fn sorted(mut inventory: Inventory) -> Inventory {
    if let Ok(containers) = &mut inventory.containers {
        containers.sort_by(|a, b| a.id.cmp(&b.id));
    }
    if let Ok(sandboxes) = &mut inventory.sandboxes {
        sandboxes.sort_by(|a, b| a.id.cmp(&b.id));
    }
    if let Ok(images) = &mut inventory.images {
        images.sort_by(|a, b| a.id.cmp(&b.id));
    }
    inventory
}

/// Both inventories lead to the same plans, and to this many actions in each stage.
fn plan_alike(settings: &Settings, live: &Inventory, read: &Inventory, now: Timestamp, expected: [usize; 3]) {
    let containers = settings.container.with_mode(Mode::Forced);
    let plan = containers.plan(live, now);
    assert_eq!(plan, containers.plan(read, now));
    let sandboxes = settings.sandbox.plan(live, now);
    assert_eq!(sandboxes, settings.sandbox.plan(read, now));
    for task in [Task::Detect, Task::Collect, Task::Free { bytes: 1 }] {
        let policy = settings.image.with_task(task);
        assert_eq!(policy.plan(live, now), policy.plan(read, now), "{task:?}");
    }
    let images = settings.image.with_task(Task::DeleteUnused);
    let unused = images.plan(live, now);
    assert_eq!(unused, images.plan(read, now));
    let actions = [plan.actions.len(), sandboxes.actions.len(), unused.actions.len()];
    assert_eq!(actions, expected, "{plan:?} {sandboxes:?} {unused:?}");
}

/// The same node, live and printed.
pub(crate) async fn crictl_output_leads_to_the_same_plans_as_the_client(host: &Host) {
    let image = |names, filling_bytes| ImageSpec { names, filling_bytes };
    host.import(&[
        image(&[WEB, "registry.invalid/web:stable"], 1000),
        image(&[JOB], 2000),
        image(&[UNUSED], 3000),
    ])
    .await;
    let (web, gone) = (pod("web"), pod("gone"));
    let older = host.sandbox(&web, 0).await;
    host.stop(&older).await;
    let in_web = host.sandbox(&web, 1).await;
    for attempt in 0..3 {
        host.ended(&in_web, "app", attempt, WEB).await;
    }
    host.run(&in_web, "app", 3, WEB, &RUNS).await;
    host.create(&in_web, "side", 0, PAUSE, &RUNS).await;
    let empty = host.sandbox(&gone, 0).await;
    host.stop(&empty).await;
    let in_gone = host.sandbox(&gone, 1).await;
    host.ended(&in_gone, "job", 0, JOB).await;
    host.stop(&in_gone).await;

    let runtime = client().await;
    let clock = TokioClock::new();
    let pods = Known::all([(&web, PodState::ACTIVE)]);
    let kubectl = json!({ "kind": "PodList", "apiVersion": "v1", "items": [
        { "metadata": { "name": "web", "namespace": "shop", "uid": web.uid.to_string() }, "status": { "phase": "Running" } },
    ]});
    let world = Environment {
        runtime: &runtime,
        logs: None,
        pods: &pods,
        clock: &clock,
    };
    for (version, unset, images_unused) in [
        // Up to 1.28 the image of sandboxes is protected by name; here a container that was made from it
        // protects it anyway.
        ("1.28.0", Unset::Null, 1),
        ("1.36.0", Unset::LeftOut, 1),
    ] {
        let version: KubernetesVersion = version.parse().expect("a version");
        let mut settings = settings_of(version, |_| {});
        settings.sandbox_image = Some(PAUSE.into());
        let mut node = Node::new(world, settings.clone());
        let began = clock.now();
        node.set_image_gc_began_at(began);
        node.detect_images().await;
        let records = write_records(node.records(), Some(began));

        // The runtime counts what it uses once a second, and reports zero bytes before the first count.
        let (live, documents) = until("the node is counted and does not change", async || {
            let before = node.read_inventory().await;
            let documents = printed(host, unset, settings.image.semantics().image_volumes).await;
            let after = node.read_inventory().await;
            let (before, after) = (sorted(before.inventory), sorted(after.inventory));
            let counted = matches!(
                after.image_file_system,
                Ok(FileSystem {
                    used_bytes: Some(1..),
                    ..
                })
            );
            (counted && before == after).then_some((after, documents))
        })
        .await;
        let now = clock.now().saturating_add(Duration::from_secs(600));
        let read = read(version, &documents, &kubectl, &records, now);
        assert_eq!(read.findings, [], "no findings");
        let read_inventory = sorted(read.inventory);
        // By parts first, so that a difference is found.
        assert_eq!(read_inventory.containers, live.containers);
        assert_eq!(read_inventory.sandboxes, live.sandboxes);
        assert_eq!(read_inventory.images, live.images);
        assert_eq!(read_inventory.image_volumes, live.image_volumes);
        assert_eq!(read_inventory.image_file_system, live.image_file_system);
        assert_eq!(read_inventory.pods, live.pods);
        assert_eq!(read_inventory.image_records, live.image_records);
        assert_eq!(read_inventory, live);
        assert_eq!(live.containers.as_ref().map(Vec::len), Ok(6));
        // One dead container of the running pod stays, and none of the other; sandboxes that are
        // empty are removed.
        plan_alike(&settings, &live, &read_inventory, now, [3, 2, images_unused]);
    }
}

/// Reads what was printed.
fn read(
    version: KubernetesVersion,
    documents: &[(&str, Value)],
    kubectl: &Value,
    records: &str,
    now: Timestamp,
) -> NodeSnapshot {
    let mut reader = NodeReader::new().now(now).pods_are_whole();
    if version.minor() <= 28 {
        reader = reader.sandbox_image(PAUSE);
    }
    for (name, document) in documents {
        let text = format!("{document:#}\n");
        reader.read(name, text.as_bytes()).expect("crictl prints JSON");
    }
    reader
        .read("kubectl-pods.json", kubectl.to_string().as_bytes())
        .expect("JSON");
    reader.read("records.json", records.as_bytes()).expect("JSON");
    reader.finish().expect("nothing was refused")
}
