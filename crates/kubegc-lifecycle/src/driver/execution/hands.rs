//! Makes single reads and calls, and never a write of another object than the one that is meant.

use std::{fmt, sync::Arc};

use kubegc_core::{
    ObjectMeta, ObjectStore, Preconditions, ResourceVersion, StoreError, Uid,
    store::{Address, Discovered},
};

use super::super::{Documents, Event, Operated, Outside, Resources};
use crate::{
    controller::Basis,
    fields::{Fields, Record},
    object::{Call, Change, Form, Object, Operation, Resource, Wire},
    volume::external::Guard,
};

/// What tasks are carried out with.
#[expect(clippy::exhaustive_structs, reason = "drivers set every field")]
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    /// The API server.
    pub store: &'a dyn ObjectStore,
    /// Reads and changes whole objects.
    pub documents: &'a dyn Documents,
    /// Whoever else is asked.
    pub outside: &'a dyn Outside,
    /// How resources are addressed.
    pub resources: &'a Resources,
    /// What was discovered: what namespaces are emptied of, where that is not asked for anew.
    pub discovered: &'a Discovered,
    /// How much of what is expected goes over the wire.
    pub wire: Wire,
    /// Whether what tasks rest on is read again first, what is served is asked for at every visit of a namespace, and what was not known may be known later.
    /// Off only where nothing can have changed since it was listed, as in a forecast.
    pub verifies: bool,
}

impl fmt::Debug for Hands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands")
            .field("wire", &self.wire)
            .field("verifies", &self.verifies)
            .finish_non_exhaustive()
    }
}

/// What came of one call.
pub(super) enum Attempt {
    /// There was nothing to be changed any more.
    Unneeded,
    /// It was made.
    Made(Result<(), StoreError>),
    /// It was not made: a read before it failed, or found something else ([`StoreError::Conflict`]).
    NotMade(StoreError),
    /// Somebody outside was asked.
    Operated(Operated),
    /// Nobody was asked, because of the guard.
    Guarded(Guard),
}

/// What a read before a task found.
pub(super) enum Verdict {
    Holds,
    Changed,
    Failed(StoreError),
}

