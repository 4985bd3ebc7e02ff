//! Ownership of fields and list items by their types, in the rules of a release.
//!
//! # Upstream
//! `+listType`, `+listMapKey`, `+structType` and `+mapType` in `k8s.io/api` and `apimachinery`, 1.20 to 1.36;
//! `x-kubernetes-list-type` and similar extensions in `apiextensions`.

use std::sync::LazyLock;

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value};

use super::element::{Element, scalar};
use crate::types::{
    node::Node,
    schema::{ListKind, StructId, Type},
};

/// Applied nulls and objects without fields are fields.
pub(super) const EMPTY_OBJECTS_ARE_OWNED: Behavior = Behavior::since(21, 0, "structured-merge-diff 4.1.0");
pub(super) const APPLIED_ORDER_COUNTS: Behavior = Behavior::since(24, 0, "structured-merge-diff 4.2.1");
/// An apply that does not change the object never sets the time of its manager, not even if it changes the
/// owned fields.
pub(super) const TIMES_ARE_KEPT: Behavior = Behavior::since(25, 0, "managedFieldsUpdater.Apply");
/// An apply changes the object if the values differ, rather than the field sets.
pub(super) const VALUES_ARE_COMPARED: Behavior = Behavior::since(29, 0, "structured-merge-diff 4.3.0");
/// References, selectors and similar structs are atomic.
const REFERENCES_ARE_ATOMIC: Behavior = Behavior::since(22, 0, "kubernetes #97989, #100684");
/// Definitions have a schema. Without it, their lists are atomic.
pub(super) const DEFINITIONS_HAVE_SCHEMAS: Behavior = Behavior::since(22, 0, "between 1.20 and 1.36");
/// The ports of services default their protocol.
const SERVICES_HAVE_PROTOCOLS: Behavior = Behavior::since(21, 0, "the default is a part of the schema");
/// Owned fields follow the schema: a map or list that is owned as one value, but is granular by its type, is
/// owned with its current fields or items.
pub(super) const FIELDS_FOLLOW_SCHEMAS: Behavior = Behavior::since(20, 0, "structured-merge-diff 4.0.2");
/// A value that is owned as one stays so, even if its type is granular.
pub(super) const OWNED_VALUES_STAY_WHOLE: Behavior = Behavior::since(22, 0, "structured-merge-diff 4.2");
/// That includes maps without a schema.
const UNTYPED_MAPS_STAY_WHOLE: Behavior = Behavior::since(22, 0, "structured-merge-diff 4.1.2");

/// Fields that a write cannot change have no managers.
const FIELDS_ARE_RESET: Behavior = Behavior::since(22, 0, "kubernetes #100970");

/// The ownership of a map, a list or another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Each field or item by itself.
    Granular,
    /// As one map or list.
    Atomic,
    /// As a scalar, or unknown.
    Scalar,
}

/// The value of a field that is written even where it is empty.
fn zero(ty: &Type) -> &'static Value {
    static EMPTY_TEXT: LazyLock<Value> = LazyLock::new(|| "".into());
    static ZERO: LazyLock<Value> = LazyLock::new(|| 0.into());
    static NULL: Value = Value::Null;
    static NO: Value = Value::Bool(false);
    match ty {
        Type::String => &EMPTY_TEXT,
        Type::Int32 | Type::Int64 | Type::IntOrString | Type::Double => &ZERO,
        Type::Bool => &NO,
        _ => &NULL,
    }
}

/// A position in an object, in the rules of a release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) node: Node<'a>,
    pub(super) version: KubernetesVersion,
    /// Whether objects are typed.
    pub(super) types: bool,
}

/// The parts of a map or list, each with its step.
type Parts<'v> = Vec<(Element, &'v Value)>;

impl<'a> Place<'a> {
    pub(super) fn has(self, behavior: Behavior) -> bool {
        self.version.has(behavior)
    }

    /// Whether writes cannot change the specification of the objects at this position.
    pub(super) fn resets_spec(self) -> bool {
        let is_request = |id: StructId| id.name().starts_with("CertificateSigningRequest");
        matches!(self.node, Node::Kind(Some(id)) if is_request(id)) && self.has(FIELDS_ARE_RESET)
    }

    fn with(self, node: Node<'a>) -> Self {
        Self { node, ..self }
    }

    pub(super) fn field(self, name: &str) -> Self {
        self.with(self.node.field(name))
    }

    pub(super) fn item(self) -> Self {
        self.with(self.node.item())
    }

    /// Whether a value is a map whose fields can be owned separately.
    pub(super) fn is_map(self, value: &Value) -> bool {
        value.is_object() && !self.is_atomic_map()
    }

    /// Whether a value is a list whose items can be owned separately.
    pub(super) fn is_list(self, value: &Value) -> bool {
        value.is_array() && self.list() != ListKind::Atomic
    }

