//! Validation of objects of built-in kinds, with upstream's causes. Metadata is validated elsewhere.
//!
//! # Upstream
//! `Validate` and `ValidateUpdate` of the strategies in `pkg/registry`, and `pkg/apis/*/validation`, 1.20.2
//! to 1.36.

mod access;
mod admission_policies;
mod amounts;
mod api_services;
mod asn1;
mod autoscaling;
mod certificates;
mod cluster;
mod config;
mod container;
mod csi;
mod devices;
mod flow_control;
pub(crate) mod go_syntax;
mod handlers;
mod job_policies;
mod jobs;
mod networking;
mod pod;
mod pod_changes;
mod references;
mod schedule;
mod scheduling;
mod security;
mod selector;
mod services;
mod storage;
mod volumes;
mod webhooks;
mod workloads;

use kubegc_core::{ApiResource, Behavior, KubernetesVersion, version::behavior::VALUES_ARE_JSON};
use serde_json::{Map, Value};

use super::{
    field::{At, Check},
    qos,
};
use crate::{
    StoredObject,
    status::{Cause, quoted},
};

type Object = Map<String, Value>;

/// Strings as Go's `%#v` prints a slice of them.
fn go_strings(version: KubernetesVersion, texts: &[&str]) -> String {
    if version.has(VALUES_ARE_JSON) {
        return Value::from(texts).to_string();
    }
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
            let is_change_first = CHANGES_ARE_FIRST.contains(&&*resource.kind);
            if is_change_first {
                changed(resource, &body, &old_body, &mut c);
            }
            whole(resource, new, &body, Some(&old_body), &mut c);
            let twice = CHECKED_TWICE.iter().find(|(kind, _)| *kind == &*resource.kind);
            if twice.is_some_and(|(_, once)| once.is_none_or(|once| !version.has(once))) {
                whole(resource, new, &body, Some(&old_body), &mut c);
            }
            if !is_change_first {
                changed(resource, &body, &old_body, &mut c);
            }
        }
        "scale" => whole(resource, new, &body, Some(&old_body), &mut c),
        "finalize" => cluster::namespace(&body, true, &mut c),
        "status" => status(resource, new, &body, &old_body, &mut c),
        "ephemeralcontainers" => pod_changes::ephemeral_updated(&body, &old_body, &mut c),
        "approval" => {
            whole(resource, new, &body, Some(&old_body), &mut c);
            certificates::updated(&body, &old_body, subresource, &mut c);
        }
        "resize" => pod_changes::resized(&body, &old_body, [new, old].map(qos::class), &mut c),
        _ => {}
    }
    c.causes
}

/// The kinds whose changes are validated before the whole object.
const CHANGES_ARE_FIRST: [&str; 5] = [
    "ConfigMap",
    "IngressClass",
    "Secret",
    "Service",
    "VolumeAttributesClass",
];

/// The kinds whose strategies and update validation both validate the whole object, so that problems are
/// reported twice, and since when they do not, if ever.
const CHECKED_TWICE: [(&str, Option<Behavior>); 12] = [
    ("CSINode", Some(POLICIES_ARE_VALIDATED_ONCE)),
    ("ClusterRole", Some(behavior::ROLES_ARE_VALIDATED_ONCE)),
    ("ClusterRoleBinding", Some(behavior::ROLES_ARE_VALIDATED_ONCE)),
    ("DaemonSet", Some(behavior::DAEMON_SETS_ARE_VALIDATED_ONCE)),
    ("NetworkPolicy", Some(POLICIES_ARE_VALIDATED_ONCE)),
    ("PersistentVolume", None),
    ("PersistentVolumeClaim", Some(behavior::STORAGE_IS_VALIDATED_ONCE)),
    ("ReplicaSet", Some(behavior::DAEMON_SETS_ARE_VALIDATED_ONCE)),
    ("ReplicationController", Some(behavior::STORAGE_IS_VALIDATED_ONCE)),
    ("Role", Some(behavior::ROLES_ARE_VALIDATED_ONCE)),
    ("RoleBinding", Some(behavior::ROLES_ARE_VALIDATED_ONCE)),
    ("VolumeAttachment", Some(behavior::STORAGE_IS_VALIDATED_ONCE)),
];
/// Updates of NetworkPolicies and CSINodes are validated once.
const POLICIES_ARE_VALIDATED_ONCE: Behavior = Behavior::since(36, 0, "their strategies of 1.36");

/// When the double validation of updates ended.
pub(crate) mod behavior {
    use kubegc_core::Behavior;

    pub(crate) const DAEMON_SETS_ARE_VALIDATED_ONCE: Behavior = Behavior::since(34, 0, "kubernetes #132548");
    pub(crate) const STORAGE_IS_VALIDATED_ONCE: Behavior = Behavior::since(35, 0, "kubernetes #132549");
    pub(crate) const ROLES_ARE_VALIDATED_ONCE: Behavior = Behavior::since(35, 0, "kubernetes #132550");
    /// And updates of claims are validated as changes only.
    pub(crate) const CLAIMS_ARE_VALIDATED_ONCE: Behavior =
        Behavior::since_about(36, "ValidateResourceClaimUpdate of 1.36");
}

