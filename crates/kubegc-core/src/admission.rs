//! Admission webhooks and policies: the requests that each reviews, and the expressions of policies.

use std::sync::Arc;

use crate::{LabelSelector, RequestMatcher};

/// One entry of `webhooks` of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
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
    pub namespace_selector: LabelSelector,
    pub object_selector: LabelSelector,
}

/// A ValidatingAdmissionPolicy. Its bindings put it into effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The requests that it validates (`matchConstraints`).
    pub resources: MatchResources,
    /// Whether a request is refused if an expression cannot be evaluated (`failurePolicy: Fail`).
    pub refuses_on_failure: bool,
    /// apiVersion and kind of its parameters (`paramKind`).
    pub parameter_kind: Option<(Arc<str>, Arc<str>)>,
    /// CEL expressions that all must be true for a request to be validated (`matchConditions`).
    pub conditions: Vec<Arc<str>>,
    /// Names and CEL expressions of variables, in the order in which they may use each other.
    pub variables: Vec<(Arc<str>, Arc<str>)>,
    pub validations: Vec<Validation>,
}

/// One of `validations` of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Validation {
    /// The CEL expression that must be true.
    pub expression: Arc<str>,
    /// The message of a refusal; may be empty.
    pub message: Arc<str>,
    /// A CEL expression whose result takes the place of the message; may be empty.
    pub message_expression: Arc<str>,
    /// The reason of a refusal, such as `Forbidden`; empty means `Invalid`.
    pub reason: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyBinding {
    pub policy: Arc<str>,
    /// The effects of a failed validation: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<Arc<str>>,
    /// The requests of the policy that it applies to (`matchResources`).
    pub resources: MatchResources,
    /// The parameters (`paramRef`).
    pub parameters: Option<ParameterReference>,
}

/// `paramRef` of a binding: a name or a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ParameterReference {
    /// Name of the object; empty for a selector.
    pub name: Arc<str>,
    /// Its namespace; empty for that of the request.
    pub namespace: Arc<str>,
    pub selector: LabelSelector,
    /// Whether the policy fails if there is no such object (`parameterNotFoundAction: Deny`).
    pub must_exist: bool,
}

/// The requests that a policy or a binding selects (`MatchResources`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchResources {
    /// Whether a rule also matches a request for the same objects in another group or version
    /// (`matchPolicy: Equivalent`).
    pub matches_equivalent: bool,
    /// One of the rules must match. Without rules, every request does.
    pub rules: Vec<RequestMatcher>,
    /// None of these rules may match.
    pub excluded: Vec<RequestMatcher>,
    pub namespace_selector: LabelSelector,
    pub object_selector: LabelSelector,
}
