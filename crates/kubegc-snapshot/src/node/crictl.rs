//! Reads the output of `crictl`: listings of containers, sandboxes and images, one container's status, the
//! image file system.
//!
//! **A listing is complete or unknown.** An unreadable entry makes the listing unknown, because the entry
//! could be the reason to keep an image, a sandbox or a pod's other containers.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, ContainerStatus, Image, PodIdentity, Sandbox,
        SandboxState, label,
    },
};
use serde_json::{Map, Value};

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

/// The objects that an entry uses are unknown, because of a flaw.
pub(crate) struct Lost;

/// An entry. One with another flaw is adjusted so that nothing is done to it and everything that it uses
/// stays used. `None` if it has a flaw, and without it nothing is done that would not be done with it.
pub(crate) type Outcome<T> = Result<Option<T>, Lost>;

/// Reads a listing; the reason if it is unknown. `key` is unique in it.
///
/// # Complexity
/// O(n log n) for n entries.
pub(crate) fn listing<T: PartialEq>(
    value: &Value,
    name: &'static str,
    place: &Place,
    lenient: bool,
    notes: &mut Notes,
    key: fn(&T) -> (Arc<str>, Arc<str>),
    read: impl Fn(&mut Entry<'_, '_>) -> Outcome<T>,
) -> Result<Vec<Arc<T>>, String> {
    let no_fields = Map::new();
    let map = value.as_object().unwrap_or(&no_fields);
    let mut listing = Entry::new(map, place, "", notes);
    if !map.contains_key(name) {
        listing.missing(&[name]);
    }
    let values = listing.list(&[name]).unwrap_or_default();
    listing.checked(())?;
    let mut entries: Vec<Arc<T>> = Vec::with_capacity(values.len());
    let mut positions: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    let mut unknown: Option<String> = None;
    for (index, value) in values.iter().enumerate() {
        let path = format!("{name}[{index}]");
        let mut entry = match Entry::of(value, place, &path, notes) {
            Ok(entry) => entry,
            Err(why) => {
                unknown.get_or_insert(why);
                continue;
            }
        };
        let outcome = read(&mut entry);
        let flaw = entry.flaw().map(str::to_owned);
        let read = match (outcome, flaw) {
            (Ok(read), None) => read,
            (Ok(read), Some(_)) if lenient => {
                let detail = match &read {
                    Some(_) => "taken as running or ready: nothing is done to it",
                    None => "left out: nothing is done to it",
                };
                entry.note(NodeProblem::Held, &[], detail);
                read
            }
            (_, flaw) => {
                let flaw = flaw.as_deref().unwrap_or("flawed");
                unknown.get_or_insert_with(|| format!("{place}: {flaw}"));
                continue;
            }
        };
        let Some(read) = read else { continue };
        match positions.get(&key(&read)) {
            None => {
                positions.insert(key(&read), entries.len());
                entries.push(Arc::new(read));
            }
            Some(&at) if *entries[at] == read => {
                entry.note(NodeProblem::Repeated, &[], "occurs twice");
            }
            Some(_) => {
                entry.wrong(
                    NodeProblem::Contradiction,
                    &["id"],
                    "another entry with this id differs",
                );
                unknown.get_or_insert_with(|| format!("{place}: {path}.id: listed twice, differently"));
            }
        }
    }
    unknown.map_or(Ok(entries), Err)
}

/// The beginning of an id, as `crictl` shows it.
fn short(id: &str) -> String {
    id.chars().take(13).collect()
}

/// Names an entry in findings, by the name of its metadata and its id.
fn call(entry: &mut Entry<'_, '_>, object: &str) {
    let id = short(entry.peek(&["id"]).unwrap_or("?"));
    entry.call(match entry.peek(&["metadata", "name"]) {
        Some(name) => format!("{object} {name} ({id})"),
        None => format!("{object} {id}"),
    });
}

