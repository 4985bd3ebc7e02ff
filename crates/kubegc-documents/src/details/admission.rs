//! Fields of webhook configurations, admission policies and APIServices.

use std::sync::Arc;

use kubegc_core::json::Soft;
use kubegc_core::{
    RequestMatcher, Scope,
    admission::{MatchResources, ParameterReference, Policy, PolicyBinding, Validation, Webhook},
};

use super::{
    ApiServiceDetails, NO_STATUS, SPEC,
    node::conditions,
    reading::{Found, Origin, Path, Reading, Unreadable},
    selector::selector,
    spec_of, status_of,
};
use crate::body::{self, Body};

/// The webhooks of a configuration that can be read; `None` if the list was stripped. In `v1beta1`
/// failures are ignored and policies are exact by default.
pub(super) fn webhooks(reading: &mut Reading<'_>, body: &Body<'_>, is_beta: bool) -> Option<Vec<Webhook>> {
    if body.webhooks.is_absent() && reading.origin == Origin::Dump {
        return None;
    }
    let path = Path::of("webhooks");
    let read = |reading: &mut Reading<'_>, webhook: &body::Webhook<'_>, path: Path<'_>| {
        webhook_of(reading, webhook, path, is_beta)
    };
    Some(reading.entries(&body.webhooks, path, read).0)
}

fn webhook_of(
    reading: &mut Reading<'_>,
    webhook: &body::Webhook<'_>,
    path: Path<'_>,
    is_beta: bool,
) -> Result<Webhook, Unreadable> {
    let name = reading.text_or_empty(&webhook.name, path.field("name"));
    let failure_policy = reading.text(&webhook.failure_policy, path.field("failurePolicy"));
    let match_policy = reading.text(&webhook.match_policy, path.field("matchPolicy"));
    let is = |policy: Option<Arc<str>>, name: &str| policy.map_or(!is_beta, |policy| *policy == *name);
    let client_path = path.field("clientConfig");
    let service = match reading.value(&webhook.client_config, client_path) {
        Ok(Some(client)) => service(reading, &client.service, client_path.field("service")),
        Ok(None) => Ok(None),
        Err(unreadable) => Err(unreadable),
    };
    let rules = reading.list(&webhook.rules, path.field("rules"), rule);
    let selector_path = path.field("namespaceSelector");
    let namespace_selector = selector(reading, &webhook.namespace_selector, selector_path);
    let object_selector = selector(reading, &webhook.object_selector, path.field("objectSelector"));
    let conditions_path = path.field("matchConditions");
    if let Some(conditions) = reading.value(&webhook.match_conditions, conditions_path)?
        && !conditions.is_empty()
    {
        return Err(reading.bad(conditions_path, "CEL expressions are not evaluated"));
    }
    Ok(Webhook {
        name: name?,
        service: service?,
        refuses_on_failure: is(failure_policy?, "Fail"),
        matches_equivalent: is(match_policy?, "Equivalent"),
        rules: rules?.into_iter().flatten().collect(),
        namespace_selector: namespace_selector?,
        object_selector: object_selector?,
    })
}

fn rule(
    reading: &mut Reading<'_>,
    rule: &body::WebhookRule<'_>,
    path: Path<'_>,
) -> Result<Option<RequestMatcher>, Unreadable> {
    let scope_path = path.field("scope");
    let scope = match reading.text(&rule.scope, scope_path)?.as_deref() {
        None | Some("*") => None,
        Some("Namespaced") => Some(Scope::Namespaced),
        Some("Cluster") => Some(Scope::Cluster),
        Some(_) => return Err(reading.bad(scope_path, "neither Namespaced nor Cluster nor *")),
    };
    let operations = reading.all_texts(&rule.operations, path.field("operations"))?;
    let lists = [
        reading.all_texts(&rule.api_groups, path.field("apiGroups"))?,
        reading.all_texts(&rule.api_versions, path.field("apiVersions"))?,
        reading.all_texts(&rule.resources, path.field("resources"))?,
    ];
    Ok(RequestMatcher::of_webhook(operations, lists, scope))
}

