//! Reads an object again, from a tree, where the strict reading failed: what can be kept is kept, every other
//! field is named.

use kubegc_core::json::{FieldReader, JsonType};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    item::{Item, ListHead, Meta},
    soft::{Expected, Soft},
};

/// Reads an object; `None` if the value is no object at all.
pub(crate) fn item(value: &Value) -> Option<Item<'_>> {
    let object = value.as_object()?;
    let mut reader = FieldReader::default();
    let mut item = Item {
        api_version: reader.text(object, "", "apiVersion"),
        kind: reader.text(object, "", "kind"),
        has_items: object.contains_key("items"),
        ..Item::default()
    };
    item.meta = reader.map(object, "", "metadata").map(|map| Meta {
        annotations: soft(map, "annotations"),
        ..reader.meta(map)
    });
    let body = &mut item.body;
    body.spec = soft(object, "spec");
    body.status = soft(object, "status");
    body.object_type = soft(object, "type");
    body.data = soft(object, "data");
    body.string_data = soft(object, "stringData");
    body.secrets = soft(object, "secrets");
    body.revision = soft(object, "revision");
    item.take_annotations();
    item.flaws = reader.wrong;
    Some(item)
}

/// Reads a field as the fast path does.
fn soft<'v, T: Expected<'v>>(map: &'v Map<String, Value>, name: &str) -> Soft<T> {
    let Some(value) = map.get(name) else {
        return Soft::Absent;
    };
    // A tree has each key once, and no other reason for the reading to fail.
    Soft::deserialize(value).unwrap_or(Soft::Wrong(JsonType::of(value)))
}

/// Reads the fields of a list other than its items.
pub(crate) fn list_head(value: &Value) -> ListHead {
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
