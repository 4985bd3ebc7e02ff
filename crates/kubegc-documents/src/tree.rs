//! Objects and lists that were parsed into a tree.

use kubegc_core::json::JsonType;
use serde::Deserialize;
use serde_json::Value;

use crate::item::{Item, ListHead};

/// The object; `None` if the value is not a map.
pub fn item(value: &Value) -> Option<Item<'_>> {
    // A tree has each key once, and no other reason for the reading to fail.
    value.as_object().and_then(|_| Item::deserialize(value).ok())
}

/// Reads the fields of a list other than its items.
pub fn list_head(value: &Value) -> ListHead {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let meta = value.get("metadata");
    let of_meta = |name: &str| meta.and_then(|meta| meta.get(name));
    ListHead {
        api_version: text(value.get("apiVersion")),
        kind: text(value.get("kind")),
        resource_version: text(of_meta("resourceVersion")),
        continues: !text(of_meta("continue")).is_empty(),
        remaining: of_meta("remainingItemCount")
            .and_then(Value::as_u64)
            .filter(|&count| count > 0),
        is_named: !text(of_meta("name")).is_empty() || !text(of_meta("uid")).is_empty(),
    }
}

/// The type of a value, in words.
pub const fn type_name(value: &Value) -> &'static str {
    let of = match value {
        Value::Null => JsonType::Null,
        Value::Bool(_) => JsonType::Boolean,
        Value::Number(_) => JsonType::Number,
        Value::String(_) => JsonType::String,
        Value::Array(_) => JsonType::List,
        Value::Object(_) => JsonType::Map,
    };
    of.name()
}
