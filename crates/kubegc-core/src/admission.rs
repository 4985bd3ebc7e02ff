//! Admission webhooks: the requests that an API server sends to each.

use std::sync::Arc;

use crate::{LabelSelector, Scope};

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
    pub rules: Vec<WebhookRule>,
    /// The labels of the object's namespace.
    pub namespace_selector: LabelSelector,
    /// The labels of the object.
    pub object_selector: LabelSelector,
}

/// The requests that a webhook receives. `*` in a list matches everything.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WebhookRule {
    /// Operations: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operations: Vec<Arc<str>>,
    /// API groups.
    pub api_groups: Vec<Arc<str>>,
    /// API versions.
    pub api_versions: Vec<Arc<str>>,
    /// Resources, with subresources as in `pods/status`, `pods/*` and `*/*`.
    pub resources: Vec<Arc<str>>,
    /// Cluster-scoped or namespaced resources only.
    pub scope: Option<Scope>,
}

impl WebhookRule {
    /// Whether the rule matches a request. `is_namespaced` refers to the object: a Namespace is not
    /// namespaced.
    ///
    /// # Upstream
    /// [`Matcher.Matches`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/rules/rules.go).
    #[must_use]
    pub fn matches(
        &self,
        operation: &str,
        [group, version, resource, subresource]: [&str; 4],
        is_namespaced: bool,
    ) -> bool {
        let has = |list: &[Arc<str>], value: &str| list.iter().any(|one| **one == *"*" || **one == *value);
        let is_resource = |rule: &Arc<str>| {
            let (name, sub) = rule.split_once('/').unwrap_or((rule, ""));
            (name == "*" || name == resource) && (sub == "*" || sub == subresource)
        };
        has(&self.operations, operation)
            && has(&self.api_groups, group)
            && has(&self.api_versions, version)
            && self.resources.iter().any(is_resource)
            && self
                .scope
                .is_none_or(|scope| (scope == Scope::Namespaced) == is_namespaced)
    }
}
