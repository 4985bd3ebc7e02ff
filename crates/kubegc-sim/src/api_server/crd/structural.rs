//! Validates the schemas of CustomResourceDefinitions: that they are structural, and that their defaults fit them.
//!
//! # Upstream
//! `ValidateCustomResourceDefinitionOpenAPISchema` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`, and
//! `pkg/apiserver/schema/{validation,complete}.go` and `defaulting/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

use super::{
    instance::{self, child, is_embedded, preserves},
    openapi::{self, Rules},
};
use crate::{
    go,
    status::{Cause, quoted},
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The problems of the schema of one or all versions.
pub(super) fn problems(schema: &Value, path: &str, has_status: bool, rules: Rules, causes: &mut Vec<Cause>) {
    let before = causes.len();
    if has_status {
        root_of_status(schema, path, causes);
    }
    if flag(schema, "nullable") {
        causes.push(Cause::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    standard(schema, path, Place::ROOT, causes);
    let unsupported = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    let is_convertible = !any(schema, &|schema| {
        unsupported.iter().any(|key| schema.get(*key).is_some())
            || schema.get("items").is_some_and(Value::is_array)
            || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
    });
    if !is_convertible {
        // Reported above.
        if causes.len() == before {
            causes.push(Cause::invalid(
                path,
                "\"\"",
                "OpenAPIV3Schema '$schema' is not supported",
            ));
        }
        return;
    }
    let found = causes.len();
    invariants(schema, Level::Root, path, causes);
    complete(schema, Some(schema), path, path, causes);
    if causes.len() == found {
        defaults(schema, path, true, false, rules, causes);
    }
}

/// At the root of a schema with a status of its own, only some fields have an effect.
fn root_of_status(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    const ALLOWED: [&str; 21] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
    ];
    let go_name = |key: &str| match key.strip_prefix("x-kubernetes-") {
        Some(rest) => rest
            .split('-')
            .fold("X".to_owned(), |name, part| name + &capitalized(part)),
        None => capitalized(key),
    };
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let problem = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        causes.push(Cause::invalid(format!("{path}.type"), &quoted(kind), problem));
        return;
    }
    let fields = schema.as_object().into_iter().flatten();
    if fields
        .map(|(key, _)| go_name(key))
        // Rules were added after the releases of this list.
        .any(|name| !ALLOWED.contains(&name.as_str()) && name != "XValidations")
    {
        let problem = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            ALLOWED.join(" ")
        );
        causes.push(Cause::invalid(path, &go::syntax(schema), &problem));
    }
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// The position of a schema in a resource.
#[derive(Clone, Copy)]
struct Place {
    is_root: bool,
    in_meta: bool,
    /// The reason why defaults are forbidden.
    no_defaults: Option<&'static str>,
}

impl Place {
    const ROOT: Self = Self {
        is_root: true,
        in_meta: false,
        no_defaults: None,
    };

    const fn below(self) -> Self {
        Self {
            is_root: false,
            ..self
        }
    }
}

/// Validates the rules for every schema. Depth is bounded by the parser that read it, here and in all
/// following functions.
fn standard(schema: &Value, path: &str, place: Place, causes: &mut Vec<Cause>) {
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::not_supported(at("type"), &quoted(kind), &TYPES));
    }
    if let (Some(reason), Some(_)) = (place.no_defaults, schema.get("default")) {
        causes.push(Cause::forbidden(
            at("default"),
            &format!("must not be set {reason}"),
        ));
    }
    for key in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.get(key).is_some() {
            causes.push(Cause::forbidden(at(key), &format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let problem = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(at("type"), problem));
    }
    let items = schema.get("items");
    if items.is_some_and(Value::is_array) {
        causes.push(Cause::forbidden(
            at("items"),
            "items must be a schema object and not an array",
        ));
    }
    if place.in_meta && is_embedded(schema) {
        let problem = "must not be used inside of resource meta";
        causes.push(Cause::forbidden(at("x-kubernetes-embedded-resource"), problem));
    }
    if flag(schema, "uniqueItems") {
        let problem = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(at("uniqueItems"), problem));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(additional) = schema.get("additionalProperties") {
        if properties.is_some() && *additional != Value::Bool(true) {
            let problem = "additionalProperties and properties are mutual exclusive";
            causes.push(Cause::forbidden(at("additionalProperties"), problem));
        }
        let mut below = place.below();
        if place.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        if additional.is_object() {
            standard(additional, &at("additionalProperties"), below, causes);
        }
    }
    for (key, property) in properties.into_iter().flatten() {
        let mut below = place.below();
        if place.is_root || is_embedded(schema) {
            let reason = match key.as_str() {
                "apiVersion" => Some("in top-level apiVersion"),
                "kind" => Some("in top-level kind"),
                "metadata" => Some("in top-level metadata"),
                _ => None,
            };
            if reason.is_some() {
                below.in_meta = true;
                if place.is_root {
                    below.no_defaults = reason;
                }
            }
        }
        standard(property, &format!("{path}.properties[{key}]"), below, causes);
    }
    for (path, nested) in nested(schema, path) {
        standard(nested, &path, place.below(), causes);
    }
    if let Some(items) = items.filter(|items| items.is_object()) {
        standard(items, &at("items"), place.below(), causes);
    }
    extensions(schema, path, causes);
}

