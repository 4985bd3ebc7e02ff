//! Defaults of built-in kinds that the server sets.
//!
//! Constants at a field come from the table of types. Defaults that depend on other fields are here, by the
//! name of the struct.
//!
//! # Upstream
//! `SetDefaults_*` in `pkg/apis/*/*/defaults.go`, 1.20.2 and 1.22.

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::{
    qos,
    schema::{Field, StructId, Type},
    service::{ADDRESSES_HAVE_MODES, default_modes},
};

type Object = Map<String, Value>;

/// Pods have no negative grace period; templates may.
const PERIODS_ARE_POSITIVE: Behavior = Behavior::since_about(22, "kubernetes #98866");

/// The ports of pods in the host's network get a port of the host; before, those of templates as well.
const ONLY_PODS_GET_HOST_PORTS: Behavior = Behavior::since(
    28,
    0,
    "the feature gate DefaultHostNetworkHostPortsInPodTemplates is off",
);
/// Jobs say when a pod is replaced.
const REPLACEMENT_IS_SET: Behavior = Behavior::since(29, 0, "the feature gate JobPodReplacementPolicy is on");
/// The defaults of Jobs include `manualSelector`.
const JOBS_ARE_COMPLETE: Behavior = Behavior::since(29, 0, "kubernetes #120206");
/// Namespaces get a label with their name.
pub(crate) const NAMESPACES_ARE_LABELLED: Behavior = Behavior::since(21, 0, "kubernetes #96968");

/// Sets the defaults of a struct in its normal form and of all nested structs, from the outside to the
/// inside.
pub(crate) fn fill(object: &mut Object, id: StructId, version: KubernetesVersion) {
    for field in id.fields() {
        if let Some(default) = &field.default
            && field.is_in(version)
            && is_unset(object, field)
        {
            object.insert(field.name.to_owned(), default.clone());
        }
    }
    let (name, variant) = id.name().split_once('.').unwrap_or((id.name(), ""));
    dependent(object, name, variant, version);
    for field in id.fields() {
        if let Some(value) = object.get_mut(field.name) {
            field
                .ty
                .each_struct(value, &mut |inner, id| fill(inner, id, version));
        }
    }
}

