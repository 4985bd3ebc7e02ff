//! Running, ending and removing pods, sandboxes and containers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, PodIdentity, PodState, Sandbox, SandboxState, label,
    },
};

use super::{
    disk::Purpose,
    error::NodeError,
    image_store::{self, ImageKey},
    log::{Link, LinkTo, POD_LOG_DIRECTORY, container_log_link, pod_log_entry},
    spec::{ContainerSpec, ImageSpec, PodSpec, RunningPod},
    world::{ContainerRow, SandboxRow, World},
};

pub(super) const CONTAINER: &str = "container";
pub(super) const SANDBOX: &str = "sandbox";
pub(super) const IMAGE: &str = "image";
pub(super) const POD: &str = "pod";

pub(super) fn not_found(noun: &'static str, id: &str) -> NodeError {
    NodeError::NotFound { noun, id: id.into() }
}

impl World {
    // Images.

    pub(super) fn pull(&mut self, spec: &ImageSpec) -> Result<Arc<str>, NodeError> {
        let layers = image_store::distinct(&spec.layers);
        let id = image_store::image_id(self.seed, &layers);
        let key = ImageKey {
            id: Arc::clone(&id),
            handler: Arc::clone(&spec.runtime_handler),
        };
        let digest = image_store::repository_digest(self.seed, spec, &id);
        let tag = (!spec.tag.is_empty()).then_some(&spec.tag);
        if self.images.get(&key).is_some() {
            self.images.add_names(&key, tag, digest, spec.pinned);
            return Ok(id);
        }
        let digests = self.add_layers(&layers)?;
        let sizes = layers.iter().map(|layer| layer.size_bytes);
        let facts = kubegc_core::node_facts::Image {
            id: Arc::clone(&id),
            runtime_handler: Arc::clone(&spec.runtime_handler),
            size_bytes: sizes.fold(0, u64::saturating_add),
            pinned: spec.pinned,
            tags: tag.into_iter().cloned().collect(),
            digests: digest.into_iter().collect(),
        };
        self.images.insert(key, facts, digests);
        Ok(id)
    }

    pub(super) fn remove_image(&mut self, key: &ImageKey) {
        if let Some(row) = self.images.remove(key) {
            self.release(&row.layers);
        }
    }

    fn image_of(&self, reference: &str, handler: &str) -> Result<ImageKey, NodeError> {
        let found = self.images.find(reference, handler);
        found.ok_or_else(|| not_found(IMAGE, reference))
    }

    // Pods.

    pub(super) fn run_pod(&mut self, spec: &PodSpec) -> Result<RunningPod, NodeError> {
        for container in &spec.containers {
            self.images_of(container)?;
        }
        let uid = spec.uid.clone().unwrap_or_else(|| self.draw_uid());
        let pod = PodIdentity {
            uid,
            namespace: Arc::clone(&spec.namespace),
            name: Arc::clone(&spec.name),
        };
        self.pods.known.insert(pod.uid.clone(), PodState::ACTIVE);
        let (sandbox_id, sandbox) = self.run_sandbox(&pod)?;
        let mut container_ids = Vec::new();
        for container in &spec.containers {
            let (id, key) = self.create_container(sandbox, container, None)?;
            self.start_container(key)?;
            container_ids.push(id);
        }
        Ok(RunningPod {
            pod,
            sandbox_id,
            container_ids,
        })
    }

    /// Ends all containers of a pod.
    pub(super) fn end_pod(&mut self, uid: &Uid) {
        let sandboxes = self.sandboxes_of.get(uid).cloned().unwrap_or_default();
        for sandbox in sandboxes {
            self.stop_sandbox(sandbox);
        }
    }

    // Sandboxes.

    pub(super) fn run_sandbox(&mut self, pod: &PodIdentity) -> Result<(Arc<str>, u64), NodeError> {
        let before = self.sandboxes_of.get(&pod.uid).into_iter().flatten();
        let attempts = before.filter_map(|key| self.sandboxes.get(*key));
        let attempt = attempts.map(|row| row.facts.attempt.saturating_add(1)).max();
        self.logs.add_entry(&pod_log_entry(pod));
        let id = self.draw_id();
        let facts = Sandbox {
            id: Arc::clone(&id),
            pod: pod.clone(),
            attempt: attempt.unwrap_or(0),
            state: SandboxState::Ready,
            created_at: self.now,
            labels: pod_labels(pod),
        };
        self.add_sandbox(facts).map(|key| (id, key))
    }

