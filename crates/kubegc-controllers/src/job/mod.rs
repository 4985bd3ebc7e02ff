//! Removes the finalizer `batch.kubernetes.io/job-tracking` from the pods of Jobs, and deletes the active
//! pods of Jobs that fail, are suspended, or have too many.
//!
//! As [L3.11](crate::rules#l3-11) states, the controller writes the uid of a finished pod to
//! `status.uncountedTerminatedPods` of the Job, removes the finalizer from the pod, and then counts the pod
//! in `status.succeeded` or `status.failed`.
//!
//! - a pod with the finalizer that no Job controls, or whose Job does not exist or has finished: it loses the
//!   finalizer.
//! - a pod that something other than a `batch/v1` Job controls: it keeps the finalizer.
//! - a Job with another `spec.managedBy` than `kubernetes.io/job-controller`, and its pods: nothing happens.
//! - a Job that is being deleted: all its pods lose the finalizer; the collector deletes them.
//! - a Job that fails or met its success criteria: its active pods are deleted, and all its pods lose the
//!   finalizer.
//! - a suspended Job: its active pods lose the finalizer and are deleted.
//! - a Job with more active pods than it wants: if it wants none, as above; otherwise it is not known which
//!   are deleted.
//! - a Job with all completions and no active pod: all its pods lose the finalizer.
//! - a succeeded or failed pod of any other Job: it is counted and loses the finalizer; at most 500 per sync.
//! - a terminating pod that has not finished: counts as failed, unless the Job replaces pods only once they
//!   have failed.
//!
//! A Job fails when its failed pods exceed `spec.backoffLimit`, when its containers restarted that often
//! under `OnFailure`, when `spec.activeDeadlineSeconds` have passed since `status.startTime`, or by a
//! `FailureTarget` condition, or because of its failed indexes. An index has failed if it has a failed pod
//! and as many earlier failures as `spec.backoffLimitPerIndex`; the last failed pod of any other index keeps
//! the finalizer until it is replaced. Pod failure policies and success policies are not evaluated: outcomes
//! that depend on them are undetermined until the condition shows them.
//!
//! Upstream reacts to events: it searches orphans when a pod or its Job changes or is deleted. Here the
//! state alone decides. Pods are found by their controller reference, not by the selector: adoption and
//! release are not covered.
//!
//! - before 1.25, except 1.23.0 to 1.23.6: pods are not tracked (feature gate `JobTrackingWithFinalizers`:
//!   alpha in 1.22, turned off again in 1.23.7); every pod of a Job loses the finalizer.
//! - before 1.27: Jobs without the annotation `batch.kubernetes.io/job-tracking` are not tracked.
//! - before 1.22: `spec.suspend` is ignored (feature gate `SuspendJob`), and nothing removes the finalizer.
//! - before 1.25, 1.24.1 and 1.23.7: the pods of finished Jobs keep the finalizer.
//! - before 1.26: terminating pods of a Job with a pod failure policy count as failed at once.
//! - before 1.28: the backoff limit fails a Job only when a failure is new and `spec.parallelism` pods
//!   are not active.
//! - before 1.29: `spec.podReplacementPolicy` and `spec.backoffLimitPerIndex` are ignored (feature gates
//!   `JobPodReplacementPolicy` and `JobBackoffLimitPerIndex`).
//! - before 1.31: a pod loses the finalizer also if another kind of object controls it.
//! - before 1.31: a Job is marked as finished while pods are terminating, without a `FailureTarget` or
//!   `SuccessCriteriaMet` condition before.
//! - before 1.32: `spec.managedBy` is ignored (feature gate `JobManagedBy`).
//!
//! # Upstream
//! [`syncJob`, `deleteActivePods`, `manageJob`, `trackJobStatusAndRemoveFinalizers`, `canRemoveFinalizer`,
//! `enactJobFinished`,
//! `syncOrphanPod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go)
//! in `job_controller.go`; for Jobs without tracking [`syncJob` of
//! 1.25](https://github.com/kubernetes/kubernetes/blob/v1.25.0/pkg/controller/job/job_controller.go).

mod indexes;
mod sync;
mod track;
mod write;

use kubegc_core::record::Job;

use self::indexes::Indexes;
use crate::{
    owner::{UNREAD_PODS, push_controller},
    prelude::*,
};

