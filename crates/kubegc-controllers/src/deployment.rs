//! Adopts and releases the ReplicaSets of Deployments, scales old ones down, and deletes those beyond
//! `spec.revisionHistoryLimit`.
//!
//! - a ReplicaSet without a controller that the selector matches: is adopted ([CP-20](crate::rules#cp-20)).
//! - a ReplicaSet of the Deployment that the selector no longer matches: is released.
//! - strategy `Recreate`: all old ReplicaSets are scaled to 0.
//! - strategy `RollingUpdate`: old ones are scaled down, unhealthy pods first, then the oldest ReplicaSet, as
//!   far as enough pods stay available.
//! - the new ReplicaSet with more replicas than the Deployment: is scaled to `spec.replicas`.
//! - a paused Deployment: nothing is scaled.
//! - a Deployment that is being deleted, or has no limit: its ReplicaSets are kept; the garbage collector
//!   deletes them with it.
//! - a Deployment that is neither complete nor paused: its ReplicaSets are kept.
//! - the oldest ReplicaSet with the pod template of the Deployment: is the new one, and is kept.
//! - all others that are not being deleted: are old; as many as there are above the limit are candidates, by
//!   revision.
//! - an old one with replicas, or whose spec was not observed: is kept, and no other is a candidate in its
//!   place.
//! - an old one without replicas: is deleted, without preconditions.
//!
//! A Deployment is complete when its status was observed for its generation, and all replicas are updated and
//! available. Revisions that are equal, or no number, are ordered by creation and name.
//!
//! Not modelled: ReplicaSets are not created or scaled up, and neither is scaled in proportion, as upstream
//! does when `spec.replicas` changes during a rollout or while a Deployment is paused. A rollout
//! proceeds no further once the new ReplicaSet would be created or scaled up.
//!
//! Before 1.21 the order is that of creation alone.
//!
//! # Upstream
//! [`cleanupDeployment`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go)
//! in `sync.go`, called by
//! [`rolloutRolling`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/rolling.go),
//! [`rolloutRecreate`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/recreate.go)
//! and `sync`;
//! [`reconcileOldReplicaSets`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/rolling.go)
//! in `rolling.go`;
//! [`getReplicaSetsForDeployment`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/deployment_controller.go)
//! in `deployment_controller.go`; [`FindNewReplicaSet`, `ResolveFenceposts`, `DeploymentComplete`,
//! `ReplicaSetsByRevision`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/util/deployment_util.go).

use std::cmp::Ordering;

use kubegc_core::record::{Deployment, DeploymentStrategy, ReplicaSet};

use crate::{
    owner::{Claimer, controlled, push_adopters, push_controller, push_orphan, push_selector},
    prelude::*,
};

const BY_REVISION: Behavior = Behavior::since(21, 0, "kubernetes #97407");
const REVISION: &str = "the annotation deployment.kubernetes.io/revision";

static BY_DEPLOYMENT: Index = Index::new(Resource::ReplicaSets, |record, keys| {
    push_controller(record, "Deployment", keys);
});

static ORPHANED_REPLICA_SETS: Index = Index::new(Resource::ReplicaSets, push_orphan);
static BY_SELECTOR: Index = Index::new(Resource::Deployments, push_selector);

/// The oldest ReplicaSet with the pod template of a Deployment.
fn new_replica_set<'a>(
    deployment: &Deployment,
    id: &ObjectId,
    all: &[&'a Record],
) -> Result<Option<&'a Record>, Missing> {
    let template = *id.read(&deployment.template_digest, "spec.template")?;
    let mut new: Option<&Record> = None;
    for record in all {
        let (id, replica_set) = read_as(Resource::ReplicaSets, record, Record::replica_set)?;
        if *id.read(&replica_set.template_digest, "spec.template")? == template
            && new.is_none_or(|new| by_creation(record, new) == Ordering::Less)
        {
            new = Some(record);
        }
    }
    Ok(new)
}

struct Scaled<'a> {
    id: ObjectId,
    record: &'a Record,
    fields: &'a ReplicaSet,
    replicas: i32,
    target: i32,
}

impl Scaled<'_> {
    /// The number of available replicas. The status can be older than the spec.
    fn available(&self) -> Result<i32, Missing> {
        let available = self
            .id
            .read(&self.fields.available_replicas, "status.availableReplicas")?;
        Ok(*available.min(&self.replicas))
    }
}

