//! Validation of objects of built-in kinds, with upstream's causes. Metadata is validated elsewhere.
//!
//! # Upstream
//! `Validate` and `ValidateUpdate` of the strategies in `pkg/registry`, and `pkg/apis/*/validation`, 1.20.2.

mod access;
mod autoscaling;
mod cluster;
mod config;
mod container;
mod go_syntax;
mod networking;
mod pod;
mod references;
mod schedule;
mod selector;
mod services;
mod storage;
mod volumes;
mod webhooks;
mod workloads;

use kubegc_core::{ApiResource, KubernetesVersion};
use serde_json::{Map, Value};

use super::field::{At, Check};
use crate::{
    StoredObject,
    status::{Cause, quoted},
};

type Object = Map<String, Value>;

/// Strings as Go's `%#v` prints a slice of them.
fn go_strings(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[]string{{{}}}", texts.join(", "))
}

fn body(object: &StoredObject) -> Object {
    object.body.as_deref().cloned().unwrap_or_default()
}

/// The problems of an object that is to be created.
pub(crate) fn created(
    resource: &ApiResource,
    object: &StoredObject,
    version: KubernetesVersion,
) -> Vec<Cause> {
    let mut c = Check::new(version, object.decoded.clone());
    let body = body(object);
    if &*resource.kind == "Pod" {
        pod::created(&body, &mut c);
    } else {
        whole(resource, object, &body, None, &mut c);
    }
    if &*resource.kind == "Namespace" {
        cluster::namespace(&body, false, &mut c);
    }
    c.causes
}

/// The problems of an object that is to replace another, in one of its parts.
pub(crate) fn updated(
    resource: &ApiResource,
    new: &StoredObject,
    old: &StoredObject,
    subresource: &str,
    version: KubernetesVersion,
) -> Vec<Cause> {
    let mut c = Check::new(version, new.decoded.clone());
    let (body, old_body) = (body(new), body(old));
    match subresource {
        "" => {
            changed(resource, &body, &old_body, &mut c);
            whole(resource, new, &body, Some(&old_body), &mut c);
            if CHECKED_TWICE.contains(&&*resource.kind) {
                whole(resource, new, &body, Some(&old_body), &mut c);
            }
        }
        "scale" => whole(resource, new, &body, Some(&old_body), &mut c),
        "finalize" => cluster::namespace(&body, true, &mut c),
        "status" => status(resource, new, &body, &old_body, &mut c),
        _ => {}
    }
    c.causes
}

/// The kinds whose strategies and update validation both validate the whole object, so that problems are
/// reported twice.
const CHECKED_TWICE: [&str; 12] = [
    "CSINode",
    "ClusterRole",
    "ClusterRoleBinding",
    "DaemonSet",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ReplicaSet",
    "ReplicationController",
    "Role",
    "RoleBinding",
    "VolumeAttachment",
];

