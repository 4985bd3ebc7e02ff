//! Custom resources as CEL values, by the schema that declares their fields.
//!
//! # Upstream
//! `UnstructuredToVal` in `apiextensions-apiserver/pkg/apiserver/schema/cel/values.go`, 1.25.0.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cel::{Value as Cel, objects::Map};
use serde_json::Value;

use super::declared::{Declared, escaped};

/// Makes a type a CEL value that equals others of its type.
macro_rules! value {
    ($type:ty, $name:literal) => {
        impl cel::common::value::Val for $type {
            fn get_type(&self) -> &cel::common::types::Type {
                <Self as cel::common::value::Val>::cel_type()
            }
            fn cel_type() -> &'static cel::common::types::Type {
                static TYPE: cel::common::types::Type = cel::common::types::Type::new_unspecified_type($name);
                &TYPE
            }
            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other
                    .downcast_ref::<Self>()
                    .is_some_and(|other| self == other)
            }
            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v> {
                Box::new(Self::clone(self))
            }
            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }
        impl cel::common::value::StaticVal for $type {}
    };
}
pub(super) use value;

pub(super) fn map(entries: impl IntoIterator<Item = (String, Cel)>) -> Cel {
    let entries = entries.into_iter();
    Cel::Map(Map {
        map: Arc::new(entries.map(|(key, value)| (key.into(), value)).collect()),
    })
}

/// The value as a CEL value. Depth is bounded by the parser that read the value.
///
/// # Errors
/// Names the string that does not have the format of its schema.
pub(super) fn of(value: &Value, declared: Declared<'_>) -> Result<Cel, String> {
    Ok(match value {
        Value::Number(number) if declared.text("type") == "number" => {
            Cel::Float(number.as_f64().unwrap_or_default())
        }
        Value::String(string) => of_text(string, declared.text("format"))?,
        Value::Array(items) => {
            let below = declared.items().unwrap_or(Declared::of(&Value::Null));
            let items: Result<Vec<Cel>, String> = items.iter().map(|item| of(item, below)).collect();
            Cel::List(Arc::new(items?))
        }
        Value::Object(fields) => {
            let known = declared.fields();
            let entries = fields.iter().filter_map(|(key, value)| {
                let (name, below) = match declared.entries() {
                    Some(below) => (key.clone(), below),
                    None => (escaped(key)?, *known.get(key.as_str())?),
                };
                Some(of(value, below).map(|value| (name, value)))
            });
            map(entries.collect::<Result<Vec<_>, String>>()?)
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
    let read = match format {
        "byte" => BASE64_STANDARD
            .decode(string)
            .ok()
            .map(|bytes| Cel::Bytes(Arc::new(bytes))),
        "date" => super::convert("timestamp", &format!("{string}T00:00:00Z")),
        "date-time" => super::convert("timestamp", string),
        "duration" => super::convert("duration", string),
        _ => Some(string.into()),
    };
    read.ok_or_else(|| format!("Invalid {format} formatted string: {string}"))
}
