//! The pods of a node, records of images, and the sandbox image.

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{PodState, Pods},
};
use kubegc_node::image::{Record, Records};
use kubegc_snapshot::{NodeReader, PodsFrom, write_records};

use crate::common::{container, findings, image, images, now, pods, ps, read, sandbox};

/// A pod of the API with these members and its uid.
fn pod(uid: &str, meta: &str, status: &str) -> String {
    format!(
        r#"{{"kind":"Pod","metadata":{{"namespace":"shop","name":"p","uid":"{uid}"{meta}}},"status":{{{status}}}}}"#
    )
}

fn list(pods: &[String]) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}],"metadata":{{}}}}"#,
        pods.join(",")
    )
}

const RUNS: &str = r#","containerStatuses":[{"state":{"terminated":{}}},{"state":{"running":{}}}]"#;
const ENDED: &str = r#","containerStatuses":[{"state":{"terminated":{}}},{"state":{"waiting":{}}}]"#;
const DELETED: &str = r#","deletionTimestamp":"2026-03-01T11:00:00Z""#;

#[test]
fn n2_63_the_status_of_a_pod_determines_its_state() {
    let evicted = PodState {
        evicted: true,
        deleted: false,
        terminated: true,
    };
    let ending = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    let cases: [(&str, String, PodState); 13] = [
        (
            "runs",
            pod("u", "", &format!(r#""phase":"Running"{RUNS}"#)),
            PodState::ACTIVE,
        ),
        (
            "crashes",
            pod("u", "", &format!(r#""phase":"Running"{ENDED}"#)),
            PodState::ACTIVE,
        ),
        ("pending", pod("u", "", r#""phase":"Pending""#), PodState::ACTIVE),
        (
            "succeeded",
            pod("u", "", &format!(r#""phase":"Succeeded"{ENDED}"#)),
            PodState::COMPLETED,
        ),
        ("failed", pod("u", "", r#""phase":"Failed""#), PodState::COMPLETED),
        (
            "failed, and something runs",
            pod("u", "", &format!(r#""phase":"Failed"{RUNS}"#)),
            PodState::ACTIVE,
        ),
        (
            "evicted",
            pod("u", "", r#""phase":"Failed","reason":"Evicted""#),
            evicted,
        ),
        (
            "not evicted",
            pod("u", "", r#""phase":"Running","reason":"Evicted""#),
            PodState::ACTIVE,
        ),
        (
            "deleted, and runs",
            pod("u", DELETED, &format!(r#""phase":"Running"{RUNS}"#)),
            ending,
        ),
        (
            "deleted, and ended",
            pod("u", DELETED, &format!(r#""phase":"Running"{ENDED}"#)),
            PodState::GONE,
        ),
        (
            "deleted, an init container runs",
            pod(
                "u",
                DELETED,
                r#""initContainerStatuses":[{"state":{"running":{}}}]"#,
            ),
            ending,
        ),
        (
            "deleted, a container's state is missing",
            pod("u", DELETED, r#""containerStatuses":[{"name":"a"}]"#),
            ending,
        ),
        (
            "deleted, status missing",
            format!(r#"{{"kind":"Pod","metadata":{{"name":"p","uid":"u"{DELETED}}}}}"#),
            ending,
        ),
    ];
    for (name, pod, expected) in cases {
        let yaml = format!("apiVersion: v1\nitems:\n- {pod}\nkind: List\n");
        for text in [list(std::slice::from_ref(&pod)), pod, yaml] {
            let node = read(NodeReader::new(), &[&text]);
            let known = Pods {
                known: [(Uid::new("u"), expected)].into(),
                sources_ready: false,
                synced: false,
            };
            assert_eq!(node.inventory.pods, known, "{name}: {text}");
            assert_eq!(findings(&node), [""; 0], "{name}");
        }
    }
}

#[test]
fn n2_61_unlisted_pods_count_as_deleted_only_if_the_pods_are_declared_complete() {
    let whole = list(&[pod("u1", "", ""), r#"{"kind":"Service"}"#.to_owned()]);
    let cases: [(&str, Vec<String>, bool, &[&str]); 8] = [
        ("whole", vec![whole.clone()], true, &[]),
        (
            "no pod document",
            vec![],
            false,
            &["NotWhole: no document lists the pods"],
        ),
        (
            "a list of other things",
            vec![list(&[r#"{"kind":"Service"}"#.to_owned()])],
            false,
            &["NotWhole: no document lists the pods"],
        ),
        (
            "no pod at all",
            vec![r#"{"kind":"PodList","items":[]}"#.to_owned()],
            true,
            &[],
        ),
        (
            "a pod without uid",
            vec![list(&[pod("u1", "", ""), pod("", "", "")])],
            false,
            &[
                "MissingField: f0, document 1: pod shop/p: items[1].metadata.uid: missing",
                "NotWhole: f0, document 1: items[1].metadata.uid: missing",
            ],
        ),
        (
            "an object that is not a pod",
            vec![list(&[pod("u1", "", ""), "7".to_owned()])],
            false,
            &[
                "BadField: f0, document 1: items[1]: expected a map",
                "NotWhole: f0, document 1: items[1]: no map",
            ],
        ),
        (
            "a list with a continue token",
            vec![format!(
                r#"{{"kind":"PodList","metadata":{{"continue":"x"}},"items":[{}]}}"#,
                pod("u1", "", "")
            )],
            false,
            &[
                "ListContinues: f0, document 1: metadata.continue: the list continues",
                "NotWhole: f0, document 1: metadata.continue: the list continues",
            ],
        ),
        (
            "a list without items",
            vec![r#"{"kind":"PodList","metadata":{}}"#.to_owned()],
            false,
            &[
                "MissingField: f0, document 1: items: missing",
                "NotWhole: f0, document 1: items: missing",
            ],
        ),
    ];
    for (name, documents, synced, found) in cases {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let node = read(NodeReader::new().pods_are_whole(), &documents);
        let known = &node.inventory.pods;
        assert_eq!((known.synced, known.sources_ready), (synced, synced), "{name}");
        assert_eq!(findings(&node), found, "{name}");
        let undeclared = read(NodeReader::new(), &documents).inventory.pods;
        assert!(!undeclared.synced && !undeclared.sources_ready, "{name}");
    }
    // Declared, and revoked: no other document lists the pods.
    for from in [PodsFrom::Runtime, PodsFrom::None] {
        let node = read(NodeReader::new().pods_are_whole().pods_from(from), &[&whole]);
        assert_eq!(node.inventory.pods, Pods::default());
    }
}

#[test]
fn running_pods_are_active_in_spite_of_the_documents() {
    let running = container(&[("state", "\"CONTAINER_RUNNING\"")]);
    let dead = container(&[
        ("id", "\"c2\""),
        ("podSandboxId", "\"ended\""),
        ("labels", r#"{"io.kubernetes.pod.uid":"u2"}"#),
    ]);
    let lost = container(&[
        ("id", "\"c4\""),
        ("podSandboxId", "\"lost\""),
        ("state", "\"CONTAINER_UNKNOWN\""),
        ("labels", r#"{"io.kubernetes.pod.uid":"u4"}"#),
    ]);
    let ready = sandbox(&[
        ("state", "0"),
        ("metadata", r#"{"name":"db-0","namespace":"shop","uid":"u3"}"#),
    ]);
    let documents = [
        ps(&[running, dead, lost]),
        pods(&[ready]),
        list(&[pod("u1", DELETED, ENDED.trim_start_matches(','))]),
    ];
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let ending = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    // In the API u1 has ended, in the runtime it runs; u3 is ready, and the API does not have
    // it; of u2 only a dead container is left; whether u4 runs is unknown.
    let node = read(NodeReader::new().pods_are_whole(), &documents);
    let expected = [
        (Uid::new("u1"), ending),
        (Uid::new("u3"), PodState::ACTIVE),
        (Uid::new("u4"), PodState::ACTIVE),
    ];
    assert_eq!(node.inventory.pods.known, expected.into());
    assert_eq!(
        findings(&node),
        [
            "PodNotListed: pod /: uid u4: taken as living",
            "PodNotListed: pod shop/db-0: uid u3: taken as living"
        ]
    );

    let node = read(NodeReader::new().pods_from(PodsFrom::Runtime), &documents);
    let expected = [
        (Uid::new("u1"), PodState::ACTIVE),
        (Uid::new("u3"), PodState::ACTIVE),
        (Uid::new("u4"), PodState::ACTIVE),
    ];
    assert_eq!(node.inventory.pods.known, expected.into());
    assert!(!node.inventory.pods.synced);
    let node = read(NodeReader::new().pods_from(PodsFrom::None), &documents);
    assert_eq!(node.inventory.pods, Pods::default());
}

#[test]
fn static_pods_are_known_by_the_uid_that_the_node_uses() {
    let mirror = pod(
        "api-uid",
        r#","annotations":{"kubernetes.io/config.mirror":"hash"}"#,
        "",
    );
    let node = read(NodeReader::new(), &[&list(&[mirror])]);
    let known: Vec<String> = node
        .inventory
        .pods
        .known
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(known, ["api-uid", "hash"]);
}

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
            PodState::GONE,
            PodState::ACTIVE,
        ),
        (
            "deleted and ended",
            DELETED,
            r#""phase":"Succeeded""#,
            PodState::GONE,
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
                let node = read(NodeReader::new(), &[&list(&[pod(uid, &metadata, status)])]);
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

#[test]
fn a_pod_with_two_states_has_the_earlier_one() {
    let node = read(
        NodeReader::new(),
        &[
            &list(&[pod("u", DELETED, r#""phase":"Running""#)]),
            &list(&[pod("u", "", r#""phase":"Running""#)]),
        ],
    );
    assert_eq!(
        node.inventory.pods.known,
        [(Uid::new("u"), PodState::ACTIVE)].into()
    );
    assert_eq!(
        findings(&node),
        [
            "Contradiction: f1, document 1: pod shop/p: items[0].metadata.uid: listed twice, differently: the facts of both count"
        ]
    );
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

#[test]
fn a_record_that_cannot_be_read_leaves_all_of_them_unknown() {
    let good = r#"{"key":"a","firstDetected":null,"lastUsed":"2026-03-01T11:00:00Z","sizeBytes":"7"}"#;
    for (entry, finding) in [
        (
            "7",
            "BadField: f0, document 1: records[1]: expected a map, found a number",
        ),
        (
            "{}",
            "MissingField: f0, document 1: record ?: records[1].key: missing",
        ),
        (
            r#"{"key":"b","lastUsed":"today"}"#,
            "BadField: f0, document 1: record b: records[1].lastUsed: \"today\" is not an RFC 3339 date",
        ),
        (
            r#"{"key":"b","sizeBytes":-1}"#,
            "BadField: f0, document 1: record b: records[1].sizeBytes: -1 is out of range",
        ),
        (
            r#"{"key":"a"}"#,
            "Contradiction: f0, document 1: record a: key: another record with this key differs",
        ),
    ] {
        let text = format!(r#"{{"watchedSince":"2026-01-01T00:00:00Z","records":[{good},{entry}]}}"#);
        let node = read(NodeReader::new().now(now()), &[&text]);
        assert!(node.inventory.image_records.is_empty(), "{entry}");
        assert_eq!(node.inventory.image_gc_began_at, now(), "{entry}");
        assert_eq!(findings(&node), [finding]);
    }
    let twice = format!(r#"{{"records":[{good},{good}]}}"#);
    let node = read(NodeReader::new(), &[&twice]);
    assert_eq!(node.inventory.image_records.len(), 1);
    assert_eq!(
        findings(&node),
        ["Repeated: f0, document 1: record a: key: occurs twice"]
    );
}

#[test]
fn n3_4_the_start_of_image_detection_has_an_order_of_sources() {
    let text = write_records(&Records::default(), Some(Timestamp::from_secs(7)));
    let declared = NodeReader::new()
        .now(now())
        .image_gc_began_at(Timestamp::from_secs(9));
    for (reader, documents, expected) in [
        (declared, vec![&*text], Timestamp::from_secs(9)),
        (
            NodeReader::new().now(now()),
            vec![&*text],
            Timestamp::from_secs(7),
        ),
        (NodeReader::new().now(now()), vec![], now()),
        (NodeReader::new(), vec![], Timestamp::from_nanos(i64::MAX)),
    ] {
        assert_eq!(read(reader, &documents).inventory.image_gc_began_at, expected);
    }
}

#[test]
fn n3_8_the_sandbox_image_is_found_among_the_images() {
    let listing = images(&[image(&[])]);
    let flags = ["--pod-infra-container-image=registry.example/shop/web@sha256:88"];
    for (declared, with_flags, expected, found) in [
        (None, false, None, vec![]),
        (None, true, Some("sha256:77"), vec![]),
        (
            Some("registry.example/shop/web:1"),
            false,
            Some("sha256:77"),
            vec![],
        ),
        (Some("sha256:77"), false, Some("sha256:77"), vec![]),
        (
            Some("pause"),
            true,
            None,
            vec!["UnresolvedSandboxImage: f0, document 1: images: pause is not listed"],
        ),
    ] {
        let mut reader = NodeReader::new();
        if let Some(reference) = declared {
            reader = reader.sandbox_image(reference);
        }
        if with_flags {
            reader.read_flags(flags);
        }
        let node = read(reader, &[&listing]);
        assert_eq!(node.inventory.sandbox_image.as_deref(), expected);
        assert_eq!(findings(&node), found);
    }
}
