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

use crate::{
    Decision, Info, Key, Missing, OnError, Reason, Rule, Sent, controller::Reads as _, rule::RuleContext,
};

/// The annotation of a leader election record.
pub(crate) const LEADER: &str = "the annotation control-plane.alpha.kubernetes.io/leader";

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
    decide,
    ..Rule::BASE
};

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
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
