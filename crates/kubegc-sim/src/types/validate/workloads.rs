//! Controllers of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController.
//!
//! # Upstream
//! `pkg/apis/apps/validation`, and `ValidateReplicationController` of core,
//! 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Value, json};

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::apply;

/// Whether a valid selector matches these labels. `None` for an invalid selector.
pub(super) fn matches(selector: &At<'_>, labels: &Value, version: KubernetesVersion) -> Option<bool> {
    let mut c = Check::new(version, None);
    apply("LabelSelector", selector, &mut c);
    if !c.causes.is_empty() {
        return None;
    }
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    crate::label_selector(selector.value).map(|selector| selector.matches_labels(of))
}

/// Whether the selector matches the labels of the template, or is not valid.
pub(super) fn selects_template(spec: &At<'_>, c: &Check<'_>) -> bool {
    let selector = spec.get("selector");
    let labels = spec.get("template").get("metadata").get("labels");
    selector.is_set() && matches(&selector, labels.value, c.version) != Some(false)
}

/// The same for the labels of a ReplicationController.
pub(super) fn labels_select_template(spec: &At<'_>, _: &Check<'_>) -> bool {
    let own = spec.get("template").get("metadata").get("labels");
    let mut selected = spec.get("selector").entries();
    selected.all(|(key, value)| own.key(key).value == value.value)
}

/// The templates of pods and claims of StatefulSets are validated.
const TEMPLATES_ARE_VALIDATED: Behavior = Behavior::since(34, 0, "kubernetes #131790 and #132212");

/// The template of a StatefulSet; one that was invalid before may stay so.
pub(super) fn template_of_stateful_set(spec: &At<'_>, c: &mut Check) {
    let template = spec.get("template");
    if c.version.has(TEMPLATES_ARE_VALIDATED) && !c.skips_template {
        let value = template_of_pods(spec);
        let path = template.path.clone();
        apply("Template", &At { value: &value, path }, c);
    }
}

/// The template of a StatefulSet with the volumes of claims that the controller adds, and without the names
/// that it overwrites.
fn template_of_pods(spec: &At<'_>) -> Value {
    let mut template = spec.get("template").value.clone();
    let Some(fields) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    fields.remove("hostname");
    fields.remove("subdomain");
    let claims: BTreeSet<&str> = spec
        .get("volumeClaimTemplates")
        .items()
        .map(|claim| claim.get("metadata").get("name").text())
        .collect();
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(Value::Array(own)) = fields.remove("volumes") {
        let is_replaced = |volume: &Value| {
            let name = volume.get("name").and_then(Value::as_str);
            name.is_some_and(|name| claims.contains(name))
        };
        volumes.extend(own.into_iter().filter(|volume| !is_replaced(volume)));
    }
    fields.insert("volumes".to_owned(), volumes.into());
    template
}

/// The rules for updates, which the stored StatefulSet had to satisfy as well.
pub(super) fn stored_stateful_set(_: &At<'_>, c: &mut Check) {
    let mut before = Check::new(c.version, None);
    (before.new, before.old) = (c.old, c.old);
    apply("StatefulSetSpec", &c.old().get("spec"), &mut before);
    c.skips_template = !before.causes.is_empty();
}

/// Changed data of a ControllerRevision, in Go's syntax of bytes.
pub(super) fn data_updated(data: &At<'_>, c: &mut Check) {
    let raw = match data.value {
        Value::Null => "(nil)".to_owned(),
        value => {
            let bytes = value.to_string().into_bytes();
            format!("{{{}}}", go_syntax::bytes(&bytes))
        }
    };
    let shown = format!("runtime.RawExtension{{Raw:[]uint8{raw}, Object:runtime.Object(nil)}}");
    data.invalid_as(c, &shown, "field is immutable");
}
