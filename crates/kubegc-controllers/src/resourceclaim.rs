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

use kubegc_core::record::Consumer;

use crate::prelude::*;

/// The finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The feature gate `DynamicResourceAllocation`: alpha in 1.26, beta and off from 1.32, on from 1.34.
const ENABLED: Behavior = Behavior::since(34, 0, "feature gate DynamicResourceAllocation is on");
const OTHER_CONSUMERS: Behavior = Behavior::since(36, 0, "kubernetes #136450");
const NO_ALLOCATION_MODE: Behavior = Behavior::since(31, 0, "resource.k8s.io/v1alpha3");
const OWN_FINALIZER: Behavior = Behavior::since(30, 0, "structured parameters");
const FINISHED_PODS: Behavior = Behavior::since(28, 0, "controller.go of 1.28");

/// Claims by the pods that they are reserved for or that control them.
static CLAIMS_BY_POD: Index = Index::new(Resource::ResourceClaims, |record, keys| {
    let namespace = &record.meta.namespace;
    let reserved = record
        .resource_claim()
        .and_then(|claim| claim.reserved_for.known());
    for consumer in reserved.into_iter().flatten().filter(|consumer| is_pod(consumer)) {
        keys.push(Key::new(Arc::clone(namespace), Arc::clone(&consumer.name)));
    }
    let owner = record.meta.controller().filter(|owner| &*owner.kind == "Pod");
    keys.extend(owner.map(|owner| Key::new(Arc::clone(namespace), Arc::clone(&owner.name))));
});

fn is_pod(consumer: &Consumer) -> bool {
    consumer.api_group.is_empty() && &*consumer.resource == "pods"
}

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
    delete: Option<Reason>,
}

/// The reason why a claim without reservations is deleted: the pod that it was generated for will not use
/// it.
fn unused(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Option<Reason>, Missing> {
    let owner = record.meta.controller().filter(|_| cx.has(FINISHED_PODS));
    let is_pod = |owner: &&OwnerReference| &*owner.kind == "Pod" && &*owner.api_version == "v1";
    let Some(owner) = owner.filter(is_pod) else {
        return Ok(None);
    };
    let key = Key::new(Arc::clone(&id.namespace), Arc::clone(&owner.name));
    let Some(pod) = cx.cache.get(Resource::Pods, &key) else {
        return Ok(None);
    };
    if pod.meta.uid.is_empty() {
        return Err(Missing::metadata(Resource::Pods, pod));
    }
    let (code, message) = if pod.meta.uid != owner.uid {
        ("PodReplaced", "the pod that it was generated for was replaced")
    } else if is_done(pod)? {
        (
            "PodDone",
            "the pod that it was generated for will not run any more",
        )
    } else {
        return Ok(None);
    };
    Ok(Some(Reason::new(code, message)))
}

/// Returns whether no container of the pod runs or will run.
fn is_done(record: &Record) -> Result<bool, Missing> {
    let (id, pod) = read_as(Resource::Pods, record, Record::pod)?;
    id.read(&pod.phase, "status.phase")?;
    if pod.has_final_phase() == Some(true) {
        return Ok(true);
    }
    if !record.has_whole_meta {
        return Err(Missing::Metadata { object: id });
    }
    Ok(record.meta.is_deleting() && id.read(&pod.node_name, "spec.nodeName")?.is_empty())
}

impl Work {
    async fn perform(self: Arc<Self>, port: Port) -> Result<End, End> {
        let mut valid = self.valid.clone();
        for consumer in &self.doubtful {
            let key = Key::new(Arc::clone(&self.id.namespace), Arc::clone(&consumer.name));
            match port.get(Resource::Pods, key).await {
                Ok(pod) if pod.meta.uid == consumer.uid => valid.push(consumer.clone()),
                Ok(_) | Err(StoreError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (mut meta, mut is_allocated) = (self.meta.clone(), self.is_allocated);
        let is_free = valid.is_empty();
        let mut removes_finalizer = false;
        let mut changes = Vec::new();
        if valid.len() < self.had {
            let message = "pods that it is reserved for will not run any more";
            port.set_reason(Reason::new("ReservationsRemoved", message));
            changes.push(FieldChange::ReservedFor(valid));
            if is_free && self.deallocates && is_allocated {
                changes.push(FieldChange::RemoveAllocation);
                is_allocated = false;
            } else if is_free && self.asks_driver {
                changes.push(FieldChange::RequestDeallocation);
            }
            removes_finalizer = self.removes_finalizer && !is_allocated;
        } else if self.removes_finalizer && meta.is_deleting() && is_free {
            port.set_reason(Reason::new("Unused", "it is being deleted, and no pod uses it"));
            changes.extend(is_allocated.then_some(FieldChange::RemoveAllocation));
            removes_finalizer = true;
        }
        let (id, wire) = (&self.id, self.wire);
        if !changes.is_empty() {
            port.update(id, &mut meta, wire, "status", changes).await?;
        }
        if removes_finalizer {
            let changes = vec![FieldChange::RemoveFinalizer(FINALIZER)];
            port.update(id, &mut meta, wire, "", changes).await?;
        }
        if let Some(reason) = self.delete.as_ref().filter(|_| is_free) {
            port.set_reason(reason.clone());
            let options = wire.options(DeleteOptions::default(), &meta, Sent::Nothing);
            port.delete(id.clone(), options).await?;
        }
        Ok(End::Done)
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

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let claim = id.body(record, Record::resource_claim)?;
    let reserved = id.read(&claim.reserved_for, "status.reservedFor")?;
    let mut valid = Vec::new();
    let mut doubtful = Vec::new();
    for consumer in reserved {
        if !is_pod(consumer) {
            if !cx.has(OTHER_CONSUMERS) {
                return id.keep(
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
            Some(pod) if cx.has(FINISHED_PODS) && is_done(pod)? => {}
            Some(_) => valid.push(consumer.clone()),
        }
    }
    let is_deleting = record.meta.is_deleting();
    let is_waiting = cx.has(NO_ALLOCATION_MODE)
        || &**id.read(&claim.allocation_mode, "spec.allocationMode")? == "WaitForFirstConsumer";
    let has_finalizer = cx.has(OWN_FINALIZER) && record.meta.has_finalizer(FINALIZER);
    let may_be_free = valid.is_empty();
    let work = Work {
        id: id.clone(),
        meta: record.meta.clone(),
        wire: cx.wire,
        had: reserved.len(),
        is_allocated: *id.read(&claim.is_allocated, "status.allocation")?,
        removes_finalizer: has_finalizer,
        deallocates: has_finalizer && (is_waiting || is_deleting),
        asks_driver: !has_finalizer && is_waiting && !cx.has(NO_ALLOCATION_MODE),
        delete: if may_be_free && !is_deleting {
            unused(cx, id, record)?
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
            0 => id.keep("NothingReserved", "it has no reservation to remove"),
            _ => id.keep("Reserved", "its pods may run"),
        };
    }
    Ok(Steps::of(id, work, Work::perform).into())
}
