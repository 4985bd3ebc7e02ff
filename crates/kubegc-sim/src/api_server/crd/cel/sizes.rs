//! The sizes that a schema allows.
//!
//! # Upstream
//! `SchemaDeclType` in
//! [`schemas.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/common/schemas.go), and
//! `maxCardinality` in `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`.

use std::collections::BTreeMap;

use serde_json::Value;

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
        let number = |key: &str| limit(schema, key);
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
        let properties = properties.into_iter().flatten();
        let mut fields: BTreeMap<&str, Self> = properties
            .filter_map(|(name, property)| Some((name.as_str(), Self::of(property, is_embedded(property))?)))
            .collect();
        if is_root && !declares_metadata(schema) {
            let text = simple(2, REQUEST - 2);
            let names = ["name", "generateName"].map(|name| (name.to_owned(), text.clone()));
            let metadata = Self {
                fields: names.into(),
                ..simple(2, 0)
            };
            fields.extend([
                ("kind", text.clone()),
                ("apiVersion", text),
                ("metadata", metadata),
            ]);
        }
        let required = schema.get("required").and_then(Value::as_array);
        let required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let mut object = simple(2, 0);
        for (name, field) in fields {
            // Defaults are filled in by the server.
            if required(name) && schema["properties"][name].get("default").is_none() {
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

fn simple(least_bytes: u64, most: u64) -> Declared {
    Declared {
        most,
        least_bytes,
        ..Declared::default()
    }
}

fn limit(schema: &Value, key: &str) -> Option<u64> {
    let limit = schema.get(key)?.as_i64()?;
    Some(u64::try_from(limit).unwrap_or(0))
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
fn declares_metadata(schema: &Value) -> bool {
    let declared = [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
        ("metadata/properties/name", "string"),
        ("metadata/properties/generateName", "string"),
    ];
    declared.iter().all(|(name, ty)| {
        schema
            .pointer(&format!("/properties/{name}/type"))
            .is_some_and(|found| found == ty)
    })
}

/// The factor by which a schema multiplies the values of the schemas below it; `None` if it has no limit.
///
/// # Upstream
/// `extractMaxElements` in
/// [`cel_validation.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apis/apiextensions/validation/cel_validation.go).
pub(super) fn multiplicity(schema: &Value) -> Option<u64> {
    match text(schema, "type") {
        "object" if schema.get("additionalProperties").is_some() => limit(schema, "maxProperties"),
        "array" => limit(schema, "maxItems"),
        _ => Some(1),
    }
}
