//! Field ownership after writes other than applies, and its place in an object.

use std::sync::Arc;

use kubegc_core::{Behavior, KindId};
use serde_json::{Value, json};

use super::{
    compare::compare,
    element::Element,
    managed::{Manager, Managers, Operation},
};
use crate::{
    StoredObject,
    api_server::{ApiServer, write::Part},
    object::{ManagedFields, managed_fields},
};

/// Fields of every object have managers from its creation on.
const ALL_ARE_TRACKED: Behavior = Behavior::since(18, 0, "kubernetes #88209");
/// Managers are distinguished by the subresource that they write.
const SUBRESOURCES_ARE_MANAGERS: Behavior = Behavior::since(22, 0, "kubernetes #100970");

impl ApiServer {
    /// The object's `managedFields` after a write other than an apply. `sent` is the object as it was sent,
    /// or as it is to be stored; `existing` is `None` for an object that is created. They are empty if the
    /// object had none and not all objects have them, or if the write removes them.
    pub(crate) fn tracked(
        &self,
        kind: KindId,
        existing: Option<&Arc<StoredObject>>,
        sent: &StoredObject,
        part: Part,
    ) -> ManagedFields {
        let live = existing.and_then(|existing| existing.managers.as_deref());
        let begins = existing.is_none() && self.settings.types && self.version.has(ALL_ARE_TRACKED);
        if live.is_none() && sent.managers.is_none() && !begins {
            return None;
        }
        // Writes to a subresource do not edit them.
        let edited = sent.managers.as_deref().filter(|_| part == Part::Whole);
        // This list resets ownership: after it, no manager owns anything.
        if edited.is_some_and(|list| *list == json!([{}])) {
            return None;
        }
        let read = |list: Option<&Value>| list.and_then(Managers::read).filter(|read| !read.is_empty());
        let mut managers = read(edited)
            .or_else(|| read(live))
            .or_else(|| begins.then(Managers::default))?;
        let (resource, place) = (self.resource(kind), self.place_of(kind));
        let json = |object: &StoredObject| object.to_json_without_managers(resource);
        let before = existing.map_or_else(|| json!({}), |existing| json(existing));
        if existing.is_some() {
            managers.follow_schema(&before, place);
        }
        let after = json(sent);
        let comparison = compare(&before, &after, place);
        if !comparison.is_empty() {
            managers.follow(None, &comparison);
            let api_version = resource.api_version();
            let manager = self.manager(&self.field_manager, Operation::Update, &api_version, part);
            let mut taken = comparison.added;
            taken.add(&comparison.modified);
            managers.give(&manager, &taken, &self.now.truncate_to_secs().to_string());
        }
        if part == Part::Scale
            && self.version.has(SUBRESOURCES_ARE_MANAGERS)
            && let Ok(paths) = self.scale_paths(kind)
        {
            let steps = paths.wanted.iter().map(|step| Element::field(step));
            managers.pass_through_scale(&Vec::from_iter(steps));
        }
        managed_fields(managers.to_json())
    }

    /// The manager that writes a part.
    pub(super) fn manager(&self, name: &str, operation: Operation, api_version: &str, part: Part) -> Manager {
        let has_part = self.version.has(SUBRESOURCES_ARE_MANAGERS);
        Manager {
            name: name.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: if has_part { part.subresource() } else { "" }.to_owned(),
        }
    }

    /// Whether ownership follows the object as it was sent, including the parts that the write cannot change.
    pub(crate) fn tracks_sent_fields(&self) -> bool {
        self.settings.types && !self.version.has(SUBRESOURCES_ARE_MANAGERS)
    }
}

/// Removes the managers from an object in its JSON form and returns them; `None` where it has none.
pub(super) fn take_managers(object: &mut Value) -> Option<Managers> {
    let metadata = object.get_mut("metadata")?.as_object_mut();
    let list = metadata?.remove("managedFields")?;
    Managers::read(&list).filter(|managers| !managers.is_empty())
}
