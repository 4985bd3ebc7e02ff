//! Adopts and releases the pods of ReplicaSets, and deletes their surplus pods.
//!
//! Pods in phase `Succeeded` or `Failed`, and pods that are being deleted, do not count: they are neither
//! adopted nor released nor deleted.
//!
//! | rule | behavior |
//! |---|---|
//! | [CP-20](crate::rules#cp-20) | a pod without a controller that the selector matches is adopted |
//! | [CP-20](crate::rules#cp-20) | a pod of the ReplicaSet that the selector no longer matches is released |
//! | | a ReplicaSet that is being deleted does neither, and deletes nothing |
//! | | of the pods above `spec.replicas`, those are deleted that come first in the order below |
//!
//! The order: pods without a node; phase `Pending`, `Unknown`, then others; pods that are not ready; the
//! lower deletion cost; those on nodes with more pods of the same Deployment; those that became ready later;
//! those restarted more often; the younger ones. From 1.22 on, times are compared by the logarithm of the
//! age, and by uid if that is equal. Pods that are equal in all of this are ordered by name; upstream's
//! order of these is random.
//!
//! Not modelled: pods that are missing are not created, and the status is not written. Upstream deletes at
//! most 500 pods in one sync, and restarts of sidecars count for themselves from 1.28 on.
//!
//! # Upstream
//! [`syncReplicaSet`, `manageReplicas`,
//! `getPodsToDelete`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/replicaset/replica_set.go)
//! in `replica_set.go`;
//! [`ActivePodsWithRanks`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/controller_utils.go)
//! in `controller_utils.go`. The same in all releases but for the order.

use std::{cmp::Ordering, collections::BTreeMap};

use kubegc_core::{LabelSelector, record::ReplicaSet};

use crate::{
    owner::{
        Claimer, UNREAD_PODS, controlled, push_adopters, push_controller, push_orphan, push_selector,
        require_pod_owners,
    },
    prelude::*,
};

/// The feature gate `PodDeletionCost`: alpha in 1.21, beta and on from 1.22.
const DELETION_COST: Behavior = Behavior::since(22, 0, "feature gate PodDeletionCost is beta");
const DELETION_COST_ANNOTATION: &str = "the annotation controller.kubernetes.io/pod-deletion-cost";
/// The feature gate `LogarithmicScaleDown`: alpha in 1.21, beta and on from 1.22.
const LOGARITHMIC: Behavior = Behavior::since(22, 0, "feature gate LogarithmicScaleDown is beta");

static PODS_BY_REPLICA_SET: Index = Index::new(Resource::Pods, |record, keys| {
    push_controller(record, "ReplicaSet", keys);
});
static ORPHANED_PODS: Index = Index::new(Resource::Pods, push_orphan);
static BY_SELECTOR: Index = Index::new(Resource::ReplicaSets, push_selector);
/// ReplicaSets by the namespace and uid of their controller.
static BY_CONTROLLER: Index = Index::new(Resource::ReplicaSets, |record, keys| {
    if let Some(owner) = record.meta.controller() {
        keys.push(Key::new(
            Arc::clone(&record.meta.namespace),
            owner.uid.to_string(),
        ));
    }
});

/// The pods in the order in which they are deleted.
fn in_order<'a>(
    cx: &RuleContext<'a>,
    set: &Record,
    pods: Vec<&'a Record>,
) -> Result<Vec<&'a Record>, Missing> {
    let related = related_pods_by_node(cx, set)?;
    let mut ordered: Vec<Rank<'_>> = Vec::with_capacity(pods.len());
    for record in pods {
        let rank = Rank::of(record, &related)?;
        // Upstream's order is not always transitive, which sort functions may refuse.
        let at = ordered.partition_point(|other| compare(cx, other, &rank) != Ordering::Greater);
        ordered.insert(at, rank);
    }
    Ok(ordered.into_iter().map(|rank| rank.record).collect())
}

