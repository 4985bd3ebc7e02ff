//! Images on a real full disk: images in use stay, unused ones are removed, the least recently used first,
//! until there is room.

use std::{fs, time::Duration};

use kubegc_core::{
    Runtime, Timestamp,
    node_facts::{FileSystem, PodState},
};
use kubegc_cri::CriRuntime;
use kubegc_node::{
    Environment, Node,
    driver::ImagesReport,
    image::{Action, Reason, Subject, Task},
};
use kubegc_sim::SimClock;

use crate::{
    collector::{Known, client, reported, settings, settings_of},
    daemon::{PAUSE, ROOT},
    host::{Host, RUNS, pod, sorted, until},
    oci::ImageSpec,
};

const MEGABYTE: usize = 1 << 20;
const RUNNING: &str = "registry.invalid/running:1";
const DEAD: &str = "registry.invalid/dead:1";
const NEVER: &str = "registry.invalid/never:1";
const FIRST: &str = "registry.invalid/first:1";
const SECOND: &str = "registry.invalid/second:1";
const THIRD: &str = "registry.invalid/third:1";

/// Imports the images of each test, in addition to the sandbox image.
async fn import(host: &Host) {
    let image = |names, filling_bytes| ImageSpec { names, filling_bytes };
    host.import(&[
        image(&[RUNNING], MEGABYTE),
        image(&[DEAD], MEGABYTE),
        // Two names for one image.
        image(&[NEVER, "registry.invalid/never:stable"], 4 * MEGABYTE),
        image(&[FIRST], 3 * MEGABYTE),
        image(&[SECOND], 2 * MEGABYTE),
        image(&[THIRD], MEGABYTE),
    ])
    .await;
}

/// The usage of the disk, once it no longer changes.
async fn stable_usage(runtime: &CriRuntime) -> FileSystem {
    let mut before = None;
    until("the usage of the disk is stable", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = runtime.image_file_system().await.expect("it responds");
        let same = before.replace(now.available_bytes) == Some(now.available_bytes);
        same.then_some(now)
    })
    .await
}

/// Fills the disk until this many bytes are free, or a few less.
async fn fill_until_free(runtime: &CriRuntime, bytes: u64) {
    let available = stable_usage(runtime).await.available_bytes.expect("measured");
    let filling = available.checked_sub(bytes).expect("the disk is large enough");
    let filling = vec![1; usize::try_from(filling).expect("as large as memory")];
    fs::write(format!("{ROOT}/others-data"), filling).expect("there is room");
}

/// Names of the images that stay in use.
fn in_use(report: &ImagesReport) -> Vec<String> {
    let used = report
        .plan
        .kept
        .iter()
        .filter_map(|kept| match (&kept.object, &kept.reason) {
            (Subject::Image(image), Reason::InUse) => Some(image.name().to_owned()),
            _ => None,
        });
    sorted(used)
}

/// A run frees enough space, and removes no image more than needed.
pub(crate) async fn unused_images_are_removed_least_recently_used_first(host: &Host) {
    import(host).await;
    let web = pod("web");
    let sandbox = host.sandbox(&web, 0).await;
    host.run(&sandbox, "running", 0, RUNNING, &RUNS).await;
    host.ended(&sandbox, "dead", 0, DEAD).await;
    let mut users = Vec::new();
    for (name, image) in [("first", FIRST), ("second", SECOND), ("third", THIRD)] {
        users.push(host.create(&sandbox, name, 0, image, &RUNS).await);
    }

    let runtime = client().await;
    // This runtime does not pin the image of sandboxes, so a container uses it.
    host.create(&sandbox, "pause", 0, PAUSE, &RUNS).await;
    let pods = Known::all([(&web, PodState::ACTIVE)]);
    let clock = SimClock::new(Timestamp::from_secs(1_800_000_000));
    let environment = Environment {
        runtime: &runtime,
        logs: None,
        pods: &pods,
        clock: &clock,
    };
    let mut node = Node::new(environment, settings(|_| {}));
    // Each image is last detected in use ten minutes after the one before.
    for user in users {
        let seen = node.detect_images().await;
        assert_eq!((seen.images, seen.error), (7, None));
        clock.advance(Duration::from_secs(600));
        runtime.remove_container(&user).await.expect("it is not started");
    }

    let enough_space = node.collect_images().await;
    assert_eq!(
        (reported(&enough_space.performed), enough_space.error()),
        (vec![], None),
        "{:?}",
        enough_space.plan.summary
    );

    // The disk may be 80 % full. It is filled until removing the image never used is not enough, and the next
    // one is removed too.
    let size = |name: &str| {
        let image = enough_space.plan.kept.iter().find_map(|kept| match &kept.object {
            Subject::Image(image) if image.name() == name => Some(image.size_bytes),
            _ => None,
        });
        image.expect("it is listed")
    };
    let capacity = stable_usage(&runtime).await.capacity_bytes.expect("measured");
    fill_until_free(&runtime, capacity / 5 - size(NEVER) - size(FIRST) / 2).await;
    let full = node.collect_images().await;
    assert_eq!(full.error(), None);
    assert_eq!(
        reported(&full.performed),
        [format!("image {NEVER}"), format!("image {FIRST}")]
    );
    assert_eq!(in_use(&full), [DEAD, PAUSE, RUNNING]);
    let summary = &full.plan.summary;
    let (wanted, freed) = (
        summary.to_free_bytes.expect("too full"),
        summary.freed_bytes.expect("freed"),
    );
    assert!(
        summary.usage_percent.is_some_and(|percent| percent >= 85),
        "{summary:?}"
    );
    assert_eq!(freed.cast_unsigned(), size(NEVER) + size(FIRST));
    assert!(
        wanted > size(NEVER).cast_signed() && wanted <= freed,
        "{wanted} {freed}"
    );
    assert_eq!(
        host.image_names().await,
        [DEAD, PAUSE, RUNNING, SECOND, THIRD],
        "with both its names"
    );

    // The disk itself reports the freed bytes, and the next run removes nothing.
    let filled = capacity / 5 - wanted.cast_unsigned();
    until("the disk is emptier", async || {
        let now = runtime.image_file_system().await.expect("it responds");
        now.available_bytes
            .filter(|&now| now >= filled + freed.cast_unsigned())
    })
    .await;
    let next = node.collect_images().await;
    assert_eq!(
        (reported(&next.performed), next.error()),
        (vec![], None),
        "{:?}",
        next.plan.summary
    );

    // A number of bytes, independent of the disk.
    let by_amount = node.images(Task::Free { bytes: 1 }).await;
    assert_eq!(
        (reported(&by_amount.performed), by_amount.error()),
        (vec![format!("image {SECOND}")], None)
    );
}

