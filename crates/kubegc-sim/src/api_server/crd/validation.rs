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
        validate::go_syntax,
    },
};

pub(super) const NOT_A_LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
     start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// A stored version that is no longer served is explained.
const MISSING_VERSIONS_ARE_EXPLAINED: Behavior = Behavior::since(33, 0, "kubernetes #128746");
/// Missing schemas are required without a word.
const DETAILS_ARE_LEFT_OUT: Behavior = Behavior::since(34, 0, "kubernetes #132472");
/// The refusal of `preserveUnknownFields` names the extension in full.
const EXTENSION_IS_NAMED: Behavior = Behavior::since(25, 0, "kubernetes #111446");

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Whether a string is a DNS-1035 label.
pub(super) fn is_label_1035(text: &str) -> bool {
    formats::dns_1035_label(text).is_empty()
}

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
    group(&spec.get("group"), c);
    spec.get("scope").one_of(c, &["Cluster", "Namespaced"]);
    for one in &definition.versions {
        let schema = one.get("schema").get("openAPIV3Schema");
        if !schema.is_set() {
            let is_explained = !version.has(DETAILS_ARE_LEFT_OUT);
            schema.required(c, if is_explained { "schemas are required" } else { "" });
        }
    }
    versions(&definition, c);
    names(&names_of_spec, c);
    for key in ["plural", "singular", "kind", "listKind"] {
        if names_of_spec.get(key).text().is_empty() {
            names_of_spec.get(key).required(c, "");
        }
    }
    if let Some(shared) = definition.shared("schema") {
        let has_status = definition.versions.iter().any(has_status);
        schema(&shared, has_status, c);
    }
    for (key, check) in OF_VERSIONS {
        if let Some(shared) = definition.shared(key) {
            check(&shared, c);
        }
        if key == "subresources" && version.has(FIELDS_ARE_SELECTABLE) {
            selectable(&definition, c);
        }
    }
    conversion(&spec.get("conversion"), c);
    if let Some(old) = old {
        unchanged(spec, old, c);
    }
    names(&status.get("acceptedNames"), c);
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

