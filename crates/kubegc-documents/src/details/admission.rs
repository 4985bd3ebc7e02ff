//! Fields of webhook configurations, admission policies and APIServices.

use std::sync::Arc;

use kubegc_core::{
    RequestMatcher, Scope,
    admission::{MatchResources, ParameterReference, Policy, PolicyBinding, Validation, Webhook},
    json::JsonType,
};

use super::{
    ApiServiceDetails,
    facts::{Codec, Fact},
    node::Conditions,
    reading::{At, Found, Origin, Reading, Unreadable},
};

/// The webhooks of a configuration that can be read; `None` if the list was stripped. In `v1beta1`
/// failures are ignored and policies are exact by default.
pub(super) fn webhooks(reading: &mut Reading<'_>, object: At<'_, '_>, is_beta: bool) -> Option<Vec<Webhook>> {
    let webhooks = object.field("webhooks");
    if webhooks.is_absent() && reading.origin == Origin::Dump {
        return None;
    }
    let read = |reading: &mut Reading<'_>, at: At<'_, '_>| webhook(reading, at, is_beta);
    Some(reading.entries(webhooks, JsonType::Map, read).0)
}

fn webhook(reading: &mut Reading<'_>, at: At<'_, '_>, is_beta: bool) -> Result<Webhook, Unreadable> {
    let name = reading.text_or_empty(at.field("name"));
    let failure_policy = reading.text(at.field("failurePolicy"));
    let match_policy = reading.text(at.field("matchPolicy"));
    let is = |policy: Option<Arc<str>>, name: &str| policy.map_or(!is_beta, |policy| *policy == *name);
    let service = match reading.map(at.field("clientConfig")) {
        Ok(Some(client)) => service(reading, client.field("service")),
        Ok(None) => Ok(None),
        Err(unreadable) => Err(unreadable),
    };
    let rules = reading.list(at.field("rules"), JsonType::Map, rule);
    let namespace_selector = Fact::read(reading, at.field("namespaceSelector"));
    let object_selector = Fact::read(reading, at.field("objectSelector"));
    let conditions = at.field("matchConditions");
    if !reading.values(conditions)?.is_empty() {
        return Err(reading.bad(conditions, "CEL expressions are not evaluated"));
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

fn rule(reading: &mut Reading<'_>, at: At<'_, '_>) -> Found<RequestMatcher> {
    let scope = match reading.text(at.field("scope"))?.as_deref() {
        None | Some("*") => None,
        Some("Namespaced") => Some(Scope::Namespaced),
        Some("Cluster") => Some(Scope::Cluster),
        Some(_) => return Err(reading.bad(at.field("scope"), "neither Namespaced nor Cluster nor *")),
    };
    let operations = reading.all_texts(at.field("operations"))?;
    let lists = [
        reading.all_texts(at.field("apiGroups"))?,
        reading.all_texts(at.field("apiVersions"))?,
        reading.all_texts(at.field("resources"))?,
    ];
    Ok(RequestMatcher::of_webhook(operations, lists, scope))
}

/// An admission policy; `None` if a part of it cannot be read.
pub(super) fn policy(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<Policy> {
    let spec = reading.part(&object, "spec")?;
    let failure_policy = reading.text(spec.field("failurePolicy"));
    let resources = match_resources(reading, spec.field("matchConstraints"));
    let parameter_kind = pair(reading, spec.field("paramKind"), ["apiVersion", "kind"]);
    let conditions = reading.list(spec.field("matchConditions"), JsonType::Map, validation);
    let variables = reading.list(spec.field("variables"), JsonType::Map, |reading, at| {
        let name = reading.text_or_empty(at.field("name"))?;
        let expression = reading.text_or_empty(at.field("expression"))?;
        Ok((name, expression))
    });
    let validations = reading.list(spec.field("validations"), JsonType::Map, validation);
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
pub(super) fn binding(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<PolicyBinding> {
    let spec = reading.part(&object, "spec")?;
    let policy = reading.text_or_empty(spec.field("policyName"));
    let actions = reading.all_texts(spec.field("validationActions"));
    let resources = match_resources(reading, spec.field("matchResources"));
    let parameters = parameters(reading, spec.field("paramRef"));
    Some(PolicyBinding {
        policy: policy.ok()?,
        actions: actions.ok()?,
        resources: resources.ok()?,
        parameters: parameters.ok()?,
    })
}

fn match_resources(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<MatchResources, Unreadable> {
    if reading.map(at)?.is_none() {
        return Ok(MatchResources::default());
    }
    let match_policy = reading.text(at.field("matchPolicy"));
    let rules = reading.list(at.field("resourceRules"), JsonType::Map, named_rule);
    let excluded = reading.list(at.field("excludeResourceRules"), JsonType::Map, named_rule);
    let namespace_selector = Fact::read(reading, at.field("namespaceSelector"));
    let object_selector = Fact::read(reading, at.field("objectSelector"));
    Ok(MatchResources {
        matches_equivalent: match_policy?.is_none_or(|policy| *policy == *"Equivalent"),
        rules: rules?.into_iter().flatten().collect(),
        excluded: excluded?.into_iter().flatten().collect(),
        namespace_selector: namespace_selector?,
        object_selector: object_selector?,
    })
}

/// A rule that may name objects.
fn named_rule(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Vec<RequestMatcher>, Unreadable> {
    let names = reading.all_texts(at.field("resourceNames"))?;
    let matcher = rule(reading, at)?;
    Ok(matcher.map_or_else(Vec::new, |matcher| matcher.of_names(&names)))
}

fn validation(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Validation, Unreadable> {
    Ok(Validation {
        expression: reading.text_or_empty(at.field("expression"))?,
        message: reading.text_or_empty(at.field("message"))?,
        message_expression: reading.text_or_empty(at.field("messageExpression"))?,
        reason: reading.text_or_empty(at.field("reason"))?,
    })
}

fn parameters(reading: &mut Reading<'_>, at: At<'_, '_>) -> Found<ParameterReference> {
    if reading.map(at)?.is_none() {
        return Ok(None);
    }
    let action = reading.text_or_empty(at.field("parameterNotFoundAction"))?;
    Ok(Some(ParameterReference {
        name: reading.text_or_empty(at.field("name"))?,
        namespace: reading.text_or_empty(at.field("namespace"))?,
        selector: Fact::read(reading, at.field("selector"))?,
        must_exist: *action == *"Deny",
    }))
}

/// Namespace and name of a Service.
pub(super) fn service(reading: &mut Reading<'_>, at: At<'_, '_>) -> Found<(Arc<str>, Arc<str>)> {
    pair(reading, at, ["namespace", "name"])
}

/// Two texts of a map, if there is one.
fn pair(
    reading: &mut Reading<'_>,
    at: At<'_, '_>,
    [first, second]: [&str; 2],
) -> Found<(Arc<str>, Arc<str>)> {
    if reading.map(at)?.is_none() {
        return Ok(None);
    }
    let first = reading.text_or_empty(at.field(first))?;
    let second = reading.text_or_empty(at.field(second))?;
    Ok(Some((first, second)))
}

pub(super) fn api_service(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<ApiServiceDetails> {
    let spec = reading.part(&object, "spec")?;
    let group = reading.text_or_empty(spec.field("group"));
    let version = reading.text_or_empty(spec.field("version"));
    let service = service(reading, spec.field("service"));
    let status = object.field("status");
    let available = match reading.map(status) {
        Ok(_) => Conditions(&["Available"]).read(reading, status.field("conditions")),
        Err(unreadable) => Err(unreadable),
    };
    Some(ApiServiceDetails {
        group: group.ok()?,
        version: version.ok()?,
        service: service.ok()?,
        available: available.ok().and_then(|mut found| found.pop()),
    })
}
