//! Validates CustomResourceDefinitions of `apiextensions.k8s.io/v1`: the rules across fields that `rules.txt`
//! names.
//!
//! # Upstream
//! `ValidateCustomResourceDefinition` and `ValidateCustomResourceDefinitionUpdate` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`, 1.20.2.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Behavior, KubernetesVersion, version::behavior};
use serde_json::{Map, Value};

use super::{beta, section, structural};
use crate::{
    StoredObject,
    api_server::write::Write,
    status::{Cause, quoted},
    types::{
        field::{At, Check},
        go_syntax,
    },
};

/// A stored version that is no longer served is explained.
const MISSING_VERSIONS_ARE_EXPLAINED: Behavior = Behavior::since(33, 0, "kubernetes #128746");

/// The error about a missing stored version shows the stored versions, and not the missing one.
const STORED_VERSIONS_ARE_SHOWN: Behavior = Behavior::since(22, 0, "between 1.20 and 1.32");

const APPROVAL: &str = "api-approved.kubernetes.io";
/// The Go type of a version.
const VERSION: &str = "apiextensions.CustomResourceDefinitionVersion";

/// The definition with its internal fields.
fn internal(body: &Map<String, Value>) -> Map<String, Value> {
    let mut body = body.clone();
    beta::to_internal(&mut body);
    body
}

/// The problems of a definition that is to be written.
pub(crate) fn problems(version: KubernetesVersion, write: Write<'_>) -> Vec<Cause> {
    let object = write.new;
    let Some(body) = object.body.as_deref() else {
        return Vec::new();
    };
    let old = write.old.and_then(|old| old.body.as_deref()).map(internal);
    let (new, old) = (
        Value::Object(internal(body)),
        old.map_or(Value::Null, Value::Object),
    );
    let decoded = object
        .decoded
        .as_deref()
        .map(|decoded| Arc::new(internal(decoded)));
    let mut c = Check::new(version, decoded);
    (c.new, c.old, c.object) = (&new, &old, Some(object));
    section("Definition", &At::of_object(&new), &mut c);
    c.causes
}

/// The schemas of a definition with their paths; a schema that all versions share is returned once.
pub(crate) fn schemas(object: &StoredObject) -> Vec<(String, Value)> {
    let body = Value::Object(object.body.as_deref().map(internal).unwrap_or_default());
    let spec = At::of_object(&body).get("spec");
    let of_versions = spec.get("versions").items().map(|version| version.get("schema"));
    let shared = spec.get("validation");
    let schemas = match shared.is_set() {
        true => vec![shared],
        false => of_versions.collect(),
    };
    let schemas = schemas.into_iter().map(|schema| schema.get("openAPIV3Schema"));
    let schemas = schemas.filter(At::is_set);
    schemas
        .map(|schema| (schema.path.to_string(), schema.value.clone()))
        .collect()
}

pub(crate) fn name(spec: &At<'_>, c: &mut Check) {
    let name = format!(
        "{}.{}",
        spec.get("names").get("plural").text(),
        spec.get("group").text()
    );
    if c.is_new() && c.name() != name && !c.name().is_empty() {
        let problem = "must be spec.names.plural+\".\"+spec.group";
        let shown = quoted(c.name());
        At::of_value(None, "metadata.name").invalid_as(c, &shown, problem);
    }
}

/// The schema of a version, or the one that all versions share.
pub(crate) fn schema(of: &At<'_>, c: &mut Check) {
    let has_status = |of: &At<'_>| of.get("subresources").get("status").is_set();
    let is_separate = has_status(&c.root().get("spec"))
        || has_status(of)
        || of.get("versions").items().any(|version| has_status(&version));
    for key in ["schema", "validation"] {
        let schema = of.get(key).get("openAPIV3Schema");
        if schema.is_set() {
            structural::problems(&schema, is_separate, c);
        }
    }
}

/// Versions have different names, and one of them is stored.
pub(crate) fn versions(versions: &At<'_>, c: &mut Check) {
    let names: BTreeSet<&str> = versions
        .items()
        .map(|version| version.get("name").text())
        .collect();
    let stored = versions.items().filter(|version| version.get("storage").flag());
    for (is_wrong, problem) in [
        (names.len() < versions.len(), "must contain unique version names"),
        (
            stored.count() != 1,
            "must have exactly one version marked as storage version",
        ),
    ] {
        if is_wrong {
            // An empty list is not nil.
            let shown = go_syntax::value(c.version, versions.decoded(c), &format!("[]{VERSION}"));
            versions.invalid_as(c, &shown, problem);
        }
    }
}

/// Warnings are printable.
pub(crate) fn warning(warning: &At<'_>, c: &mut Check) {
    if let Some((index, _)) = warning.text().char_indices().find(|(_, char)| char.is_control()) {
        let problem = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        warning.invalid(c, &problem);
    }
}

/// The versions in which objects may be stored are served, and the storage version is one of them.
pub(crate) fn stored_versions(all: &At<'_>, c: &mut Check) {
    if all.is_empty() {
        all.invalid_typed(c, "[]string", "must have at least one stored version");
        return;
    }
    let mut stored: Vec<At<'_>> = all.items().collect();
    for version in c.root().get("spec").get("versions").items() {
        let name = version.get("name").text();
        let is_stored = stored.iter().any(|stored| stored.text() == name);
        if version.get("storage").flag() && !is_stored {
            let shown = match c.version.has(behavior::VALUES_ARE_JSON) {
                true => all.value.to_string(),
                false if c.version.has(STORED_VERSIONS_ARE_SHOWN) => {
                    go_syntax::value(c.version, all.value, "[]string")
                }
                false => go_syntax::value(c.version, version.value, VERSION),
            };
            all.invalid_as(c, &shown, &format!("must have the storage version {name}"));
        }
        stored.retain(|stored| stored.text() != name);
    }
    for removed in stored {
        let name = removed.text();
        let problem = match c.version.has(MISSING_VERSIONS_ARE_EXPLAINED) {
            true => format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            ),
            false => "must appear in spec.versions".to_owned(),
        };
        removed.invalid(c, &problem);
    }
}

/// `validateAPIApproval`: groups of the community need an annotation.
pub(crate) fn approval(definition: &At<'_>, c: &mut Check) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = definition.get("spec").get("group").text();
    let is_protected = |domain: &&str| group == *domain || group.ends_with(&format!(".{domain}"));
    let annotation = definition.get("metadata").get("annotations").key(APPROVAL);
    let state = |text: &str| match text {
        "" => 0,
        text if text.starts_with("unapproved") => 1,
        text if text.starts_with("https://") || text.starts_with("http://") => 2,
        _ => 3,
    };
    let former = annotation.old(c).as_str().unwrap_or_default();
    let is_same = !c.is_new() && state(former) == state(annotation.text());
    if is_same || !["k8s.io", "kubernetes.io"].iter().any(is_protected) {
        return;
    }
    let must = format!(
        "protected groups must have approval annotation {}",
        quoted(APPROVAL)
    );
    match state(annotation.text()) {
        0 => annotation.required(c, &format!("{must}, {SEE}")),
        3 => {
            let with = "with either a URL or a reason starting with \"unapproved\"";
            annotation.invalid(c, &format!("{must} {with}, {SEE}"));
        }
        _ => {}
    }
}
