//! Looks at one node at a time, with what the cloud says of it.

use std::sync::Arc;

use kubegc_core::{Planner, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Reason, Work,
        machine::after,
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    node::{Cloud, Facts, Node, Settings},
    object::{Failure, Object, Resource, Wire},
};

pub(in crate::controller) fn concerned(
    _settings: &Settings,
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == Resource::Nodes && change.new.is_some() {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::Nodes).keys());
}

/// A node that is not ready is asked about, and looked at again in the next pass, unless answers stay.
pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(tables, Resource::Nodes, key, &[Resource::Nodes]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let object = Object::new(Resource::Nodes, &record.meta);
    let answer = tables.cloud.get(key).filter(|answer| answer.uid == object.uid);
    let (exists, is_shutdown) = answer.map_or((Cloud::NotAsked, Cloud::NotAsked), |answer| {
        (answer.exists.clone(), answer.is_shutdown.clone())
    });
    let node = node(record, exists, is_shutdown);
    let (is_unready, provider_id) = (node.is_ready() == Some(false), node.provider_id.clone());
    let plan = settings.plan(&Facts::new(vec![node]), now);
    let wants_answer = !(plan.summary.ask_exists.is_empty() && plan.summary.ask_shutdown.is_empty());
    let mut look = Look {
        next_at: plan.next_at,
        ..Look::default()
    };
    if !tables.is_still {
        if is_unready && look.next_at.is_none() {
            look.next_at = Some(after(now));
        }
        // An answer that leaves something open is not asked for again before the next pass.
        if wants_answer && answer.is_none() {
            look.ask = Some((object, provider_id.unwrap_or_else(|| Arc::from(""))));
        }
    }
    for action in plan.actions {
        let reason = Reason::Node(action.reason().clone());
        look.act(&action, reason, wire, Vec::new());
    }
    look.keep(plan.kept, Reason::Node);
    look
}

/// What failed is told; the next pass looks again.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    |_| Failure::Told
}

fn node(record: &Record, exists: Cloud, is_shutdown: Cloud) -> Node {
    let fields::Node {
        conditions,
        taints,
        provider_id,
    } = match &record.fields {
        Fields::Node(fields) => fields.clone(),
        _ => fields::Node::default(),
    };
    Node {
        meta: record.meta.clone(),
        conditions,
        taints,
        provider_id,
        exists,
        is_shutdown,
    }
}