/// The state, by name or by number, of the states in the order of their numbers; `None` if it is missing.
/// One that is not among them is `unknown`.
fn state<S: Copy>(entry: &mut Entry<'_, '_>, states: &[(&str, S)], unknown: S, object: &str) -> Option<S> {
    let path = &["state"];
    let (found, shown) = match entry.value(path) {
        Some(Value::String(name)) => (
            states.iter().find(|(state, _)| state == name),
            format!("{name:?}"),
        ),
        Some(_) => {
            let number = entry.plain_number::<i32>(path)?;
            let found = usize::try_from(number).ok().and_then(|number| states.get(number));
            (found, number.to_string())
        }
        None => {
            entry.missing(path);
            return None;
        }
    };
    if found.is_none() {
        entry.note(
            NodeProblem::UnknownState,
            path,
            &format!("{shown} is not a state of a {object}"),
        );
    }
    Some(found.map_or(unknown, |(_, state)| *state))
}

/// A creation time, in nanoseconds; `None` if it is missing.
fn created_at(entry: &mut Entry<'_, '_>, now: Option<Timestamp>) -> Option<Timestamp> {
    let path = &["createdAt"];
    let Some(nanos) = entry.number::<i64>(path) else {
        entry.missing(path);
        return None;
    };
    let created_at = Timestamp::from_nanos(nanos);
    if nanos <= 0 {
        entry.note(
            NodeProblem::Implausible,
            path,
            &format!("{nanos} is not after the epoch"),
        );
    } else if let Some(now) = now.filter(|&now| created_at > now) {
        entry.note(
            NodeProblem::Implausible,
            path,
            &format!("{created_at} lies in the future: it is {now}"),
        );
    }
    Some(created_at)
}

/// Reads a container.
///
/// Its id, its sandbox and its image are required, because they determine what it keeps in use. If another
/// field cannot be read, the container is kept: it counts as running.
pub(crate) fn container(entry: &mut Entry<'_, '_>, now: Option<Timestamp>) -> Outcome<Container> {
    call(entry, "container");
    let id = entry.shared(&["id"]);
    let sandbox_id = entry.shared(&["podSandboxId"]);
    let image = ContainerImage {
        reference: entry.shared(&["imageRef"]),
        id: entry.shared(&["imageId"]),
        runtime_handler: entry.shared(&["image", "runtimeHandler"]),
    };
    for (value, field) in [(&id, "id"), (&sandbox_id, "podSandboxId")] {
        if value.is_empty() {
            entry.missing(&[field]);
        }
    }
    if image.reference.is_empty() && image.id.is_empty() {
        entry.missing(&["imageRef"]);
    }
    let is_lost = entry.flaw().is_some();

    let name = entry.text(&["metadata", "name"]);
    let state = container_state(entry);
    let created_at = created_at(entry, now);
    let attempt = entry.number(&["metadata", "attempt"]).unwrap_or(0);
    let labels = entry.shared_pairs(&["labels"]);
    let annotations = entry.shared_pairs(&["annotations"]);
    let container = Container {
        id,
        sandbox_id,
        name: name.map(Arc::from),
        attempt,
        pod: PodIdentity::from_labels(&labels),
        state: state.unwrap_or(ContainerState::Unknown),
        created_at: created_at.unwrap_or_default(),
        image,
        labels,
        annotations,
    };
    if name.is_none_or(str::is_empty) {
        entry.note(NodeProblem::Nameless, &["metadata", "name"], "missing");
    }
    if container.pod.uid.is_empty() {
        entry.note(NodeProblem::Nameless, &["labels", label::POD_UID], "missing");
    }
    match entry.flaw() {
        None => Ok(Some(container)),
        Some(_) if is_lost => Err(Lost),
        Some(_) => Ok(Some(Container {
            state: ContainerState::Running,
            ..container
        })),
    }
}

/// The state; `None` if it is missing.
fn container_state(entry: &mut Entry<'_, '_>) -> Option<ContainerState> {
    let states = [
        ("CONTAINER_CREATED", ContainerState::Created),
        ("CONTAINER_RUNNING", ContainerState::Running),
        ("CONTAINER_EXITED", ContainerState::Exited),
        ("CONTAINER_UNKNOWN", ContainerState::Unknown),
    ];
    state(entry, &states, ContainerState::Unknown, "container")
}

