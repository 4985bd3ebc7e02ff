//! Completes manifests: adds to objects that were never stored the fields that the API server sets in new
//! ones.
//!
//! A manifest has neither uid nor resourceVersion. Its identity is its name: the references that name it are
//! taken to mean it, with any uid.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kubegc_core::{Catalog, KindId, OwnerReference, Uid, identity::split_api_version};

use crate::{
    Finding, Problem,
    completeness::Why,
    ingest::Ingest,
    store::{Record, Store},
};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Puts namespaced manifests without a namespace into this one; whether there were any.
pub(crate) fn fill_namespaces(
    ingest: &mut Ingest,
    catalog: &Catalog,
    kind_ids: &[Option<KindId>],
    namespace: &str,
) -> bool {
    let Ingest { store, findings, .. } = ingest;
    let default = store.texts.number(namespace);
    let mut is_any = false;
    for at in 0..store.records.len() {
        let record = &store.records[at];
        let kind = kind_ids[record.type_id as usize];
        let is_namespaced = kind.is_some_and(|kind| catalog[kind].is_namespaced());
        if record.is_manifest && is_namespaced && store.texts.text(record.namespace).is_empty() {
            store.records[at].namespace = default;
            let finding = assumed(store, &store.records[at], "metadata.namespace", namespace);
            findings.add(Problem::Assumed, || finding);
            is_any = true;
        }
    }
    is_any
}

/// Adds a uid and the finalizers of the API server to manifests, and to owner references without a uid that
/// of the object that they name.
///
/// # Complexity
/// O((n + r) log n) for n objects and r owner references; O(n + r) if no uid is missing.
pub(crate) fn fill_identities(ingest: &mut Ingest) {
    let store = &ingest.store;
    let is_any = store.records.iter().any(|record| record.is_manifest)
        || store
            .owner_lists
            .iter()
            .flatten()
            .any(|owner| owner.uid.is_empty());
    if !is_any {
        return;
    }
    let uids = assumed_uids(store);
    for at in 0..ingest.store.records.len() {
        if ingest.store.records[at].is_manifest {
            fill_uid(ingest, at, &uids);
            add_finalizers(&mut ingest.store, at);
        }
    }
    fill_references(ingest);
}

/// Group, kind, namespace and name.
type Name<'s> = (&'s str, &'s str, &'s str, &'s str);

fn name_of<'s>(store: &'s Store, record: &'s Record) -> Name<'s> {
    let (group, kind) = store.group_kind(record.type_id);
    (group, kind, store.texts.text(record.namespace), &record.name)
}

/// The objects that an owner reference may name: in the namespace of the dependent, or cluster-scoped.
fn named_by<'s>(store: &'s Store, dependent: &Record, owner: &'s OwnerReference) -> [Name<'s>; 2] {
    let name = |namespace: &'s str| {
        let group = split_api_version(&owner.api_version).0;
        (group, &*owner.kind, namespace, &*owner.name)
    };
    [name(store.texts.text(dependent.namespace)), name("")]
}

/// The uid to assume for each manifest, by its position in the store: the one by which references name it,
/// otherwise one of its own. `None` if references disagree.
fn assumed_uids(store: &Store) -> BTreeMap<usize, Option<Uid>> {
    let manifests = (0..store.records.len()).filter(|&at| store.records[at].is_manifest);
    let by_name: BTreeMap<Name<'_>, usize> = manifests
        .map(|at| (name_of(store, &store.records[at]), at))
        .collect();
    let stored = store.records.iter().filter(|record| !record.uid.is_empty());
    let taken: BTreeSet<&Uid> = stored.map(|record| &record.uid).collect();
    let mut uids: BTreeMap<usize, Option<Uid>> = BTreeMap::new();
    for dependent in &store.records {
        for owner in store.owners_of(dependent) {
            let uid = &owner.uid;
            let names = named_by(store, dependent, owner);
            let Some(&named) = names.iter().find_map(|name| by_name.get(name)) else {
                continue;
            };
            if uid.is_empty() || taken.contains(uid) {
                continue;
            }
            uids.entry(named)
                .and_modify(|known| {
                    if known.as_ref() != Some(uid) {
                        *known = None;
                    }
                })
                .or_insert_with(|| Some(uid.clone()));
        }
    }
    // A uid that references give to several objects belongs to none of them for certain.
    let mut users: BTreeMap<Uid, usize> = BTreeMap::new();
    for uid in uids.values().flatten() {
        *users.entry(uid.clone()).or_default() += 1;
    }
    for uid in uids.values_mut() {
        if uid.as_ref().is_some_and(|uid| users[uid] > 1) {
            *uid = None;
        }
    }
    for &at in by_name.values() {
        uids.entry(at).or_insert_with(|| {
            let (group, kind, namespace, name) = name_of(store, &store.records[at]);
            Some(Uid::new(&format!("assumed:{group}/{kind}/{namespace}/{name}")))
        });
    }
    uids
}

