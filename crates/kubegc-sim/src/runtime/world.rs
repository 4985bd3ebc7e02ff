//! The state of a node, and its transitions.
//!
//! A node has at most hundreds of objects: they are rows in the order of their creation, found by search, and
//! the bytes in use are counted when they are asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, FileSystem, Image, PodIdentity, PodState, Pods, Sandbox,
        SandboxState, label,
    },
};

use super::{
    call::{CallRecord, Violation},
    log::{Link, LogTree, POD_LOG_DIRECTORY, container_log_link, pod_log_entry},
    spec::{ContainerSpec, ImageSpec, Layer, NodeError, NodeSettings, PodSpec, RunningPod},
};
use crate::rng::{Rng, mix};

/// An image; the same content may exist once for each handler.
#[derive(Clone, Debug)]
pub(super) struct ImageRow {
    pub(super) facts: Arc<Image>,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug)]
pub(super) struct ContainerRow {
    pub(super) facts: Arc<Container>,
    spec: ContainerSpec,
    pub(super) image_volumes: Vec<Arc<str>>,
    /// The layers of its image, which stay on disk while the container exists.
    layers: Vec<Layer>,
    pub(super) log_path: Arc<str>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    seed: u64,
    capacity_bytes: u64,
    /// Bytes of other processes.
    pub(super) other_bytes: u64,
    pub(super) images: Vec<ImageRow>,
    pub(super) containers: Vec<ContainerRow>,
    pub(super) sandboxes: Vec<Arc<Sandbox>>,
    pub(super) logs: LogTree,
    pub(super) pods: Pods,
    ids: Rng,
    shuffles: Rng,
    pub(super) calls: Vec<CallRecord>,
    pub(super) violations: Vec<Violation>,
}

impl World {
    pub(super) fn new(settings: &NodeSettings, now: Timestamp) -> Self {
        let seed = settings.seed;
        Self {
            now,
            seed,
            capacity_bytes: settings.capacity_bytes,
            other_bytes: 0,
            images: Vec::new(),
            containers: Vec::new(),
            sandboxes: Vec::new(),
            logs: LogTree::default(),
            pods: Pods {
                known: BTreeMap::new(),
                sources_ready: true,
                synced: true,
            },
            ids: Rng::new(seed),
            shuffles: Rng::new(mix(seed)),
            calls: Vec::new(),
            violations: Vec::new(),
        }
    }

    // Bytes. Those in use never exceed the capacity.

    /// The layers that an image or container has, with their sizes.
    fn layers_on_disk(&self) -> BTreeMap<&str, u64> {
        let of_images = self.images.iter().flat_map(|row| &row.layers);
        let of_containers = self.containers.iter().flat_map(|row| &row.layers);
        let layers = of_images.chain(of_containers);
        layers.map(|layer| (&*layer.digest, layer.size_bytes)).collect()
    }

    /// The usage as a runtime reports it: `used_bytes` counts the layers of images.
    pub(super) fn file_system(&self) -> FileSystem {
        let used: u64 = self.layers_on_disk().values().sum();
        let logs: u64 = self.logs.files.values().sum();
        FileSystem {
            capacity_bytes: Some(self.capacity_bytes),
            available_bytes: Some(self.capacity_bytes - used - logs - self.other_bytes),
            used_bytes: Some(used),
            inodes: None,
            inodes_free: None,
        }
    }

    /// The number of these bytes that fit.
    pub(super) fn fitting(&self, bytes: u64) -> u64 {
        bytes.min(self.file_system().available_bytes.unwrap_or(0))
    }

    pub(super) fn check_fits(&self, wanted_bytes: u64) -> Result<(), NodeError> {
        let available_bytes = self.fitting(u64::MAX);
        match wanted_bytes <= available_bytes {
            true => Ok(()),
            false => Err(NodeError::NoSpace {
                wanted_bytes,
                available_bytes,
            }),
        }
    }

    /// Writes to a file as many bytes as fit; returns their number.
    pub(super) fn write(&mut self, path: &Arc<str>, bytes: u64) -> u64 {
        let taken = self.fitting(bytes);
        *self.logs.files.entry(Arc::clone(path)).or_default() += taken;
        taken
    }

    // Random values.

    /// 64 lower-case hex digits.
    fn draw_id(&mut self) -> Arc<str> {
        let lanes: [u64; 4] = std::array::from_fn(|_| self.ids.bits());
        hex(lanes).into()
    }

