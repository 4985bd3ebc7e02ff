//! Validates CustomResourceDefinitions of `apiextensions.k8s.io/v1`.
//!
//! # Upstream
//! `ValidateCustomResourceDefinition` and `ValidateCustomResourceDefinitionUpdate` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, KubernetesVersion, version::behavior};
use serde_json::{Map, Value};

use super::{
    beta,
    selectable::{FIELDS_ARE_SELECTABLE, selectable},
    structural,
};
use crate::{
    StoredObject, formats,
    status::{Cause, quoted},
    types::{
        field::{At, Check},
        validate::{go_syntax, section},
    },
};

/// A stored version that is no longer served is explained.
const MISSING_VERSIONS_ARE_EXPLAINED: Behavior = Behavior::since(33, 0, "kubernetes #128746");
/// Missing schemas are required without a word.
const DETAILS_ARE_LEFT_OUT: Behavior = Behavior::since(34, 0, "kubernetes #132472");
/// The refusal of `preserveUnknownFields` names the extension in full.
const EXTENSION_IS_NAMED: Behavior = Behavior::since(25, 0, "kubernetes #111446");

const APPROVAL: &str = "api-approved.kubernetes.io";

/// A definition in its internal form: values that all versions share are stored once.
pub(super) struct Definition<'a> {
    pub(super) spec: At<'a>,
    pub(super) versions: Vec<At<'a>>,
}

impl<'a> Definition<'a> {
    fn of(body: &'a Map<String, Value>) -> Self {
        let spec = At::root(body, "spec");
        Self {
            versions: spec.get("versions").items().collect(),
            spec,
        }
    }

    /// The value that all versions share, at its own path.
    fn shared(&self, key: &str) -> Option<At<'a>> {
        let (for_all, _) = beta::OF_VERSIONS.iter().find(|(_, shared)| *shared == key)?;
        let first = self.versions.first()?.get(key).value;
        let is_shared = !first.is_null()
            && self
                .versions
                .iter()
                .all(|version| version.get(key).value == first);
        is_shared.then(|| At::of_value(Some(first), &format!("spec.{for_all}")))
    }

    /// The versions as errors of a release print them: without what all of them share.
    fn printed(&self, c: &Check) -> String {
        // An empty list is not nil.
        let mut versions = self.spec.get("versions").decoded(c).clone();
        for version in versions.as_array_mut().into_iter().flatten() {
            self.remove_shared(version);
        }
        go_syntax::value(c.version, &versions, &format!("[]{VERSION}"))
    }

    fn remove_shared(&self, version: &mut Value) {
        if let Some(fields) = version.as_object_mut() {
            fields.retain(|key, _| self.shared(key).is_none());
        }
    }
}

/// The Go type of a version.
const VERSION: &str = "apiextensions.CustomResourceDefinitionVersion";

fn has_status(version: &At<'_>) -> bool {
    version.get("subresources").get("status").is_set()
}

