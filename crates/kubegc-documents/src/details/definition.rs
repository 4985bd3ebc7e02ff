//! Fields of CustomResourceDefinitions: the kind that each defines.

use std::sync::Arc;

use kubegc_core::{Scope, json::JsonType};

use super::{
    CrdConverter, CrdDetails, CrdVersion,
    admission::service,
    facts::Fact,
    reading::{At, Found, Reading, Unreadable},
};

pub(super) fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<CrdDetails> {
    // Parts that were not read have no fields.
    let [spec, status] = ["spec", "status"].map(|part| object.field(part));
    reading.part(&object, "spec");
    reading.part(&object, "status");
    let names = spec.field("names");
    let _is_named = reading.map(names);
    let group = needed(reading, spec.field("group"));
    let plural = needed(reading, names.field("plural"));
    let kind = needed(reading, names.field("kind"));
    let short_names = reading.texts_of(names.field("shortNames"));
    let categories = reading.texts_of(names.field("categories"));
    let scope = match needed(reading, spec.field("scope")).as_deref() {
        Some("Namespaced") => Some(Scope::Namespaced),
        Some("Cluster") => Some(Scope::Cluster),
        Some(_) => {
            let Unreadable = reading.bad(spec.field("scope"), "neither Namespaced nor Cluster");
            None
        }
        None => None,
    };
    let versions = versions(reading, spec);
    let established = is_established(reading, status.field("conditions"));
    let stored_versions = reading.texts_of(status.field("storedVersions"));
    Some(CrdDetails {
        group: group?,
        plural: plural?,
        kind: kind?,
        short_names,
        categories,
        scope: scope?,
        versions,
        stored_versions,
        established,
        converter: converter(reading, spec.field("conversion")).ok().flatten(),
    })
}

/// Whether the condition `Established` is true; `None` if the status lacks it.
fn is_established(reading: &mut Reading<'_>, at: At<'_, '_>) -> Option<bool> {
    let (conditions, _) = reading.entries(at, JsonType::Map, |reading, condition| {
        let condition_type = reading.str(condition.field("type"));
        let status = reading.str(condition.field("status"));
        let is = |text: Found<&str>, expected: &str| matches!(text, Ok(Some(text)) if text == expected);
        Ok((is(condition_type, "Established"), is(status, "True")))
    });
    let found = conditions.into_iter().find(|(is_it, _)| *is_it);
    found.map(|(_, is_true)| is_true)
}

fn converter(reading: &mut Reading<'_>, conversion: At<'_, '_>) -> Found<CrdConverter> {
    reading.map(conversion)?;
    if reading.str(conversion.field("strategy"))? != Some("Webhook") {
        return Ok(None);
    }
    let webhook = conversion.field("webhook");
    let client = match reading.map(webhook)? {
        Some(_) => webhook.field("clientConfig"),
        None => conversion.field("webhookClientConfig"),
    };
    match reading.map(client)? {
        Some(client) => called(reading, client).map(Some),
        None => Ok(None),
    }
}

/// The webhook that a client configuration calls. The port of its Service is 443 by default.
fn called(reading: &mut Reading<'_>, client: At<'_, '_>) -> Result<CrdConverter, Unreadable> {
    let reference = client.field("service");
    let service = service(reading, reference)?;
    let url = match &service {
        Some((namespace, name)) => {
            let port = reading.number(reference.field("port"))?.unwrap_or(443);
            let path = reading.text_or_empty(reference.field("path"))?;
            format!("https://{name}.{namespace}.svc:{port}{path}").into()
        }
        None => reading.text_or_empty(client.field("url"))?,
    };
    Ok(CrdConverter { service, url })
}

fn needed(reading: &mut Reading<'_>, at: At<'_, '_>) -> Option<Arc<str>> {
    let text = reading.text_unless_empty(at).ok()?;
    if text.is_none() {
        reading.missing(at);
    }
    text
}

fn versions(reading: &mut Reading<'_>, spec: At<'_, '_>) -> Vec<CrdVersion> {
    let (mut versions, _) = reading.entries(spec.field("versions"), JsonType::Map, |reading, version| {
        let name = needed(reading, version.field("name"));
        let served = bool::read(reading, version.field("served"));
        let storage = bool::read(reading, version.field("storage"));
        Ok(CrdVersion {
            name: name.ok_or(Unreadable)?,
            served: served.unwrap_or(false),
            storage: storage.unwrap_or(false),
        })
    });
    // The first beta form of definitions had one version only.
    if versions.is_empty()
        && let Ok(Some(name)) = reading.text(spec.field("version"))
    {
        versions.push(CrdVersion {
            name,
            served: true,
            storage: true,
        });
    }
    versions
}
