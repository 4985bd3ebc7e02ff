//! ValidatingAdmissionPolicies and their bindings.
//!
//! # Upstream
//! `Dispatch` and `Validate` in
//! [`plugin/policy/validating`](https://github.com/kubernetes/kubernetes/tree/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating),
//! `Matches` in `plugin/policy/matching/matching.go`, `CollectParams` in
//! `plugin/policy/generic/policy_dispatcher.go`.

#[cfg(feature = "cel")]
use std::cell::OnceCell;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Behavior, RequestMatcher, Uid,
    admission::{MatchResources, ParameterReference, Policy, PolicyBinding, Validation},
};
use serde_json::Value;

use super::{ApiServer, admission, hooks, write::Request};
use crate::{
    StoredObject,
    object::list,
    status::{self, Cause, Refusal, RefusedBy, Result},
};

/// Policies are served and evaluated by default.
const EVALUATED: Behavior = Behavior::since(30, 0, "kubernetes KEP-3488");

const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// A request that a policy may refuse: an expression reads data that the server does not have. The server
/// performed the request.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UndecidedRequest {
    pub policy: Arc<str>,
    pub expression: Arc<str>,
    /// The object of the request.
    pub uid: Uid,
    /// Whether the object was terminating before the request.
    pub was_terminating: bool,
}

#[derive(Clone, Debug, Default)]
struct Facts {
    policies: BTreeMap<Arc<str>, Policy>,
    bindings: BTreeMap<Arc<str>, PolicyBinding>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    /// Those of [`ApiServer::with_policies`].
    given: Arc<Facts>,
    undecided: BTreeSet<UndecidedRequest>,
}

/// The result of a policy for one request and one parameter.
#[derive(Default)]
struct Decision {
    /// Reason and message of each validation that fails.
    failures: Vec<(Arc<str>, String)>,
    /// The expression that would have to be evaluated.
    undecided: Option<Arc<str>>,
}

/// Why an expression has no result.
enum Problem {
    /// It reads data that the server does not have.
    Unknown,
    Error(String),
}

impl ApiServer {
    /// The same server, with ValidatingAdmissionPolicies and their bindings by name, for objects of which
    /// only metadata is known.
    ///
    /// Expressions that are not literals are evaluated with the feature `cel`. An expression that needs other
    /// data refuses no request: see [`undecided_requests`](Self::undecided_requests). Releases before 1.30 do
    /// not evaluate policies.
    pub fn with_policies(
        mut self,
        policies: BTreeMap<Arc<str>, Policy>,
        bindings: BTreeMap<Arc<str>, PolicyBinding>,
    ) -> Self {
        if self.version.has(EVALUATED) {
            self.policies = Some(Policies {
                given: Arc::new(Facts { policies, bindings }),
                undecided: BTreeSet::new(),
            });
        }
        self
    }

    /// The requests for existing objects that were performed although a policy may refuse them.
    pub fn undecided_requests(&self) -> BTreeSet<UndecidedRequest> {
        let policies = self.policies.as_ref();
        policies
            .map(|policies| policies.undecided.clone())
            .unwrap_or_default()
    }

    /// Whether the server has bindings of policies: those that were given, or with types stored ones.
    pub(super) fn has_policies(&self) -> bool {
        let Some(policies) = &self.policies else {
            return false;
        };
        let stored = self.table_of("validatingadmissionpolicybindings.admissionregistration.k8s.io");
        let has_stored = stored.is_some_and(|table| table.len() > 0) && self.version.has(EVALUATED);
        !policies.given.bindings.is_empty() || self.settings.types && has_stored
    }

