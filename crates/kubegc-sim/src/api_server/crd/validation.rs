//! Validates CustomResourceDefinitions of `apiextensions.k8s.io/v1`.
//!
//! # Upstream
//! `ValidateCustomResourceDefinition` and `ValidateCustomResourceDefinitionUpdate` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, KubernetesVersion, version::behavior};
use serde_json::Value;

use super::{
    openapi::Rules,
    selectable::{FIELDS_ARE_SELECTABLE, selectable},
    structural,
};
use crate::{
    StoredObject, formats, go,
    status::{Cause, POINTER, quoted},
    types::validate::go_syntax,
};

/// The fields of versions that all of them may share.
const SHARED: [&str; 3] = ["additionalPrinterColumns", "schema", "subresources"];

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
    object: &'a StoredObject,
    pub(super) versions: Vec<&'a Value>,
    /// The schema of all versions.
    schema: Option<&'a Value>,
    subresources: Option<&'a Value>,
    columns: Option<&'a Value>,
}

impl<'a> Definition<'a> {
    pub(super) fn of(object: &'a StoredObject) -> Self {
        let versions = object.at(&["spec", "versions"]).and_then(Value::as_array);
        let versions: Vec<&Value> = versions.into_iter().flatten().collect();
        let shared = |key: &str| {
            let first = versions.first()?.get(key);
            first.filter(|_| versions.iter().all(|version| version.get(key) == first))
        };
        Self {
            schema: shared("schema"),
            subresources: shared("subresources"),
            columns: shared("additionalPrinterColumns"),
            object,
            versions,
        }
    }

    /// A value that belongs to one version only.
    fn own(&self, version: &'a Value, key: &str) -> Option<&'a Value> {
        let is_shared = match key {
            "schema" => self.schema.is_some(),
            "subresources" => self.subresources.is_some(),
            _ => self.columns.is_some(),
        };
        version.get(key).filter(|_| !is_shared)
    }

    fn has_status(&self, version: &Value) -> bool {
        version.pointer("/subresources/status").is_some()
    }

    fn text(&self, path: &[&str]) -> &'a str {
        self.object.text_at(path)
    }

    /// The versions as errors of a release print them.
    fn printed(&self, release: KubernetesVersion) -> String {
        if release.has(behavior::VALUES_ARE_JSON) {
            let versions = self.versions.iter().map(|version| {
                let mut shown = Value::clone(version);
                if let Some(fields) = shown.as_object_mut() {
                    // What all versions share is no part of one.
                    fields.retain(|key, _| !SHARED.contains(&&**key) || self.own(version, key).is_some());
                }
                shown
            });
            let versions = versions.collect();
            return go_syntax::value(
                release,
                &versions,
                "[]apiextensions.CustomResourceDefinitionVersion",
            );
        }
        if !self.object.at(&["spec", "versions"]).is_some_and(Value::is_array) {
            return "[]apiextensions.CustomResourceDefinitionVersion(nil)".to_owned();
        }
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|version| self.printed_version(version))
            .collect();
        format!(
            "[]apiextensions.CustomResourceDefinitionVersion{{{}}}",
            versions.join(", ")
        )
    }

    fn printed_version(&self, version: &'a Value) -> String {
        let flag = |key: &str| version.get(key) == Some(&Value::Bool(true));
        let pointer = |is_set: bool| if is_set { POINTER } else { "nil" };
        let text =
            |value: &Value, key: &str| quoted(value.get(key).and_then(Value::as_str).unwrap_or_default());
        let columns = self
            .own(version, "additionalPrinterColumns")
            .and_then(Value::as_array);
        let columns = match columns {
            None => "(nil)".to_owned(),
            Some(columns) => {
                let columns: Vec<String> = columns
                    .iter()
                    .map(|column| {
                        format!(
                            "apiextensions.CustomResourceColumnDefinition{{Name:{}, Type:{}, Format:{}, Description:{}, \
                             Priority:{}, JSONPath:{}}}",
                            text(column, "name"),
                            text(column, "type"),
                            text(column, "format"),
                            text(column, "description"),
                            column.get("priority").and_then(Value::as_i64).unwrap_or(0),
                            text(column, "jsonPath"),
                        )
                    })
                    .collect();
                format!("{{{}}}", columns.join(", "))
            }
        };
        format!(
            "apiextensions.CustomResourceDefinitionVersion{{Name:{}, Served:{}, Storage:{}, Deprecated:{}, \
             DeprecationWarning:(*string)({}), Schema:(*apiextensions.CustomResourceValidation)({}), \
             Subresources:(*apiextensions.CustomResourceSubresources)({}), \
             AdditionalPrinterColumns:[]apiextensions.CustomResourceColumnDefinition{columns}}}",
            text(version, "name"),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            pointer(version.get("deprecationWarning").is_some()),
            pointer(self.own(version, "schema").is_some()),
            pointer(self.own(version, "subresources").is_some()),
        )
    }
}

