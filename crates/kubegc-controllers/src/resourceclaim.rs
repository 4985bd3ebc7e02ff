//! Removes reservations and the finalizer `resource.kubernetes.io/delete-protection` from ResourceClaims, and
//! deletes generated claims that no pod will use.
//!
//! - an entry of `status.reservedFor` whose pod does not exist, after a live read, or has another uid: it is
//!   removed.
//! - an entry whose pod has finished, or is being deleted and was never scheduled: it is removed.
//! - an entry for something else than a pod: it is kept.
//! - the last entry was removed, and the claim has the finalizer: it is deallocated.
//! - an entry was removed, and the claim with the finalizer is not allocated: it loses the finalizer.
//! - a claim with the finalizer is being deleted, and nothing is reserved: it is deallocated and loses the
//!   finalizer.
//! - a claim without reservations, generated for a pod that was replaced or will not run: it is deleted,
//!   without preconditions.
//! - a claim generated for a pod that does not exist: the garbage collector deletes it.
//!
//! A claim is generated for the pod that controls it. A claim that is being deleted is not deleted again.
//!
//! - before 1.34: the controller is off (feature gate `DynamicResourceAllocation`: alpha in 1.26, beta and
//!   off from 1.32).
//! - before 1.36: an entry for something else than a pod is an error, and nothing is done about the
//!   claim.
//! - before 1.31: only a claim with `WaitForFirstConsumer`, or that is being deleted, is deallocated.
//! - before 1.30: the controller requests deallocation from the driver, which removes the finalizer.
//! - before 1.28: entries of finished pods stay, and generated claims are left to the garbage
//!   collector.
//!
//! # Upstream
//! [`syncClaim`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/resourceclaim/controller.go)
//! in `controller.go`.

use std::sync::Arc;

use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion, SharedMeta, StoreError,
    record::{Consumer, ObjectId, Pod, Record, Resource},
};

use crate::{
    Context, Decision, End, FieldChange, Index, Info, Key, Missing, Port, Reason, Rule, Sent, Steps, Wire,
    controller::read,
};

/// The finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The feature gate `DynamicResourceAllocation`: alpha in 1.26, beta and off from 1.32, on from 1.34.
const ENABLED: Behavior = Behavior::since(34, 0, "feature gate DynamicResourceAllocation is on");
const OTHER_CONSUMERS: Behavior = Behavior::since(36, 0, "kubernetes #136450");
const NO_ALLOCATION_MODE: Behavior = Behavior::since(31, 0, "resource.k8s.io/v1alpha3");
const OWN_FINALIZER: Behavior = Behavior::since(30, 0, "structured parameters");
const FINISHED_PODS: Behavior = Behavior::since(28, 0, "controller.go of 1.28");

/// Claims by the pods that they are reserved for or that control them.
static CLAIMS_BY_POD: Index = Index::new(
    "resource claims by pod",
    Resource::ResourceClaims,
    |record, keys| {
        let namespace = &record.meta.namespace;
        let reserved = record
            .resource_claim()
            .and_then(|claim| claim.reserved_for.known());
        for consumer in reserved.into_iter().flatten().filter(|consumer| is_pod(consumer)) {
            keys.push(Key::new(Arc::clone(namespace), Arc::clone(&consumer.name)));
        }
        let owner = record.meta.controller().filter(|owner| &*owner.kind == "Pod");
        keys.extend(owner.map(|owner| Key::new(Arc::clone(namespace), Arc::clone(&owner.name))));
    },
);

fn is_pod(consumer: &Consumer) -> bool {
    consumer.api_group.is_empty() && &*consumer.resource == "pods"
}

/// The changes of a claim.
#[derive(Clone, Debug)]
struct Work {
    id: ObjectId,
    meta: SharedMeta,
    wire: Wire,
    valid: Vec<Consumer>,
    /// Entries whose pod is not in the cache.
    doubtful: Vec<Consumer>,
    had: usize,
    is_allocated: bool,
    removes_finalizer: bool,
    /// Whether the last reservation removes the allocation with it.
    deallocates: bool,
    /// Whether the driver is requested to deallocate instead.
    asks_driver: bool,
    /// The reason why a claim without reservations is deleted.
    delete: Option<Reason>,
}

