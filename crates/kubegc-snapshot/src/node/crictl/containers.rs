//! One entry of `crictl ps`.

use std::sync::Arc;

use kubegc_core::{
    Timestamp,
    node_facts::{Container, ContainerImage, ContainerState, PodIdentity, label},
};

use super::{Outcome, created_at, short};
use crate::node::{fields::Entry, finding::NodeProblem};

/// Reads a container.
///
/// Its id, its sandbox and its image are required, because they determine what it keeps in use. If another
/// field cannot be read, the container is kept: it counts as running.
pub(crate) fn read(entry: &mut Entry<'_, '_>, now: Option<Timestamp>) -> Outcome<Container> {
    let id = short(entry.peek(&["id"]).unwrap_or("?"));
    entry.call(match entry.peek(&["metadata", "name"]) {
        Some(name) => format!("container {name} ({id})"),
        None => format!("container {id}"),
    });
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
    let state = state(entry);
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
        None => Outcome::Sure(container),
        Some(_) if is_lost => Outcome::Lost,
        Some(_) => Outcome::Held(Container {
            state: ContainerState::Running,
            ..container
        }),
    }
}

/// The state; `None` if it is missing.
pub(super) fn state(entry: &mut Entry<'_, '_>) -> Option<ContainerState> {
    let states = [
        ("CONTAINER_CREATED", ContainerState::Created),
        ("CONTAINER_RUNNING", ContainerState::Running),
        ("CONTAINER_EXITED", ContainerState::Exited),
        ("CONTAINER_UNKNOWN", ContainerState::Unknown),
    ];
    super::state(entry, &states, ContainerState::Unknown, "container")
}
