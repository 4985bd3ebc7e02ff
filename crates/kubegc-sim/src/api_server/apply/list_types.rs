//! List types and map types of fields: which lists are merged and by which keys, and which objects are
//! atomic.
//!
//! A list of a built-in kind is identified by the names of its field and of the field that contains it.
//! Unlisted lists are atomic. Custom resources take these types from the schema in their definition. Without
//! a schema, objects are merged and lists are atomic.
//!
//! # Upstream
//! `+listType`, `+listMapKey`, `+structType` and `+mapType` in `k8s.io/api` and `apimachinery`, 1.20 to 1.36;
//! `x-kubernetes-list-type` and similar extensions in `apiextensions`.

use std::sync::LazyLock;

use kubegc_core::{ApiResource, Behavior, KubernetesVersion};
use serde_json::{Map, Value};

use super::field_set::{Element, scalar};
use crate::{
    StoredObject,
    api_server::{Special, crd},
    types::{
        StructId,
        schema::{Field, ListKind, Type},
    },
};

/// The identity of the items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListType<'a> {
    /// Items have no identity: the list is atomic.
    Atomic,
    /// The value of the item.
    Set,
    /// The values of these keys, each with its default.
    Map(Vec<(&'a str, Option<Value>)>),
}

/// The differences between releases in the rules of structured merges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Whether null is a value, rather than equal to a missing field.
    pub(super) nulls_are_values: bool,
    /// Whether the field set includes applied objects without fields.
    pub(super) includes_empty_objects: bool,
    /// Whether merged lists follow the applied order.
    pub(super) follows_applied_order: bool,
    /// Whether removed fields are computed from field sets.
    pub(super) prunes_by_sets: bool,
    /// Whether references, selectors and similar structs are atomic.
    pub(super) references_are_atomic: bool,
    /// Whether the ports of services default their protocol.
    pub(super) services_have_protocols: bool,
    /// Whether owned fields follow the schema: a map or list that is owned as one value, but is granular by
    /// its type, is owned with its current fields or items.
    pub(super) follows_schema: bool,
    /// Whether a value that is owned as one is owned with its parts if its type is granular.
    pub(super) splits_owned_values: bool,
    /// Whether that includes maps without a schema.
    pub(super) splits_untyped_maps: bool,
    /// Whether an apply that does not change the object never sets the time of its manager, not even if it
    /// changes the owned fields.
    pub(super) keeps_times: bool,
    /// Whether an apply changes the object if the values differ, rather than the field sets.
    pub(super) compares_values: bool,
}

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

impl Dialect {
    pub(super) fn of(version: KubernetesVersion, types: bool) -> Self {
        let since = |minor: u16, why: &'static str| version.has(Behavior::since(minor, 0, why));
        Self {
            nulls_are_values: types,
            includes_empty_objects: since(21, "structured-merge-diff 4.1.0"),
            follows_applied_order: since(24, "structured-merge-diff 4.2.1"),
            prunes_by_sets: types && !since(21, "structured-merge-diff 4.1.0"),
            keeps_times: since(25, "managedFieldsUpdater.Apply"),
            compares_values: since(29, "structured-merge-diff 4.3.0"),
            references_are_atomic: since(22, "kubernetes #97989, #100684"),
            services_have_protocols: since(21, "the default is a part of the schema"),
            follows_schema: types && since(20, "structured-merge-diff 4.0.2"),
            splits_owned_values: !since(22, "structured-merge-diff 4.2"),
            splits_untyped_maps: !since(22, "structured-merge-diff 4.1.2"),
        }
    }
}