impl<'a> Hands<'a> {
    fn address(&self, object: &'a Object) -> Result<Address<'a>, StoreError> {
        Ok(Address {
            resource: self.resources.find(object.resource)?,
            namespace: &object.namespace,
            name: &object.name,
        })
    }

    /// Reads a whole object of this name, live.
    pub(super) async fn read(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(Vec<u8>, Record), StoreError> {
        let address = Address {
            resource: self.resources.find(resource)?,
            namespace,
            name,
        };
        let document = self.store.get_object(address).await?;
        let record = self.documents.read(resource, &document);
        let record = record.map_err(|error| StoreError::Invalid {
            message: format!("{} {name} cannot be read: {error}", resource.kind()),
        })?;
        Ok((document, record))
    }

    /// Reads an object, live, and makes sure that it is the one that is meant, as it is expected.
    async fn read_expected(
        &self,
        object: &Object,
        expect: &Preconditions,
    ) -> Result<(Vec<u8>, Record), StoreError> {
        let read = self
            .read(object.resource, &object.namespace, &object.name)
            .await?;
        let meta = &read.1.meta;
        let is_meant = meta.uid == object.uid && expect.uid.as_ref().is_none_or(|uid| *uid == meta.uid);
        let version = expect.resource_version.as_ref();
        if is_meant && version.is_none_or(|version| *version == meta.resource_version) {
            Ok(read)
        } else {
            Err(changed(object))
        }
    }

    /// Makes one call. `is_guarded`: whoever guards the object is asked before it is handed to somebody outside.
    pub(super) async fn make(&self, call: &'a Call, is_guarded: bool) -> Attempt {
        match call {
            Call::Delete { object, options } => {
                let address = match self.address(object) {
                    Ok(address) => address,
                    Err(error) => return Attempt::NotMade(error),
                };
                let deleted = self.store.delete(address, options).await;
                Attempt::Made(deleted.map(|_| ()))
            }
            Call::Change {
                object,
                subresource,
                form,
                expect,
                changes,
            } => self.change(object, subresource, *form, expect, changes).await,
            Call::Event {
                object,
                is_warning,
                reason,
                message,
            } => {
                let event = Event {
                    object: object.clone(),
                    is_warning: *is_warning,
                    reason,
                    message: message.clone(),
                };
                Attempt::Made(self.outside.publish(&event).await)
            }
            Call::Outside {
                object,
                expect,
                operation,
            } => self.operate(object, expect, *operation, is_guarded).await,
        }
    }

    async fn change(
        &self,
        object: &'a Object,
        subresource: &str,
        form: Form,
        expect: &Preconditions,
        changes: &[Change],
    ) -> Attempt {
        let document = match self.read_expected(object, expect).await {
            Ok((document, _)) => document,
            Err(error) => return Attempt::NotMade(error),
        };
        let patch = self.documents.patch(form, expect, changes, &document);
        let (format, body) = match patch {
            Ok(patch) => patch,
            Err(error) => {
                let message = format!("{object} cannot be changed: {error}");
                return Attempt::NotMade(StoreError::Invalid { message });
            }
        };
        if body.is_empty() {
            return Attempt::Unneeded;
        }
        let address = match self.address(object) {
            Ok(address) => address,
            Err(error) => return Attempt::NotMade(error),
        };
        let written = if subresource.is_empty() {
            self.store.patch(address, format, &body).await
        } else {
            let store = self.store;
            store.patch_subresource(address, subresource, format, &body).await
        };
        Attempt::Made(written.map(|_| ()))
    }

    async fn operate(
        &self,
        object: &Object,
        expect: &Preconditions,
        operation: Operation,
        is_guarded: bool,
    ) -> Attempt {
        let document = match self.read_expected(object, expect).await {
            Ok((document, _)) => document,
            Err(error) => return Attempt::NotMade(error),
        };
        if is_guarded {
            match self.outside.may_delete(object, &document).await {
                Guard::Allows => {}
                guard @ (Guard::Unknown | Guard::Forbids) => return Attempt::Guarded(guard),
            }
        }
        Attempt::Operated(self.outside.operate(object, &document, operation).await)
    }

    /// Whether something that was listed is still so.
    pub(super) async fn verify(&self, basis: &Basis) -> Verdict {
        match basis {
            Basis::Same {
                object,
                resource_version,
            } => {
                // A version that was not read cannot be compared.
                let is_same = |meta: &ObjectMeta| {
                    let is_version =
                        resource_version.is_empty() || meta.resource_version == *resource_version;
                    meta.uid == object.uid && is_version
                };
                let Object {
                    resource,
                    namespace,
                    name,
                    ..
                } = object;
                match self.meta(*resource, namespace, name).await {
                    Ok(meta) if is_same(&meta) => Verdict::Holds,
                    Ok(_) | Err(StoreError::NotFound) => Verdict::Changed,
                    Err(error) => Verdict::Failed(error),
                }
            }
            Basis::Absent {
                resource,
                namespace,
                name,
            } => match self.meta(*resource, namespace, name).await {
                Ok(_) => Verdict::Changed,
                Err(StoreError::NotFound) => Verdict::Holds,
                Err(error) => Verdict::Failed(error),
            },
            Basis::PodsAre {
                namespace,
                claim,
                pods,
            } => self.verify_pods(namespace, claim, pods).await,
        }
    }

    /// Whether no pod mentions a claim that was not known to be harmless. Each claim takes a list of its own: upstream's is shared by the claims of one batch.
    async fn verify_pods(
        &self,
        namespace: &Arc<str>,
        claim: &str,
        pods: &[(Arc<str>, Uid, ResourceVersion)],
    ) -> Verdict {
        let resource = match self.resources.find(Resource::Pods) {
            Ok(resource) => resource,
            Err(error) => return Verdict::Failed(error),
        };
        let list = match self.store.list(resource, Some(namespace)).await {
            Ok(list) => list,
            Err(error) => return Verdict::Failed(error),
        };
        let is_listed = |found: &ObjectMeta| {
            let at = pods.binary_search_by(|(name, ..)| name.cmp(&found.name));
            at.is_ok_and(|at| {
                let (_, uid, version) = &pods[at];
                found.uid == *uid && found.resource_version == *version
            })
        };
        for found in list.items.iter().filter(|found| !is_listed(found)) {
            let record = match self.read(Resource::Pods, namespace, &found.name).await {
                Ok((_, record)) => record,
                Err(StoreError::NotFound) => continue,
                Err(error) => return Verdict::Failed(error),
            };
            let mentions = match &record.fields {
                Fields::Pod(pod) => pod.mentions_claim(&record.meta.name, claim),
                _ => None,
            };
            if mentions != Some(false) {
                return Verdict::Changed;
            }
        }
        Verdict::Holds
    }

    async fn meta(&self, resource: Resource, namespace: &str, name: &str) -> Result<ObjectMeta, StoreError> {
        let address = Address {
            resource: self.resources.find(resource)?,
            namespace,
            name,
        };
        self.store.get(address).await
    }
}

fn changed(object: &Object) -> StoreError {
    StoreError::Conflict {
        message: format!("{object} has changed"),
    }
}
