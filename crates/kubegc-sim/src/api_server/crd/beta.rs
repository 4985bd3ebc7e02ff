//! CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1`, served up to 1.21: converted to the stored
//! shape, that of `v1`, and back.
//!
//! # Upstream
//! `apiextensions-apiserver/pkg/apis/apiextensions/v1beta1/{conversion,defaults}.go`, 1.20.2.

use serde_json::{Map, Value, json};

use crate::types::objects::{object_mut, objects_in};

/// The fields of a version that `v1beta1` may also have for all versions: there, and in a version.
const OF_VERSIONS: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Converts the fields of a definition to those of `v1`.
pub(crate) fn to_v1(body: &mut Map<String, Value>) {
    let Some(spec) = object_mut(body, "spec") else {
        return;
    };
    let version = spec.remove("version").filter(Value::is_string);
    if !matches!(spec.get("versions"), Some(Value::Array(versions)) if !versions.is_empty()) {
        let only = version.map(|name| json!({"name": name, "served": true, "storage": true}));
        spec.insert("versions".to_owned(), only.into_iter().collect());
    }
    for (for_all, key) in OF_VERSIONS {
        if let Some(value) = spec.remove(for_all).filter(|value| !value.is_null()) {
            for version in objects_in(spec, "versions") {
                version.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    for version in objects_in(spec, "versions") {
        rename_columns(version, "JSONPath", "jsonPath");
    }
    if let Some(conversion) = object_mut(spec, "conversion") {
        let client = conversion.remove("webhookClientConfig");
        let reviews = conversion.remove("conversionReviewVersions");
        if client.is_some() || reviews.is_some() {
            let webhook = json!({"clientConfig": client, "conversionReviewVersions": reviews});
            conversion.insert("webhook".to_owned(), webhook);
        }
    }
}

/// Converts the fields of a stored definition to those of `v1beta1`.
pub(crate) fn from_v1(body: &mut Map<String, Value>) {
    to_internal(body);
    if let Some(spec) = object_mut(body, "spec") {
        rename_columns(spec, "jsonPath", "JSONPath");
        for version in objects_in(spec, "versions") {
            rename_columns(version, "jsonPath", "JSONPath");
        }
    }
}

/// Converts the fields of a stored definition to the internal form: what all versions share is stored once.
/// One that was stored in the shape of `v1beta1`, as by a server without types, remains.
pub(super) fn to_internal(body: &mut Map<String, Value>) {
    let Some(spec) = object_mut(body, "spec").filter(|spec| !spec.contains_key("version")) else {
        return;
    };
    spec.entry("preserveUnknownFields")
        .or_insert_with(|| false.into());
    if let Some(Value::Array(versions)) = spec.get_mut("versions") {
        let name = versions.first().and_then(|version| version.get("name")).cloned();
        let mut for_all = vec![("version", name.unwrap_or_default())];
        for (shown, key) in OF_VERSIONS {
            let first = versions.first().and_then(|version| version.get(key)).cloned();
            let is_same = |version: &Value| version.get(key) == first.as_ref();
            if let Some(first) = first.clone().filter(|_| versions.iter().all(is_same)) {
                for version in versions.iter_mut().filter_map(Value::as_object_mut) {
                    version.remove(key);
                }
                for_all.push((shown, first));
            }
        }
        spec.extend(for_all.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    if let Some(conversion) = object_mut(spec, "conversion")
        && let Some(Value::Object(mut webhook)) = conversion.remove("webhook")
    {
        webhook.retain(|_, value| !value.is_null());
        rename(&mut webhook, "clientConfig", "webhookClientConfig");
        conversion.append(&mut webhook);
    }
}

/// Renames the path of each column of a version, or of all versions.
fn rename_columns(of: &mut Map<String, Value>, from: &str, to: &str) {
    for column in objects_in(of, "additionalPrinterColumns") {
        rename(column, from, to);
    }
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}
