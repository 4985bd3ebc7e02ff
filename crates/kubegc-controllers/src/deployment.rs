//! Deletes old ReplicaSets of Deployments beyond `spec.revisionHistoryLimit`.
//!
//! - a Deployment that is being deleted, or has no limit: its ReplicaSets are kept; the garbage collector
//!   deletes them with it.
//! - a Deployment that is neither complete nor paused: its ReplicaSets are kept.
//! - the oldest ReplicaSet with the pod template of the Deployment: is the new one, and is kept.
//! - all others that are not being deleted: are old; as many as there are above the limit are looked at, by
//!   revision.
//! - an old one with replicas, or whose spec was not observed: is kept, and no other is looked at in its
//!   place.
//! - an old one without replicas: is deleted, without preconditions.
//!
//! A Deployment is complete when its status was observed for its generation, and all replicas are updated and
//! available. Revisions that are equal, or no number, are ordered by creation and name. ReplicaSets are found
//! by their controller reference; adoption is not covered.
//!
//! Before about 1.21 the order is that of creation alone.
//!
//! # Upstream
//! [`cleanupDeployment`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go) in `sync.go`, called by
//! [`rolloutRolling`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/rolling.go),
//! [`rolloutRecreate`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/recreate.go) and `sync`;
//! [`FindNewReplicaSet`, `DeploymentComplete`, `ReplicaSetsByRevision`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/util/deployment_util.go).

use std::cmp::Ordering;

use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion,
    record::{Deployment, ObjectId, Record, ReplicaSet, Resource},
};

use crate::{
    Action, Cache, Change, Context, Controller, Decision, Index, Info, Key, Missing, OnError, Reason, Sent,
    Subject,
    controller::read,
    owner::{controlled, push_controller},
};

const BY_REVISION: Behavior = Behavior::since_about(21, "kubernetes #97407");

/// ReplicaSets by the Deployment that controls them.
static BY_DEPLOYMENT: Index = Index::new(
    "replica sets by deployment",
    Resource::ReplicaSets,
    |record, keys| {
        push_controller(record, "Deployment", keys);
    },
);

/// The Deployment controller, as far as it deletes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct DeploymentHistory {
    /// Whether old ReplicaSets are ordered by revision before creation.
    pub orders_by_revision: bool,
}

/// An old ReplicaSet.
struct Old<'a> {
    id: ObjectId,
    record: &'a Record,
    replica_set: &'a ReplicaSet,
    /// The annotation as Go reads it: 0 where there is none, `None` where it is no number.
    revision: Option<i64>,
}

