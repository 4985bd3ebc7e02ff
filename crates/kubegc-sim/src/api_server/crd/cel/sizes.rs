//! The sizes that a schema allows.
//!
//! # Upstream
//! `SchemaDeclType` in
//! [`schemas.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/common/schemas.go), and
//! `maxCardinality` in `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    super::instance::is_embedded,
    cost::Range,
    values::{escaped, is_int_or_string, of_entries, text},
};

/// The largest request, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;
/// The longest times and durations, in bytes of JSON. The shortest ones are in [`Declared::text`].
const TIME: u64 = 32;
const DATE: u64 = 12;

/// The sizes of the values of a schema.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    /// The most characters, items or entries; 0 for other values.
    most: u64,
    /// The least bytes of a value in JSON.
    least_bytes: u64,
    fields: BTreeMap<String, Self>,
    /// The items of a list, or the values of a map.
    element: Option<Box<Self>>,
    is_map: bool,
}

impl Declared {
    /// The sizes of the values of a schema; `None` if rules cannot read them. Depth is bounded by the parser
    /// that read the schema.
    pub(super) fn of(schema: &Value, is_root: bool) -> Option<Self> {
        let number = |key: &str| {
            let number = schema.get(key)?.as_i64()?;
            Some(u64::try_from(number).unwrap_or(0))
        };
        let simple = |least_bytes: u64, most: u64| Self {
            most,
            least_bytes,
            ..Self::default()
        };
        // A length counts characters, which have up to four bytes.
        let length = number("maxLength").map(|length| length.saturating_mul(4));
        if is_int_or_string(schema) {
            return Some(simple(1, length.unwrap_or(REQUEST - 2)));
        }
        Some(match text(schema, "type") {
            "array" => {
                let items = schema.get("items")?;
                let items = Self::of(items, is_embedded(items))?;
                let most = number("maxItems").unwrap_or((REQUEST - 2) / (items.least_bytes + 1));
                Self {
                    element: Some(Box::new(items)),
                    ..simple(2, most)
                }
            }
            "object" => match of_entries(schema) {
                Some(values) => {
                    let values = Self::of(values, is_embedded(values))?;
                    let most = number("maxProperties").unwrap_or((REQUEST - 2) / (values.least_bytes + 6));
                    Self {
                        element: Some(Box::new(values)),
                        is_map: true,
                        ..simple(2, most)
                    }
                }
                None => Self::object(schema, is_root),
            },
            "string" => match text(schema, "format") {
                "byte" => simple(2, number("maxLength").unwrap_or(REQUEST - 2)),
                "duration" => simple(3, TIME),
                "date" => simple(DATE, DATE),
                "date-time" => simple(21, TIME),
                _ => simple(2, length.or_else(|| longest(schema)).unwrap_or(REQUEST - 2)),
            },
            "boolean" => simple(4, 0),
            "number" | "integer" => simple(1, 0),
            _ => return None,
        })
    }

    fn object(schema: &Value, is_root: bool) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let mut object = Self {
            least_bytes: 2,
            ..Self::default()
        };
        let text = Self {
            most: REQUEST - 2,
            least_bytes: 2,
            ..Self::default()
        };
        let metadata = || Self {
            least_bytes: 2,
            fields: ["name", "generateName"]
                .map(|name| (name.to_owned(), text.clone()))
                .into(),
            ..Self::default()
        };
        let replaces = is_root && !declares_metadata(properties);
        let replaced = |name: &str| match name {
            "kind" | "apiVersion" if replaces => Some(text.clone()),
            "metadata" if replaces => Some(metadata()),
            _ => None,
        };
        let always = ["kind", "apiVersion", "metadata"]
            .into_iter()
            .filter(|_| replaces);
        let absent =
            always.filter(|name| properties.is_none_or(|properties| !properties.contains_key(*name)));
        let absent = absent.map(|name| (name, &Value::Null));
        let declared = properties.into_iter().flatten();
        for (name, property) in declared
            .map(|(name, property)| (name.as_str(), property))
            .chain(absent)
        {
            let field = match replaced(name) {
                Some(field) => field,
                None => match Self::of(property, is_embedded(property)) {
                    Some(field) => field,
                    None => continue,
                },
            };
            // Defaults are filled in by the server.
            if is_required(name) && property.get("default").is_none() {
                object.least_bytes += name.len() as u64 + field.least_bytes + 4;
            }
            if let Some(name) = escaped(name) {
                object.fields.insert(name, field);
            }
        }
        object
    }

    /// The size of the value that a path leads to. The first part is the variable.
    pub(super) fn size(&self, path: &[String]) -> Option<Range> {
        let mut declared = self;
        let (_, steps) = path.split_first()?;
        for step in steps {
            declared = match step.as_str() {
                "@items" | "@values" => declared.element.as_deref()?,
                // The keys of maps have no declared size, and upstream takes them for empty.
                "@keys" if declared.is_map => return Some(Range::up_to(0)),
                name => declared.fields.get(name)?,
            };
        }
        Some(Range::up_to(declared.most))
    }

    /// How many values of this schema fit into a request.
    pub(super) const fn cardinality(&self) -> u64 {
        REQUEST / (self.least_bytes + 1)
    }
}

/// The longest value of an enumeration, in bytes.
fn longest(schema: &Value) -> Option<u64> {
    let values = schema
        .get("enum")?
        .as_array()
        .filter(|values| !values.is_empty())?;
    let lengths = values
        .iter()
        .filter_map(Value::as_str)
        .map(|value| value.len() as u64);
    Some(lengths.max().unwrap_or(0))
}

/// Whether a schema declares all that every resource has.
fn declares_metadata(properties: Option<&Map<String, Value>>) -> bool {
    let is = |properties: &Map<String, Value>, name: &str, wanted: &str| {
        properties
            .get(name)
            .is_some_and(|schema| text(schema, "type") == wanted)
    };
    properties.is_some_and(|properties| {
        let metadata = properties
            .get("metadata")
            .and_then(|metadata| metadata.get("properties"));
        let names = metadata.and_then(Value::as_object);
        is(properties, "kind", "string")
            && is(properties, "apiVersion", "string")
            && is(properties, "metadata", "object")
            && names.is_some_and(|names| is(names, "name", "string") && is(names, "generateName", "string"))
    })
}

/// The factor by which a schema multiplies the values of the schemas below it; `None` if it has no limit.
///
/// # Upstream
/// `extractMaxElements` in
/// [`cel_validation.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apis/apiextensions/validation/cel_validation.go).
pub(super) fn multiplicity(schema: &Value) -> Option<u64> {
    let limit = |key: &str| {
        let limit = schema.get(key)?.as_i64()?;
        Some(u64::try_from(limit).unwrap_or(0))
    };
    match text(schema, "type") {
        "object" if schema.get("additionalProperties").is_some() => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}
