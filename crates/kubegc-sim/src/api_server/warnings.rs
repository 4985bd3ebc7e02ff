//! Warnings about objects that are accepted.

use std::collections::BTreeSet;

use kubegc_core::{
    ApiResource, Behavior, KubernetesVersion, ObjectMeta,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

use serde_json::Value;

use super::crd;
use crate::{StoredObject, status::quoted};

const FINALIZERS_ARE_WARNED_OF: Behavior = Behavior::since(29, 0, "validator.go of 1.29");
/// The warning asks for a path where the name has a dot.
const PATHS_ARE_PREFERRED: Behavior = Behavior::since(32, 0, "validator.go of 1.32");
const FORMATS_ARE_WARNED_OF: Behavior = Behavior::since(34, 0, "formats.go of 1.34");

/// Names without a domain that Kubernetes itself uses.
const STANDARD: [&str; 3] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];

/// The warnings about the metadata of a custom resource that is created, or that is to replace `old`: new
/// finalizers should have a domain.
///
/// # Upstream
/// `validateKubeFinalizerName` in
/// [`validator.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/validator.go).
pub(super) fn of_metadata(
    version: KubernetesVersion,
    resource: &ApiResource,
    meta: &ObjectMeta,
    old: Option<&ObjectMeta>,
) -> Vec<String> {
    if !resource.custom || meta.finalizers.is_empty() || !version.has(FINALIZERS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let is_new = |name: &&str| old.is_none_or(|old| !old.has_finalizer(name));
    let names = meta.finalizers.iter().map(|finalizer| &**finalizer);
    let mut names: Vec<&str> = names.filter(is_new).collect();
    names.retain(|name| !name.contains('/') && !STANDARD.contains(name));
    names.sort_unstable();
    names.dedup();
    let warnings = names.into_iter().map(|name| {
        let path = match name.contains('.') && version.has(PATHS_ARE_PREFERRED) {
            true => " including a path (/)",
            false => "",
        };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers",
            quoted(name)
        )
    });
    warnings.collect()
}

/// The warnings about a definition that is created, or that is to replace `old`: new formats that nothing
/// checks.
///
/// # Upstream
/// `GetUnrecognizedFormats` in
/// [`formats.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apiserver/validation/formats.go).
pub(super) fn of_definition(
    version: KubernetesVersion,
    definition: &StoredObject,
    old: Option<&StoredObject>,
) -> Vec<String> {
    if !version.has(FORMATS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let of = |definition: &StoredObject| {
        let mut found = Vec::new();
        for schema in crd::schemas(definition) {
            unrecognized_formats(version, schema, &mut found);
        }
        found
    };
    let known: BTreeSet<String> = old.map(of).into_iter().flatten().collect();
    let formats = of(definition)
        .into_iter()
        .filter(|format| !known.contains(format));
    formats
        .map(|format| format!("unrecognized format {}", quoted(&format)))
        .collect()
}

/// Depth is bounded by the parser that read the schema.
fn unrecognized_formats(version: KubernetesVersion, schema: &Value, found: &mut Vec<String>) {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    let format = text("format");
    let is_recognized = match text("type") {
        _ if format.is_empty() => true,
        "" | "string" => crd::is_known_format(version, format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !is_recognized {
        found.push(format.to_owned());
    }
    let one = ["items", "not", "additionalProperties", "additionalItems"];
    let many = ["properties", "patternProperties", "definitions", "dependencies"];
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let one = one
        .into_iter()
        .filter_map(|key| schema.get(key))
        .filter(|below| below.is_object());
    let many = many.into_iter().filter_map(|key| schema.get(key)?.as_object());
    let lists = lists.into_iter().filter_map(|key| schema.get(key)?.as_array());
    let below = one
        .chain(lists.flatten())
        .chain(many.flat_map(|schemas| schemas.values()));
    for schema in below {
        unrecognized_formats(version, schema, found);
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::{ApiResource, ObjectMeta, Scope};
    use serde_json::{Value, json};

    use super::{of_definition, of_metadata};
    use crate::Manifest;

    #[test]
    fn new_finalizers_of_custom_resources_should_have_domains() {
        let meta = |finalizers: &[&str]| {
            let mut meta = ObjectMeta::new("ns", "a", "uid-a");
            meta.finalizers = finalizers.iter().map(|&name| name.into()).collect();
            meta
        };
        let custom = ApiResource::new("x.dev/v1", "Widget", "widgets", Scope::Namespaced).custom();
        let built_in = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
        let hold = "metadata.finalizers: \"hold\": prefer a domain-qualified finalizer name to avoid \
                    accidental conflicts with other finalizer writers";
        let dotted = "metadata.finalizers: \"x.dev\": prefer a domain-qualified finalizer name including a \
                      path (/) to avoid accidental conflicts with other finalizer writers";
        let all = ["x.dev", "hold", "orphan", "kubernetes", "x.dev/hold", "hold"];
        for (release, resource, finalizers, old, expected) in [
            ("1.36", &custom, &all[..], &[][..], &[hold, dotted][..]),
            ("1.36", &custom, &all[..], &["hold"][..], &[dotted][..]),
            ("1.31", &custom, &["hold"][..], &[][..], &[hold][..]),
            ("1.28", &custom, &["hold"][..], &[][..], &[][..]),
            ("1.36", &built_in, &["hold"][..], &[][..], &[][..]),
        ] {
            let (new, old) = (meta(finalizers), meta(old));
            let warnings = of_metadata(release.parse().unwrap(), resource, &new, Some(&old));
            assert_eq!(warnings, expected, "{release} {finalizers:?}");
        }
        let created = of_metadata("1.36".parse().unwrap(), &custom, &meta(&["hold"]), None);
        assert_eq!(created, [hold]);
    }

    #[test]
    fn formats_that_nothing_checks_are_named() {
        let definition = |formats: &[(&str, &str)]| {
            let properties: serde_json::Map<String, Value> = formats
                .iter()
                .map(|(kind, format)| ((*format).to_owned(), json!({"type": kind, "format": format})))
                .collect();
            let schema = json!({"type": "object", "properties": {"spec": {
                "type": "array", "items": {"type": "object", "properties": properties},
            }}});
            let object = json!({"metadata": {"name": "a"}, "spec": {
                "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
            }});
            Manifest::read(object).unwrap().object
        };
        let new = definition(&[
            ("string", "date-time"),
            ("string", "odd"),
            ("integer", "int32"),
            ("number", "int32x"),
        ]);
        let old = definition(&[("string", "odd")]);
        for (release, old, expected) in [
            (
                "1.36",
                None,
                &["unrecognized format \"int32x\"", "unrecognized format \"odd\""][..],
            ),
            ("1.36", Some(&old), &["unrecognized format \"int32x\""][..]),
            ("1.33", None, &[][..]),
        ] {
            let warnings = of_definition(release.parse().unwrap(), &new, old);
            assert_eq!(warnings, expected, "{release}");
        }
        let short = definition(&[("string", "k8s-short-name")]);
        for (release, expected) in [("1.34", 1), ("1.35", 0)] {
            let warnings = of_definition(release.parse().unwrap(), &short, None);
            assert_eq!(warnings.len(), expected, "{release}");
        }
    }
}
