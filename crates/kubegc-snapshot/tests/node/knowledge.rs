//! Static pods and their mirror pods, and records of images.

use kubegc_core::{Timestamp, Uid, node_facts::PodState};
use kubegc_node::image::{Record, Records};
use kubegc_snapshot::{NodeReader, write_records};

use crate::common::{api_list, api_pod, findings, now, read};

const DELETED: &str = r#","deletionTimestamp":"2026-03-01T11:00:00Z""#;

#[test]
fn deleting_a_mirror_pod_does_not_delete_the_static_pod() {
    let deleted = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    let both = r#"{"kubernetes.io/config.mirror":"hash","kubernetes.io/config.hash":"hash"}"#;
    let (mirror, hash) = (
        r#"{"kubernetes.io/config.mirror":"hash"}"#,
        r#"{"kubernetes.io/config.hash":"hash"}"#,
    );
    for (name, metadata, status, copy, pod_itself) in [
        (
            "living",
            "",
            r#""phase":"Running""#,
            PodState::ACTIVE,
            PodState::ACTIVE,
        ),
        (
            "deleted",
            DELETED,
            r#""phase":"Running""#,
            PodState::DELETED,
            PodState::ACTIVE,
        ),
        (
            "deleted and ended",
            DELETED,
            r#""phase":"Succeeded""#,
            PodState::DELETED,
            PodState::ACTIVE,
        ),
        (
            "deleted, and runs",
            DELETED,
            r#""phase":"Running","containerStatuses":[{"state":{"running":{}}}]"#,
            deleted,
            PodState::ACTIVE,
        ),
        (
            "ended",
            "",
            r#""phase":"Succeeded""#,
            PodState::COMPLETED,
            PodState::COMPLETED,
        ),
    ] {
        for annotations in [both, mirror, hash] {
            let metadata = format!(r#"{metadata},"annotations":{annotations}"#);
            for (uid, expected) in [
                ("api-uid", &[("api-uid", copy), ("hash", pod_itself)][..]),
                // A kubelet's own list has the pod itself.
                ("hash", &[("hash", copy)]),
            ] {
                let node = read(
                    NodeReader::new(),
                    &[&api_list(&[api_pod(uid, &metadata, status)])],
                );
                let expected = expected.iter().map(|&(uid, state)| (Uid::new(uid), state));
                assert_eq!(
                    node.inventory.pods.known,
                    expected.collect(),
                    "{name} {uid} {annotations}"
                );
                assert_eq!(findings(&node), [""; 0], "{name} {uid} {annotations}");
            }
        }
    }
}

fn record(key: &str) -> Record {
    Record {
        key: key.into(),
        first_detected: Some(Timestamp::from_nanos(1_772_366_400_123_456_789)),
        last_used: None,
        size_bytes: u64::MAX,
        pinned: true,
        runtime_handler: "kata".into(),
    }
}

#[test]
fn records_survive_a_round_trip() {
    let records = Records::new(vec![
        record("b,kata"),
        Record {
            first_detected: None,
            last_used: Some(now()),
            size_bytes: 0,
            pinned: false,
            runtime_handler: "".into(),
            ..record("a")
        },
    ]);
    for since in [None, Some(Timestamp::from_secs(7))] {
        let node = read(NodeReader::new(), &[&write_records(&records, since)]);
        assert_eq!(node.inventory.image_records, records);
        assert_eq!(
            node.inventory.image_gc_began_at,
            since.unwrap_or(Timestamp::from_nanos(i64::MAX))
        );
        assert_eq!(findings(&node), [""; 0]);
    }
}
