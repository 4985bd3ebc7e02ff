//! Visits one deleted namespace at a time. What is in it, whoever visits finds out.

use std::sync::Arc;

use kubegc_core::Timestamp;

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Work,
        table::{Key, key_of},
        tables::{Change, Tables},
    },
    fields::Record,
    namespace::Settings,
    object::{Failure, Resource, Wire},
};

/// Every event of a namespace that is being deleted asks for a visit.
pub(in crate::controller) fn concerned(
    _settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == Resource::Namespaces && change.new.is_some_and(|new| matters(tables, new)) {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    let all = tables.of(Resource::Namespaces).values();
    let concerned = all.filter(|record| matters(tables, record));
    keys.extend(concerned.map(|record| key_of(&record.meta)));
}

/// While not all are known, each is undecided, deleted or not.
fn matters(tables: &Tables, record: &Record) -> bool {
    record.meta.is_deleting() || tables.of(Resource::Namespaces).listed.is_err()
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    _now: Timestamp,
    _wire: Wire,
) -> Look {
    let record = match subject(tables, Resource::Namespaces, key, &[Resource::Namespaces]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let mut look = Look::default();
    if record.meta.is_deleting() {
        look.works.push(Work::Namespace {
            settings: settings.clone(),
            name: Arc::clone(&record.meta.name),
            // Whoever keeps count of the failures sets it.
            failures: 0,
        });
    }
    look
}

pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    |_| Failure::Retried
}
