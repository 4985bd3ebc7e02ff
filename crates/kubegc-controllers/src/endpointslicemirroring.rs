//! Deletes EndpointSlices that mirror Endpoints which no longer exist or are not mirrored any more.
//!
//! A mirrored slice has the labels `endpointslice.kubernetes.io/managed-by:
//! endpointslicemirroring-controller.k8s.io` and `kubernetes.io/service-name`. All mirrored slices of a name
//! are deleted in these cases:
//!
//! - There are no Endpoints of that name.
//! - The Endpoints have the label `endpointslice.kubernetes.io/skip-mirror: "true"` or a leader election
//!   record.
//! - There is no Service of that name.
//! - The Service has a selector.
//!
//! Otherwise the slices follow the Endpoints. Which surplus slices that deletes is not covered.
//!
//! Slices of the EndpointSlice controller are not touched: the garbage collector deletes them with their
//! Service.
//!
//! Releases: from 1.19 on, with the feature gate `EndpointSlice` (beta and on) there.
//!
//! # Upstream
//! [`syncEndpoints` and
//! `deleteMirroredSlices`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go)
//! in `endpointslicemirroring_controller.go`.

use kubegc_core::{
    Behavior,
    record::{Record, Resource},
};

use crate::{
    Decision, Index, Info, Key, Missing, Reason, Rule,
    controller::Reads as _,
    endpoints::LEADER,
    endpointslice::{affected_services, all_services, judge_slices, service_of},
    rule::RuleContext,
};

const MIRRORING: Behavior = Behavior::since(19, 0, "kubernetes #91637");
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Mirrored slices by the name of their Service.
static MIRRORED: Index = Index::new(Resource::EndpointSlices, |record, keys| {
    keys.extend(service_of(record, MANAGER))
});

/// The reason why the slices of this name are deleted or kept.
fn judge(cx: &RuleContext<'_>, key: &Key) -> Result<(bool, Reason), Missing> {
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
    let id = service.id(Resource::Services);
    let service = id.body(service, Record::service)?;
    if id.read(&service.selector, "spec.selector")?.is_some() {
        return delete("ServiceHasSelector", "their Service has a selector");
    }
    Ok((false, Reason::new("Mirrored", "it mirrors Endpoints that exist")))
}

/// The part of the EndpointSlice mirroring controller that deletes EndpointSlices.
pub static RULE: Rule = Rule {
    info: Info {
        name: "endpointslice-mirroring-controller",
        summary: "deletes EndpointSlices that mirror Endpoints which no longer exist",
        resources: &[Resource::EndpointSlices, Resource::Endpoints, Resource::Services],
        indexes: &[&MIRRORED],
        since: Some(MIRRORING),
        permissions: &[(Resource::EndpointSlices, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go",
        ..Info::BASE
    },
    // A key is the name of a Service.
    affected: Some(|_, _, change, keys| affected_services(&MIRRORED, change, keys)),
    keys: Some(|_, cache, keys| all_services(&MIRRORED, cache, keys)),
    reconcile: Some(|cx, key| {
        if cx.cache.first_indexed(&MIRRORED, key).is_none() {
            return Decision::default();
        }
        let judged = judge(cx, key);
        judge_slices(cx, &MIRRORED, key, |_| judged.clone())
    }),
    ..Rule::BASE
};