/// The problems of a definition. `old` is the stored one that it replaces.
pub(super) fn problems(
    version: KubernetesVersion,
    object: &StoredObject,
    old: Option<&StoredObject>,
    rules: Rules,
) -> Vec<Cause> {
    let definition = Definition::of(object);
    let mut causes = Vec::new();
    if old.is_none() {
        let name = format!(
            "{}.{}",
            definition.text(&["spec", "names", "plural"]),
            definition.text(&["spec", "group"])
        );
        if *object.meta.name != *name && !object.meta.name.is_empty() {
            let problem = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid(
                "metadata.name",
                &quoted(&object.meta.name),
                problem,
            ));
        }
    }
    group(version, &definition, &mut causes);
    one_of(
        "spec.scope",
        definition.text(&["spec", "scope"]),
        &["Cluster", "Namespaced"],
        &mut causes,
    );
    for (index, one) in definition.versions.iter().enumerate() {
        if one.pointer("/schema/openAPIV3Schema").is_none() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            let detail = if version.has(DETAILS_ARE_LEFT_OUT) {
                ""
            } else {
                "schemas are required"
            };
            causes.push(Cause::required(field, detail));
        }
    }
    versions(&definition, rules, &mut causes);
    names(object, &["spec", "names"], &mut causes);
    for key in ["plural", "singular", "kind", "listKind"] {
        if definition.text(&["spec", "names", key]).is_empty() {
            causes.push(Cause::required(format!("spec.names.{key}"), ""));
        }
    }
    if let Some(shared) = definition.schema {
        let status = definition
            .versions
            .iter()
            .any(|version| definition.has_status(version));
        schema(shared, "spec.validation", status, rules, &mut causes);
    }
    if let Some(shared) = definition.subresources {
        subresources(shared, "spec.subresources", &mut causes);
    }
    if version.has(FIELDS_ARE_SELECTABLE) {
        selectable(&definition, &mut causes);
    }
    columns(definition.columns, "spec", &mut causes);
    conversion(object, &mut causes);
    if let Some(old) = old {
        unchanged(object, old, &mut causes);
    }
    names(object, &["status", "acceptedNames"], &mut causes);
    stored_versions(&definition, rules.version, &mut causes);
    approval(object, old, &mut causes);
    let preserved =
        |object: &StoredObject| object.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
    if preserved(object) && !old.is_some_and(preserved) {
        let name = match version.has(EXTENSION_IS_NAMED) {
            true => "x-kubernetes-preserve-unknown-fields",
            false => "x-preserve-unknown-fields",
        };
        let problem = &format!("cannot set to true, set {name} to true in spec.versions[*].schema instead");
        causes.push(Cause::invalid("spec.preserveUnknownFields", "true", problem));
    }
    causes
}

/// The schemas of a definition with their paths; a schema that all versions share is returned once.
pub(super) fn schemas(object: &StoredObject) -> Vec<(String, &Value)> {
    let definition = Definition::of(object);
    let shared = definition
        .schema
        .map(|schema| ("spec.validation".to_owned(), schema));
    let own = definition
        .versions
        .iter()
        .enumerate()
        .filter_map(|(index, version)| {
            let schema = definition.own(version, "schema")?;
            Some((format!("spec.versions[{index}].schema"), schema))
        });
    let schemas = shared.into_iter().chain(own);
    schemas
        .filter_map(|(path, schema)| {
            Some((format!("{path}.openAPIV3Schema"), schema.get("openAPIV3Schema")?))
        })
        .collect()
}

