//! Warnings about objects that are accepted.

use std::collections::BTreeSet;

use kubegc_core::{
    Behavior, KubernetesVersion,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

use serde_json::Value;

use super::{ApiServer, crd, kinds::Special, write::Write};
use crate::{StoredObject, status::quoted};

const FINALIZERS_ARE_WARNED_OF: Behavior = Behavior::since(29, 0, "validator.go of 1.29");
/// The warning asks for a path where the name has a dot.
const PATHS_ARE_PREFERRED: Behavior = Behavior::since(32, 0, "validator.go of 1.32");
const FORMATS_ARE_WARNED_OF: Behavior = Behavior::since(34, 0, "formats.go of 1.34");

/// Names without a domain that Kubernetes itself uses.
const STANDARD: [&str; 3] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];

impl ApiServer {
    /// The warnings about an object that is to be written.
    pub(super) fn warnings_of(&self, write: Write<'_>) -> Vec<String> {
        if self.resource(write.kind).custom {
            of_metadata(self.version, write)
        } else if self.settings.types && self.special(write.kind) == Special::CustomResourceDefinition {
            of_definition(self.version, write)
        } else {
            Vec::new()
        }
    }
}

/// The warnings about the metadata of a custom resource: new finalizers should have a domain.
///
/// # Upstream
/// `validateKubeFinalizerName` in
/// [`validator.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/validator.go).
fn of_metadata(version: KubernetesVersion, write: Write<'_>) -> Vec<String> {
    if !version.has(FINALIZERS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let is_new = |name: &&str| write.old.is_none_or(|old| !old.meta.has_finalizer(name));
    let names = write.new.meta.finalizers.iter().map(|finalizer| &**finalizer);
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

/// The warnings about a definition: new formats that nothing checks.
///
/// # Upstream
/// `GetUnrecognizedFormats` in
/// [`formats.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apiserver/validation/formats.go).
fn of_definition(version: KubernetesVersion, write: Write<'_>) -> Vec<String> {
    if !version.has(FORMATS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let of = |definition: &StoredObject| {
        let mut found = Vec::new();
        for (_, schema) in crd::validation::schemas(definition) {
            unrecognized_formats(version, &schema, &mut found);
        }
        found
    };
    let known: BTreeSet<String> = write.old.map(of).into_iter().flatten().collect();
    let formats = of(write.new).into_iter();
    formats
        .filter(|format| !known.contains(format))
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
