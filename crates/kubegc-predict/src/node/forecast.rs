//! Runs the planners of a node in the order in which a kubelet would, under one policy or two, and finds when
//! its disk is full.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_core::{
    KubernetesVersion, PlanOf, Planner, Quantity, Timestamp,
    node_facts::{Container, FileSystem, Image},
};
use kubegc_node::{
    Bytes, Inventory, Policy, Unlisted,
    container::{EvictUnits, Mode},
    eviction::{Layout, Signal, Threshold},
    image::{self, FreeSpace, Record, Records, Task},
    log::EvictLogs,
    policy::Finding as Doubt,
    sandbox::EvictSandboxes,
    semantics::behavior,
};

use crate::words::variant_name;

/// The next actions of a node's collector. Plans are those of `kubegc-node`; each is computed on the state
/// that the previous one leaves.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeForecast {
    /// The settings of the forecast.
    pub frame: NodeFrame,
    pub policy: Policy,
    /// Valid settings that are likely not intended.
    pub settings: Vec<Doubt>,
    /// Dead containers, within a minute.
    pub containers: PlanOf<EvictUnits>,
    /// Sandboxes, in the same pass.
    pub sandboxes: PlanOf<EvictSandboxes>,
    /// Logs, in the same pass; `None` if they were not listed.
    pub logs: Option<PlanOf<EvictLogs>>,
    /// Images, within five minutes; `None` if the loop is off.
    pub images: Option<PlanOf<FreeSpace>>,
    /// Knowledge about their use.
    pub records: RecordsKnown,
    /// The image plan of a kubelet that has just started and has run one detection; `None` if records were
    /// given, or the loop is off.
    pub images_after_restart: Option<PlanOf<FreeSpace>>,
    /// Last use of each image that has a record, by id.
    pub last_used: BTreeMap<Arc<str>, Timestamp>,
    /// Images of the plans that the runtime will not remove.
    pub in_use_by_digest: Vec<ImageInUseByDigest>,
    /// The plans for a node under pressure.
    pub pressure: PressureForecast,
    /// The image file system; `None` if it is unknown.
    pub disk: Option<Disk>,
    /// The assumptions, in the order in which they were made.
    pub assumptions: Vec<Assumption>,
}

/// The deletions of a node under disk pressure before it evicts pods.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureForecast {
    /// Dead containers.
    pub containers: PlanOf<EvictUnits>,
    /// All unused images.
    pub images: PlanOf<FreeSpace>,
}

/// An image that a container uses and the kubelet counts as unused. The runtime reports the container's image
/// by a digest, as CRI-O does, and the kubelet compares ids. It tries to remove the image, and the runtime
/// refuses.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display(
    "image {} is in use by container {}/{}/{} as {digest}: the kubelet counts it as unused, because it compares \
     ids and no digests, and the runtime refuses to remove it",
    image.name(), container.pod.namespace, container.pod.name, container.name.as_deref().unwrap_or("?")
)]
pub struct ImageInUseByDigest {
    pub image: Arc<Image>,
    pub container: Arc<Container>,
    /// The digest, which both have.
    pub digest: Arc<str>,
}

