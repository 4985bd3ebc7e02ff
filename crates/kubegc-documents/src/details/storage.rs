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
    facts::{By, Fact, Facts, In, Object, Plain, object, put, put_part, unless_empty, written},
    reading::{At, Origin, Reading, Unreadable},
};
use crate::body::{ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY};

facts! {
    VolumeAttachment {
        spec {
            node_name: "nodeName" => Plain,
            volume_name: "source" => In("persistentVolumeName", Plain),
        }
    }
}

map_of_facts! {
    ClaimRef {
        namespace: "namespace",
        name: "name",
        uid: "uid",
    }
}

impl Facts for PersistentVolume {
    fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self {
        let status = reading.part(&object, "status");
        let phase = phase(reading, object, status);
        let annotations = reading.field(Some(object), annotations);
        let spec = reading.part(&object, "spec");
        Self {
            phase,
            annotations,
            reclaim_policy: reading.fact(spec, "persistentVolumeReclaimPolicy", &By(reclaim_policy)),
            volume_mode: reading.fact(spec, "volumeMode", &Plain),
            claim_ref: reading.fact(spec, "claimRef", &Plain),
            attributes_class: reading.fact(spec, "volumeAttributesClassName", &Plain),
            source: reading.field(spec, source),
        }
    }

    fn write(&self) -> Object {
        let source = self.source.known().map_or("csi", PersistentVolumeSource::field);
        let of_source = match self.source.known() {
            None => Value::Bool(false),
            Some(PersistentVolumeSource::None) => Value::Null,
            Some(PersistentVolumeSource::Csi { driver, handle }) => {
                json!({ "driver": driver, "volumeHandle": handle })
            }
            Some(PersistentVolumeSource::HostPath { path }) => json!({ "path": path }),
            Some(PersistentVolumeSource::Other(_)) => json!({}),
        };
        let spec = object([
            ("claimRef", written(&Plain, &self.claim_ref)),
            (
                "persistentVolumeReclaimPolicy",
                written(&Plain, &self.reclaim_policy),
            ),
            ("volumeMode", written(&Plain, &self.volume_mode)),
            (
                "volumeAttributesClassName",
                written(&Plain, &self.attributes_class),
            ),
            (source, of_source),
        ]);
        let status = object([("phase", written(&Plain, &self.phase))]);
        let annotations = match self.annotations.known() {
            Some(annotations) => Value::Object(object([
                (ANNOTATION_PROVISIONED_BY, annotations.provisioned_by.write()),
                (
                    ANNOTATION_BOUND_BY_CONTROLLER,
                    json!(annotations.bound_by_controller.then_some("yes")),
                ),
                (ANNOTATION_MIGRATED_TO, annotations.migrated_to.write()),
            ])),
            None => Value::Bool(false),
        };
        object([
            ("metadata", json!({ "annotations": annotations })),
            ("spec", spec.into()),
            ("status", status.into()),
        ])
    }
}

/// `status.phase`. No phase is assumed if it is absent, because released volumes may be deleted.
fn phase(reading: &mut Reading<'_>, object: At<'_, '_>, status: Option<At<'_, '_>>) -> Field<Arc<str>> {
    let status_at = object.field("status");
    if status_at.is_absent() && reading.origin == Origin::Dump {
        reading.missing(status_at.field("phase"));
    }
    reading.field(status, |reading, status| {
        let at = status.field("phase");
        match reading.text(at)? {
            Some(phase) => Ok(phase),
            None => reading.always_filled(at, "Pending".into()),
        }
    })
}

fn reclaim_policy(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
    match reading.text(at)? {
        Some(policy) => Ok(policy),
        None => reading.or_default("Retain".into()),
    }
}

fn annotations(reading: &mut Reading<'_>, object: At<'_, '_>) -> Result<VolumeAnnotations, Unreadable> {
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    reading.map(annotations)?;
    let mut text = |key: &'static str| reading.text(annotations.field(key));
    let provisioned_by = text(ANNOTATION_PROVISIONED_BY);
    let bound = text(ANNOTATION_BOUND_BY_CONTROLLER);
    let migrated_to = text(ANNOTATION_MIGRATED_TO);
    Ok(VolumeAnnotations {
        provisioned_by: provisioned_by?,
        bound_by_controller: bound?.is_some(),
        migrated_to: migrated_to?,
    })
}

/// The sources without facts of their own.
pub(crate) const OTHER_SOURCES: [&str; 20] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The volume source of a volume. Every volume has one: an absent one was stripped.
fn source(reading: &mut Reading<'_>, spec: At<'_, '_>) -> Result<PersistentVolumeSource, Unreadable> {
    if let Some(volume) = reading.map(spec.field("csi"))? {
        let driver = reading.text_or_empty(volume.field("driver"));
        let handle = reading.str(volume.field("volumeHandle"));
        return Ok(PersistentVolumeSource::Csi {
            driver: driver?,
            handle: handle?.unwrap_or_default().into(),
        });
    }
    if let Some(volume) = reading.map(spec.field("hostPath"))? {
        let path = reading.text_or_empty(volume.field("path"))?;
        return Ok(PersistentVolumeSource::HostPath { path });
    }
    for field in OTHER_SOURCES {
        if reading.map(spec.field(field))?.is_some() {
            return Ok(PersistentVolumeSource::Other(field));
        }
    }
    reading.stripped()
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
