//! Final removal of objects.

use std::{fmt::Write, sync::Arc};

use kubegc_core::{KindId, Uid};

use super::{ApiServer, crd, kinds::Special, service, update::Written};
use crate::StoredObject;

/// An object whose last finalizer a write removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingRemoval {
    /// Kind of the object.
    pub(super) kind: KindId,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    /// Its uid, if it is a precondition of the removal.
    pub(super) uid: Option<Uid>,
}

impl ApiServer {
    /// Removes the object whose last finalizer a write removed.
    ///
    /// # Upstream
    /// `Store.deleteWithoutFinalizers` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2: it
    /// expects no version, and after a PATCH no uid either, so it removes whichever object then has the name.
    pub(super) fn finish(&mut self, written: &Written) {
        let Some(removal) = &written.removal else {
            return;
        };
        let object = self
            .object(removal.kind, &removal.namespace, &removal.name)
            .cloned();
        let is_meant = |object: &StoredObject| removal.uid.as_ref().is_none_or(|uid| *uid == object.meta.uid);
        if let Some(object) = object.filter(|object| is_meant(object)) {
            self.remove(removal.kind, &object);
        }
    }

    /// Removes an object, and the objects that the server itself removes with it.
    pub(super) fn remove(&mut self, kind: KindId, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        let last = self.commit_deletion(kind, object);
        self.forget_webhooks(kind, &object.meta);
        self.forget_conversions(kind, &object.meta);
        self.forget_policies(kind, &object.meta);
        match self.shape.kinds[kind.index()].special {
            Special::CustomResourceDefinition => crd::withdraw(self, object),
            Special::Service => service::removed(self, object),
            Special::Namespace | Special::Pod | Special::None => {}
        }
        if self.settings.service_accounts
            && *object.meta.name == *"default"
            && &*self.resource(kind).resource == "serviceaccounts"
        {
            self.create_default_account(&object.meta.namespace);
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
