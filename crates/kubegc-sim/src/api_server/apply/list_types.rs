//! Decides which lists are merged and by what, and which objects are one piece: what upstream's types say of themselves.
//!
//! Of the built-in kinds the lists are known by the name of the field and of the field that holds it; lists that are not named are
//! atomic. Custom resources have it from the schema in their definition; without one, objects are merged and lists are atomic.
//!
//! # Upstream
//! `+listType`, `+listMapKey`, `+structType` and `+mapType` in `k8s.io/api` and `apimachinery`, 1.20 to 1.36;
//! `x-kubernetes-list-type` and its kin in `apiextensions`.

use serde_json::{Map, Value};

use super::field_set::{Element, scalar};

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
    /// A built-in object.
    BuiltIn,
    /// A custom resource with the schema of its version, where there is one.
    Custom(Option<&'a Value>),
    /// `field` of a built-in object that is the value of the field `parent`; of a list, its items as well.
    Field { parent: &'a str, field: &'a str },
    /// A place with a schema.
    Schema(&'a Value),
    /// A place that no schema speaks of.
    Free,
}

impl<'a> Types<'a> {
    /// What is known of a field of the object at this place.
    pub(super) fn field(self, name: &'a str) -> Self {
        match self {
            Self::BuiltIn => Self::Field {
                parent: "",
                field: name,
            },
            Self::Custom(_) if matches!(name, "apiVersion" | "kind" | "metadata") => Self::Field {
                parent: "",
                field: name,
            },
            Self::Custom(None) | Self::Free => Self::Free,
            Self::Field { field, .. } => Self::Field {
                parent: field,
                field: name,
            },
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

    /// What is known of the items of the list at this place.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Schema(schema) => schema.get("items").map_or(Self::Free, Self::Schema),
            other => other,
        }
    }

    /// Whether the object at this place has a field of this name, rather than entries of any name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::BuiltIn | Self::Field { .. } => true,
            Self::Custom(_) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Custom(None) | Self::Free => false,
            Self::Custom(Some(schema)) | Self::Schema(schema) => schema
                .get("properties")
                .is_some_and(|properties| properties.get(name).is_some()),
        }
    }

    /// Whether the object at this place is in every object, so that nobody has put it there.
    pub(super) fn is_always_there(self) -> bool {
        const EMBEDDED: [&str; 8] = [
            "containers",
            "jobTemplate",
            "metadata",
            "spec",
            "status",
            "strategy",
            "template",
            "updateStrategy",
        ];
        match self {
            Self::BuiltIn | Self::Custom(_) => true,
            Self::Field { field, .. } => EMBEDDED.contains(&field),
            Self::Schema(_) | Self::Free => false,
        }
    }

    /// Whether an object at this place is one piece.
    pub(super) fn is_atomic_map(self) -> bool {
        const ATOMIC: [&str; 19] = [
            "configMapKeyRef",
            "dataSource",
            "fieldRef",
            "involvedObject",
            "labelSelector",
            "namespaceSelector",
            "nodeSelector",
            "objectSelector",
            "podSelector",
            "regarding",
            "related",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "resourceFieldRef",
            "roleRef",
            "scaleTargetRef",
            "secretKeyRef",
            "secretRef",
            "selector",
            "targetRef",
        ];
        match self {
            Self::Field { field, .. } => ATOMIC.contains(&field),
            Self::Schema(schema) => schema.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            Self::BuiltIn | Self::Custom(_) | Self::Free => false,
        }
    }

    /// How a list at this place is merged.
    pub(super) fn list(self) -> ListType<'a> {
        match self {
            Self::Field { parent, field } => built_in(parent, field),
            Self::Schema(schema) => of_schema(schema),
            Self::BuiltIn | Self::Custom(_) | Self::Free => ListType::Atomic,
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

/// The lists of the built-in kinds that are not atomic.
fn built_in(parent: &str, field: &str) -> ListType<'static> {
    let key = match (parent, field) {
        ("metadata", "finalizers") | ("spec", "podCIDRs") => return ListType::Set,
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => {
            return with_protocol("containerPort");
        }
        // Of services; the endpoints and policies that have ports too hold them in atomic lists.
        ("spec", "ports") => return with_protocol("port"),
        ("spec", "topologySpreadConstraints") => {
            return ListType::Map(vec![("topologyKey", None), ("whenUnsatisfiable", None)]);
        }
        ("metadata", "ownerReferences") => "uid",
        (
            "spec",
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "imagePullSecrets"
            | "resourceClaims"
            | "schedulingGates",
        )
        | ("containers" | "initContainers" | "ephemeralContainers", "env")
        | ("resources", "claims")
        | ("", "secrets" | "webhooks")
        | ("webhooks", "matchConditions") => "name",
        ("spec", "hostAliases") | ("status", "podIPs") => "ip",
        ("containers" | "initContainers" | "ephemeralContainers", "volumeMounts") => "mountPath",
        ("containers" | "initContainers" | "ephemeralContainers", "volumeDevices") => "devicePath",
        ("status", "conditions" | "addresses") => "type",
        _ => return ListType::Atomic,
    };
    ListType::Map(vec![(key, None)])
}

fn with_protocol(port: &'static str) -> ListType<'static> {
    ListType::Map(vec![(port, None), ("protocol", Some("TCP".into()))])
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
