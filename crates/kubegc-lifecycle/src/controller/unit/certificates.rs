//! Looks at one certificate signing request at a time. Its own fields decide, whether the others are known or not.

use kubegc_core::{Planner, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    certificate::{Action, Facts, Request, Settings},
    controller::{
        Basis, Reason, Work,
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    object::{Resource, Wire},
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
    keys.extend(tables.of(RESOURCE).keys());
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(tables, RESOURCE, key, &[]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let requests = vec![request(record)];
    let plan = settings.plan(&Facts { requests }, now);
    Look::of(
        plan,
        wire,
        Reason::Certificate,
        |Action::Delete { reason, .. }| reason,
        |_| vec![Basis::same(RESOURCE, &record.meta)],
    )
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
