//! Deletes old ControllerRevisions of StatefulSets and DaemonSets beyond `spec.revisionHistoryLimit`, and
//! adopts and releases those of DaemonSets.
//!
//! - DaemonSet: a revision without a controller that the selector matches is adopted, and a revision of the
//!   DaemonSet that it no longer matches is released.
//! - up to 1.22: revisions of all namespaces are adopted; the garbage collector deletes those of other
//!   namespaces then, because an owner is looked up in the namespace of its dependent
//!   ([CP-22](crate::rules#cp-22)). A DaemonSet does so when something in its own namespace brings its sync
//!   about.
//! - StatefulSet: revisions in `status.currentRevision`, `status.updateRevision` or the label
//!   `controller-revision-hash` of a pod are live; of the others the oldest above the limit are deleted.
//! - DaemonSet: the revision of the present template is kept; of the others as many as there are above the
//!   limit are deleted, the oldest first, but none whose label `controller-revision-hash` a pod has.
//! - DaemonSet that is being deleted: nothing is deleted.
//! - either, when its spec was not observed yet: which revision is the present one is not known, so nothing
//!   is decided.
//!
//! The order is by `revision`, then creation and name. The revision of the present template of a DaemonSet is
//! the highest. Deletes carry no preconditions. Revisions and pods are found by their controller reference.
//! Revisions of StatefulSets are not adopted here, and equal revisions of a DaemonSet are not merged.
//!
//! # Upstream
//! [`truncateHistory`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_control.go)
//! in `stateful_set_control.go`, [`cleanupHistory`,
//! `controlledHistories`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/daemon/update.go)
//! in `update.go`; [before
//! 1.23](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/daemon/update.go) with all
//! namespaces.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Behavior, KubernetesVersion,
    record::{Field, ObjectId, Record, Resource},
};

use crate::{
    Action, Context, Decision, Index, Info, Key, MayChange, Missing, OnError, Reason, Rule, Sent,
    controller::read,
    owner::{
        Claimer, UNREAD_PODS, controlled, push_adopters, push_controller, push_labels, push_orphan,
        push_selector, require_pod_owners,
    },
};

/// Revisions of other namespaces are no longer adopted.
const OWN_NAMESPACE: Behavior = Behavior::since(23, 0, "kubernetes #101250");

const HASH_LABEL: &str = "controller-revision-hash";

static REVISIONS_BY_STATEFUL_SET: Index = Index::new(
    "controller revisions by stateful set",
    Resource::ControllerRevisions,
    |record, keys| push_controller(record, "StatefulSet", keys),
);
static REVISIONS_BY_DAEMON_SET: Index = Index::new(
    "controller revisions by daemon set",
    Resource::ControllerRevisions,
    |record, keys| push_controller(record, "DaemonSet", keys),
);
static PODS_BY_STATEFUL_SET: Index = Index::new("pods by stateful set", Resource::Pods, |record, keys| {
    push_controller(record, "StatefulSet", keys);
});
static PODS_BY_DAEMON_SET: Index = Index::new("pods by daemon set", Resource::Pods, |record, keys| {
    push_controller(record, "DaemonSet", keys);
});

/// The key with an empty namespace holds the revisions of all namespaces.
static ORPHANED_REVISIONS: Index = Index::new(
    "orphaned controller revisions by label",
    Resource::ControllerRevisions,
    |record, keys| {
        let own = keys.len();
        push_orphan(record, keys);
        if keys.len() > own {
            push_labels(&Arc::default(), &record.meta, keys);
        }
    },
);
static DAEMON_SETS_BY_SELECTOR: Index =
    Index::new("daemon sets by selector", Resource::DaemonSets, push_selector);

/// The writes that adopt and release revisions.
fn claim(
    version: KubernetesVersion,
    cx: &Context<'_>,
    key: &Key,
    id: &ObjectId,
    record: &Record,
) -> Result<Vec<Action>, Missing> {
    let owned: Vec<&Record> = controlled(cx, &REVISIONS_BY_DAEMON_SET, key, &record.meta).collect();
    let namespace = match version.has(OWN_NAMESPACE) {
        true => Arc::clone(&key.namespace),
        false => Arc::default(),
    };
    let any = Key::new(Arc::clone(&namespace), "");
    if owned.is_empty() && cx.cache.first_indexed(&ORPHANED_REVISIONS, &any).is_none() {
        return Ok(Vec::new());
    }
    let orphans = &ORPHANED_REVISIONS;
    Claimer { id, record, orphans }.claim(cx, &namespace, &owned, |_| Ok(true))
}