    /// A random UUID.
    fn draw_uid(&mut self) -> Uid {
        let bits = u128::from(self.ids.bits()) << 64 | u128::from(self.ids.bits());
        let mut bytes = bits.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uid::from_uuid(bytes)
    }

    /// A listing in a different order each time, so that a caller cannot depend on it.
    pub(super) fn listing<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            let other = self.shuffles.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
        items
    }

    // Images.

    pub(super) fn all_images(&self) -> Vec<Arc<Image>> {
        self.images.iter().map(|row| Arc::clone(&row.facts)).collect()
    }

    /// The position of the image of this handler with an id, tag or digest.
    pub(super) fn image_place(&self, reference: &str, handler: &str) -> Option<usize> {
        let at = |is_it: fn(&Image, &str) -> bool| {
            let mut images = self.images.iter().map(|row| &row.facts);
            images.position(|image| *image.runtime_handler == *handler && is_it(image, reference))
        };
        at(has_id).or_else(|| at(has_name))
    }

    /// The image with an id, tag or digest: that of the default handler first.
    pub(super) fn any_image(&self, reference: &str) -> Option<&ImageRow> {
        let first = |is_it: fn(&Image, &str) -> bool| {
            let images = self.images.iter().filter(|row| is_it(&row.facts, reference));
            images.min_by_key(|row| &row.facts.runtime_handler)
        };
        first(has_id).or_else(|| first(has_name))
    }

    /// Pulls an image; returns its id.
    pub(super) fn pull(&mut self, spec: &ImageSpec) -> Result<Arc<str>, NodeError> {
        let mut seen = BTreeSet::new();
        let layers = spec.layers.iter().filter(|layer| seen.insert(&layer.digest));
        let mut layers: Vec<Layer> = layers.cloned().collect();
        let digests = layers.iter().map(|layer| &*layer.digest);
        let id: Arc<str> = format!("sha256:{}", content_hex(self.seed, digests)).into();
        let known = self
            .images
            .iter()
            .position(|row| row.facts.id == id && row.facts.runtime_handler == spec.runtime_handler);
        let place = match known {
            Some(place) => place,
            None => {
                let size_bytes = layers
                    .iter()
                    .map(|layer| layer.size_bytes)
                    .fold(0, u64::saturating_add);
                let on_disk = self.layers_on_disk();
                let mut wanted_bytes: u64 = 0;
                for layer in &mut layers {
                    match on_disk.get(&*layer.digest) {
                        Some(size_bytes) => layer.size_bytes = *size_bytes,
                        None => wanted_bytes = wanted_bytes.saturating_add(layer.size_bytes),
                    }
                }
                self.check_fits(wanted_bytes)?;
                let facts = Arc::new(Image {
                    id: Arc::clone(&id),
                    runtime_handler: Arc::clone(&spec.runtime_handler),
                    size_bytes,
                    pinned: false,
                    tags: Vec::new(),
                    digests: Vec::new(),
                });
                self.images.push(ImageRow { facts, layers });
                self.images.len() - 1
            }
        };
        let (tag, digest) = match &*spec.tag {
            "" => (None, None),
            tag => (
                Some(Arc::clone(&spec.tag)),
                Some(repository_digest(self.seed, tag, &id)),
            ),
        };
        for (at, row) in self.images.iter_mut().enumerate() {
            if row.facts.runtime_handler != spec.runtime_handler {
                continue;
            }
            let facts = Arc::make_mut(&mut row.facts);
            for (names, name) in [(&mut facts.tags, &tag), (&mut facts.digests, &digest)] {
                let Some(name) = name else { continue };
                // A name is moved from its previous image.
                match at == place {
                    true if !names.contains(name) => names.push(Arc::clone(name)),
                    true => {}
                    false => names.retain(|other| other != name),
                }
            }
            facts.pinned |= at == place && spec.pinned;
        }
        Ok(id)
    }

    // Pods and sandboxes.

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
        let sandbox_id = self.run_sandbox(&pod);
        let mut container_ids = Vec::new();
        for container in &spec.containers {
            let id = self.create_container(&sandbox_id, container, None)?;
            self.start_container(&id)?;
            container_ids.push(id);
        }
        Ok(RunningPod {
            pod,
            sandbox_id,
            container_ids,
        })
    }

    pub(super) fn change_pod(
        &mut self,
        uid: &Uid,
        change: impl FnOnce(&mut PodState),
    ) -> Result<(), NodeError> {
        let state = self.pods.known.get_mut(uid);
        change(state.ok_or_else(|| NodeError::not_found("pod", &uid.text()))?);
        self.end_pod(uid);
        Ok(())
    }

    /// Ends all containers of a pod.
    pub(super) fn end_pod(&mut self, uid: &Uid) {
        let sandboxes = self.sandboxes.iter().filter(|sandbox| sandbox.pod.uid == *uid);
        for id in sandboxes
            .map(|sandbox| Arc::clone(&sandbox.id))
            .collect::<Vec<_>>()
        {
            self.stop_sandbox(&id);
        }
    }

    pub(super) fn sandbox(&self, id: &str) -> Result<&Arc<Sandbox>, NodeError> {
        let found = self.sandboxes.iter().find(|sandbox| *sandbox.id == *id);
        found.ok_or_else(|| NodeError::not_found("sandbox", id))
    }

    pub(super) fn run_sandbox(&mut self, pod: &PodIdentity) -> Arc<str> {
        let before = self.sandboxes.iter().filter(|sandbox| sandbox.pod.uid == pod.uid);
        let attempt = before.map(|sandbox| sandbox.attempt.saturating_add(1)).max();
        self.logs.entries.insert(pod_log_entry(pod).into());
        let id = self.draw_id();
        self.sandboxes.push(Arc::new(Sandbox {
            id: Arc::clone(&id),
            pod: pod.clone(),
            attempt: attempt.unwrap_or(0),
            state: SandboxState::Ready,
            created_at: self.now,
            labels: pod_labels(pod),
        }));
        id
    }

    /// Stops a sandbox and all its containers, if it exists.
    pub(super) fn stop_sandbox(&mut self, id: &str) {
        for sandbox in self.sandboxes.iter_mut().filter(|sandbox| *sandbox.id == *id) {
            Arc::make_mut(sandbox).state = SandboxState::NotReady;
        }
        let inside = self.containers.iter().filter(|row| *row.facts.sandbox_id == *id);
        for id in inside.map(|row| Arc::clone(&row.facts.id)).collect::<Vec<_>>() {
            self.stop_container(&id);
        }
    }

    // Containers.

    pub(super) fn all_containers(&self) -> Vec<Arc<Container>> {
        self.containers.iter().map(|row| Arc::clone(&row.facts)).collect()
    }

    pub(super) fn container(&self, id: &str) -> Option<&ContainerRow> {
        self.containers.iter().find(|row| *row.facts.id == *id)
    }

    pub(super) fn known_container(&self, id: &str) -> Result<&ContainerRow, NodeError> {
        self.container(id)
            .ok_or_else(|| NodeError::not_found("container", id))
    }

    /// Changes the facts of a container, if it exists.
    pub(super) fn edit_container(&mut self, id: &str, edit: impl FnOnce(&mut Container)) {
        let mut rows = self.containers.iter_mut();
        if let Some(row) = rows.find(|row| *row.facts.id == *id) {
            edit(Arc::make_mut(&mut row.facts));
        }
    }

    /// The images that a container runs and mounts.
    fn images_of(&self, spec: &ContainerSpec) -> Result<(Option<&ImageRow>, Vec<Arc<str>>), NodeError> {
        let image = match &*spec.image {
            "" => None,
            reference => {
                let place = self.image_place(reference, &spec.runtime_handler);
                let found = place.and_then(|place| self.images.get(place));
                Some(found.ok_or_else(|| NodeError::not_found("image", reference))?)
            }
        };
        let volumes = spec.image_volumes.iter().map(|reference| {
            let row = self.any_image(reference);
            row.map(|row| Arc::clone(&row.facts.id))
                .ok_or_else(|| NodeError::not_found("image", reference))
        });
        Ok((image, volumes.collect::<Result<_, _>>()?))
    }

    /// Creates a container in a ready sandbox; returns its id. `attempt`: `None` continues the count of the
    /// containers of that name in the sandbox.
    pub(super) fn create_container(
        &mut self,
        sandbox_id: &str,
        spec: &ContainerSpec,
        attempt: Option<u32>,
    ) -> Result<Arc<str>, NodeError> {
        let sandbox = Arc::clone(self.sandbox(sandbox_id)?);
        if sandbox.state != SandboxState::Ready {
            return Err(NodeError::State {
                noun: "sandbox",
                id: Arc::clone(&sandbox.id),
                state: "not ready",
            });
        }
        let others = self.containers.iter().map(|row| &row.facts);
        let same_name =
            others.filter(|other| other.sandbox_id == sandbox.id && other.name.as_ref() == Some(&spec.name));
        let next = same_name.map(|other| other.attempt.saturating_add(1)).max();
        let attempt = attempt.or(next).unwrap_or(0);
        let (image, image_volumes) = self.images_of(spec)?;
        let image = image.cloned();

        let entry = pod_log_entry(&sandbox.pod);
        let log_path = format!("{POD_LOG_DIRECTORY}/{entry}/{}/{attempt}.log", spec.name);
        let id = self.draw_id();
        let pod = sandbox.pod.clone();
        let mut facts = Container::new(&id, pod, &spec.name, ContainerState::Created, self.now);
        facts.sandbox_id = Arc::clone(&sandbox.id);
        facts.attempt = attempt;
        facts.annotations = spec.annotations.clone();
        if let Some(image) = &image {
            facts.image = ContainerImage {
                reference: Arc::clone(&image.facts.id),
                id: Arc::clone(&image.facts.id),
                runtime_handler: Arc::clone(&image.facts.runtime_handler),
            };
        }
        self.containers.push(ContainerRow {
            facts: Arc::new(facts),
            spec: spec.clone(),
            image_volumes,
            layers: image.map(|image| image.layers).unwrap_or_default(),
            log_path: log_path.into(),
        });
        Ok(id)
    }

    /// Starts a created container, and creates its log and the link to it.
    pub(super) fn start_container(&mut self, id: &str) -> Result<(), NodeError> {
        let row = self.known_container(id)?;
        let container_id = Arc::clone(&row.facts.id);
        if row.facts.state != ContainerState::Created {
            return Err(NodeError::container(&row.facts));
        }
        let (path, bytes) = (Arc::clone(&row.log_path), row.spec.log_bytes);
        let name = row.facts.name.clone().unwrap_or_default();
        let link = container_log_link(&row.facts.pod, &name, id);
        // The entry of its pod may have been removed.
        let entry = path
            .strip_prefix(POD_LOG_DIRECTORY)
            .and_then(|rest| rest.split('/').nth(1));
        if entry.is_some_and(|entry| self.logs.entries.contains(entry)) {
            self.write(&path, bytes);
        }
        self.logs
            .links
            .insert(link.into(), Link::Log { path, container_id });
        self.edit_container(id, |container| container.state = ContainerState::Running);
        Ok(())
    }

    /// Ends a container that is running or may be running; other containers do not change.
    pub(super) fn stop_container(&mut self, id: &str) {
        self.edit_container(id, |container| {
            if let ContainerState::Running | ContainerState::Unknown = container.state {
                container.state = ContainerState::Exited;
            }
        });
    }

    /// Ends a container and starts the next attempt of it in the same sandbox.
    pub(super) fn restart_container(&mut self, id: &str) -> Result<Arc<str>, NodeError> {
        let row = self.known_container(id)?;
        let (spec, attempt) = (row.spec.clone(), row.facts.attempt.saturating_add(1));
        let sandbox_id = Arc::clone(&row.facts.sandbox_id);
        let next = self.create_container(&sandbox_id, &spec, Some(attempt))?;
        self.stop_container(id);
        self.start_container(&next)?;
        Ok(next)
    }
}

