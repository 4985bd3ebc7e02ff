//! Applies the schema of their version to custom resources: prunes fields, drops disallowed nulls, sets
//! defaults; and validates the rules that no OpenAPI schema can express.
//!
//! # Upstream
//! `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,objectmeta,listtype}`, and
//! `unstructuredSchemaCoercer` in `pkg/apiserver/customresource_handler.go`, 1.20.2.

use kubegc_core::{KubernetesVersion, version::behavior};
use serde_json::{Map, Value};

use crate::{
    go,
    object::{TYPED, take_meta},
    status::{Cause, quoted},
};

/// The fields of an object that a schema need not name.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes fields that the schema does not name, and nulls that are neither nullable nor have a default.
/// `object` has no metadata of its own.
pub(super) fn prune(object: &mut Map<String, Value>, schema: &Value) {
    prune_fields(object, schema, true);
    prune_nulls(object, schema);
}

/// Sets defaults.
pub(super) fn fill(object: &mut Map<String, Value>, schema: &Value) {
    default_fields(object, schema);
}

/// Converts the metadata of embedded objects to its type.
///
/// # Errors
/// Names the field with a value of the wrong type.
pub(super) fn coerce(value: &mut Value, schema: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            let embedded = is_embedded(schema);
            for (key, value) in fields {
                let below = child(path, key);
                if embedded && key == "metadata" {
                    let shown = go::shown(value);
                    coerce_metadata(value)
                        .map_err(|problem| format!("{below}: Invalid value: {shown}: {problem}"))?;
                } else if embedded && META.contains(&key.as_str()) && !value.is_string() {
                    return Err(format!(
                        "{below}: Invalid value: {}: must be a string",
                        go::shown(value)
                    ));
                }
                if let Some(schema) = of_field(schema, key) {
                    coerce(value, schema, &below)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce(item, schema, &format!("{path}[{index}]"))?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The fields of metadata other than the typed ones.
const OTHER_METADATA: [&str; 5] = [
    "annotations",
    "clusterName",
    "generateName",
    "managedFields",
    "selfLink",
];

/// Reads metadata by its type: drops unknown and empty fields.
///
/// # Errors
/// Names the field with a value of the wrong type.
pub(super) fn coerce_rest(rest: &mut Map<String, Value>) -> Result<(), String> {
    rest.retain(|key, value| OTHER_METADATA.contains(&key.as_str()) && !is_empty(value));
    let wrong = |key: &str, expected: &str, value: &Value| {
        Err(format!(
            "v1.ObjectMeta.{key}: expects {expected}, but found {value}, error found in #10 byte of ...|{value}|..."
        ))
    };
    for (key, value) in rest.iter() {
        match (key.as_str(), value) {
            ("annotations", Value::Object(annotations)) => {
                if let Some(value) = annotations
                    .values()
                    .find(|value| !value.is_string() && !value.is_null())
                {
                    return wrong(key, "\" or n", value);
                }
            }
            ("managedFields", Value::Array(_))
            | ("clusterName" | "generateName" | "selfLink", Value::String(_)) => {}
            _ => return wrong(key, "another type", value),
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn coerce_metadata(value: &mut Value) -> Result<(), String> {
    let Value::Object(fields) = value else {
        return Err("the metadata must be an object".to_owned());
    };
    let mut typed = fields.clone();
    take_meta(&mut typed).map_err(|problem| {
        format!(
            "v1.ObjectMeta: {problem}, error found in #10 byte of ...|{}|...",
            Value::Object(fields.clone())
        )
    })?;
    let mut rest = fields.clone();
    rest.retain(|key, _| !TYPED.contains(&key.as_str()));
    coerce_rest(&mut rest)?;
    fields.retain(|key, value| (rest.contains_key(key) || TYPED.contains(&key.as_str())) && !is_empty(value));
    Ok(())
}

/// The problems of embedded objects: their `apiVersion`, `kind` and metadata.
pub(super) fn embedded_problems(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            if is_embedded(schema) {
                embedded(fields, path, causes);
            }
            for (key, value) in fields {
                if let Some(schema) = schema
                    .get("properties")
                    .and_then(|properties| properties.get(key))
                {
                    embedded_problems(value, schema, &child(path, key), causes);
                } else if let Some(schema) = schema.get("additionalProperties") {
                    embedded_problems(value, schema, &format!("{path}[{key}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    embedded_problems(item, schema, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn embedded(fields: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        let field = child(path, key);
        match fields.get(key) {
            None => causes.push(Cause::required(field, "must not be empty")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(field, "\"\"", "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let problem = format!("unexpected GroupVersion string: {text}");
                    causes.push(Cause::invalid(field, &quoted(text), &problem));
                }
            }
            Some(Value::String(text)) => {
                if !super::validation::is_label_1035(&text.to_lowercase()) {
                    let problem = format!(
                        "may have mixed case, but should otherwise match: {}",
                        super::validation::NOT_A_LABEL_1035
                    );
                    causes.push(Cause::invalid(field, &quoted(text), &problem));
                }
            }
            Some(other) => causes.push(Cause::invalid(field, &go::shown(other), "must be a string")),
        }
    }
}

/// The duplicate items of sets and maps.
pub(super) fn duplicates(
    value: &Value,
    schema: &Value,
    path: &str,
    version: KubernetesVersion,
    causes: &mut Vec<Cause>,
) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let properties = schema.get("properties").and_then(Value::as_object);
                if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                    duplicates(value, schema, &child(path, key), version, causes);
                }
                if let Some(schema @ Value::Object(_)) = schema.get("additionalProperties") {
                    duplicates(value, schema, &format!("{path}[{key}]"), version, causes);
                }
            }
        }
        Value::Array(items) => {
            match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => repeated(items, |item| item.clone(), path, version, causes),
                Some("map") => {
                    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
                    if let Some(index) = odd {
                        let problem = "must be an object for an array of list-type map";
                        let shown = go::shown(&items[index]);
                        causes.push(Cause::invalid(format!("{path}[{index}]"), &shown, problem));
                    } else {
                        repeated(
                            items,
                            |item| Value::Object(keys_of(item, schema)),
                            path,
                            version,
                            causes,
                        );
                    }
                }
                _ => {}
            }
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    duplicates(item, schema, &format!("{path}[{index}]"), version, causes);
                }
            }
        }
        _ => {}
    }
}

/// The key fields of an item of a map.
fn keys_of(item: &Value, schema: &Value) -> Map<String, Value> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())))
        .collect()
}

