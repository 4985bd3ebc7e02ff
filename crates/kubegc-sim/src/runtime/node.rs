//! Decides how a simulated node is held and looked at: by many at once, as one world.

use std::sync::Arc;

use kubegc_core::{
    Clock, RuntimeError,
    node_facts::{Container, FileSystem, Image, LogLink, Pods, Sandbox},
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    call::{CallRecord, Request},
    disk::{Purpose, Usage},
    judge::Violation,
    settings::{FileSystemRole, NodeSettings},
    world::World,
};
use crate::SimClock;

/// A node in memory. Clones are the same node.
///
/// # Guarantees
/// As containerd does it: what is gone is removed again without an error; a running container, an image in use and a pinned image are
/// removed when asked; a sandbox takes its containers with it; an image goes with all its names; a container holds the layers it was made
/// from, so removing its image frees only the rest. Ids may be cut to a beginning that is theirs alone, and an empty id is an error.
/// Listings come in no order ([`ListingOrder`](super::ListingOrder)). Bytes in use never exceed a capacity.
/// The same settings, told the same things at the same times, give the same ids, listings and bytes.
///
/// # Assumptions
/// Containers end at once when stopped, whatever their grace. Who gets the last bytes of a disk that fills up by several writers
/// depends on when the node is looked at; how many there are does not.
///
/// # Complexity
/// A call on one thing takes a few tree lookups, and one step for each thing that happened since the last call; a listing of n things O(n),
/// of images O(n log n). Removing an image looks at all containers, to judge it.
///
/// # Examples
/// ```
/// use kubegc_core::Timestamp;
/// use kubegc_sim::{ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode, runtime::FileSystemRole};
/// let clock = SimClock::new(Timestamp::from_secs(1_000));
/// let node = SimNode::new(clock.clone(), NodeSettings { capacity_bytes: 1_000, ..NodeSettings::default() });
/// node.pull(&ImageSpec::new("shop/web:1").layer("base", 300).layer("web", 200))?;
/// let job = node.pull(&ImageSpec::new("shop/job:1").layer("base", 300).layer("job", 100))?;
/// let free = || node.file_system(FileSystemRole::Images).available_bytes;
/// assert_eq!(free(), Some(400), "the base is there once");
///
/// let pod = node.run_pod(&PodSpec::new("shop", "web").container(ContainerSpec::new("app", "shop/web:1")))?;
/// let second = node.restart_container(&pod.container_ids[0])?;
/// assert_eq!(node.container(&second).map(|container| container.attempt), Some(1));
///
/// node.drop_image(&job)?;
/// assert_eq!(free(), Some(500), "the image of 400 bytes frees 100");
/// assert!(node.pull(&ImageSpec::new("shop/big:1").layer("big", 501)).is_err(), "no space left");
/// assert!(node.violations().is_empty());
/// # Ok::<(), kubegc_sim::runtime::NodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimNode(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    clock: SimClock,
}

impl SimNode {
    /// An empty node, whose time is that of a clock. Whoever asks for its pods learns at first that there are none, and that this is all.
    #[must_use]
    pub fn new(clock: SimClock, settings: NodeSettings) -> Self {
        let world = World::new(settings, clock.now());
        Self::share(world, clock)
    }

    fn share(world: World, clock: SimClock) -> Self {
        Self(Arc::new(Shared {
            world: Mutex::new(world),
            clock,
        }))
    }

    /// Another node that is now as this one is, and from now on goes its own way by another clock.
    #[must_use]
    pub fn fork(&self, clock: SimClock) -> Self {
        let mut world = self.lock().clone();
        world.settle(clock.now());
        Self::share(world, clock)
    }

    /// The node's clock.
    #[must_use]
    pub fn clock(&self) -> &SimClock {
        &self.0.clock
    }