/// Reads a sandbox.
///
/// The pod is the one of the metadata; without metadata, the one of the labels. If a field cannot be read,
/// the sandbox is kept: it counts as ready, or is left out if it has no id.
pub(crate) fn sandbox(entry: &mut Entry<'_, '_>, now: Option<Timestamp>) -> Outcome<Sandbox> {
    call(entry, "sandbox");
    let id = entry.shared(&["id"]);
    let name = entry.text(&["metadata", "name"]);
    if id.is_empty() {
        entry.missing(&["id"]);
    }
    let state = sandbox_state(entry);
    let created_at = created_at(entry, now);
    let labels = entry.shared_pairs(&["labels"]);
    let pod = if entry.map(&["metadata"]).is_some() {
        let uid = entry.text(&["metadata", "uid"]).unwrap_or_default();
        if uid.is_empty() {
            entry.note(NodeProblem::Nameless, &["metadata", "uid"], "missing");
        }
        PodIdentity {
            uid: Uid::new(uid),
            namespace: entry.shared(&["metadata", "namespace"]),
            name: name.unwrap_or_default().into(),
        }
    } else {
        entry.note(
            NodeProblem::Nameless,
            &["metadata"],
            "missing; the labels say the pod",
        );
        let pod = PodIdentity::from_labels(&labels);
        if pod.uid.is_empty() {
            entry.missing(&["metadata", "uid"]);
        }
        pod
    };
    let sandbox = Sandbox {
        id,
        pod,
        attempt: entry.number(&["metadata", "attempt"]).unwrap_or(0),
        state: state.unwrap_or(SandboxState::Ready),
        created_at: created_at.unwrap_or_default(),
        labels,
    };
    match entry.flaw() {
        None => Ok(Some(sandbox)),
        Some(_) if sandbox.id.is_empty() => Ok(None),
        Some(_) => Ok(Some(Sandbox {
            state: SandboxState::Ready,
            ..sandbox
        })),
    }
}

/// The state; `None` if it is missing. An unknown state counts as ready: such a sandbox is kept.
fn sandbox_state(entry: &mut Entry<'_, '_>) -> Option<SandboxState> {
    let states = [
        ("SANDBOX_READY", SandboxState::Ready),
        ("SANDBOX_NOTREADY", SandboxState::NotReady),
    ];
    state(entry, &states, SandboxState::Ready, "sandbox")
}

/// Reads an image. An unreadable one is left out: an image that is not listed is not removed.
pub(crate) fn image(entry: &mut Entry<'_, '_>) -> Outcome<Image> {
    let id = entry.peek(&["id"]).unwrap_or("?");
    let name = ["repoTags", "repoDigests"]
        .into_iter()
        .find_map(|list| entry.peek_list(list)?.first()?.as_str());
    entry.call(match name {
        Some(name) => format!("image {name}"),
        None => format!("image {}", short(id.strip_prefix("sha256:").unwrap_or(id))),
    });
    let image = Image {
        id: entry.shared(&["id"]),
        runtime_handler: entry.shared(&["spec", "runtimeHandler"]),
        size_bytes: 0,
        pinned: entry.flag(&["pinned"]).unwrap_or(false),
        tags: names(entry, "repoTags"),
        digests: names(entry, "repoDigests"),
    };
    if image.id.is_empty() {
        entry.missing(&["id"]);
    }
    let size_bytes = entry.number::<u64>(&["size"]);
    match size_bytes {
        None => entry.missing(&["size"]),
        Some(size) if i64::try_from(size).is_err() => entry.note(
            NodeProblem::Implausible,
            &["size"],
            &format!("{size} bytes are beyond 63 bits, which upstream reads as a negative size"),
        ),
        Some(_) => {}
    }
    Ok(entry.flaw().is_none().then(|| Image {
        size_bytes: size_bytes.unwrap_or(0),
        ..image
    }))
}

/// Tags or digests, without the placeholders of old runtimes.
fn names(entry: &mut Entry<'_, '_>, field: &str) -> Vec<Arc<str>> {
    let mut names = entry.texts(&[field]);
    names.retain(|name| !name.contains("<none>"));
    names
}