/// The problems of a definition. `old` is the stored one that it replaces.
pub(super) fn problems(
    version: KubernetesVersion,
    object: &StoredObject,
    old: Option<&StoredObject>,
) -> Vec<Cause> {
    let Some(body) = object.body.as_deref() else {
        return Vec::new();
    };
    let definition = Definition::of(body);
    let (spec, status) = (&definition.spec, At::root(body, "status"));
    let mut check = Check::new(version, object.decoded.clone());
    let c = &mut check;
    let names_of_spec = spec.get("names");
    let name = format!(
        "{}.{}",
        names_of_spec.get("plural").text(),
        spec.get("group").text()
    );
    if old.is_none() && *object.meta.name != *name && !object.meta.name.is_empty() {
        let problem = "must be spec.names.plural+\".\"+spec.group";
        At::of_value(None, "metadata.name").invalid_as(c, &quoted(&object.meta.name), problem);
    }
    section("DefinitionSpec", spec, c);
    for one in &definition.versions {
        let schema = one.get("schema").get("openAPIV3Schema");
        if !schema.is_set() {
            let is_explained = !version.has(DETAILS_ARE_LEFT_OUT);
            schema.required(c, if is_explained { "schemas are required" } else { "" });
        }
    }
    versions(&definition, c);
    section("DefinitionNames", &names_of_spec, c);
    section("RequiredNames", &names_of_spec, c);
    if let Some(shared) = definition.shared("schema") {
        let has_status = definition.versions.iter().any(has_status);
        schema(&shared, has_status, c);
    }
    for (key, rules) in OF_VERSIONS {
        if let Some(shared) = definition.shared(key) {
            section(rules, &shared, c);
        }
        if key == "subresources" && version.has(FIELDS_ARE_SELECTABLE) {
            selectable(&definition, c);
        }
    }
    section("DefinitionConversion", &spec.get("conversion"), c);
    if let Some(old) = old {
        unchanged(spec, old, c);
    }
    section("DefinitionNames", &status.get("acceptedNames"), c);
    stored_versions(&definition, &status.get("storedVersions"), c);
    approval(object, old, c);
    let preserved =
        |object: &StoredObject| object.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
    if preserved(object) && !old.is_some_and(preserved) {
        let name = match version.has(EXTENSION_IS_NAMED) {
            true => "x-kubernetes-preserve-unknown-fields",
            false => "x-preserve-unknown-fields",
        };
        let problem = &format!("cannot set to true, set {name} to true in spec.versions[*].schema instead");
        spec.get("preserveUnknownFields").invalid(c, problem);
    }
    check.causes
}

/// The fields that belong to one version or to all, and their rules.
const OF_VERSIONS: [(&str, &str); 2] = [
    ("subresources", "DefinitionSubresources"),
    ("additionalPrinterColumns", "DefinitionColumns"),
];

/// The schemas of a definition with their paths; a schema that all versions share is returned once.
pub(super) fn schemas(object: &StoredObject) -> Vec<(String, &Value)> {
    let Some(body) = object.body.as_deref() else {
        return Vec::new();
    };
    let definition = Definition::of(body);
    let schemas = match definition.shared("schema") {
        Some(shared) => vec![shared],
        None => definition
            .versions
            .iter()
            .map(|version| version.get("schema"))
            .collect(),
    };
    schemas
        .into_iter()
        .map(|schema| schema.get("openAPIV3Schema"))
        .filter(At::is_set)
        .map(|schema| (schema.path.to_string(), schema.value))
        .collect()
}