/// Whether the defaulting code reads the zero value: nil for a pointer.
fn is_unset(object: &Object, field: &Field) -> bool {
    match object.get(field.name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && field.ty == Type::String,
        Some(Value::Number(number)) => {
            number.as_i64() == Some(0) && matches!(field.ty, Type::Int32 | Type::Int64)
        }
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// A string of the object; empty where there is none.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is missing or null.
pub(super) fn is_nil(object: &Object, key: &str) -> bool {
    object.get(key).is_none_or(Value::is_null)
}

pub(super) fn set_nil(object: &mut Object, key: &str, value: impl Into<Value>) {
    if is_nil(object, key) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Whether a field has no items or entries.
fn is_empty(object: &Object, key: &str) -> bool {
    object.get(key).is_none_or(|value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        other => other.is_null(),
    })
}

fn set_empty(object: &mut Object, key: &str, value: impl Into<Value>) {
    if is_empty(object, key) {
        object.insert(key.to_owned(), value.into());
    }
}

/// The object in a field, if there is one.
pub(crate) fn object_mut<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

/// The object in a field, which is created where there is none.
pub(crate) fn object_in<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    set_nil(object, key, json!({}));
    object_mut(object, key)
}

/// The list in a field, which is created where there is none.
pub(super) fn list_in<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Vec<Value>> {
    set_nil(object, key, json!([]));
    object.get_mut(key).and_then(Value::as_array_mut)
}

/// The objects of the list in a field.
pub(crate) fn objects_in<'a>(object: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = object.get_mut(key).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn dependent(object: &mut Object, name: &str, variant: &str, version: KubernetesVersion) {
    match name {
        "DeploymentStrategy" => {
            let old = variant == "extensions.v1beta1";
            let rolling = text(object, "type") == "RollingUpdate";
            if rolling || old && !is_nil(object, "rollingUpdate") {
                let share = if old { json!(1) } else { json!("25%") };
                if let Some(rolling) = object_in(object, "rollingUpdate") {
                    set_nil(rolling, "maxUnavailable", share.clone());
                    set_nil(rolling, "maxSurge", share);
                }
            }
        }
        "DaemonSetUpdateStrategy" if text(object, "type") == "RollingUpdate" => {
            if let Some(rolling) = object_in(object, "rollingUpdate") {
                set_nil(rolling, "maxUnavailable", 1);
                if version.minor() >= 22 {
                    set_nil(rolling, "maxSurge", 0);
                }
            }
        }
        "StatefulSetUpdateStrategy" => {
            if text(object, "type").is_empty() {
                let kind = if variant == "apps.v1beta1" {
                    "OnDelete"
                } else {
                    "RollingUpdate"
                };
                object.insert("type".to_owned(), kind.into());
                if kind == "RollingUpdate" {
                    set_nil(object, "rollingUpdate", json!({}));
                }
            }
            if text(object, "type") == "RollingUpdate"
                && let Some(rolling) = object_mut(object, "rollingUpdate")
            {
                set_nil(rolling, "partition", 0);
            }
        }
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet"
            if matches!(variant, "extensions.v1beta1" | "apps.v1beta1") =>
        {
            label(object, |spec, labels| {
                set_nil(spec, "selector", json!({"matchLabels": labels}));
            });
        }
        "ReplicationController" => label(object, |spec, labels| {
            set_empty(spec, "selector", labels.clone());
        }),
        "Namespace" if version.has(NAMESPACES_ARE_LABELLED) => {
            let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
            if let Some(name) = name.filter(|name| name.as_str() != Some("")).cloned()
                && let Some(metadata) = object_mut(object, "metadata")
                && let Some(labels) = object_in(metadata, "labels")
            {
                labels.insert("kubernetes.io/metadata.name".to_owned(), name);
            }
        }
        "Job" => {
            if let Some(spec) = object_mut(object, "spec") {
                if is_nil(spec, "parallelism") {
                    set_nil(spec, "completions", 1);
                }
                set_nil(spec, "parallelism", 1);
                let is_unlimited = !is_nil(spec, "backoffLimitPerIndex");
                set_nil(spec, "backoffLimit", if is_unlimited { i32::MAX } else { 6 });
                if version.minor() >= 22 {
                    set_nil(spec, "completionMode", "NonIndexed");
                    set_nil(spec, "suspend", false);
                }
                if version.has(JOBS_ARE_COMPLETE) {
                    set_nil(spec, "manualSelector", false);
                }
                if version.has(REPLACEMENT_IS_SET) {
                    let fails = !is_nil(spec, "podFailurePolicy");
                    set_nil(
                        spec,
                        "podReplacementPolicy",
                        if fails { "Failed" } else { "TerminatingOrFailed" },
                    );
                }
            }
            label(object, |_, _| {});
        }
        "Pod" => {
            if let Some(spec) = object_mut(object, "spec") {
                requests_from_limits(spec);
                qos::set_requests(spec);
                set_nil(spec, "enableServiceLinks", true);
                let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
                if grace.is_some_and(|seconds| seconds < 0) && version.has(PERIODS_ARE_POSITIVE) {
                    spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
                }
                if spec.get("hostNetwork") == Some(&true.into()) && version.has(ONLY_PODS_GET_HOST_PORTS) {
                    host_ports(spec);
                }
            }
        }
        "PodSpec" => {
            // The old name of the field always repeats the new one.
            let names = ["serviceAccountName", "serviceAccount"];
            if let Some(account) = names.into_iter().find(|key| !text(object, key).is_empty()) {
                let account = text(object, account).to_owned();
                for key in names {
                    object.insert(key.to_owned(), account.as_str().into());
                }
            }
            if object.get("hostNetwork") == Some(&true.into()) && !version.has(ONLY_PODS_GET_HOST_PORTS) {
                host_ports(object);
            }
        }
        "Volume" if object.keys().all(|key| key == "name") => {
            object.insert("emptyDir".to_owned(), json!({}));
        }
        "Container" | "EphemeralContainer" => pull_policy(object, "imagePullPolicy", "image"),
        "GRPCAction" => set_nil(object, "service", ""),
        "ImageVolumeSource" => pull_policy(object, "pullPolicy", "reference"),
        "Service" if version.has(ADDRESSES_HAVE_MODES) => default_modes(object),
        "ServiceSpec" => service(object, version),
        "ServicePort" => {
            let unset = |value: &Value| value.as_i64() == Some(0) || value.as_str() == Some("");
            if object.get("targetPort").is_none_or(unset)
                && let Some(port) = object.get("port").cloned()
            {
                object.insert("targetPort".to_owned(), port);
            }
        }
        "Subject" if variant == "rbac.v1alpha1" && text(object, "apiVersion").is_empty() => {
            let version = match text(object, "kind") {
                "ServiceAccount" => "v1",
                "User" | "Group" => "rbac.authorization.k8s.io/v1alpha1",
                _ => return,
            };
            object.insert("apiVersion".to_owned(), version.into());
        }
        "Subject" if variant.is_empty() && text(object, "apiGroup").is_empty() => {
            if matches!(text(object, "kind"), "User" | "Group") {
                object.insert("apiGroup".to_owned(), "rbac.authorization.k8s.io".into());
            }
        }
        "ExactDeviceRequest" | "DeviceSubRequest"
            if text(object, "allocationMode") == "ExactCount"
                && (is_nil(object, "count") || object["count"] == 0) =>
        {
            object.insert("count".to_owned(), 1.into());
        }
        "NetworkPolicySpec" => {
            let types = if is_empty(object, "egress") {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            set_empty(object, "policyTypes", types);
        }
        "NodeStatus" => {
            if let Some(capacity) = object.get("capacity").cloned() {
                set_nil(object, "allocatable", capacity);
            }
        }
        "LimitRangeItem" if text(object, "type") == "Container" => limits(object),
        "HorizontalPodAutoscalerBehavior" => scaling_policies(object),
        "CustomResourceDefinition" => {
            let versions = object
                .get("spec")
                .and_then(|spec| spec.get("versions")?.as_array());
            let mut versions = versions.into_iter().flatten();
            let stored = versions.find(|version| version.get("storage") == Some(&true.into()));
            let stored = stored.and_then(|version| version.get("name")).cloned();
            if let (Some(stored), Some(status)) = (stored, object_mut(object, "status")) {
                set_empty(status, "storedVersions", json!([stored]));
            }
        }
        "CustomResourceDefinitionSpec" => {
            if let Some(names) = object_mut(object, "names") {
                let kind = text(names, "kind").to_owned();
                if !kind.is_empty() {
                    set_nil(names, "singular", kind.to_lowercase());
                    set_nil(names, "listKind", kind + "List");
                }
            }
        }
        _ => {}
    }
}

/// Selects the labels of the template, and labels an object that has no labels with them.
fn label(object: &mut Object, select: fn(&mut Object, &Value)) {
    let Some(spec) = object_mut(object, "spec") else {
        return;
    };
    let labels = |spec: &Object| spec.get("template")?.get("metadata")?.get("labels").cloned();
    if let Some(labels) = labels(spec).filter(Value::is_object) {
        select(spec, &labels);
        if let Some(metadata) = object_mut(object, "metadata") {
            set_empty(metadata, "labels", labels);
        }
    }
}

/// The policy of an image: `latest` is always pulled.
fn pull_policy(object: &mut Object, key: &str, image: &str) {
    if text(object, key).is_empty() {
        let policy = match is_latest(text(object, image)) {
            true => "Always",
            false => "IfNotPresent",
        };
        object.insert(key.to_owned(), policy.into());
    }
}

fn containers(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let lists = spec
        .iter_mut()
        .filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"));
    let lists = lists.filter_map(|(_, list)| list.as_array_mut());
    lists.flatten().filter_map(Value::as_object_mut)
}

fn requests_from_limits(spec: &mut Object) {
    for container in containers(spec) {
        if let Some(resources) = object_mut(container, "resources")
            && let Some(limits) = resources.get("limits").cloned()
        {
            missing_entries(resources, "requests", &limits);
        }
    }
}

/// Adds the entries of a map that the map in a field of `object` does not have.
fn missing_entries(object: &mut Object, key: &str, from: &Value) {
    let Some(from) = from.as_object() else { return };
    if let Some(to) = object_in(object, key) {
        for (key, value) in from {
            to.entry(key).or_insert_with(|| value.clone());
        }
    }
}

fn host_ports(spec: &mut Object) {
    for port in containers(spec).flat_map(|container| objects_in(container, "ports")) {
        if let Some(number) = port.get("containerPort").cloned() {
            set_nil(port, "hostPort", number);
        }
    }
}

/// Whether an image has the tag `latest`, or neither tag nor digest. An image without a valid name has no
/// tag.
///
/// # Upstream
/// `ParseImageName` in `pkg/util/parsers/parsers.go`, 1.20.2.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    let (repository, tag) = match name.split_once(':') {
        Some((_, tag)) => (
            image.strip_suffix(tag).unwrap_or_default().trim_end_matches(':'),
            tag,
        ),
        None => (image, "latest"),
    };
    let has_host = repository.split_once('/').is_some_and(|(host, _)| {
        host.contains(['.', ':']) || host == "localhost" || host.contains(|c: char| c.is_ascii_uppercase())
    });
    let path: Vec<&str> = repository.split('/').skip(usize::from(has_host)).collect();
    // Without a host, an image of one part is in `library`.
    let length = path.join("/").len() + if !has_host && path.len() == 1 { 8 } else { 0 };
    let is_identifier = image.len() == 64 && image.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let valid = |part: &str| {
        let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part
                .chars()
                .all(|c| alphanumeric(c) || matches!(c, '.' | '_' | '-'))
    };
    tag == "latest" && length <= 255 && !is_identifier && path.into_iter().all(valid)
}

