//! Volumes and claims.

use kubegc_core::record::{
    Body, ClaimRef, Field, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, Resource,
    VolumeAnnotations,
};
use serde_json::{Value, json};

use crate::common::{check, live};

fn unread() -> PersistentVolume {
    PersistentVolume {
        phase: Field::Unread,
        reclaim_policy: Field::Unread,
        claim_ref: Field::Unread,
        volume_mode: Field::Unread,
        ..PersistentVolume::default()
    }
}

/// The phase is known, and the spec was stripped.
fn in_phase(phase: &str) -> PersistentVolume {
    PersistentVolume {
        phase: Field::Known(phase.into()),
        ..unread()
    }
}

fn claim_ref(namespace: &str, name: &str, uid: &str) -> Field<Option<ClaimRef>> {
    Field::Known(Some(ClaimRef {
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    }))
}

/// The API server always sets it.
const NO_PHASE: &str = "status.phase: missing";

#[test]
fn volumes() {
    let annotations = |annotations: Value| json!({ "metadata": { "annotations": annotations }, "status": { "phase": "Available" } });
    let available = in_phase("Available");
    let cases: [(Value, PersistentVolume, &[&str]); 14] = [
        (
            json!({
                "metadata": { "annotations": {
                    "pv.kubernetes.io/bound-by-controller": "yes", "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com", "other": "x",
                } },
                "spec": {
                    "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Filesystem", "capacity": { "storage": "1Gi" },
                    "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "u-1", "resourceVersion": "3" },
                },
                "status": { "phase": "Released" },
            }),
            PersistentVolume {
                phase: Field::Known("Released".into()),
                reclaim_policy: Field::Known("Delete".into()),
                claim_ref: claim_ref("shop", "data", "u-1"),
                volume_mode: Field::Known(Some("Filesystem".into())),
                annotations: Field::Known(VolumeAnnotations {
                    provisioned_by: Some("ebs.csi.aws.com".into()),
                    bound_by_controller: true,
                    migrated_to: None,
                }),
                ..PersistentVolume::default()
            },
            &[],
        ),
        (
            json!({ "spec": {}, "status": {} }),
            PersistentVolume {
                claim_ref: None.into(),
                volume_mode: None.into(),
                ..unread()
            },
            &[NO_PHASE],
        ),
        (
            json!({ "spec": { "claimRef": null, "persistentVolumeReclaimPolicy": "" }, "status": { "phase": null } }),
            PersistentVolume {
                reclaim_policy: Field::default(),
                claim_ref: None.into(),
                volume_mode: None.into(),
                ..unread()
            },
            &[NO_PHASE],
        ),
        (json!({ "status": { "phase": "" } }), in_phase(""), &[]),
        (json!({ "status": { "phase": "Lost" } }), in_phase("Lost"), &[]),
        (
            json!({ "spec": { "claimRef": { "name": "data" }, "persistentVolumeReclaimPolicy": "Burn", "volumeMode": "Block" }, "status": { "phase": "Pending" } }),
            PersistentVolume {
                claim_ref: claim_ref("", "data", ""),
                reclaim_policy: Field::Known("Burn".into()),
                volume_mode: Field::Known(Some("Block".into())),
                ..in_phase("Pending")
            },
            &[],
        ),
        (
            json!({ "spec": { "claimRef": "shop/data", "persistentVolumeReclaimPolicy": 1, "volumeMode": 7 }, "status": { "phase": 1 } }),
            unread(),
            &[
                "spec.claimRef: expected a map, found a string",
                "spec.persistentVolumeReclaimPolicy: expected a string, found a number",
                "spec.volumeMode: expected a string, found a number",
                "status.phase: expected a string, found a number",
            ],
        ),
        (
            json!({ "spec": { "claimRef": { "namespace": 1, "name": 2, "uid": 3 }, "persistentVolumeReclaimPolicy": "Retain" } }),
            PersistentVolume {
                reclaim_policy: Field::Known("Retain".into()),
                volume_mode: None.into(),
                ..unread()
            },
            &[
                "spec.claimRef.name: expected a string, found a number",
                "spec.claimRef.namespace: expected a string, found a number",
                "spec.claimRef.uid: expected a string, found a number",
                NO_PHASE,
            ],
        ),
        (
            json!({ "spec": 1, "status": [] }),
            unread(),
            &[
                "spec: expected a map, found a number",
                "status: expected a map, found a list",
            ],
        ),
        (
            annotations(json!(7)),
            PersistentVolume {
                annotations: Field::Unread,
                ..available.clone()
            },
            &["metadata.annotations: expected a map, found a number"],
        ),
        (
            annotations(json!({ "pv.kubernetes.io/migrated-to": 7, "pv.kubernetes.io/provisioned-by": "x" })),
            PersistentVolume {
                annotations: Field::Unread,
                ..available.clone()
            },
            &["metadata.annotations[pv.kubernetes.io/migrated-to]: expected a string, found a number"],
        ),
        (
            annotations(json!({ "pv.kubernetes.io/migrated-to": "", "other": 7 })),
            PersistentVolume {
                annotations: Field::Known(VolumeAnnotations {
                    migrated_to: Some("".into()),
                    ..VolumeAnnotations::default()
                }),
                ..available.clone()
            },
            &[],
        ),
        (annotations(Value::Null), available.clone(), &[]),
        (annotations(json!({})), available, &[]),
    ];
    let cases = cases.map(|(body, volume, flaws)| (body, Body::PersistentVolume(volume), flaws));
    check(Resource::PersistentVolumes, cases);
    check(
        Resource::PersistentVolumes,
        [(json!({}), Body::Unread, &[NO_PHASE])],
    );
    let whole = live(Resource::PersistentVolumes, json!({ "status": {} }));
    assert_eq!(whole, Body::PersistentVolume(PersistentVolume::default()));
}