/// The reason why a claim without reservations is deleted: the pod that it was generated for will not use
/// it.
fn unused(
    version: KubernetesVersion,
    cx: &Context<'_>,
    id: &ObjectId,
    record: &Record,
) -> Result<Option<Reason>, Missing> {
    let owner = record
        .meta
        .controller()
        .filter(|owner| &*owner.kind == "Pod" && &*owner.api_version == "v1");
    let Some(owner) = owner.filter(|_| version.has(FINISHED_PODS)) else {
        return Ok(None);
    };
    let key = Key::new(Arc::clone(&id.namespace), Arc::clone(&owner.name));
    Ok(match cx.cache.get(Resource::Pods, &key) {
        None => None,
        Some(pod) if pod.meta.uid.is_empty() => {
            return Err(Missing::metadata(Resource::Pods, pod));
        }
        Some(pod) if pod.meta.uid != owner.uid => Some(Reason::new(
            "PodReplaced",
            "the pod that it was generated for was replaced",
        )),
        Some(pod) if is_done(cx, pod)? => Some(Reason::new(
            "PodDone",
            "the pod that it was generated for will not run any more",
        )),
        Some(_) => None,
    })
}

/// Returns whether no container of the pod runs or will run.
fn is_done(cx: &Context<'_>, record: &Record) -> Result<bool, Missing> {
    let id = record.id(Resource::Pods);
    let pod: &Pod = cx.body(&id, record, Record::pod)?;
    read(&pod.phase, &id, "status.phase")?;
    if pod.has_final_phase() == Some(true) {
        return Ok(true);
    }
    if !record.has_whole_meta {
        return Err(Missing::Metadata { object: id });
    }
    Ok(record.meta.is_deleting() && read(&pod.node_name, &id, "spec.nodeName")?.is_empty())
}

async fn perform(work: Arc<Work>, port: Port) -> End {
    let mut valid = work.valid.clone();
    for consumer in &work.doubtful {
        let key = Key::new(Arc::clone(&work.id.namespace), Arc::clone(&consumer.name));
        match port.get(Resource::Pods, key).await {
            Ok(pod) if pod.meta.uid == consumer.uid => valid.push(consumer.clone()),
            Ok(_) | Err(StoreError::NotFound) => {}
            Err(error) => return End::failed(error),
        }
    }
    let (mut meta, mut is_allocated) = (work.meta.clone(), work.is_allocated);
    let is_free = valid.is_empty();
    let mut removes_finalizer = false;
    let mut changes = Vec::new();
    if valid.len() < work.had {
        port.set_reason(Reason::new(
            "ReservationsRemoved",
            "pods that it is reserved for will not run any more",
        ));
        changes.push(FieldChange::ReservedFor(valid));
        if is_free && work.deallocates && is_allocated {
            changes.push(FieldChange::RemoveAllocation);
            is_allocated = false;
        } else if is_free && work.asks_driver {
            changes.push(FieldChange::RequestDeallocation);
        }
        removes_finalizer = work.removes_finalizer && !is_allocated;
    } else if work.removes_finalizer && meta.is_deleting() && is_free {
        port.set_reason(Reason::new("Unused", "it is being deleted, and no pod uses it"));
        changes.extend(is_allocated.then_some(FieldChange::RemoveAllocation));
        removes_finalizer = true;
    }
    if !changes.is_empty()
        && let Err(error) = port
            .update(&work.id, &mut meta, work.wire, "status", changes)
            .await
    {
        return End::failed(error);
    }
    if removes_finalizer {
        let changes = vec![FieldChange::RemoveFinalizer(FINALIZER)];
        if let Err(error) = port.update(&work.id, &mut meta, work.wire, "", changes).await {
            return End::failed(error);
        }
    }
    let Some(reason) = work.delete.as_ref().filter(|_| is_free) else {
        return End::Done;
    };
    port.set_reason(reason.clone());
    let options = work.wire.options(DeleteOptions::default(), &meta, Sent::Nothing);
    match port.delete(work.id.clone(), options).await {
        Ok(()) => End::Done,
        Err(error) => End::failed(error),
    }
}