fn group(version: KubernetesVersion, definition: &Definition<'_>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "spec.group";
    let group = definition.text(&["spec", "group"]);
    if group.is_empty() {
        causes.push(Cause::required(FIELD, ""));
    } else if let problems = formats::subdomain(version, group)
        && !problems.is_empty()
    {
        causes.extend(
            problems
                .iter()
                .map(|problem| Cause::invalid(FIELD, &quoted(group), problem)),
        );
    } else if !group.contains('.') {
        let problem = "should be a domain with at least one dot";
        causes.push(Cause::invalid(FIELD, &quoted(group), problem));
    }
}

/// `validateEnumStrings`.
fn one_of(field: &str, value: &str, accepted: &[&str], causes: &mut Vec<Cause>) {
    if value.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if !accepted.contains(&value) {
        causes.push(Cause::not_supported(field, &quoted(value), accepted));
    }
}

fn versions(definition: &Definition<'_>, rules: Rules, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    let (mut stored, mut unique) = (0, true);
    for (index, &version) in definition.versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        stored += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        unique &= seen.insert(name);
        if !is_label_1035(name) {
            causes.push(Cause::invalid(
                format!("{path}.name"),
                &quoted(name),
                NOT_A_LABEL_1035,
            ));
        }
        warning(version, &path, causes);
        if let Some(own) = definition.own(version, "schema") {
            let status = definition.has_status(version);
            schema(own, &format!("{path}.schema"), status, rules, causes);
        }
        if let Some(own) = definition.own(version, "subresources") {
            subresources(own, &format!("{path}.subresources"), causes);
        }
        columns(definition.own(version, "additionalPrinterColumns"), &path, causes);
    }
    if !unique {
        causes.push(Cause::invalid(
            "spec.versions",
            &definition.printed(rules.version),
            "must contain unique version names",
        ));
    }
    if stored != 1 {
        let problem = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid(
            "spec.versions",
            &definition.printed(rules.version),
            problem,
        ));
    }
    if let Some(name) = definition
        .versions
        .first()
        .and_then(|version| version.get("name")?.as_str())
        && !name.is_empty()
        && !is_label_1035(name)
    {
        causes.push(Cause::invalid("spec.version", &quoted(name), NOT_A_LABEL_1035));
    }
}

