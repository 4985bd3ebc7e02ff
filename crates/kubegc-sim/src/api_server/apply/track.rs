//! Decides who owns what after a write that is no apply, and where an object keeps it.

use kubegc_core::KindId;
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    managed::{self, Manager, Managers, Operation},
};
use crate::{
    StoredObject,
    api_server::{ApiServer, update::Part},
};

impl ApiServer {
    /// Follows a plain write in the object's `managedFields`, if it has them. `new` is what is to be stored.
    pub(in crate::api_server) fn track(
        &self,
        kind: KindId,
        existing: &StoredObject,
        new: &mut StoredObject,
        part: Part,
    ) {
        let (live, sent) = (managed_fields(existing), managed_fields(new));
        if live.is_none() && sent.is_none() {
            return;
        }
        // Through a subresource nobody edits them.
        let sent = sent.filter(|_| part == Part::Whole);
        if sent.is_some_and(managed::is_reset) {
            set_managers(new, Value::Null);
            return;
        }
        let read = |list: Option<&Value>| list.and_then(Managers::read).filter(|read| !read.is_empty());
        let Some(mut managers) = read(sent).or_else(|| read(live)) else {
            set_managers(new, Value::Null);
            return;
        };
        let resource = self.resource(kind);
        let mut comparison = compare(
            &existing.to_json(resource),
            &new.to_json(resource),
            self.types(kind),
        );
        strip_all(&mut comparison);
        if !comparison.is_empty() {
            managers.follow(None, &comparison);
            let manager = Manager {
                name: self.field_manager.to_string(),
                operation: Operation::Update,
                api_version: resource.api_version(),
                subresource: part.subresource().to_owned(),
            };
            let mut taken = comparison.added;
            taken.add(&comparison.modified);
            managers.give(&manager, &taken, &self.now.truncate_to_secs().to_string());
        }
        set_managers(new, managers.to_json());
    }
}

/// Takes out of a comparison what nobody owns.
pub(super) fn strip_all(comparison: &mut Comparison) {
    for fields in [
        &mut comparison.added,
        &mut comparison.modified,
        &mut comparison.removed,
    ] {
        managed::strip(fields);
    }
}

/// Takes the managers out of an object in its JSON form; `None` where it has none.
pub(super) fn take_managers(object: &mut Value) -> Option<Managers> {
    let list = object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")?;
    Managers::read(&list).filter(|managers| !managers.is_empty())
}

/// The managers of a stored object; `None` where the list is missing or empty.
fn managed_fields(object: &StoredObject) -> Option<&Value> {
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
