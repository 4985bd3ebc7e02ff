//! What was listed and watched of one resource, by namespace and name.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::StoreError;

use crate::fields::Record;

/// Namespace and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// All objects of one resource, or why they are not known.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Whether all objects are here.
    pub(super) listed: Result<(), StoreError>,
    /// Whether anything was said of the resource yet, be it an error.
    pub(super) is_told: bool,
    /// The objects that are known, complete or not.
    pub(super) records: BTreeMap<Key, Record>,
}

impl Default for Table {
    /// Nothing was listed.
    fn default() -> Self {
        Self {
            listed: Err(StoreError::Unlisted),
            is_told: false,
            records: BTreeMap::new(),
        }
    }
}

impl Table {
    pub(super) fn get(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Record> {
        self.records.get(&(Arc::clone(namespace), Arc::clone(name)))
    }

    /// The objects of a namespace, in order.
    pub(super) fn of_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = (&'a Key, &'a Record)> {
        let from: Key = (Arc::from(namespace), Arc::from(""));
        let namespace = Arc::clone(&from.0);
        let found = self.records.range(from..);
        found.take_while(move |((of, _), _)| *of == namespace)
    }
}