/// Predicts the next garbage collection of a node.
///
/// # Guarantees
/// Data that the inventory does not list is unknown, and nothing is deleted because of it. The one exception
/// is listed as an assumption: without data about images that are mounted as volumes, none are.
///
/// # Complexity
/// That of the planners: `O(n log n)` for `n` containers, sandboxes and images.
pub fn node_forecast(inventory: &Inventory, policy: &Policy, frame: NodeFrame) -> NodeForecast {
    let mut assumptions = vec![Assumption::NothingElseHappens];
    let mut assumed = inventory.clone();
    let semantics = policy.semantics;
    if semantics.image_volumes && assumed.image_volumes == Err(Unlisted::NotRequested) {
        assumed.image_volumes = Ok(Vec::new());
        assumptions.push(Assumption::NoImageVolumes);
    }
    if assumed.sandbox_image.is_none() && !semantics.version.has(behavior::SANDBOX_IMAGE_IS_NOT_PROTECTED) {
        assumptions.push(Assumption::SandboxImageUnknown);
    }
    if !assumed.pods.sources_ready {
        assumptions.push(match assumed.pods.synced || !assumed.pods.known.is_empty() {
            true => Assumption::SourcesNotReady,
            false => Assumption::PodsUnknown,
        });
    }

    let containers = policy.container.plan(&assumed, frame.now);
    let forced = EvictUnits {
        mode: Mode::Forced,
        ..policy.container
    };
    let pressure_containers = forced.plan(&assumed, frame.now);
    let mut pressed = assumed.clone();
    remove_containers(&mut assumed, &containers);
    remove_containers(&mut pressed, &pressure_containers);
    let sandboxes = EvictSandboxes {
        semantics,
        ..Default::default()
    };
    let sandboxes = sandboxes.plan(&assumed, frame.now);
    let are_listed = assumed.log_entries.is_ok() || assumed.log_links.is_ok();
    let logs = EvictLogs {
        semantics,
        ..Default::default()
    };
    let logs = are_listed.then(|| logs.plan(&assumed, frame.now));
    if logs.is_none() {
        assumptions.push(Assumption::LogsUnknown);
    }

    let loop_is_on = policy.image_loop().enabled;
    let collects = FreeSpace {
        task: Task::Collect,
        ..policy.image
    };
    let mut records = RecordsKnown::Given;
    let mut images_after_restart = None;
    if !are_known(&assumed.image_records) && assumed.images.as_ref().is_ok_and(|images| !images.is_empty()) {
        records = RecordsKnown::AssumedOld;
        // A kubelet that has just started has observed nothing yet. It detects images before it can delete
        // them: its first disk check is too early.
        let started = Inventory {
            image_records: first_detection(&assumed, policy, frame.now),
            image_gc_began_at: frame.now,
            ..assumed.clone()
        };
        images_after_restart = loop_is_on.then(|| collects.plan(&started, frame.now));
        for assumed in [&mut assumed, &mut pressed] {
            assumed.image_records = old_records(assumed, policy, frame.now);
            assumed.image_gc_began_at = Timestamp::EPOCH;
        }
    }
    let images = loop_is_on.then(|| collects.plan(&assumed, frame.now));
    let deletes_unused = FreeSpace {
        task: Task::DeleteUnused,
        ..policy.image
    };
    let pressure_images = deletes_unused.plan(&pressed, frame.now);
    let unused = pressure_images.actions.len();
    if unused > 0 {
        let unknown = Assumption::RecordsUnknown { images: unused };
        assumptions.extend((records == RecordsKnown::AssumedOld).then_some(unknown));
        assumptions.extend([Assumption::SizesOverlap, Assumption::FreedAtOnce]);
    }
    let bytes_per_hour = frame.growth_bytes_per_hour;
    if bytes_per_hour > 0 {
        assumptions.push(Assumption::SteadyGrowth { bytes_per_hour });
    }
    let version = semantics.version;
    if version.warning().is_some() {
        assumptions.push(Assumption::NewerVersion { version });
    }
    let freed_bytes = images.as_ref().map_or(0, plan_bytes);
    let file_system = assumed.image_file_system.as_ref().ok();
    let disk = file_system.and_then(|measured| Disk::forecast(policy, *measured, freed_bytes, frame));
    let removed = images.iter().flat_map(|plan| &plan.actions);
    let in_use_by_digest = in_use_by_digest(&assumed, removed.chain(&pressure_images.actions));
    NodeForecast {
        frame,
        policy: policy.clone(),
        settings: policy.findings(file_system),
        containers,
        sandboxes,
        logs,
        images,
        records,
        images_after_restart,
        last_used: last_used(inventory),
        in_use_by_digest,
        pressure: PressureForecast {
            containers: pressure_containers,
            images: pressure_images,
        },
        disk,
        assumptions,
    }
}

fn remove_containers(inventory: &mut Inventory, plan: &PlanOf<EvictUnits>) {
    let removed: BTreeSet<&Arc<str>> = plan.actions.iter().map(|action| &action.container.id).collect();
    if let Ok(containers) = &mut inventory.containers {
        containers.retain(|container| !removed.contains(&container.id));
    }
}