    /// The fields or items of a value that can be owned separately; `None` where the value is owned as one.
    ///
    /// # Errors
    /// The index and the problem of an item without identity.
    pub(super) fn parts(self, value: &Value) -> Result<Option<Parts<'_>>, (usize, String)> {
        Ok(match value {
            Value::Object(fields) if self.is_map(value) => {
                let fields = fields.iter();
                Some(
                    fields
                        .map(|(name, value)| (Element::field(name), value))
                        .collect(),
                )
            }
            Value::Array(items) if self.is_list(value) => {
                Some(self.elements(items)?.into_iter().zip(items).collect())
            }
            _ => None,
        })
    }

    /// The value that every object has at this position, and that therefore no manager owns.
    pub(super) fn always(self) -> Option<&'static Value> {
        static EMPTY_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
        match self.node {
            Node::Kind(_) | Node::Custom(_) | Node::Value(Type::Struct(_), _) => Some(&EMPTY_OBJECT),
            // All metadata has a creation timestamp, possibly an empty one.
            Node::Value(ty, Some(field)) if !field.omit_empty || field.name == "creationTimestamp" => {
                Some(zero(ty))
            }
            Node::Value(..) | Node::Schema(_) | Node::Unknown => None,
        }
    }

    /// Whether fields or items of a built-in value at this position can be owned separately.
    pub(super) fn is_granular(self) -> bool {
        matches!(self.node, Node::Kind(_) | Node::Value(..)) && self.ownership() == Ownership::Granular
    }

    /// The ownership of values at this position, by their type.
    pub(super) fn ownership(self) -> Ownership {
        let is_atomic = match self.node {
            Node::Kind(_) | Node::Custom(_) => false,
            Node::Value(ty, _) => match ty.target() {
                Type::Struct(_) | Type::Map(_) => self.is_atomic_map(),
                Type::List(_) => self.list() == ListKind::Atomic,
                _ => return Ownership::Scalar,
            },
            Node::Schema(schema) => match schema.get("type").and_then(Value::as_str) {
                Some("object") => self.is_atomic_map(),
                Some("array") => self.list() == ListKind::Atomic,
                _ => return Ownership::Scalar,
            },
            Node::Unknown if !self.has(UNTYPED_MAPS_STAY_WHOLE) => false,
            Node::Unknown => return Ownership::Scalar,
        };
        match is_atomic {
            true => Ownership::Atomic,
            false => Ownership::Granular,
        }
    }

    /// The position below a step of a path.
    pub(super) fn at(self, element: &Element) -> Self {
        match element {
            Element::Field(name) => self.field(name),
            Element::Key(_) | Element::Value(_) => self.item(),
        }
    }

    /// Whether an object at this position is atomic.
    pub(super) fn is_atomic_map(self) -> bool {
        match self.node {
            Node::Value(ty, field) => {
                let is_marked = field.is_some_and(|field| field.is_atomic);
                let minor = u32::from(self.version.minor());
                match ty.target() {
                    Type::Struct(_) if field.is_some_and(|field| minor >= field.granular_since) => false,
                    Type::Struct(id) => id.is_atomic(self.version) || is_marked,
                    Type::Map(_) => self.has(REFERENCES_ARE_ATOMIC) && is_marked,
                    _ => true,
                }
            }
            Node::Schema(schema) => schema.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            Node::Kind(_) | Node::Custom(_) | Node::Unknown => false,
        }
    }

    /// The list type of a list at this position in a release.
    pub(super) fn list(self) -> ListKind<'a> {
        match self.node.struct_name() {
            "CustomResourceDefinitionCondition" if !self.has(DEFINITIONS_HAVE_SCHEMAS) => ListKind::Atomic,
            _ => self.node.list(),
        }
    }

    /// The default of a key of the items at this position.
    fn default_of_key(self, key: &str) -> Option<Value> {
        match (self.node.struct_field(key), self.field(key).node) {
            (Some(_), _)
                if key == "protocol"
                    && self.node.struct_name() == "ServicePort"
                    && !self.has(SERVICES_HAVE_PROTOCOLS) =>
            {
                None
            }
            (Some(field), _) if key == "protocol" => field.default.clone(),
            (Some(_), _) => self.field(key).always().cloned(),
            (None, Node::Schema(schema)) => schema.get("default").cloned(),
            (None, _) => None,
        }
    }

    /// The identity of each item of the list at this position, or the index and the problem of an item that
    /// has none.
    pub(super) fn elements(self, list: &[Value]) -> Result<Vec<Element>, (usize, String)> {
        let keys = match self.list() {
            ListKind::Map(keys) => Some(keys),
            ListKind::Set | ListKind::Atomic => None,
        };
        let keys: Option<Vec<_>> = keys.map(|keys| {
            let default = |key| self.item().default_of_key(key);
            keys.into_iter().map(|key| (key, default(key))).collect()
        });
        let elements = list.iter().enumerate();
        elements
            .map(|(index, item)| element(keys.as_deref(), item).map_err(|problem| (index, problem)))
            .collect()
    }
}

/// The identity of an item of a list with these keys, each with its default, or of a set.
fn element(keys: Option<&[(&str, Option<Value>)]>, item: &Value) -> Result<Element, String> {
    match (keys, item) {
        (Some(_), Value::Null) => Err("associative list with keys may not have a null element".to_owned()),
        (Some(keys), Value::Object(fields)) => keys
            .iter()
            .map(|(key, default)| match fields.get(*key).or(default.as_ref()) {
                Some(value) => Ok(((*key).to_owned(), value.to_string())),
                None => Err(format!(
                    "associative list with keys has an element that omits key field {} (and doesn't have default value)",
                    scalar(&(*key).into())
                )),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(|mut keys| {
                keys.sort_unstable();
                Element::Key(keys)
            }),
        (Some(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
        (_, Value::Object(_)) => Err(without_keys("a map type")),
        (_, Value::Array(_)) => Err(without_keys("a list type")),
        (_, Value::Null) => Err(without_keys("an explicit null")),
        (_, item) => Ok(Element::Value(item.to_string())),
    }
}

fn without_keys(found: &str) -> String {
    format!("associative list without keys has an element that's {found}")
}
