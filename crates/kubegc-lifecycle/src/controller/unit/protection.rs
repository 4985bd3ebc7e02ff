//! Looks at one claim or one volume at a time: whether it is in use.

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{
    Look, OnFailure, subject,
    volumes::{pod, volume},
};
use crate::{
    controller::{
        Basis, Reason, Work,
        index::{Kind, is_held, moved, touched},
        table::Key,
        tables::{Change, Tables},
    },
    fields::{Fields, Record},
    object::{Failure, Resource, Wire},
    volume::{
        Claim, FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION, Pod,
        protection::{Action, Facts, LivePods, Settings},
    },
};

/// Volumes have no namespace, and all claims have one.
fn resource((namespace, _): &Key) -> Resource {
    if namespace.is_empty() {
        Resource::PersistentVolumes
    } else {
        Resource::PersistentVolumeClaims
    }
}

/// Pods only matter to claims that are being deleted and protected.
pub(in crate::controller) fn concerned(
    _settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::PersistentVolumes | Resource::PersistentVolumeClaims => keys.push(change.key.clone()),
        Resource::Pods => {
            let claim = |key: &Key| tables.get(Resource::PersistentVolumeClaims, key);
            let mentioned = touched(Kind::PodOfClaim, change);
            keys.extend(mentioned.filter(|key| claim(key).is_some_and(is_held)));
            // Of the pods of which too little was read, the first by name is named.
            let untold = moved(Kind::PodUntold, change).into_iter();
            for key in untold.filter(|key| is_seen(key, change, tables)) {
                let held = tables.names(Kind::HeldClaim).within(&key.0);
                keys.extend(held.map(|name| (key.0.clone(), name.clone())));
            }
        }
        _ => {}
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    for resource in [Resource::PersistentVolumeClaims, Resource::PersistentVolumes] {
        keys.extend(tables.of(resource).keys());
    }
}

pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let resource = resource(key);
    let record = match subject(tables, resource, key, &[resource]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    if is_settled(resource, record) {
        return Look::default();
    }
    let facts = match resource {
        Resource::PersistentVolumes => Facts {
            volumes: vec![volume(record, tables)],
            ..Facts::default()
        },
        _ => Facts {
            claims: vec![claim(record)],
            pods: pods(record, tables, key),
            live_pods: LivePods::AsListed,
            ..Facts::default()
        },
    };
    let plan = settings.plan(&facts, now);
    let mut look = Look::default();
    look.keep(plan.kept, Reason::Protection);
    for action in &plan.actions {
        let (reason, rests_on) = match action {
            Action::RemoveFinalizer { reason, .. } if resource == Resource::PersistentVolumeClaims => {
                (reason, pods_are(tables, key))
            }
            Action::RemoveFinalizer { reason, .. } | Action::AddFinalizer { reason, .. } => {
                (reason, Vec::new())
            }
        };
        look.act(action, Reason::Protection(reason.clone()), wire, rests_on);
    }
    look
}

/// A failed write is tried again, later each time.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(_error: &StoreError) -> Failure {
        Failure::Retried
    }
    failure
}

/// Whether it lives and is protected, or is being deleted and is not: nothing is done then, whatever else is known.
fn is_settled(resource: Resource, record: &Record) -> bool {
    let finalizer = match resource {
        Resource::PersistentVolumes => FINALIZER_VOLUME_PROTECTION,
        _ => FINALIZER_CLAIM_PROTECTION,
    };
    record.meta.is_deleting() != record.meta.has_finalizer(finalizer)
}

/// Whether claims of the namespace see that a pod has come among those of which too little was read, or is no more among them.
fn is_seen(key: &Key, change: &Change<'_>, tables: &Tables) -> bool {
    let has_held = tables.names(Kind::HeldClaim).within(&key.0).next().is_some();
    has_held && tables.names(Kind::PodUntold).has_none_before(key, &change.key.1)
}

/// The pods that may use a claim: those that mention it, and the first of which too little was read.
fn pods(claim: &Record, tables: &Tables, key: &Key) -> Result<Vec<Pod>, StoreError> {
    let table = tables.of(Resource::Pods);
    table.listed.clone()?;
    if !is_held(claim) {
        return Ok(Vec::new());
    }
    let names = tables.names(Kind::PodOfClaim).of(key);
    let untold = tables.names(Kind::PodUntold).within(&key.0).take(1);
    let records = names.chain(untold).filter_map(|name| table.get(&key.0, name));
    Ok(records.map(pod).collect())
}

/// All pods of the namespace are as they were listed. In a forecast they are so in any case.
fn pods_are(tables: &Tables, (namespace, claim): &Key) -> Vec<Basis> {
    let basis = || Basis::PodsAre {
        namespace: namespace.clone(),
        claim: claim.clone(),
        pods: tables.versions_of_pods(namespace),
    };
    (!tables.is_still).then(basis).into_iter().collect()
}

/// Of a claim only the metadata decides here.
fn claim(record: &Record) -> Claim {
    let (volume_name, mode) = match &record.fields {
        Fields::PersistentVolumeClaim(fields) => (fields.volume_name.clone(), fields.mode.clone()),
        _ => Default::default(),
    };
    Claim {
        meta: record.meta.clone(),
        volume_name,
        mode,
    }
}
