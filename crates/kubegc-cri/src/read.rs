//! Converts responses of a runtime to facts. A listing is complete, or an error that names the entry and the
//! field.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    RuntimeError, Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, ContainerStatus, Image, PodIdentity, Sandbox, SandboxState,
    },
};

use crate::bindings;

/// The error of a request whose response has an invalid entry. The problem names the entry and the field.
pub(crate) fn incomplete(operation: &'static str, problem: &str) -> RuntimeError {
    RuntimeError::refused(format!("{operation}: an incomplete response: {problem}"))
}

/// An entry of a listing with a unique key.
pub(crate) trait Keyed: PartialEq {
    fn key(&self) -> (Arc<str>, Arc<str>);
    /// The name of the entry in messages.
    fn display_name(&self) -> String;
}

/// Converts all entries of a listing. Equal duplicates are merged. Different entries with the same key make
/// the listing an error, because the correct one is unknown.
///
/// # Complexity
/// *O*(n log n) for n entries.
pub(crate) fn listing<W, T: Keyed>(
    operation: &'static str,
    entries: Vec<W>,
    read: impl Fn(W) -> Result<T, String>,
) -> Result<Vec<Arc<T>>, RuntimeError> {
    let mut facts: Vec<Arc<T>> = Vec::with_capacity(entries.len());
    let mut positions: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    for entry in entries {
        let fact = read(entry).map_err(|problem| incomplete(operation, &problem))?;
        match positions.get(&fact.key()) {
            None => {
                positions.insert(fact.key(), facts.len());
                facts.push(Arc::new(fact));
            }
            Some(&at) if *facts[at] == fact => {
                tracing::warn!(operation, entry = fact.display_name(), "listed twice");
            }
            Some(_) => {
                let problem = format!(
                    "{}: id is listed twice with different contents",
                    fact.display_name()
                );
                return Err(incomplete(operation, &problem));
            }
        }
    }
    Ok(facts)
}

fn required(text: String, entry: &dyn Fn() -> String, field: &str) -> Result<Arc<str>, String> {
    if text.is_empty() {
        return Err(format!("{}: {field} is missing", entry()));
    }
    Ok(text.into())
}

fn pairs(pairs: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// Converts a creation time. A time that is not after the epoch is used as reported, with a warning.
fn created_at(nanos: i64, entry: &dyn Fn() -> String) -> Timestamp {
    if nanos <= 0 {
        tracing::warn!(entry = entry(), nanos, "created_at is not after the epoch");
    }
    Timestamp::from_nanos(nanos)
}

/// The name of an entry in messages: its kind, its name if it has one, and the start of its id.
fn entry_name(kind: &str, name: Option<&str>, id: &str) -> String {
    let short: String = id.chars().take(13).collect();
    let id = if short.is_empty() { "?" } else { &short };
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind} {name} ({id})"),
        None => format!("{kind} {id}"),
    }
}

impl Keyed for Container {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::default())
    }

    fn display_name(&self) -> String {
        entry_name("container", self.name.as_deref(), &self.id)
    }
}

impl Keyed for Sandbox {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::default())
    }

    fn display_name(&self) -> String {
        entry_name("sandbox", Some(&self.pod.name), &self.id)
    }
}

/// Converts a container. Its id, sandbox and image are required, because they determine which objects are in
/// use. Its pod is that of the labels.
pub(crate) fn container(message: bindings::Container) -> Result<Container, String> {
    let (name, attempt) = match message.metadata {
        Some(metadata) => (Some(metadata.name), metadata.attempt),
        None => (None, 0),
    };
    let entry_id = message.id.clone();
    let entry = || entry_name("container", name.as_deref(), &entry_id);
    let id = required(message.id, &entry, "id")?;
    let sandbox_id = required(message.pod_sandbox_id, &entry, "pod_sandbox_id")?;
    let image = ContainerImage {
        reference: message.image_ref.into(),
        id: message.image_id.into(),
        runtime_handler: message.image.unwrap_or_default().runtime_handler.into(),
    };
    if image.reference.is_empty() && image.id.is_empty() {
        return Err(format!("{}: image_ref is missing", entry()));
    }
    let labels = pairs(message.labels);
    let pod = PodIdentity::from_labels(&labels);
    if pod.uid.is_empty() {
        tracing::debug!(entry = entry(), "the labels have no pod uid");
    }
    Ok(Container {
        state: container_state(message.state, &entry),
        attempt,
        created_at: created_at(message.created_at, &entry),
        pod,
        id,
        sandbox_id,
        image,
        labels,
        annotations: pairs(message.annotations),
        name: name.map(Arc::from),
    })
}

