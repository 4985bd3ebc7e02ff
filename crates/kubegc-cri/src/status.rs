//! The health conditions of a runtime, and the sandbox image of its configuration.

use std::sync::Arc;

use kubegc_core::RuntimeError;
use serde_json::Value;

use crate::{
    CriRuntime,
    bindings::{StatusRequest, StatusResponse},
    call::Method,
    read::incomplete,
};

#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeStatus {
    /// The health conditions, in the order of the response. Garbage collection does not need `NetworkReady`.
    pub conditions: Vec<Condition>,
    /// The sandbox image, if the runtime reports it: containerd before 2.0 and CRI-O do. From Kubernetes 1.29
    /// the runtime must pin it. Before, set it as
    /// [`Settings::sandbox_image`](kubegc_node::driver::Settings::sandbox_image).
    pub sandbox_image: Option<Arc<str>>,
}

impl RuntimeStatus {
    /// Returns whether the condition `RuntimeReady` is true.
    pub fn is_ready(&self) -> bool {
        self.conditions
            .iter()
            .any(|condition| &*condition.kind == "RuntimeReady" && condition.status)
    }
}

/// One health condition of a runtime.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The type: `RuntimeReady`, `NetworkReady` or another.
    pub kind: Arc<str>,
    /// Whether the condition is true.
    pub status: bool,
    /// The reason, one word in CamelCase.
    pub reason: Arc<str>,
    pub message: Arc<str>,
}

impl CriRuntime {
    /// Requests the runtime's status, including its configuration for the sandbox image.
    ///
    /// # Errors
    /// The request failed, or the response has no status.
    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let method = Method::of_runtime("Status");
        let message = StatusRequest { verbose: true };
        let (response, _) = self.containers.socket.read(method, "", message).await?;
        read(response).ok_or_else(|| incomplete(method.name, "status is missing"))
    }
}

fn read(response: StatusResponse) -> Option<RuntimeStatus> {
    let conditions = response.status?.conditions.into_iter().map(|reported| Condition {
        kind: reported.r#type.into(),
        status: reported.status,
        reason: reported.reason.into(),
        message: reported.message.into(),
    });
    Some(RuntimeStatus {
        conditions: conditions.collect(),
        sandbox_image: response
            .info
            .get("config")
            .and_then(|config| sandbox_image(config)),
    })
}

/// The sandbox image in a runtime's configuration; `None` if that is not JSON or has no such field.
fn sandbox_image(config: &str) -> Option<Arc<str>> {
    let config: Value = serde_json::from_str(config).ok()?;
    match config.get("sandboxImage") {
        Some(Value::String(image)) if !image.is_empty() => Some(image.as_str().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::sandbox_image;

    #[test]
    fn the_sandbox_image_is_reported_or_unknown() {
        let deep = "[".repeat(100_000);
        for (config, expected) in [
            (
                r#"{"sandboxImage":"registry.k8s.io/pause:3.6","containerd":{}}"#,
                Some("registry.k8s.io/pause:3.6"),
            ),
            (r#"{"sandboxImage":""}"#, None),
            (r#"{"sandboxImage":7}"#, None),
            (r#"{"sandbox_image":"x"}"#, None),
            ("[]", None),
            ("sandbox_image = \"x\"", None),
            ("", None),
            (&*deep, None),
        ] {
            assert_eq!(sandbox_image(config).as_deref(), expected);
        }
    }
}