fn warning(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut wrong = |problem: &str| {
        causes.push(Cause::invalid(
            format!("{path}.deprecationWarning"),
            &quoted(text),
            problem,
        ));
    };
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        wrong("can only be set for deprecated versions");
        return;
    }
    if text.len() > 256 {
        wrong("must be <= 256 characters long");
    }
    if text.is_empty() {
        wrong("must not be an empty string");
    }
    if let Some((index, _)) = text.char_indices().find(|(_, char)| char.is_control()) {
        wrong(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// `ValidateCustomResourceDefinitionNames`, of the spec or of the status.
fn names(object: &StoredObject, path: &[&str; 2], causes: &mut Vec<Cause>) {
    let names = object.at(path);
    let text = |key: &str| {
        names
            .and_then(|names| names.get(key)?.as_str())
            .unwrap_or_default()
    };
    let mut wrong = |field: String, value: &str, problem: &str| {
        causes.push(Cause::invalid(
            format!("{}.{field}", path.join(".")),
            &quoted(value),
            problem,
        ));
    };
    for key in ["plural", "singular"] {
        if !text(key).is_empty() && !is_label_1035(text(key)) {
            wrong(key.to_owned(), text(key), NOT_A_LABEL_1035);
        }
    }
    for key in ["kind", "listKind"] {
        if !text(key).is_empty() && !is_label_1035(&text(key).to_lowercase()) {
            let problem = format!("may have mixed case, but should otherwise match: {NOT_A_LABEL_1035}");
            wrong(key.to_owned(), text(key), &problem);
        }
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        wrong(
            "listKind".to_owned(),
            text("listKind"),
            "kind and listKind may not be the same",
        );
    }
    for key in ["shortNames", "categories"] {
        let list = names
            .and_then(|names| names.get(key)?.as_array())
            .into_iter()
            .flatten();
        for (index, name) in list.filter_map(Value::as_str).enumerate() {
            if !is_label_1035(name) {
                wrong(format!("{key}[{index}]"), name, NOT_A_LABEL_1035);
            }
        }
    }
}

fn schema(validation: &Value, path: &str, has_status: bool, rules: Rules, causes: &mut Vec<Cause>) {
    if let Some(schema) = validation.get("openAPIV3Schema") {
        structural::problems(
            schema,
            &format!("{path}.openAPIV3Schema"),
            has_status,
            rules,
            causes,
        );
    }
}

fn subresources(subresources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = subresources.get("scale") else {
        return;
    };
    let text = |key: &str| scale.get(key).and_then(Value::as_str).unwrap_or_default();
    for (key, parents, words, required) in [
        (
            "specReplicasPath",
            &[".spec."][..],
            "should be a json path under .spec",
            true,
        ),
        (
            "statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
            true,
        ),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ] {
        let (field, value) = (format!("{path}.scale.{key}"), text(key));
        if value.is_empty() {
            if required {
                causes.push(Cause::required(field, ""));
            }
        } else if !value.starts_with('.') {
            let problem = "must be a simple json path starting with .";
            causes.push(Cause::invalid(field, &quoted(value), problem));
        } else if !parents.iter().any(|parent| value.starts_with(parent)) {
            causes.push(Cause::invalid(field, &quoted(value), words));
        }
    }
}

fn columns(columns: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
        "timestamp",
    ];
    for (index, column) in columns
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = |key: &str| format!("{path}.additionalPrinterColumns[{index}].{key}");
        if text("name").is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
        let of_types = format!("must be one of {}", TYPES.join(","));
        if text("type").is_empty() {
            causes.push(Cause::required(field("type"), &of_types));
        } else if !TYPES.contains(&text("type")) {
            causes.push(Cause::invalid(field("type"), &quoted(text("type")), &of_types));
        }
        if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
            let problem = format!("must be one of {}", FORMATS.join(","));
            causes.push(Cause::invalid(field("format"), &quoted(text("format")), &problem));
        }
        let path = text("jsonPath");
        if path.is_empty() {
            causes.push(Cause::required(field("JSONPath"), ""));
        } else if !path.starts_with('.') {
            let problem = "must be a simple json path starting with .";
            causes.push(Cause::invalid(field("JSONPath"), &quoted(path), problem));
        }
    }
}

