//! The handle of a simulated node: reads, recorded calls, and the events that tests trigger.

use std::sync::Arc;

use kubegc_core::{
    Clock, RuntimeError, Uid,
    node_facts::{
        Container, ContainerState, FileSystem, Image, LogLink, LogTarget, PodIdentity, PodState, Pods,
        Sandbox,
    },
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    call::{CallRecord, Violation},
    judge,
    log::{Link, POD_LOG_DIRECTORY},
    spec::{ContainerSpec, ImageSpec, NodeError, NodeSettings, PodSpec, RunningPod},
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
/// A call is linear in the number of objects, and so is a write of bytes.
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
pub struct SimNode {
    world: Arc<Mutex<World>>,
    clock: SimClock,
}

impl SimNode {
    /// An empty node with the time of a clock. Its source of pods initially reports that there are no pods
    /// and that the list is complete.
    pub fn new(clock: SimClock, settings: NodeSettings) -> Self {
        let world = Arc::new(Mutex::new(World::new(&settings, clock.now())));
        Self { world, clock }
    }

    /// A copy of this node with another clock. The two nodes are independent from now on.
    pub fn fork(&self, clock: SimClock) -> Self {
        let mut world = self.lock().clone();
        world.now = clock.now();
        let world = Arc::new(Mutex::new(world));
        Self { world, clock }
    }

    pub fn clock(&self) -> &SimClock {
        &self.clock
    }

    /// The current state.
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        let now = self.clock.now();
        let mut world = self.world.lock();
        world.now = world.now.max(now);
        world
    }

    /// Performs a call, records it, and checks it for violations.
    pub(super) fn perform<T>(
        &self,
        mut call: CallRecord,
        work: impl FnOnce(&mut World) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let mut world = self.lock();
        call.at = world.now;
        let harms = judge::harms(&world, &call);
        let result = work(&mut world);
        if result.is_ok() {
            world.violations.extend(harms.into_iter().map(|harm| Violation {
                at: call.at,
                operation: call.operation,
                target: Arc::clone(&call.target),
                harm,
            }));
        }
        call.outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        world.calls.push(call);
        result
    }
}

/// Reads that are not recorded. Listings have the order of creation, those of logs the order of names.
impl SimNode {
    pub fn all_containers(&self) -> Vec<Arc<Container>> {
        self.lock().all_containers()
    }

    pub fn all_sandboxes(&self) -> Vec<Arc<Sandbox>> {
        self.lock().sandboxes.clone()
    }

    pub fn all_images(&self) -> Vec<Arc<Image>> {
        self.lock().all_images()
    }

    /// All entries of the pod log directory.
    pub fn all_log_entries(&self) -> Vec<Arc<str>> {
        self.lock().logs.entries.iter().cloned().collect()
    }

    pub fn all_log_links(&self) -> Vec<LogLink> {
        self.lock().logs.listed_links()
    }

    /// The pods that the node's source of pods reports.
    pub fn known_pods(&self) -> Pods {
        self.lock().pods.clone()
    }

    pub fn container(&self, id: &str) -> Option<Arc<Container>> {
        self.lock().container(id).map(|row| Arc::clone(&row.facts))
    }

    pub fn sandbox(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.lock().sandbox(id).ok().cloned()
    }

    /// One image, by its id, tag or digest.
    pub fn image(&self, reference: &str) -> Option<Arc<Image>> {
        self.lock().any_image(reference).map(|row| Arc::clone(&row.facts))
    }

    pub fn log_path(&self, container_id: &str) -> Option<Arc<str>> {
        let world = self.lock();
        world.container(container_id).map(|row| Arc::clone(&row.log_path))
    }

    /// The usage of the disk. `used_bytes` counts the layers of images, as the runtime reports it.
    pub fn file_system(&self) -> FileSystem {
        self.lock().file_system()
    }
}

/// Recorded calls through the traits, in their order.
impl SimNode {
    pub fn calls(&self) -> Vec<CallRecord> {
        self.lock().calls.clone()
    }

    /// The calls so far that stop or remove something.
    pub fn changes(&self) -> Vec<CallRecord> {
        let mut calls = self.calls();
        calls.retain(|call| call.operation.changes());
        calls
    }

    /// Takes the calls since the last call of this method. The node no longer retains them.
    pub fn take_calls(&self) -> Vec<CallRecord> {
        std::mem::take(&mut self.lock().calls)
    }

    /// The harm of the calls so far. Failed calls do no harm.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }
}

/// Events of images and pods. An error names the object that does not exist.
impl SimNode {
    /// Pulls an image; returns its id. The same content under another tag is the same image with one more
    /// tag. A tag is moved from its previous image.
    ///
    /// # Errors
    /// The missing layers do not fit.
    pub fn pull(&self, spec: &ImageSpec) -> Result<Arc<str>, NodeError> {
        self.lock().pull(spec)
    }

    /// Runs a pod: adds it as a living pod, runs a sandbox, and creates and starts its containers.
    ///
    /// # Errors
    /// An image is missing: nothing changed.
    pub fn run_pod(&self, spec: &PodSpec) -> Result<RunningPod, NodeError> {
        self.lock().run_pod(spec)
    }

    /// Sets the state of a pod, which may be new. Its containers do not change.
    pub fn set_pod(&self, uid: &Uid, state: PodState) {
        self.lock().pods.known.insert(uid.clone(), state);
    }

