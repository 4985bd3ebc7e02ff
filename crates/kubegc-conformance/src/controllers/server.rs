//! The recorder's API server: whole objects in memory, without admission, validation or defaults, and with
//! injected faults.

use std::collections::BTreeMap;

use kubegc_core::{StoreError, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

/// The objects of a case's field.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a field; empty where there is none.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// One request as it is sent. The fields are those of a recorded action.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) options: Value,
    pub(super) patch_type: String,
    pub(super) patch: String,
    pub(super) body: Value,
}

impl Call {
    pub(super) fn place(&self) -> Place {
        (self.full_resource(), self.namespace.clone(), self.name.clone())
    }

    /// `pods`, `jobs.batch`.
    pub(super) fn full_resource(&self) -> String {
        full_resource(&self.group, &self.resource)
    }

    fn refuse(&self, code: u16) -> Refusal {
        let (resource, name, verb) = (self.full_resource(), &self.name, &self.verb);
        let message = match code {
            403 => format!("{} {name:?} is forbidden: injected", resource),
            404 => format!("{resource} {name:?} not found"),
            405 => format!("{verb} is not supported on resources of kind {:?}", resource),
            409 => format!("Operation cannot be fulfilled on {resource} {name:?}: conflict"),
            _ => "injected".to_owned(),
        };
        Refusal { code, message }
    }

    pub(super) fn patched(&self, object: &Value) -> Value {
        let patch: Value = serde_json::from_str(&self.patch).unwrap_or_default();
        let mut object = object.clone();
        merge(&mut object, &patch, self.patch_type.contains("strategic"));
        object
    }
}

/// The name of a resource in messages: `pods`, `jobs.batch`.
pub(super) fn full_resource(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

/// Resource with group, namespace, name.
pub(super) type Place = (String, String, String);

/// The place of an object.
pub(super) fn place(group: &str, resource: &str, object: &Value) -> Place {
    let [namespace, name] = ["namespace", "name"].map(|key| text(&object["metadata"], key).to_owned());
    (full_resource(group, resource), namespace, name)
}

#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) message: String,
}