/// Validates new objects and changed ones.
fn whole(resource: &ApiResource, object: &StoredObject, body: &Object, old: Option<&Object>, c: &mut Check) {
    let is_beta = &*resource.version == "v1beta1";
    match &*resource.kind {
        "ConfigMap" => config::config_map(body, c),
        "Secret" => config::secret(body, c),
        "Service" => services::service(body, c),
        "Endpoints" => services::endpoints(body, c),
        "EndpointSlice" => services::endpoint_slice(body, c),
        "Event" => {
            let is_strict = &*resource.group == "events.k8s.io" && &*resource.version == "v1";
            cluster::event(object, body, is_strict && old.is_none(), c);
        }
        "Pod" => {}
        "PodTemplate" => workloads::pod_template(body, c),
        "ReplicationController" => workloads::replication_controller(body, c),
        "PersistentVolume" => storage::volume(body, c),
        "PersistentVolumeClaim" => storage::claim(body, c),
        "Node" => cluster::node(body, old.is_none(), c),
        "LimitRange" => cluster::limit_range(body, c),
        "ResourceQuota" => cluster::quota(body, c),
        "Deployment" => workloads::deployment(body, c),
        "ReplicaSet" => workloads::replica_set(body, c),
        // An update is validated only as a change.
        "StatefulSet" if old.is_none() => workloads::stateful_set(body, c),
        "DaemonSet" => workloads::daemon_set(body, c),
        "ControllerRevision" => workloads::controller_revision(body, c),
        "Job" => workloads::job(object, body, c),
        "CronJob" => workloads::cron_job(object, body, old.is_none(), c),
        "HorizontalPodAutoscaler" => autoscaling::autoscaler(body, old, c),
        "Ingress" => networking::ingress(body, old, is_beta, c),
        "IngressClass" => networking::ingress_class(body, c),
        "NetworkPolicy" => networking::network_policy(body, c),
        "PodDisruptionBudget" => access::disruption_budget(body, c),
        "Role" => access::role(body, true, c),
        "ClusterRole" => access::role(body, false, c),
        "RoleBinding" => access::binding(body, true, c),
        "ClusterRoleBinding" => access::binding(body, false, c),
        "StorageClass" if old.is_none() => storage::class(body, c),
        "CSIDriver" if old.is_none() => storage::driver(body, c),
        "CSINode" => storage::node(body, c),
        "VolumeAttachment" => storage::attachment(body, c),
        "PriorityClass" if old.is_none() => access::priority_class(object, body, c),
        "Lease" => cluster::lease(body, c),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhooks::configuration(body, old, is_beta, c);
        }
        _ => {}
    }
}

/// Validates the rules for changes only.
fn changed(resource: &ApiResource, body: &Object, old: &Object, c: &mut Check) {
    match &*resource.kind {
        "ConfigMap" => config::immutable(body, old, c),
        "Secret" => config::secret_updated(body, old, c),
        "Service" => services::service_updated(body, old, c),
        "EndpointSlice" => services::endpoint_slice_updated(body, old, c),
        "Event" if &*resource.group == "events.k8s.io" && &*resource.version == "v1" => {
            cluster::strict_event_updated(body, old, c);
        }
        "Pod" => pod::updated(body, old, c),
        "PersistentVolume" => storage::volume_updated(body, old, c),
        "PersistentVolumeClaim" => storage::claim_updated(body, old, c),
        "Node" => cluster::node_updated(body, old, c),
        "ResourceQuota" => cluster::quota_updated(body, old, c),
        "Deployment" | "ReplicaSet" | "DaemonSet" if &*resource.version == "v1" => {
            workloads::pinned_selector(body, old, c);
        }
        "StatefulSet" => workloads::stateful_set_updated(body, old, c),
        "ControllerRevision" if body.get("data") != old.get("data") => {
            At::root(body, "data").invalid(c, "field is immutable");
        }
        "Job" => workloads::job_updated(body, old, c),
        "IngressClass" => networking::ingress_class_updated(body, old, c),
        "RoleBinding" | "ClusterRoleBinding" => access::binding_updated(body, old, c),
        "StorageClass" => storage::class_updated(body, old, c),
        "CSIDriver" => storage::driver_updated(body, old, c),
        "VolumeAttachment" => storage::attachment_updated(body, old, c),
        "PriorityClass" => access::priority_class_updated(body, old, c),
        _ => {}
    }
}

/// Validates a change of the status.
fn status(resource: &ApiResource, new: &StoredObject, body: &Object, old: &Object, c: &mut Check) {
    match &*resource.kind {
        "Pod" => pod::status_updated(body, old, c),
        "Namespace" => cluster::namespace_status(new, body, c),
        "ResourceQuota" => cluster::quota_status(body, c),
        "Node" => {
            cluster::node_updated(body, old, c);
            cluster::node(body, false, c);
        }
        "Service" | "Ingress" => {
            networking::load_balancer(&At::root(body, "status").get("loadBalancer"), c);
        }
        kind => workloads::status(kind, body, old, c),
    }
}

/// Validates a service after its addresses and ports were allocated.
pub(crate) fn allocated(service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    services::traffic_fields(&body(service), &mut c);
    c.causes
}
