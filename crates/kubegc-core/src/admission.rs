//! Admission webhooks: the requests that an API server sends to each.

use std::sync::Arc;

use crate::{LabelSelector, RequestMatcher};

/// One entry of `webhooks` of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Webhook {
    /// Its name, such as `pods.example.com`.
    pub name: Arc<str>,
    /// Namespace and name of the Service that is called; `None` for a URL.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// Whether a request is refused if the webhook cannot be called (`failurePolicy: Fail`).
    pub refuses_on_failure: bool,
    /// Whether a rule also matches a request for the same objects in another group or version
    /// (`matchPolicy: Equivalent`).
    pub matches_equivalent: bool,
    /// The requests that it receives: one of the rules must match.
    pub rules: Vec<RequestMatcher>,
    /// The labels of the object's namespace.
    pub namespace_selector: LabelSelector,
    /// The labels of the object.
    pub object_selector: LabelSelector,
}
