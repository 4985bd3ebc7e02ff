//! Adds the finalizer `kubernetes.io/vac-protection` to VolumeAttributesClasses, and removes it from those
//! that are being deleted and that no volume and no claim uses.
//!
//! - it is not being deleted and does not have the finalizer: an update adds the finalizer.
//! - it is being deleted, and a PersistentVolume names it in `spec.volumeAttributesClassName`: the finalizer
//!   stays.
//! - it is being deleted, and a claim names it as wanted, current or target class: the finalizer stays.
//! - it is being deleted, and nothing names it: an update removes the finalizer.
//!
//! The controller is off before 1.34 (feature gate `VolumeAttributesClass`: alpha from 1.29, beta and off
//! from 1.31).
//!
//! # Upstream
//! [`processVAC` and
//! `isBeingUsed`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/vacprotection/vac_protection_controller.go)
//! in `vac_protection_controller.go`.

use std::sync::Arc;

use kubegc_core::{
    Behavior,
    record::{ObjectId, Record, Resource},
};

use crate::{
    Context, Index, Info, Key, Missing, Rule,
    protection::{Protection, Text},
};

static PROTECTION: Protection = Protection {
    in_use,
    unused: (
        "Unused",
        "it is being deleted, and no volume and no claim uses it",
    ),
    ..Protection::new("kubernetes.io/vac-protection")
};

/// The feature gate `VolumeAttributesClass`: alpha from 1.29, beta and off from 1.31, on from 1.34.
const ENABLED: Behavior = Behavior::since(34, 0, "feature gate VolumeAttributesClass is on");

/// Volumes by class. Those whose class was not read are found under an empty name.
static VOLUMES: Index = Index::new(Resource::PersistentVolumes, |record, keys| {
    match record
        .persistent_volume()
        .map(|volume| volume.attributes_class.known())
    {
        Some(Some(class)) if class.is_empty() => {}
        Some(Some(class)) => keys.push(Key::cluster(Arc::clone(class))),
        _ => keys.push(Key::cluster("")),
    }
});

/// Claims by class. Those whose classes were not read are found under an empty name.
static CLAIMS: Index = Index::new(Resource::PersistentVolumeClaims, |record, keys| {
    match record
        .persistent_volume_claim()
        .map(|claim| claim.attributes_classes.known())
    {
        Some(Some(classes)) => keys.extend(classes.iter().map(|class| Key::cluster(Arc::clone(class)))),
        _ => keys.push(Key::cluster("")),
    }
});

fn in_use(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Option<Text>, Missing> {
    let key = Key::from(&record.meta);
    for (index, text) in [
        (&VOLUMES, ("UsedByVolume", "a volume uses it")),
        (&CLAIMS, ("UsedByClaim", "a claim uses it")),
    ] {
        if cx.cache.first_indexed(index, &key).is_some() {
            return Ok(Some(text));
        }
    }
    cx.cache
        .require_all(&[Resource::PersistentVolumes, Resource::PersistentVolumeClaims])?;
    for index in [&VOLUMES, &CLAIMS] {
        let field = "spec.volumeAttributesClassName";
        cx.cache.require_read(index, &id.namespace, field)?;
    }
    Ok(None)
}

/// The VolumeAttributesClass protection controller.
pub static RULE: Rule = Rule {
    info: Info {
        name: "volumeattributesclass-protection-controller",
        summary: "adds and removes the finalizer of VolumeAttributesClasses",
        resources: &[
            Resource::VolumeAttributesClasses,
            Resource::PersistentVolumes,
            Resource::PersistentVolumeClaims,
        ],
        indexes: &[&VOLUMES, &CLAIMS],
        affected_by: &[&VOLUMES, &CLAIMS],
        since: Some(ENABLED),
        permissions: &[(Resource::VolumeAttributesClasses, "", &["update"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/vacprotection/vac_protection_controller.go",
        ..Info::BASE
    },
    gate: Some((ENABLED, "VolumeAttributesClass")),
    decide: |cx, id, record| PROTECTION.decide(cx, id, record),
    ..Rule::BASE
};
