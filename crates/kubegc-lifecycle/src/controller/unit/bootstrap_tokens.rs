//! Looks at one bootstrap token at a time: at secrets of one namespace only. Its own fields decide, whether the others are known or not.

use kubegc_core::{Planner, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Reason, Work,
        table::{Key, key_of},
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    object::{Resource, Wire},
    token::bootstrap::{Action, Facts, NAMESPACE, Secret, Settings},
};

pub(in crate::controller) fn concerned(
    _settings: &Settings,
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == Resource::Secrets && &*change.key.0 == NAMESPACE {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    let secrets = tables.of(Resource::Secrets).of_namespace(NAMESPACE);
    keys.extend(secrets.map(|secret| key_of(&secret.meta)));
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(tables, Resource::Secrets, key, &[]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let secrets = vec![secret(record)];
    let plan = settings.plan(&Facts { secrets }, now);
    Look::of(
        plan,
        wire,
        Reason::BootstrapToken,
        |Action::Delete { reason, .. }| reason,
        // Upstream tries nothing again here: a read that fails first would leave the token for good.
        |_| Vec::new(),
    )
}

pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    Action::failure
}

fn secret(record: &Record) -> Secret {
    let unread = fields::Secret::default();
    let fields = match &record.fields {
        Fields::Secret(fields) => fields,
        _ => &unread,
    };
    Secret {
        meta: record.meta.clone(),
        secret_type: fields.secret_type.clone(),
        expiration: fields.expiration.clone(),
    }
}
