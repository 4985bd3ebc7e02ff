//! Custom resources as CEL values, by the schema that declares their fields.
//!
//! # Upstream
//! `UnstructuredToVal` in `apiextensions-apiserver/pkg/apiserver/schema/cel/values.go`, and `Escape` in
//! `pkg/apiserver/schema/cel/model`, 1.25.0.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cel::{Value as Cel, objects::Map};
use serde_json::Value;

use super::super::instance::is_embedded;

/// Reserved words, which cannot select a field.
const RESERVED: &str = "true false null in as break const continue else for function if import let loop \
                        package namespace return var void while";

/// The name by which rules select a property; `None` where they cannot.
pub(super) fn escaped(name: &str) -> Option<String> {
    if RESERVED.split(' ').any(|word| word == name) {
        return Some(format!("__{name}__"));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (word, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            c if c.is_ascii_alphanumeric() || c == '_' => ("", 1),
            _ => return None,
        };
        if word.is_empty() {
            out.push(c);
        } else {
            out.push_str(word);
        }
        rest = &rest[length..];
    }
    Some(out)
}

pub(super) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn is_int_or_string(schema: &Value) -> bool {
    schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
        || text(schema, "format") == "int-or-string"
}

/// The schema of the values of a map.
pub(super) fn of_entries(schema: &Value) -> Option<&Value> {
    schema
        .get("additionalProperties")
        .filter(|schema| schema.is_object())
}

/// Whether rules can read a field with this schema.
pub(super) fn is_visible(schema: &Value) -> bool {
    is_int_or_string(schema)
        || match text(schema, "type") {
            "" => false,
            "array" => schema.get("items").is_some_and(is_visible),
            "object" => of_entries(schema).is_none_or(is_visible),
            _ => true,
        }
}

pub(super) fn map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    Cel::Map(Map {
        map: Arc::new(entries.map(|(key, value)| (key.into(), value)).collect()),
    })
}

/// The value as a CEL value. `is_root`: whether it is a complete resource. Depth is bounded by the parser
/// that read the value.
///
/// # Errors
/// Names the string that does not have the format of its schema.
pub(super) fn of(value: &Value, schema: &Value, is_root: bool) -> Result<Cel, String> {
    Ok(match value {
        Value::Number(number) if text(schema, "type") == "number" => {
            Cel::Float(number.as_f64().unwrap_or_default())
        }
        Value::String(string) => of_text(string, text(schema, "format"))?,
        Value::Array(items) => {
            let below = schema.get("items").unwrap_or(&Value::Null);
            let items: Result<Vec<Cel>, String> = items
                .iter()
                .map(|item| of(item, below, is_embedded(below)))
                .collect();
            Cel::List(Arc::new(items?))
        }
        Value::Object(fields) => {
            let mut entries = Vec::new();
            if let Some(below) = of_entries(schema) {
                for (key, value) in fields {
                    entries.push((key.clone(), of(value, below, is_embedded(below))?));
                }
                return Ok(map(entries.into_iter()));
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, value) in fields {
                let declared = properties.and_then(|properties| properties.get(key));
                if is_root && key == "metadata" {
                    let named = ["name", "generateName"].into_iter().filter_map(|part| {
                        let text = value.get(part)?.as_str()?;
                        Some((part.to_owned(), text.into()))
                    });
                    entries.push((key.clone(), map(named)));
                } else if is_root && matches!(key.as_str(), "apiVersion" | "kind") {
                    entries.push((key.clone(), of(value, &Value::Null, false)?));
                } else if let (Some(below), Some(name)) =
                    (declared.filter(|below| is_visible(below)), escaped(key))
                {
                    entries.push((name, of(value, below, is_embedded(below))?));
                }
            }
            map(entries.into_iter())
        }
        scalar => dynamic(scalar),
    })
}

/// A value whose fields all can be read. Depth is bounded by the parser that read the value.
pub(super) fn dynamic(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(dynamic).collect())),
        Value::Object(fields) => map(fields.iter().map(|(key, value)| (key.clone(), dynamic(value)))),
    }
}

fn of_text(string: &str, format: &str) -> Result<Cel, String> {
    let by_function = |function: &str, argument: &str| {
        super::convert(function, argument)
            .ok_or_else(|| format!("Invalid {format} formatted string: {string}"))
    };
    match format {
        "byte" => match BASE64_STANDARD.decode(string) {
            Ok(bytes) => Ok(Cel::Bytes(Arc::new(bytes))),
            Err(_) => Err(format!("Invalid byte formatted string: {string}")),
        },
        "date" => by_function("timestamp", &format!("{string}T00:00:00Z")),
        "date-time" => by_function("timestamp", string),
        "duration" => by_function("duration", string),
        _ => Ok(string.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_are_escaped_as_upstream_escapes_them() {
        for (name, expected) in [
            ("replicas", Some("replicas")),
            ("foo-bar", Some("foo__dash__bar")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("1st", None),
            ("a b", None),
        ] {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }
}
