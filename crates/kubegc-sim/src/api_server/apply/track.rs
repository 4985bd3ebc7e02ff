//! Field ownership after writes other than applies, and its place in an object.

use kubegc_core::{Behavior, KindId};
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    managed::{self, Manager, Managers, Operation},
};
use crate::{
    StoredObject,
    api_server::{ApiServer, update::Part},
};

/// Fields of every object have managers from its creation on.
const ALL_ARE_TRACKED: Behavior = Behavior::since(18, 0, "kubernetes #88209");
/// Managers are distinguished by the subresource that they write.
const SUBRESOURCES_ARE_TOLD: Behavior = Behavior::since(22, 0, "kubernetes #100970");

impl ApiServer {
    /// Updates the object's `managedFields` after a write other than an apply, if it has them, or if all
    /// objects have them. `sent` is the object as it was sent, or as it is to be stored; `existing` is `None`
    /// for an object that is created.
    ///
    /// Returns the managers that the object has afterwards.
    pub(in crate::api_server) fn tracked(
        &self,
        kind: KindId,
        existing: Option<&StoredObject>,
        sent: &StoredObject,
        part: Part,
    ) -> Option<Value> {
        let live = existing.and_then(managed_fields);
        // Writes to a subresource do not edit them.
        let edited = managed_fields(sent).filter(|_| part == Part::Whole);
        let begins = existing.is_none() && self.settings.types && self.version.has(ALL_ARE_TRACKED);
        if live.is_none() && managed_fields(sent).is_none() && !begins {
            return None;
        }
        if edited.is_some_and(managed::is_reset) {
            return Some(Value::Null);
        }
        let read = |list: Option<&Value>| list.and_then(Managers::read).filter(|read| !read.is_empty());
        let mut managers = match read(edited).or_else(|| read(live)) {
            Some(managers) => managers,
            None if begins => Managers::default(),
            None => return Some(Value::Null),
        };
        let resource = self.resource(kind);
        let nothing = serde_json::json!({});
        let before = existing.map_or(nothing, |existing| existing.to_json(resource));
        if existing.is_some() {
            managers.follow_schema(&before, self.types(kind), self.dialect());
        }
        let mut comparison = compare(&before, &sent.to_json(resource), self.types(kind), self.dialect());
        strip_all(&mut comparison);
        if !comparison.is_empty() {
            managers.follow(None, &comparison);
            let manager = Manager {
                name: self.field_manager.to_string(),
                operation: Operation::Update,
                api_version: resource.api_version(),
                subresource: self.told(part).to_owned(),
            };
            let mut taken = comparison.added;
            taken.add(&comparison.modified);
            managers.give(&manager, &taken, &self.now.truncate_to_secs().to_string());
        }
        Some(managers.to_json())
    }

    /// The subresource that is part of the identity of a write's manager.
    pub(super) fn told(&self, part: Part) -> &'static str {
        if self.version.has(SUBRESOURCES_ARE_TOLD) {
            part.subresource()
        } else {
            ""
        }
    }

    /// Whether ownership follows the object as it was sent, including the parts that the write cannot change.
    pub(in crate::api_server) fn tracks_what_is_sent(&self) -> bool {
        self.settings.types && !self.version.has(SUBRESOURCES_ARE_TOLD)
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

/// The managers of a stored object; `None` where the list is missing or empty.
fn managed_fields(object: &StoredObject) -> Option<&Value> {
    // A body that was never built has none.
    object.body.as_ref().filter(|body| body.is_built())?;
    object
        .at(&["metadata", "managedFields"])
        .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
}

/// Sets the managers of an object; null or an empty list removes them.
pub(in crate::api_server) fn set_managers(object: &mut StoredObject, managers: Value) {
    let stored = object.at(&["metadata", "managedFields"]);
    if managers.as_array().is_some_and(|list| !list.is_empty()) {
        if stored != Some(&managers) {
            object
                .rest_of_metadata_mut()
                .insert("managedFields".to_owned(), managers);
        }
    } else if stored.is_some() {
        object.rest_of_metadata_mut().remove("managedFields");
    }
}