/// The schemas of `not`, `allOf`, `oneOf` and `anyOf`, with their paths.
fn nested<'a>(schema: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    if let Some(not) = schema.get("not") {
        found.push((format!("{path}.not"), not));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        found.extend(
            list.enumerate()
                .map(|(index, nested)| (format!("{path}.{key}[{index}]"), nested)),
        );
    }
    found
}

/// Validates the list and map extensions of a schema.
fn extensions(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    let given = |key: &str| schema.get(key).and_then(Value::as_str);
    let (list_type, map_type) = (given(LIST_TYPE), given(MAP_TYPE));
    let items = schema.get("items");
    let mut of_type = |given: Option<&str>, expected: &str, key: &str| {
        if given.is_none() || kind == expected {
            return false;
        }
        let problem = format!("must be {expected} if {key} is specified");
        causes.push(if kind.is_empty() {
            Cause::required(at("type"), &problem)
        } else {
            Cause::invalid(at("type"), &quoted(kind), &problem)
        });
        true
    };
    of_type(map_type, "object", MAP_TYPE);
    let is_no_list = of_type(list_type, "array", LIST_TYPE);
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = at("x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(field, "false", "must be true or undefined"));
    }
    if let Some(other) = map_type.filter(|one| !matches!(*one, "atomic" | "granular")) {
        causes.push(Cause::not_supported(
            at(MAP_TYPE),
            &quoted(other),
            &["atomic", "granular"],
        ));
    }
    if let (false, Some("set"), Some(items)) =
        (is_no_list, list_type, items.filter(|items| items.is_object()))
    {
        let problem = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let of_items = |key: &str| items.get(key).and_then(Value::as_str);
        let shown = of_items(LIST_TYPE).map_or_else(|| "\"null\"".to_owned(), quoted);
        match text(items, "type") {
            "array" if of_items(LIST_TYPE).is_some_and(|one| one != "atomic") => {
                causes.push(Cause::invalid(
                    format!("{}.{LIST_TYPE}", at("items")),
                    &shown,
                    problem,
                ));
            }
            "object" if of_items(MAP_TYPE) != Some("atomic") => {
                causes.push(Cause::invalid(
                    format!("{}.{MAP_TYPE}", at("items")),
                    &shown,
                    problem,
                ));
            }
            _ => {}
        }
    }
    if let Some(other) = list_type.filter(|one| !matches!(*one, "atomic" | "set" | "map")) {
        causes.push(Cause::not_supported(
            at(LIST_TYPE),
            &quoted(other),
            &["atomic", "set", "map"],
        ));
    }
    let keys = schema.get(KEYS).and_then(Value::as_array).into_iter().flatten();
    let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
    if !keys.is_empty() && list_type != Some("map") {
        let problem = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match list_type {
            None => Cause::required(at(LIST_TYPE), problem),
            Some(other) => Cause::invalid(at(LIST_TYPE), &quoted(other), problem),
        });
    }
    if list_type == Some("map") {
        map_list(items, &keys, path, causes);
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) =
        (list_type, items.filter(|items| items.is_object()))
    {
        if flag(items, "nullable") {
            let problem = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            causes.push(Cause::forbidden(format!("{path}.items.nullable"), &problem));
        }
        if list_type == "map" {
            keys_of_map(items, &keys, path, causes);
        }
    }
}

