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

use std::collections::BTreeSet;

use crate::{
    owner::{
        Claimer, UNREAD_PODS, controlled, push_adopters, push_controller, push_labels, push_orphan,
        push_selector, require_pod_owners,
    },
    prelude::*,
};

/// Revisions of other namespaces are no longer adopted.
const OWN_NAMESPACE: Behavior = Behavior::since(23, 0, "kubernetes #101250");

const HASH_LABEL: &str = "controller-revision-hash";

static REVISIONS_BY_STATEFUL_SET: Index = Index::new(Resource::ControllerRevisions, |record, keys| {
    push_controller(record, "StatefulSet", keys)
});
static REVISIONS_BY_DAEMON_SET: Index = Index::new(Resource::ControllerRevisions, |record, keys| {
    push_controller(record, "DaemonSet", keys)
});
static PODS_BY_STATEFUL_SET: Index = Index::new(Resource::Pods, |record, keys| {
    push_controller(record, "StatefulSet", keys);
});
static PODS_BY_DAEMON_SET: Index = Index::new(Resource::Pods, |record, keys| {
    push_controller(record, "DaemonSet", keys);
});

/// The key with an empty namespace holds the revisions of all namespaces.
static ORPHANED_REVISIONS: Index = Index::new(Resource::ControllerRevisions, |record, keys| {
    let own = keys.len();
    push_orphan(record, keys);
    if keys.len() > own {
        push_labels(&Arc::default(), &record.meta, keys);
    }
});
static DAEMON_SETS_BY_SELECTOR: Index = Index::new(Resource::DaemonSets, push_selector);

fn claim(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Vec<Action>, Missing> {
    let owned: Vec<&Record> = controlled(cx, &REVISIONS_BY_DAEMON_SET, id).collect();
    let namespace = match cx.has(OWN_NAMESPACE) {
        true => Arc::clone(&id.namespace),
        false => Arc::default(),
    };
    let any = Key::new(Arc::clone(&namespace), "");
    if owned.is_empty() && cx.cache.first_indexed(&ORPHANED_REVISIONS, &any).is_none() {
        return Ok(Vec::new());
    }
    let orphans = &ORPHANED_REVISIONS;
    Claimer { id, record, orphans }.claim(cx, &namespace, &owned, |_| Ok(true))
}

/// Deletes the revisions of a StatefulSet or DaemonSet beyond its limit, out of indexes by owner.
fn truncate(
    cx: &Context<'_>,
    id: &ObjectId,
    owner: &Record,
    [revisions, pods]: [&'static Index; 2],
) -> Result<Decision, Missing> {
    let all: Vec<&Record> = controlled(cx, revisions, id).collect();
    let listed = cx.cache.require_in(Resource::ControllerRevisions, &id.namespace);
    if all.is_empty() && listed.is_ok() {
        return id.keep("NothingToDelete", "it has no ControllerRevisions");
    }
    let stateful_set = owner.stateful_set();
    let fields = stateful_set.map(|set| (&set.revision_history_limit, &set.observed_generation));
    let daemon_set = owner.daemon_set();
    let fields = fields.or(daemon_set.map(|set| (&set.revision_history_limit, &set.observed_generation)));
    let (limit, observed) = fields.ok_or_else(|| Missing::Object { object: id.clone() })?;
    let limit = id.read(limit, "spec.revisionHistoryLimit")?.unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let observed = *id.read(observed, "status.observedGeneration")?;
    listed?;
    let mut old = Vec::new();
    if all.len() > limit {
        for record in all {
            let (id, body) = read_as(Resource::ControllerRevisions, record, Record::controller_revision)?;
            old.push((*id.read(&body.revision, "revision")?, record));
        }
        let place =
            |(_, record): &(_, &Record)| (record.meta.creation_timestamp, Arc::clone(&record.meta.name));
        old.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| place(a).cmp(&place(b))));
        require_pod_owners(cx, &id.namespace)?;
        if observed < owner.meta.generation {
            return Err(Missing::outside(format!(
                "which ControllerRevision {id} uses, as its spec was not observed"
            )));
        }
    }
    let hash = |record: &Record| {
        let hash = record.meta.labels.get(HASH_LABEL);
        hash.filter(|hash| !hash.is_empty()).cloned()
    };
    let mut live: BTreeSet<Arc<str>> = controlled(cx, pods, id).filter_map(hash).collect();
    let mut above = if let Some(set) = stateful_set {
        live.insert(Arc::clone(
            id.read(&set.current_revision, "status.currentRevision")?,
        ));
        live.insert(Arc::clone(
            id.read(&set.update_revision, "status.updateRevision")?,
        ));
        old.iter()
            .filter(|(_, record)| !live.contains(&record.meta.name))
            .count()
    } else {
        // The last one is that of the present template.
        old.pop();
        old.len()
    };
    above = above.saturating_sub(limit);
    let mut decision = Decision::default();
    for (_, record) in old {
        let revision = record.id(Resource::ControllerRevisions);
        let is_live = match stateful_set {
            Some(_) => live.contains(&record.meta.name),
            None => hash(record).is_some_and(|hash| live.contains(&hash)),
        };
        let (code, message) = if is_live {
            ("InUse", "a pod or the status of its owner names it")
        } else if above == 0 {
            ("WithinLimit", "it is within the history limit")
        } else {
            above -= 1;
            if !record.meta.is_deleting() {
                let reason = Reason::new("AboveLimit", "it is above the history limit of its owner");
                let delete = cx.delete(&revision, record, reason, Sent::Nothing, OnError::Retry);
                decision.actions.push(delete);
                continue;
            }
            ("Terminating", "it is being deleted")
        };
        decision.add_kept(revision, Reason::new(code, message));
    }
    if decision.actions.is_empty() {
        let message = "no old ControllerRevision is above its history limit";
        decision.add_kept(id.clone(), Reason::new("NothingToDelete", message));
    }
    Ok(decision)
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
    decide: |cx, id, record| {
        truncate(
            cx,
            id,
            record,
            [&REVISIONS_BY_STATEFUL_SET, &PODS_BY_STATEFUL_SET],
        )
    },
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
    keeps_terminating: true,
    decide: |cx, id, record| match claim(cx, id, record)? {
        actions if actions.is_empty() => {
            truncate(cx, id, record, [&REVISIONS_BY_DAEMON_SET, &PODS_BY_DAEMON_SET])
        }
        actions => Ok(actions.into()),
    },
    ..Rule::BASE
};