/// Scales the new ReplicaSet down to the replicas of the Deployment, or old ones as the strategy wants.
fn scale_down(
    cx: &Context<'_>,
    deployment: &Deployment,
    id: &ObjectId,
    all: &[&Record],
) -> Result<Vec<Action>, Missing> {
    let mut sets = Vec::with_capacity(all.len());
    for record in all {
        let (id, fields) = read_as(Resource::ReplicaSets, record, Record::replica_set)?;
        let replicas = *id.read(&fields.replicas, "spec.replicas")?;
        if replicas > 0 {
            sets.push(Scaled {
                id,
                record,
                fields,
                replicas,
                target: replicas,
            });
        }
    }
    let wanted = *id.read(&deployment.replicas, "spec.replicas")?;
    if sets.is_empty() || *id.read(&deployment.is_paused, "spec.paused")? {
        return Ok(Vec::new());
    }
    let strategy = *id.read(&deployment.strategy, "spec.strategy")?;
    // The only ReplicaSet is the new one, or has to wait for it.
    let is_only = all.len() == 1 && !matches!(strategy, DeploymentStrategy::Recreate);
    if is_only && sets[0].replicas <= wanted {
        return Ok(Vec::new());
    }
    cx.cache.require_in(Resource::ReplicaSets, &id.namespace)?;
    let new = new_replica_set(deployment, id, all)?;
    let is_new = |set: &mut Scaled<'_>| new.is_some_and(|new| new.meta.uid == set.record.meta.uid);
    let new_set = sets.extract_if(.., is_new).next();
    sets.sort_by(|a, b| by_creation(a.record, b.record));
    match (strategy, new, new_set) {
        (DeploymentStrategy::Unset, ..) => return Ok(Vec::new()),
        (DeploymentStrategy::Recreate, ..) => sets.iter_mut().for_each(|old| old.target = 0),
        (_, Some(_), Some(new)) if new.replicas > wanted => {
            sets.push(Scaled {
                target: wanted,
                ..new
            });
        }
        (
            DeploymentStrategy::RollingUpdate {
                max_unavailable,
                max_surge,
            },
            Some(_),
            new,
        ) if !has_room(&sets, new.as_ref(), wanted, max_surge.of(wanted, true)) => {
            let mut unavailable = max_unavailable.of(wanted, false);
            if unavailable == 0 && max_surge.of(wanted, true) == 0 {
                unavailable = 1;
            }
            let available_min = wanted - unavailable.clamp(0, wanted);
            roll(&mut sets, new.as_ref(), available_min)?;
        }
        _ => {}
    }
    let changed = sets.into_iter().filter(|set| set.target < set.replicas);
    let reason = || Reason::new("ScaledDown", format!("{id} needs fewer of its replicas"));
    let scale = |set: Scaled<'_>| {
        Action::new(Resource::ReplicaSets, &set.record.meta, reason()).write(
            cx.wire,
            Sent::ResourceVersion,
            Form::Update,
            "",
            vec![FieldChange::Replicas(set.target)],
        )
    };
    Ok(changed.map(scale).collect())
}