/// An admission policy; `None` if a part of it cannot be read.
pub(super) fn policy(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<Policy> {
    let spec = spec_of(reading, body)?;
    let failure_policy = reading.text(&spec.failure_policy, SPEC.field("failurePolicy"));
    let resources = match_resources(reading, &spec.match_constraints, SPEC.field("matchConstraints"));
    let parameter_kind = parameter_kind(reading, &spec.param_kind, SPEC.field("paramKind"));
    let conditions = reading.list(&spec.match_conditions, SPEC.field("matchConditions"), validation);
    let variables = reading.list(&spec.variables, SPEC.field("variables"), variable);
    let validations = reading.list(&spec.validations, SPEC.field("validations"), validation);
    let conditions = conditions.ok()?.into_iter();
    Some(Policy {
        resources: resources.ok()?,
        refuses_on_failure: failure_policy.ok()?.is_none_or(|policy| *policy == *"Fail"),
        parameter_kind: parameter_kind.ok()?,
        conditions: conditions.map(|condition| condition.expression).collect(),
        variables: variables.ok()?,
        validations: validations.ok()?,
    })
}

/// A binding of an admission policy; `None` if a part of it cannot be read.
pub(super) fn binding(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<PolicyBinding> {
    let spec = spec_of(reading, body)?;
    let policy = reading.text_or_empty(&spec.policy_name, SPEC.field("policyName"));
    let actions = reading.all_texts(&spec.validation_actions, SPEC.field("validationActions"));
    let resources = match_resources(reading, &spec.match_resources, SPEC.field("matchResources"));
    let parameters = parameters(reading, &spec.param_ref, SPEC.field("paramRef"));
    Some(PolicyBinding {
        policy: policy.ok()?,
        actions: actions.ok()?,
        resources: resources.ok()?,
        parameters: parameters.ok()?,
    })
}

fn match_resources(
    reading: &mut Reading<'_>,
    resources: &Soft<body::MatchResources<'_>>,
    path: Path<'_>,
) -> Result<MatchResources, Unreadable> {
    let Some(resources) = reading.value(resources, path)? else {
        return Ok(MatchResources::default());
    };
    let match_policy = reading.text(&resources.match_policy, path.field("matchPolicy"));
    let rules = reading.list(&resources.resource_rules, path.field("resourceRules"), named_rule);
    let excluded_path = path.field("excludeResourceRules");
    let excluded = reading.list(&resources.exclude_resource_rules, excluded_path, named_rule);
    let selector_path = path.field("namespaceSelector");
    let namespace_selector = selector(reading, &resources.namespace_selector, selector_path);
    let object_selector = selector(reading, &resources.object_selector, path.field("objectSelector"));
    Ok(MatchResources {
        matches_equivalent: match_policy?.is_none_or(|policy| *policy == *"Equivalent"),
        rules: rules?.into_iter().flatten().collect(),
        excluded: excluded?.into_iter().flatten().collect(),
        namespace_selector: namespace_selector?,
        object_selector: object_selector?,
    })
}

/// A rule that may name objects.
fn named_rule(
    reading: &mut Reading<'_>,
    named: &body::WebhookRule<'_>,
    path: Path<'_>,
) -> Result<Vec<RequestMatcher>, Unreadable> {
    let names = reading.all_texts(&named.resource_names, path.field("resourceNames"))?;
    let matcher = rule(reading, named, path)?;
    Ok(matcher.map_or_else(Vec::new, |matcher| matcher.of_names(&names)))
}

fn validation(
    reading: &mut Reading<'_>,
    validation: &body::PolicyExpression<'_>,
    path: Path<'_>,
) -> Result<Validation, Unreadable> {
    let message_path = path.field("messageExpression");
    Ok(Validation {
        expression: reading.text_or_empty(&validation.expression, path.field("expression"))?,
        message: reading.text_or_empty(&validation.message, path.field("message"))?,
        message_expression: reading.text_or_empty(&validation.message_expression, message_path)?,
        reason: reading.text_or_empty(&validation.reason, path.field("reason"))?,
    })
}

/// Name and expression of a variable.
fn variable(
    reading: &mut Reading<'_>,
    variable: &body::PolicyExpression<'_>,
    path: Path<'_>,
) -> Result<(Arc<str>, Arc<str>), Unreadable> {
    let name = reading.text_or_empty(&variable.name, path.field("name"))?;
    let expression = reading.text_or_empty(&variable.expression, path.field("expression"))?;
    Ok((name, expression))
}

/// apiVersion and kind of parameters.
fn parameter_kind(
    reading: &mut Reading<'_>,
    kind: &Soft<body::ParamKind<'_>>,
    path: Path<'_>,
) -> Found<(Arc<str>, Arc<str>)> {
    let Some(kind) = reading.value(kind, path)? else {
        return Ok(None);
    };
    let api_version = reading.text_or_empty(&kind.api_version, path.field("apiVersion"))?;
    let kind = reading.text_or_empty(&kind.kind, path.field("kind"))?;
    Ok(Some((api_version, kind)))
}

fn parameters(
    reading: &mut Reading<'_>,
    parameters: &Soft<body::ParamRef<'_>>,
    path: Path<'_>,
) -> Found<ParameterReference> {
    let Some(parameters) = reading.value(parameters, path)? else {
        return Ok(None);
    };
    let action_path = path.field("parameterNotFoundAction");
    let action = reading.text_or_empty(&parameters.parameter_not_found_action, action_path)?;
    Ok(Some(ParameterReference {
        name: reading.text_or_empty(&parameters.name, path.field("name"))?,
        namespace: reading.text_or_empty(&parameters.namespace, path.field("namespace"))?,
        selector: selector(reading, &parameters.selector, path.field("selector"))?,
        must_exist: *action == *"Deny",
    }))
}

/// Namespace and name of a Service.
pub(super) fn service(
    reading: &mut Reading<'_>,
    service: &Soft<body::ServiceReference<'_>>,
    path: Path<'_>,
) -> Found<(Arc<str>, Arc<str>)> {
    let Some(service) = reading.value(service, path)? else {
        return Ok(None);
    };
    let namespace = reading.text_or_empty(&service.namespace, path.field("namespace"))?;
    let name = reading.text_or_empty(&service.name, path.field("name"))?;
    Ok(Some((namespace, name)))
}

pub(super) fn api_service(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<ApiServiceDetails> {
    let spec = spec_of(reading, body)?;
    let status = status_of(reading, body).unwrap_or(&NO_STATUS);
    let group = reading.text_or_empty(&spec.group, SPEC.field("group"));
    let version = reading.text_or_empty(&spec.version, SPEC.field("version"));
    let service = service(reading, &spec.service, SPEC.field("service"));
    let available = conditions(reading, status, |kind| kind == "Available");
    Some(ApiServiceDetails {
        group: group.ok()?,
        version: version.ok()?,
        service: service.ok()?,
        available: available.ok().and_then(|mut found| found.pop()),
    })
}
