//! Preparation of pods by their strategy.
//!
//! # Upstream
//! `PrepareForCreate` and `PrepareForUpdate` in
//! [`strategy.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/pod/strategy.go).

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::objects::{is_nil, list_in, object_in, object_mut, objects_in, text};
use crate::StoredObject;

type Object = Map<String, Value>;

/// The profiles of AppArmor are fields; the annotations that they replace are copied.
const PROFILES_ARE_FIELDS: Behavior = Behavior::since(30, 0, "the feature gate AppArmorFields is on");
/// Fields with profiles are no longer copied to annotations.
const PROFILES_ARE_ONLY_FIELDS: Behavior = Behavior::since(34, 0, "podStrategy of 1.34");
/// The labels that an affinity names by their keys become a part of its selector.
const AFFINITIES_NAME_LABELS: Behavior =
    Behavior::since(31, 0, "the feature gate MatchLabelKeysInPodAffinity is on");
/// The same for constraints of spreading.
const CONSTRAINTS_NAME_LABELS: Behavior = Behavior::since(
    34,
    0,
    "the feature gate MatchLabelKeysInPodTopologySpreadSelectorMerge is on",
);
/// Prepares a pod that is created.
pub(crate) fn prepare(pod: &mut StoredObject, version: KubernetesVersion) {
    if version.has(PROFILES_ARE_FIELDS) && pod.text_at(&["spec", "os", "name"]) != "windows" {
        sync_profiles(pod, version);
    }
    select_named_labels(pod, version);
}

const PROFILE: &str = "appArmorProfile";
const PROFILE_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The field for an annotation, if it is valid.
fn profile_of(annotation: &str) -> Option<Value> {
    Some(match annotation {
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        "unconfined" => json!({"type": "Unconfined"}),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            let is_valid = !name.is_empty() && name.trim() == name;
            is_valid.then(|| json!({"type": "Localhost", "localhostProfile": name}))?
        }
    })
}

/// The annotation for a field, if it is valid.
fn annotation_of(profile: &Value) -> Option<String> {
    match profile.get("type")?.as_str()? {
        "RuntimeDefault" => Some("runtime/default".to_owned()),
        "Unconfined" => Some("unconfined".to_owned()),
        "Localhost" => Some(format!(
            "localhost/{}",
            profile.get("localhostProfile")?.as_str()?
        )),
        _ => None,
    }
}

/// Copies the profiles of AppArmor in annotations to the fields of containers, and back in older releases.
///
/// # Upstream
/// `applyAppArmorVersionSkew`.
fn sync_profiles(pod: &mut StoredObject, version: KubernetesVersion) {
    let annotations = super::annotations(pod).cloned().unwrap_or_default();
    let of_pod = pod.at(&["spec", "securityContext", PROFILE]).cloned();
    let mut added = Object::new();
    let Some(spec) = pod.spec_mut() else { return };
    for list in ["initContainers", "containers"] {
        for container in objects_in(spec, list) {
            let key = format!("{PROFILE_ANNOTATION}{}", text(container, "name"));
            let own = container
                .get("securityContext")
                .and_then(|context| context.get(PROFILE));
            let own = own.filter(|profile| !profile.is_null()).cloned();
            match annotations.get(&key).and_then(Value::as_str) {
                None if !version.has(PROFILES_ARE_ONLY_FIELDS) => {
                    if let Some(annotation) = own.or_else(|| of_pod.clone()).as_ref().and_then(annotation_of)
                    {
                        added.insert(key, annotation.into());
                    }
                }
                Some(annotation) if own.is_none() => {
                    let profile = profile_of(annotation).filter(|profile| of_pod.as_ref() != Some(profile));
                    if let Some(profile) = profile
                        && let Some(context) = object_in(container, "securityContext")
                    {
                        context.insert(PROFILE.to_owned(), profile);
                    }
                }
                _ => {}
            }
        }
    }
    for (key, annotation) in added {
        pod.annotate(&key, annotation);
    }
}

/// Adds the labels of the pod that affinities and constraints name by their keys to their selectors.
///
/// # Upstream
/// `mutatePodAffinity` and `mutateTopologySpreadConstraints`.
fn select_named_labels(pod: &mut StoredObject, version: KubernetesVersion) {
    let labels = pod.meta.labels.clone();
    let extend = |term: &mut Object| {
        if is_nil(term, "labelSelector") {
            return;
        }
        let mut found = Vec::new();
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term.get(keys).and_then(Value::as_array);
            for key in keys.into_iter().flatten().filter_map(Value::as_str) {
                if let Some(value) = labels.get(key) {
                    found.push(json!({"key": key, "operator": operator, "values": [&**value]}));
                }
            }
        }
        if let Some(selector) = object_mut(term, "labelSelector").filter(|_| !found.is_empty())
            && let Some(expressions) = list_in(selector, "matchExpressions")
        {
            expressions.extend(found);
        }
    };
    let Some(spec) = pod.spec_mut() else { return };
    if version.has(CONSTRAINTS_NAME_LABELS) {
        objects_in(spec, "topologySpreadConstraints").for_each(&extend);
    }
    if !version.has(AFFINITIES_NAME_LABELS) {
        return;
    }
    let Some(affinity) = object_mut(spec, "affinity") else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = object_mut(affinity, kind) else {
            continue;
        };
        for term in objects_in(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = object_mut(term, "podAffinityTerm") {
                extend(term);
            }
        }
        objects_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution").for_each(&extend);
    }
}