impl DeploymentHistory {
    /// Upstream's behaviour in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            orders_by_revision: version.has(BY_REVISION),
        }
    }

    fn decide(
        &self,
        cx: &Context<'_>,
        key: &Key,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Decision, Missing> {
        let keep = |code, message: &'static str| Ok(Decision::keep(id.clone(), Reason::new(code, message)));
        if record.meta.is_deleting() {
            return keep("Terminating", "it is being deleted");
        }
        let deployment = cx.body(id, record, Record::deployment)?;
        let limit = match *read(
            &deployment.revision_history_limit,
            id,
            "spec.revisionHistoryLimit",
        )? {
            None | Some(i32::MAX) => return keep("NoHistoryLimit", "spec.revisionHistoryLimit is not set"),
            Some(limit) => usize::try_from(limit).unwrap_or(0),
        };
        let all: Vec<&Record> = controlled(cx, &BY_DEPLOYMENT, key, &record.meta).collect();
        let alive = all.iter().filter(|record| !record.meta.is_deleting()).count();
        if alive <= limit {
            cx.cache.require(Resource::ReplicaSets)?;
            return keep("WithinLimit", "it has no more ReplicaSets than its history limit");
        }
        let is_paused = *read(&deployment.is_paused, id, "spec.paused")?;
        if !is_paused && !is_complete(deployment, id, record)? {
            return keep("RollingOut", "its rollout is not complete");
        }
        cx.cache.require(Resource::ReplicaSets)?;
        let mut old = self.old(cx, deployment, id, &all)?;
        let above = old.len().saturating_sub(limit);
        old.sort_by(|a, b| self.compare(a, b));
        let mut decision = Decision::default();
        for (
            at,
            Old {
                id,
                record,
                replica_set,
                ..
            },
        ) in old.into_iter().enumerate()
        {
            if at >= above {
                decision.add_kept(id, Reason::new("WithinLimit", "it is within the history limit"));
                continue;
            }
            match is_idle(replica_set, &id, record) {
                Err(missing) => decision.add_unknown(id, missing),
                Ok(false) => {
                    let reason = Reason::new("HasReplicas", "it has replicas, or its spec was not observed");
                    decision.add_kept(id, reason);
                }
                Ok(true) => {
                    let reason = Reason::new("AboveLimit", "it is above the history limit of its Deployment");
                    let action = Action::new(Resource::ReplicaSets, &record.meta, reason)
                        .delete(cx.wire, Sent::Nothing, DeleteOptions::default())
                        .on_error(OnError::RetryUnlessNotFound);
                    decision.actions.push(action);
                }
            }
        }
        if decision.actions.is_empty() && decision.unknown.is_empty() {
            let reason = Reason::new(
                "NothingToDelete",
                "no old ReplicaSet is above its history limit and idle",
            );
            decision.add_kept(id.clone(), reason);
        }
        Ok(decision)
    }

    /// The ReplicaSets without the new one and those that are being deleted.
    fn old<'a>(
        &self,
        cx: &Context<'_>,
        deployment: &Deployment,
        id: &ObjectId,
        all: &[&'a Record],
    ) -> Result<Vec<Old<'a>>, Missing> {
        let template = *read(&deployment.template_digest, id, "spec.template")?;
        let mut old = Vec::with_capacity(all.len());
        let mut newest: Option<&Record> = None;
        for record in all {
            let id = record.id(Resource::ReplicaSets);
            let replica_set = cx.body(&id, record, Record::replica_set)?;
            if *read(&replica_set.template_digest, &id, "spec.template")? == template
                && newest.is_none_or(|newest| by_creation(record, newest) == Ordering::Less)
            {
                newest = Some(record);
            }
            let revision = match &**read(
                &replica_set.revision,
                &id,
                "the annotation deployment.kubernetes.io/revision",
            )? {
                "" => Some(0),
                text => text.parse().ok(),
            };
            old.push(Old {
                id,
                record,
                replica_set,
                revision,
            });
        }
        let newest = newest.map(|newest| newest.meta.uid.clone());
        old.retain(|old| Some(&old.record.meta.uid) != newest.as_ref() && !old.record.meta.is_deleting());
        Ok(old)
    }

    fn compare(&self, a: &Old<'_>, b: &Old<'_>) -> Ordering {
        let by_revision = match (a.revision, b.revision) {
            (Some(left), Some(right)) if self.orders_by_revision => left.cmp(&right),
            _ => Ordering::Equal,
        };
        by_revision.then_with(|| by_creation(a.record, b.record))
    }
}

fn by_creation(a: &Record, b: &Record) -> Ordering {
    let key = |record: &Record| record.meta.creation_timestamp;
    key(a).cmp(&key(b)).then_with(|| a.meta.name.cmp(&b.meta.name))
}

fn is_complete(deployment: &Deployment, id: &ObjectId, record: &Record) -> Result<bool, Missing> {
    let replicas = *read(&deployment.replicas, id, "spec.replicas")?;
    let status = read(&deployment.status_replicas, id, "status.replicas")?;
    let observed = *read(&deployment.observed_generation, id, "status.observedGeneration")?;
    Ok(status.iter().all(|count| *count == replicas) && observed >= record.meta.generation)
}

/// Whether a ReplicaSet has no replicas, and its status is that of its spec.
fn is_idle(replica_set: &ReplicaSet, id: &ObjectId, record: &Record) -> Result<bool, Missing> {
    let wanted = *read(&replica_set.replicas, id, "spec.replicas")?;
    let has = *read(&replica_set.status_replicas, id, "status.replicas")?;
    let observed = *read(&replica_set.observed_generation, id, "status.observedGeneration")?;
    Ok(wanted == 0 && has == 0 && observed >= record.meta.generation)
}

static INFO: Info = Info {
    name: "deployment-controller",
    summary: "deletes old ReplicaSets of Deployments beyond the history limit",
    resources: &[Resource::Deployments, Resource::ReplicaSets],
    permissions: &[(Resource::ReplicaSets, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go",
};

impl Controller for DeploymentHistory {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn indexes(&self) -> &'static [&'static Index] {
        static INDEXES: &[&Index] = &[&BY_DEPLOYMENT];
        INDEXES
    }

    fn affected(&self, _cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        match change.resource {
            Resource::Deployments => keys.push(change.key.clone()),
            Resource::ReplicaSets => keys.extend(BY_DEPLOYMENT.keys_of_change(change)),
            _ => {}
        }
    }

    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        match cx.subject(Resource::Deployments, key) {
            Subject::Found(id, record) => self
                .decide(cx, key, &id, record)
                .unwrap_or_else(|missing| Decision::unknown(id, missing)),
            Subject::Settled(decision) => decision,
        }
    }
}
