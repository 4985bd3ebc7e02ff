//! Commits writes and removals: a revision, a stored state, a watch event.

use std::sync::Arc;

use kubegc_core::{KindId, ResourceVersion, Uid};

use super::{ApiServer, Event, EventType, Key, crd, kinds::Special, service};
use crate::{StoredObject, rng, types::facts::Facts};

impl ApiServer {
    /// Writes or removes an object at a new revision. Returns the object as it is stored, or its last stored
    /// state.
    pub(super) fn commit(
        &mut self,
        kind: KindId,
        mut object: StoredObject,
        event_type: EventType,
    ) -> Arc<StoredObject> {
        self.revision += 1;
        let position = self.shape.kinds[kind.index()].table as usize;
        self.tables_by_change.retain(|other| *other != position);
        self.tables_by_change.push(position);
        let is_removed = event_type == EventType::Deleted;
        if self.settings.quota_controller
            && !is_removed
            && self.shape.table_of("resourcequotas") == u32::try_from(position).ok()
        {
            self.sync_quota(&mut object);
        }
        object.meta.resource_version = ResourceVersion::new(&self.revision.to_string());
        object.tidy();
        let object = Arc::new(object);
        let table = Arc::make_mut(self.tables[position].get_or_insert_default());
        let previous = match is_removed {
            true => table.remove(&object.meta.namespace, &object.meta.name),
            false => table.put(Arc::clone(&object)),
        };
        let event = Event {
            revision: self.revision,
            event_type,
            previous: previous.clone(),
            object: Arc::clone(&object),
        };
        table.log.push(event, self.settings.events_max);
        if self.settings.quota_controller {
            let stored = (!is_removed).then_some(&*object);
            self.adjust_quotas(kind, previous.as_deref(), stored);
        }
        object
    }

    /// Draws a uid that no object of this server has had.
    pub(super) fn draw_uid(&mut self) -> Uid {
        self.uids_generated += 1;
        let high = rng::mix(self.settings.seed ^ 0x6b75_6265_6763_2d75 ^ rng::mix(self.uids_generated));
        // The counter itself, bijectively mixed: two draws never collide.
        let low = rng::mix(self.settings.seed.wrapping_add(self.uids_generated));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        // Version 4, variant 1, as `uuid.NewUUID` marks them. The two variant bits are moved into the high
        // half.
        bytes[7] = (bytes[7] & 0x3f) | (bytes[8] & 0xc0);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uid::from_uuid(bytes)
    }

    /// Removes an object, and the objects that the server itself removes with it.
    pub(super) fn remove(&mut self, kind: KindId, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        let last = self.commit(kind, StoredObject::clone(object), EventType::Deleted);
        self.forget(kind, &object.meta);
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
    pub(super) fn storage_key(&self, key: Key<'_>) -> String {
        let (resource, namespace) = (
            self.resource(key.kind),
            self.namespace_of(key.kind, key.namespace),
        );
        let plural = &*resource.resource;
        let mut path = match resource.custom {
            true => format!("/registry/{}/{plural}", resource.group),
            false => {
                let place = Facts::of(resource).value("key", self.version);
                format!("/registry/{}", place.unwrap_or(plural))
            }
        };
        for part in [namespace, key.name].into_iter().filter(|part| !part.is_empty()) {
            path.push('/');
            path.push_str(part);
        }
        path
    }
}
