//! Volumes and claims.

use kubegc_lifecycle::{
    fields::{Fields, PersistentVolume, PersistentVolumeClaim},
    object::Resource,
    volume::{Annotations, ClaimRef, Holder, Phase, Policy},
};
use serde_json::{Value, json};

use crate::common::read;

fn unread() -> PersistentVolume {
    PersistentVolume {
        phase: Phase::Unknown,
        policy: Policy::Unknown,
        claim_ref: Holder::Unknown,
        mode: None,
        annotations: Some(Annotations::default()),
    }
}

fn available() -> PersistentVolume {
    PersistentVolume {
        phase: Phase::Available,
        ..unread()
    }
}

/// The API server says `Pending` where nobody else has said anything.
const NO_PHASE: &str = "status.phase: not there";

#[test]
fn volumes() {
    let annotations = |annotations: Value| json!({ "metadata": { "annotations": annotations }, "status": { "phase": "Available" } });
    let known = PersistentVolume {
        phase: Phase::Released,
        policy: Policy::Delete,
        claim_ref: Holder::Claim(ClaimRef::new("shop", "data", "u-1")),
        mode: Some("Filesystem".into()),
        annotations: Some(Annotations {
            provisioned_by: Some("ebs.csi.aws.com".into()),
            is_bound_by_controller: true,
            migrated_to: None,
        }),
    };
    let cases: [(Value, PersistentVolume, &[&str]); 16] = [
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
            known.clone(),
            &[],
        ),
        (json!({}), unread(), &[NO_PHASE]),
        (
            json!({ "spec": {}, "status": {} }),
            PersistentVolume {
                claim_ref: Holder::Nobody,
                ..unread()
            },
            &[NO_PHASE],
        ),
        (
            json!({ "spec": { "claimRef": null, "persistentVolumeReclaimPolicy": "" }, "status": { "phase": null } }),
            PersistentVolume {
                claim_ref: Holder::Nobody,
                ..unread()
            },
            &[NO_PHASE],
        ),
        (json!({ "status": { "phase": "" } }), unread(), &[NO_PHASE]),
        (
            json!({ "status": { "phase": "Lost" } }),
            PersistentVolume {
                phase: Phase::Other("Lost".into()),
                ..unread()
            },
            &[],
        ),
        (
            json!({ "spec": { "claimRef": { "name": "data" }, "persistentVolumeReclaimPolicy": "Burn", "volumeMode": "Block" }, "status": { "phase": "Pending" } }),
            PersistentVolume {
                claim_ref: Holder::Claim(ClaimRef::new("", "data", "")),
                phase: Phase::Pending,
                policy: Policy::Other("Burn".into()),
                mode: Some("Block".into()),
                ..unread()
            },
            &[],
        ),
        (
            json!({ "spec": { "claimRef": "shop/data", "persistentVolumeReclaimPolicy": 1 }, "status": { "phase": 1 } }),
            unread(),
            &[
                "spec.claimRef: expected a map, found a string",
                "spec.persistentVolumeReclaimPolicy: expected a string, found a number",
                "status.phase: expected a string, found a number",
            ],
        ),
        (
            json!({ "spec": { "claimRef": { "namespace": 1, "name": 2, "uid": 3 }, "persistentVolumeReclaimPolicy": "Retain" } }),
            PersistentVolume {
                policy: Policy::Retain,
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
                annotations: None,
                ..available()
            },
            &["metadata.annotations: expected a map, found a number"],
        ),
        (
            annotations(json!({ "pv.kubernetes.io/migrated-to": 7, "pv.kubernetes.io/provisioned-by": "x" })),
            PersistentVolume {
                annotations: None,
                ..available()
            },
            &["metadata.annotations[pv.kubernetes.io/migrated-to]: expected a string, found a number"],
        ),
        (
            annotations(json!({ "pv.kubernetes.io/migrated-to": "", "other": 7 })),
            PersistentVolume {
                annotations: Some(Annotations {
                    migrated_to: Some("".into()),
                    ..Annotations::default()
                }),
                ..available()
            },
            &[],
        ),
        (annotations(Value::Null), available(), &[]),
        (annotations(json!({})), available(), &[]),
        (
            json!({ "status": { "phase": "Bound" } }),
            PersistentVolume {
                phase: Phase::Bound,
                ..unread()
            },
            &[],
        ),
    ];
    for (body, expected, flaws) in cases {
        let (found, named) = read(Resource::PersistentVolumes, body.clone());
        assert_eq!(found, Fields::PersistentVolume(expected), "{body}");
        assert_eq!(named, flaws, "{body}");
    }
    let (found, named) = read(
        Resource::PersistentVolumes,
        json!({ "spec": { "volumeMode": 7 } }),
    );
    assert_eq!(
        found,
        Fields::Unread,
        "there is no word for a mode that is unknown"
    );
    assert_eq!(
        named,
        ["spec.volumeMode: expected a string, found a number", NO_PHASE]
    );
}

#[test]
fn claims() {
    let claim = |volume: &str, mode: Option<&str>| {
        Fields::PersistentVolumeClaim(PersistentVolumeClaim {
            volume_name: volume.into(),
            mode: mode.map(Into::into),
        })
    };
    let cases: [(Value, Fields, &[&str]); 7] = [
        (
            json!({ "spec": { "volumeName": "pv-1", "volumeMode": "Block", "accessModes": ["ReadWriteOnce"] }, "status": 7 }),
            claim("pv-1", Some("Block")),
            &[],
        ),
        (json!({ "spec": {} }), claim("", None), &[]),
        (
            json!({ "spec": { "volumeName": null, "volumeMode": null } }),
            claim("", None),
            &[],
        ),
        (json!({}), Fields::Unread, &[]),
        (json!({ "spec": null }), Fields::Unread, &[]),
        (
            json!({ "spec": { "volumeName": 7, "volumeMode": [] } }),
            Fields::Unread,
            &[
                "spec.volumeMode: expected a string, found a list",
                "spec.volumeName: expected a string, found a number",
            ],
        ),
        (
            json!({ "spec": "x" }),
            Fields::Unread,
            &["spec: expected a map, found a string"],
        ),
    ];
    for (body, expected, flaws) in cases {
        let (found, named) = read(Resource::PersistentVolumeClaims, body.clone());
        assert_eq!(found, expected, "{body}");
        assert_eq!(named, flaws, "{body}");
    }
}
