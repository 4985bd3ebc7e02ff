//! Reads an object again, from a tree, where the strict reading failed: what can be kept is kept, every other field is named.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::item::{
    Condition, Flaw, Item, ListHead, Meta, Names, Owner, Pairs, Spec, Status, Text, Version, has_details,
};

/// Reads an object; `None` where the value is no object at all.
pub(crate) fn item(value: &Value) -> Option<Item<'static>> {
    let object = value.as_object()?;
    let mut flaws = Flaws::default();
    let mut item = Item {
        api_version: flaws.text(object, "", "apiVersion"),
        kind: flaws.text(object, "", "kind"),
        has_items: object.get("items").is_some_and(|items| !items.is_null()),
        ..Item::default()
    };
    item.meta = flaws.map(object, "", "metadata").map(|map| flaws.meta(map));
    if has_details(item.kind_str()) {
        item.spec = flaws.map(object, "", "spec").map(|map| flaws.spec(map));
        item.status = flaws.map(object, "", "status").map(|map| flaws.status(map));
    }
    item.flaws = flaws.0;
    Some(item)
}

/// Reads what a list says beside its items.
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

    fn text(&mut self, map: &Map<String, Value>, path: &str, name: &str) -> Option<Text<'static>> {
        let value = Self::field(map, name)?;
        self.as_text(value, || join(path, name))
    }

    fn as_text(&mut self, value: &Value, path: impl FnOnce() -> String) -> Option<Text<'static>> {
        match value {
            Value::String(text) => Some(Text(Cow::Owned(text.clone()))),
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

    fn texts(&mut self, map: &Map<String, Value>, path: &str, name: &str) -> Option<Vec<Text<'static>>> {
        let list = self.list(map, path, name)?;
        let read = |(index, value): (usize, &Value)| self.as_text(value, || at(path, name, index));
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

    fn meta(&mut self, map: &Map<String, Value>) -> Meta<'static> {
        let path = "metadata";
        let owners = self.maps(map, path, "ownerReferences").map(|owners| {
            let read = |(path, owner): (String, &Map<String, Value>)| Owner {
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
            let read = |(key, value): (&String, &Value)| {
                let key_text = Text(Cow::Owned(key.clone()));
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
        }
    }

    fn spec(&mut self, map: &Map<String, Value>) -> Spec<'static> {
        let path = "spec";
        let names = self.map(map, path, "names").map(|names| Names {
            plural: self.text(names, "spec.names", "plural"),
            kind: self.text(names, "spec.names", "kind"),
            short_names: self.texts(names, "spec.names", "shortNames"),
        });
        let versions = self.maps(map, path, "versions").map(|versions| {
            let read = |(path, version): (String, &Map<String, Value>)| Version {
                name: self.text(version, &path, "name"),
                served: self.flag(version, &path, "served"),
                storage: self.flag(version, &path, "storage"),
            };
            versions.into_iter().map(read).collect()
        });
        Spec {
            node_name: self.text(map, path, "nodeName"),
            termination_grace_period_seconds: self.number(map, path, "terminationGracePeriodSeconds"),
            finalizers: self.texts(map, path, "finalizers"),
            group: self.text(map, path, "group"),
            scope: self.text(map, path, "scope"),
            names,
            version: self.text(map, path, "version"),
            versions,
        }
    }

    fn status(&mut self, map: &Map<String, Value>) -> Status<'static> {
        let path = "status";
        let conditions = self.maps(map, path, "conditions").map(|conditions| {
            let read = |(path, condition): (String, &Map<String, Value>)| Condition {
                kind: self.text(condition, &path, "type"),
                status: self.text(condition, &path, "status"),
            };
            conditions.into_iter().map(read).collect()
        });
        Status {
            phase: self.text(map, path, "phase"),
            stored_versions: self.texts(map, path, "storedVersions"),
            conditions,
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

/// What a value is, in words.
pub(crate) fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