/// Removes all unused images, as a kubelet that is configured with the image of sandboxes does. Returns the
/// names of the removed images, in order.
async fn delete_unused(
    environment: Environment<'_>,
    clock: &SimClock,
    version: &str,
    dry_run: bool,
) -> Vec<String> {
    let mut settings = settings_of(version.parse().expect("a version"), |_| {});
    settings.sandbox_image = Some(PAUSE.into());
    let mut node = Node::new(environment, settings.clone());
    node.detect_images().await;
    // Older than the minimum age.
    clock.advance(Duration::from_secs(600));
    settings.dry_run = dry_run;
    let mut node = Node::with_records(environment, settings, node.records().clone());
    let report = node.delete_unused_images().await;
    assert_eq!(report.error(), None);
    let used = in_use(&report);
    assert!(
        [DEAD, RUNNING]
            .iter()
            .all(|name| used.iter().any(|used| used == name)),
        "{used:?}"
    );
    let removed = report.plan.actions.iter();
    sorted(removed.map(|Action { image, .. }| image.name().to_owned()))
}

/// Under disk pressure all unused images are removed. The sandbox image is one of them from 1.29 on: this runtime
/// does not pin it.
pub(crate) async fn the_sandbox_image_is_removed_if_the_runtime_does_not_pin_it(host: &Host) {
    import(host).await;
    let web = pod("web");
    let sandbox = host.sandbox(&web, 0).await;
    host.run(&sandbox, "running", 0, RUNNING, &RUNS).await;
    host.ended(&sandbox, "dead", 0, DEAD).await;

    let runtime = client().await;
    let listed = runtime.images().await.expect("it responds");
    assert!(
        listed.iter().all(|image| !image.pinned),
        "1.6 pins nothing: {listed:?}"
    );
    let pods = Known::all([(&web, PodState::ACTIVE)]);
    let clock = SimClock::new(Timestamp::from_secs(1_800_000_000));
    let plain = Environment {
        runtime: &runtime,
        logs: None,
        pods: &pods,
        clock: &clock,
    };
    let unused = [FIRST, NEVER, SECOND, THIRD];
    let removed =
        async |environment, version, dry_run| delete_unused(environment, &clock, version, dry_run).await;
    let (old, new) = ("1.28.0", "1.36.0");
    let with_pause = [FIRST, NEVER, PAUSE, SECOND, THIRD];
    // A kubelet protects the image that it is configured with, up to 1.28; later ones trust the runtime.
    assert_eq!(removed(plain, old, true).await, unused);
    assert_eq!(removed(plain, new, true).await, with_pause);
    assert_eq!(removed(plain, old, false).await, unused);
    assert_eq!(host.image_names().await, [DEAD, PAUSE, RUNNING]);
    assert_eq!(removed(plain, old, false).await, [""; 0]);
    host.sandbox(&pod("next"), 0).await;

    // Without that protection, the image of a ready sandbox is removed, and the sandbox continues to run.
    assert_eq!(removed(plain, new, false).await, [PAUSE]);
    assert_eq!(host.image_names().await, [DEAD, RUNNING]);
    assert_eq!(host.sandboxes_left().await, ["next#0 ready", "web#0 ready"]);
}