impl Refusal {
    /// The error as a driver reports it to a controller.
    pub(super) fn error(&self) -> StoreError {
        StoreError::from_status(self.code, self.message.clone(), None)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Fault {
    verb: String,
    resource: String,
    subresource: String,
    name: Option<String>,
    code: u16,
    skip: u32,
    times: u32,
    before: Value,
}

impl Fault {
    fn matches(&self, call: &Call) -> bool {
        self.verb == call.verb
            && self.resource == call.resource
            && self.subresource == call.subresource
            && self.name.as_ref().is_none_or(|name| *name == call.name)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) objects: BTreeMap<Place, Value>,
    faults: Vec<Fault>,
    version: u64,
    pub(super) now: Timestamp,
}

impl Server {
    pub(super) fn inject(&mut self, faults: &Value) -> Result<(), serde_json::Error> {
        self.faults = Option::<Vec<Fault>>::deserialize(faults)?.unwrap_or_default();
        Ok(())
    }

    pub(super) fn put(&mut self, group: &str, resource: &str, object: &Value) {
        let place = place(group, resource, object);
        let mut object = object.clone();
        if text(&object["metadata"], "resourceVersion").is_empty() {
            object["metadata"]["resourceVersion"] = self.next_version();
        }
        self.objects.insert(place, object);
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        (1000 + self.version).to_string().into()
    }

    /// Performs one request. Returns an object, a list, or null.
    pub(super) fn handle(&mut self, call: &Call) -> Result<Value, Refusal> {
        if let Some(fault) = self
            .faults
            .iter_mut()
            .find(|fault| fault.times > 0 && fault.matches(call))
        {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else {
                fault.times -= 1;
                let (code, before) = (fault.code, std::mem::take(&mut fault.before));
                if !before.is_null() {
                    self.put(&call.group, &call.resource, &before);
                }
                if code != 0 {
                    return Err(call.refuse(code));
                }
            }
        }
        let place = call.place();
        if matches!(&*call.verb, "list" | "deletecollection") {
            let is_in = |at: &Place| at.0 == place.0 && at.1 == place.1;
            let places: Vec<Place> = self.objects.keys().filter(|at| is_in(at)).cloned().collect();
            if call.verb == "list" {
                return Ok(places.iter().map(|at| self.objects[at].clone()).collect());
            }
            for place in places {
                self.delete(&place);
            }
            return Ok(Value::Null);
        }
        let Some(stored) = self.objects.get(&place).cloned() else {
            return Err(call.refuse(404));
        };
        let (guard, changed) = match &*call.verb {
            "get" => return Ok(stored),
            "update" => (call.body["metadata"].clone(), Some(call.body.clone())),
            "patch" => {
                let patch: Value = serde_json::from_str(&call.patch).unwrap_or_default();
                (patch["metadata"].clone(), Some(call.patched(&stored)))
            }
            _ => (call.options["preconditions"].clone(), None),
        };
        if !is_expected(&guard, &stored) {
            return Err(call.refuse(409));
        }
        match changed {
            Some(mut object) => {
                let had_finalizers = has_finalizers(&stored);
                if call.subresource == "finalize" {
                    let spec = std::mem::replace(&mut object, stored)["spec"].take();
                    object["spec"] = spec;
                }
                object["metadata"]["resourceVersion"] = self.next_version();
                let is_removed = !object["metadata"]["deletionTimestamp"].is_null()
                    && had_finalizers
                    && !has_finalizers(&object)
                    && call.resource != "namespaces";
                if is_removed {
                    self.objects.remove(&place);
                } else {
                    self.objects.insert(place, object.clone());
                }
                Ok(object)
            }
            None => {
                self.delete(&place);
                Ok(Value::Null)
            }
        }
    }

    /// Removes an object, or marks it as terminating if a finalizer or its grace period keeps it.
    fn delete(&mut self, place: &Place) {
        let Some(mut object) = self.objects.remove(place) else {
            return;
        };
        if !has_finalizers(&object) && object.get(STAYS).is_none() {
            return;
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = self.now.truncate_to_secs().to_string().into();
            object["metadata"]["resourceVersion"] = self.next_version();
        }
        self.objects.insert(place.clone(), object);
    }
}

/// Whether an object has the expected uid and version, if they are given.
pub(super) fn is_expected(guard: &Value, object: &Value) -> bool {
    ["uid", "resourceVersion"].into_iter().all(|key| {
        let expected = text(guard, key);
        expected.is_empty() || object["metadata"][key] == *expected
    })
}

fn has_finalizers(object: &Value) -> bool {
    !list(&object["metadata"]["finalizers"]).is_empty()
}

/// A key of stored objects that a delete only marks as terminating, like pods in their grace period.
pub(super) const STAYS: &str = "stays when deleted";

/// RFC 7396, or a strategic merge patch whose only lists with a merge key are conditions, owner references
/// and finalizers. Recursive: a JSON text has at most 128 levels.
fn merge(target: &mut Value, patch: &Value, is_strategic: bool) {
    let Value::Object(patch) = patch else {
        return target.clone_from(patch);
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch
        .iter()
        .filter(|(key, _)| !is_strategic || !key.starts_with('$'))
    {
        let merge_key = match &**key {
            "conditions" => "type",
            "ownerReferences" => "uid",
            _ => "",
        };
        match value {
            Value::Null => drop(target.as_object_mut().and_then(|fields| fields.remove(key))),
            Value::Array(entries) if is_strategic && !merge_key.is_empty() => {
                merge_list(&mut target[key], entries, merge_key);
            }
            value => merge(&mut target[key], value, is_strategic),
        }
    }
}

fn merge_list(list: &mut Value, entries: &[Value], key: &str) {
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    for entry in entries {
        let known = list.iter_mut().find(|known| known[key] == entry[key]);
        match (known, entry.as_object()) {
            (_, Some(fields)) if fields.get("$patch").is_some_and(|patch| patch == "delete") => {
                list.retain(|known| known[key] != entry[key]);
            }
            (Some(Value::Object(known)), Some(fields)) => known.extend(fields.clone()),
            _ => list.push(entry.clone()),
        }
        if let Some(Value::Object(fields)) = list.iter_mut().find(|known| known[key] == entry[key]) {
            fields.retain(|_, value| !value.is_null());
        }
    }
}

/// The object without nulls, empty lists and maps, kind and version.
pub(super) fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        for key in ["apiVersion", "kind", STAYS] {
            fields.remove(key);
        }
    }
    strip(&mut object, 0);
    object
}

/// Objects of the API are less deep.
const DEPTH_MAX: usize = 64;

fn strip(value: &mut Value, depth: usize) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(list) => list.iter_mut().for_each(|entry| strip(entry, depth + 1)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                // Empty values of these are not the same as none.
                if !matches!(&**key, "annotations" | "labels" | "data") {
                    strip(field, depth + 1);
                }
            }
            fields.retain(|_, field| !is_empty(field));
        }
        _ => {}
    }
}

/// Marks an object that a delete does not remove.
pub(super) fn staying(object: &Value) -> Value {
    let mut object = object.clone();
    object[STAYS] = true.into();
    object
}