/// Validates a value.
type Validation = fn(&At<'_>, &mut Check);

/// The checks of values that belong to one version or to all.
const OF_VERSIONS: [(&str, Validation); 2] = [
    ("subresources", subresources),
    ("additionalPrinterColumns", columns),
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

fn group(group: &At<'_>, c: &mut Check) {
    let problems = formats::subdomain(c.version, group.text());
    if group.text().is_empty() {
        group.required(c, "");
    } else if !problems.is_empty() {
        group.problems(c, problems);
    } else if !group.text().contains('.') {
        group.invalid(c, "should be a domain with at least one dot");
    }
}

fn versions(definition: &Definition<'_>, c: &mut Check) {
    let mut seen = BTreeSet::new();
    let (mut stored, mut unique) = (0, true);
    for version in &definition.versions {
        let name = version.get("name");
        stored += usize::from(version.get("storage").flag());
        unique &= seen.insert(name.text());
        if !is_label_1035(name.text()) {
            name.invalid(c, NOT_A_LABEL_1035);
        }
        warning(
            &version.get("deprecationWarning"),
            version.get("deprecated").flag(),
            c,
        );
        if definition.shared("schema").is_none() {
            schema(&version.get("schema"), has_status(version), c);
        }
        for (key, check) in OF_VERSIONS {
            if definition.shared(key).is_none() {
                check(&version.get(key), c);
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
    if let Some(name) = first.filter(|name| !name.text().is_empty() && !is_label_1035(name.text())) {
        At::of_value(Some(name.value), "spec.version").invalid(c, NOT_A_LABEL_1035);
    }
}

fn warning(warning: &At<'_>, is_deprecated: bool, c: &mut Check) {
    if !warning.is_set() {
        return;
    }
    if !is_deprecated {
        warning.invalid(c, "can only be set for deprecated versions");
        return;
    }
    if warning.text().len() > 256 {
        warning.invalid(c, "must be <= 256 characters long");
    }
    if warning.text().is_empty() {
        warning.invalid(c, "must not be an empty string");
    }
    if let Some((index, _)) = warning.text().char_indices().find(|(_, char)| char.is_control()) {
        let problem = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        warning.invalid(c, &problem);
    }
}

/// `ValidateCustomResourceDefinitionNames`, of the spec or of the status.
fn names(names: &At<'_>, c: &mut Check) {
    for key in ["plural", "singular"] {
        let name = names.get(key);
        if !name.text().is_empty() && !is_label_1035(name.text()) {
            name.invalid(c, NOT_A_LABEL_1035);
        }
    }
    for key in ["kind", "listKind"] {
        let name = names.get(key);
        if !name.text().is_empty() && !is_label_1035(&name.text().to_lowercase()) {
            let problem = format!("may have mixed case, but should otherwise match: {NOT_A_LABEL_1035}");
            name.invalid(c, &problem);
        }
    }
    let (kind, list) = (names.get("kind"), names.get("listKind"));
    if !kind.text().is_empty() && kind.text() == list.text() {
        list.invalid(c, "kind and listKind may not be the same");
    }
    for key in ["shortNames", "categories"] {
        for name in names.get(key).items().filter(|name| !is_label_1035(name.text())) {
            name.invalid(c, NOT_A_LABEL_1035);
        }
    }
}

fn schema(validation: &At<'_>, has_status: bool, c: &mut Check) {
    let schema = validation.get("openAPIV3Schema");
    if schema.is_set() {
        structural::problems(&schema, has_status, c);
    }
}

fn subresources(subresources: &At<'_>, c: &mut Check) {
    let scale = subresources.get("scale");
    if !scale.is_set() {
        return;
    }
    for (key, parents, required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let path = scale.get(key);
        if path.text().is_empty() {
            if required {
                path.required(c, "");
            }
        } else if !path.text().starts_with('.') {
            path.invalid(c, "must be a simple json path starting with .");
        } else if !parents.iter().any(|parent| path.text().starts_with(parent)) {
            let parents: Vec<&str> = parents
                .iter()
                .map(|parent| parent.trim_end_matches('.'))
                .collect();
            let either = if parents.len() > 1 { "either " } else { "" };
            let problem = format!("should be a json path under {either}{}", parents.join(" or "));
            path.invalid(c, &problem);
        }
    }
}

fn columns(columns: &At<'_>, c: &mut Check) {
    const TYPES: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let is_in = |names: &str, name: &str| names.split(',').any(|known| known == name);
    for column in columns.items() {
        let (name, kind, format) = (column.get("name"), column.get("type"), column.get("format"));
        if name.text().is_empty() {
            name.required(c, "");
        }
        let of_types = format!("must be one of {TYPES}");
        if kind.text().is_empty() {
            kind.required(c, &of_types);
        } else if !is_in(TYPES, kind.text()) {
            kind.invalid(c, &of_types);
        }
        if !format.text().is_empty() && !is_in(FORMATS, format.text()) {
            format.invalid(c, &format!("must be one of {FORMATS}"));
        }
        let path = column.get("jsonPath").under(&column, "JSONPath");
        if path.text().is_empty() {
            path.required(c, "");
        } else if !path.text().starts_with('.') {
            path.invalid(c, "must be a simple json path starting with .");
        }
    }
}

fn conversion(conversion: &At<'_>, c: &mut Check) {
    let (strategy, webhook) = (conversion.get("strategy"), conversion.get("webhook"));
    strategy.one_of(c, &["None", "Webhook"]);
    let client = webhook
        .get("clientConfig")
        .under(conversion, "webhookClientConfig");
    let reviews = webhook
        .get("conversionReviewVersions")
        .under(conversion, "conversionReviewVersions");
    if strategy.text() != "Webhook" {
        let problem = "should not be set when strategy is not set to Webhook";
        if client.is_set() {
            client.forbidden(c, problem);
        }
        if !reviews.is_empty() {
            reviews.forbidden(c, problem);
        }
        return;
    }
    let service = client.get("service");
    if !client.is_set() {
        client.required(c, "required when strategy is set to Webhook");
    } else if client.get("url").is_set() == service.is_set() {
        client.required(c, "exactly one of url or service is required");
    } else {
        for key in ["name", "namespace"] {
            if service.is_set() && service.get(key).text().is_empty() {
                service
                    .get(key)
                    .required(c, &format!("service {key} is required"));
            }
        }
    }
    if reviews.is_empty() {
        reviews.required(c, "");
        return;
    }
    let mut seen = BTreeSet::new();
    for review in reviews.items() {
        if !seen.insert(review.text()) {
            review.invalid(c, "duplicate version");
        } else if !is_label_1035(review.text()) {
            review.invalid(c, NOT_A_LABEL_1035);
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