/// The finalizer that keeps pods until they are counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The feature gate `JobTrackingWithFinalizers`: alpha from 1.22, on from 1.25, locked from 1.26.
const TRACKING: Behavior = Behavior::since(25, 0, "feature gate JobTrackingWithFinalizers is on");
/// The gate became beta and on in 1.23.
const TRACKING_FIRST: Behavior = Behavior::since(23, 0, "kubernetes #105687");
/// It was turned off again for a bug.
const TRACKING_PAUSED: Behavior = Behavior::since(23, 7, "kubernetes #109491");
/// Before, only Jobs with the annotation are tracked.
const TRACKING_OF_ALL: Behavior = Behavior::since(27, 0, "kubernetes #114647");
/// Before, the controller does not know the finalizer.
const ORPHANS: Behavior = Behavior::since(22, 0, "feature gate JobTrackingWithFinalizers exists");
/// The pods of finished Jobs count as orphans. That 1.23.7 is the first patch release of 1.23 is inferred.
const FINISHED_ORPHANS: [Behavior; 3] = [
    Behavior::since(23, 7, "kubernetes #109486"),
    Behavior::since(24, 1, "kubernetes #109486"),
    Behavior::since(25, 0, "kubernetes #109486"),
];
/// Pods that another kind controls keep the finalizer.
const OTHER_CONTROLLERS: Behavior = Behavior::since(31, 0, "kubernetes #124798");
/// The feature gate `SuspendJob`: alpha in 1.21, beta and on from 1.22.
const SUSPEND: Behavior = Behavior::since(22, 0, "feature gate SuspendJob is beta");
/// A Job whose failures exceed the limit fails, whether or not a failure is new.
const BACKOFF_BY_COUNT: Behavior = Behavior::since(28, 0, "kubernetes #118009");
/// A Job with a pod failure policy counts terminating pods as failed only once they have finished.
const POLICY_WAITS: Behavior = Behavior::since(26, 0, "kubernetes #113860");
/// The feature gate `JobPodReplacementPolicy`: alpha in 1.28, beta and on from 1.29.
const REPLACEMENT_POLICY: Behavior = Behavior::since(29, 0, "feature gate JobPodReplacementPolicy is beta");
/// The feature gate `JobBackoffLimitPerIndex`: alpha in 1.28, beta and on from 1.29.
const LIMIT_PER_INDEX: Behavior = Behavior::since(29, 0, "feature gate JobBackoffLimitPerIndex is beta");
/// Conditions `FailureTarget` and `SuccessCriteriaMet` come before `Failed` and `Complete`, which wait for
/// terminating pods.
const INTERIM_CONDITIONS: Behavior = Behavior::since(31, 0, "kubernetes #125510");
/// The feature gate `JobManagedBy`: alpha in 1.30, beta and on from 1.32.
const MANAGED_BY: Behavior = Behavior::since(32, 0, "feature gate JobManagedBy is beta");

static PODS_BY_JOB: Index = Index::new(Resource::Pods, |record, keys| {
    push_controller(record, "Job", keys);
});

/// Whether the finished pods of a Job, with or without the annotation `batch.kubernetes.io/job-tracking`, are
/// counted in a release before they lose the finalizer. Otherwise, all its pods lose it.
pub const fn tracks(version: KubernetesVersion, has_annotation: bool) -> bool {
    let is_paused = version.has(TRACKING_PAUSED) || !version.has(TRACKING_FIRST);
    let is_on = version.has(TRACKING) || !is_paused;
    is_on && (has_annotation || version.has(TRACKING_OF_ALL))
}