    pub(super) fn add_sandbox(&mut self, facts: Sandbox) -> Result<u64, NodeError> {
        let (id, uid) = (Arc::clone(&facts.id), facts.pod.uid.clone());
        let row = SandboxRow {
            facts: Arc::new(facts),
            containers: BTreeSet::new(),
        };
        let key = self.sandboxes.insert(Arc::clone(&id), row);
        let key = key.map_err(|_| NodeError::Exists { noun: SANDBOX, id })?;
        self.sandboxes_of.entry(uid).or_default().insert(key);
        Ok(key)
    }

    /// Stops a sandbox and all its containers.
    pub(super) fn stop_sandbox(&mut self, key: u64) {
        let Some(row) = self.sandboxes.get_mut(key) else {
            return;
        };
        Arc::make_mut(&mut row.facts).state = SandboxState::NotReady;
        for container in row.containers.clone() {
            self.stop_container(container);
        }
    }

    /// Removes a sandbox and all containers in it.
    pub(super) fn remove_sandbox(&mut self, key: u64) {
        let Some(row) = self.sandboxes.get(key).cloned() else {
            return;
        };
        for container in row.containers {
            self.remove_container(container);
        }
        self.sandboxes.remove(&row.facts.id);
        self.forget_sandbox_of(&row.facts.pod.uid, key);
    }

    pub(super) fn forget_sandbox_of(&mut self, uid: &Uid, key: u64) {
        if let Some(keys) = self.sandboxes_of.get_mut(uid) {
            keys.remove(&key);
            if keys.is_empty() {
                self.sandboxes_of.remove(uid);
            }
        }
    }

    // Containers.

    /// The images that a container runs and mounts.
    fn images_of(&self, spec: &ContainerSpec) -> Result<(Option<ImageKey>, Vec<Arc<str>>), NodeError> {
        let image = (!spec.image.is_empty()).then(|| self.image_of(&spec.image, &spec.runtime_handler));
        let volumes = spec.image_volumes.iter().map(|reference| {
            let key = self.images.find_any(reference);
            key.map(|key| key.id).ok_or_else(|| not_found(IMAGE, reference))
        });
        Ok((image.transpose()?, volumes.collect::<Result<_, _>>()?))
    }

    /// Creates a container in a ready sandbox. `attempt`: `None` continues the count of the containers of
    /// that name in the sandbox.
    pub(super) fn create_container(
        &mut self,
        sandbox: u64,
        spec: &ContainerSpec,
        attempt: Option<u32>,
    ) -> Result<(Arc<str>, u64), NodeError> {
        let Some(row) = self.sandboxes.get(sandbox) else {
            return Err(not_found(SANDBOX, ""));
        };
        let sandbox_facts = Arc::clone(&row.facts);
        if sandbox_facts.state != SandboxState::Ready {
            return Err(NodeError::State {
                noun: SANDBOX,
                id: Arc::clone(&sandbox_facts.id),
                state: "not ready",
            });
        }
        let same_name = row.containers.iter().filter_map(|key| self.containers.get(*key));
        let next = same_name
            .filter(|other| other.facts.name.as_ref() == Some(&spec.name))
            .map(|other| other.facts.attempt.saturating_add(1))
            .max();
        let attempt = attempt.or(next).unwrap_or(0);
        let (image, image_volumes) = self.images_of(spec)?;

        let pod = sandbox_facts.pod.clone();
        let entry = pod_log_entry(&pod);
        let log_path = format!("{POD_LOG_DIRECTORY}/{entry}/{}/{attempt}.log", spec.name);
        let id = self.draw_id();
        let mut facts = Container::new(&id, pod, &spec.name, ContainerState::Created, self.now);
        facts.sandbox_id = Arc::clone(&sandbox_facts.id);
        facts.attempt = attempt;
        facts.annotations = spec.annotations.clone();
        if let Some(key) = &image {
            facts.image = ContainerImage {
                reference: Arc::clone(&key.id),
                id: Arc::clone(&key.id),
                runtime_handler: Arc::clone(&key.handler),
            };
        }
        let row = ContainerRow {
            facts: Arc::new(facts),
            spec: spec.clone(),
            image,
            image_volumes,
            layers: Vec::new(),
            log_path: log_path.into(),
        };
        self.add_container(row).map(|key| (id, key))
    }

