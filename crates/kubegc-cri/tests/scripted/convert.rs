//! Writes facts as wire messages: the reverse of the client's readers.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::node_facts::{Container, ContainerState, ContainerStatus, Image, Sandbox, SandboxState};

use crate::wire;

pub(crate) fn container(facts: &Container) -> wire::Container {
    wire::Container {
        id: facts.id.to_string(),
        pod_sandbox_id: facts.sandbox_id.to_string(),
        metadata: facts.name.as_ref().map(|name| wire::ContainerMetadata {
            name: name.to_string(),
            attempt: facts.attempt,
        }),
        image: Some(spec("the name in the pod's spec", &facts.image.runtime_handler)),
        image_ref: facts.image.reference.to_string(),
        state: container_state(facts.state),
        created_at: facts.created_at.as_nanos(),
        labels: pairs(&facts.labels),
        annotations: pairs(&facts.annotations),
        image_id: facts.image.id.to_string(),
    }
}

pub(crate) fn sandbox(facts: &Sandbox) -> wire::PodSandbox {
    wire::PodSandbox {
        id: facts.id.to_string(),
        metadata: Some(wire::PodSandboxMetadata {
            name: facts.pod.name.to_string(),
            uid: facts.pod.uid.text().to_string(),
            namespace: facts.pod.namespace.to_string(),
            attempt: facts.attempt,
        }),
        state: match facts.state {
            SandboxState::Ready => wire::PodSandboxState::SandboxReady,
            SandboxState::NotReady => wire::PodSandboxState::SandboxNotready,
        } as i32,
        created_at: facts.created_at.as_nanos(),
        labels: pairs(&facts.labels),
        annotations: BTreeMap::new(),
        runtime_handler: "not read".to_owned(),
    }
}

pub(crate) fn image(facts: &Image) -> wire::Image {
    let texts = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
    wire::Image {
        id: facts.id.to_string(),
        repo_tags: texts(&facts.tags),
        repo_digests: texts(&facts.digests),
        size: facts.size_bytes,
        spec: Some(spec("not read", &facts.runtime_handler)),
        pinned: facts.pinned,
    }
}

pub(crate) fn status(id: &str, facts: &ContainerStatus) -> wire::ContainerStatus {
    let mounts = facts.image_volumes.iter().map(|image| wire::Mount {
        container_path: "/data".to_owned(),
        image: Some(spec(image, "")),
    });
    wire::ContainerStatus {
        id: id.to_owned(),
        metadata: None,
        state: container_state(facts.state),
        mounts: mounts.collect(),
        log_path: facts.log_path.to_string(),
    }
}

pub(crate) fn spec(image: &str, runtime_handler: &str) -> wire::ImageSpec {
    wire::ImageSpec {
        image: image.to_owned(),
        runtime_handler: runtime_handler.to_owned(),
        ..wire::ImageSpec::default()
    }
}

fn container_state(state: ContainerState) -> i32 {
    match state {
        ContainerState::Created => wire::ContainerState::ContainerCreated as i32,
        ContainerState::Running => wire::ContainerState::ContainerRunning as i32,
        ContainerState::Exited => wire::ContainerState::ContainerExited as i32,
        ContainerState::Unknown => wire::ContainerState::ContainerUnknown as i32,
    }
}

fn pairs(pairs: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}