/// Reconciles a pod with the finalizer that no live Job tracks. Other pods are ignored.
fn orphan(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    if !record.meta.has_finalizer(TRACKING_FINALIZER) {
        return Ok(Decision::default());
    }
    if !cx.has(ORPHANS) {
        return id.keep("FinalizerUnknown", "this release does not know the finalizer");
    }
    let is_job = |owner: &OwnerReference| &*owner.kind == "Job" && &*owner.api_version == "batch/v1";
    let owner = record.meta.controller();
    let reason = match owner.filter(|owner| is_job(owner)) {
        None if owner.is_some() && cx.has(OTHER_CONTROLLERS) => {
            let message = "an object that is not a batch/v1 Job controls it";
            return id.keep("ControlledByOther", message);
        }
        None => Reason::new("NoJob", "no Job controls it"),
        Some(owner) => {
            let key = Key::new(id.namespace.clone(), owner.name.clone());
            match cx.cache.find(Resource::Jobs, &key)? {
                Some(job) if job.meta.uid == owner.uid => {
                    let (job_id, body) = read_as(Resource::Jobs, job, Record::job)?;
                    if is_managed_by_other(cx, body, &job_id)? {
                        return id.keep("ManagedByOther", "another controller manages its Job");
                    }
                    job_id.read(&body.conditions, "status.conditions")?;
                    if body.finished().flatten().is_none() {
                        return Ok(Decision::default());
                    }
                    if !cx.version.has_change(&FINISHED_ORPHANS) {
                        return id.keep("JobFinished", "this release ignores the pods of finished Jobs");
                    }
                    Reason::new("JobFinished", "its Job has finished")
                }
                Some(job) if job.meta.uid.is_empty() => {
                    cx.cache.require_in(Resource::Jobs, &id.namespace)?;
                    return Err(Missing::metadata(Resource::Jobs, job));
                }
                _ => Reason::new("JobDeleted", "its Job no longer exists"),
            }
        }
    };
    let changes = vec![FieldChange::RemoveFinalizer(TRACKING_FINALIZER)];
    let form = Form::Patch(PatchType::Strategic);
    let action = Action::new(Resource::Pods, &record.meta, reason)
        .write(cx.wire, Sent::Nothing, form, "", changes)
        .on_error(OnError::RetryUnlessNotFound);
    Ok(action.into())
}

fn is_managed_by_other(cx: &RuleContext<'_>, job: &Job, id: &ObjectId) -> Result<bool, Missing> {
    if !cx.has(MANAGED_BY) {
        return Ok(false);
    }
    let manager = id.read(&job.managed_by, "spec.managedBy")?;
    Ok(!matches!(&**manager, "" | "kubernetes.io/job-controller"))
}

/// The part of the Job controller that deletes pods and removes their finalizer.
pub static RULE: Rule = Rule {
    info: Info {
        name: "job-controller",
        summary: "removes the tracking finalizer from pods of Jobs, and deletes active pods of ending Jobs",
        resources: &[Resource::Jobs, Resource::Pods],
        indexes: &[&PODS_BY_JOB, &UNREAD_PODS],
        timing: Timing {
            backoff: [Duration::from_secs(1), Duration::from_secs(60)],
            ..Timing::DEFAULT
        },
        permissions: &[
            (Resource::Jobs, "status", &["update"]),
            (Resource::Pods, "", &["delete", "patch"]),
        ],
        may_change: &[MayChange::Dependents(Resource::Pods)],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go",
        ..Info::BASE
    },
    affected: Some(|_, cache, change, keys| match change.resource {
        Resource::Jobs => {
            keys.push(change.key.clone());
            // Finished and deleted Jobs make orphans of their pods.
            keys.extend(cache.indexed(&PODS_BY_JOB, change.key));
        }
        Resource::Pods => {
            keys.extend(PODS_BY_JOB.keys_of_change(change));
            if has_finalizer(change.new) {
                keys.push(change.key.clone());
            }
        }
        _ => {}
    }),
    keys: Some(|_, cache, keys| {
        keys.extend(cache.keys(Resource::Jobs));
        let pods = cache.records(Resource::Pods);
        let pods = pods.filter(|pod| has_finalizer(Some(pod)));
        keys.extend(pods.map(|pod| Key::from(&pod.meta)));
    }),
    // The key is that of a Job, of a pod with the finalizer, or of both.
    reconcile: Some(|cx, key| {
        let mut decision = cx.about(Resource::Jobs, key, |id, record| sync::sync(cx, id, record));
        let orphan = cx.about(Resource::Pods, key, |id, record| orphan(cx, id, record));
        decision.actions.extend(orphan.actions);
        decision.kept.extend(orphan.kept);
        decision.unknown.extend(orphan.unknown);
        decision
    }),
    ..Rule::BASE
};

fn has_finalizer(record: Option<&Record>) -> bool {
    record.is_some_and(|record| record.meta.has_finalizer(TRACKING_FINALIZER))
}