struct Owner<'a> {
    id: &'a ObjectId,
    record: &'a Record,
    limit: usize,
    observed_generation: i64,
}

impl<'a> Owner<'a> {
    fn new(
        id: &'a ObjectId,
        record: &'a Record,
        limit: &Field<Option<i32>>,
        observed_generation: &Field<i64>,
    ) -> Result<Self, Missing> {
        let limit = *read(limit, id, "spec.revisionHistoryLimit")?;
        Ok(Self {
            id,
            record,
            limit: usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX),
            observed_generation: *read(observed_generation, id, "status.observedGeneration")?,
        })
    }
}

/// The revisions of an owner in order; none if there are no more than the limit.
fn revisions<'a>(
    cx: &Context<'a>,
    key: &Key,
    owner: &Owner<'_>,
    index: &'static Index,
) -> Result<Vec<&'a Record>, Missing> {
    let all: Vec<&Record> = controlled(cx, index, key, &owner.record.meta).collect();
    cx.cache
        .require_in(Resource::ControllerRevisions, &key.namespace)?;
    if all.len() <= owner.limit {
        return Ok(Vec::new());
    }
    let mut ordered = Vec::with_capacity(all.len());
    for record in all {
        let id = record.id(Resource::ControllerRevisions);
        let body = cx.body(&id, record, Record::controller_revision)?;
        ordered.push((*read(&body.revision, &id, "revision")?, record));
    }
    let place = |record: &&Record| (record.meta.creation_timestamp, Arc::clone(&record.meta.name));
    ordered.sort_by(|(a, left), (b, right)| a.cmp(b).then_with(|| place(left).cmp(&place(right))));
    require_pod_owners(cx, &key.namespace)?;
    if owner.observed_generation < owner.record.meta.generation {
        let id = owner.id;
        return Err(Missing::outside(format!(
            "which ControllerRevision {id} uses, as its spec was not observed"
        )));
    }
    Ok(ordered.into_iter().map(|(_, record)| record).collect())
}

/// The hashes of the pods of an owner.
fn hashes(cx: &Context<'_>, key: &Key, owner: &Owner<'_>, index: &'static Index) -> BTreeSet<Arc<str>> {
    let pods = controlled(cx, index, key, &owner.record.meta);
    let hash = |pod: &Record| {
        pod.meta
            .labels
            .get(HASH_LABEL)
            .filter(|hash| !hash.is_empty())
            .cloned()
    };
    pods.filter_map(hash).collect()
}

/// Deletes the first `above` of the old revisions that are not live.
fn truncate(cx: &Context<'_>, owner: &Owner<'_>, old: Vec<(&Record, bool)>, mut above: usize) -> Decision {
    let mut decision = Decision::default();
    for (record, is_live) in old {
        let id = record.id(Resource::ControllerRevisions);
        if is_live {
            decision.add_kept(
                id,
                Reason::new("InUse", "a pod or the status of its owner names it"),
            );
        } else if above == 0 {
            decision.add_kept(id, Reason::new("WithinLimit", "it is within the history limit"));
        } else {
            above -= 1;
            if record.meta.is_deleting() {
                decision.add_kept(id, Reason::new("Terminating", "it is being deleted"));
                continue;
            }
            let reason = Reason::new("AboveLimit", "it is above the history limit of its owner");
            let action = cx.delete(id.resource, record, reason, Sent::Nothing, OnError::Retry);
            decision.actions.push(action);
        }
    }
    if decision.actions.is_empty() {
        let reason = Reason::new(
            "NothingToDelete",
            "no old ControllerRevision is above its history limit",
        );
        decision.add_kept(owner.id.clone(), reason);
    }
    decision
}

/// Keeps an owner that has no revisions, whatever its limit is.
fn without_revisions(
    cx: &Context<'_>,
    key: &Key,
    id: &ObjectId,
    record: &Record,
    index: &'static Index,
) -> Option<Decision> {
    let has_any = controlled(cx, index, key, &record.meta).next().is_some();
    let is_listed = cx
        .cache
        .require_in(Resource::ControllerRevisions, &key.namespace)
        .is_ok();
    let reason = Reason::new("NothingToDelete", "it has no ControllerRevisions");
    (!has_any && is_listed).then(|| Decision::keep(id.clone(), reason))
}

