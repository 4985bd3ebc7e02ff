//! Deletes EndpointSlices that carry the name of a Service and are not owned by it.
//!
//! A slice of this controller has the labels `endpointslice.kubernetes.io/managed-by:
//! endpointslice-controller.k8s.io` and `kubernetes.io/service-name`.
//!
//! - Its Service exists, terminating or not, has a selector, and is not among its owners: it is deleted,
//!   without preconditions. The garbage collector removes the owner when the Service is deleted with the
//!   policy Orphan.
//! - Its Service is among its owners: it is kept. Which surplus slices the controller deletes is not covered.
//! - There is no Service of that name: it is kept. The garbage collector deletes it if it has the owner.
//!
//! # Upstream
//! [`reconcileByAddressType`](https://github.com/kubernetes/kubernetes/blob/v1.22.0/pkg/controller/endpointslice/reconciler.go)
//! in `reconciler.go`; from 1.28 on
//! [`reconcileByAddressType`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/endpointslice/reconciler.go)
//! in `staging/src/k8s.io/endpointslice`.

use std::sync::Arc;

use kubegc_core::{
    Behavior,
    record::{Record, Resource},
};

use crate::{
    Cache, Change, Context, Decision, Index, Info, Key, Missing, OnError, Reason, Rule, Sent,
    controller::{Reads as _, whole},
    rule::RuleContext,
};

/// The feature gate `EndpointSlice`: alpha from 1.16, beta and off from 1.17, on from 1.18.
const CONTROLLER: Behavior = Behavior::since(18, 0, "feature gate EndpointSlice is on");
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Slices by the name of their Service.
static SLICES: Index = Index::new(Resource::EndpointSlices, |record, keys| {
    keys.extend(service_of(record, MANAGER));
});

/// The Service whose name a slice of this manager carries.
pub(crate) fn service_of(slice: &Record, manager: &str) -> Option<Key> {
    let labels = &slice.meta.labels;
    let is_managed = labels.get(MANAGED_BY).is_some_and(|by| **by == *manager);
    let service = labels
        .get(SERVICE_NAME)
        .filter(|name| is_managed && !name.is_empty())?;
    Some(Key::new(Arc::clone(&slice.meta.namespace), Arc::clone(service)))
}

/// The Services whose slices a change may affect, by an index of slices by Service.
pub(crate) fn affected_services(index: &Index, change: &Change<'_>, keys: &mut Vec<Key>) {
    match change.resource {
        Resource::EndpointSlices => keys.extend(index.keys_of_change(change)),
        _ => keys.push(change.key.clone()),
    }
}

/// The Services of all slices.
pub(crate) fn all_services(index: &Index, cache: &Cache, keys: &mut Vec<Key>) {
    let slices = cache.records(Resource::EndpointSlices);
    keys.extend(slices.flat_map(|slice| index.keys_of(slice)));
}

/// Decides about each slice of a Service, by an index of slices by Service. `judge` returns whether a slice
/// is to be deleted, and why. Deletes carry no preconditions.
pub(crate) fn judge_slices(
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

/// Returns whether the Service has a selector: the controller ignores others.
fn is_managed(service: &Record) -> Result<bool, Missing> {
    let id = whole(Resource::Services, service)?;
    let fields = id.body(service, Record::service)?;
    Ok(id.read(&fields.selector, "spec.selector")?.is_some())
}

/// The part of the EndpointSlice controller that deletes slices that its Service does not own.
pub static RULE: Rule = Rule {
    info: Info {
        name: "endpointslice-controller",
        summary: "deletes EndpointSlices that their Service does not own",
        resources: &[Resource::EndpointSlices, Resource::Services],
        indexes: &[&SLICES],
        since: Some(CONTROLLER),
        permissions: &[(Resource::EndpointSlices, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslice/endpointslice_controller.go",
        ..Info::BASE
    },
    // A key is the name of a Service.
    affected: Some(|_, _, change, keys| affected_services(&SLICES, change, keys)),
    keys: Some(|_, cache, keys| all_services(&SLICES, cache, keys)),
    reconcile: Some(reconcile),
    ..Rule::BASE
};

fn reconcile(cx: &RuleContext<'_>, key: &Key) -> Decision {
    let service = cx.cache.get(Resource::Services, key);
    let Some(service) = service.filter(|_| cx.has(CONTROLLER)) else {
        return Decision::default();
    };
    let managed = is_managed(service);
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
