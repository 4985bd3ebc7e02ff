//! Looks at one job at a time. Its own fields decide, whether the others are known or not.

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Basis, Reason, Work,
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    job::{Action, Facts, Job, Settings},
    object::{Failure, Reads, Resource, Wire},
};

pub(in crate::controller) fn concerned(
    _settings: &Settings,
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == Resource::Jobs {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::Jobs).keys());
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(tables, Resource::Jobs, key, &[]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let facts = Facts {
        jobs: vec![job(record)],
        reads: Reads::AsListed,
    };
    let plan = settings.plan(&facts, now);
    Look::of(
        plan,
        wire,
        Reason::Job,
        |Action::Delete { reason, .. }| reason,
        |_| vec![Basis::same(Resource::Jobs, &record.meta)],
    )
}

pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(error: &StoreError) -> Failure {
        Action::failure(error)
    }
    failure
}

fn job(record: &Record) -> Job {
    let unread = fields::Job::default();
    let fields = match &record.fields {
        Fields::Job(fields) => fields,
        _ => &unread,
    };
    Job {
        meta: record.meta.clone(),
        ttl: fields.ttl,
        conditions: fields.status.as_ref().map(|status| status.conditions.clone()),
    }
}