#[test]
fn sources() {
    let spec = |spec: Value| json!({ "spec": spec, "status": { "phase": "Bound" } });
    let on = |source: Field<PersistentVolumeSource>| {
        Body::PersistentVolume(PersistentVolume {
            phase: Field::Known("Bound".into()),
            reclaim_policy: Field::Unread,
            source,
            ..PersistentVolume::default()
        })
    };
    let host_path = |path: &str| PersistentVolumeSource::HostPath { path: path.into() };
    let other = PersistentVolumeSource::Other;
    check(
        Resource::PersistentVolumes,
        [
            (
                spec(json!({ "hostPath": { "path": "/tmp/a" } })),
                on(host_path("/tmp/a").into()),
                &[][..],
            ),
            (spec(json!({ "hostPath": {} })), on(host_path("").into()), &[]),
            (
                spec(json!({ "nfs": { "server": "a", "path": "/" } })),
                on(other("nfs").into()),
                &[],
            ),
            (
                spec(json!({ "scaleIO": {}, "local": null })),
                on(other("scaleIO").into()),
                &[],
            ),
            (spec(json!({ "capacity": {} })), on(Field::Unread), &[]),
            (
                spec(json!({ "hostPath": "/tmp/a" })),
                on(Field::Unread),
                &["spec.hostPath: expected a map, found a string"],
            ),
            (
                spec(json!({ "hostPath": { "path": 7 } })),
                on(Field::Unread),
                &["spec.hostPath.path: expected a string, found a number"],
            ),
            (
                spec(json!({ "nfs": 7 })),
                on(Field::Unread),
                &["spec.nfs: expected a map, found a number"],
            ),
        ],
    );
}

#[test]
fn claims() {
    let claim = |volume_name: Field<&str>, volume_mode: Field<Option<&str>>| {
        Body::PersistentVolumeClaim(PersistentVolumeClaim {
            volume_name: volume_name.map(Into::into),
            volume_mode: volume_mode.map(|mode| mode.map(Into::into)),
            ..PersistentVolumeClaim::default()
        })
    };
    let unbound = || claim("".into(), None.into());
    check(
        Resource::PersistentVolumeClaims,
        [
            (
                json!({ "spec": { "volumeName": "pv-1", "volumeMode": "Block", "accessModes": ["ReadWriteOnce"] }, "status": 7 }),
                claim("pv-1".into(), Some("Block").into()),
                &["status: expected a map, found a number"],
            ),
            (json!({ "spec": {} }), unbound(), &[]),
            (
                json!({ "spec": { "volumeName": null, "volumeMode": null } }),
                unbound(),
                &[],
            ),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": null, "status": { "phase": "Bound" } }),
                claim(Field::Unread, Field::Unread),
                &[],
            ),
            (
                json!({ "spec": { "volumeName": 7, "volumeMode": "Block" } }),
                claim(Field::Unread, Some("Block").into()),
                &["spec.volumeName: expected a string, found a number"],
            ),
            (
                json!({ "spec": "x" }),
                claim(Field::Unread, Field::Unread),
                &["spec: expected a map, found a string"],
            ),
        ],
    );
    assert_eq!(live(Resource::PersistentVolumeClaims, json!({})), unbound());
}
