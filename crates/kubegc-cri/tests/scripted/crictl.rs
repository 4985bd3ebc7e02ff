//! Responses of the runtime as `crictl -o json` prints them: protojson, with numbers of 64 bits as texts and
//! enumerations by name.

use serde_json::{Value, json};

use crate::wire as cri;

/// The printed form of a message that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    /// Left out, since July 2024.
    LeftOut,
    /// Null, before.
    Null,
}

impl Unset {
    /// `crictl ps -a`.
    pub(crate) fn ps(self, containers: &[cri::Container]) -> Value {
        let one = |container: &cri::Container| {
            let metadata = container.metadata.as_ref();
            json!({
                "id": container.id,
                "podSandboxId": container.pod_sandbox_id,
                "metadata": metadata.map(|set| json!({ "name": set.name, "attempt": set.attempt })),
                "image": container.image.as_ref().map(image_spec),
                "imageRef": container.image_ref,
                "state": state(container.state, |known: cri::ContainerState| known.as_str_name()),
                "createdAt": container.created_at.to_string(),
                "labels": container.labels,
                "annotations": container.annotations,
                "imageId": container.image_id,
            })
        };
        json!({ "containers": self.printed(containers.iter().map(one)) })
    }

    /// `crictl pods`.
    pub(crate) fn pods(self, sandboxes: &[cri::PodSandbox]) -> Value {
        let metadata = |set: &cri::PodSandboxMetadata| {
            let (name, namespace) = (&set.name, &set.namespace);
            json!({ "name": name, "uid": set.uid, "namespace": namespace, "attempt": set.attempt })
        };
        let one = |sandbox: &cri::PodSandbox| {
            json!({
                "id": sandbox.id,
                "metadata": sandbox.metadata.as_ref().map(metadata),
                "state": state(sandbox.state, |known: cri::PodSandboxState| known.as_str_name()),
                "createdAt": sandbox.created_at.to_string(),
                "labels": sandbox.labels,
                "annotations": sandbox.annotations,
                "runtimeHandler": sandbox.runtime_handler,
            })
        };
        json!({ "items": self.printed(sandboxes.iter().map(one)) })
    }

    /// `crictl images`.
    pub(crate) fn images(self, images: &[cri::Image]) -> Value {
        let one = |image: &cri::Image| {
            json!({
                "id": image.id,
                "repoTags": image.repo_tags,
                "repoDigests": image.repo_digests,
                "size": image.size.to_string(),
                "uid": null,
                "username": "",
                "spec": image.spec.as_ref().map(image_spec),
                "pinned": image.pinned,
            })
        };
        json!({ "images": self.printed(images.iter().map(one)) })
    }

    /// Entries whose messages that are not set are null.
    fn printed(self, entries: impl Iterator<Item = Value>) -> Value {
        let mut entries: Vec<Value> = entries.collect();
        if self == Self::LeftOut {
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                entry.retain(|_, value| !value.is_null());
            }
        }
        entries.into()
    }
}

/// The name of a state, or its number where it has none.
fn state<S: TryFrom<i32>>(state: i32, name: impl Fn(S) -> &'static str) -> Value {
    S::try_from(state).map_or_else(|_| json!(state), |known| json!(name(known)))
}

fn image_spec(spec: &cri::ImageSpec) -> Value {
    json!({
        "image": spec.image,
        "annotations": spec.annotations,
        "userSpecifiedImage": spec.user_specified_image,
        "runtimeHandler": spec.runtime_handler,
    })
}