    /// Evaluates the policies for a request. Returns warnings.
    ///
    /// # Errors
    /// The refusal of a policy.
    pub(super) fn evaluate_policies(&mut self, request: Request<'_>) -> Result<Vec<String>> {
        let Some(policies) = self.policies.as_ref().filter(|_| self.has_policies()) else {
            return Ok(Vec::new());
        };
        if *self.resource(request.kind).group == *admission::GROUP {
            return Ok(Vec::new());
        }
        let is_partial = !policies.given.bindings.is_empty();
        let facts = match is_partial {
            true => Arc::clone(&policies.given),
            false => Arc::new(self.stored_policies()),
        };
        let reviewed = Reviewed {
            server: self,
            request,
            is_partial,
            #[cfg(feature = "cel")]
            review: OnceCell::new(),
            #[cfg(feature = "cel")]
            namespace: OnceCell::new(),
        };
        let (mut warnings, mut undecided) = (Vec::new(), Vec::new());
        let mut refusal = None;
        for (name, binding) in &facts.bindings {
            let policy = facts.policies.get(&binding.policy);
            let matches = |policy: &&Policy| {
                reviewed.matches(&policy.resources) && reviewed.matches(&binding.resources)
            };
            let Some(policy) = policy.filter(matches) else {
                continue;
            };
            let has = |action: &str| binding.actions.iter().any(|known| **known == *action);
            let decision = match reviewed.parameters(policy, binding) {
                Ok(parameters) => {
                    let mut decision = Decision::default();
                    for parameter in &parameters {
                        let next = reviewed.decide(policy, parameter);
                        decision.failures.extend(next.failures);
                        decision.undecided = decision.undecided.or(next.undecided);
                    }
                    decision
                }
                Err(Problem::Unknown) => Decision {
                    failures: Vec::new(),
                    undecided: policy.validations.first().map(|one| Arc::clone(&one.expression)),
                },
                // A binding with an error refuses, whatever its actions are.
                Err(Problem::Error(problem)) => {
                    if policy.refuses_on_failure {
                        let why = format!("failed to configure binding: {problem}");
                        refusal.get_or_insert_with(|| reviewed.refusal(name, binding, "", &why));
                    }
                    continue;
                }
            };
            for (reason, message) in &decision.failures {
                if has("Deny") {
                    refusal.get_or_insert_with(|| reviewed.refusal(name, binding, reason, message));
                }
                let policy = &binding.policy;
                let warning =
                    format!("Validation failed for {POLICY} '{policy}' with binding '{name}': {message}");
                if has("Warn") && !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
            if decision.failures.is_empty()
                && has("Deny")
                && let (Some(expression), Some(old)) = (decision.undecided, request.old)
            {
                undecided.push(UndecidedRequest {
                    policy: Arc::clone(&binding.policy),
                    expression,
                    uid: old.meta.uid.clone(),
                    was_terminating: old.meta.is_deleting(),
                });
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if let Some(policies) = &mut self.policies {
            policies.undecided.extend(undecided);
        }
        Ok(warnings)
    }

    /// The policies and bindings that are stored, with the defaults of the API server.
    fn stored_policies(&self) -> Facts {
        let stored = |kind: &str| {
            let version = format!("{}/v1", admission::GROUP);
            let kind = self.shape.catalog.mapping(&version, kind);
            kind.map(|kind| self.objects(kind, None)).unwrap_or_default()
        };
        let named = |object: &Arc<StoredObject>| Arc::clone(&object.meta.name);
        let spec = |object: &Arc<StoredObject>| object.at(&["spec"]).cloned().unwrap_or_default();
        let policies = stored(POLICY);
        let policies = policies.iter().map(|object| (named(object), read(&spec(object))));
        let bindings = stored(BINDING);
        let bindings = bindings
            .iter()
            .map(|object| (named(object), read_binding(&spec(object))));
        Facts {
            policies: policies.collect(),
            bindings: bindings.collect(),
        }
    }
}

impl Policies {
    /// Follows the removal of a policy or binding.
    pub(super) fn forget(&mut self, kind: &str, removed: &str) {
        if self.given.bindings.is_empty() {
            return;
        }
        let given = Arc::make_mut(&mut self.given);
        match kind {
            POLICY => drop(given.policies.remove(removed)),
            BINDING => drop(given.bindings.remove(removed)),
            _ => {}
        }
    }
}

/// A request that policies review.
struct Reviewed<'a> {
    server: &'a ApiServer,
    request: Request<'a>,
    /// Whether only metadata of objects is known.
    is_partial: bool,
    /// The `request` of an `AdmissionReview`.
    #[cfg(feature = "cel")]
    review: OnceCell<Value>,
    /// The Namespace of the object, or null.
    #[cfg(feature = "cel")]
    namespace: OnceCell<Value>,
}

impl Reviewed<'_> {
    /// The namespace of the object; empty for cluster-scoped ones.
    fn own_namespace(&self) -> &str {
        self.request.object().map_or("", |object| &*object.meta.namespace)
    }

    fn matches(&self, resources: &MatchResources) -> bool {
        let (server, request) = (self.server, self.request);
        let equivalent = resources.matches_equivalent;
        let matches = |rules: &[RequestMatcher]| server.matches_rules(rules, equivalent, request);
        (resources.rules.is_empty() || matches(&resources.rules))
            && !matches(&resources.excluded)
            && server.is_in_namespace(&resources.namespace_selector, request)
            && request
                .metas()
                .any(|meta| resources.object_selector.matches(meta))
    }

    /// The parameters of a policy: one null if it has none.
    fn parameters(&self, policy: &Policy, binding: &PolicyBinding) -> Result<Vec<Value>, Problem> {
        let (Some((api_version, kind)), Some(reference)) = (&policy.parameter_kind, &binding.parameters)
        else {
            return Ok(vec![Value::Null]);
        };
        if self.is_partial {
            return Err(Problem::Unknown);
        }
        let catalog = self.server.catalog();
        let kind_id = catalog.mapping(api_version, kind);
        let Some(kind_id) = kind_id.filter(|kind| self.server.serves(*kind)) else {
            let why = format!("paramKind kind `{api_version}, Kind={kind}` not known");
            return Err(Problem::Error(why));
        };
        let resource = &catalog[kind_id];
        let name = &reference.name;
        let namespace = match (resource.is_namespaced(), &*reference.namespace) {
            (true, "") => self.own_namespace(),
            (true, namespace) => namespace,
            (false, "") => "",
            (false, _) => {
                let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
                return Err(Problem::Error(why.to_owned()));
            }
        };
        if resource.is_namespaced() && namespace.is_empty() {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(Problem::Error(why.to_owned()));
        }
        let found: Vec<Arc<StoredObject>> = match &**name {
            "" => self.server.objects(kind_id, Some(namespace)),
            name => {
                let object = self.server.object(kind_id, namespace, name);
                object.cloned().into_iter().collect()
            }
        };
        let found = found
            .iter()
            .filter(|object| !name.is_empty() || reference.selector.matches(&object.meta));
        let found: Vec<Value> = found.map(|object| object.to_json(resource)).collect();
        if found.is_empty() && reference.must_exist {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(Problem::Error(why.to_owned()));
        }
        Ok(found)
    }

    fn decide(&self, policy: &Policy, parameter: &Value) -> Decision {
        let error = |expression: &str, problem: &str| {
            format!("expression '{expression}' resulted in error: {problem}")
        };
        let (mut unknown_match, mut problems) = (None, Vec::new());
        for condition in &policy.conditions {
            match self.holds(condition, policy, parameter) {
                Ok(true) => {}
                Ok(false) => return Decision::default(),
                Err(Problem::Unknown) => unknown_match = unknown_match.or(Some(condition)),
                Err(Problem::Error(problem)) => problems.push(error(condition, &problem)),
            }
        }
        let mut failures = Vec::new();
        let mut undecided = None;
        if problems.is_empty() {
            for validation in &policy.validations {
                let expression = &validation.expression;
                match self.holds(expression, policy, parameter) {
                    Ok(true) => {}
                    Ok(false) => {
                        let message = self.message(validation, policy, parameter);
                        failures.push((Arc::clone(&validation.reason), message));
                    }
                    Err(Problem::Unknown) => undecided = undecided.or(Some(expression)),
                    Err(Problem::Error(problem)) if policy.refuses_on_failure => {
                        failures.push((Arc::default(), error(expression, &problem)));
                    }
                    Err(Problem::Error(_)) => {}
                }
            }
        } else if policy.refuses_on_failure {
            failures.push((Arc::default(), status::joined(&problems)));
        }
        if let Some(condition) = unknown_match {
            let may_refuse = !failures.is_empty() || undecided.is_some();
            return Decision {
                failures: Vec::new(),
                undecided: may_refuse.then(|| Arc::clone(condition)),
            };
        }
        Decision {
            failures,
            undecided: undecided.cloned(),
        }
    }

    /// Whether an expression holds. The literals `true` and `false` need no CEL.
    fn holds(&self, expression: &str, policy: &Policy, parameter: &Value) -> Result<bool, Problem> {
        if let Ok(holds) = expression.trim().parse::<bool>() {
            return Ok(holds);
        }
        let result = self.evaluate(expression, policy, parameter)?;
        let holds = result.as_bool().ok_or("must evaluate to bool");
        holds.map_err(|problem| Problem::Error(problem.to_owned()))
    }

    /// The result of an expression if it is a text or truth value, or else null.
    #[cfg(feature = "cel")]
    fn evaluate(&self, expression: &str, policy: &Policy, parameter: &Value) -> Result<Value, Problem> {
        let rules = self.server.rules();
        if self.is_partial && !rules.is_of_metadata(expression, &policy.variables) {
            return Err(Problem::Unknown);
        }
        let namespace = || {
            let namespace = self.server.namespace_object(self.own_namespace());
            let kind = self.server.catalog().mapping("v1", "Namespace");
            let shown = |kind| Some(namespace?.to_json(self.server.resource(kind)));
            kind.and_then(shown).unwrap_or_default()
        };
        let review = || self.server.review_request(self.request);
        let scene = super::crd::cel::policy::Scene {
            review: self.review.get_or_init(review),
            namespace: self.namespace.get_or_init(namespace),
            parameter,
            variables: &policy.variables,
        };
        rules.evaluated(expression, scene).map_err(Problem::Error)
    }

    #[cfg(not(feature = "cel"))]
    fn evaluate(&self, _: &str, _: &Policy, _: &Value) -> Result<Value, Problem> {
        Err(match self.is_partial {
            true => Problem::Unknown,
            false => Problem::Error("evaluation needs the feature `cel`".to_owned()),
        })
    }

    fn message(&self, validation: &Validation, policy: &Policy, parameter: &Value) -> String {
        let evaluated = self.evaluate(&validation.message_expression, policy, parameter);
        let message = evaluated.ok().and_then(|text| shown_message(text.as_str()?));
        message.unwrap_or_else(|| match validation.message.trim() {
            "" => format!("failed expression: {}", validation.expression.trim()),
            message => message.to_owned(),
        })
    }

    fn refusal(&self, name: &Arc<str>, binding: &PolicyBinding, reason: &str, message: &str) -> Refusal {
        let policy = &binding.policy;
        let why = format!("{POLICY} '{policy}' with binding '{name}' denied request: {message}");
        let cause = Cause::new("", "", why.clone());
        let object = self.request.metas().next().map_or("", |meta| &*meta.name);
        let resource = self.server.resource(self.request.kind);
        let mut refusal = status::forbidden(resource, object, &why, vec![cause]);
        let (code, reason) = match reason {
            "Forbidden" => (403, "Forbidden"),
            "Unauthorized" => (401, "Unauthorized"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        refusal.code = code;
        refusal.reason = reason;
        refusal.by(RefusedBy::Policy {
            policy: Arc::clone(policy),
            binding: Arc::clone(name),
        })
    }
}

/// The longest message of an expression, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The message that an expression returned, if it can be shown.
pub(super) fn shown_message(message: &str) -> Option<String> {
    let message = message.trim();
    let fits = !message.is_empty() && message.len() <= MESSAGE_BYTES_MAX && !message.contains('\n');
    fits.then(|| message.to_owned())
}

fn text(value: &Value, key: &str) -> Arc<str> {
    value.get(key).and_then(Value::as_str).unwrap_or_default().into()
}

fn read(spec: &Value) -> Policy {
    let parameter_kind = spec.get("paramKind").filter(|kind| kind.is_object());
    let validations = list(spec, "validations").map(|validation| Validation {
        expression: text(validation, "expression"),
        message: text(validation, "message"),
        message_expression: text(validation, "messageExpression"),
        reason: text(validation, "reason"),
    });
    Policy {
        resources: resources(&spec["matchConstraints"]),
        refuses_on_failure: *text(spec, "failurePolicy") != *"Ignore",
        parameter_kind: parameter_kind.map(|kind| (text(kind, "apiVersion"), text(kind, "kind"))),
        conditions: list(spec, "matchConditions")
            .map(|condition| text(condition, "expression"))
            .collect(),
        variables: list(spec, "variables")
            .map(|variable| (text(variable, "name"), text(variable, "expression")))
            .collect(),
        validations: validations.collect(),
    }
}

fn read_binding(spec: &Value) -> PolicyBinding {
    let parameters = spec.get("paramRef").filter(|parameters| parameters.is_object());
    PolicyBinding {
        policy: text(spec, "policyName"),
        actions: hooks::texts(spec, "validationActions"),
        resources: resources(&spec["matchResources"]),
        parameters: parameters.map(|parameters| ParameterReference {
            name: text(parameters, "name"),
            namespace: text(parameters, "namespace"),
            selector: hooks::selector(parameters, "selector"),
            must_exist: *text(parameters, "parameterNotFoundAction") == *"Deny",
        }),
    }
}

fn resources(value: &Value) -> MatchResources {
    let rules = |key: &str| {
        let rules = list(value, key).filter_map(|rule| {
            let names = hooks::texts(rule, "resourceNames");
            Some(hooks::matcher(rule)?.of_names(&names))
        });
        rules.flatten().collect()
    };
    MatchResources {
        matches_equivalent: *text(value, "matchPolicy") != *"Exact",
        rules: rules("resourceRules"),
        excluded: rules("excludeResourceRules"),
        namespace_selector: hooks::selector(value, "namespaceSelector"),
        object_selector: hooks::selector(value, "objectSelector"),
    }
}