/// The images to remove that a container has by a digest.
fn in_use_by_digest<'a>(
    inventory: &Inventory,
    removals: impl Iterator<Item = &'a image::Action>,
) -> Vec<ImageInUseByDigest> {
    let containers = inventory.containers.as_deref().unwrap_or_default();
    let mut users: BTreeMap<&str, &Arc<Container>> = BTreeMap::new();
    for container in containers {
        for name in [&container.image.reference, &container.image.id] {
            users.entry(&**name).or_insert(container);
        }
    }
    let mut found: BTreeMap<Arc<str>, ImageInUseByDigest> = BTreeMap::new();
    for image::Action { image, .. } in removals {
        let mut digests = image.digests.iter();
        let used = digests.find_map(|digest| Some((digest, *users.get(&**digest)?)));
        if let Some((digest, container)) = used {
            let known = found.entry(Arc::clone(&image.id));
            known.or_insert_with(|| ImageInUseByDigest {
                image: Arc::clone(image),
                container: Arc::clone(container),
                digest: Arc::clone(digest),
            });
        }
    }
    found.into_values().collect()
}

/// Whether the records of images were given. They may also be empty.
fn are_known(records: &Records) -> bool {
    !records.is_empty() || records.detected()
}

/// The records after the first run of the detection loop.
fn first_detection(inventory: &Inventory, policy: &Policy, now: Timestamp) -> Records {
    let detect = FreeSpace {
        task: Task::Detect,
        ..policy.image
    };
    detect.plan(inventory, now).summary.records
}

/// Records as a kubelet may have them that has run for long: everything old, and unused since it started.
fn old_records(inventory: &Inventory, policy: &Policy, now: Timestamp) -> Records {
    // The result of a detection, dated before all times.
    let detected = first_detection(inventory, policy, now);
    let old = detected.iter().map(|record| Record {
        first_detected: None,
        ..record.clone()
    });
    old.collect()
}

/// The last use of each image with a record; the latest one if records are kept per runtime handler.
fn last_used(inventory: &Inventory) -> BTreeMap<Arc<str>, Timestamp> {
    let mut last_used: BTreeMap<Arc<str>, Timestamp> = BTreeMap::new();
    for record in inventory.image_records.iter() {
        let Some(used) = record.last_used else { continue };
        let latest = last_used.entry(record.id().into()).or_insert(used);
        *latest = used.max(*latest);
    }
    last_used
}

impl NodeForecast {
    /// The bytes that image removals of the next pass add up to, by the sizes of the listing.
    pub fn image_bytes(&self) -> u64 {
        self.images.iter().map(plan_bytes).fold(0, u64::saturating_add)
    }
}

/// The bytes that an image plan's removals add up to.
pub(super) fn plan_bytes(plan: &PlanOf<FreeSpace>) -> u64 {
    let sizes = plan.actions.iter().map(|action| {
        let image::Action { image, .. } = action;
        image.size_bytes
    });
    sizes.fold(0, u64::saturating_add)
}

/// The time at which an event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Due {
    #[display("now")]
    Now,
    #[display("from {_0} on")]
    At(Timestamp),
    #[display("never")]
    Never,
    /// It depends on a growth rate that was not given.
    #[display("not now; give --growth to know when")]
    NoGrowth,
}

/// The image file system and its future usage.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// Its current usage.
    pub file_system: FileSystem,
    /// Disk usage, in percent as upstream computes it.
    pub usage_percent: i64,
    /// The usage above which images are removed.
    pub high_percent: i32,
    /// The time at which that usage is reached.
    pub collection: Due,
    /// The time at which it is reached again after the next garbage collection, if the deleted images free
    /// the sum of their sizes; `None` if none is deleted.
    pub again: Option<Due>,
    /// The time at which pods are evicted if no images are deleted: the first hard threshold of
    /// `imagefs.available`.
    pub eviction: Option<Due>,
}

