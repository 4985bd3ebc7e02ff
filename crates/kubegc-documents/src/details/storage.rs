//! Fields of persistent volumes, claims and volume attachments.

use std::sync::Arc;

use kubegc_core::json::Text;
use kubegc_core::{
    Uid,
    record::{
        ClaimRef, Field, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, VolumeAnnotations,
        VolumeAttachment,
    },
};

use super::{
    ANNOTATIONS, SPEC, STATUS, annotations_of,
    reading::{Found, Origin, Reading, Unreadable},
    spec_of, status_of,
};
use crate::body::{
    ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, Body, Spec, Status,
};

pub(super) fn volume(reading: &mut Reading<'_>, body: &Body<'_>) -> PersistentVolume {
    let status = status_of(reading, body);
    let phase = phase(reading, body, status);
    let annotations = reading.field(Some(body), annotations);
    let spec = spec_of(reading, body);
    PersistentVolume {
        phase,
        annotations,
        reclaim_policy: reading.field(spec, |reading, spec| {
            let path = SPEC.field("persistentVolumeReclaimPolicy");
            let policy = reading.text(&spec.persistent_volume_reclaim_policy, path);
            reading.or_default(policy, || "Retain".into())
        }),
        volume_mode: field!(reading, spec.volume_mode => text("volumeMode")),
        claim_ref: reading.field(spec, claim_ref),
        attributes_class: reading.field(spec, attributes_class),
        source: reading.field(spec, |reading, spec| {
            let source = source(reading, spec);
            reading.unless_stripped(source)
        }),
    }
}

/// `status.phase`. No phase is assumed if it is absent, because released volumes may be deleted.
fn phase(reading: &mut Reading<'_>, body: &Body<'_>, status: Option<&Status<'_>>) -> Field<Arc<str>> {
    let path = STATUS.field("phase");
    if body.status.is_absent() && reading.origin == Origin::Dump {
        reading.missing(path);
    }
    reading.field(status, |reading, status| {
        let phase = reading.text(&status.phase, path);
        reading.always_filled(phase, path, || "Pending".into())
    })
}

fn claim_ref(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<ClaimRef> {
    let path = SPEC.field("claimRef");
    let Some(claim) = reading.value(&spec.claim_ref, path)? else {
        return Ok(None);
    };
    let namespace = reading.text_or_empty(&claim.namespace, path.field("namespace"));
    let name = reading.text_or_empty(&claim.name, path.field("name"));
    let uid = reading.value(&claim.uid, path.field("uid"));
    Ok(Some(ClaimRef {
        namespace: namespace?,
        name: name?,
        uid: Uid::new(uid?.map_or("", Text::as_str)),
    }))
}

fn annotations(reading: &mut Reading<'_>, body: &Body<'_>) -> Result<VolumeAnnotations, Unreadable> {
    let Some(annotations) = annotations_of(reading, body)? else {
        return Ok(VolumeAnnotations::default());
    };
    let mut text = |key| reading.text(annotations.at(key), ANNOTATIONS.key(key));
    let provisioned_by = text(ANNOTATION_PROVISIONED_BY);
    let bound = text(ANNOTATION_BOUND_BY_CONTROLLER);
    let migrated_to = text(ANNOTATION_MIGRATED_TO);
    Ok(VolumeAnnotations {
        provisioned_by: provisioned_by?,
        bound_by_controller: bound?.is_some(),
        migrated_to: migrated_to?,
    })
}

pub(super) fn claim(reading: &mut Reading<'_>, body: &Body<'_>) -> PersistentVolumeClaim {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    PersistentVolumeClaim {
        volume_name: field!(reading, spec.volume_name => text_or_empty("volumeName")),
        volume_mode: field!(reading, spec.volume_mode => text("volumeMode")),
        attributes_classes: reading.field(spec.zip(status), |reading, (spec, status)| {
            attributes_classes(reading, spec, status)
        }),
    }
}

fn attributes_class(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<Arc<str>, Unreadable> {
    let path = SPEC.field("volumeAttributesClassName");
    reading.text_or_empty(&spec.volume_attributes_class_name, path)
}

/// The volume source of a volume.
fn source(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<PersistentVolumeSource> {
    let path = SPEC.field("csi");
    if let Some(volume) = reading.value(&spec.csi, path)? {
        let driver = reading.text_or_empty(&volume.driver, path.field("driver"));
        let handle = reading.value(&volume.volume_handle, path.field("volumeHandle"));
        return Ok(Some(PersistentVolumeSource::Csi {
            driver: driver?,
            handle: handle?.map_or("", Text::as_str).into(),
        }));
    }
    let path = SPEC.field("hostPath");
    if let Some(volume) = reading.value(&spec.host_path, path)? {
        let path = reading.text_or_empty(&volume.path, path.field("path"))?;
        return Ok(Some(PersistentVolumeSource::HostPath { path }));
    }
    let others = [
        ("awsElasticBlockStore", &spec.aws_elastic_block_store),
        ("azureDisk", &spec.azure_disk),
        ("azureFile", &spec.azure_file),
        ("cephfs", &spec.cephfs),
        ("cinder", &spec.cinder),
        ("fc", &spec.fc),
        ("flexVolume", &spec.flex_volume),
        ("flocker", &spec.flocker),
        ("gcePersistentDisk", &spec.gce_persistent_disk),
        ("glusterfs", &spec.glusterfs),
        ("iscsi", &spec.iscsi),
        ("local", &spec.local),
        ("nfs", &spec.nfs),
        ("photonPersistentDisk", &spec.photon_persistent_disk),
        ("portworxVolume", &spec.portworx_volume),
        ("quobyte", &spec.quobyte),
        ("rbd", &spec.rbd),
        ("scaleIO", &spec.scale_io),
        ("storageos", &spec.storageos),
        ("vsphereVolume", &spec.vsphere_volume),
    ];
    for (field, value) in others {
        if reading.is_there(value, SPEC.field(field))? {
            return Ok(Some(PersistentVolumeSource::Other(field)));
        }
    }
    Ok(None)
}

/// The classes that a claim names anywhere.
fn attributes_classes(
    reading: &mut Reading<'_>,
    spec: &Spec<'_>,
    status: &Status<'_>,
) -> Result<Vec<Arc<str>>, Unreadable> {
    let wanted = attributes_class(reading, spec);
    let path = STATUS.field("currentVolumeAttributesClassName");
    let current = reading.text_or_empty(&status.current_attributes_class, path);
    let path = STATUS.field("modifyVolumeStatus");
    let target = match reading.value(&status.modify_volume_status, path)? {
        Some(modify) => {
            let path = path.field("targetVolumeAttributesClassName");
            reading.text_or_empty(&modify.target_attributes_class, path)
        }
        None => Ok(Arc::default()),
    };
    let mut classes = vec![wanted?, current?, target?];
    classes.retain(|class| !class.is_empty());
    classes.sort_unstable();
    classes.dedup();
    Ok(classes)
}

pub(super) fn attachment(reading: &mut Reading<'_>, body: &Body<'_>) -> VolumeAttachment {
    let spec = spec_of(reading, body);
    VolumeAttachment {
        node_name: field!(reading, spec.node_name => text_or_empty("nodeName")),
        volume_name: reading.field(spec, |reading, spec| {
            let path = SPEC.field("source");
            match reading.value(&spec.source, path)? {
                Some(source) => {
                    let path = path.field("persistentVolumeName");
                    reading.text_or_empty(&source.persistent_volume_name, path)
                }
                None => Ok(Arc::default()),
            }
        }),
    }
}