fn fill_uid(ingest: &mut Ingest, at: usize, uids: &BTreeMap<usize, Option<Uid>>) {
    let Some(uid) = uids.get(&at).cloned().flatten() else {
        ingest.revoke(Some(ingest.store.records[at].type_id), Why::NoUid(1));
        let detail = "missing, and owner references give several";
        flaw(ingest, at, Problem::NoUid, "metadata.uid", detail);
        return;
    };
    let finding = assumed(&ingest.store, &ingest.store.records[at], "metadata.uid", &uid);
    ingest.findings.add(Problem::Assumed, || finding);
    ingest.store.records[at].uid = uid;
}

/// The finalizers that admission adds to claims and volumes.
fn add_finalizers(store: &mut Store, at: usize) {
    let record = &store.records[at];
    let (api_version, kind) = store.type_texts(record.type_id);
    let protection = match (&**api_version, &**kind) {
        ("v1", "PersistentVolumeClaim") => CLAIM_PROTECTION,
        ("v1", "PersistentVolume") => VOLUME_PROTECTION,
        _ => return,
    };
    let protection = store.texts.share(protection);
    let extra = store.records[at].extra.get_or_insert_default();
    if !extra.finalizers.contains(&protection) {
        extra.finalizers.push(protection);
    }
}

/// Completes owner references without a uid with that of the object that they name, or reports them.
fn fill_references(ingest: &mut Ingest) {
    let store = &ingest.store;
    // Values that a redactor hides were reported when they were read.
    let read = store.records.iter().enumerate();
    let mut wanted = Vec::new();
    for (at, record) in read.filter(|(_, record)| !record.meta_flawed) {
        let owners = store.owners_of(record).iter().enumerate();
        let empty = owners.filter(|(_, owner)| owner.uid.is_empty());
        wanted.extend(empty.map(|(index, _)| (at, index)));
    }
    if wanted.is_empty() {
        return;
    }
    let identified = store.records.iter().filter(|record| !record.uid.is_empty());
    let by_name: BTreeMap<Name<'_>, &Uid> = identified
        .map(|record| (name_of(store, record), &record.uid))
        .collect();
    let found: Vec<Option<Uid>> = wanted
        .iter()
        .map(|&(at, index)| {
            let record = &store.records[at];
            let names = named_by(store, record, &store.owners_of(record)[index]);
            let uid = names.iter().find_map(|name| by_name.get(name));
            uid.map(|&uid| uid.clone())
        })
        .collect();
    for ((at, index), uid) in wanted.into_iter().zip(found) {
        let field = format!("metadata.ownerReferences[{index}].uid");
        let Some(uid) = uid else {
            flaw(ingest, at, Problem::IncompleteOwner, &field, "missing");
            continue;
        };
        let store = &mut ingest.store;
        let finding = assumed(store, &store.records[at], &field, &uid);
        ingest.findings.add(Problem::Assumed, || finding);
        let mut owners = store.owners_of(&store.records[at]).to_vec();
        owners[index].uid = uid;
        store.records[at].owners = store.owner_lists.number(&*owners);
    }
}

fn assumed(store: &Store, record: &Record, field: &str, value: impl fmt::Display) -> Finding {
    let detail = format!("missing: {value} is assumed");
    Finding::of_record(store, record, Problem::Assumed, field, &detail)
}

/// Reports a part of the metadata that is missing.
fn flaw(ingest: &mut Ingest, at: usize, problem: Problem, field: &str, detail: &str) {
    let record = &mut ingest.store.records[at];
    record.flawed = true;
    record.meta_flawed = true;
    let store = &ingest.store;
    let finding = || Finding::of_record(store, &store.records[at], problem, field, detail);
    ingest.findings.add(problem, finding);
}
