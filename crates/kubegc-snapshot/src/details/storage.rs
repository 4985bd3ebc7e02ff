//! Fields of persistent volumes and claims.

use kubegc_core::{
    Uid,
    record::{ClaimRef, Field, PersistentVolume, PersistentVolumeClaim, VolumeAnnotations},
};

use super::{
    ANNOTATIONS, SPEC, annotations_of, phase_of,
    reading::{Found, Reading, Unreadable},
    spec_of, status_of,
};
use crate::{
    body::{ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, Body, Spec},
    item::Text,
};

pub(super) fn volume(reading: &mut Reading<'_>, body: &Body<'_>) -> PersistentVolume {
    let status = status_of(reading, body);
    let phase = phase_of(reading, body, status);
    let annotations = reading.field(Some(body), annotations);
    let spec = spec_of(reading, body);
    PersistentVolume {
        phase,
        annotations,
        reclaim_policy: reading.field(spec, |reading, spec| {
            let path = SPEC.field("persistentVolumeReclaimPolicy");
            let policy = reading.text(&spec.persistent_volume_reclaim_policy, path);
            reading.unless_stripped(policy)
        }),
        volume_mode: reading.field(spec, |reading, spec| {
            reading.text(&spec.volume_mode, SPEC.field("volumeMode"))
        }),
        claim_ref: reading.field(spec, claim_ref),
        attributes_class: Field::Unread,
        csi_name: Field::Unread,
    }
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
    PersistentVolumeClaim {
        volume_name: reading.field(spec, |reading, spec| {
            reading.text_or_empty(&spec.volume_name, SPEC.field("volumeName"))
        }),
        volume_mode: reading.field(spec, |reading, spec| {
            reading.text(&spec.volume_mode, SPEC.field("volumeMode"))
        }),
        attributes_classes: Field::Unread,
    }
}
