//! A runtime's health and configuration.

use std::sync::Arc;

use kubegc_core::RuntimeError;
use serde_json::Value;

use crate::{
    CriRuntime,
    bindings::{StatusRequest, StatusResponse},
    call::Method,
};

/// The status of a runtime.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeStatus {
    /// Its health conditions, in its order. A collector does not need `NetworkReady`.
    pub conditions: Vec<Condition>,
    /// The image of sandboxes, if it reports one: containerd before 2.0 and CRI-O do. It is not collected
    /// because the runtime pins it (Kubernetes 1.29 and later), or, before, because it is configured in the
    /// collector.
    pub sandbox_image: Option<Arc<str>>,
}

impl RuntimeStatus {
    /// Whether the runtime is ready to work: the condition `RuntimeReady`.
    #[must_use]
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
    /// Requests the runtime's status and, from its configuration, the image of sandboxes.
    ///
    /// # Errors
    /// The runtime reports an error, or a response without a status.
    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let method = Method::reads("Status");
        let message = StatusRequest { verbose: true };
        let (response, _) = self
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
        read(response)
            .ok_or_else(|| RuntimeError::refused("Status: an incomplete response: status is missing"))
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

/// The image of sandboxes in a runtime's configuration, if that is JSON and names one.
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
