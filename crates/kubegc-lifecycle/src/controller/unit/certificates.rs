//! Looks at one certificate signing request at a time.

use kubegc_core::{Planner, Timestamp};

use super::{Look, OnFailure};
use crate::{
    certificate::{Action, Facts, Request, Settings},
    controller::{
        Reason, Work,
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    object::{Object, Resource, Wire},
};

const RESOURCE: Resource = Resource::CertificateSigningRequests;

pub(in crate::controller) fn concerned(
    _settings: &Settings,
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == RESOURCE {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(RESOURCE).records.keys().cloned());
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let Some(record) = tables.get(RESOURCE, key) else {
        return Look::default();
    };
    if let Some(reason) = tables.not_listed(RESOURCE) {
        return Look::undecided(Object::new(RESOURCE, &record.meta), reason);
    }
    let requests = vec![request(record)];
    let plan = settings.plan(&Facts { requests }, now);
    let mut look = Look {
        next_at: plan.next_at,
        ..Look::default()
    };
    for action in plan.actions {
        let Action::Delete { reason, .. } = &action;
        let reason = Reason::Certificate(reason.clone());
        look.act(&action, reason, wire, Vec::new());
    }
    look.keep(plan.kept, Reason::Certificate);
    look
}

pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    Action::failure
}

fn request(record: &Record) -> Request {
    let fields::CertificateSigningRequest {
        conditions,
        certificate,
    } = match &record.fields {
        Fields::CertificateSigningRequest(fields) => fields.clone(),
        _ => fields::CertificateSigningRequest::default(),
    };
    Request {
        meta: record.meta.clone(),
        conditions,
        certificate,
    }
}
