//! Fields of webhook configurations and APIServices.

use std::sync::Arc;

use kubegc_core::json::Soft;
use kubegc_core::{RequestMatcher, Scope, admission::Webhook};

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
