//! Looks at one volume at a time, for each provisioner outside Kubernetes.

use std::sync::Arc;

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure, subject, volumes::volume};
use crate::{
    controller::{
        Basis, Reason, Work,
        table::Key,
        tables::{Change, Tables},
    },
    object::{Failure, Reads, Resource, Wire},
    volume::external::{Action, Facts, Guard, Settings},
};

pub(in crate::controller) fn concerned(
    _settings: &[Settings],
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    if change.resource == Resource::PersistentVolumes {
        keys.push(change.key.clone());
    }
}

pub(in crate::controller) fn all(_settings: &[Settings], tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::PersistentVolumes).keys());
}

/// Supposes that the provisioner lets the volume go: whoever asks it to delete what is behind the volume asks its guard, too. Of several provisioners that
/// could call the volume theirs, the first has it.
pub(in crate::controller) fn look(
    settings: &[Settings],
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(
        tables,
        Resource::PersistentVolumes,
        key,
        &[Resource::PersistentVolumes],
    ) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let facts = Facts {
        volumes: vec![volume(record, tables)],
        guards: [(Arc::clone(&key.1), Guard::Allows)].into(),
        read_volumes: Reads::AsListed,
    };
    let mut look = Look::default();
    for provisioner in settings {
        let plan = provisioner.plan(&facts, now);
        if let Some(action @ Action::Delete { reason, .. }) = plan.actions.first() {
            let rests_on = vec![Basis::same(Resource::PersistentVolumes, &record.meta)];
            look.undecided.clear();
            look.act(action, Reason::ExternalVolume(reason.clone()), wire, rests_on);
            return look;
        }
        if look.undecided.is_empty() {
            look.keep(plan.kept, Reason::ExternalVolume);
        }
    }
    look
}

/// A provisioner tries again, later each time.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(_error: &StoreError) -> Failure {
        Failure::Retried
    }
    failure
}
