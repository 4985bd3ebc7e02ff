//! GET, LIST, and the events of watches: the changes of one resource in order, or all changes in the order of
//! their revisions.

use std::sync::Arc;

use kubegc_core::KindId;

use super::{ApiServer, Event, Key, Response};
use crate::{
    Filter,
    status::{self, Result},
};

/// One change of any resource.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The kind of the object, in the version that a garbage collector watches.
    pub kind: KindId,
    pub event: &'a Event,
}

impl ApiServer {
    pub fn read(&self, kind: KindId, namespace: &str, name: &str) -> Response {
        self.kind(kind)
            .and_then(|_| self.existing(Key::new(kind, namespace, name)))
            .map(Response::ok)
            .into()
    }

    /// Lists the objects of a resource, or those of one namespace, that a filter or label selector matches.
    ///
    /// # Errors
    /// In the response: 400 if objects of the kind cannot be selected by one of the fields.
    pub fn list(&self, kind: KindId, namespace: Option<&str>, filter: impl Into<Filter>) -> Response {
        self.listed(kind, namespace, &filter.into()).into()
    }

    pub(super) fn listed(&self, kind: KindId, namespace: Option<&str>, filter: &Filter) -> Result<Response> {
        self.supports(kind, filter)?;
        let mut items = self.objects(kind, namespace.filter(|_| self.resource(kind).is_namespaced()));
        if !items.is_empty() {
            self.check_conversion(kind)?;
        }
        items.retain(|object| self.matches(kind, filter, object));
        Ok(Response::list(items, self.revision))
    }

    /// The changes of a resource after a revision, oldest first. The versions of a resource share its
    /// changes.
    ///
    /// # Errors
    /// The server's 410 if some of them are no longer retained, its 404 if it does not serve the kind.
    ///
    /// # Complexity
    /// O(log n) to find the first of n retained changes.
    pub fn events_since(
        &self,
        kind: KindId,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Event>, Box<Response>> {
        if let Err(refusal) = self.kind(kind) {
            return Err(Box::new(refusal.into()));
        }
        let Some(table) = self.table(kind) else {
            return Ok(None.into_iter().flatten());
        };
        match table.log.since(revision) {
            Some(events) => Ok(Some(events).into_iter().flatten()),
            None => {
                let oldest = table.log.forgotten.saturating_add(1);
                let message = format!("too old resource version: {revision} ({oldest})");
                Err(Box::new(status::refusal(410, "Expired", message, None).into()))
            }
        }
    }

    /// The changes of all resources after a revision, in the order of their revisions. Changes that are no
    /// longer retained are left out.
    ///
    /// # Complexity
    /// O(c log c) for c changes, and O(log n) for each resource that has changed since, with n changes.
    pub fn changes_since(&self, revision: u64) -> impl Iterator<Item = Change<'_>> {
        let mut changes = Vec::new();
        let recent = self.tables_by_change.iter().rev();
        let recent =
            recent.filter_map(|&table| Some((&self.shape.tables[table], self.tables[table].as_ref()?)));
        for (info, table) in recent.take_while(|(_, table)| table.log.newest() > revision) {
            let kind = info.watched_as;
            let events = table.log.retained_since(revision);
            changes.extend(events.map(|event| Change { kind, event }));
        }
        changes.sort_unstable_by_key(|change| change.event.revision);
        changes.into_iter()
    }

    /// Drops all changes up to a revision: watches that begin earlier get *expired*.
    pub fn prune_events(&mut self, through: u64) {
        for table in self.tables.iter_mut().flatten() {
            if table.log.oldest().is_some_and(|oldest| oldest <= through) {
                Arc::make_mut(table).log.forget(through);
            }
        }
    }
}