/// Reports the second one of equal items.
fn repeated(
    items: &[Value],
    identity: impl Fn(&Value) -> Value,
    path: &str,
    version: KubernetesVersion,
    causes: &mut Vec<Cause>,
) {
    let mut seen: Vec<(Value, usize)> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let identity = identity(item);
        match seen.iter_mut().find(|(known, _)| *known == identity) {
            None => seen.push((identity, 1)),
            Some((known, times)) => {
                *times += 1;
                if *times == 2 {
                    let shown = match version.has(behavior::VALUES_ARE_JSON) {
                        true => known.to_string(),
                        false => go::shown(known),
                    };
                    causes.push(Cause::duplicate(format!("{path}[{index}]"), &shown));
                }
            }
        }
    }
}

/// The schema of a field, if there is one.
fn of_field<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let property = schema
        .get("properties")
        .and_then(|properties| properties.get(key));
    property.or_else(|| {
        schema
            .get("additionalProperties")
            .filter(|schema| schema.is_object())
    })
}

/// Whether the schema allows fields that have no schema.
fn allows_any(schema: &Value) -> bool {
    schema.get("additionalProperties").is_some()
}

pub(in crate::api_server) fn is_embedded(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
}

pub(super) fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// Removes fields that a schema does not name. `is_root`: whether the fields are those of the object itself.
pub(super) fn prune_fields(fields: &mut Map<String, Value>, schema: &Value, is_root: bool) {
    let (keeps, embedded) = (preserves(schema), is_root || is_embedded(schema));
    fields.retain(|key, value| {
        if embedded && META.contains(&key.as_str()) {
            return true;
        }
        match of_field(schema, key) {
            Some(schema) => prune_value(value, Some(schema)),
            None if keeps => {}
            None if allows_any(schema) => prune_value(value, None),
            None => return false,
        }
        true
    });
}

fn prune_value(value: &mut Value, schema: Option<&Value>) {
    match (value, schema) {
        (Value::Object(fields), Some(schema)) => prune_fields(fields, schema, false),
        (Value::Object(fields), None) => fields.clear(),
        (Value::Array(items), schema) => {
            let keeps = schema.is_some_and(preserves);
            let of_items = schema.and_then(|schema| schema.get("items"));
            if keeps && of_items.is_none() {
                return;
            }
            for item in items {
                prune_value(item, of_items);
            }
        }
        _ => {}
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema.get("nullable") == Some(&Value::Bool(true))
}

fn prune_nulls(fields: &mut Map<String, Value>, schema: &Value) {
    fields.retain(|key, value| match of_field(schema, key) {
        Some(schema) if value.is_null() && !is_nullable(schema) && schema.get("default").is_none() => false,
        Some(schema) => {
            prune_nulls_below(value, schema);
            true
        }
        None => true,
    });
}

fn prune_nulls_below(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => prune_nulls(fields, schema),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    prune_nulls_below(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn default_fields(fields: &mut Map<String, Value>, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let Some(default) = property.get("default") else {
            continue;
        };
        match fields.get(key) {
            None => {}
            Some(Value::Null) if !is_nullable(property) => {}
            Some(_) => continue,
        }
        fields.insert(key.clone(), default.clone());
    }
    for (key, value) in fields {
        if let Some(property) = properties.and_then(|properties| properties.get(key)) {
            default_value(value, property);
        } else if let Some(schema @ Value::Object(_)) = schema.get("additionalProperties") {
            default_null(value, schema);
            default_value(value, schema);
        }
    }
}

/// Replaces a null that is not nullable by its default.
fn default_null(value: &mut Value, schema: &Value) {
    if value.is_null()
        && !is_nullable(schema)
        && let Some(default) = schema.get("default")
    {
        *value = default.clone();
    }
}

fn default_value(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => default_fields(fields, schema),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    default_null(item, schema);
                    default_value(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// The path of a field.
pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