/// The part of the resource claim controller that deletes ResourceClaims.
pub static RULE: Rule = Rule {
    info: Info {
        name: "resourceclaim-controller",
        summary: "removes reservations and the finalizer of ResourceClaims, and deletes unused generated ones",
        resources: &[Resource::ResourceClaims, Resource::Pods],
        indexes: &[&CLAIMS_BY_POD],
        since: Some(ENABLED),
        permissions: &[
            (Resource::ResourceClaims, "", &["delete", "update"]),
            (Resource::ResourceClaims, "status", &["update"]),
        ],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/resourceclaim/controller.go",
        found_by: &[(Resource::Pods, &CLAIMS_BY_POD)],
        ..Info::BASE
    },
    gate: Some((ENABLED, "DynamicResourceAllocation")),
    decide,
    ..Rule::BASE
};

fn decide(
    version: KubernetesVersion,
    cx: &Context<'_>,
    id: &ObjectId,
    record: &Record,
) -> Result<Decision, Missing> {
    let keep = |code, message: &'static str| Ok(Decision::keep(id.clone(), Reason::new(code, message)));
    let claim = cx.body(id, record, Record::resource_claim)?;
    let reserved = read(&claim.reserved_for, id, "status.reservedFor")?;
    let mut valid = Vec::new();
    let mut doubtful = Vec::new();
    for consumer in reserved {
        if !is_pod(consumer) {
            if !version.has(OTHER_CONSUMERS) {
                return keep(
                    "UnsupportedConsumer",
                    "it is reserved for something else than a pod",
                );
            }
            valid.push(consumer.clone());
            continue;
        }
        let key = Key::new(Arc::clone(&id.namespace), Arc::clone(&consumer.name));
        match cx.cache.find(Resource::Pods, &key)? {
            None => doubtful.push(consumer.clone()),
            Some(pod) if pod.meta.uid.is_empty() => {
                return Err(Missing::metadata(Resource::Pods, pod));
            }
            Some(pod) if pod.meta.uid != consumer.uid => {}
            Some(pod) if version.has(FINISHED_PODS) && is_done(cx, pod)? => {}
            Some(_) => valid.push(consumer.clone()),
        }
    }
    let is_deleting = record.meta.is_deleting();
    let is_waiting = version.has(NO_ALLOCATION_MODE)
        || &**read(&claim.allocation_mode, id, "spec.allocationMode")? == "WaitForFirstConsumer";
    let has_finalizer = version.has(OWN_FINALIZER) && record.meta.has_finalizer(FINALIZER);
    let may_be_free = valid.is_empty();
    let work = Work {
        id: id.clone(),
        meta: record.meta.clone(),
        wire: cx.wire,
        had: reserved.len(),
        is_allocated: *read(&claim.is_allocated, id, "status.allocation")?,
        removes_finalizer: has_finalizer,
        deallocates: has_finalizer && (is_waiting || is_deleting),
        asks_driver: !has_finalizer && is_waiting && !version.has(NO_ALLOCATION_MODE),
        delete: if may_be_free && !is_deleting {
            unused(version, cx, id, record)?
        } else {
            None
        },
        valid,
        doubtful,
    };
    let loses_reservations = work.valid.len() + work.doubtful.len() < work.had || !work.doubtful.is_empty();
    let ends = may_be_free && (work.delete.is_some() || (has_finalizer && is_deleting));
    if !loses_reservations && !ends {
        return match work.had {
            0 => keep("NothingReserved", "it has no reservation to remove"),
            _ => keep("Reserved", "its pods may run"),
        };
    }
    let work = Arc::new(work);
    let steps = Steps::new(id.clone(), move |port| perform(Arc::clone(&work), port));
    Ok(Decision::steps(steps))
}