/// Validates new objects and changed ones.
fn whole(resource: &ApiResource, object: &StoredObject, body: &Object, old: Option<&Object>, c: &mut Check) {
    let is_beta = &*resource.version == "v1beta1";
    match &*resource.kind {
        "APIService" => api_services::api_service(body, c),
        "ConfigMap" => config::config_map(body, c),
        "Secret" => config::secret(body, c),
        "Service" => services::service(body, c),
        "Endpoints" => services::endpoints(body, c),
        "EndpointSlice" => services::endpoint_slice(body, c),
        "Event" => {
            let is_of_group = (&*resource.group, &*resource.version) == ("events.k8s.io", "v1");
            cluster::event(object, body, is_of_group, old.is_none(), c);
        }
        "Pod" => {}
        "PodTemplate" => workloads::pod_template(body, c),
        "ReplicationController" => workloads::replication_controller(body, c),
        "PersistentVolume" => storage::volume(body, c),
        "PersistentVolumeClaim" => storage::claim(body, c),
        "Node" => cluster::node(body, c),
        "LimitRange" => cluster::limit_range(body, c),
        "ResourceQuota" => cluster::quota(body, c),
        "Deployment" => workloads::deployment(body, c),
        "ReplicaSet" => workloads::replica_set(body, c),
        "StatefulSet" if old.is_none() => workloads::stateful_set(body, c),
        "DaemonSet" => workloads::daemon_set(body, c),
        "ControllerRevision" => workloads::controller_revision(body, old.is_none(), c),
        "Job" => jobs::job(object, body, c),
        "CronJob" => jobs::cron_job(object, body, old, c),
        "HorizontalPodAutoscaler" => autoscaling::autoscaler(body, old, c),
        "Ingress" => networking::ingress(body, old, is_beta, c),
        "IngressClass" => networking::ingress_class(body, c),
        "NetworkPolicy" => networking::network_policy(body, c),
        "IPAddress" => networking::address(body, c),
        "ServiceCIDR" if old.is_none() => networking::service_ranges(body, c),
        "DeviceClass" => devices::class(body, c),
        "ResourceClaim" if old.is_none() || !c.version.has(behavior::CLAIMS_ARE_VALIDATED_ONCE) => {
            devices::claim(body, c);
        }
        "ResourceClaimTemplate" => devices::claim_template(body, c),
        "ResourceSlice" => devices::slice(body, old, c),
        "CertificateSigningRequest" => certificates::request(body, old, is_beta, c),
        "PodDisruptionBudget" => access::disruption_budget(body, c),
        "Role" => access::role(body, true, c),
        "ClusterRole" => access::role(body, false, c),
        "RoleBinding" => access::binding(body, true, c),
        "ClusterRoleBinding" => access::binding(body, false, c),
        "StorageClass" => storage::class(body, c),
        "CSIDriver" if old.is_none() || c.since(21) => csi::driver(body, c),
        "CSINode" => csi::node(body, c),
        "CSIStorageCapacity" => csi::capacity(body, c),
        "VolumeAttachment" => csi::attachment(body, old.is_none(), c),
        "VolumeAttributesClass" => storage::attributes_class(body, c),
        "PriorityClass" if old.is_none() => access::priority_class(object, body, c),
        "Lease" => cluster::lease(body, c),
        "RuntimeClass" => cluster::runtime_class(body, c),
        "FlowSchema" => flow_control::schema(object, body, c),
        "PriorityLevelConfiguration" => flow_control::level(object, body, &resource.version, c),
        "ValidatingAdmissionPolicy" => admission_policies::validating(object, body, old, c),
        "ValidatingAdmissionPolicyBinding" => admission_policies::binding(body, false, c),
        "MutatingAdmissionPolicy" => admission_policies::mutating(body, old, c),
        "MutatingAdmissionPolicyBinding" => admission_policies::binding(body, true, c),
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
        "Pod" => pod_changes::updated(body, old, c),
        "PersistentVolume" => storage::volume_updated(body, old, c),
        "PersistentVolumeClaim" => storage::claim_updated(body, old, c),
        "Node" => cluster::node_updated(body, old, c),
        "ResourceQuota" => cluster::quota_updated(body, old, c),
        "Deployment" | "ReplicaSet" | "DaemonSet" if &*resource.version == "v1" => {
            workloads::pinned_selector(body, old, c);
        }
        "StatefulSet" => workloads::stateful_set_updated(body, old, c),
        "ControllerRevision" => workloads::controller_revision_updated(body, old, c),
        "Job" => jobs::job_updated(body, old, c),
        "IngressClass" => networking::ingress_class_updated(body, old, c),
        "IPAddress" => networking::address_updated(body, old, c),
        "ServiceCIDR" => networking::service_ranges_updated(body, old, c),
        "ResourceClaim" | "ResourceClaimTemplate" => {
            devices::spec_updated(body, old, devices::spec_type(&resource.kind), c);
            if &*resource.kind == "ResourceClaim" && !c.version.has(behavior::CLAIMS_ARE_VALIDATED_ONCE) {
                devices::claim(body, c);
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => access::binding_updated(body, old, c),
        "StorageClass" => storage::class_updated(body, old, c),
        "CSIDriver" => csi::driver_updated(body, old, c),
        "CSINode" => csi::node_updated(body, old, c),
        "CSIStorageCapacity" => csi::capacity_updated(body, old, c),
        "VolumeAttachment" => csi::attachment_updated(body, old, c),
        "VolumeAttributesClass" => storage::attributes_class_updated(body, old, c),
        "PriorityClass" => access::priority_class_updated(body, old, c),
        "RuntimeClass" if body.get("handler") != old.get("handler") => {
            At::root(body, "handler").invalid(c, "field is immutable");
        }
        _ => {}
    }
}

/// Validates a change of the status.
fn status(resource: &ApiResource, new: &StoredObject, body: &Object, old: &Object, c: &mut Check) {
    match &*resource.kind {
        "APIService" => api_services::status(body, c),
        "Pod" => pod_changes::status_updated(body, old, c),
        "Namespace" => cluster::namespace_status(new, body, c),
        "ResourceQuota" => cluster::quota_status(body, c),
        "ValidatingAdmissionPolicy" => {
            admission_policies::status(body, c);
            conditions(&At::root(body, "status").get("conditions"), c);
        }
        "CertificateSigningRequest" => {
            whole(resource, new, body, Some(old), c);
            certificates::updated(body, old, "status", c);
        }
        "ResourceClaim" => devices::claim_status(body, old, new.meta.is_deleting(), c),
        "Node" => {
            cluster::node_updated(body, old, c);
            cluster::node(body, c);
        }
        "VolumeAttachment" => {
            csi::attachment_status(body, c);
            if !c.version.has(behavior::STORAGE_IS_VALIDATED_ONCE) {
                csi::attachment_status(body, c);
            }
        }
        "Service" | "Ingress" => {
            let balancer = At::root(body, "status").get("loadBalancer");
            networking::load_balancer(&balancer, &*resource.kind == "Service", c);
            // The feature gate `AllowServiceLBStatusOnNonLB` is off since 1.29.
            let ingress = balancer.get("ingress");
            if c.since(29)
                && &*resource.kind == "Service"
                && At::root(body, "spec").get("type").text() != "LoadBalancer"
                && !ingress.is_empty()
                && At::root(old, "status").get("loadBalancer").get("ingress").value != ingress.value
            {
                ingress.forbidden(c, "may only be used when `spec.type` is 'LoadBalancer'");
            }
        }
        "PodDisruptionBudget" if c.since(21) && &*resource.version == "v1" => {
            conditions(&At::root(body, "status").get("conditions"), c);
            workloads::status(&resource.kind, body, old, c);
        }
        kind => workloads::status(kind, body, old, c),
    }
}

/// Validates the reason of a condition, if it has one, and its message.
fn texts_of_condition(condition: &At<'_>, c: &mut Check) {
    const REASON_MAX: usize = 1024;
    const MESSAGE_MAX: usize = 32 * 1024;
    let (reason, message) = (condition.get("reason"), condition.get("message"));
    if !reason.text().is_empty() && !is_reason(reason.text()) {
        let problem = "a condition reason must start with alphabetic character, optionally followed by a string of \
                       alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                       'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', \
                       regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        reason.invalid(c, problem);
    }
    for (text, max) in [(&reason, REASON_MAX), (&message, MESSAGE_MAX)] {
        if text.text().len() > max {
            text.too_long(c, max);
        }
    }
}

/// Whether a text can be the reason of a condition.
fn is_reason(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.bytes().all(is_inner)
        && !text.ends_with([',', ':'])
}

/// `ValidateConditions` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go).
fn conditions(list: &At<'_>, c: &mut Check) {
    let mut seen: Vec<&str> = Vec::new();
    for condition in list.items() {
        let kind = condition.get("type");
        if seen.contains(&kind.text()) {
            kind.duplicate(c);
        }
        seen.push(kind.text());
        kind.qualified_name(c);
        let status = condition.get("status");
        if !matches!(status.text(), "True" | "False" | "Unknown") {
            status.unsupported(c, &["False", "True", "Unknown"]);
        }
        let generation = condition.get("observedGeneration");
        if generation.number() < 0 {
            generation.invalid(c, "must be greater than or equal to zero");
        }
        let problem = if c.since(34) { "" } else { "must be set" };
        let time = condition.get("lastTransitionTime");
        if !time.is_set() {
            time.required(c, problem);
        }
        let reason = condition.get("reason");
        if reason.text().is_empty() {
            reason.required(c, problem);
        }
        texts_of_condition(&condition, c);
    }
}

/// Validates the addresses of a service before others are allocated.
pub(crate) fn service_addresses(service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    services::addresses(&body(service), &mut c);
    c.causes
}

/// Validates a service after its addresses and ports were allocated.
pub(crate) fn allocated(service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    services::traffic_fields(&body(service), &mut c);
    c.causes
}