fn has_id(image: &Image, reference: &str) -> bool {
    *image.id == *reference
}

fn has_name(image: &Image, reference: &str) -> bool {
    let mut names = image.tags.iter().chain(&image.digests);
    names.any(|name| **name == *reference)
}

fn hex(lanes: [u64; 4]) -> String {
    lanes.iter().map(|lane| format!("{lane:016x}")).collect()
}

/// 256 bits that are derived from a seed and some strings, in lower-case hex.
fn content_hex<'a>(seed: u64, texts: impl Iterator<Item = &'a str>) -> String {
    let mut lanes: [u64; 4] = std::array::from_fn(|lane| mix(seed ^ ((lane as u64 + 1) << 56)));
    for text in texts {
        for byte in text.bytes().map(u64::from).chain([0x100]) {
            for lane in &mut lanes {
                *lane = mix(lane.wrapping_add(byte).wrapping_add(0x9e37_79b9_7f4a_7c15));
            }
        }
    }
    hex(lanes)
}

/// The digest of an image in the repository of its tag.
fn repository_digest(seed: u64, tag: &str, id: &str) -> Arc<str> {
    let repository = match tag.rsplit_once(':') {
        Some((repository, version)) if !version.contains('/') => repository,
        _ => tag,
    };
    format!("{repository}@sha256:{}", content_hex(!seed, [id].into_iter())).into()
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
