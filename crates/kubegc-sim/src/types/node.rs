//! The graph of types: a position in an object, and what its type or schema says there.
//!
//! Nodes of built-in kinds come from the table of types, nodes of custom resources from the schema in their
//! definition. Strict decoding, strategic merge patches and server-side apply walk this one graph.

use kubegc_core::{ApiResource, KubernetesVersion};
use serde_json::Value;

use super::schema::{Field, ListKind, StructId, Type};

/// The fields of every object.
pub(crate) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A position in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    /// An object of a built-in kind. Without a struct, only its metadata is known.
    Kind(Option<StructId>),
    /// A value of a type, and the field that contains it, if it is the value of a field.
    Value(&'static Type, Option<&'static Field>),
    /// A custom resource with the schema of its version, where there is one.
    Custom(Option<&'a Value>),
    /// A value in a custom resource.
    Schema(&'a Value),
    /// A value of which nothing is known.
    Unknown,
}

impl<'a> Node<'a> {
    /// An object of a built-in kind.
    pub(crate) fn of(resource: &ApiResource) -> Self {
        Self::Kind(StructId::of(resource))
    }

    /// The field of this name of the struct at this position.
    pub(crate) fn struct_field(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Kind(_) | Self::Custom(_) if name == "metadata" => StructId::named("Metadata")?.field(name),
            Self::Kind(id) => id?.field(name),
            Self::Value(ty, _) => match ty.target() {
                Type::Struct(id) => id.field(name),
                _ => None,
            },
            Self::Custom(_) | Self::Schema(_) | Self::Unknown => None,
        }
    }

    /// The value of a field, or of an entry of a map; `None` where objects have no field of this name.
    pub(crate) fn child(self, name: &str) -> Option<Self> {
        if let Some(field) = self.struct_field(name) {
            return Some(Self::Value(&field.ty, Some(field)));
        }
        match self {
            Self::Kind(_) | Self::Custom(_) if META.contains(&name) => Some(Self::Unknown),
            Self::Kind(Some(_)) => None,
            Self::Value(ty, _) => match ty.target() {
                Type::Struct(_) => None,
                Type::Map(of) => Some(Self::Value(of, None)),
                _ => Some(Self::Unknown),
            },
            Self::Custom(Some(schema)) | Self::Schema(schema) => {
                let others = || schema.get("additionalProperties");
                let is_open = || preserves(schema) || is_embedded(schema) && META.contains(&name);
                match property(schema, name).or_else(others) {
                    Some(below) => Some(Self::Schema(below)),
                    None => is_open().then_some(Self::Unknown),
                }
            }
            Self::Kind(None) | Self::Custom(None) | Self::Unknown => Some(Self::Unknown),
        }
    }

    /// As [`child`](Self::child): nothing is known of fields that objects do not have.
    pub(crate) fn field(self, name: &str) -> Self {
        self.child(name).unwrap_or(Self::Unknown)
    }

    /// The items of the list at this position.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Value(ty, _) => match ty.target() {
                Type::List(item) => Self::Value(item, None),
                _ => Self::Unknown,
            },
            // Items without a schema have no fields.
            Self::Schema(schema) => match schema.get("items") {
                Some(items) => Self::Schema(items),
                None if preserves(schema) => Self::Unknown,
                None => Self::Schema(&Value::Null),
            },
            Self::Kind(_) | Self::Custom(_) | Self::Unknown => Self::Unknown,
        }
    }

    /// Whether the object at this position has a field of this name, rather than entries of any name.
    pub(crate) fn declares(self, name: &str) -> bool {
        let is_object = matches!(self, Self::Kind(_) | Self::Custom(_));
        self.struct_field(name).is_some()
            || is_object && META.contains(&name)
            || match self {
                Self::Custom(Some(schema)) | Self::Schema(schema) => property(schema, name).is_some(),
                _ => false,
            }
    }

    /// The list type of the list at this position.
    pub(crate) fn list(self) -> ListKind<'a> {
        match self {
            Self::Value(_, Some(field)) => field.list.clone(),
            Self::Schema(schema) => match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListKind::Set,
                Some("map") => {
                    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                    ListKind::Map(keys.into_iter().flatten().filter_map(Value::as_str).collect())
                }
                _ => ListKind::Atomic,
            },
            _ => ListKind::Atomic,
        }
    }

    /// The name of the struct that the value at this position is, points to, or contains.
    pub(crate) fn struct_name(self) -> &'static str {
        match self {
            Self::Value(ty, _) => ty.structure().map_or("", StructId::name),
            _ => "",
        }
    }
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

pub(crate) fn is_embedded(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
}

pub(crate) fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// The object whose fields [`undeclared`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// An object. The field must exist in the release.
    Object(KubernetesVersion),
    /// A merge patch: its nulls and directives are not fields.
    Patch(KubernetesVersion),
    /// An applied configuration. The search ends at the first undeclared field of an object.
    ///
    /// # Upstream
    /// `validatingObjectWalker.doMap` in `structured-merge-diff/v4/typed/validate.go`, v4.0.2.
    Applied,
}

/// Adds the paths, such as `.spec.replica`, of the fields that the types do not declare. Depth is bounded by
/// the parser that read the value.
pub(crate) fn undeclared(value: &Value, node: Node<'_>, sent: Sent, path: &str, found: &mut Vec<String>) {
    match value {
        // Decoding empties these objects.
        Value::Object(_)
            if sent == Sent::Applied && matches!(node, Node::Schema(schema) if !schema.is_object()) => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                if matches!(sent, Sent::Patch(_)) && (value.is_null() || key.starts_with('$')) {
                    continue;
                }
                let path = format!("{path}.{key}");
                let below = node.child(key).filter(|below| match (below, sent) {
                    (Node::Value(_, Some(field)), Sent::Object(version) | Sent::Patch(version)) => {
                        field.is_in(version)
                    }
                    _ => true,
                });
                match below {
                    // The metadata of embedded objects is not pruned.
                    Some(_) if is_embedded_meta(node, key) => {}
                    Some(below) => undeclared(value, below, sent, &path, found),
                    None => {
                        found.push(path);
                        if sent == Sent::Applied {
                            return;
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                undeclared(item, node.item(), sent, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Removes from a custom resource the fields that its schema does not declare. Depth is bounded by the parser
/// that read the value.
pub(crate) fn prune(value: &mut Value, node: Node<'_>) {
    match (value, node) {
        (_, Node::Unknown) => {}
        (Value::Object(fields), _) => fields.retain(|key, value| {
            let is_resource = matches!(node, Node::Custom(_)) || is_embedded_meta(node, key);
            let below = match is_resource && META.contains(&key.as_str()) {
                true => Some(Node::Unknown),
                false => node.child(key),
            };
            below.map(|below| prune(value, below)).is_some()
        }),
        (Value::Array(items), _) => {
            for item in items {
                prune(item, node.item());
            }
        }
        _ => {}
    }
}

fn is_embedded_meta(node: Node<'_>, key: &str) -> bool {
    matches!(node, Node::Schema(schema) if is_embedded(schema)) && META.contains(&key)
}
