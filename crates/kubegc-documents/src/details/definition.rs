//! Fields of CustomResourceDefinitions: the kind that each defines.

use std::sync::Arc;

use kubegc_core::Scope;
use kubegc_core::json::{Soft, Text};

use super::{
    CrdConverter, CrdDetails, CrdVersion, NO_SPEC, NO_STATUS, SPEC, STATUS,
    admission::service,
    condition_is_true,
    reading::{Found, Path, Reading, Unreadable},
    spec_of, status_of,
};
use crate::body::{Body, ClientConfig, Names, Spec};

pub(super) fn read(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<CrdDetails> {
    let no_names = Names::default();
    let spec = spec_of(reading, body).unwrap_or(&NO_SPEC);
    let status = status_of(reading, body).unwrap_or(&NO_STATUS);
    let names_path = SPEC.field("names");
    let names = reading.value(&spec.names, names_path).ok().flatten();
    let names = names.unwrap_or(&no_names);
    let group = needed(reading, &spec.group, SPEC.field("group"));
    let plural = needed(reading, &names.plural, names_path.field("plural"));
    let kind = needed(reading, &names.kind, names_path.field("kind"));
    let short_names = reading.texts_of(&names.short_names, names_path.field("shortNames"));
    let categories = reading.texts_of(&names.categories, names_path.field("categories"));
    let scope_path = SPEC.field("scope");
    let scope = match needed(reading, &spec.scope, scope_path).as_deref() {
        Some("Namespaced") => Some(Scope::Namespaced),
        Some("Cluster") => Some(Scope::Cluster),
        Some(_) => {
            let Unreadable = reading.bad(scope_path, "neither Namespaced nor Cluster");
            None
        }
        None => None,
    };
    let versions = versions(reading, spec);
    let established = condition_is_true(reading, status, STATUS.field("conditions"), "Established");
    let stored_versions = reading.texts_of(&status.stored_versions, STATUS.field("storedVersions"));
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
        converter: converter(reading, spec).ok().flatten(),
    })
}

/// The conversion webhook.
fn converter(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<CrdConverter> {
    let path = SPEC.field("conversion");
    let Some(conversion) = reading.value(&spec.conversion, path)? else {
        return Ok(None);
    };
    if reading
        .text(&conversion.strategy, path.field("strategy"))?
        .as_deref()
        != Some("Webhook")
    {
        return Ok(None);
    }
    let webhook_path = path.field("webhook");
    let webhook = reading.value(&conversion.webhook, webhook_path)?;
    let (client, path) = match webhook {
        Some(webhook) => (&webhook.client_config, webhook_path.field("clientConfig")),
        None => (
            &conversion.webhook_client_config,
            path.field("webhookClientConfig"),
        ),
    };
    match reading.value(client, path)? {
        Some(client) => called(reading, client, path).map(Some),
        None => Ok(None),
    }
}

/// The webhook that a client configuration calls. The port of its Service is 443 by default.
fn called(
    reading: &mut Reading<'_>,
    client: &ClientConfig<'_>,
    path: Path<'_>,
) -> Result<CrdConverter, Unreadable> {
    let service_path = path.field("service");
    let service = service(reading, &client.service, service_path)?;
    let url = match (&service, reading.value(&client.service, service_path)?) {
        (Some((namespace, name)), Some(reference)) => {
            let port = reading.number_or(&reference.port, service_path.field("port"), 443)?;
            let path = reading.text_or_empty(&reference.path, service_path.field("path"))?;
            format!("https://{name}.{namespace}.svc:{port}{path}").into()
        }
        _ => reading.text_or_empty(&client.url, path.field("url"))?,
    };
    Ok(CrdConverter { service, url })
}

fn needed(reading: &mut Reading<'_>, text: &Soft<Text<'_>>, path: Path<'_>) -> Option<Arc<str>> {
    let text = reading.text_unless_empty(text, path).ok()?;
    if text.is_none() {
        reading.missing(path);
    }
    text
}

fn versions(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Vec<CrdVersion> {
    let path = SPEC.field("versions");
    let (mut versions, _) = reading.entries(&spec.versions, path, |reading, version, path| {
        let name = needed(reading, &version.name, path.field("name"));
        let served = reading.value(&version.served, path.field("served"));
        let storage = reading.value(&version.storage, path.field("storage"));
        let is_true = |flag: Result<Option<&bool>, Unreadable>| matches!(flag, Ok(Some(true)));
        Ok(CrdVersion {
            name: name.ok_or(Unreadable)?,
            served: is_true(served),
            storage: is_true(storage),
        })
    });
    // The first beta form of definitions had one version only.
    if versions.is_empty()
        && let Ok(Some(name)) = reading.text(&spec.version, SPEC.field("version"))
    {
        versions.push(CrdVersion {
            name,
            served: true,
            storage: true,
        });
    }
    versions
}