fn versions(definition: &Definition<'_>, c: &mut Check) {
    let mut seen = BTreeSet::new();
    let (mut stored, mut unique) = (0, true);
    for version in &definition.versions {
        let name = version.get("name");
        stored += usize::from(version.get("storage").flag());
        unique &= seen.insert(name.text());
        section("DefinitionVersion", version, c);
        if definition.shared("schema").is_none() {
            schema(&version.get("schema"), has_status(version), c);
        }
        for (key, rules) in OF_VERSIONS {
            if definition.shared(key).is_none() {
                section(rules, &version.get(key), c);
            }
        }
    }
    for (is_wrong, problem) in [
        (!unique, "must contain unique version names"),
        (
            stored != 1,
            "must have exactly one version marked as storage version",
        ),
    ] {
        if is_wrong {
            let shown = definition.printed(c);
            definition.spec.get("versions").invalid_as(c, &shown, problem);
        }
    }
    let first = definition.versions.first().map(|version| version.get("name"));
    if let Some(name) = first.filter(|name| !name.text().is_empty()) {
        let name = At::of_value(Some(name.value), "spec.version");
        name.problems(c, formats::dns_1035_label(name.text()));
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

/// The names of a kind and of its list differ.
pub(crate) fn kinds(names: &At<'_>, c: &mut Check) {
    let (kind, list) = (names.get("kind"), names.get("listKind"));
    if !kind.text().is_empty() && kind.text() == list.text() {
        list.invalid(c, "kind and listKind may not be the same");
    }
}

fn schema(validation: &At<'_>, has_status: bool, c: &mut Check) {
    let schema = validation.get("openAPIV3Schema");
    if schema.is_set() {
        structural::problems(&schema, has_status, c);
    }
}

/// The path is below one of these fields.
fn below(path: &At<'_>, parents: &[&str], problem: &str, c: &mut Check) {
    if !parents.iter().any(|parent| path.text().starts_with(parent)) {
        path.invalid(c, problem);
    }
}

pub(crate) fn below_spec(path: &At<'_>, c: &mut Check) {
    below(path, &[".spec."], "should be a json path under .spec", c);
}

pub(crate) fn below_status(path: &At<'_>, c: &mut Check) {
    below(path, &[".status."], "should be a json path under .status", c);
}

pub(crate) fn below_either(path: &At<'_>, c: &mut Check) {
    let problem = "should be a json path under either .spec or .status";
    below(path, &[".spec.", ".status."], problem, c);
}

/// The versions of conversion reviews.
pub(crate) fn reviews(reviews: &At<'_>, c: &mut Check) {
    let mut seen = BTreeSet::new();
    for review in reviews.items() {
        match seen.insert(review.text()) {
            true => review.problems(c, formats::dns_1035_label(review.text())),
            false => review.invalid(c, "duplicate version"),
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        reviews.invalid_typed(c, "[]string", "must include at least one of v1, v1beta1");
    }
}

/// Checks the immutable fields of a definition.
fn unchanged(spec: &At<'_>, old: &StoredObject, c: &mut Check) {
    let established = super::condition(old, "Established") == Some("True");
    let names = spec.get("names");
    for (field, path, only_established) in [
        (spec.get("scope"), &["spec", "scope"][..], true),
        (names.get("kind"), &["spec", "names", "kind"], true),
        (spec.get("group"), &["spec", "group"], false),
        (names.get("plural"), &["spec", "names", "plural"], false),
    ] {
        if field.text() != old.text_at(path) && (established || !only_established) {
            field.invalid(c, "field is immutable");
        }
    }
}

fn stored_versions(definition: &Definition<'_>, all: &At<'_>, c: &mut Check) {
    if all.is_empty() {
        all.invalid_typed(c, "[]string", "must have at least one stored version");
        return;
    }
    let mut stored: Vec<At<'_>> = all.items().collect();
    for version in &definition.versions {
        let name = version.get("name").text();
        let is_stored = stored.iter().any(|stored| stored.text() == name);
        if version.get("storage").flag() && !is_stored {
            let mut own = version.value.clone();
            definition.remove_shared(&mut own);
            let shown = match c.version.has(behavior::VALUES_ARE_JSON) {
                true => all.value.to_string(),
                false => go_syntax::value(c.version, &own, VERSION),
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
fn approval(object: &StoredObject, old: Option<&StoredObject>, c: &mut Check) {
    let group = object.text_at(&["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if !is_protected {
        return;
    }
    let state = |object: &StoredObject| {
        let value = object.text_at(&["metadata", "annotations", APPROVAL]);
        if value.is_empty() {
            0
        } else if value.starts_with("unapproved") {
            1
        } else if value.starts_with("https://") || value.starts_with("http://") {
            2
        } else {
            3
        }
    };
    if old.is_some_and(|old| state(old) == state(object)) {
        return;
    }
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotation = At::of_value(
        object.at(&["metadata", "annotations", APPROVAL]),
        &format!("metadata.annotations[{APPROVAL}]"),
    );
    let must = format!(
        "protected groups must have approval annotation {}",
        quoted(APPROVAL)
    );
    match state(object) {
        0 => annotation.required(c, &format!("{must}, {SEE}")),
        3 => {
            let with = "with either a URL or a reason starting with \"unapproved\"";
            annotation.invalid(c, &format!("{must} {with}, {SEE}"));
        }
        _ => {}
    }
}
