//! Deletes the identity Leases of API servers that no longer renew them.
//!
//! - not in `kube-system`, or without the label `apiserver.kubernetes.io/identity: kube-apiserver`: it
//!   is ignored.
//! - `spec.renewTime` and `spec.leaseDurationSeconds` have not passed: it is kept.
//! - they have passed, or one is not set: it is read again, and deleted without preconditions.
//!
//! The API server itself does this once an hour ([L9.6](crate::rules#l9-6)); an error is logged, and NotFound
//! is ignored. Node Leases have an owner reference to their Node, and the garbage collector deletes them.
//!
//! - before 1.26: there are no such Leases (feature gate `APIServerIdentity`: alpha from 1.20, beta and on
//!   from 1.26).
//! - 1.26: the label is `k8s.io/component: kube-apiserver`.
//! - 1.27 and 1.28: Leases with either label are deleted.
//!
//! # Upstream
//! [`gc` and
//! `isLeaseExpired`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controlplane/controller/apiserverleasegc/gc_controller.go)
//! in `gc_controller.go`.

use crate::prelude::*;

/// The feature gate `APIServerIdentity`: alpha from 1.20, beta and on from 1.26.
const ENABLED: Behavior = Behavior::since(26, 0, "feature gate APIServerIdentity is beta");
const NEW_LABEL: Behavior = Behavior::since(27, 0, "kubernetes #114586");
const NO_OLD_LABEL: Behavior = Behavior::since(29, 0, "instance.go of 1.29");

const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const OLD_LABEL: &str = "k8s.io/component";
const SERVER: &str = "kube-apiserver";

fn concerns(version: KubernetesVersion, meta: &ObjectMeta) -> bool {
    let has = |label: &str| meta.labels.get(label).is_some_and(|value| **value == *SERVER);
    let is_known = (version.has(NEW_LABEL) && has(LABEL)) || (!version.has(NO_OLD_LABEL) && has(OLD_LABEL));
    version.has(ENABLED) && is_known && *meta.namespace == *NAMESPACE
}

/// When a Lease expires; `None` if it has no time and expires at once.
fn expiry(id: &ObjectId, record: &Record) -> Result<Option<Timestamp>, Missing> {
    let lease = id.body(record, Record::lease)?;
    let renewed = *id.read(&lease.renew_time, "spec.renewTime")?;
    let seconds = *id.read(&lease.lease_duration_seconds, "spec.leaseDurationSeconds")?;
    Ok(renewed.zip(seconds).map(|(renewed, seconds)| {
        let duration = Duration::from_secs(u64::from(seconds.unsigned_abs()));
        if seconds < 0 {
            renewed.saturating_sub(duration)
        } else {
            renewed.saturating_add(duration)
        }
    }))
}

/// The API server's garbage collection of identity Leases.
pub static RULE: Rule = Rule {
    info: Info {
        name: "kube-apiserver-identity-lease-garbage-collector",
        summary: "deletes the identity Leases of API servers that no longer renew them",
        resources: &[Resource::Leases],
        since: Some(ENABLED),
        permissions: &[(Resource::Leases, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controlplane/controller/apiserverleasegc/gc_controller.go",
        timing: Timing::every(Duration::from_secs(3_600)),
        ..Info::BASE
    },
    affected: Some(|version, _, change, keys| {
        if change.new.is_some_and(|record| concerns(version, &record.meta)) {
            keys.push(change.key.clone());
        }
    }),
    keys: Some(|version, cache, keys| {
        let leases = cache.in_namespace(Resource::Leases, &NAMESPACE.into());
        let concerned = leases.filter(|lease| concerns(version, &lease.meta));
        keys.extend(concerned.map(|lease| Key::from(&lease.meta)));
    }),
    decide,
    ..Rule::BASE
};

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    if !concerns(cx.version, &record.meta) {
        return Ok(Decision::default());
    }
    if record.meta.is_deleting() {
        return id.keep("Terminating", "it is being deleted");
    }
    let reason = match expiry(id, record)? {
        Some(expiry) if expiry >= cx.now => return id.keep("Renewed", "its API server has renewed it"),
        Some(_) => Reason::new("Expired", "its API server has not renewed it in time"),
        None => Reason::new("Invalid", "its renewal time or duration is not set"),
    };
    let action = cx.delete(id, record, reason, Sent::Nothing, OnError::ReportUnlessNotFound);
    Ok(action.after_reading(Read::unchanged(id.resource, record)).into())
}