/// Converts a sandbox. Its pod is that of the metadata; without metadata, that of the labels. The uid is
/// required, and must equal that of the labels if they have one.
pub(crate) fn sandbox(message: bindings::PodSandbox) -> Result<Sandbox, String> {
    const UID: &str = "metadata.uid";
    let entry_id = message.id.clone();
    let pod_name = message.metadata.as_ref().map(|metadata| metadata.name.clone());
    let entry = || entry_name("sandbox", pod_name.as_deref(), &entry_id);
    let id = required(message.id, &entry, "id")?;
    let labels = pairs(message.labels);
    let pod_of_labels = PodIdentity::from_labels(&labels);
    let label_uid = pod_of_labels.uid.clone();
    let (pod, attempt) = match message.metadata {
        Some(metadata) => {
            let pod = PodIdentity {
                uid: Uid::new(&metadata.uid),
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            };
            (pod, metadata.attempt)
        }
        None => (pod_of_labels, 0),
    };
    let problem = match (pod.uid.is_empty(), label_uid.is_empty()) {
        (true, true) => Some("is missing, and the labels have no pod uid"),
        (true, false) => Some("is missing, although the labels have a pod uid"),
        (false, false) if pod.uid != label_uid => Some("differs from the pod uid of the labels"),
        (false, _) => None,
    };
    if let Some(problem) = problem {
        return Err(format!("{}: {UID} {problem}", entry()));
    }
    Ok(Sandbox {
        id,
        pod,
        attempt,
        state: sandbox_state(message.state, &entry),
        created_at: created_at(message.created_at, &entry),
        labels,
    })
}

pub(crate) fn status(message: bindings::ContainerStatus) -> ContainerStatus {
    let entry = || {
        let name = message.metadata.as_ref().map(|metadata| &*metadata.name);
        entry_name("container", name, &message.id)
    };
    let mounted = message.mounts.iter().filter_map(|mount| mount.image.as_ref());
    ContainerStatus {
        state: container_state(message.state, &entry),
        image_volumes: mounted
            .filter(|image| !image.image.is_empty())
            .map(|image| image.image.as_str().into())
            .collect(),
        log_path: message.log_path.as_str().into(),
    }
}

/// Converts a container state. A value that CRI does not define is the state unknown, so that the container
/// is stopped before it is removed.
fn container_state(state: i32, entry: &dyn Fn() -> String) -> ContainerState {
    use bindings::ContainerState as Reported;
    match Reported::try_from(state) {
        Ok(Reported::ContainerCreated) => ContainerState::Created,
        Ok(Reported::ContainerRunning) => ContainerState::Running,
        Ok(Reported::ContainerExited) => ContainerState::Exited,
        Ok(Reported::ContainerUnknown) => ContainerState::Unknown,
        Err(_) => {
            tracing::warn!(
                entry = entry(),
                state,
                "not a container state of CRI; treated as unknown"
            );
            ContainerState::Unknown
        }
    }
}

/// Converts a sandbox state. A value that CRI does not define is the state ready, so that the sandbox is
/// kept.
fn sandbox_state(state: i32, entry: &dyn Fn() -> String) -> SandboxState {
    use bindings::PodSandboxState as Reported;
    match Reported::try_from(state) {
        Ok(Reported::SandboxReady) => SandboxState::Ready,
        Ok(Reported::SandboxNotready) => SandboxState::NotReady,
        Err(_) => {
            tracing::warn!(
                entry = entry(),
                state,
                "not a sandbox state of CRI; treated as ready"
            );
            SandboxState::Ready
        }
    }
}

impl Keyed for Image {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::clone(&self.runtime_handler))
    }

    fn display_name(&self) -> String {
        image_name(
            self.tags.first().or(self.digests.first()).map(|name| &**name),
            &self.id,
        )
    }
}

/// Converts an image. The id is required. Placeholders such as `<none>:<none>`, which old runtimes list as
/// names, are dropped.
pub(crate) fn image(message: bindings::Image) -> Result<Image, String> {
    let tags = names(message.repo_tags);
    let digests = names(message.repo_digests);
    let entry = || image_name(tags.first().or(digests.first()).map(|name| &**name), "");
    let id = required(message.id, &entry, "id")?;
    if i64::try_from(message.size).is_err() {
        tracing::warn!(%id, size = message.size, "the size exceeds 63 bits; upstream reads it as a negative number");
    }
    Ok(Image {
        id,
        runtime_handler: message.spec.unwrap_or_default().runtime_handler.into(),
        size_bytes: message.size,
        pinned: message.pinned,
        tags,
        digests,
    })
}

/// The id of the image in the response to a reference. As upstream, an image without an id is an error.
pub(crate) fn image_id(
    reference: &str,
    message: Option<bindings::Image>,
) -> Result<Option<Arc<str>>, String> {
    let entry = || format!("image {reference}");
    message.map(|image| required(image.id, &entry, "id")).transpose()
}

/// Tags or digests, without placeholders.
fn names(names: Vec<String>) -> Vec<Arc<str>> {
    names
        .into_iter()
        .filter(|name| !name.contains("<none>"))
        .map(Arc::from)
        .collect()
}

fn image_name(name: Option<&str>, id: &str) -> String {
    match name {
        Some(name) => format!("image {name}"),
        None => entry_name("image", None, id.strip_prefix("sha256:").unwrap_or(id)),
    }
}