    /// The world as it is at the present.
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        let now = self.0.clock.now();
        let mut world = self.0.world.lock();
        world.settle(now);
        world
    }

    pub(super) fn call<T>(
        &self,
        request: Request<'_>,
        work: impl FnOnce(&mut World) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        self.lock().answer(request, work)
    }

    // What it is like: looks that are not written down.

    /// How it was set up.
    #[must_use]
    pub fn settings(&self) -> NodeSettings {
        self.lock().settings.clone()
    }

    /// All containers, in the order of their arrival.
    #[must_use]
    pub fn all_containers(&self) -> Vec<Arc<Container>> {
        let world = self.lock();
        let rows = world.containers.iter();
        rows.map(|(_, row)| Arc::clone(&row.facts)).collect()
    }

    /// All sandboxes, in the order of their arrival.
    #[must_use]
    pub fn all_sandboxes(&self) -> Vec<Arc<Sandbox>> {
        let world = self.lock();
        let rows = world.sandboxes.iter();
        rows.map(|(_, row)| Arc::clone(&row.facts)).collect()
    }

    /// All images, in the order of their arrival.
    #[must_use]
    pub fn all_images(&self) -> Vec<Arc<Image>> {
        self.lock().images.list()
    }

    /// All entries of the pod log directory, by name.
    #[must_use]
    pub fn all_log_entries(&self) -> Vec<Arc<str>> {
        self.lock().logs.entries()
    }

    /// All links to logs of containers, by path.
    #[must_use]
    pub fn all_log_links(&self) -> Vec<LogLink> {
        self.lock().logs.links()
    }

    /// The pods that the node knows.
    #[must_use]
    pub fn known_pods(&self) -> Pods {
        self.lock().pods.clone()
    }

    /// One container, by its id or a beginning that is its alone.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<Arc<Container>> {
        let world = self.lock();
        let key = world.containers.find(id).ok().flatten()?;
        world.containers.get(key).map(|row| Arc::clone(&row.facts))
    }

    /// One sandbox, by its id or a beginning that is its alone.
    #[must_use]
    pub fn sandbox(&self, id: &str) -> Option<Arc<Sandbox>> {
        let world = self.lock();
        let key = world.sandboxes.find(id).ok().flatten()?;
        world.sandboxes.get(key).map(|row| Arc::clone(&row.facts))
    }

    /// One image, by its id, tag or digest.
    #[must_use]
    pub fn image(&self, reference: &str) -> Option<Arc<Image>> {
        let world = self.lock();
        let key = world.images.find_any(reference)?;
        world.images.get(&key).map(|row| Arc::clone(&row.facts))
    }

    /// The path of a container's log.
    #[must_use]
    pub fn log_path(&self, container_id: &str) -> Option<Arc<str>> {
        let world = self.lock();
        let key = world.containers.find(container_id).ok().flatten()?;
        world.containers.get(key).map(|row| Arc::clone(&row.log_path))
    }

    /// How full a file system is. For [`FileSystemRole::Node`] `used_bytes` counts everything on it; for the others what the runtime has there.
    #[must_use]
    pub fn file_system(&self, role: FileSystemRole) -> FileSystem {
        self.lock().disks.file_system(role)
    }

    /// What the bytes in use are used for, on all file systems together.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let world = self.lock();
        let used = |purpose| world.disks.used(purpose);
        Usage {
            layers_bytes: used(Purpose::Layers),
            writable_bytes: used(Purpose::Writable),
            logs_bytes: used(Purpose::Logs),
            other_bytes: used(Purpose::Other).saturating_add(used(Purpose::OtherOnImages)),
            pending_bytes: world.pending_bytes(),
        }
    }

    // What was asked of it.

    /// All calls through the traits so far, in their order, with what came of them.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.lock().calls.clone()
    }

    /// The calls so far that stop or remove something, in their order.
    #[must_use]
    pub fn changes(&self) -> Vec<CallRecord> {
        let world = self.lock();
        let changes = world.calls.iter().filter(|call| call.operation.changes());
        changes.cloned().collect()
    }

    /// The calls since they were last taken. They are not kept any longer.
    #[must_use]
    pub fn take_calls(&self) -> Vec<CallRecord> {
        std::mem::take(&mut self.lock().calls)
    }

    /// The harm that calls through the traits did so far, in their order. Calls that failed did none.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }
}