fn map_list(items: Option<&Value>, keys: &[&str], path: &str, causes: &mut Vec<Cause>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    if keys.is_empty() {
        let problem = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{path}.{KEYS}"), problem));
    }
    let Some(items) = items else {
        let problem = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{path}.items"), problem));
        return;
    };
    if !items.is_object() {
        let problem = "must only have a single schema if x-kubernetes-list-type is map";
        causes.push(Cause::invalid(
            format!("{path}.items"),
            &go::syntax(items),
            problem,
        ));
        return;
    }
    let kind = text(items, "type");
    if kind != "object" {
        let problem = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(
            format!("{path}.items.type"),
            &quoted(kind),
            problem,
        ));
        return;
    }
    let shown: Vec<String> = keys.iter().map(|key| quoted(key)).collect();
    let shown = format!("[]string{{{}}}", shown.join(", "));
    let mut seen = BTreeSet::new();
    for key in keys {
        match items
            .get("properties")
            .and_then(|properties| properties.get(*key))
        {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let problem = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let field = format!("{path}.items.properties[{key}].type");
                causes.push(Cause::invalid(field, &quoted(kind), problem));
            }
            Some(_) => {}
            None => {
                let problem = "entries must all be names of item properties";
                causes.push(Cause::invalid(format!("{path}.{KEYS}"), &shown, problem));
            }
        }
        if !seen.insert(key) {
            let problem = "must not contain duplicate entries";
            causes.push(Cause::invalid(format!("{path}.{KEYS}"), &shown, problem));
        }
    }
}

