//! Looks at one stateful set at a time, with its claims and its pods.
//!
//! Claims and pods are found by their names, as upstream finds them. Where another set has a template for the same claim, that set is looked at
//! beside it, so that both looks agree on whose the claim is.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{ObjectMeta, Planner, StoreError, Timestamp};

use super::{Look, OnFailure, subject};
use crate::{
    controller::{
        Basis, Reason, Work,
        table::{Key, key_of},
        tables::{Change, Tables},
    },
    fields::{Fields, Record},
    object::{Failure, Object, Resource, Wire},
    statefulset::{self, Action, Facts, Settings, StatefulSet},
};

/// Of a pod only what it is and who controls it matters.
pub(in crate::controller) fn concerned(
    _settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::StatefulSets => {
            keys.push(change.key.clone());
            let is_as_before = match (change.old, change.new) {
                (Some(old), Some(new)) => {
                    old.meta.uid == new.meta.uid
                        && old.meta.is_deleting() == new.meta.is_deleting()
                        && old.fields == new.fields
                }
                _ => false,
            };
            if !is_as_before {
                for record in change.old.into_iter().chain(change.new) {
                    keys.extend(rivals(record, tables));
                }
            }
        }
        Resource::PersistentVolumeClaims => keys.extend(sets_with(change.key, tables)),
        Resource::Pods => {
            let is_as_before = match (change.old, change.new) {
                (Some(old), Some(new)) => {
                    old.meta.uid == new.meta.uid && old.meta.owner_references == new.meta.owner_references
                }
                _ => false,
            };
            if !is_as_before {
                keys.extend(sets_of_pod(change.key, tables));
            }
        }
        _ => {}
    }
}

pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::StatefulSets).keys());
}

/// # Complexity
/// O(k log n) for `k` claims of the set and of those whose names begin like its own.
pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let record = match subject(tables, Resource::StatefulSets, key, &[Resource::StatefulSets]) {
        Ok(record) => record,
        Err(look) => return *look,
    };
    let object = Object::new(Resource::StatefulSets, &record.meta);
    let mut sets = BTreeSet::from([key.clone()]);
    let mut pods = BTreeSet::new();
    let mut claims = Vec::new();
    for (claim, found) in claims_of(record, tables) {
        if found.fields == Fields::MetadataUnread {
            return Look::undecided(object, Reason::Unread);
        }
        claims.push(found.meta.clone());
        let Some((_, ordinal)) = split(&claim.1) else {
            continue;
        };
        for (namespace, set) in sets_with(&claim, tables) {
            pods.insert((namespace.clone(), Arc::from(format!("{set}-{ordinal}"))));
            sets.insert((namespace, set));
        }
    }
    let mut facts = Facts {
        sets: Vec::new(),
        pods: metas(tables, Resource::Pods, &pods),
        claims: tables
            .of(Resource::PersistentVolumeClaims)
            .listed
            .clone()
            .map(|()| claims),
        failed_claims: [].into(),
    };
    for set in &sets {
        let Some(record) = tables.get(Resource::StatefulSets, set) else {
            continue;
        };
        match stateful_set(record) {
            Some(set) => facts.sets.push(set),
            // It may have any template: whose the claims are is not known.
            None => {
                let object = Object::new(Resource::StatefulSets, &record.meta);
                return Look::undecided(object, Reason::Unread);
            }
        }
    }
    let plan = settings.plan(&facts, now);
    let mut look = Look::default();
    look.keep(plan.kept, Reason::StatefulSet);
    let ours = plan
        .actions
        .iter()
        .filter(|action| set_of(action) == Some(&object));
    for action in ours {
        let reason = Reason::StatefulSet(action.reason().clone());
        look.act(action, reason, wire, rests_on(action, record, tables));
    }
    look
}

/// The set as it was listed, and the pod of the claim, which may change in all that does not matter here.
fn rests_on(action: &Action, set: &Record, tables: &Tables) -> Vec<Basis> {
    let Action::SetOwners { object: claim, .. } = action else {
        return Vec::new();
    };
    let pod = split(&claim.name).and_then(|(_, ordinal)| {
        let name = format!("{}-{ordinal}", set.meta.name);
        tables.get(Resource::Pods, &(claim.namespace.clone(), name.into()))
    });
    let pod = pod.map(|pod| Basis::there(Resource::Pods, &pod.meta));
    let set = Basis::same(Resource::StatefulSets, &set.meta);
    [set].into_iter().chain(pod).collect()
}

/// A failed write is tried again, later each time.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(_error: &StoreError) -> Failure {
        Failure::Retried
    }
    failure
}

