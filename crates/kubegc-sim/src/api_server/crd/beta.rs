//! CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1`, served up to 1.21: converted to the stored
//! shape, that of `v1`, and back.
//!
//! # Upstream
//! `apiextensions-apiserver/pkg/apis/apiextensions/v1beta1/{conversion,defaults}.go`, 1.20.2.

use kubegc_core::ApiResource;
use serde_json::{Map, Value, json};

/// The fields of a version that `v1beta1` may also have for all versions: there, and in a version.
const OF_VERSIONS: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Whether this is the beta version of definitions.
pub(crate) fn is_beta(resource: &ApiResource) -> bool {
    &*resource.kind == "CustomResourceDefinition"
        && &*resource.group == "apiextensions.k8s.io"
        && &*resource.version == "v1beta1"
}

/// Converts the fields of a definition to those of `v1`.
pub(crate) fn to_v1(body: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else {
        return;
    };
    let version = spec.remove("version").filter(Value::is_string);
    let mut versions = match spec.remove("versions") {
        Some(Value::Array(versions)) if !versions.is_empty() => versions,
        _ => version
            .map(|name| json!({"name": name, "served": true, "storage": true}))
            .into_iter()
            .collect(),
    };
    for (for_all, key) in OF_VERSIONS {
        let Some(value) = spec.remove(for_all).filter(|value| !value.is_null()) else {
            continue;
        };
        for version in versions.iter_mut().filter_map(Value::as_object_mut) {
            version.entry(key).or_insert_with(|| value.clone());
        }
    }
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        rename_columns(version, "JSONPath", "jsonPath");
    }
    spec.insert("versions".to_owned(), versions.into());
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
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
    let Some(Value::Object(spec)) = body.get_mut("spec") else {
        return;
    };
    rename_columns(spec, "jsonPath", "JSONPath");
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        rename_columns(version, "jsonPath", "JSONPath");
    }
}

/// Converts the fields of a stored definition to the internal form: what all versions share is stored once.
/// One that was stored in the shape of `v1beta1`, as by a server without types, remains.
pub(super) fn to_internal(body: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else {
        return;
    };
    if spec.contains_key("version") {
        return;
    }
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
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
        && let Some(Value::Object(mut webhook)) = conversion.remove("webhook")
    {
        for (stored, shown) in [
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ] {
            if let Some(value) = webhook.remove(stored).filter(|value| !value.is_null()) {
                conversion.insert(shown.to_owned(), value);
            }
        }
    }
}

/// Renames the path of each column of a version, or of all versions.
fn rename_columns(of: &mut Map<String, Value>, from: &str, to: &str) {
    let columns = of.get_mut("additionalPrinterColumns");
    let columns = columns.and_then(Value::as_array_mut).into_iter().flatten();
    for column in columns.filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to.to_owned(), path);
        }
    }
}