    /// Completes a pod: all its containers end, and it remains known.
    pub fn complete_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| state.terminated = true)
    }

    /// Evicts a pod: all its containers end, and it remains known.
    pub fn evict_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| {
            state.evicted = true;
            state.terminated = true;
        })
    }

    /// Deletes a pod: all its containers end, and it remains known until it is [forgotten](Self::forget_pod).
    pub fn delete_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| {
            state.deleted = true;
            state.terminated = true;
        })
    }

    /// Removes a pod from the source of pods. Its remaining containers end.
    pub fn forget_pod(&self, uid: &Uid) {
        let mut world = self.lock();
        world.end_pod(uid);
        world.pods.known.remove(uid);
    }
}

/// Events of sandboxes and containers. An error names the object that does not exist.
impl SimNode {
    /// Runs a sandbox for a pod; returns its id. The source of pods need not know the pod, and does not
    /// change.
    pub fn run_sandbox(&self, pod: &PodIdentity) -> Arc<str> {
        self.lock().run_sandbox(pod)
    }

    /// Ends a sandbox, with all its containers.
    pub fn end_sandbox(&self, id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        world.sandbox(id)?;
        world.stop_sandbox(id);
        Ok(())
    }

    /// Creates a container in a ready sandbox; returns its id.
    ///
    /// # Errors
    /// There is no such sandbox or image, or the sandbox is not ready.
    pub fn create_container(&self, sandbox_id: &str, spec: &ContainerSpec) -> Result<Arc<str>, NodeError> {
        self.lock().create_container(sandbox_id, spec, None)
    }

    /// Starts a created container, and creates its log and the link to it. Of the log's initial bytes, as
    /// many are written as fit.
    ///
    /// # Errors
    /// There is no such container, or it was started before.
    pub fn start_container(&self, id: &str) -> Result<(), NodeError> {
        self.lock().start_container(id)
    }

    /// Ends a container.
    ///
    /// # Errors
    /// There is no such container, or it is not running.
    pub fn exit_container(&self, id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        let facts = &world.known_container(id)?.facts;
        if let ContainerState::Created | ContainerState::Exited = facts.state {
            return Err(NodeError::container(facts));
        }
        world.stop_container(id);
        Ok(())
    }

    /// Ends a container, if it is running, and creates and starts its next attempt in the same sandbox;
    /// returns the new id.
    ///
    /// # Errors
    /// There is no such container; its sandbox is missing or not ready; its image is missing.
    pub fn restart_container(&self, id: &str) -> Result<Arc<str>, NodeError> {
        self.lock().restart_container(id)
    }

    /// Sets the state of a container from any state, such as to unknown.
    pub fn set_container_state(&self, id: &str, state: ContainerState) -> Result<(), NodeError> {
        self.edit_container(id, |container| container.state = state)
    }

    /// Changes the reported fields of a container, such as names, labels and times. Its id, sandbox and bytes
    /// do not change.
    pub fn edit_container(&self, id: &str, edit: impl FnOnce(&mut Container)) -> Result<(), NodeError> {
        let mut world = self.lock();
        world.known_container(id)?;
        world.edit_container(id, |container| {
            let (id, sandbox_id) = (Arc::clone(&container.id), Arc::clone(&container.sandbox_id));
            edit(container);
            (container.id, container.sandbox_id) = (id, sandbox_id);
        });
        Ok(())
    }

    /// Changes the reported fields of a sandbox. Its id does not change.
    pub fn edit_sandbox(&self, id: &str, edit: impl FnOnce(&mut Sandbox)) -> Result<(), NodeError> {
        let mut world = self.lock();
        let mut sandboxes = world.sandboxes.iter_mut();
        let sandbox = sandboxes.find(|sandbox| *sandbox.id == *id);
        let sandbox = Arc::make_mut(sandbox.ok_or_else(|| NodeError::not_found("sandbox", id))?);
        let id = Arc::clone(&sandbox.id);
        edit(sandbox);
        sandbox.id = id;
        Ok(())
    }
}

/// Events of the disk and of logs.
impl SimNode {
    /// Writes bytes of other processes; returns how many of them fitted.
    pub fn fill(&self, bytes: u64) -> u64 {
        let mut world = self.lock();
        let taken = world.fitting(bytes);
        world.other_bytes += taken;
        taken
    }

    /// Writes to the log of a container; returns how many of these bytes fitted: none if its log is missing.
    pub fn write_log(&self, container_id: &str, bytes: u64) -> Result<u64, NodeError> {
        let mut world = self.lock();
        let path = Arc::clone(&world.known_container(container_id)?.log_path);
        match world.logs.files.contains_key(&path) {
            true => Ok(world.write(&path, bytes)),
            false => Ok(0),
        }
    }

    /// Adds an entry with any name to the pod log directory, with this many bytes in one file below it.
    ///
    /// # Errors
    /// The bytes do not fit.
    pub fn insert_log_entry(&self, name: &str, bytes: u64) -> Result<(), NodeError> {
        let mut world = self.lock();
        world.check_fits(bytes)?;
        world.logs.entries.insert(name.into());
        if bytes > 0 {
            let path = format!("{POD_LOG_DIRECTORY}/{name}/inserted.log");
            world.write(&path.into(), bytes);
        }
        Ok(())
    }

    /// Adds a link at any path, with the result of following it. Links outside `/var/log/containers/*.log`
    /// are never listed.
    pub fn insert_log_link(&self, path: &str, target: LogTarget) {
        self.lock().logs.links.insert(path.into(), Link::Fixed(target));
    }
}