/// The set for which something is done.
fn set_of(action: &Action) -> Option<&Object> {
    match action {
        Action::Warn { object, .. } => Some(object),
        Action::SetOwners { reason, warns, .. } => match reason {
            statefulset::Reason::OwnersUnfit { set, .. } => Some(set),
            _ => warns.as_ref(),
        },
    }
}

/// Splits `<base>-<ordinal>`.
fn split(name: &str) -> Option<(&str, &str)> {
    let (base, ordinal) = name.rsplit_once('-')?;
    let is_ordinal = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    is_ordinal.then_some((base, ordinal))
}

/// The claims that are named like those of a set, in the order of its templates; none where these were not read.
fn claims_of<'a>(set: &'a Record, tables: &'a Tables) -> impl Iterator<Item = (Key, &'a Record)> {
    let templates: BTreeSet<&Arc<str>> = match &set.fields {
        Fields::StatefulSet(fields) => fields.templates.iter().collect(),
        _ => BTreeSet::new(),
    };
    let claims = tables.of(Resource::PersistentVolumeClaims);
    templates.into_iter().flat_map(move |template| {
        let prefix = format!("{template}-{}-", set.meta.name);
        let found = claims.with_prefix(&set.meta.namespace, &prefix);
        let base = prefix.len().saturating_sub(1);
        found
            .filter(move |claim| split(&claim.meta.name).is_some_and(|(of, _)| of.len() == base))
            .map(|claim| (key_of(&claim.meta), claim))
    })
}

/// The known sets that have a template for a claim of this name, or may have one.
fn sets_with(claim: &Key, tables: &Tables) -> Vec<Key> {
    let (namespace, name) = claim;
    let base = split(name).map_or("", |(base, _)| base);
    let parts = base
        .match_indices('-')
        .filter_map(|(at, _)| Some((base.get(..at)?, base.get(at + 1..)?)));
    let sets = parts.filter_map(|(template, set)| {
        let key = (Arc::clone(namespace), Arc::from(set));
        let record = tables.get(Resource::StatefulSets, &key)?;
        let may_have = match &record.fields {
            Fields::StatefulSet(fields) => fields.templates.iter().any(|name| **name == *template),
            _ => true,
        };
        may_have.then_some(key)
    });
    sets.collect()
}

/// The sets that have, or may have, a claim together with this one.
fn rivals(set: &Record, tables: &Tables) -> Vec<Key> {
    let claims = claims_of(set, tables).flat_map(|(key, _)| sets_with(&key, tables));
    if matches!(set.fields, Fields::StatefulSet(_)) {
        return claims.collect();
    }
    // It may have any template: of the two names, one then ends like the other.
    let ends_like =
        |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('-'));
    let name = &set.meta.name;
    let others = tables
        .of(Resource::StatefulSets)
        .of_namespace(&set.meta.namespace);
    let others = others.map(|other| key_of(&other.meta));
    others
        .filter(|(_, other)| ends_like(other, name) || ends_like(name, other))
        .collect()
}

/// The sets to whose claims it matters whether there is a pod of this name.
fn sets_of_pod((namespace, pod): &Key, tables: &Tables) -> Vec<Key> {
    let Some((set, ordinal)) = split(pod) else {
        return Vec::new();
    };
    let key: Key = (Arc::clone(namespace), set.into());
    let Some(record) = tables.get(Resource::StatefulSets, &key) else {
        return Vec::new();
    };
    let templates = match &record.fields {
        Fields::StatefulSet(fields) => fields.templates.as_slice(),
        _ => &[],
    };
    let claims = templates.iter().map(|template| {
        let name = format!("{template}-{set}-{ordinal}");
        (Arc::clone(namespace), Arc::from(name))
    });
    let rivals = claims.flat_map(|claim| sets_with(&claim, tables));
    rivals.chain([key.clone()]).collect()
}

/// The metadata of these objects, as far as they exist; why not where nobody knows.
fn metas(tables: &Tables, resource: Resource, keys: &BTreeSet<Key>) -> Result<Vec<ObjectMeta>, StoreError> {
    tables.of(resource).listed.clone()?;
    let records = keys.iter().filter_map(|key| tables.get(resource, key));
    Ok(records.map(|record| record.meta.clone()).collect())
}

/// A set as the planner takes it; `None` where it was not read.
fn stateful_set(record: &Record) -> Option<StatefulSet> {
    let Fields::StatefulSet(fields) = &record.fields else {
        return None;
    };
    Some(StatefulSet {
        meta: record.meta.clone(),
        replicas: fields.replicas,
        first_ordinal: fields.first_ordinal,
        when_deleted: fields.when_deleted.clone(),
        when_scaled: fields.when_scaled.clone(),
        templates: fields.templates.clone(),
    })
}
