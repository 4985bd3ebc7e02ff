//! The handle of a simulated node: shared by many users, with a consistent state.

use std::sync::Arc;

use kubegc_core::{
    Clock, RuntimeError,
    node_facts::{Container, FileSystem, Image, LogLink, Pods, Sandbox},
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    call::{CallRecord, Request},
    judge::Violation,
    settings::NodeSettings,
    world::World,
};
use crate::SimClock;

/// A node in memory. Clones are the same node.
///
/// # Guarantees
/// Calls behave as in containerd. Removing a missing thing again is not an error. A running container, an
/// image in use and a pinned image are removed on request. Removing a sandbox removes its containers, and
/// removing an image removes all its names. A container retains the layers of its image, so removing the
/// image frees only the other layers. Listings have no order. Bytes in use never exceed the capacity. The
/// same settings and the same calls at the same times give the same ids, listings and bytes.
///
/// # Assumptions
/// Containers end immediately when stopped, regardless of their grace period. A runtime also accepts
/// abbreviated ids; this one does not.
///
/// # Complexity
/// A call for one thing needs a few tree lookups. A listing of n things is O(n), of images O(n log n).
/// Removing an image checks all containers for harm.
///
/// # Examples
/// ```
/// use kubegc_core::Timestamp;
/// use kubegc_sim::{ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode};
/// let clock = SimClock::new(Timestamp::from_secs(1_000));
/// let node = SimNode::new(clock.clone(), NodeSettings { capacity_bytes: 1_000, ..NodeSettings::default() });
/// node.pull(&ImageSpec::new("shop/web:1").layer("base", 300).layer("web", 200))?;
/// node.pull(&ImageSpec::new("shop/job:1").layer("base", 300).layer("job", 100))?;
/// let free = || node.file_system().available_bytes;
/// assert_eq!(free(), Some(400), "the base is there once");
///
/// let pod = node.run_pod(&PodSpec::new("shop", "web").container(ContainerSpec::new("app", "shop/web:1")))?;
/// let second = node.restart_container(&pod.container_ids[0])?;
/// assert_eq!(node.container(&second).map(|container| container.attempt), Some(1));
///
/// assert!(node.pull(&ImageSpec::new("shop/big:1").layer("big", 401)).is_err(), "no space left");
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
    /// An empty node with the time of a clock. Its source of pods initially reports that there are no pods
    /// and that the list is complete.
    #[must_use]
    pub fn new(clock: SimClock, settings: NodeSettings) -> Self {
        let world = World::new(&settings, clock.now());
        Self::share(world, clock)
    }

    fn share(world: World, clock: SimClock) -> Self {
        Self(Arc::new(Shared {
            world: Mutex::new(world),
            clock,
        }))
    }

    /// A copy of this node with another clock. The two nodes are independent from now on.
    #[must_use]
    pub fn fork(&self, clock: SimClock) -> Self {
        let mut world = self.lock().clone();
        world.now = clock.now();
        Self::share(world, clock)
    }

    /// The node's clock.
    #[must_use]
    pub fn clock(&self) -> &SimClock {
        &self.0.clock
    }

    /// The current state.
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        let now = self.0.clock.now();
        let mut world = self.0.world.lock();
        world.now = world.now.max(now);
        world
    }

    pub(super) fn call<T>(
        &self,
        request: Request<'_>,
        work: impl FnOnce(&mut World) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        self.lock().perform(request, work)
    }

    // Reads that are not recorded.

    /// All containers, in the order of their creation.
    #[must_use]
    pub fn all_containers(&self) -> Vec<Arc<Container>> {
        let world = self.lock();
        let rows = world.containers.iter();
        rows.map(|(_, row)| Arc::clone(&row.facts)).collect()
    }

    /// All sandboxes, in the order of their creation.
    #[must_use]
    pub fn all_sandboxes(&self) -> Vec<Arc<Sandbox>> {
        let world = self.lock();
        let rows = world.sandboxes.iter();
        rows.map(|(_, row)| Arc::clone(&row.facts)).collect()
    }

    /// All images, in the order in which they were added.
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

    /// The pods that the node's source of pods reports.
    #[must_use]
    pub fn known_pods(&self) -> Pods {
        self.lock().pods.clone()
    }

    /// One container, by its id.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<Arc<Container>> {
        let world = self.lock();
        let key = world.containers.find(id)?;
        world.containers.get(key).map(|row| Arc::clone(&row.facts))
    }

    /// One sandbox, by its id.
    #[must_use]
    pub fn sandbox(&self, id: &str) -> Option<Arc<Sandbox>> {
        let world = self.lock();
        let key = world.sandboxes.find(id)?;
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
        let key = world.containers.find(container_id)?;
        world.containers.get(key).map(|row| Arc::clone(&row.log_path))
    }

    /// The usage of the disk. `used_bytes` counts the layers of images, as the runtime reports it.
    #[must_use]
    pub fn file_system(&self) -> FileSystem {
        self.lock().disk.file_system()
    }

    // Recorded calls.

    /// All calls through the traits so far, in their order, with their results.
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

    /// Takes the calls since the last call of this method. The node no longer retains them.
    #[must_use]
    pub fn take_calls(&self) -> Vec<CallRecord> {
        std::mem::take(&mut self.lock().calls)
    }

    /// The harm of the calls through the traits so far, in their order. Failed calls do no harm.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }
}
