//! Converts containers and sandboxes.

use std::sync::Arc;

use kubegc_core::{
    Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, ContainerStatus, PodIdentity, Sandbox, SandboxState,
    },
};

use super::{Keyed, created_at, entry_name, pairs, required};
use crate::bindings;

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
