//! Field ownership after writes other than applies, and its place in an object.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use kubegc_core::{Behavior, KindId, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    dialect::Dialect,
    field_set::Element,
    managed::{self, Manager, Managers, Operation},
};
use crate::{
    StoredObject,
    api_server::{ApiServer, crd, kinds::Shape, update::Part},
};

/// Fields of every object have managers from its creation on.
const ALL_ARE_TRACKED: Behavior = Behavior::since(18, 0, "kubernetes #88209");
/// Managers are distinguished by the subresource that they write.
const SUBRESOURCES_ARE_MANAGERS: Behavior = Behavior::since(22, 0, "kubernetes #100970");

impl ApiServer {
    /// The object's `managedFields` after a write other than an apply. `sent` is the object as it was sent,
    /// or as it is to be stored; `existing` is `None` for an object that is created. They are empty if the
    /// object had none and not all objects have them, or if the write removes them.
    pub(in crate::api_server) fn tracked(
        &self,
        kind: KindId,
        existing: Option<&Arc<StoredObject>>,
        sent: &StoredObject,
        part: Part,
    ) -> ManagedFields {
        let live = existing.map_or(&ManagedFields::NONE, |existing| &existing.managers);
        // Writes to a subresource do not edit them.
        let is_edited = part == Part::Whole && !sent.managers.is(live);
        let begins = existing.is_none() && self.settings.types && self.version.has(ALL_ARE_TRACKED);
        if live.0.is_none() && sent.managers.0.is_none() && !begins {
            return ManagedFields::NONE;
        }
        // Reading the list computes it.
        let edited = if is_edited { sent.managers.list() } else { None };
        if edited.is_some_and(managed::is_reset) {
            return ManagedFields::NONE;
        }
        if live.pending_writes() >= PENDING_WRITES_MAX {
            live.list();
        }
        ManagedFields::after(Write {
            existing: existing.cloned(),
            edited: edited.cloned(),
            sent: sent.clone(),
            begins,
            kind,
            shape: Arc::clone(&self.shape),
            definition: self.definition(kind).cloned(),
            dialect: self.dialect(),
            manager: Arc::clone(&self.field_manager),
            subresource: self.subresource_of_manager(part),
            time: self.now.truncate_to_secs(),
        })
    }

    /// The subresource that is part of the identity of a write's manager.
    pub(super) fn subresource_of_manager(&self, part: Part) -> &'static str {
        if self.version.has(SUBRESOURCES_ARE_MANAGERS) {
            part.subresource()
        } else {
            ""
        }
    }

    /// Whether ownership follows the object as it was sent, including the parts that the write cannot change.
    pub(in crate::api_server) fn tracks_sent_fields(&self) -> bool {
        self.settings.types && !self.version.has(SUBRESOURCES_ARE_MANAGERS)
    }
}

/// Removes from a comparison the fields that no manager can own.
pub(super) fn strip_all(comparison: &mut Comparison) {
    for fields in [
        &mut comparison.added,
        &mut comparison.modified,
        &mut comparison.removed,
    ] {
        managed::strip(fields);
    }
}

/// Removes the managers from an object in its JSON form and returns them; `None` where it has none.
pub(super) fn take_managers(object: &mut Value) -> Option<Managers> {
    let list = object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")?;
    Managers::read(&list).filter(|managers| !managers.is_empty())
}

/// `metadata.managedFields` of an object; may be empty. After a write other than an apply it is computed when
/// it is first read.
#[derive(Clone)]
pub(crate) struct ManagedFields(Option<Arc<Deferred>>);

struct Deferred {
    list: OnceLock<Value>,
    /// The write whose result the list is, until it is computed.
    write: Mutex<Option<Box<Write>>>,
    /// The number of successive writes whose lists are not computed, if none of them was since.
    pending_writes: u32,
}

/// The maximum number of successive writes whose lists are not computed: bounds memory and recursion.
const PENDING_WRITES_MAX: u32 = 16;

