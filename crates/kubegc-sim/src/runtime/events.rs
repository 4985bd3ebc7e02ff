//! Events on a simulated node that tests trigger, in contrast to calls of a collector.

use std::sync::Arc;

use kubegc_core::{
    Uid,
    node_facts::{Container, ContainerState, LogTarget, PodIdentity, PodState, Sandbox},
};

use super::{
    SimNode,
    disk::Purpose,
    error::NodeError,
    lifecycle::{CONTAINER, POD, SANDBOX, not_found},
    log::{Link, LinkTo, POD_LOG_DIRECTORY},
    spec::{ContainerSpec, ImageSpec, PodSpec, RunningPod},
    world::World,
};

impl World {
    fn container_key(&self, id: &str) -> Result<u64, NodeError> {
        let found = self.containers.find(id);
        found.ok_or_else(|| not_found(CONTAINER, id))
    }

    fn sandbox_key(&self, id: &str) -> Result<u64, NodeError> {
        let found = self.sandboxes.find(id);
        found.ok_or_else(|| not_found(SANDBOX, id))
    }

    fn change_pod(&mut self, uid: &Uid, change: impl FnOnce(&mut PodState)) -> Result<(), NodeError> {
        let state = self.pods.known.get_mut(uid);
        change(state.ok_or_else(|| not_found(POD, &uid.text()))?);
        self.end_pod(uid);
        Ok(())
    }
}

/// Images.
impl SimNode {
    /// Pulls an image; returns its id. The same content under another tag is the same image with one more
    /// tag. A tag is moved from its previous image.
    ///
    /// # Errors
    /// The missing layers do not fit.
    pub fn pull(&self, spec: &ImageSpec) -> Result<Arc<str>, NodeError> {
        self.lock().pull(spec)
    }
}

/// Pods.
impl SimNode {
    /// Runs a pod: adds it as a living pod, runs a sandbox, and creates and starts its containers.
    ///
    /// # Errors
    /// An image is missing: nothing changed. The disk is full: containers that were already started remain,
    /// as on a real node.
    pub fn run_pod(&self, spec: &PodSpec) -> Result<RunningPod, NodeError> {
        self.lock().run_pod(spec)
    }

    /// Sets the state of a pod, which may be new. Its containers do not change.
    pub fn set_pod(&self, uid: &Uid, state: PodState) {
        self.lock().pods.known.insert(uid.clone(), state);
    }

    /// Completes a pod: all its containers end, and it remains known.
    ///
    /// # Errors
    /// The pod is not known.
    pub fn complete_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| state.terminated = true)
    }

    /// Evicts a pod: all its containers end, and it remains known.
    ///
    /// # Errors
    /// The pod is not known.
    pub fn evict_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| {
            state.evicted = true;
            state.terminated = true;
        })
    }

    /// Deletes a pod: all its containers end, and it remains known until it is [forgotten](Self::forget_pod).
    ///
    /// # Errors
    /// The pod is not known.
    pub fn delete_pod(&self, uid: &Uid) -> Result<(), NodeError> {
        self.lock().change_pod(uid, |state| {
            *state = PodState {
                deleted: true,
                terminated: true,
                ..*state
            }
        })
    }

    /// Removes a pod from the source of pods. Its remaining containers end.
    pub fn forget_pod(&self, uid: &Uid) {
        let mut world = self.lock();
        world.end_pod(uid);
        world.pods.known.remove(uid);
    }
}

/// Sandboxes and containers.
impl SimNode {
    /// Runs a sandbox for a pod; returns its id. The source of pods need not know the pod, and does not
    /// change.
    ///
    /// # Errors
    /// An inserted sandbox already has the generated id.
    pub fn run_sandbox(&self, pod: &PodIdentity) -> Result<Arc<str>, NodeError> {
        self.lock().run_sandbox(pod).map(|(id, _)| id)
    }

    /// Ends a sandbox, with all its containers.
    ///
    /// # Errors
    /// There is no such sandbox.
    pub fn end_sandbox(&self, id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.sandbox_key(id)?;
        world.stop_sandbox(key);
        Ok(())
    }

    /// Creates a container in a ready sandbox; returns its id.
    ///
    /// # Errors
    /// There is no such sandbox or image, or the sandbox is not ready.
    pub fn create_container(&self, sandbox_id: &str, spec: &ContainerSpec) -> Result<Arc<str>, NodeError> {
        let mut world = self.lock();
        let sandbox = world.sandbox_key(sandbox_id)?;
        world.create_container(sandbox, spec, None).map(|(id, _)| id)
    }

    /// Starts a created container, and creates its log and the link to it. Of the log's initial bytes, as
    /// many are written as fit.
    ///
    /// # Errors
    /// There is no such container, or it was started before.
    pub fn start_container(&self, id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.container_key(id)?;
        world.start_container(key)
    }

