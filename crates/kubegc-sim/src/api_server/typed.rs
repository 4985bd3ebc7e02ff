//! Writes of objects that have types: what is prepared, refused and allocated beside the generic rules.

use std::sync::Arc;

use kubegc_core::KindId;
use serde_json::{Value, json};

use super::{ApiServer, update::Part};
use crate::{
    StoredObject,
    status::{self, Refusal},
    types::{self, admission, prepare, service, validate},
};

impl ApiServer {
    /// Lets the admission plugins complete an object that is created, or that is to replace `old`.
    pub(super) fn complete(
        &self,
        kind: KindId,
        object: &mut StoredObject,
        old: Option<&StoredObject>,
    ) -> Result<(), Refusal> {
        admission::complete(self, self.resource(kind), object, old)
    }

    /// Brings an object that is created in the form that is validated.
    pub(super) fn prepare_created(&self, kind: KindId, object: &mut StoredObject) -> Result<(), Refusal> {
        let resource = self.resource(kind);
        prepare::create(object, &resource.kind, self.version);
        if &*resource.kind == "Service" {
            service::prepare(object, None, self.version);
        }
        self.normalized(kind, object)?;
        if matches!(&*resource.kind, "PersistentVolume" | "PersistentVolumeClaim") {
            // The first write to a volume or a claim is stored even where it changes nothing. That of admission's finalizer makes
            // no difference to what is shown.
            let metadata = object.body_mut().entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("finalizers".to_owned(), Value::Null);
            }
        }
        Ok(())
    }

    /// Brings an object that is to replace `old` in the form that is validated.
    pub(super) fn prepare_updated(
        &self,
        kind: KindId,
        old: &Arc<StoredObject>,
        new: &mut StoredObject,
        part: Part,
    ) -> Result<(), Refusal> {
        let resource = self.resource(kind);
        if part == Part::Whole {
            self.complete(kind, new, Some(old))?;
        }
        prepare::update(new, old, &resource.kind, self.version);
        if &*resource.kind == "Service" && part == Part::Whole {
            service::prepare(new, Some(old), self.version);
        }
        self.normalized(kind, new)?;
        if part.counts() {
            prepare::count(new, old, &resource.kind, self.version);
        }
        Ok(())
    }

    /// Whether a write is stored even where it changes nothing: conversion changes events that were written in another group, and
    /// structured merges the form of empty bytes.
    pub(super) fn is_always_stored(&self, kind: KindId, object: &StoredObject, is_applied: bool) -> bool {
        let resource = self.resource(kind);
        if self.schema(kind).is_none() {
            return false;
        }
        match &*resource.kind {
            "Secret" if is_applied => {
                let data = object.at(&["data"]).and_then(Value::as_object);
                data.is_some_and(|data| data.values().any(|value| *value == ""))
            }
            "Event" => {
                let version = resource.api_version();
                let managers = object
                    .at(&["metadata", "managedFields"])
                    .and_then(Value::as_array);
                managers
                    .is_some_and(|managers| managers.iter().all(|manager| manager["apiVersion"] != *version))
            }
            _ => false,
        }
    }

    fn normalized(&self, kind: KindId, object: &mut StoredObject) -> Result<(), Refusal> {
        types::normalize(object, self.resource(kind), self.version).map_err(status::bad_request)
    }

    /// Refuses an object that is created, where an admission plugin does.
    pub(super) fn refuse_created(&self, kind: KindId, object: &StoredObject) -> Result<(), Refusal> {
        admission::refuse(self, self.resource(kind), object)
    }

    /// Refuses an object that is to replace `old`, where an admission plugin does.
    pub(super) fn refuse_updated(
        &self,
        kind: KindId,
        new: &StoredObject,
        old: &StoredObject,
    ) -> Result<(), Refusal> {
        admission::refuse_change(self, self.resource(kind), new, old)
    }

    /// Allocates the addresses and ports of a service.
    pub(super) fn allocate(
        &self,
        kind: KindId,
        object: &mut StoredObject,
        old: Option<&StoredObject>,
    ) -> Result<(), Refusal> {
        if &*self.resource(kind).kind == "Service" {
            let taken = self.objects(kind, None);
            let invalid = |causes, object: &StoredObject| {
                status::invalid(self.resource(kind), &object.meta.name, causes)
            };
            service::allocate(&taken, object, old, self.version).map_err(|causes| invalid(causes, object))?;
            let causes = validate::allocated(object, self.version);
            if !causes.is_empty() {
                return Err(invalid(causes, object));
            }
        }
        Ok(())
    }
}
