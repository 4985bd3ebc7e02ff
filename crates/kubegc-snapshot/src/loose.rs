//! Reads an object again, from a tree, where the strict reading failed: what can be kept is kept, every other
//! field is named.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    item::{Flaw, Item, ListHead, Meta, Owner, Pairs, Text},
    soft::{Expected, Shape, Soft},
};

/// Reads an object; `None` if the value is no object at all.
pub(crate) fn item(value: &Value) -> Option<Item<'_>> {
    let object = value.as_object()?;
    let mut flaws = Flaws::default();
    let mut item = Item {
        api_version: flaws.text(object, "", "apiVersion"),
        kind: flaws.text(object, "", "kind"),
        has_items: object.contains_key("items"),
        ..Item::default()
    };
    item.meta = flaws.map(object, "", "metadata").map(|map| flaws.meta(map));
    let body = &mut item.body;
    body.spec = soft(object, "spec");
    body.status = soft(object, "status");
    body.object_type = soft(object, "type");
    body.data = soft(object, "data");
    body.string_data = soft(object, "stringData");
    body.secrets = soft(object, "secrets");
    body.revision = soft(object, "revision");
    item.take_annotations();
    item.flaws = flaws.0;
    Some(item)
}

/// Reads a field as the fast path does.
fn soft<'v, T: Expected<'v>>(map: &'v Map<String, Value>, name: &str) -> Soft<T> {
    let Some(value) = map.get(name) else {
        return Soft::Absent;
    };
    // A tree has each key once, and no other reason for the reading to fail.
    Soft::deserialize(value).unwrap_or(Soft::Wrong(Shape::of(value)))
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

/// The flaws found so far; each reading of a field adds its own.
#[derive(Default)]
struct Flaws(Vec<Flaw>);

impl Flaws {
    fn wrong<T>(&mut self, path: String, expected: &str, found: &Value) -> Option<T> {
        let problem = format!("expected {expected}, found {}", name_of(found));
        self.0.push(Flaw { field: path, problem });
        None
    }

    /// A field of the map, unless it is absent or null, as Go reads it.
    fn field<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
        map.get(name).filter(|value| !value.is_null())
    }

    fn text<'v>(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<Text<'v>> {
        let value = Self::field(map, name)?;
        self.as_text(value, || join(path, name))
    }

    fn as_text<'v>(&mut self, value: &'v Value, path: impl FnOnce() -> String) -> Option<Text<'v>> {
        match value {
            Value::String(text) => Some(Text(Cow::Borrowed(text))),
            other => self.wrong(path(), "a string", other),
        }
    }

    fn number(&mut self, map: &Map<String, Value>, path: &str, name: &str) -> Option<i64> {
        let value = Self::field(map, name)?;
        match value.as_i64() {
            Some(number) => Some(number),
            None => self.wrong(join(path, name), "a whole number", value),
        }
    }

    fn flag(&mut self, map: &Map<String, Value>, path: &str, name: &str) -> Option<bool> {
        let value = Self::field(map, name)?;
        match value.as_bool() {
            Some(flag) => Some(flag),
            None => self.wrong(join(path, name), "true or false", value),
        }
    }

    fn map<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        path: &str,
        name: &str,
    ) -> Option<&'v Map<String, Value>> {
        let value = Self::field(map, name)?;
        match value.as_object() {
            Some(map) => Some(map),
            None => self.wrong(join(path, name), "a map", value),
        }
    }

    fn list<'v>(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<&'v Vec<Value>> {
        let value = Self::field(map, name)?;
        match value.as_array() {
            Some(list) => Some(list),
            None => self.wrong(join(path, name), "a list", value),
        }
    }

    fn texts<'v>(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<Vec<Text<'v>>> {
        let list = self.list(map, path, name)?;
        let read = |(index, value): (usize, &'v Value)| self.as_text(value, || at(path, name, index));
        Some(list.iter().enumerate().filter_map(read).collect())
    }

    /// The entries of a list of maps, each with its path.
    fn maps<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        path: &str,
        name: &str,
    ) -> Option<Vec<(String, &'v Map<String, Value>)>> {
        let list = self.list(map, path, name)?;
        let read = |(index, value): (usize, &'v Value)| {
            let path = at(path, name, index);
            match value.as_object() {
                Some(map) => Some((path, map)),
                None => self.wrong(path, "a map", value),
            }
        };
        Some(list.iter().enumerate().filter_map(read).collect())
    }

    fn meta<'v>(&mut self, map: &'v Map<String, Value>) -> Meta<'v> {
        let path = "metadata";
        let owners = self.maps(map, path, "ownerReferences").map(|owners| {
            let read = |(path, owner): (String, &'v Map<String, Value>)| Owner {
                api_version: self.text(owner, &path, "apiVersion"),
                kind: self.text(owner, &path, "kind"),
                name: self.text(owner, &path, "name"),
                uid: self.text(owner, &path, "uid"),
                controller: self.flag(owner, &path, "controller"),
                block_owner_deletion: self.flag(owner, &path, "blockOwnerDeletion"),
            };
            owners.into_iter().map(read).collect()
        });
        let labels = self.map(map, path, "labels").map(|labels| {
            let read = |(key, value): (&'v String, &'v Value)| {
                let key_text = Text(Cow::Borrowed(key.as_str()));
                let value = if value.is_null() {
                    Some(Text::default())
                } else {
                    self.as_text(value, || format!("metadata.labels[{key}]"))
                };
                value.map(|value| (key_text, value))
            };
            Pairs(labels.iter().filter_map(read).collect())
        });
        Meta {
            namespace: self.text(map, path, "namespace"),
            name: self.text(map, path, "name"),
            uid: self.text(map, path, "uid"),
            resource_version: self.text(map, path, "resourceVersion"),
            generation: self.number(map, path, "generation"),
            creation_timestamp: self.text(map, path, "creationTimestamp"),
            deletion_timestamp: self.text(map, path, "deletionTimestamp"),
            deletion_grace_period_seconds: self.number(map, path, "deletionGracePeriodSeconds"),
            finalizers: self.texts(map, path, "finalizers"),
            owner_references: owners,
            labels,
            annotations: soft(map, "annotations"),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn at(path: &str, name: &str, index: usize) -> String {
    format!("{path}.{name}[{index}]")
}

/// The type of a value, in words.
pub(crate) fn name_of(value: &Value) -> &'static str {
    Shape::of(value).name()
}
