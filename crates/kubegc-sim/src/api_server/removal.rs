//! Final removal of objects, and the gap that the real server leaves before it.

use std::{fmt::Write, sync::Arc};

use kubegc_core::{KindId, Uid};

use super::{ApiServer, crd, kinds::Special, service, update::Written};
use crate::StoredObject;

/// An object whose last finalizer a write removed: the response reports it as deleted, but it is not yet
/// removed.
#[must_use = "the object stays until the removal is finished"]
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingRemoval {
    /// Kind of the object.
    pub kind: KindId,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid, if it is a precondition of the removal.
    pub uid: Option<Uid>,
}

impl ApiServer {
    /// Completes the removal that a write left pending, if any: see [`ApiServer::patch_leaving_removal`].
    ///
    /// Does nothing if the object was removed in the meantime. Returns whether an object was removed.
    ///
    /// # Upstream
    /// `Store.deleteWithoutFinalizers` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2: it
    /// expects no version, and after a PATCH no uid either, so it removes whichever object then has the name.
    pub fn finish_removal(&mut self, removal: PendingRemoval) -> bool {
        let PendingRemoval {
            kind,
            namespace,
            name,
            uid,
        } = removal;
        let Some(object) = self.object(kind, &namespace, &name).cloned() else {
            return false;
        };
        if uid.is_some_and(|uid| uid != object.meta.uid) {
            return false;
        }
        self.remove(kind, &object);
        true
    }

    /// Immediately removes an object whose last finalizer a write removed.
    pub(super) fn finish(&mut self, written: &Written) {
        if let Some(removal) = &written.removal {
            self.finish_removal(removal.clone());
        }
    }

    /// Removes an object, and what the server itself removes with it.
    pub(super) fn remove(&mut self, kind: KindId, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        let last = self.commit_deletion(kind, object);
        self.forget_webhooks(kind, &object.meta);
        match self.shape.kinds[kind.index()].special {
            Special::CustomResourceDefinition => crd::withdraw(self, object),
            Special::Service => service::removed(self, &object.meta),
            Special::Namespace | Special::Pod | Special::None => {}
        }
        last
    }

    /// The key in etcd, as some error messages print it.
    pub(super) fn storage_key(&self, kind: KindId, namespace: &str, name: &str) -> String {
        let resource = self.resource(kind);
        let mut key = "/registry/".to_owned();
        // Writing to a String does not fail.
        let _infallible = match (&*resource.group, &*resource.resource) {
            (group, plural) if resource.custom => write!(key, "{group}/{plural}"),
            ("", "replicationcontrollers") => write!(key, "controllers"),
            ("", "endpoints") => write!(key, "services/endpoints"),
            ("", "services") => write!(key, "services/specs"),
            ("", "nodes") => write!(key, "minions"),
            (_, "ingresses") => write!(key, "ingress"),
            (_, "podsecuritypolicies") => write!(key, "podsecuritypolicy"),
            (_, plural) => write!(key, "{plural}"),
        };
        if !namespace.is_empty() {
            key.push('/');
            key.push_str(namespace);
        }
        key.push('/');
        key.push_str(name);
        key
    }
}
