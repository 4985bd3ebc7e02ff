//! Final removal of objects.

use std::sync::Arc;

use kubegc_core::KindId;

use super::{ApiServer, EventType, crd, kinds::Special, service};
use crate::{StoredObject, types::facts::Facts};

impl ApiServer {
    /// Removes an object, and the objects that the server itself removes with it.
    pub(super) fn remove(&mut self, kind: KindId, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        let last = self.commit(kind, StoredObject::clone(object), EventType::Deleted);
        self.forget_webhooks(kind, &object.meta);
        self.forget_conversions(kind, &object.meta);
        self.forget_policies(kind, &object.meta);
        match self.special(kind) {
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
        let plural = &*resource.resource;
        let mut key = match resource.custom {
            true => format!("/registry/{}/{plural}", resource.group),
            false => {
                let place = Facts::of(resource).value("key", self.version);
                format!("/registry/{}", place.unwrap_or(plural))
            }
        };
        for part in [namespace, name].into_iter().filter(|part| !part.is_empty()) {
            key.push('/');
            key.push_str(part);
        }
        key
    }
}