fn compare(cx: &RuleContext<'_>, a: &Rank<'_>, b: &Rank<'_>) -> Ordering {
    let by_cost = || match cx.has(DELETION_COST) {
        true => a.cost.cmp(&b.cost),
        false => Ordering::Equal,
    };
    let by_readiness = || match (a.ready_at, b.ready_at) {
        (Some(left), Some(right)) => youngest(cx, (a, left), (b, right)),
        _ => Ordering::Equal,
    };
    let created = |rank: &Rank<'_>| rank.record.meta.creation_timestamp.unwrap_or(Timestamp::EPOCH);
    let has_node = |rank: &Rank<'_>| !rank.node.is_empty();
    has_node(a)
        .cmp(&has_node(b))
        .then_with(|| a.phase.cmp(&b.phase))
        .then_with(|| a.ready_at.is_some().cmp(&b.ready_at.is_some()))
        .then_with(by_cost)
        .then_with(|| b.related.cmp(&a.related))
        .then_with(by_readiness)
        .then_with(|| b.restarts.cmp(&a.restarts))
        .then_with(|| youngest(cx, (a, created(a)), (b, created(b))))
}

/// The younger one first; one without a time counts as the youngest.
fn youngest(
    cx: &RuleContext<'_>,
    (a, left): (&Rank<'_>, Timestamp),
    (b, right): (&Rank<'_>, Timestamp),
) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    if cx.has(LOGARITHMIC) {
        let uid = |rank: &Rank<'_>| rank.record.meta.uid.to_string();
        return magnitude(cx.now, left)
            .cmp(&magnitude(cx.now, right))
            .then_with(|| uid(a).cmp(&uid(b)));
    }
    let is_unset = |at: Timestamp| at == Timestamp::EPOCH;
    is_unset(right)
        .cmp(&is_unset(left))
        .then_with(|| right.cmp(&left))
}

/// The binary logarithm of an age in nanoseconds, rounded down; -1 for what lies in the future.
fn magnitude(now: Timestamp, at: Timestamp) -> i64 {
    let age = now.since(at).as_nanos();
    age.checked_ilog2().map_or(-1, i64::from)
}

/// The properties that determine which of several pods is deleted first.
struct Rank<'a> {
    record: &'a Record,
    node: Arc<str>,
    phase: u8,
    ready_at: Option<Timestamp>,
    cost: i32,
    /// Pods of related ReplicaSets on its node.
    related: usize,
    restarts: i64,
}