/// The type information for the current position of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Types<'a> {
    /// A built-in object.
    Kind(StructId),
    /// A struct inside an object.
    Struct(StructId),
    /// A value of a type, and the field that contains it, if it is the value of a field.
    Typed(&'static Type, Option<&'static Field>),
    /// A custom resource with the schema of its version, where there is one.
    Custom(Option<&'a Value>),
    /// A position in a CustomResourceDefinition.
    Definition(&'a str),
    /// A position with a schema.
    Schema(&'a Value),
    /// A position without a schema.
    Free,
}

impl<'a> Types<'a> {
    /// The type information for a kind. `definition`: that of a custom resource.
    pub(super) fn of(
        resource: &ApiResource,
        special: Special,
        definition: Option<&'a StoredObject>,
        dialect: Dialect,
    ) -> Self {
        if special == Special::CustomResourceDefinition && !dialect.references_are_atomic {
            return Self::Definition("");
        }
        if !resource.custom {
            let id = StructId::of(resource).or_else(|| StructId::named("UnknownKind"));
            return id.map_or(Self::Free, Self::Kind);
        }
        Self::Custom(definition.and_then(|definition| crd::schema(definition, &resource.version)))
    }

    /// The type information for a field of the object at this position.
    pub(super) fn field(self, name: &'a str) -> Self {
        match self {
            Self::Kind(_) | Self::Custom(_) | Self::Definition("") if name == "metadata" => {
                StructId::named("ObjectMeta").map_or(Self::Free, Self::Struct)
            }
            Self::Kind(id) | Self::Struct(id) => Self::of_field(id, name),
            Self::Typed(ty, _) => match ty.target() {
                Type::Struct(id) => Self::of_field(*id, name),
                Type::Map(inner) => Self::Typed(inner, None),
                _ => Self::Free,
            },
            Self::Custom(_) if matches!(name, "apiVersion" | "kind") => Self::Free,
            Self::Definition(_) => Self::Definition(name),
            Self::Custom(None) | Self::Free => Self::Free,
            Self::Custom(Some(schema)) | Self::Schema(schema) => schema
                .get("properties")
                .and_then(|properties| properties.get(name))
                .or_else(|| {
                    schema
                        .get("additionalProperties")
                        .filter(|schema| schema.is_object())
                })
                .map_or(Self::Free, Self::Schema),
        }
    }

    fn of_field(id: StructId, name: &str) -> Self {
        id.field(name)
            .map_or(Self::Free, |field| Self::Typed(&field.ty, Some(field)))
    }

    /// The type information for the items of the list at this position.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Typed(ty, _) => match ty.target() {
                Type::List(inner) => Self::Typed(inner, None),
                _ => Self::Free,
            },
            Self::Schema(schema) => schema.get("items").map_or(Self::Free, Self::Schema),
            other => other,
        }
    }

    /// Whether the object at this position has a field of this name, rather than entries of any name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::Definition(_) => true,
            Self::Kind(_) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Kind(id) | Self::Struct(id) => id.field(name).is_some(),
            Self::Typed(ty, _) => match ty.target() {
                Type::Struct(id) => id.field(name).is_some(),
                _ => false,
            },
            Self::Custom(_) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Custom(None) | Self::Free => false,
            Self::Custom(Some(schema)) | Self::Schema(schema) => schema
                .get("properties")
                .is_some_and(|properties| properties.get(name).is_some()),
        }
    }

    /// Whether the object at this position has only the fields that it declares.
    fn is_closed(self) -> bool {
        match self {
            Self::Kind(id) | Self::Struct(id) => id.name() != "UnknownKind",
            Self::Typed(ty, _) => matches!(ty.target(), Type::Struct(_)),
            Self::Custom(Some(schema)) | Self::Schema(schema) => {
                let is_open = |key: &str| schema.get(key).is_some_and(|value| *value != Value::Bool(false));
                !is_open("x-kubernetes-preserve-unknown-fields") && !is_open("additionalProperties")
            }
            _ => false,
        }
    }

    /// The value that every object has at this position, and that therefore no manager owns.
    pub(super) fn always(self) -> Option<&'static Value> {
        static EMPTY_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
        static EMPTY_TEXT: LazyLock<Value> = LazyLock::new(|| "".into());
        static ZERO: LazyLock<Value> = LazyLock::new(|| 0.into());
        static NULL: Value = Value::Null;
        static NO: Value = Value::Bool(false);
        match self {
            Self::Definition("kind" | "plural") => return Some(&EMPTY_TEXT),
            Self::Definition("conditions") => return Some(&NULL),
            _ => {}
        }
        let always = match self {
            Self::Custom(_) | Self::Kind(_) | Self::Struct(_) => true,
            Self::Definition(field) => matches!(field, "" | "spec" | "status" | "names" | "acceptedNames"),
            Self::Schema(_) | Self::Free => false,
            Self::Typed(ty, field) => {
                // All metadata has a creation timestamp, possibly an empty one.
                let is_written =
                    field.is_some_and(|field| !field.omit_empty || field.name == "creationTimestamp");
                return match ty {
                    Type::Struct(_) => Some(&EMPTY_OBJECT),
                    _ if !is_written => None,
                    Type::String => Some(&EMPTY_TEXT),
                    Type::Int32 | Type::Int64 | Type::IntOrString | Type::Double => Some(&ZERO),
                    Type::Bool => Some(&NO),
                    _ => Some(&NULL),
                };
            }
        };
        always.then_some(&*EMPTY_OBJECT)
    }

    /// Whether fields or items of a built-in value at this position can be owned separately.
    pub(super) fn is_granular(self, dialect: Dialect) -> bool {
        match self {
            Self::Kind(_) | Self::Struct(_) => true,
            Self::Typed(ty, _) => match ty.target() {
                Type::Struct(_) | Type::Map(_) => !self.is_atomic_map(dialect),
                Type::List(_) => self.list() != ListType::Atomic,
                _ => false,
            },
            _ => false,
        }
    }

    /// The ownership of values at this position, by their type.
    pub(super) fn ownership(self, dialect: Dialect) -> Ownership {
        let by = |is_atomic: bool| {
            if is_atomic {
                Ownership::Atomic
            } else {
                Ownership::Granular
            }
        };
        match self {
            Self::Kind(_) | Self::Struct(_) | Self::Custom(_) => Ownership::Granular,
            Self::Typed(ty, _) => match ty.target() {
                Type::Struct(_) | Type::Map(_) => by(self.is_atomic_map(dialect)),
                Type::List(_) => by(self.list() == ListType::Atomic),
                _ => Ownership::Scalar,
            },
            Self::Schema(schema) => match schema.get("type").and_then(Value::as_str) {
                Some("object") => by(self.is_atomic_map(dialect)),
                Some("array") => by(self.list() == ListType::Atomic),
                _ => Ownership::Scalar,
            },
            Self::Free if dialect.splits_untyped_maps => Ownership::Granular,
            Self::Definition(_) | Self::Free => Ownership::Scalar,
        }
    }

    /// The type information below a step of a path.
    pub(super) fn at(self, element: &'a Element) -> Self {
        match element {
            Element::Field(name) => self.field(name),
            Element::Key(_) | Element::Value(_) => self.item(),
        }
    }

    /// Whether an object at this position is atomic.
    pub(super) fn is_atomic_map(self, dialect: Dialect) -> bool {
        match self {
            Self::Kind(_) | Self::Struct(_) => false,
            Self::Typed(ty, field) => match ty.target() {
                Type::Struct(id) => {
                    (id.is_atomic() && (dialect.references_are_atomic || id.is_always_atomic()))
                        || field.is_some_and(|field| field.is_atomic)
                }
                Type::Map(_) => dialect.references_are_atomic && field.is_some_and(|field| field.is_atomic),
                _ => true,
            },
            Self::Schema(schema) => schema.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            Self::Custom(_) | Self::Definition(_) | Self::Free => false,
        }
    }

    /// The merge type of a list at this position.
    pub(super) fn list(self) -> ListType<'a> {
        match self {
            Self::Typed(_, field) => match field.map(|field| &field.list) {
                None | Some(ListKind::Atomic) => ListType::Atomic,
                Some(ListKind::Set) => ListType::Set,
                Some(ListKind::Map(keys)) => {
                    let default = |key: &str| match self.item().field_of(key) {
                        Some(field) if key == "protocol" => field.default.clone(),
                        Some(field) if !field.omit_empty => {
                            Self::Typed(&field.ty, Some(field)).always().cloned()
                        }
                        _ => None,
                    };
                    ListType::Map(keys.iter().map(|key| (*key, default(key))).collect())
                }
            },
            Self::Schema(schema) => of_schema(schema),
            Self::Kind(_) | Self::Struct(_) | Self::Custom(_) | Self::Definition(_) | Self::Free => {
                ListType::Atomic
            }
        }
    }

    /// The identity of each item of the list at this position, or the index and the problem of an item that
    /// has none.
    pub(super) fn elements(self, list: &[Value], dialect: Dialect) -> Result<Vec<Element>, (usize, String)> {
        let mut list_type = self.list();
        if let (ListType::Map(keys), false) = (&mut list_type, dialect.services_have_protocols) {
            for (_, default) in keys
                .iter_mut()
                .filter(|(key, _)| *key == "protocol" && self.is_of_service())
            {
                *default = None;
            }
        }
        let elements = list.iter().enumerate();
        elements
            .map(|(index, item)| element(&list_type, item).map_err(|problem| (index, problem)))
            .collect()
    }
}

