//! What a runtime says of its health and its configuration.

use std::sync::Arc;

use kubegc_core::RuntimeError;
use serde_json::Value;

use crate::{
    CriRuntime,
    bindings::{StatusRequest, StatusResponse},
    call::Method,
};

/// How a runtime is.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeStatus {
    /// What it says of its health, in its order. `NetworkReady` says nothing that a collector needs.
    pub conditions: Vec<Condition>,
    /// The image that it makes sandboxes from, where it tells: containerd before 2.0 and CRI-O do. What keeps it from being collected is that the runtime pins it
    /// (Kubernetes 1.29 and later), or, before, that the collector is told of it.
    pub sandbox_image: Option<Arc<str>>,
}

impl RuntimeStatus {
    /// Whether the runtime says that it is ready to work: the condition `RuntimeReady`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.conditions
            .iter()
            .any(|condition| &*condition.kind == "RuntimeReady" && condition.status)
    }
}

/// One thing that a runtime says of its health.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Which: `RuntimeReady`, `NetworkReady` or another.
    pub kind: Arc<str>,
    /// Whether it holds.
    pub status: bool,
    /// Why, in a word.
    pub reason: Arc<str>,
    /// Why, for people.
    pub message: Arc<str>,
}

impl CriRuntime {
    /// Asks the runtime how it is and, of its configuration, for the image of sandboxes.
    ///
    /// # Errors
    /// The runtime reports an error, or answers without a status.
    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let method = Method::reads("Status");
        let message = StatusRequest { verbose: true };
        let (answer, _) = self
            .runtime
            .read(
                method,
                "",
                self.request_timeout,
                message,
                |mut link, request| async move { link.runtime.status(request).await },
            )
            .await
            .map_err(|failure| failure.of(method))?;
        read(answer).ok_or_else(|| RuntimeError::refused("Status: half an answer: status is missing"))
    }
}

fn read(answer: StatusResponse) -> Option<RuntimeStatus> {
    let conditions = answer.status?.conditions.into_iter().map(|told| Condition {
        kind: told.r#type.into(),
        status: told.status,
        reason: told.reason.into(),
        message: told.message.into(),
    });
    Some(RuntimeStatus {
        conditions: conditions.collect(),
        sandbox_image: answer.info.get("config").and_then(|config| sandbox_image(config)),
    })
}

/// The image of sandboxes in a runtime's configuration, where that is JSON and names one.
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
    fn the_image_of_sandboxes_is_told_or_unknown() {
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
