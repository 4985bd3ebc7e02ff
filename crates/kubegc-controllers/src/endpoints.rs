//! Deletes the Endpoints of Services that no longer exist.
//!
//! - Endpoints whose Service exists, terminating or not: they are kept.
//! - Endpoints whose Service was deleted: they are deleted, without preconditions.
//! - Endpoints without a Service when the controller starts: they are deleted, unless they hold a leader
//!   election record.
//! - Endpoints that are created without a Service: they are kept until the controller starts again.
//!
//! The API server itself deletes the Endpoints together with the Service ([CP-1](crate::rules#cp-1)), so that
//! the request of the controller usually finds nothing. EndpointSlices have an owner reference to their
//! Service, and the garbage collector deletes them; mirrored ones are deleted by
//! [`endpointslicemirroring`](crate::endpointslicemirroring) too.
//!
//! # Upstream
//! [`syncService` and
//! `checkLeftoverEndpoints`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpoint/endpoints_controller.go)
//! in `endpoints_controller.go`;
//! [`afterDelete`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/registry/core/service/storage/storage.go)
//! of the API server. The same in all releases.

use kubegc_core::record::{ObjectId, Record, Resource};

use crate::{Context, Decision, Info, Key, Missing, OnError, Reason, Rule, Sent, controller::read};

/// The part of the endpoints controller that deletes Endpoints.
pub static RULE: Rule = Rule {
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
    decide: |_, cx, id, record| decide(cx, id, record),
    ..Rule::BASE
};

fn decide(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let key = &Key::from(&record.meta);
    let keep = |code, message: &'static str| Ok(Decision::keep(id.clone(), Reason::new(code, message)));
    if record.meta.is_deleting() {
        return keep("Terminating", "they are being deleted");
    }
    if cx.cache.get(Resource::Services, key).is_some() {
        return keep("ServiceExists", "their Service exists");
    }
    let endpoints = cx.body(id, record, Record::endpoints)?;
    let annotation = "the annotation control-plane.alpha.kubernetes.io/leader";
    if *read(&endpoints.has_leader_annotation, id, annotation)? {
        return keep("LeaderElection", "they hold a leader election record");
    }
    cx.cache.require_in(Resource::Services, &key.namespace)?;
    let reason = Reason::new("ServiceDeleted", "their Service does not exist");
    let action = cx.delete(
        id.resource,
        record,
        reason,
        Sent::Nothing,
        OnError::RetryUnlessNotFound,
    );
    Ok(Decision::act(action))
}
