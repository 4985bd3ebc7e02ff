//! Looks at one volume at a time, with the claim that it names.

use std::sync::Arc;

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Reason, Work,
        index::{Kind, moved, touched},
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    object::{Failure, Live, Object, Reads, Resource, Wire},
    volume::{
        Claim, Holder, Migration, Phase, Pod, Policy, Volume,
        reclaim::{Facts, Known, Pass, Settings},
    },
};

/// Pods only matter to volumes that are to be emptied.
pub(in crate::controller) fn concerned(
    _settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    let volume = |name: &Arc<str>| (Arc::from(""), Arc::clone(name));
    match change.resource {
        Resource::PersistentVolumes => keys.push(change.key.clone()),
        Resource::PersistentVolumeClaims => {
            keys.extend(tables.names(Kind::VolumeOfClaim).of(change.key).map(volume));
        }
        Resource::Pods => {
            let recycled = tables.names(Kind::RecycledOfClaim);
            if recycled.is_empty() {
                return;
            }
            for claim in touched(Kind::PodOfClaim, change) {
                keys.extend(recycled.of(&claim).map(volume));
            }
            // Of the pods whose volumes were not read one counts like the other.
            for key in moved(Kind::PodBare, change) {
                if tables.names(Kind::PodBare).has_none_before(&key, &change.key.1) {
                    keys.extend(recycled.within(&key.0).map(volume));
                }
            }
        }
        _ => {}
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::PersistentVolumes).keys());
}

/// The plan only foresees whether anything is to be done. What is done is decided by a pass, which reads for itself.
pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    _wire: Wire,
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
    let object = Object::new(Resource::PersistentVolumes, &record.meta);
    let volume = volume(record, tables);
    let claim = match claim(&volume, tables) {
        Ok(claim) => claim,
        Err(reason) => return Look::undecided(object, reason),
    };
    let listed = &tables.of(Resource::PersistentVolumeClaims).listed;
    let found = match &claim {
        Live::Found(claim) => vec![claim.clone()],
        _ => Vec::new(),
    };
    let plugin = tables.storage.plugins.get(provisioner(&volume));
    let using = pods(&volume, tables);
    let mut facts = Facts {
        volumes: vec![volume],
        claims: listed.clone().map(|()| found),
        pods: using,
        read_volumes: Reads::AsListed,
        read_claims: Reads::AsListed,
        plugins: plugin
            .map(|plugin| (Arc::clone(&key.1), plugin.clone()))
            .into_iter()
            .collect(),
    };
    let plan = settings.plan(&facts, now);
    let mut look = Look::default();
    look.keep(plan.kept, Reason::Volume);
    if let (false, Some(volume)) = (plan.actions.is_empty(), facts.volumes.pop()) {
        let users = users(&volume, tables);
        let pass = Pass::new(settings.clone(), Known { volume, claim, users });
        look.works.push(Work::Volume(Box::new(pass)));
    }
    look
}

/// What failed is tried again after a resync. Where nobody knows how far something came, such as a plugin that failed, nothing brings that forward before a
/// wait of its own is over. Emptying a volume has no such wait, as upstream.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(error: &StoreError) -> Failure {
        match error {
            StoreError::Unknown { .. } => Failure::Retried,
            _ => Failure::Told,
        }
    }
    failure
}

/// The claim that a volume names, as it was listed; or that too little of it was read.
fn claim(volume: &Volume, tables: &Tables) -> Result<Live<Claim>, Reason> {
    let table = tables.of(Resource::PersistentVolumeClaims);
    let Some(named) = volume.claim_ref.claim().filter(|_| table.listed.is_ok()) else {
        return Ok(Live::NotAsked);
    };
    let Some(record) = table.get(&named.namespace, &named.name) else {
        return Ok(Live::NotFound);
    };
    match &record.fields {
        Fields::PersistentVolumeClaim(fields) => Ok(Live::Found(Claim {
            meta: record.meta.clone(),
            volume_name: Arc::clone(&fields.volume_name),
            mode: fields.mode.clone(),
        })),
        // A volume that is only reserved does not depend on the claim.
        _ if named.uid.is_empty() => Ok(Live::NotAsked),
        _ => Err(Reason::Unread),
    }
}

/// The pods that may use what is to be emptied: those that mention the claim, and one whose volumes were not read.
fn pods(volume: &Volume, tables: &Tables) -> Result<Vec<Pod>, StoreError> {
    let table = tables.of(Resource::Pods);
    let (Policy::Recycle, Some(claim)) = (&volume.policy, volume.claim_ref.claim()) else {
        return Err(StoreError::Unlisted);
    };
    table.listed.clone()?;
    let key = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
    let names = tables.names(Kind::PodOfClaim).of(&key);
    let bare = tables.names(Kind::PodBare).within(&claim.namespace).take(1);
    let records = names
        .chain(bare)
        .filter_map(|name| table.get(&claim.namespace, name));
    Ok(records.map(pod).collect())
}

/// The same pods as a pass takes them.
fn users(volume: &Volume, tables: &Tables) -> Result<Vec<Arc<str>>, StoreError> {
    let pods = pods(volume, tables)?;
    let may_run = |pod: &&Pod| !matches!(&*pod.phase, "Succeeded" | "Failed");
    let users = pods.iter().filter(may_run).map(|pod| match pod.volumes {
        Some(_) => Ok(format!("{}/{}", pod.meta.namespace, pod.meta.name).into()),
        None => Err(StoreError::Unlisted),
    });
    users.collect()
}

/// Who provisioned a volume; empty where nobody did, or nobody knows who.
fn provisioner(volume: &Volume) -> &str {
    let annotations = volume.annotations.as_ref();
    let name = annotations.and_then(|annotations| annotations.provisioned_by.as_deref());
    name.unwrap_or_default()
}

/// A volume as the planners take it, with what the cluster does with the volumes of its provisioner.
pub(super) fn volume(record: &Record, tables: &Tables) -> Volume {
    let fields = match &record.fields {
        Fields::PersistentVolume(fields) => fields.clone(),
        _ => fields::PersistentVolume {
            phase: Phase::Unknown,
            policy: Policy::Unknown,
            claim_ref: Holder::Unknown,
            mode: None,
            annotations: None,
        },
    };
    let mut volume = Volume {
        meta: record.meta.clone(),
        phase: fields.phase,
        policy: fields.policy,
        claim_ref: fields.claim_ref,
        mode: fields.mode,
        annotations: fields.annotations,
        migration: Migration::Unknown,
    };
    let migration = tables.storage.migrations.get(provisioner(&volume));
    volume.migration = migration.cloned().unwrap_or_default();
    volume
}

/// A pod as the planners take it. One whose phase was not read may still run.
pub(super) fn pod(record: &Record) -> Pod {
    let unread = fields::Pod::default();
    let fields = match &record.fields {
        Fields::Pod(fields) => fields,
        _ => &unread,
    };
    let phase = fields.status.as_ref().map(|status| Arc::clone(&status.phase));
    Pod {
        meta: record.meta.clone(),
        node_name: fields.node_name.clone(),
        phase: phase.unwrap_or_default(),
        volumes: fields.volumes.clone(),
    }
}