impl<'a> Rank<'a> {
    fn of(record: &'a Record, related: &BTreeMap<Arc<str>, usize>) -> Result<Self, Missing> {
        let (id, pod) = read_as(Resource::Pods, record, Record::pod)?;
        let node = Arc::clone(id.read(&pod.node_name, "spec.nodeName")?);
        Ok(Self {
            record,
            related: related.get(&node).copied().unwrap_or(0),
            node,
            phase: match &**id.read(&pod.phase, "status.phase")? {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            ready_at: *id.read(&pod.ready_at, "status.conditions")?,
            cost: *id.read(&pod.deletion_cost, DELETION_COST_ANNOTATION)?,
            restarts: *id.read(&pod.restart_count_max, "status.containerStatuses")?,
        })
    }
}

/// Returns whether a pod is active, unless that was not read.
fn may_be_active(record: &Record) -> bool {
    let has_final_phase = record.pod().and_then(Pod::has_final_phase);
    !record.meta.is_deleting() && has_final_phase != Some(true)
}

fn is_active(record: &Record) -> Result<bool, Missing> {
    if record.meta.is_deleting() {
        return Ok(false);
    }
    let (id, pod) = read_as(Resource::Pods, record, Record::pod)?;
    id.read(&pod.phase, "status.phase")
        .map(|phase| !matches!(&**phase, "Succeeded" | "Failed"))
}

/// Active pods on each node that match a ReplicaSet with the same controller. Without a controller there are
/// none.
fn related_pods_by_node(cx: &Context<'_>, set: &Record) -> Result<BTreeMap<Arc<str>, usize>, Missing> {
    let mut by_node = BTreeMap::new();
    let Some(owner) = set.meta.controller() else {
        return Ok(by_node);
    };
    let namespace = &set.meta.namespace;
    cx.cache.require_in(Resource::ReplicaSets, namespace)?;
    let key = Key::new(Arc::clone(namespace), owner.uid.to_string());
    let mut selectors: Vec<&LabelSelector> = Vec::new();
    for related in cx.cache.indexed_records(&BY_CONTROLLER, &key) {
        let id = related.id(Resource::ReplicaSets);
        let ReplicaSet { selector, .. } = id.body(related, Record::replica_set)?;
        selectors.push(id.read(selector, "spec.selector")?);
    }
    for pod in cx.cache.in_namespace(Resource::Pods, namespace) {
        let mut all = selectors.iter().filter(|selector| !selector.is_empty());
        if all.any(|selector| selector.matches(&pod.meta)) && is_active(pod)? {
            let (id, fields) = read_as(Resource::Pods, pod, Record::pod)?;
            let node = id.read(&fields.node_name, "spec.nodeName")?;
            *by_node.entry(Arc::clone(node)).or_insert(0) += 1;
        }
    }
    Ok(by_node)
}

/// The part of the ReplicaSet controller that adopts, releases and deletes pods.
pub static RULE: Rule = Rule {
    info: Info {
        name: "replicaset-controller",
        summary: "adopts and releases the pods of ReplicaSets, and deletes surplus pods",
        resources: &[Resource::ReplicaSets, Resource::Pods],
        indexes: &[
            &PODS_BY_REPLICA_SET,
            &ORPHANED_PODS,
            &BY_SELECTOR,
            &BY_CONTROLLER,
            &UNREAD_PODS,
        ],
        permissions: &[(Resource::Pods, "", &["delete", "patch"])],
        may_change: &[MayChange::Adopted(Resource::Pods)],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/replicaset/replica_set.go",
        ..Info::BASE
    },
    affected: Some(affected),
    keeps_terminating: true,
    decide,
    ..Rule::BASE
};

fn affected(_: KubernetesVersion, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
    match change.resource {
        Resource::ReplicaSets => keys.push(change.key.clone()),
        Resource::Pods => {
            push_adopters(cache, [&ORPHANED_PODS, &BY_SELECTOR], change, keys);
            // The removal of a pod never causes a surplus.
            let counts = |record: &&Record| may_be_active(record);
            let has_changed = match (change.old.filter(counts), change.new.filter(counts)) {
                (Some(old), Some(new)) => {
                    old.meta.owner_references != new.meta.owner_references
                        || old.meta.labels != new.meta.labels
                }
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if has_changed {
                keys.extend(PODS_BY_REPLICA_SET.keys_of_change(change));
            }
        }
        _ => {}
    }
}

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let owned: Vec<&Record> = controlled(cx, &PODS_BY_REPLICA_SET, id)
        .filter(|pod| may_be_active(pod))
        .collect();
    let bare = Key::new(Arc::clone(&id.namespace), "");
    if owned.is_empty() && cx.cache.first_indexed(&ORPHANED_PODS, &bare).is_none() {
        return id.keep("NoPods", "it has no active pods");
    }
    let set = id.body(record, Record::replica_set)?;
    let orphans = &ORPHANED_PODS;
    let claimer = Claimer { id, record, orphans };
    let actions = claimer.claim(cx, &id.namespace, &owned, is_active)?;
    if !actions.is_empty() {
        // The surplus after an adoption depends on all of them.
        require_pod_owners(cx, &id.namespace)?;
        return Ok(actions.into());
    }
    let wanted = usize::try_from(*id.read(&set.replicas, "spec.replicas")?).unwrap_or(0);
    let mut active = Vec::with_capacity(owned.len());
    if owned.len() > wanted {
        for pod in owned {
            if is_active(pod)? {
                active.push(pod);
            }
        }
    }
    let surplus = active.len().saturating_sub(wanted);
    if surplus == 0 {
        return id.keep("NoSurplus", "it has no more pods than spec.replicas");
    }
    require_pod_owners(cx, &id.namespace)?;
    if surplus < active.len() {
        active = in_order(cx, record, active)?;
    }
    active.truncate(surplus);
    let delete = |pod: &Record| {
        let reason = Reason::new("Surplus", format!("{id} has more pods than spec.replicas"));
        let (pod_id, on_error) = (pod.id(Resource::Pods), OnError::RetryUnlessNotFound);
        cx.delete(&pod_id, pod, reason, Sent::Nothing, on_error)
    };
    Ok(active.into_iter().map(delete).collect::<Vec<_>>().into())
}
