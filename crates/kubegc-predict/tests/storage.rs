//! Persistent volumes whose claims are deleted, and volume attachments.

use kubegc_core::{DeleteOptions, KubernetesVersion};
use kubegc_predict::{Assumptions, Cluster, Intent, Question};
use kubegc_snapshot::Reader;
use serde_json::{Value, json};

/// The fate of the object of this kind after one delete.
fn fate(version: &str, items: Value, deleted: &str, kind: &str, assumptions: Assumptions) -> &'static str {
    let version: KubernetesVersion = version.parse().expect("a release in range");
    let mut reader = Reader::new(version).complete("all");
    let dump = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    reader
        .read("dump.json", dump.as_bytes())
        .expect("a readable dump");
    let snapshot = reader.finish().expect("a whole dump");
    let cluster = Cluster::new(version, snapshot, assumptions);
    let intent = Intent::delete(deleted.parse().expect("a name"), DeleteOptions::default());
    let forecast = cluster
        .forecast(&Question::new(version).delete(intent))
        .expect("a forecast");
    let fate = forecast.fates.iter().find(|fate| *fate.object.kind == *kind);
    fate.map_or("kept", |fate| fate.fate.word())
}

/// The fate of a volume of policy Delete whose claim is deleted.
fn volume_fate(
    version: &str,
    provisioner: Option<&str>,
    source: Value,
    assumptions: Assumptions,
) -> &'static str {
    let mut spec = json!({
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "u-claim" },
    });
    for (field, value) in source.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let items = json!([
        {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": "disk", "uid": "u-disk", "resourceVersion": "7",
                "annotations": provisioner.map(|name| json!({ "pv.kubernetes.io/provisioned-by": name })),
                "finalizers": ["kubernetes.io/pv-protection"],
            },
            "spec": spec,
            "status": { "phase": "Bound" },
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": "shop", "name": "data", "uid": "u-claim", "resourceVersion": "8",
                "finalizers": ["kubernetes.io/pvc-protection"],
            },
            "spec": { "volumeName": "disk" },
            "status": { "phase": "Bound" },
        },
    ]);
    let claim = "shop/PersistentVolumeClaim/data";
    fate(version, items, claim, "PersistentVolume", assumptions)
}

#[test]
fn provisioner_source_and_release_decide_whether_a_volume_is_deleted() {
    let host_path = |path: &str| json!({ "hostPath": { "path": path } });
    let csi = || json!({ "csi": { "driver": "csi.example.com", "volumeHandle": "v" } });
    let ebs = || json!({ "awsElasticBlockStore": { "volumeID": "v" } });
    let provisioned = Some("kubernetes.io/aws-ebs");
    for (version, provisioner, source, expected) in [
        ("1.20", None, host_path("/tmp/a"), "deleted"),
        (
            "1.20",
            Some("kubernetes.io/host-path"),
            host_path("/tmp/a"),
            "deleted",
        ),
        (
            "1.36",
            Some("kubernetes.io/host-path"),
            host_path("/tmp/a"),
            "deleted",
        ),
        ("1.36", None, host_path("/data"), "kept"),
        ("1.20", None, json!({ "nfs": {} }), "kept"),
        ("1.20", None, csi(), "kept"),
        ("1.20", Some("csi.example.com"), csi(), "deleted"),
        // By its plugin, and by the provisioner of the driver that it is migrated to.
        ("1.22", provisioned, ebs(), "deleted"),
        ("1.23", provisioned, ebs(), "deleted"),
        ("1.36", provisioned, ebs(), "deleted"),
        ("1.26", None, ebs(), "deleted"),
        ("1.27", None, ebs(), "kept"),
        ("1.20", None, json!({}), "undetermined"),
    ] {
        let found = volume_fate(version, provisioner, source.clone(), Assumptions::default());
        assert_eq!(found, expected, "{version} {provisioner:?} {source}");
    }
    let storage_is_kept = Assumptions {
        storage_is_deleted: false,
        ..Assumptions::default()
    };
    let found = volume_fate("1.20", None, host_path("/tmp/a"), storage_is_kept);
    assert_eq!(found, "undetermined");
}

#[test]
fn an_attachment_that_is_deleted_waits_for_its_attacher() {
    for (external_controllers_run, expected) in [(false, "terminating"), (true, "deleted")] {
        let items = json!([{
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {
                "name": "attached", "uid": "u-attached", "resourceVersion": "7",
                "finalizers": ["external-attacher/csi-example-com"],
            },
            "spec": {
                "attacher": "csi.example.com", "nodeName": "a",
                "source": { "persistentVolumeName": "unknown-volume" },
            },
        }]);
        let assumptions = Assumptions {
            external_controllers_run,
            ..Assumptions::default()
        };
        let found = fate(
            "1.20",
            items,
            "VolumeAttachment/attached",
            "VolumeAttachment",
            assumptions,
        );
        assert_eq!(found, expected);
    }
}