fn service(spec: &mut Object, version: KubernetesVersion) {
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig");
            let timeout = config.and_then(|config| config.get("clientIP")?.get("timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    if is_reached_from_outside(spec, version) && text(spec, "externalTrafficPolicy").is_empty() {
        spec.insert("externalTrafficPolicy".to_owned(), "Cluster".into());
    }
    if version.minor() >= 22 {
        if text(spec, "type") != "ExternalName" || version.minor() < 24 {
            set_nil(spec, "internalTrafficPolicy", "Cluster");
        }
        if text(spec, "type") == "LoadBalancer" {
            set_nil(spec, "allocateLoadBalancerNodePorts", true);
        }
    }
}

/// Whether a service has a policy for the traffic from outside of the cluster.
pub(super) fn is_reached_from_outside(spec: &Object, version: KubernetesVersion) -> bool {
    /// Before, external addresses of services did not count.
    const EXTERNAL_ADDRESSES_COUNT: Behavior = Behavior::since(29, 0, "SetDefaults_Service of 1.29");
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !is_empty(spec, "externalIPs") && version.has(EXTERNAL_ADDRESSES_COUNT),
        _ => false,
    }
}

fn limits(item: &mut Object) {
    for (to, from) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        if let Some(values) = item.get(from).cloned() {
            missing_entries(item, to, &values);
        }
    }
}

/// The missing parts of the behaviour of a HorizontalPodAutoscaler.
fn scaling_policies(behavior: &mut Object) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(rules) = object_mut(behavior, "scaleUp") {
        set_nil(rules, "stabilizationWindowSeconds", 0);
        set_nil(rules, "policies", json!([pods, percent]));
    }
    if let Some(rules) = object_mut(behavior, "scaleDown") {
        set_nil(rules, "policies", json!([percent]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_decides() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.19", false),
            ("localhost:5000/a/nginx", true),
            ("localhost:5000/a/nginx:1", false),
            ("nginx@sha256:0123", false),
            ("Nginx", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