/// Returns whether the new ReplicaSet is to be scaled up before old ones are scaled down.
fn has_room(old: &[Scaled<'_>], new: Option<&Scaled<'_>>, wanted: i32, surge: i32) -> bool {
    let replicas = new.map_or(0, |new| new.replicas);
    let sum = |sum: i32, set: &Scaled<'_>| sum.saturating_add(set.replicas);
    replicas < wanted && old.iter().fold(replicas, sum) < wanted.saturating_add(surge)
}

/// Scales old ReplicaSets down, the oldest first: pods that are not available, then as many as more than
/// `available_min` are.
fn roll(old: &mut [Scaled<'_>], new: Option<&Scaled<'_>>, available_min: i32) -> Result<(), Missing> {
    let replicas = new.map_or(0, |new| new.replicas);
    let mut available = new.map_or(Ok(0), Scaled::available)?;
    let all = old
        .iter()
        .fold(replicas, |sum, set| sum.saturating_add(set.replicas));
    let mut unhealthy_max = all - available_min - (replicas - available);
    if unhealthy_max <= 0 {
        return Ok(());
    }
    for set in &mut *old {
        let healthy = set.available()?;
        let count = (set.replicas - healthy).min(unhealthy_max);
        set.target -= count;
        unhealthy_max -= count;
        available = available.saturating_add(healthy);
    }
    let mut surplus = available.saturating_sub(available_min).max(0);
    for set in old {
        let count = set.target.min(surplus);
        set.target -= count;
        surplus -= count;
    }
    Ok(())
}

fn by_creation(a: &Record, b: &Record) -> Ordering {
    let key = |record: &Record| record.meta.creation_timestamp;
    key(a).cmp(&key(b)).then_with(|| a.meta.name.cmp(&b.meta.name))
}

fn is_complete(deployment: &Deployment, id: &ObjectId, record: &Record) -> Result<bool, Missing> {
    let replicas = *id.read(&deployment.replicas, "spec.replicas")?;
    let status = id.read(&deployment.status_replicas, "status.replicas")?;
    let observed = *id.read(&deployment.observed_generation, "status.observedGeneration")?;
    Ok(status.iter().all(|count| *count == replicas) && observed >= record.meta.generation)
}

/// The part of the Deployment controller that adopts, releases, scales down and deletes ReplicaSets.
pub static RULE: Rule = Rule {
    info: Info {
        name: "deployment-controller",
        summary: "adopts ReplicaSets of Deployments, scales old ones down, and deletes those beyond the limit",
        resources: &[Resource::Deployments, Resource::ReplicaSets],
        indexes: &[&BY_DEPLOYMENT, &ORPHANED_REPLICA_SETS, &BY_SELECTOR],
        affected_by: &[&BY_DEPLOYMENT],
        permissions: &[(Resource::ReplicaSets, "", &["delete", "patch", "update"])],
        may_change: &[
            MayChange::Adopted(Resource::ReplicaSets),
            MayChange::DependentsOfAdopted(Resource::ReplicaSets, Resource::Pods),
        ],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go",
        ..Info::BASE
    },
    affected: Some(|_, cache, change, keys| {
        RULE.info.push_affected(cache, change, keys);
        push_adopters(cache, [&ORPHANED_REPLICA_SETS, &BY_SELECTOR], change, keys);
    }),
    keeps_terminating: true,
    decide,
    ..Rule::BASE
};

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let deployment = id.body(record, Record::deployment)?;
    let all: Vec<&Record> = controlled(cx, &BY_DEPLOYMENT, id).collect();
    let orphans = &ORPHANED_REPLICA_SETS;
    let claimer = Claimer { id, record, orphans };
    let mut actions = claimer.claim(cx, &id.namespace, &all, |_| Ok(true))?;
    let is_listed = || cx.cache.require_in(Resource::ReplicaSets, &id.namespace);
    if !actions.is_empty() {
        // The new one, and those that are scaled down, depend on all of them.
        is_listed()?;
    } else {
        actions = scale_down(cx, deployment, id, &all)?;
    }
    if !actions.is_empty() {
        return Ok(actions.into());
    }
    let limit = match *id.read(&deployment.revision_history_limit, "spec.revisionHistoryLimit")? {
        None | Some(i32::MAX) => return id.keep("NoHistoryLimit", "spec.revisionHistoryLimit is not set"),
        Some(limit) => usize::try_from(limit).unwrap_or(0),
    };
    let alive = all.iter().filter(|record| !record.meta.is_deleting()).count();
    if alive <= limit {
        is_listed()?;
        return id.keep("WithinLimit", "it has no more ReplicaSets than its history limit");
    }
    let is_paused = *id.read(&deployment.is_paused, "spec.paused")?;
    if !is_paused && !is_complete(deployment, id, record)? {
        return id.keep("RollingOut", "its rollout is not complete");
    }
    is_listed()?;
    let new = new_replica_set(deployment, id, &all)?.map(|new| &new.meta.uid);
    let mut old = Vec::with_capacity(all.len());
    for record in all {
        let (id, set) = read_as(Resource::ReplicaSets, record, Record::replica_set)?;
        // As Go reads it: 0 if there is none, `None` if it is not a number.
        let revision: Option<i64> = match &**id.read(&set.revision, REVISION)? {
            "" => Some(0),
            text => text.parse().ok(),
        };
        if Some(&record.meta.uid) != new && !record.meta.is_deleting() {
            old.push((revision, id, record, set));
        }
    }
    let above = old.len().saturating_sub(limit);
    old.sort_by(|(a, _, left, _), (b, _, right, _)| {
        let revisions = a.zip(*b).filter(|_| cx.has(BY_REVISION));
        let by_revision = revisions.map_or(Ordering::Equal, |(a, b)| a.cmp(&b));
        by_revision.then_with(|| by_creation(left, right))
    });
    let mut decision = Decision::default();
    for (at, (_, id, record, set)) in old.into_iter().enumerate() {
        if at >= above {
            decision.add_kept(id, Reason::new("WithinLimit", "it is within the history limit"));
            continue;
        }
        // Whether it has no replicas, and its status is that of its spec.
        let is_idle = || -> Result<bool, Missing> {
            let replicas = [
                *id.read(&set.replicas, "spec.replicas")?,
                *id.read(&set.status_replicas, "status.replicas")?,
            ];
            let observed = *id.read(&set.observed_generation, "status.observedGeneration")?;
            Ok(replicas == [0, 0] && observed >= record.meta.generation)
        };
        match is_idle() {
            Err(missing) => decision.add_unknown(id, missing),
            Ok(false) => {
                let reason = Reason::new("HasReplicas", "it has replicas, or its spec was not observed");
                decision.add_kept(id, reason);
            }
            Ok(true) => {
                let reason = Reason::new("AboveLimit", "it is above the history limit of its Deployment");
                let on_error = OnError::RetryUnlessNotFound;
                decision
                    .actions
                    .push(cx.delete(&id, record, reason, Sent::Nothing, on_error));
            }
        }
    }
    if decision.actions.is_empty() && decision.unknown.is_empty() {
        let message = "no old ReplicaSet is above its history limit and idle";
        decision.add_kept(id.clone(), Reason::new("NothingToDelete", message));
    }
    Ok(decision)
}
