//! Fields of a sent object that its kind does not have, which strict validation refuses.

use kubegc_core::KindId;
use serde_json::Value;

use super::{ApiServer, crd::is_embedded};
use crate::types::schema::{StructId, Type};

/// The fields of every object.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl ApiServer {
    /// The paths of the fields that a kind does not have, such as `spec.replica`, in an object, or in a merge
    /// patch, whose nulls and directives are not fields. Nothing is known of kinds without a type or schema,
    /// and of definitions only their metadata.
    #[must_use]
    pub fn unknown_fields(&self, kind: KindId, sent: &Value, is_patch: bool) -> Vec<String> {
        let mut walk = Walk {
            minor: self.version,
            is_patch,
            found: Vec::new(),
        };
        let is_typed = self.is_decoded(kind);
        if let Some(metadata) = StructId::named("ObjectMeta").filter(|_| is_typed)
            && let Some(sent) = sent.get("metadata")
        {
            walk.typed(sent, &Type::Struct(metadata), "metadata");
        }
        let definition = StructId::of(self.resource(kind)).filter(|_| is_typed);
        if let Some(id) = self.schema(kind).or(definition) {
            walk.fields(sent, id, "", &META);
        } else if let Some(schema) = self.pruning_schema(kind) {
            walk.custom(sent, schema, "", true);
        }
        walk.found.sort_unstable();
        walk.found
    }
}

struct Walk {
    minor: kubegc_core::KubernetesVersion,
    is_patch: bool,
    found: Vec<String>,
}

impl Walk {
    /// The fields of an object, without the nulls and directives of a patch.
    fn entries<'v>(&self, value: &'v Value) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
        let is_patch = self.is_patch;
        let entries = value.as_object().into_iter().flatten();
        entries.filter(move |(key, value)| !is_patch || !(value.is_null() || key.starts_with('$')))
    }

    fn fields(&mut self, value: &Value, id: StructId, path: &str, others: &[&str]) {
        for (key, value) in self
            .entries(value)
            .filter(|(key, _)| !others.contains(&key.as_str()))
        {
            let path = below(path, key);
            match id.field(key).filter(|field| field.is_in(self.minor)) {
                Some(field) => self.typed(value, &field.ty, &path),
                None => self.found.push(path),
            }
        }
    }

    /// Depth is bounded by the parser that read the value.
    fn typed(&mut self, value: &Value, ty: &Type, path: &str) {
        match (ty.target(), value) {
            (Type::Struct(id), Value::Object(_)) => self.fields(value, *id, path, &[]),
            (Type::List(item), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.typed(value, item, &format!("{path}[{index}]"));
                }
            }
            (Type::Map(of), Value::Object(_)) => {
                for (key, value) in self.entries(value) {
                    self.typed(value, of, &below(path, key));
                }
            }
            _ => {}
        }
    }

    /// Depth is bounded by the parser that read the value.
    fn custom(&mut self, value: &Value, schema: &Value, path: &str, is_object: bool) {
        if let Value::Array(items) = value {
            let of_items = schema.get("items").unwrap_or(&Value::Null);
            for (index, value) in items.iter().enumerate() {
                self.custom(
                    value,
                    of_items,
                    &format!("{path}[{index}]"),
                    is_embedded(of_items),
                );
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema
            .get("additionalProperties")
            .filter(|others| **others != false);
        let preserves = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&true.into());
        for (key, value) in self.entries(value) {
            if is_object && META.contains(&key.as_str()) {
                continue;
            }
            let path = below(path, key);
            match properties.and_then(|properties| properties.get(key)).or(others) {
                Some(schema) => self.custom(value, schema, &path, is_embedded(schema)),
                None if preserves => {}
                None => self.found.push(path),
            }
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
