//! Maps that are not objects of the API: their format, and advice.

use serde_json::Value;

use crate::{tree, yaml};

/// The fields that a map lacks to be an object.
pub(crate) const NO_TYPE_META: &str = "it has neither apiVersion nor kind";

/// Parses JSON or YAML.
pub(crate) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).or_else(|_| yaml::parse(text)).ok()
}

/// Describes a map that holds objects, with advice.
pub(crate) fn explain(value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    if let (Some(Value::String(event)), Some(object)) = (fields.get("type"), fields.get("object"))
        && matches!(&**event, "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR")
    {
        let name = tree::item(object).and_then(|object| object.short_name());
        let of = name.map_or(String::new(), |name| format!(" of {name}"));
        return Some(format!(
            "it is a watch event ({event}{of}); list the objects with kubectl get -o json, without --watch"
        ));
    }
    let holds_objects = |value: &Value| match value {
        Value::Array(entries) => entries.iter().any(is_like_an_object),
        other => is_like_an_object(other),
    };
    let (field, _) = fields.iter().find(|(_, value)| holds_objects(value))?;
    Some(format!(
        "it is a map with objects under `{}`; give each of its values as a document, for example with jq '.[]'",
        kubegc_core::printable(field)
    ))
}

fn is_like_an_object(value: &Value) -> bool {
    value.pointer("/metadata/name").is_some() || value.get("items").is_some_and(Value::is_array)
}

/// The object in an entry `object: {...}` of an array; `None` if the entry is anything else.
///
/// # Upstream
/// [`crsV1beta`](https://github.com/replicatedhq/troubleshoot/blob/8f9a617de17f3ab0728499e8762de21b03a0e8a0/pkg/collect/cluster_resources.go)
/// of troubleshoot.sh: where CRDs are v1beta1, its YAML has cluster-scoped custom resources under the name of
/// a field of Go.
pub(crate) fn wrapped(text: &str) -> Option<Value> {
    let mut entry = parse(text)?;
    if let Value::Array(entries) = &mut entry {
        // In YAML an entry has its dash.
        entry = entries.pop()?;
    }
    let fields = entry.as_object_mut().filter(|fields| fields.len() == 1)?;
    let object = fields.remove("object")?;
    // An object without content is not unwrapped, so nothing is unwrapped twice.
    let is_object = tree::item(&object).is_some_and(|object| !object.is_without_identity());
    is_object.then_some(object)
}
