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
    fn put(self, map: &mut Value, name: &str, message: Option<Value>) {
        match message {
            None if self == Self::LeftOut => {}
            message => map[name] = message.unwrap_or(Value::Null),
        }
    }

    /// `crictl ps -a`.
    pub(crate) fn ps(self, containers: &[cri::Container]) -> Value {
        let one = |container: &cri::Container| {
            let mut one = json!({
                "id": container.id,
                "podSandboxId": container.pod_sandbox_id,
                "imageRef": container.image_ref,
                "state": state(container.state, |known: cri::ContainerState| known.as_str_name()),
                "createdAt": container.created_at.to_string(),
                "labels": container.labels,
                "annotations": container.annotations,
                "imageId": container.image_id,
            });
            self.put(
                &mut one,
                "metadata",
                container.metadata.as_ref().map(container_metadata),
            );
            self.put(&mut one, "image", container.image.as_ref().map(image_spec));
            one
        };
        json!({ "containers": containers.iter().map(one).collect::<Vec<_>>() })
    }

    /// `crictl pods`.
    pub(crate) fn pods(self, sandboxes: &[cri::PodSandbox]) -> Value {
        let one = |sandbox: &cri::PodSandbox| {
            let mut one = json!({
                "id": sandbox.id,
                "state": state(sandbox.state, |known: cri::PodSandboxState| known.as_str_name()),
                "createdAt": sandbox.created_at.to_string(),
                "labels": sandbox.labels,
                "annotations": sandbox.annotations,
                "runtimeHandler": sandbox.runtime_handler,
            });
            let metadata = sandbox.metadata.as_ref().map(|metadata| {
                json!({
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "namespace": metadata.namespace,
                    "attempt": metadata.attempt,
                })
            });
            self.put(&mut one, "metadata", metadata);
            one
        };
        json!({ "items": sandboxes.iter().map(one).collect::<Vec<_>>() })
    }

    /// `crictl images`.
    pub(crate) fn images(self, images: &[cri::Image]) -> Value {
        let one = |image: &cri::Image| {
            let mut one = json!({
                "id": image.id,
                "repoTags": image.repo_tags,
                "repoDigests": image.repo_digests,
                "size": image.size.to_string(),
                "username": "",
                "pinned": image.pinned,
            });
            self.put(&mut one, "uid", None);
            self.put(&mut one, "spec", image.spec.as_ref().map(image_spec));
            one
        };
        json!({ "images": images.iter().map(one).collect::<Vec<_>>() })
    }
}

/// The name of a state, or its number where it has none.
fn state<S: TryFrom<i32>>(state: i32, name: impl Fn(S) -> &'static str) -> Value {
    S::try_from(state).map_or_else(|_| json!(state), |known| json!(name(known)))
}

fn container_metadata(metadata: &cri::ContainerMetadata) -> Value {
    json!({ "name": metadata.name, "attempt": metadata.attempt })
}

fn image_spec(spec: &cri::ImageSpec) -> Value {
    json!({
        "image": spec.image,
        "annotations": spec.annotations,
        "userSpecifiedImage": spec.user_specified_image,
        "runtimeHandler": spec.runtime_handler,
    })
}