impl Disk {
    /// Predicts the usage of a file system with constant growth, of which the next garbage collection frees
    /// `freed_bytes`; `None` if its capacity or its free bytes are unknown.
    fn forecast(
        policy: &Policy,
        file_system: FileSystem,
        freed_bytes: u64,
        frame: NodeFrame,
    ) -> Option<Self> {
        let usage_percent = policy.image.usage_percent(&file_system)?;
        let (now, bytes_per_hour) = (frame.now, frame.growth_bytes_per_hour);
        let capacity = file_system.capacity_bytes?;
        let available = file_system.available_bytes?.min(capacity);
        let due_with = |available: u64, at: Option<u64>| match at {
            None => Due::Never,
            Some(bytes) if available <= bytes => Due::Now,
            Some(_) if bytes_per_hour == 0 => Due::NoGrowth,
            Some(bytes) => Due::At(now.saturating_add(time_to_write(available - bytes, bytes_per_hour))),
        };
        let due = |at: Option<u64>| due_with(available, at);
        let freed = available.saturating_add(freed_bytes).min(capacity);
        let collects = policy.image.collects_below_bytes(capacity);
        let collects = collects.filter(|_| policy.image_loop().enabled);
        let is_meant = |one: &Threshold| one.signal == Signal::ImageFsAvailable && one.is_hard();
        let thresholds = policy.eviction.effective(Layout::DedicatedImages).into_iter();
        let amounts = thresholds.filter(is_meant).map(|one| one.value.of(capacity));
        Some(Self {
            file_system,
            usage_percent,
            high_percent: policy.image.thresholds.high_percent,
            collection: due(collects),
            again: (freed_bytes > 0).then(|| due_with(freed, collects)),
            eviction: amounts.max().map(|amount| due(most_below(amount, capacity))),
        })
    }
}

/// The most bytes of a capacity that are less than an amount; `None` if none are, or without a capacity.
fn most_below(amount: Quantity, capacity: u64) -> Option<u64> {
    if capacity == 0 || amount.is_negative() || amount.is_zero() {
        return None;
    }
    let whole = amount.rounded_up(0).as_i64();
    // A greater amount exceeds every capacity.
    Some(whole.map_or(capacity, |whole| capacity.min(whole.unsigned_abs() - 1)))
}

/// Time to write a number of bytes, rounded up to a second. The rate is not zero.
fn time_to_write(bytes: u64, bytes_per_hour: u64) -> Duration {
    let seconds = (u128::from(bytes) * 3600).div_ceil(u128::from(bytes_per_hour.max(1)));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX))
}

/// Two forecasts of one node under two policies, and their differences.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// Under the present policy.
    pub present: NodeForecast,
    /// Under the changed policy.
    pub changed: NodeForecast,
    /// Containers that only the changed policy removes, by id.
    pub containers_lost: Vec<Arc<Container>>,
    /// Containers that only the present policy removes, by id.
    pub containers_spared: Vec<Arc<Container>>,
    /// Images that only the changed policy removes, by id.
    pub images_lost: Vec<Arc<Image>>,
    /// Images that only the present policy removes, by id.
    pub images_spared: Vec<Arc<Image>>,
}

/// Compares two policies on one node.
pub fn what_if(inventory: &Inventory, present: &Policy, changed: &Policy, frame: NodeFrame) -> WhatIf {
    let present = node_forecast(inventory, present, frame);
    let changed = node_forecast(inventory, changed, frame);
    let containers = |forecast: &NodeForecast| -> BTreeMap<Arc<str>, Arc<Container>> {
        let removed = forecast.containers.actions.iter().map(|action| &action.container);
        let by_id = removed.map(|container| (Arc::clone(&container.id), Arc::clone(container)));
        by_id.collect()
    };
    let images = |forecast: &NodeForecast| -> BTreeMap<[Arc<str>; 2], Arc<Image>> {
        let removed = forecast.images.iter().flat_map(|plan| &plan.actions);
        let by_id = removed.map(|image::Action { image, .. }| {
            (
                [&image.id, &image.runtime_handler].map(Arc::clone),
                Arc::clone(image),
            )
        });
        by_id.collect()
    };
    let [present_containers, changed_containers] = [&present, &changed].map(containers);
    let [present_images, changed_images] = [&present, &changed].map(images);
    WhatIf {
        containers_lost: only(&changed_containers, &present_containers),
        containers_spared: only(&present_containers, &changed_containers),
        images_lost: only(&changed_images, &present_images),
        images_spared: only(&present_images, &changed_images),
        present,
        changed,
    }
}

