//! Fields behind feature gates that are off by default: they are decoded, and dropped.
//!
//! # Upstream
//! `DropDisabledPodFields` in
//! [`pkg/api/pod/util.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/api/pod/util.go) and its
//! siblings in the strategies of `pkg/registry`.

use kubegc_core::KubernetesVersion;
use serde_json::{Map, Value};

use super::{changes, objects::objects_in, schema::StructId};

type Object = Map<String, Value>;

/// Drops the fields of a decoded struct that a release has and does not serve. Depth is bounded by the parser
/// that read the object.
pub(super) fn drop_disabled(object: &mut Object, id: StructId, version: KubernetesVersion) {
    if id.name() == "PodSpec" {
        drop_image_volumes(object, version);
        changes::apply("PodSpec/decoded", object, version);
    }
    for field in id.fields().iter().filter(|field| field.exists_in(version)) {
        let Some(value) = object.get_mut(field.name) else {
            continue;
        };
        if field.is_in(version) {
            let was_empty = is_empty(value);
            field
                .ty
                .each_struct(value, &mut |inner, id| drop_disabled(inner, id, version));
            if field.name == "lifecycle" && !was_empty && is_empty(value) {
                object.remove(field.name);
            }
        } else if field.name == "procMount" && !value.is_null() {
            // 1.12 stored it in every container, so it is reset instead of removed.
            *value = "Default".into();
        } else {
            object.remove(field.name);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// Removes the volumes with images, and their mounts, where the gate `ImageVolume` is off: from 1.31 to 1.34.
///
/// # Upstream
/// `dropImageVolumes` in
/// [`util.go`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/api/pod/util.go).
fn drop_image_volumes(spec: &mut Object, version: KubernetesVersion) {
    let image = StructId::named("Volume").and_then(|volume| volume.field("image"));
    if image.is_none_or(|image| image.is_in(version) || !image.exists_in(version)) {
        return;
    }
    let mut dropped = Vec::new();
    retain(spec, "volumes", |volume| {
        let is_image = volume.get("image").is_some_and(Value::is_object);
        if is_image {
            dropped.push(volume.get("name").cloned().unwrap_or_default());
        }
        !is_image
    });
    if dropped.is_empty() {
        return;
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects_in(spec, list) {
            retain(container, "volumeMounts", |mount| {
                mount.get("name").is_none_or(|name| !dropped.contains(name))
            });
        }
    }
}

/// Retains the items of a list, and the list if any is left.
fn retain(object: &mut Object, key: &str, keep: impl FnMut(&Value) -> bool) {
    if let Some(Value::Array(items)) = object.get_mut(key) {
        items.retain(keep);
        if items.is_empty() {
            object.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dropped(minor: u16, spec: Value) -> Value {
        let version = KubernetesVersion::new(minor, 0).expect("it is not too old");
        let Value::Object(mut spec) = spec else {
            return Value::Null;
        };
        drop_disabled(&mut spec, StructId::named("PodSpec").unwrap(), version);
        Value::Object(spec)
    }

    #[test]
    fn fields_behind_gates_are_dropped_until_the_gates_are_on() {
        let spec = json!({
            "containers": [{
                "name": "c",
                "lifecycle": {"stopSignal": "SIGTERM"},
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "securityContext": {"procMount": "Unmasked"},
                "volumeMounts": [{"name": "image", "mountPath": "/image"}],
            }],
            "volumes": [{"name": "image", "image": {"reference": "r"}}],
        });
        assert_eq!(
            dropped(33, spec.clone()),
            json!({"containers": [{
                "name": "c",
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "securityContext": {"procMount": "Unmasked"},
            }]})
        );
        assert_eq!(
            dropped(32, spec.clone())["containers"][0],
            json!({
                "name": "c",
                "lifecycle": {"stopSignal": "SIGTERM"},
                "securityContext": {"procMount": "Default"},
            })
        );
        assert_eq!(dropped(35, spec.clone())["volumes"], spec["volumes"]);
    }
}