fn daemon_set(cx: &Context<'_>, key: &Key, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    if let Some(kept) = without_revisions(cx, key, id, record, &REVISIONS_BY_DAEMON_SET) {
        return Ok(kept);
    }
    let set = cx.body(id, record, Record::daemon_set)?;
    let owner = Owner::new(id, record, &set.revision_history_limit, &set.observed_generation)?;
    let mut old = revisions(cx, key, &owner, &REVISIONS_BY_DAEMON_SET)?;
    old.pop();
    let live = hashes(cx, key, &owner, &PODS_BY_DAEMON_SET);
    let is_live = |record: &Record| {
        record
            .meta
            .labels
            .get(HASH_LABEL)
            .is_some_and(|hash| live.contains(hash))
    };
    let above = old.len().saturating_sub(owner.limit);
    Ok(truncate(
        cx,
        &owner,
        old.into_iter().map(|record| (record, is_live(record))).collect(),
        above,
    ))
}

/// The part of the StatefulSet controller that deletes ControllerRevisions.
pub static STATEFUL_SETS: Rule = Rule {
    info: Info {
        // Upstream both parts are one controller; names are unique here.
        name: "statefulset-history-controller",
        summary: "deletes old ControllerRevisions of StatefulSets beyond the history limit",
        resources: &[
            Resource::StatefulSets,
            Resource::ControllerRevisions,
            Resource::Pods,
        ],
        indexes: &[&REVISIONS_BY_STATEFUL_SET, &PODS_BY_STATEFUL_SET, &UNREAD_PODS],
        affected_by: &[&REVISIONS_BY_STATEFUL_SET, &PODS_BY_STATEFUL_SET],
        permissions: &[(Resource::ControllerRevisions, "", &["delete"])],
        may_change: &[MayChange::LiveDependents(Resource::ControllerRevisions)],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_control.go",
        ..Info::BASE
    },
    decide: |_, cx, id, record| stateful_set(cx, id, record),
    ..Rule::BASE
};

/// The part of the DaemonSet controller that adopts, releases and deletes ControllerRevisions.
pub static DAEMON_SETS: Rule = Rule {
    info: Info {
        name: "daemonset-controller",
        summary: "adopts the ControllerRevisions of DaemonSets, and deletes those beyond the history limit",
        resources: &[
            Resource::DaemonSets,
            Resource::ControllerRevisions,
            Resource::Pods,
        ],
        indexes: &[
            &REVISIONS_BY_DAEMON_SET,
            &PODS_BY_DAEMON_SET,
            &UNREAD_PODS,
            &ORPHANED_REVISIONS,
            &DAEMON_SETS_BY_SELECTOR,
        ],
        affected_by: &[&REVISIONS_BY_DAEMON_SET, &PODS_BY_DAEMON_SET],
        permissions: &[(Resource::ControllerRevisions, "", &["delete", "patch"])],
        may_change: &[MayChange::Adopted(Resource::ControllerRevisions)],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/daemon/update.go",
        ..Info::BASE
    },
    affected: Some(|_, cache, change, keys| {
        DAEMON_SETS.info.push_affected(cache, change, keys);
        let indexes = [&ORPHANED_REVISIONS, &DAEMON_SETS_BY_SELECTOR];
        push_adopters(cache, indexes, change, keys);
    }),
    decide: |version, cx, id, record| {
        let key = &Key::from(&record.meta);
        if record.meta.is_deleting() {
            let reason = Reason::new("Terminating", "it is being deleted");
            return Ok(Decision::keep(id.clone(), reason));
        }
        let actions = claim(version, cx, key, id, record)?;
        if actions.is_empty() {
            return daemon_set(cx, key, id, record);
        }
        Ok(Decision::acts(actions))
    },
    ..Rule::BASE
};

fn stateful_set(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let key = &Key::from(&record.meta);
    if let Some(kept) = without_revisions(cx, key, id, record, &REVISIONS_BY_STATEFUL_SET) {
        return Ok(kept);
    }
    let set = cx.body(id, record, Record::stateful_set)?;
    let owner = Owner::new(id, record, &set.revision_history_limit, &set.observed_generation)?;
    let all = revisions(cx, key, &owner, &REVISIONS_BY_STATEFUL_SET)?;
    let mut live = hashes(cx, key, &owner, &PODS_BY_STATEFUL_SET);
    live.insert(Arc::clone(read(
        &set.current_revision,
        id,
        "status.currentRevision",
    )?));
    live.insert(Arc::clone(read(
        &set.update_revision,
        id,
        "status.updateRevision",
    )?));
    let judged: Vec<_> = all
        .into_iter()
        .map(|record| (record, live.contains(&record.meta.name)))
        .collect();
    let old = judged.iter().filter(|(_, is_live)| !is_live).count();
    Ok(truncate(cx, &owner, judged, old.saturating_sub(owner.limit)))
}