/// The items of the first whose keys the second does not have.
fn only<K: Ord, T>(of: &BTreeMap<K, Arc<T>>, other: &BTreeMap<K, Arc<T>>) -> Vec<Arc<T>> {
    let only = of.iter().filter(|(key, _)| !other.contains_key(*key));
    only.map(|(_, item)| Arc::clone(item)).collect()
}

/// The settings of a node forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeFrame {
    pub now: Timestamp,
    /// By how much the image file system fills in an hour; zero if nothing is known of it.
    pub growth_bytes_per_hour: u64,
}

impl NodeFrame {
    /// A forecast from now on, with an unknown growth rate.
    pub const fn at(now: Timestamp) -> Self {
        Self {
            now,
            growth_bytes_per_hour: 0,
        }
    }
}

/// Knowledge about the use of images before the forecast.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordsKnown {
    /// Records were given.
    Given,
    /// No records were given: it is assumed that the kubelet has run for long, and that unused images were
    /// never used since.
    AssumedOld,
}

/// One thing that a node forecast takes for granted.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Assumption {
    /// It is unknown when images were first detected and last used: the kubelet keeps this in memory and does
    /// not expose it. The order in which unused images are deleted is undetermined. Right after a restart,
    /// possibly none is deleted.
    #[display(
        "the last use of images is unknown: the order of {images} unused ones is undetermined, and a kubelet \
         that has just started may keep all of them"
    )]
    RecordsUnknown {
        /// Unused images whose order is open.
        images: usize,
    },
    /// Sizes of images count shared layers once for each image, so less may become free than is counted, and
    /// the next garbage collection removes more.
    #[display(
        "images share no layers: where they do, less becomes free and the next garbage collection removes more"
    )]
    SizesOverlap,
    /// The runtime frees space before it responds. Some runtimes free it later.
    #[display("the runtime frees space at once; some do later")]
    FreedAtOnce,
    /// No container mounts an image as a volume.
    #[display("no container mounts an image as a volume")]
    NoImageVolumes,
    /// The desired pods are unknown, so nothing is deleted because of a deleted pod.
    #[display("the pods of the node are unknown, so nothing is removed because its pod was deleted")]
    PodsUnknown,
    /// Not all pod sources are ready, so no container is deleted because of a deleted pod.
    #[display("not all sources of pods are ready, so containers are removed by limits alone")]
    SourcesNotReady,
    /// The log directories were not listed, so the forecast does not cover them.
    #[display("the directories of logs were not listed")]
    LogsUnknown,
    /// The sandbox image is not known. Up to 1.28 it is protected; later the runtime must pin it.
    #[display("the image of sandboxes is not known, so it is treated like any other")]
    SandboxImageUnknown,
    /// All removals succeed, and nothing is created, pulled or started meanwhile.
    #[display("every removal succeeds, and nothing is pulled or started meanwhile")]
    NothingElseHappens,
    /// The disk fills steadily.
    #[display("the disk fills by {} an hour", Bytes::from(*bytes_per_hour))]
    SteadyGrowth { bytes_per_hour: u64 },
    /// The release is newer than those that kubegc knows: a kubelet may behave otherwise.
    #[display("{}", version.warning().unwrap_or_default())]
    NewerVersion { version: KubernetesVersion },
}

impl Assumption {
    /// The assumption's name.
    pub const fn as_str(&self) -> &'static str {
        variant_name!(
            self,
            RecordsUnknown SizesOverlap FreedAtOnce NoImageVolumes PodsUnknown SourcesNotReady LogsUnknown
            SandboxImageUnknown NothingElseHappens SteadyGrowth NewerVersion
        )
    }
}
