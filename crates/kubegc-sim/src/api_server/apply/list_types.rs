//! Which lists are merged and by what, and which objects are one piece: what upstream's types say of themselves.
//!
//! Of built-in kinds the table of types knows it. Custom resources have it from the schema in their definition; without one, objects
//! are merged and lists are atomic.
//!
//! # Upstream
//! `+listType`, `+listMapKey`, `+structType` and `+mapType` in `k8s.io/api` and `apimachinery`, 1.20 to 1.36;
//! `x-kubernetes-list-type` and its kin in `apiextensions`.

use kubegc_core::KubernetesVersion;
use serde_json::{Map, Value};

use super::field_set::{Element, scalar};
use crate::types::schema::{Field, ListKind, Place, Type};

/// How the items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListType<'a> {
    /// They are not: the list is one piece.
    Atomic,
    /// By themselves.
    Set,
    /// By these keys, each with the value that it has where it is missing.
    Map(Vec<(&'a str, Option<Value>)>),
}

/// What is known of the place that a walk has come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Types<'a> {
    /// A place in a built-in object, or in metadata.
    BuiltIn(BuiltIn),
    /// A custom resource with the schema of its version, where there is one.
    Custom(Option<&'a Value>, KubernetesVersion),
    /// A place with a schema.
    Schema(&'a Value),
    /// A place that no schema speaks of.
    Free,
}

/// A place that the table of types knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct BuiltIn {
    place: Place,
    /// The field that the place is the value of; none for an object as a whole and for items.
    field: Option<&'static Field>,
    version: KubernetesVersion,
}

impl BuiltIn {
    fn field(self, name: &str) -> Self {
        Self {
            place: self.place.child(name),
            field: self.place.field(name),
            ..self
        }
    }

    fn list(self) -> ListType<'static> {
        match self.field.map(|field| &field.list) {
            None | Some(ListKind::Atomic) => ListType::Atomic,
            Some(ListKind::Set) => ListType::Set,
            Some(ListKind::Map(keys)) => {
                let item = self.place.item();
                ListType::Map(
                    keys.iter()
                        .map(|key| (*key, self.key_default(item, key)))
                        .collect(),
                )
            }
        }
    }

    /// The value of a key that an item leaves out, as far as the release publishes it.
    fn key_default(self, item: Place, key: &str) -> Option<Value> {
        // Ports of containers publish their protocol since 1.20, those of services since 1.21.
        let since = if item.field("containerPort").is_some() {
            20
        } else {
            21
        };
        let default = item.field(key)?.default.clone();
        default.filter(|_| self.version.minor() >= since)
    }
}

impl<'a> Types<'a> {
    /// An object of a built-in kind.
    pub(super) const fn built_in(place: Place, version: KubernetesVersion) -> Self {
        Self::BuiltIn(BuiltIn {
            place,
            field: None,
            version,
        })
    }

    /// What is known of a field of the object at this place.
    pub(super) fn field(self, name: &'a str) -> Self {
        match self {
            Self::BuiltIn(at) => Self::BuiltIn(at.field(name)),
            Self::Custom(_, version) if matches!(name, "apiVersion" | "kind" | "metadata") => {
                Self::built_in(Place::any_kind(), version).field(name)
            }
            Self::Custom(None, _) | Self::Free => Self::Free,
            Self::Custom(Some(schema), _) | Self::Schema(schema) => schema
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

    /// What is known of the items of the list at this place.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Schema(schema) => schema.get("items").map_or(Self::Free, Self::Schema),
            Self::BuiltIn(at) => Self::BuiltIn(BuiltIn {
                place: at.place.item(),
                field: None,
                ..at
            }),
            other => other,
        }
    }

    /// Whether the object at this place has a field of this name, rather than entries of any name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::BuiltIn(at) => at.place.field(name).is_some(),
            Self::Custom(..) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Custom(None, _) | Self::Free => false,
            Self::Custom(Some(schema), _) | Self::Schema(schema) => schema
                .get("properties")
                .is_some_and(|properties| properties.get(name).is_some()),
        }
    }

    /// Whether the object at this place is in every object, so that nobody has put it there.
    pub(super) fn is_always_there(self) -> bool {
        match self {
            Self::BuiltIn(at) => match at.field {
                // An object without it is written with it, empty.
                Some(field) => !field.omit_empty || matches!(field.ty, Type::Struct(_)),
                None => matches!(at.place, Place::Kind(_)),
            },
            Self::Custom(..) => true,
            Self::Schema(_) | Self::Free => false,
        }
    }

    /// Whether an object at this place is one piece.
    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::BuiltIn(at) => at.field.is_some_and(|field| field.is_atomic) || at.place.is_atomic(),
            Self::Schema(schema) => schema.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            Self::Custom(..) | Self::Free => false,
        }
    }

    /// How a list at this place is merged.
    pub(super) fn list(self) -> ListType<'a> {
        match self {
            Self::BuiltIn(at) => at.list(),
            Self::Schema(schema) => of_schema(schema),
            Self::Custom(..) | Self::Free => ListType::Atomic,
        }
    }

    /// What tells each item of the list at this place from the others; the position and the problem of one that cannot be told.
    pub(super) fn elements(self, list: &[Value]) -> Result<Vec<Element>, (usize, String)> {
        let list_type = self.list();
        let elements = list.iter().enumerate();
        elements
            .map(|(index, item)| element(&list_type, item).map_err(|problem| (index, problem)))
            .collect()
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
