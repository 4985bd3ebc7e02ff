//! Containers and sandboxes.

use std::sync::Arc;

use kubegc_core::{
    Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, ContainerStatus, PodIdentity, Sandbox, SandboxState,
    },
};

use super::{Flaw, Listed, called, created_at, pairs, required};
use crate::bindings;

impl Listed for Container {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::default())
    }

    fn called(&self) -> String {
        called("container", self.name.as_deref(), &self.id)
    }
}

impl Listed for Sandbox {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::default())
    }

    fn called(&self) -> String {
        called("sandbox", Some(&self.pod.name), &self.id)
    }
}

/// Reads a container. Its id, its sandbox and its image are required, because they determine what it keeps in
/// use; its pod is the one of the labels.
pub(crate) fn container(wire: bindings::Container) -> Result<Container, Flaw> {
    let (name, attempt) = match wire.metadata {
        Some(metadata) => (Some(metadata.name), metadata.attempt),
        None => (None, 0),
    };
    let entry_id = wire.id.clone();
    let entry = || called("container", name.as_deref(), &entry_id);
    let id = required(wire.id, &entry, "id")?;
    let sandbox_id = required(wire.pod_sandbox_id, &entry, "pod_sandbox_id")?;
    let image = ContainerImage {
        reference: wire.image_ref.into(),
        id: wire.image_id.into(),
        runtime_handler: wire.image.unwrap_or_default().runtime_handler.into(),
    };
    if image.reference.is_empty() && image.id.is_empty() {
        return Err(Flaw::new(entry(), "image_ref", "is missing"));
    }
    let labels = pairs(wire.labels);
    let pod = PodIdentity::from_labels(&labels);
    if pod.uid.is_empty() {
        tracing::debug!(entry = entry(), "its labels name no pod");
    }
    Ok(Container {
        state: container_state(wire.state, &entry),
        attempt,
        created_at: created_at(wire.created_at, &entry),
        pod,
        id,
        sandbox_id,
        image,
        labels,
        annotations: pairs(wire.annotations),
        name: name.map(Arc::from),
    })
}

/// Reads a sandbox. The pod is the one of the metadata; without metadata, the one of the labels. One of them
/// must name it, and they must not contradict each other.
pub(crate) fn sandbox(wire: bindings::PodSandbox) -> Result<Sandbox, Flaw> {
    const UID: &str = "metadata.uid";
    let entry_id = wire.id.clone();
    let entry_name = wire.metadata.as_ref().map(|metadata| metadata.name.clone());
    let entry = || called("sandbox", entry_name.as_deref(), &entry_id);
    let id = required(wire.id, &entry, "id")?;
    let labels = pairs(wire.labels);
    let labelled = PodIdentity::from_labels(&labels);
    let label_uid = labelled.uid.clone();
    let (pod, attempt) = match wire.metadata {
        Some(metadata) => {
            let pod = PodIdentity {
                uid: Uid::new(&metadata.uid),
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            };
            (pod, metadata.attempt)
        }
        None => (labelled, 0),
    };
    let problem = match (pod.uid.is_empty(), label_uid.is_empty()) {
        (true, true) => Some("is missing, and no label names the pod"),
        (true, false) => Some("is missing, though a label names the pod"),
        (false, false) if pod.uid != label_uid => Some("is not the uid that the label names"),
        (false, _) => None,
    };
    if let Some(problem) = problem {
        return Err(Flaw::new(entry(), UID, problem));
    }
    Ok(Sandbox {
        id,
        pod,
        attempt,
        state: sandbox_state(wire.state, &entry),
        created_at: created_at(wire.created_at, &entry),
        labels,
    })
}

/// Reads the status of one container.
pub(crate) fn status(wire: bindings::ContainerStatus) -> ContainerStatus {
    let entry = || {
        let name = wire.metadata.as_ref().map(|metadata| &*metadata.name);
        called("container", name, &wire.id)
    };
    let mounted = wire.mounts.iter().filter_map(|mount| mount.image.as_ref());
    ContainerStatus {
        state: container_state(wire.state, &entry),
        image_volumes: mounted
            .filter(|image| !image.image.is_empty())
            .map(|image| image.image.as_str().into())
            .collect(),
        log_path: wire.log_path.as_str().into(),
    }
}

/// A state that CRI does not have is one that the runtime does not know: such a container is stopped before
/// it is removed.
fn container_state(state: i32, entry: &dyn Fn() -> String) -> ContainerState {
    use bindings::ContainerState as Wire;
    match Wire::try_from(state) {
        Ok(Wire::ContainerCreated) => ContainerState::Created,
        Ok(Wire::ContainerRunning) => ContainerState::Running,
        Ok(Wire::ContainerExited) => ContainerState::Exited,
        Ok(Wire::ContainerUnknown) => ContainerState::Unknown,
        Err(_) => {
            tracing::warn!(
                entry = entry(),
                state,
                "no state of a container; taken as unknown"
            );
            ContainerState::Unknown
        }
    }
}

/// A state that CRI does not have counts as ready: such a sandbox stays.
fn sandbox_state(state: i32, entry: &dyn Fn() -> String) -> SandboxState {
    use bindings::PodSandboxState as Wire;
    match Wire::try_from(state) {
        Ok(Wire::SandboxReady) => SandboxState::Ready,
        Ok(Wire::SandboxNotready) => SandboxState::NotReady,
        Err(_) => {
            tracing::warn!(entry = entry(), state, "no state of a sandbox; taken as ready");
            SandboxState::Ready
        }
    }
}