    /// Ends a container.
    ///
    /// # Errors
    /// There is no such container, or it is not running.
    pub fn exit_container(&self, id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.container_key(id)?;
        let state = match world.containers.get(key).map(|row| row.facts.state) {
            Some(ContainerState::Created) => "created",
            Some(ContainerState::Exited) => "exited",
            Some(ContainerState::Running | ContainerState::Unknown) | None => {
                world.stop_container(key);
                return Ok(());
            }
        };
        let (noun, id) = (CONTAINER, id.into());
        Err(NodeError::State { noun, id, state })
    }

    /// Ends a container, if it is running, and creates and starts its next attempt in the same sandbox;
    /// returns the new id.
    ///
    /// # Errors
    /// There is no such container; its sandbox is missing or not ready; its image is missing.
    pub fn restart_container(&self, id: &str) -> Result<Arc<str>, NodeError> {
        let mut world = self.lock();
        let key = world.container_key(id)?;
        world.restart_container(key)
    }

    /// Sets the state of a container from any state, such as to unknown.
    ///
    /// # Errors
    /// There is no such container.
    pub fn set_container_state(&self, id: &str, state: ContainerState) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.container_key(id)?;
        world.set_container_state(key, state);
        Ok(())
    }

    /// Changes the reported fields of a container, such as names, labels and times. Its id, sandbox and bytes
    /// do not change.
    ///
    /// # Errors
    /// There is no such container.
    pub fn edit_container(&self, id: &str, edit: impl FnOnce(&mut Container)) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.container_key(id)?;
        if let Some(row) = world.containers.get_mut(key) {
            let facts = Arc::make_mut(&mut row.facts);
            let (id, sandbox_id) = (Arc::clone(&facts.id), Arc::clone(&facts.sandbox_id));
            edit(facts);
            (facts.id, facts.sandbox_id) = (id, sandbox_id);
        }
        Ok(())
    }

    /// Changes the reported fields of a sandbox. Its id does not change.
    ///
    /// # Errors
    /// There is no such sandbox.
    pub fn edit_sandbox(&self, id: &str, edit: impl FnOnce(&mut Sandbox)) -> Result<(), NodeError> {
        let mut world = self.lock();
        let key = world.sandbox_key(id)?;
        let Some(row) = world.sandboxes.get_mut(key) else {
            return Ok(());
        };
        let facts = Arc::make_mut(&mut row.facts);
        let (id, before) = (Arc::clone(&facts.id), facts.pod.uid.clone());
        edit(facts);
        facts.id = id;
        let after = facts.pod.uid.clone();
        world.forget_sandbox_of(&before, key);
        world.sandboxes_of.entry(after).or_default().insert(key);
        Ok(())
    }
}

/// The disk and logs.
impl SimNode {
    /// Writes bytes of other processes; returns how many of them fitted.
    pub fn fill(&self, bytes: u64) -> u64 {
        self.lock().disk.take_some(Purpose::Other, bytes)
    }

    /// Writes to the log of a container; returns how many of these bytes fitted: none if its log is missing.
    ///
    /// # Errors
    /// There is no such container.
    pub fn write_log(&self, container_id: &str, bytes: u64) -> Result<u64, NodeError> {
        let mut world = self.lock();
        let path = world.log_path_of(container_id)?;
        if !world.logs.has_file(&path) {
            return Ok(0);
        }
        let taken = world.disk.take_some(Purpose::Logs, bytes);
        world.logs.add_file(path, taken);
        Ok(taken)
    }

    /// Removes a container's log: the link to it dangles.
    ///
    /// # Errors
    /// There is no such container, or its log is missing.
    pub fn lose_log(&self, container_id: &str) -> Result<(), NodeError> {
        let mut world = self.lock();
        let path = world.log_path_of(container_id)?;
        let freed = world.logs.remove_file(&path);
        let bytes = freed.ok_or_else(|| not_found("log", &path))?;
        world.disk.give(Purpose::Logs, bytes);
        Ok(())
    }

    /// Adds an entry with any name to the pod log directory, with this many bytes in one file below it.
    ///
    /// # Errors
    /// The bytes do not fit.
    pub fn insert_log_entry(&self, name: &str, bytes: u64) -> Result<(), NodeError> {
        let mut world = self.lock();
        world.disk.take(Purpose::Logs, bytes)?;
        world.logs.add_entry(name);
        if bytes > 0 {
            let path = format!("{POD_LOG_DIRECTORY}/{name}/inserted.log");
            world.logs.add_file(path.into(), bytes);
        }
        Ok(())
    }

    /// Adds a link at any path, with the result of following it. Links outside `/var/log/containers/*.log`
    /// are never listed.
    pub fn insert_log_link(&self, path: &str, target: LogTarget) {
        let link = Link {
            to: LinkTo::Fixed(target),
            container_id: None,
        };
        self.lock().logs.add_link(path, link);
    }
}

impl World {
    fn log_path_of(&self, container_id: &str) -> Result<Arc<str>, NodeError> {
        let key = self.container_key(container_id)?;
        let row = self.containers.get(key);
        row.map(|row| Arc::clone(&row.log_path))
            .ok_or_else(|| not_found(CONTAINER, container_id))
    }
}
