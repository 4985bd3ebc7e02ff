//! Facts of persistent volumes, claims and volume attachments.

use std::sync::Arc;

use kubegc_core::{
    json::JsonType,
    record::{
        ClaimRef, Field, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, VolumeAnnotations,
        VolumeAttachment,
    },
};
use serde_json::{Value, json};

use super::{
    facts::{By, Fact, Facts, Filled, In, Object, Plain, Set, object, written},
    reading::{At, Reading, Unreadable},
};
use crate::fields::{
    ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, OTHER_SOURCES,
};

facts! {
    PersistentVolume {
        status {
            phase: "phase" => By(volume_phase),
        }
        metadata {
            annotations: "annotations" => Plain,
        }
        spec {
            reclaim_policy: "persistentVolumeReclaimPolicy" => By(reclaim_policy),
            volume_mode: "volumeMode" => Plain,
            claim_ref: "claimRef" => Plain,
            attributes_class: "volumeAttributesClassName" => Plain,
            source: "" => Plain,
        }
    }
    VolumeAttachment {
        spec {
            node_name: "nodeName" => Plain,
            volume_name: "source" => In("persistentVolumeName", Plain),
        }
    }
}

map_of_facts! {
    ClaimRef {
        namespace: "namespace" => Filled,
        name: "name" => Filled,
        uid: "uid" => Filled,
    }
    VolumeAnnotations {
        provisioned_by: ANNOTATION_PROVISIONED_BY => Plain,
        bound_by_controller: ANNOTATION_BOUND_BY_CONTROLLER => Set("yes"),
        migrated_to: ANNOTATION_MIGRATED_TO => Plain,
    }
}

impl Fact for PersistentVolumeSource {
    const TYPE: JsonType = JsonType::Map;

    /// Every volume has a source: an absent one was stripped.
    fn read(reading: &mut Reading<'_>, spec: At<'_, '_>) -> Result<Self, Unreadable> {
        if let Some(volume) = reading.map(spec.field("csi"))? {
            let driver = reading.text_or_empty(volume.field("driver"));
            let handle = reading.str(volume.field("volumeHandle"));
            return Ok(Self::Csi {
                driver: driver?,
                handle: handle?.unwrap_or_default().into(),
            });
        }
        if let Some(volume) = reading.map(spec.field("hostPath"))? {
            let path = reading.text_or_empty(volume.field("path"))?;
            return Ok(Self::HostPath { path });
        }
        for field in OTHER_SOURCES {
            if reading.map(spec.field(field))?.is_some() {
                return Ok(Self::Other(field));
            }
        }
        reading.stripped()
    }

    fn write(&self) -> Value {
        let source = match self {
            Self::None => return Value::Null,
            Self::Csi { driver, handle } => json!({ "driver": driver, "volumeHandle": handle }),
            Self::HostPath { path } => json!({ "path": path }),
            Self::Other(_) => json!({}),
        };
        json!({ (self.field()): source })
    }

    fn unread() -> Value {
        json!({ "csi": false })
    }
}

/// No phase is assumed if it is absent, because released volumes may be deleted.
fn volume_phase(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
    match reading.text(at)? {
        Some(phase) => Ok(phase),
        None => reading.always_filled(at, "Pending".into()),
    }
}

fn reclaim_policy(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
    match reading.text(at)? {
        Some(policy) => Ok(policy),
        None => reading.or_default("Retain".into()),
    }
}

impl Facts for PersistentVolumeClaim {
    fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self {
        let spec = reading.part(&object, "spec");
        let status = reading.part(&object, "status");
        Self {
            volume_name: reading.fact(spec, "volumeName", &Plain),
            volume_mode: reading.fact(spec, "volumeMode", &Plain),
            attributes_classes: match status {
                Some(status) => {
                    reading.field(spec, |reading, spec| attributes_classes(reading, spec, status))
                }
                None => Field::Unread,
            },
        }
    }

    fn write(&self) -> Object {
        let [wanted, current, target] = match self.attributes_classes.known() {
            Some(classes) => [0, 1, 2].map(|at| json!(classes.get(at))),
            None => [false.into(), Value::Null, Value::Null],
        };
        let spec = object([
            ("volumeName", written(&Plain, &self.volume_name)),
            ("volumeMode", written(&Plain, &self.volume_mode)),
            ("volumeAttributesClassName", wanted),
        ]);
        let status = object([
            ("currentVolumeAttributesClassName", current),
            (
                "modifyVolumeStatus",
                json!({ "targetVolumeAttributesClassName": target }),
            ),
        ]);
        object([("spec", spec.into()), ("status", status.into())])
    }
}

/// The classes that a claim names anywhere.
fn attributes_classes(
    reading: &mut Reading<'_>,
    spec: At<'_, '_>,
    status: At<'_, '_>,
) -> Result<Vec<Arc<str>>, Unreadable> {
    let wanted = reading.text_or_empty(spec.field("volumeAttributesClassName"));
    let current = reading.text_or_empty(status.field("currentVolumeAttributesClassName"));
    let modify = status.field("modifyVolumeStatus");
    reading.map(modify)?;
    let target = reading.text_or_empty(modify.field("targetVolumeAttributesClassName"));
    let mut classes = vec![wanted?, current?, target?];
    classes.retain(|class| !class.is_empty());
    classes.sort_unstable();
    classes.dedup();
    Ok(classes)
}
