//! Looks at one lease at a time, with the nodes that it names as its owners.

use std::sync::Arc;

use kubegc_core::{Planner, StoreError, Timestamp, Uid, metadata};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Basis, Reason, Work,
        table::{Key, key_of},
        tables::{Change, Tables},
    },
    fields::Record,
    lease::{Facts, Nodes, Settings},
    object::{Failure, Resource, Wire},
};

pub(in crate::controller) fn concerned(
    settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::Leases if change.key.0 == settings.namespace => keys.push(change.key.clone()),
        Resource::Nodes if change.old.map(standing) != change.new.map(standing) => {
            let node = &change.key.1;
            let from = (Arc::clone(node), (Arc::from(""), Arc::from("")));
            let leases = tables.leases_of.range(from..);
            let leases = leases.take_while(|(owner, _)| owner == node);
            keys.extend(leases.map(|(_, lease)| lease.clone()));
        }
        _ => {}
    }
}

pub(in crate::controller) fn all(settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    let leases = tables.of(Resource::Leases).of_namespace(&settings.namespace);
    keys.extend(leases.map(|lease| key_of(&lease.meta)));
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(
        tables,
        Resource::Leases,
        key,
        &[Resource::Leases, Resource::Nodes],
    ) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let owners = record.meta.owner_references.iter();
    let mut names: Vec<_> = owners.map(|owner| Arc::clone(&owner.name)).collect();
    names.sort_unstable();
    names.dedup();
    let node = |name: &Arc<str>| tables.get(Resource::Nodes, &(Arc::from(""), Arc::clone(name)));
    // Of all nodes, those that it names are enough.
    let nodes = names.iter().filter_map(node).map(|node| node.meta.clone());
    let facts = Facts {
        leases: Ok(vec![record.meta.clone()]),
        nodes: Nodes::All(nodes.collect()),
    };
    let plan = settings.plan(&facts, now);
    let mut look = Look {
        next_at: plan.next_at,
        ..Look::default()
    };
    for action in plan.actions {
        let mut rests_on = vec![Basis::same(Resource::Leases, &record.meta)];
        rests_on.extend(names.iter().map(|name| match node(name) {
            Some(node) => Basis::same(Resource::Nodes, &node.meta),
            None => Basis::Absent {
                resource: Resource::Nodes,
                namespace: "".into(),
                name: Arc::clone(name),
            },
        }));
        let reason = Reason::Lease(action.reason().clone());
        look.act(&action, reason, wire, rests_on);
    }
    look.keep(plan.kept, Reason::Lease);
    look
}

/// As the collector of objects has it: what is gone is done, all else is tried again, later each time.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    |error| match error {
        StoreError::NotFound => Failure::Ignored,
        _ => Failure::Retried,
    }
}

/// What matters of a node to its leases.
fn standing(node: &Record) -> (&Uid, bool) {
    let meta = &node.meta;
    let is_waiting = meta.is_deleting() && meta.has_finalizer(metadata::FINALIZER_FOREGROUND);
    (&meta.uid, is_waiting)
}
