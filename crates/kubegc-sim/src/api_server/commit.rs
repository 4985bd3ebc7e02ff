//! Commits a write: a revision, a stored state, a watch event.

use std::sync::Arc;

use kubegc_core::{KindId, ResourceVersion, Uid};

use super::{ApiServer, Event, EventType};
use crate::{StoredObject, rng};

impl ApiServer {
    /// Writes an object at a new revision.
    pub(super) fn commit(
        &mut self,
        kind: KindId,
        mut object: StoredObject,
        event_type: EventType,
    ) -> Arc<StoredObject> {
        let table = self.next_revision(kind);
        if self.settings.quota_controller
            && self.shape.table_of("resourcequotas") == u32::try_from(table).ok()
        {
            self.sync_quota(&mut object);
        }
        object.meta.resource_version = ResourceVersion::new(&self.revision.to_string());
        object.tidy();
        let object = Arc::new(object);
        let table = Arc::make_mut(self.tables[table].get_or_insert_default());
        let event = Event {
            revision: self.revision,
            event_type,
            previous: table.put(Arc::clone(&object)),
            object: Arc::clone(&object),
        };
        let previous = event.previous.clone();
        table.log.push(event, self.settings.events_max);
        if self.settings.quota_controller {
            self.adjust_quotas(kind, previous.as_deref(), Some(&object));
        }
        object
    }

    /// Removes an object at a new revision and returns its last stored state.
    pub(super) fn commit_deletion(&mut self, kind: KindId, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        let table = self.next_revision(kind);
        let mut last = StoredObject::clone(object);
        last.meta.resource_version = ResourceVersion::new(&self.revision.to_string());
        let last = Arc::new(last);
        let event = Event {
            revision: self.revision,
            event_type: EventType::Deleted,
            object: Arc::clone(&last),
            previous: Some(Arc::clone(object)),
        };
        let table = Arc::make_mut(self.tables[table].get_or_insert_default());
        table.remove(&object.meta.namespace, &object.meta.name);
        table.log.push(event, self.settings.events_max);
        if self.settings.quota_controller {
            self.adjust_quotas(kind, Some(object), None);
        }
        last
    }

    /// Starts a revision; returns the position of its table.
    fn next_revision(&mut self, kind: KindId) -> usize {
        self.revision += 1;
        let table = self.shape.kinds[kind.index()].table as usize;
        self.tables_by_change.retain(|other| *other != table);
        self.tables_by_change.push(table);
        table
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
}