/// A write that changes the managers of an object.
struct Write {
    existing: Option<Arc<StoredObject>>,
    /// The list that the client sent, if it may differ from the stored one.
    edited: Option<Value>,
    sent: StoredObject,
    /// Whether the object gets managers even if it had none.
    begins: bool,
    kind: KindId,
    shape: Arc<Shape>,
    definition: Option<Arc<StoredObject>>,
    dialect: Dialect,
    manager: Arc<str>,
    subresource: &'static str,
    time: Timestamp,
}

impl ManagedFields {
    /// No managers.
    pub(crate) const NONE: Self = Self(None);

    /// The managers of this list.
    pub(crate) fn of(list: Value) -> Self {
        if is_empty(&list) {
            return Self::NONE;
        }
        Self(Some(Arc::new(Deferred {
            list: list.into(),
            write: Mutex::default(),
            pending_writes: 0,
        })))
    }

    fn after(write: Write) -> Self {
        let before = write.existing.as_ref();
        let pending_writes = 1 + before.map_or(0, |existing| existing.managers.pending_writes());
        Self(Some(Arc::new(Deferred {
            list: OnceLock::new(),
            write: Mutex::new(Some(Box::new(write))),
            pending_writes,
        })))
    }

    /// The list; `None` if it is empty.
    pub(crate) fn list(&self) -> Option<&Value> {
        let deferred = self.0.as_deref()?;
        let list = deferred.list.get_or_init(|| {
            let write = deferred.write.lock().take();
            write.map(|write| write.managers()).unwrap_or_default()
        });
        Some(list).filter(|list| !is_empty(list))
    }

    fn pending_writes(&self) -> u32 {
        let pending = self.0.as_ref().filter(|deferred| deferred.list.get().is_none());
        pending.map_or(0, |deferred| deferred.pending_writes)
    }

    /// Whether both are the same list in memory.
    fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

fn is_empty(list: &Value) -> bool {
    list.is_null() || list.as_array().is_some_and(Vec::is_empty)
}

impl PartialEq for ManagedFields {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || self.list() == other.list()
    }
}

impl Eq for ManagedFields {}

impl fmt::Debug for ManagedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list().fmt(f)
    }
}

impl Write {
    /// The list after the write.
    fn managers(&self) -> Value {
        let read = |list: Option<&Value>| list.and_then(Managers::read).filter(|read| !read.is_empty());
        let existing = self.existing.as_deref();
        let live = existing.and_then(|existing| existing.managers.list());
        let mut managers = match read(self.edited.as_ref()).or_else(|| read(live)) {
            Some(managers) => managers,
            None if self.begins => Managers::default(),
            None => return Value::Null,
        };
        let resource = &self.shape.catalog[self.kind];
        let types = crd::node(resource, self.definition.as_deref());
        let json = |object: &StoredObject| object.to_json_without_managers(resource);
        let before = existing.map_or_else(|| serde_json::json!({}), json);
        if existing.is_some() {
            managers.follow_schema(&before, types, self.dialect);
        }
        let after = json(&self.sent);
        let mut comparison = compare(&before, &after, types, self.dialect);
        strip_all(&mut comparison);
        if !comparison.is_empty() {
            managers.follow(None, &comparison);
            let manager = Manager {
                name: self.manager.to_string(),
                operation: Operation::Update,
                api_version: resource.api_version(),
                subresource: self.subresource.to_owned(),
            };
            let mut taken = comparison.added;
            taken.add(&comparison.modified);
            managers.give(&manager, &taken, &self.time.to_string());
        }
        if self.subresource == Part::Scale.subresource() {
            let definition = self.definition.as_deref();
            let scale = definition.and_then(|definition| crd::scale(definition, &resource.version));
            let path = scale.and_then(|scale| scale.get("specReplicasPath")?.as_str());
            let steps = path.unwrap_or("spec.replicas").split('.');
            let steps: Vec<Element> = steps
                .filter(|step| !step.is_empty())
                .map(Element::field)
                .collect();
            managers.pass_through_scale(&steps);
        }
        managers.to_json()
    }
}
