//! Objects of clusters as JSON, cases in text files, and captured logs, for the tests of this workspace.
//!
//! Every object has the metadata that an API server sets, so that a test writes only what it is about. Uids
//! are derived from kind and name, so that owner references need no lookup.
//!
//! # Examples
//! ```
//! use kubegc_fixtures::{Fixture, owned_by};
//! use serde_json::json;
//!
//! let mut shop = Fixture::default();
//! shop.add("apps/v1", "ReplicaSet", "shop", "web", json!({ "spec": { "replicas": 1 } }));
//! shop.add("v1", "Pod", "shop", "web-0", owned_by("apps/v1", "ReplicaSet", "web"));
//! assert_eq!(shop.list()["items"][1]["metadata"]["ownerReferences"][0]["uid"], "replicaset-web");
//! ```

mod logs;
mod transcript;

use serde_json::{Value, json};

pub use self::{logs::Logs, transcript::check_transcript};

/// The creation time of every object, unless a test sets another one.
pub const CREATED: &str = "2026-05-01T00:00:00Z";

/// The objects of a cluster, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Fixture {
    pub objects: Vec<Value>,
}

impl Fixture {
    /// Adds an [`object`]. Its resource version is its position, counted from 1.
    pub fn add(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        rest: Value,
    ) -> &mut Self {
        let mut object = object(api_version, kind, namespace, name, json!({}));
        object["metadata"]["resourceVersion"] = (self.objects.len() + 1).to_string().into();
        merge(&mut object, rest);
        self.objects.push(object);
        self
    }

    /// Merges fields into the object that was added last.
    ///
    /// # Panics
    /// No object was added.
    pub fn change_last(&mut self, rest: Value) -> &mut Self {
        merge(self.objects.last_mut().expect("an object was added"), rest);
        self
    }

    /// The objects as `kubectl get -o json` prints them.
    pub fn list(&self) -> Value {
        json!({ "apiVersion": "v1", "kind": "List", "items": self.objects })
    }
}

/// An object with name, uid, resource version and creation time, into which `rest` is merged. An empty
/// namespace makes it cluster-scoped.
pub fn object(api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name, "uid": uid(kind, name), "resourceVersion": "1", "creationTimestamp": CREATED },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    merge(&mut object, rest);
    object
}

/// The uid of an object: kind and name in lower case.
pub fn uid(kind: &str, name: &str) -> String {
    format!("{kind}-{name}").to_lowercase()
}

/// One owner reference.
pub fn owner(api_version: &str, kind: &str, name: &str, is_controller: bool) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid(kind, name),
        "controller": is_controller,
        "blockOwnerDeletion": is_controller,
    })
}

/// Metadata with one controller reference, to be merged into an object.
pub fn owned_by(api_version: &str, kind: &str, name: &str) -> Value {
    json!({ "metadata": { "ownerReferences": [owner(api_version, kind, name, true)] } })
}

/// Merges maps key by key; any other value replaces the one that was there.
pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
