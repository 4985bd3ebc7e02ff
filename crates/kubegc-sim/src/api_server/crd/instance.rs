//! Applies the schema of their version to custom resources: prunes fields, drops disallowed nulls, sets
//! defaults; and validates the rules that no OpenAPI schema can express.
//!
//! # Upstream
//! `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,objectmeta,listtype}`, and
//! `unstructuredSchemaCoercer` in `pkg/apiserver/customresource_handler.go`, 1.20.2.

use kubegc_core::{Behavior, KubernetesVersion, version::behavior};
use serde_json::{Map, Value};

pub(super) use crate::types::node::is_embedded;
use crate::{
    formats, go,
    object::list,
    status::Cause,
    types::{
        self,
        field::At,
        node::{self, META, Node},
    },
};

/// Values that an update leaves unchanged may stay, although their schema refuses them.
pub(super) const UNCHANGED_VALUES_MAY_STAY: Behavior =
    Behavior::since(30, 0, "CRDValidationRatcheting, beta");

/// Removes fields that the schema does not name, and nulls that are neither nullable nor have a default.
/// `object` has no metadata of its own.
pub(super) fn prune(object: &mut Value, schema: &Value) {
    node::prune(object, Node::Custom(Some(schema)));
    change(object, schema, &|value, schema| {
        value.as_object_mut()?.retain(|key, value| {
            let is_kept = |schema: &Value| is_nullable(schema) || schema.get("default").is_some();
            !value.is_null() || of_field(schema, key).is_none_or(is_kept)
        });
        None
    });
}

/// Sets defaults, also for nulls that are not nullable.
pub(super) fn fill(object: &mut Value, schema: &Value) {
    change(object, schema, &|value, schema| {
        if value.is_null()
            && !is_nullable(schema)
            && let Some(default) = schema.get("default")
        {
            *value = default.clone();
        }
        let fields = value.as_object_mut()?;
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(default) = property.get("default")
                && !fields.contains_key(key)
            {
                fields.insert(key.clone(), default.clone());
            }
        }
        None
    });
}

/// Converts the metadata of embedded objects to its type.
///
/// # Errors
/// Names the field with a value of the wrong type.
pub(super) fn coerce(object: &mut Value, schema: &Value, version: KubernetesVersion) -> Result<(), String> {
    let problem = change(object, schema, &|value, schema| {
        let fields = value.as_object_mut().filter(|_| is_embedded(schema))?;
        META.into_iter().find_map(|key| {
            let value = fields.get_mut(key)?;
            let sent = value.clone();
            let problem = match key {
                "metadata" => coerce_metadata(value, version).err()?,
                _ if value.is_string() => return None,
                _ => "must be a string".to_owned(),
            };
            let shown = shown_in(version, &sent);
            Some(format!(".{key}: Invalid value: {shown}: {problem}"))
        })
    });
    match problem {
        Some(problem) => Err(problem.strip_prefix('.').unwrap_or(&problem).to_owned()),
        None => Ok(()),
    }
}

/// Applies a change to a value and to all values below it that have a schema, from the outside to the inside.
/// It ends with the first problem that the change finds, which is returned after its path. Depth is bounded
/// by the parser that read the value, here and in all following functions.
fn change(
    value: &mut Value,
    schema: &Value,
    apply: &dyn Fn(&mut Value, &Value) -> Option<String>,
) -> Option<String> {
    let problem = apply(value, schema);
    if problem.is_some() {
        return problem;
    }
    match value {
        Value::Object(fields) => fields.iter_mut().find_map(|(key, value)| {
            let problem = change(value, of_field(schema, key)?, apply)?;
            Some(format!(".{key}{problem}"))
        }),
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items.iter_mut().enumerate().find_map(|(index, item)| {
                let problem = change(item, schema, apply)?;
                Some(format!("[{index}]{problem}"))
            })
        }
        _ => None,
    }
}

fn coerce_metadata(value: &mut Value, version: KubernetesVersion) -> Result<(), String> {
    if !value.is_object() {
        return Err("the metadata must be an object".to_owned());
    }
    *value = types::decoded_metadata(value.take(), version)?;
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(())
}

/// A value as the errors of a release show it.
fn shown_in(version: KubernetesVersion, value: &Value) -> String {
    match version.has(behavior::VALUES_ARE_JSON) {
        true => value.to_string(),
        false => go::shown(value),
    }
}

/// A value of a custom resource with its schema.
pub(super) struct Place<'v> {
    pub(super) at: At<'v>,
    pub(super) schema: &'v Value,
    /// The value before an update, except null.
    pub(super) old: Option<&'v Value>,
    /// Whether the nearest value that has an old value equals it.
    pub(super) is_unchanged: bool,
    /// Whether the entries of atomic maps have no old values.
    pub(super) are_maps_atomic: bool,
}

impl<'v> Place<'v> {
    pub(super) fn of(at: At<'v>, old: Option<&'v Value>, schema: &'v Value) -> Self {
        Self {
            schema,
            old: old.filter(|old| !old.is_null()),
            is_unchanged: old == Some(at.value),
            are_maps_atomic: false,
            at,
        }
    }

