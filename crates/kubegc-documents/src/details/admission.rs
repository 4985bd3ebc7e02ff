//! Fields of webhook configurations, admission policies and APIServices.

use std::sync::Arc;

use kubegc_core::{
    RequestMatcher, Scope,
    admission::{MatchResources, ParameterReference, Policy, PolicyBinding, Validation, Webhook},
    json::JsonType,
};
use serde_json::Value;

use super::{
    ApiServiceDetails,
    facts::{Codec, Fact, Plain},
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
    let client = at.field("clientConfig");
    let webhook = all!(Webhook {
        name: Fact::read(reading, at.field("name")),
        refuses_on_failure: is(reading, at.field("failurePolicy"), "Fail", !is_beta),
        matches_equivalent: is(reading, at.field("matchPolicy"), "Equivalent", !is_beta),
        service: reading
            .map(client)
            .and_then(|_| service(reading, client.field("service"))),
        rules: matchers(reading, at.field("rules"), |reading, at| rule(reading, at)
            .map(Vec::from_iter)),
        namespace_selector: Fact::read(reading, at.field("namespaceSelector")),
        object_selector: Fact::read(reading, at.field("objectSelector")),
    });
    let conditions = at.field("matchConditions");
    if !reading.values(conditions)?.is_empty() {
        return Err(reading.bad(conditions, "CEL expressions are not evaluated"));
    }
    webhook
}

/// The rules of all entries of a list.
fn matchers(
    reading: &mut Reading<'_>,
    at: At<'_, '_>,
    read: impl FnMut(&mut Reading<'_>, At<'_, '_>) -> Result<Vec<RequestMatcher>, Unreadable>,
) -> Result<Vec<RequestMatcher>, Unreadable> {
    Ok(reading.list(at, JsonType::Map, read)?.concat())
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

pub(super) fn policy(reading: &mut Reading<'_>, object: At<'_, '_>) -> Result<Policy, Unreadable> {
    let spec = reading.part(&object, "spec").ok_or(Unreadable)?;
    let expressions =
        |found: Vec<Validation>| found.into_iter().map(|condition| condition.expression).collect();
    all!(Policy {
        refuses_on_failure: is(reading, spec.field("failurePolicy"), "Fail", true),
        resources: match_resources(reading, spec.field("matchConstraints")),
        parameter_kind: pair(reading, spec.field("paramKind"), ["apiVersion", "kind"]),
        conditions: Fact::read(reading, spec.field("matchConditions")).map(expressions),
        variables: reading.list(spec.field("variables"), JsonType::Map, |reading, at| {
            Ok(pair(reading, at, ["name", "expression"])?.unwrap_or_default())
        }),
        validations: Fact::read(reading, spec.field("validations")),
    })
}

pub(super) fn binding(reading: &mut Reading<'_>, object: At<'_, '_>) -> Result<PolicyBinding, Unreadable> {
    let spec = reading.part(&object, "spec").ok_or(Unreadable)?;
    all!(PolicyBinding {
        policy: Fact::read(reading, spec.field("policyName")),
        actions: Fact::read(reading, spec.field("validationActions")),
        resources: match_resources(reading, spec.field("matchResources")),
        parameters: parameters(reading, spec.field("paramRef")),
    })
}

fn match_resources(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<MatchResources, Unreadable> {
    if reading.map(at)?.is_none() {
        return Ok(MatchResources::default());
    }
    all!(MatchResources {
        matches_equivalent: is(reading, at.field("matchPolicy"), "Equivalent", true),
        rules: matchers(reading, at.field("resourceRules"), named_rule),
        excluded: matchers(reading, at.field("excludeResourceRules"), named_rule),
        namespace_selector: Fact::read(reading, at.field("namespaceSelector")),
        object_selector: Fact::read(reading, at.field("objectSelector")),
    })
}

/// A rule that may name objects.
fn named_rule(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Vec<RequestMatcher>, Unreadable> {
    let names = reading.all_texts(at.field("resourceNames"))?;
    let matcher = rule(reading, at)?;
    Ok(matcher.map_or_else(Vec::new, |matcher| matcher.of_names(&names)))
}

map_of_facts! {
    Validation {
        expression: "expression" => Plain,
        message: "message" => Plain,
        message_expression: "messageExpression" => Plain,
        reason: "reason" => Plain,
    }
}

/// Whether a policy is the one of this name. `default` is the answer if there is none.
fn is(reading: &mut Reading<'_>, at: At<'_, '_>, name: &str, default: bool) -> Result<bool, Unreadable> {
    let policy = reading.text(at)?;
    Ok(policy.map_or(default, |policy| *policy == *name))
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