fn conversion(object: &StoredObject, causes: &mut Vec<Cause>) {
    const PATH: &str = "spec.conversion";
    let strategy = object.text_at(&["spec", "conversion", "strategy"]);
    one_of(
        &format!("{PATH}.strategy"),
        strategy,
        &["None", "Webhook"],
        causes,
    );
    let client = object.at(&["spec", "conversion", "webhook", "clientConfig"]);
    let reviews = object.at(&["spec", "conversion", "webhook", "conversionReviewVersions"]);
    let reviews: Vec<&str> = reviews
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (config, versions) = (
        format!("{PATH}.webhookClientConfig"),
        format!("{PATH}.conversionReviewVersions"),
    );
    if strategy != "Webhook" {
        let problem = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            causes.push(Cause::forbidden(config, problem));
        }
        if !reviews.is_empty() {
            causes.push(Cause::forbidden(versions, problem));
        }
        return;
    }
    match client {
        None => causes.push(Cause::required(
            config,
            "required when strategy is set to Webhook",
        )),
        Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
            causes.push(Cause::required(
                config,
                "exactly one of url or service is required",
            ));
        }
        Some(client) => {
            for key in ["name", "namespace"] {
                let pointer = client
                    .get("service")
                    .map(|service| service.get(key).and_then(Value::as_str));
                if pointer.is_some_and(|text| text.unwrap_or_default().is_empty()) {
                    causes.push(Cause::required(
                        format!("{config}.service.{key}"),
                        &format!("service {key} is required"),
                    ));
                }
            }
        }
    }
    if reviews.is_empty() {
        causes.push(Cause::required(versions, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, review) in reviews.iter().enumerate() {
        let field = format!("{versions}[{index}]");
        if !seen.insert(review) {
            causes.push(Cause::invalid(field, &quoted(review), "duplicate version"));
        } else if !is_label_1035(review) {
            causes.push(Cause::invalid(field, &quoted(review), NOT_A_LABEL_1035));
        }
    }
    if !reviews.iter().any(|review| matches!(*review, "v1" | "v1beta1")) {
        let shown: Vec<String> = reviews.iter().map(|review| quoted(review)).collect();
        let shown = format!("[]string{{{}}}", shown.join(", "));
        causes.push(Cause::invalid(
            versions,
            &shown,
            "must include at least one of v1, v1beta1",
        ));
    }
}

/// Checks the immutable fields of a definition.
fn unchanged(object: &StoredObject, old: &StoredObject, causes: &mut Vec<Cause>) {
    let established = super::condition(old, "Established") == Some("True");
    for (path, only_established) in [
        (&["spec", "scope"][..], true),
        (&["spec", "names", "kind"], true),
        (&["spec", "group"], false),
        (&["spec", "names", "plural"], false),
    ] {
        let (new, old) = (object.text_at(path), old.text_at(path));
        if new != old && (established || !only_established) {
            causes.push(Cause::invalid(path.join("."), &quoted(new), "field is immutable"));
        }
    }
}

fn stored_versions(definition: &Definition<'_>, release: KubernetesVersion, causes: &mut Vec<Cause>) {
    const FIELD: &str = "status.storedVersions";
    let stored = definition
        .object
        .at(&["status", "storedVersions"])
        .and_then(Value::as_array);
    let mut stored: Vec<(usize, &str)> = stored
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .enumerate()
        .collect();
    if stored.is_empty() {
        causes.push(Cause::invalid(
            FIELD,
            if release.has(behavior::VALUES_ARE_JSON) {
                "null"
            } else {
                "[]string(nil)"
            },
            "must have at least one stored version",
        ));
        return;
    }
    let all: Vec<&str> = stored.iter().map(|(_, name)| *name).collect();
    for &version in &definition.versions {
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_stored = stored.iter().any(|(_, stored)| *stored == name);
        if version.get("storage") == Some(&Value::Bool(true)) && !is_stored {
            let shown = match release.has(behavior::VALUES_ARE_JSON) {
                true => Value::from(all.clone()).to_string(),
                false => definition.printed_version(version),
            };
            causes.push(Cause::invalid(
                FIELD,
                &shown,
                &format!("must have the storage version {name}"),
            ));
        }
        stored.retain(|(_, stored)| *stored != name);
    }
    for (index, name) in stored {
        causes.push(Cause::invalid(
            format!("{FIELD}[{index}]"),
            &quoted(name),
            &match release.has(MISSING_VERSIONS_ARE_EXPLAINED) {
                true => format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {name} and \
                     removes {name} from status.storedVersions"
                ),
                false => "must appear in spec.versions".to_owned(),
            },
        ));
    }
}

/// `validateAPIApproval`: groups of the community need an annotation.
fn approval(object: &StoredObject, old: Option<&StoredObject>, causes: &mut Vec<Cause>) {
    let group = object.text_at(&["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if !is_protected {
        return;
    }
    let annotation = |object: &StoredObject| {
        object
            .at(&["metadata", "annotations", APPROVAL])
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let field = format!("metadata.annotations[{APPROVAL}]");
    let value = annotation(object);
    let state = |value: &str| {
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
    if old.is_some_and(|old| state(&annotation(old)) == state(&value)) {
        return;
    }
    match state(&value) {
        0 => {
            let problem = format!(
                "protected groups must have approval annotation {}, see https://github.com/kubernetes/enhancements/pull/1111",
                quoted(APPROVAL)
            );
            causes.push(Cause::required(field, &problem));
        }
        3 => {
            let problem = format!(
                "protected groups must have approval annotation {} with either a URL or a reason starting with \
                 \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
                quoted(APPROVAL)
            );
            causes.push(Cause::invalid(field, &go::shown(&value.into()), &problem));
        }
        _ => {}
    }
}