    /// Visits the value and all values below it that have a schema.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        let schema = self.schema;
        let is_atomic = self.are_maps_atomic && schema["x-kubernetes-map-type"] == "atomic";
        let old = self.old.filter(|_| !is_atomic);
        for (key, _) in self.at.value.as_object().into_iter().flatten() {
            let at = match schema["properties"].get(key).is_some() {
                true => self.at.get(key),
                false => self.at.key(key),
            };
            self.below(at, old.and_then(|old| old.get(key)), of_field(schema, key), see);
        }
        let old = self.old.and_then(Value::as_array);
        for item in self.at.items() {
            let old = old.and_then(|old| correlated(item.value, old, schema));
            self.below(item, old, schema.get("items"), see);
        }
    }

    fn below(
        &self,
        at: At<'v>,
        old: Option<&'v Value>,
        schema: Option<&'v Value>,
        see: &mut dyn FnMut(&Self),
    ) {
        if let Some(schema) = schema {
            let below = Self::of(at, old, schema);
            let below = Self {
                is_unchanged: below.is_unchanged || below.old.is_none() && self.is_unchanged,
                are_maps_atomic: self.are_maps_atomic,
                ..below
            };
            below.visit(see);
        }
    }
}

/// The old item with the keys of an item of a map.
pub(super) fn correlated<'v>(item: &Value, old: &'v [Value], schema: &Value) -> Option<&'v Value> {
    schema.get("x-kubernetes-list-map-keys")?.as_array()?;
    let keys = keys_of(item, schema);
    old.iter().find(|other| keys_of(other, schema) == keys)
}

/// Removes the problems of values that an update leaves unchanged, or that such a value contains.
///
/// # Upstream
/// `ratchetingValueValidator` in
/// [`ratcheting.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go).
pub(super) fn retain_changed(causes: &mut Vec<Cause>, value: &Value, old: &Value, schema: &Value) {
    // Some problems name the entries of maps as fields.
    let plain = |path: &str| path.replace('[', ".").replace(']', "");
    let mut places = Vec::new();
    Place::of(At::of_object(value), Some(old), schema)
        .visit(&mut |place| places.push((plain(&place.at.path.to_string()), place.is_unchanged)));
    causes.retain(|cause| {
        let field = plain(&cause.field);
        let contains = |path: &str| {
            let rest = field.strip_prefix(path);
            path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let around = places.iter().filter(|(path, _)| contains(path));
        // Keys of maps may contain dots: the longest path counts.
        let nearest = around.max_by_key(|(path, _)| path.len());
        nearest.is_some_and(|(_, is_unchanged)| !is_unchanged)
    });
}

/// The problems of embedded objects: their `apiVersion`, `kind` and metadata.
pub(super) fn embedded_problems(object: At<'_>, schema: &Value, causes: &mut Vec<Cause>) {
    Place::of(object, None, schema).visit(&mut |place| {
        let fields = place.at.value.as_object();
        let Some(fields) = fields.filter(|_| is_embedded(place.schema)) else {
            return;
        };
        for key in ["apiVersion", "kind"] {
            let field = place.at.get(key).path.to_string();
            let Some(value) = fields.get(key) else {
                causes.push(Cause::required(field, "must not be empty"));
                continue;
            };
            let problems = match (value, key) {
                (Value::String(text), _) if text.is_empty() => vec!["must not be empty".to_owned()],
                (Value::String(text), "kind") => formats::kind_name(text),
                (Value::String(text), _) if text.matches('/').count() > 1 => {
                    vec![format!("unexpected GroupVersion string: {text}")]
                }
                (Value::String(_), _) => Vec::new(),
                _ => vec!["must be a string".to_owned()],
            };
            let invalid = |problem: String| Cause::invalid(field.as_str(), &go::shown(value), &problem);
            causes.extend(problems.into_iter().map(invalid));
        }
    });
}

/// The duplicate items of sets and maps.
pub(super) fn duplicates(value: &Value, schema: &Value, version: KubernetesVersion) -> Vec<Cause> {
    let mut causes = Vec::new();
    Place::of(At::of_object(value), None, schema).visit(&mut |place| {
        let Value::Array(items) = place.at.value else {
            return;
        };
        let at = |index: usize| format!("{}[{index}]", place.at.path);
        let identities: Vec<Value> = match place.schema["x-kubernetes-list-type"].as_str() {
            Some("set") => items.clone(),
            Some("map") => {
                let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
                if let Some(index) = odd {
                    let problem = "must be an object for an array of list-type map";
                    causes.push(Cause::invalid(at(index), &go::shown(&items[index]), problem));
                    return;
                }
                let keys = |item: &Value| keys_of(item, place.schema).into();
                items.iter().map(keys).collect()
            }
            _ => return,
        };
        for (index, identity) in identities.iter().enumerate() {
            // The second one of equal items is reported.
            let before = identities[..index].iter();
            if before.filter(|known| *known == identity).count() == 1 {
                let shown = shown_in(version, identity);
                causes.push(Cause::duplicate(at(index), &shown));
            }
        }
    });
    causes
}

/// The key fields of an item of a map.
fn keys_of(item: &Value, schema: &Value) -> Map<String, Value> {
    let keys = list(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str);
    keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())))
        .collect()
}

pub(super) fn of_field<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let entries = || Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
    schema["properties"].get(key).or_else(entries)
}

fn is_nullable(schema: &Value) -> bool {
    schema["nullable"] == true
}

pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
