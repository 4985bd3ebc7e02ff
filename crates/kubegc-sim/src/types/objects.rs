//! Access to the fields of JSON objects.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// A string of the object; empty where there is none.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is missing or null.
pub(super) fn is_nil(object: &Object, key: &str) -> bool {
    object.get(key).is_none_or(Value::is_null)
}

pub(super) fn set_nil(object: &mut Object, key: &str, value: impl Into<Value>) {
    if is_nil(object, key) {
        object.insert(key.to_owned(), value.into());
    }
}

/// The object in a field, if there is one.
pub(crate) fn object_mut<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

/// The object in a field, which is created where there is none.
pub(crate) fn object_in<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    set_nil(object, key, json!({}));
    object_mut(object, key)
}

/// The list in a field, which is created where there is none.
pub(super) fn list_in<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Vec<Value>> {
    set_nil(object, key, json!([]));
    object.get_mut(key).and_then(Value::as_array_mut)
}

/// The objects of the list in a field.
pub(crate) fn objects_in<'a>(object: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = object.get_mut(key).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}
