//! What is read of volumes and claims.

use kubegc_core::Uid;
use kubegc_lifecycle::{
    fields::{PersistentVolume, PersistentVolumeClaim},
    volume::{
        ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, Annotations,
        ClaimRef, Holder, Phase, Policy,
    },
};

use super::{
    ANNOTATIONS, SPEC, STATUS, annotations_of,
    reading::{Reading, Unreadable},
    spec_of, status_of,
};
use crate::{
    body::{Body, Spec},
    item::Text,
};

/// `None` where the mode is of no use: there is no word for that.
pub(super) fn volume(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<PersistentVolume> {
    let mut fields = PersistentVolume {
        phase: phase(reading, body).unwrap_or(Phase::Unknown),
        policy: Policy::Unknown,
        claim_ref: Holder::Unknown,
        mode: None,
        annotations: annotations(reading, body).ok(),
    };
    if let Ok(Some(spec)) = spec_of(reading, body) {
        let path = SPEC.field("persistentVolumeReclaimPolicy");
        let policy = reading.text_unless_empty(&spec.persistent_volume_reclaim_policy, path);
        let mode = reading.text(&spec.volume_mode, SPEC.field("volumeMode"));
        fields.claim_ref = holder(reading, spec).unwrap_or(Holder::Unknown);
        // The API server never leaves the policy out.
        if let Ok(Some(policy)) = policy {
            fields.policy = Policy::from(&*policy);
        }
        fields.mode = mode.ok()?;
    }
    Some(fields)
}

/// A volume without a phase was not read: the API server says `Pending` where nobody else has said anything.
fn phase(reading: &mut Reading<'_>, body: &Body<'_>) -> Result<Phase, Unreadable> {
    let path = STATUS.field("phase");
    let phase = match status_of(reading, body)? {
        Some(status) => reading.text_unless_empty(&status.phase, path)?,
        None => None,
    };
    let Some(phase) = phase else {
        reading.missing(path);
        return Err(Unreadable);
    };
    Ok(Phase::from(&*phase))
}

fn holder(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<Holder, Unreadable> {
    let path = SPEC.field("claimRef");
    let Some(claim) = reading.value(&spec.claim_ref, path)? else {
        return Ok(Holder::Nobody);
    };
    let namespace = reading.text_or_empty(&claim.namespace, path.field("namespace"));
    let name = reading.text_or_empty(&claim.name, path.field("name"));
    let uid = reading.value(&claim.uid, path.field("uid"));
    Ok(Holder::Claim(ClaimRef {
        namespace: namespace?,
        name: name?,
        uid: Uid::new(uid?.map_or("", Text::as_str)),
    }))
}

fn annotations(reading: &mut Reading<'_>, body: &Body<'_>) -> Result<Annotations, Unreadable> {
    let Some(annotations) = annotations_of(reading, body)? else {
        return Ok(Annotations::default());
    };
    let mut text = |key| reading.text(annotations.at(key), ANNOTATIONS.key(key));
    let provisioned_by = text(ANNOTATION_PROVISIONED_BY);
    let bound = text(ANNOTATION_BOUND_BY_CONTROLLER);
    let migrated_to = text(ANNOTATION_MIGRATED_TO);
    Ok(Annotations {
        provisioned_by: provisioned_by?,
        is_bound_by_controller: bound?.is_some(),
        migrated_to: migrated_to?,
    })
}

/// `None` where there is no spec, or it is of no use: there is no word for that.
pub(super) fn claim(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<PersistentVolumeClaim> {
    let spec = spec_of(reading, body).ok()??;
    let volume_name = reading.text_or_empty(&spec.volume_name, SPEC.field("volumeName"));
    let mode = reading.text(&spec.volume_mode, SPEC.field("volumeMode"));
    Some(PersistentVolumeClaim {
        volume_name: volume_name.ok()?,
        mode: mode.ok()?,
    })
}