/// Reads the id and the status of a container; the reason if they cannot be read.
pub(crate) fn status(
    value: &Value,
    place: &Place,
    notes: &mut Notes,
) -> Result<(Arc<str>, ContainerStatus), String> {
    let Some(Value::Object(map)) = value.get("status") else {
        notes.note(
            NodeProblem::MissingField,
            Some(place),
            "",
            "status",
            "missing, or no map",
        );
        return Err(format!("{place}: status: missing"));
    };
    let mut entry = Entry::new(map, place, "status", notes);
    entry.call(format!("container {}", short(entry.peek(&["id"]).unwrap_or("?"))));
    let id = entry.shared(&["id"]);
    if id.is_empty() {
        entry.missing(&["id"]);
    }
    let state = container_state(&mut entry);
    let log_path = entry.shared(&["logPath"]);
    let mut image_volumes = Vec::new();
    for (index, mount) in entry.list(&["mounts"]).unwrap_or_default().iter().enumerate() {
        let image = match mount.get("image") {
            None | Some(Value::Null) if mount.is_object() => continue,
            image => image.and_then(|image| image.get("image")).and_then(Value::as_str),
        };
        match image {
            Some(image) if !image.is_empty() => image_volumes.push(image.into()),
            Some(_) => {}
            None => entry.wrong(
                NodeProblem::BadField,
                &[&format!("mounts[{index}]"), "image", "image"],
                "missing, or no string",
            ),
        }
    }
    match (state, entry.flaw()) {
        (Some(state), None) => Ok((
            id,
            ContainerStatus {
                state,
                log_path,
                image_volumes,
            },
        )),
        (_, flaw) => Err(format!("{place}: {}", flaw.unwrap_or("status"))),
    }
}

/// The runtime's usage of one file system.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystemUsage {
    /// The mount point; empty if the runtime does not report it.
    pub mountpoint: Arc<str>,
    /// Bytes used; `None` if unknown.
    pub used_bytes: Option<u64>,
    /// Inodes used; `None` if unknown.
    pub inodes_used: Option<u64>,
    /// The time of the measurement; `None` if unknown.
    pub at: Option<Timestamp>,
}

/// The runtime's usage of the file systems of images, and of those of writable layers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeUsage {
    /// File systems with images. Upstream reads the first.
    pub images: Vec<FileSystemUsage>,
    /// File systems with writable layers; empty if the runtime does not distinguish them.
    pub containers: Vec<FileSystemUsage>,
}

/// Reads the usage, with or without the wrapper `status`, as lists or as the one file system of old versions.
pub(crate) fn usage(value: &Value, place: &Place, notes: &mut Notes) -> Result<RuntimeUsage, String> {
    let (inner, path) = match value.get("status") {
        None | Some(Value::Null) => (value, ""),
        Some(status) => (status, "status"),
    };
    let is_one = ["usedBytes", "fsId"].iter().any(|name| inner.get(name).is_some());
    if is_one {
        return Ok(RuntimeUsage {
            images: vec![usage_of(inner, place, path, notes)?],
            containers: Vec::new(),
        });
    }
    let images = usages(inner, "imageFilesystems", place, path, notes)?;
    let containers = usages(inner, "containerFilesystems", place, path, notes)?;
    Ok(RuntimeUsage { images, containers })
}

fn usages(
    value: &Value,
    name: &str,
    place: &Place,
    path: &str,
    notes: &mut Notes,
) -> Result<Vec<FileSystemUsage>, String> {
    let mut entry = Entry::of(value, place, path, notes)?;
    let values = entry.list(&[name]).unwrap_or_default();
    let values = entry.checked(values)?;
    let dot = if path.is_empty() { "" } else { "." };
    let usages = values.iter().enumerate();
    usages
        .map(|(index, value)| usage_of(value, place, &format!("{path}{dot}{name}[{index}]"), notes))
        .collect()
}

fn usage_of(value: &Value, place: &Place, path: &str, notes: &mut Notes) -> Result<FileSystemUsage, String> {
    let mut entry = Entry::of(value, place, path, notes)?;
    let usage = FileSystemUsage {
        mountpoint: entry.shared(&["fsId", "mountpoint"]),
        used_bytes: entry.wrapped_number("usedBytes"),
        inodes_used: entry.wrapped_number("inodesUsed"),
        at: entry
            .number(&["timestamp"])
            .filter(|&nanos| nanos != 0)
            .map(Timestamp::from_nanos),
    };
    entry.checked(usage)
}
