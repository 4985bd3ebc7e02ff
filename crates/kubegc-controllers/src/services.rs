//! Companions of Services: Endpoints, EndpointSlices and IPAddresses that their Service no longer needs.
//!
//! Deletes carry no preconditions.

use kubegc_core::version::behavior::ADDRESSES_ARE_OBJECTS;

use crate::prelude::*;

/// The annotation of a leader election record.
const LEADER: &str = "the annotation control-plane.alpha.kubernetes.io/leader";

/// The part of the endpoints controller that deletes the Endpoints of Services that no longer exist.
///
/// - Endpoints whose Service exists, terminating or not: they are kept.
/// - Endpoints whose Service was deleted: they are deleted.
/// - Endpoints without a Service when the controller starts: they are deleted, unless they hold a leader
///   election record.
/// - Endpoints that are created without a Service: they are kept until the controller starts again.
///
/// The API server itself deletes the Endpoints together with the Service ([CP-1](crate::rules#cp-1)), so that
/// the request of the controller usually finds nothing. EndpointSlices have an owner reference to their
/// Service, and the garbage collector deletes them; mirrored ones are deleted by [`MIRRORED_SLICES`] too.
///
/// # Upstream
/// [`syncService` and
/// `checkLeftoverEndpoints`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpoint/endpoints_controller.go)
/// in `endpoints_controller.go`;
/// [`afterDelete`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/registry/core/service/storage/storage.go)
/// of the API server. The same in all releases.
pub static ENDPOINTS: Rule = Rule {
    info: Info {
        name: "endpoints-controller",
        summary: "deletes the Endpoints of Services that no longer exist",
        resources: &[Resource::Endpoints, Resource::Services],
        permissions: &[(Resource::Endpoints, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpoint/endpoints_controller.go",
        ..Info::BASE
    },
    affected: Some(|_, _, change, keys| {
        if change.resource == Resource::Services {
            keys.push(change.key.clone());
        }
    }),
    decide: decide_endpoints,
    ..Rule::BASE
};

fn decide_endpoints(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let key = &Key::from(&record.meta);
    if record.meta.is_deleting() {
        return id.keep("Terminating", "they are being deleted");
    }
    if cx.cache.get(Resource::Services, key).is_some() {
        return id.keep("ServiceExists", "their Service exists");
    }
    let endpoints = id.body(record, Record::endpoints)?;
    if *id.read(&endpoints.has_leader_annotation, LEADER)? {
        return id.keep("LeaderElection", "they hold a leader election record");
    }
    cx.cache.require_in(Resource::Services, &key.namespace)?;
    let reason = Reason::new("ServiceDeleted", "their Service does not exist");
    let action = cx.delete(id, record, reason, Sent::Nothing, OnError::RetryUnlessNotFound);
    Ok(action.into())
}

/// The feature gate `EndpointSlice`: alpha from 1.16, beta and off from 1.17, on from 1.18.
const SLICES_ON: Behavior = Behavior::since(18, 0, "feature gate EndpointSlice is on");
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

static SLICES: Index = Index::new(Resource::EndpointSlices, |record, keys| {
    keys.extend(service_of(record, SLICE_MANAGER));
});

/// The Service whose name a slice of this manager carries.
fn service_of(slice: &Record, manager: &str) -> Option<Key> {
    let labels = &slice.meta.labels;
    let is_managed = labels.get(SLICE_MANAGED_BY).is_some_and(|by| **by == *manager);
    let service = labels
        .get(SERVICE_NAME)
        .filter(|name| is_managed && !name.is_empty())?;
    Some(Key::new(Arc::clone(&slice.meta.namespace), Arc::clone(service)))
}

/// The Services whose slices a change may affect, by an index of slices by Service.
fn affected_services(index: &Index, change: &Change<'_>, keys: &mut Vec<Key>) {
    match change.resource {
        Resource::EndpointSlices => keys.extend(index.keys_of_change(change)),
        _ => keys.push(change.key.clone()),
    }
}

fn all_services(index: &Index, cache: &Cache, keys: &mut Vec<Key>) {
    let slices = cache.records(Resource::EndpointSlices);
    keys.extend(slices.flat_map(|slice| index.keys_of(slice)));
}

/// Decides about each slice of a Service, by an index of slices by Service. `judge` returns whether a slice
/// is to be deleted, and why.
fn judge_slices(
    cx: &Context<'_>,
    index: &'static Index,
    service: &Key,
    judge: impl Fn(&Record) -> Result<(bool, Reason), Missing>,
) -> Decision {
    let mut decision = Decision::default();
    for slice in cx.cache.indexed_records(index, service) {
        let id = slice.id(Resource::EndpointSlices);
        match whole(id.resource, slice).and_then(|_| judge(slice)) {
            Err(missing) => decision.add_unknown(id, missing),
            Ok((false, reason)) => decision.add_kept(id, reason),
            Ok((true, _)) if slice.meta.is_deleting() => decision.add_kept(id, terminating()),
            Ok((true, reason)) => {
                let action = cx.delete(&id, slice, reason, Sent::Nothing, OnError::Retry);
                decision.actions.push(action);
            }
        }
    }
    decision
}

fn terminating() -> Reason {
    Reason::new("Terminating", "it is being deleted")
}

fn has_selector(service: &Record) -> Result<bool, Missing> {
    let (id, fields) = read_as(Resource::Services, service, Record::service)?;
    Ok(id.read(&fields.selector, "spec.selector")?.is_some())
}

/// The part of the EndpointSlice controller that deletes EndpointSlices that carry the name of a Service and
/// are not owned by it.
///
/// A slice of this controller has the labels `endpointslice.kubernetes.io/managed-by:
/// endpointslice-controller.k8s.io` and `kubernetes.io/service-name`.
///
/// - Its Service exists, terminating or not, has a selector, and is not among its owners: it is deleted. The
///   garbage collector removes the owner when the Service is deleted with the policy Orphan.
/// - Its Service is among its owners: it is kept. Which surplus slices the controller deletes is not covered.
/// - There is no Service of that name: it is kept. The garbage collector deletes it if it has the owner.
///
/// # Upstream
/// [`reconcileByAddressType`](https://github.com/kubernetes/kubernetes/blob/v1.22.0/pkg/controller/endpointslice/reconciler.go)
/// in `reconciler.go`; from 1.28 on
/// [`reconcileByAddressType`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/endpointslice/reconciler.go)
/// in `staging/src/k8s.io/endpointslice`.
pub static ENDPOINT_SLICES: Rule = Rule {
    info: Info {
        name: "endpointslice-controller",
        summary: "deletes EndpointSlices that their Service does not own",
        resources: &[Resource::EndpointSlices, Resource::Services],
        indexes: &[&SLICES],
        since: Some(SLICES_ON),
        permissions: &[(Resource::EndpointSlices, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslice/endpointslice_controller.go",
        ..Info::BASE
    },
    // A key is the name of a Service.
    affected: Some(|_, _, change, keys| affected_services(&SLICES, change, keys)),
    keys: Some(|_, cache, keys| all_services(&SLICES, cache, keys)),
    reconcile: Some(reconcile_slices),
    ..Rule::BASE
};

fn reconcile_slices(cx: &RuleContext<'_>, key: &Key) -> Decision {
    let service = cx.cache.get(Resource::Services, key);
    let Some(service) = service.filter(|_| cx.has(SLICES_ON)) else {
        return Decision::default();
    };
    // The controller ignores Services without a selector.
    let managed = whole(Resource::Services, service).and_then(|_| has_selector(service));
    judge_slices(cx, &SLICES, key, |slice| {
        let mut owners = slice.meta.owner_references.iter();
        if slice.meta.is_deleting() {
            return Ok((false, terminating()));
        }
        if owners.any(|owner| owner.uid == service.meta.uid) {
            return Ok((false, Reason::new("Owned", "its Service owns it")));
        }
        let is_managed = managed.clone()?;
        let (code, message) = match is_managed {
            true => ("NotOwned", "it has the name of a Service that does not own it"),
            false => ("NoSelector", "its Service has no selector"),
        };
        Ok((is_managed, Reason::new(code, message)))
    })
}

const MIRRORING: Behavior = Behavior::since(19, 0, "kubernetes #91637");
const MIRROR_MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

static MIRRORS: Index = Index::new(Resource::EndpointSlices, |record, keys| {
    keys.extend(service_of(record, MIRROR_MANAGER))
});

/// The reason why the slices of this name are deleted or kept.
fn judge_mirrors(cx: &RuleContext<'_>, key: &Key) -> Result<(bool, Reason), Missing> {
    let delete = |code, message: &'static str| Ok((true, Reason::new(code, message)));
    if !cx.has(MIRRORING) {
        let reason = Reason::new("NoMirroring", "this release has no mirroring controller");
        return Ok((false, reason));
    }
    let Some(record) = cx.cache.find(Resource::Endpoints, key)? else {
        return delete("EndpointsDeleted", "there are no Endpoints to mirror");
    };
    let id = record.id(Resource::Endpoints);
    if !record.has_whole_meta {
        return Err(Missing::Metadata { object: id });
    }
    let Some(service) = cx.cache.find(Resource::Services, key)? else {
        return delete("ServiceDeleted", "their Service does not exist");
    };
    if record
        .meta
        .labels
        .get(SKIP_MIRROR)
        .is_some_and(|skips| &**skips == "true")
    {
        return delete("MirroringSkipped", "the Endpoints are not to be mirrored");
    }
    let endpoints = id.body(record, Record::endpoints)?;
    if *id.read(&endpoints.has_leader_annotation, LEADER)? {
        return delete("LeaderElection", "the Endpoints hold a leader election record");
    }
    if has_selector(service)? {
        return delete("ServiceHasSelector", "their Service has a selector");
    }
    Ok((false, Reason::new("Mirrored", "it mirrors Endpoints that exist")))
}

/// The part of the EndpointSlice mirroring controller that deletes EndpointSlices that mirror Endpoints which
/// no longer exist or are not mirrored any more.
///
/// A mirrored slice has the labels `endpointslice.kubernetes.io/managed-by:
/// endpointslicemirroring-controller.k8s.io` and `kubernetes.io/service-name`. All mirrored slices of a name
/// are deleted in these cases:
///
/// - There are no Endpoints of that name.
/// - The Endpoints have the label `endpointslice.kubernetes.io/skip-mirror: "true"` or a leader election
///   record.
/// - There is no Service of that name.
/// - The Service has a selector.
///
/// Otherwise the slices follow the Endpoints. Which surplus slices that deletes is not covered.
///
/// Releases: from 1.19 on, with the feature gate `EndpointSlice` (beta and on) there.
///
/// # Upstream
/// [`syncEndpoints` and
/// `deleteMirroredSlices`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go)
/// in `endpointslicemirroring_controller.go`.
pub static MIRRORED_SLICES: Rule = Rule {
    info: Info {
        name: "endpointslice-mirroring-controller",
        summary: "deletes EndpointSlices that mirror Endpoints which no longer exist",
        resources: &[Resource::EndpointSlices, Resource::Endpoints, Resource::Services],
        indexes: &[&MIRRORS],
        since: Some(MIRRORING),
        permissions: &[(Resource::EndpointSlices, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go",
        ..Info::BASE
    },
    // A key is the name of a Service.
    affected: Some(|_, _, change, keys| affected_services(&MIRRORS, change, keys)),
    keys: Some(|_, cache, keys| all_services(&MIRRORS, cache, keys)),
    reconcile: Some(|cx, key| {
        if cx.cache.first_indexed(&MIRRORS, key).is_none() {
            return Decision::default();
        }
        let judged = judge_mirrors(cx, key);
        judge_slices(cx, &MIRRORS, key, |_| judged.clone())
    }),
    ..Rule::BASE
};

/// The label of IPAddresses that the API server has created, and its value.
pub(crate) const MANAGED_BY: [&str; 2] = ["ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"];
/// The time that the creation of a Service may need after that of its IPAddress.
const CREATION: Duration = Duration::from_secs(60);
/// The period in which the API server examines every IPAddress.
const PERIOD: Duration = Duration::from_secs(180);

/// The part of the API server's repair loop for cluster IPs that deletes IPAddresses of Services that do not
/// exist.
///
/// - it does not have the label `ipaddress.kubernetes.io/managed-by: ipallocator.k8s.io`: it is ignored.
/// - its parent is not a Service: it is deleted.
/// - its Service exists and has the address among its `spec.clusterIPs`: it is kept.
/// - its Service exists and does not have the address: it is deleted.
/// - its Service does not exist: it is deleted 60 s after its creation, because the API server creates the
///   IPAddress before the Service.
///
/// The API server examines an IPAddress when it changes and every 3 minutes. It deletes the IPAddresses of a
/// Service with the Service, without this loop. The same loop creates missing IPAddresses of Services, which
/// is not covered.
///
/// The loop exists from 1.33 on (feature gate `MultiCIDRServiceAllocator`: alpha from 1.27, beta and off from
/// 1.31).
///
/// # Upstream
/// [`syncIPAddress`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go)
/// in `repairip.go`.
pub static IP_ADDRESSES: Rule = Rule {
    info: Info {
        name: "ipallocator-repair-controller",
        summary: "deletes IPAddresses of Services that do not exist",
        resources: &[Resource::IpAddresses, Resource::Services],
        // The removal of a Service does not affect its IPAddresses before the next period.
        timing: Timing {
            resync: Some(PERIOD),
            ..Timing::DEFAULT
        },
        since: Some(ADDRESSES_ARE_OBJECTS),
        permissions: &[(Resource::IpAddresses, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go",
        ..Info::BASE
    },
    gate: Some((ADDRESSES_ARE_OBJECTS, "MultiCIDRServiceAllocator")),
    decide: decide_ip_address,
    ..Rule::BASE
};

fn decide_ip_address(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let [label, manager] = MANAGED_BY;
    if record
        .meta
        .labels
        .get(label)
        .is_none_or(|value| **value != *manager)
    {
        return id.keep("NotManaged", "the API server has not created it");
    }
    if record.meta.is_deleting() {
        return id.keep("Terminating", "it is being deleted");
    }
    let name = &id.name;
    let delete = |code: &'static str, event: &'static str, message: String, text: String| {
        let action = Action::new(Resource::IpAddresses, &record.meta, Reason::new(code, message))
            .event(true, event, text)
            .delete(cx.wire, Sent::Nothing, DeleteOptions::default())
            .on_error(OnError::RetryUnlessNotFound);
        Ok(action.into())
    };
    let address = id.body(record, Record::ip_address)?;
    let parent = id.read(&address.parent, "spec.parentRef")?;
    if !parent.is_service() {
        let text =
            format!("IPAddress {name} appears to have been modified, not referencing a Service: cleaning up");
        let message = "it does not refer to a Service".to_owned();
        return delete("NoServiceReference", "IPAddressNotAllocated", message, text);
    }
    let service = format!("{}/{}", parent.namespace, parent.name);
    let key = Key::new(Arc::clone(&parent.namespace), Arc::clone(&parent.name));
    let Some(found) = cx.cache.find(Resource::Services, &key)? else {
        let created = record.meta.creation_timestamp;
        if let Some(at) = created.map(|created| created.saturating_add(CREATION))
            && at > cx.now
        {
            let reason = "its Service does not exist, and it was created less than 60s ago";
            return Ok(id.keep("ServicePending", reason)?.requeue_at(at));
        }
        let text = format!("IPAddress: {name} for Service {service} appears to have leaked: cleaning up");
        let message = format!("its Service {service} does not exist");
        return delete("ServiceDeleted", "IPAddressNotAllocated", message, text);
    };
    let (service_id, body) = read_as(Resource::Services, found, Record::service)?;
    if service_id
        .read(&body.cluster_ips, "spec.clusterIPs")?
        .contains(name)
    {
        return id.keep("Allocated", "it is a cluster IP of its Service");
    }
    let text = format!("IPAddress: {name} for Service {service} has a wrong reference; cleaning up");
    let message = format!("its Service {service} does not have this cluster IP");
    delete("WrongReference", "IPAddressWrongReference", message, text)
}