    /// Adds a container, and retains the layers of its image.
    pub(super) fn add_container(&mut self, mut row: ContainerRow) -> Result<u64, NodeError> {
        let image = row.image.as_ref().and_then(|key| self.images.get(key));
        row.layers = image.map(|image| image.layers.clone()).unwrap_or_default();
        let (id, sandbox_id) = (Arc::clone(&row.facts.id), Arc::clone(&row.facts.sandbox_id));
        let (layers, log_path) = (row.layers.clone(), Arc::clone(&row.log_path));
        let key = self.containers.insert(Arc::clone(&id), row);
        let key = key.map_err(|_| NodeError::Exists { noun: CONTAINER, id })?;
        self.hold(&layers);
        if !log_path.is_empty() {
            self.writers.insert(log_path, key);
        }
        if let Some(sandbox) = self.sandboxes.find(&sandbox_id)
            && let Some(sandbox) = self.sandboxes.get_mut(sandbox)
        {
            sandbox.containers.insert(key);
        }
        Ok(key)
    }

    /// Starts a created container, and creates its log and the link to it.
    pub(super) fn start_container(&mut self, key: u64) -> Result<(), NodeError> {
        let Some(row) = self.containers.get(key) else {
            return Err(not_found(CONTAINER, ""));
        };
        let state = match row.facts.state {
            ContainerState::Created => None,
            ContainerState::Running => Some("running"),
            ContainerState::Exited => Some("exited"),
            ContainerState::Unknown => Some("unknown"),
        };
        let id = Arc::clone(&row.facts.id);
        if let Some(state) = state {
            let noun = CONTAINER;
            return Err(NodeError::State { noun, id, state });
        }
        let (path, bytes) = (Arc::clone(&row.log_path), row.spec.log_bytes);
        let name = row.facts.name.clone().unwrap_or_default();
        let link = container_log_link(&row.facts.pod, &name, &id);
        if !path.is_empty() {
            if self.logs.has_directory_of(&path) {
                let taken = self.disk.take_some(Purpose::Logs, bytes);
                self.logs.add_file(Arc::clone(&path), taken);
            }
            let to = LinkTo::Path(path);
            let container_id = Some(id);
            self.logs.add_link(&link, Link { to, container_id });
        }
        self.set_container_state(key, ContainerState::Running);
        Ok(())
    }

    /// Ends a container that is running or may be running; other containers do not change.
    pub(super) fn stop_container(&mut self, key: u64) {
        let state = self.containers.get(key).map(|row| row.facts.state);
        if let Some(ContainerState::Running | ContainerState::Unknown) = state {
            self.set_container_state(key, ContainerState::Exited);
        }
    }

    /// Removes a container in any state. Its log remains: the runtime does not own logs.
    pub(super) fn remove_container(&mut self, key: u64) {
        let Some(id) = self.containers.get(key).map(|row| Arc::clone(&row.facts.id)) else {
            return;
        };
        let Some(row) = self.containers.remove(&id) else {
            return;
        };
        if self.writers.get(&row.log_path) == Some(&key) {
            self.writers.remove(&row.log_path);
        }
        if let Some(sandbox) = self.sandboxes.find(&row.facts.sandbox_id)
            && let Some(sandbox) = self.sandboxes.get_mut(sandbox)
        {
            sandbox.containers.remove(&key);
        }
        self.release(&row.layers);
    }

    /// Ends a container and starts the next attempt of it in the same sandbox.
    pub(super) fn restart_container(&mut self, key: u64) -> Result<Arc<str>, NodeError> {
        let Some(row) = self.containers.get(key) else {
            return Err(not_found(CONTAINER, ""));
        };
        let (spec, attempt) = (row.spec.clone(), row.facts.attempt.saturating_add(1));
        let sandbox_id = Arc::clone(&row.facts.sandbox_id);
        let sandbox = self.sandboxes.find(&sandbox_id);
        let sandbox = sandbox.ok_or_else(|| not_found(SANDBOX, &sandbox_id))?;
        let (id, next) = self.create_container(sandbox, &spec, Some(attempt))?;
        self.stop_container(key);
        self.start_container(next)?;
        Ok(id)
    }
}

fn pod_labels(pod: &PodIdentity) -> BTreeMap<Arc<str>, Arc<str>> {
    let uid = pod.uid.text();
    let labels = [
        (label::POD_UID, uid.as_str()),
        (label::POD_NAMESPACE, &pod.namespace),
        (label::POD_NAME, &pod.name),
    ];
    let present = labels.into_iter().filter(|(_, value)| !value.is_empty());
    present
        .map(|(key, value)| (Arc::from(key), Arc::from(value)))
        .collect()
}