/// Every item has the keys of a map.
fn keys_of_map(items: &Value, keys: &[&str], path: &str, causes: &mut Vec<Cause>) {
    let required = items.get("required").and_then(Value::as_array);
    for key in keys {
        let Some(property) = items
            .get("properties")
            .and_then(|properties| properties.get(*key))
        else {
            continue;
        };
        let field = |what: &str| format!("{path}.items.properties[{key}].{what}");
        let is_required = required.is_some_and(|required| required.iter().any(|one| one == key));
        if !is_required && property.get("default").is_none() {
            let problem = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(field("default"), problem));
        }
        if flag(property, "nullable") {
            let problem = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(field("nullable"), problem));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// `validateStructuralInvariants`.
fn invariants(schema: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    let items = schema.get("items").filter(|items| items.is_object());
    if kind == "array" && items.is_none() {
        causes.push(Cause::required(at("items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &at("items"), causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        invariants(
            property,
            Level::Field,
            &format!("{path}.properties[{key}]"),
            causes,
        );
    }
    let additional = schema.get("additionalProperties");
    if additional.is_some() && level == Level::Root {
        causes.push(Cause::forbidden(
            at("additionalProperties"),
            "must not be used at the root",
        ));
    }
    if let Some(additional) = additional.filter(|additional| additional.is_object()) {
        invariants(additional, Level::Field, &at("additionalProperties"), causes);
    }
    let (int_or_string, embedded) = (flag(schema, "x-kubernetes-int-or-string"), is_embedded(schema));
    if int_or_string && preserves(schema) {
        let field = at("x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(
            field,
            "true",
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    if int_or_string && embedded {
        let field = at("x-kubernetes-embedded-resource");
        causes.push(Cause::invalid(
            field,
            "true",
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    let skips_any = is_int_or_string(schema.get("anyOf"));
    let skips_all = is_int_or_string(schema.pointer("/allOf/0/anyOf"));
    value_validation(schema, skips_any, skips_all, path, causes);
    if embedded && kind != "object" {
        let problem = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(if kind.is_empty() {
            Cause::required(at("type"), problem)
        } else {
            Cause::invalid(at("type"), &quoted(kind), problem)
        });
    } else if kind.is_empty() && !int_or_string && !preserves(schema) {
        causes.push(Cause::required(
            at("type"),
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if embedded && additional.is_some() {
        let problem = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(at("additionalProperties"), problem));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        causes.push(Cause::invalid(
            at("type"),
            &quoted(kind),
            "must be object at the root",
        ));
    }
    if level == Level::Root || embedded {
        for (key, expected) in [
            ("kind", "string"),
            ("apiVersion", "string"),
            ("metadata", "object"),
        ] {
            if let Some(property) = properties.and_then(|properties| properties.get(key))
                && text(property, "type") != expected
            {
                let field = format!("{path}.properties[{key}].type");
                let problem = format!("must be {expected}");
                causes.push(Cause::invalid(field, &quoted(text(property, "type")), &problem));
            }
        }
    }
    if level == Level::Root
        && let Some(Value::Object(metadata)) = properties.and_then(|properties| properties.get("metadata"))
        && says_more_than_names(metadata)
    {
        let problem = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), problem));
    }
    if embedded && !preserves(schema) && properties.is_none_or(Map::is_empty) {
        let problem = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(at("properties"), problem));
    }
}

fn says_more_than_names(metadata: &Map<String, Value>) -> bool {
    metadata.iter().any(|(key, value)| match (key.as_str(), value) {
        ("type" | "default", _) => false,
        ("properties", Value::Object(properties)) => properties
            .keys()
            .any(|key| !matches!(key.as_str(), "name" | "generateName")),
        _ => true,
    })
}

/// Whether these are exactly the two types integer and string.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    let types = |value: &Value, kind: &str| {
        value.as_object().is_some_and(|fields| fields.len() == 1) && text(value, "type") == kind
    };
    matches!(
        any_of.and_then(Value::as_array).map(Vec::as_slice),
        Some([first, second]) if types(first, "integer") && types(second, "string")
    )
}

/// `validateValueValidation`.
fn value_validation(schema: &Value, skips_any: bool, skips_all: bool, path: &str, causes: &mut Vec<Cause>) {
    for (at, nested) in nested(schema, path) {
        let is_any = at.starts_with(&format!("{path}.anyOf["));
        if is_any && skips_any {
            continue;
        }
        let skips = skips_all && at == format!("{path}.allOf[0]");
        nested_validation(nested, skips, &at, causes);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(problem) = Regex::new(pattern)
    {
        let problem = format!(
            "must be a valid regular expression, but isn't: error parsing regexp: {}",
            go_problem(pattern, &problem)
        );
        causes.push(Cause::invalid(
            format!("{path}.pattern"),
            &quoted(pattern),
            &problem,
        ));
    }
}

/// The message of Go's `regexp` for an invalid pattern.
fn go_problem(pattern: &str, problem: &regex::Error) -> String {
    let said = problem.to_string();
    let has = |words: &str| said.contains(words);
    if has("unclosed group") {
        format!("missing closing ): `{pattern}`")
    } else if has("unopened group") {
        format!("unexpected ): `{pattern}`")
    } else if has("unclosed character class") {
        let open = pattern.rfind('[').unwrap_or_default();
        format!("missing closing ]: `{}`", &pattern[open..])
    } else if has("repetition operator missing expression") {
        let at = pattern.find(['*', '+', '?', '{']).unwrap_or_default();
        format!(
            "missing argument to repetition operator: `{}`",
            pattern[at..].chars().take(1).collect::<String>()
        )
    } else if has("incomplete escape sequence") {
        "trailing backslash at end of expression: ``".to_owned()
    } else if has("unrecognized escape") {
        let escape = pattern
            .find('\\')
            .map(|at| pattern[at..].chars().take(2).collect::<String>());
        format!("invalid escape sequence: `{}`", escape.unwrap_or_default())
    } else if has("look-around") {
        let at = pattern.find("(?").unwrap_or_default();
        format!(
            "invalid or unsupported Perl syntax: `{}`",
            pattern[at..].chars().take(3).collect::<String>()
        )
    } else {
        format!("invalid character class range: `{pattern}`")
    }
}

/// `validateNestedValueValidation`.
fn nested_validation(schema: &Value, skips_any: bool, path: &str, causes: &mut Vec<Cause>) {
    let at = |key: &str| format!("{path}.{key}");
    value_validation(schema, skips_any, false, path, causes);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested_validation(items, false, &at("items"), causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        nested_validation(property, false, &format!("{path}.properties[{key}]"), causes);
    }
    for (key, must) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        if schema.get(key).is_some() {
            causes.push(Cause::forbidden(
                at(key),
                &format!("must be {must} to be structural"),
            ));
        }
    }
    if properties.is_some_and(|properties| properties.contains_key("metadata")) {
        let field = format!("{path}.properties[metadata]");
        causes.push(Cause::forbidden(
            field,
            "must not be specified in a nested context",
        ));
    }
}

/// `validateStructuralCompleteness`: fields of nested schemas are also specified outside of them.
fn complete(of: &Value, outside: Option<&Value>, outside_path: &str, path: &str, causes: &mut Vec<Cause>) {
    for (at, nested) in nested(of, path) {
        complete_nested(nested, outside, outside_path, &at, causes);
    }
}

fn complete_nested(
    of: &Value,
    outside: Option<&Value>,
    outside_path: &str,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let Some(known) = outside else {
        causes.push(Cause::required(
            outside_path,
            &format!("because it is defined in {path}"),
        ));
        return;
    };
    complete(of, outside, outside_path, path, causes);
    if let Some(items) = of.get("items").filter(|items| items.is_object()) {
        let known = known.get("items").filter(|items| items.is_object());
        complete_nested(
            items,
            known,
            &format!("{outside_path}.items"),
            &format!("{path}.items"),
            causes,
        );
    }
    for (key, property) in of
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let known = known.get("properties").and_then(|properties| properties.get(key));
        let below = |path: &str| format!("{path}.properties[{key}]");
        complete_nested(property, known, &below(outside_path), &below(path), causes);
    }
}

/// `ValidateDefaults`: defaults are pruned and valid under their schema.
fn defaults(schema: &Value, path: &str, is_root: bool, in_meta: bool, rules: Rules, causes: &mut Vec<Cause>) {
    let embedded = is_root || is_embedded(schema);
    let in_meta = in_meta && !embedded;
    if let Some(default) = schema.get("default") {
        let field = format!("{path}.default");
        let found = causes.len();
        if !in_meta {
            let mut pruned = default.clone();
            if let Value::Object(fields) = &mut pruned {
                instance::prune_fields(fields, schema, embedded);
            }
            if pruned != *default {
                causes.push(Cause::invalid(
                    &*field,
                    &go::shown(default),
                    "must not have unknown fields",
                ));
            }
            instance::embedded_problems(default, schema, &field, causes);
        }
        if causes.len() == found {
            causes.extend(openapi::problems(&field, default, schema, rules));
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        defaults(items, &format!("{path}.items"), false, in_meta, rules, causes);
    }
    for (key, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let in_meta = in_meta || (embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
        let path = child(path, &format!("properties[{key}]"));
        defaults(property, &path, false, in_meta, rules, causes);
    }
}

/// Whether a predicate holds for a schema or for one below it.
fn any(schema: &Value, is_such: &dyn Fn(&Value) -> bool) -> bool {
    let mut pending = vec![schema];
    // Ends: each schema is visited once.
    while let Some(schema) = pending.pop() {
        if is_such(schema) {
            return true;
        }
        pending.extend(schema.get("items").into_iter().filter(|items| items.is_object()));
        pending.extend(
            schema
                .get("additionalProperties")
                .into_iter()
                .filter(|one| one.is_object()),
        );
        pending.extend(
            schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::values),
        );
        pending.extend(nested(schema, "").into_iter().map(|(_, nested)| nested));
    }
    false
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}