/// The fields of a value that its types do not declare, as paths with the problem.
///
/// # Upstream
/// `validatingObjectWalker.doMap` in `structured-merge-diff/v4/typed/validate.go`, v4.0.2.
pub(super) fn undeclared<'a>(value: &'a Value, types: Types<'a>, path: &str, errors: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                if types.is_closed() && !types.declares(key) {
                    // Upstream stops here and does not descend into this object.
                    errors.push(format!("{path}: field not declared in schema"));
                    return;
                }
                undeclared(value, types.field(key), &path, errors);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                undeclared(item, types.item(), &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

impl Types<'_> {
    /// The field of the struct at this position.
    fn field_of(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Kind(id) | Self::Struct(id) => id.field(name),
            Self::Typed(ty, _) => match ty.target() {
                Type::Struct(id) => id.field(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether these are the ports of a service.
    fn is_of_service(self) -> bool {
        match self {
            Self::Typed(ty, _) => ty.structure().is_some_and(|id| id.name() == "ServicePort"),
            _ => false,
        }
    }
}

fn element(list_type: &ListType<'_>, item: &Value) -> Result<Element, String> {
    match (list_type, item) {
        (ListType::Map(_), Value::Null) => {
            Err("associative list with keys may not have a null element".to_owned())
        }
        (ListType::Map(keys), Value::Object(fields)) => keys
            .iter()
            .map(|(key, default)| match fields.get(*key).or(default.as_ref()) {
                Some(value) => Ok(((*key).to_owned(), value.to_string())),
                None => Err(missing_key(key)),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(|mut keys| {
                keys.sort_unstable();
                Element::Key(keys)
            }),
        (ListType::Map(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
        (_, Value::Object(_)) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        (_, Value::Array(_)) => {
            Err("associative list without keys has an element that's a list type".to_owned())
        }
        (_, Value::Null) => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        (_, item) => Ok(Element::Value(item.to_string())),
    }
}

fn missing_key(key: &str) -> String {
    let key = scalar(&key.into());
    format!(
        "associative list with keys has an element that omits key field {key} (and doesn't have default value)"
    )
}

fn of_schema(schema: &Value) -> ListType<'_> {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let properties = schema
                .get("items")
                .and_then(|items| items.get("properties"))
                .and_then(Value::as_object);
            let default = |key: &str| {
                let property = properties.and_then(|properties: &Map<String, Value>| properties.get(key));
                property.and_then(|property| property.get("default")).cloned()
            };
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListType::Map(
                keys.into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(|key| (key, default(key)))
                    .collect(),
            )
        }
        _ => ListType::Atomic,
    }
}
