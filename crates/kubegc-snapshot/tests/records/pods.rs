//! Pods: their node, their phase, their claims, and every secret that they reference.

use std::sync::Arc;

use kubegc_core::{
    Timestamp,
    record::{Body, Condition, Field, Pod, PodVolume, Resource, Toleration, VolumeSource},
};
use serde_json::{Value, json};

use crate::common::{at, check, condition, live, object, read, snapshot};

fn pod(body: Value) -> (Pod, Vec<String>) {
    match read(Resource::Pods, body) {
        (Body::Pod(pod), flaws) => (pod, flaws),
        (other, _) => panic!("a pod is read as {other:?}"),
    }
}

/// A running pod with this spec.
fn running(mut spec: Value) -> (Pod, Vec<String>) {
    spec["nodeName"] = "node-1".into();
    pod(json!({ "spec": spec, "status": { "phase": "Running" } }))
}

fn names(names: &[&str]) -> Field<Vec<Arc<str>>> {
    Field::Known(names.iter().map(|name| (*name).into()).collect())
}

#[test]
fn every_field_of_a_pod_is_read() {
    let (read, flaws) = pod(json!({
        "metadata": { "annotations": {
            "batch.kubernetes.io/job-completion-index": "3", "controller.kubernetes.io/pod-deletion-cost": "-10",
        } },
        "spec": {
            "schedulingGroup": { "podGroupName": "batch-1" },
            "nodeName": "node-1", "terminationGracePeriodSeconds": 30, "containers": [{ "name": "web", "image": "web:1" }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
                { "name": "tmp", "emptyDir": {} },
            ],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "dedicated", "value": "db" },
            ],
        },
        "status": {
            "initContainerStatuses": [{ "name": "init", "restartCount": 2 }],
            "containerStatuses": [{ "name": "web", "restartCount": 5 }, { "name": "log", "restartCount": 0 }, {}],
            "phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T12:00:00Z",
            "conditions": [
                { "type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T12:00:01Z" },
                { "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "low on memory",
                  "lastTransitionTime": "2026-03-01T12:00:02Z", "lastProbeTime": null, "observedGeneration": 4 },
            ],
        },
    }));
    let disruption = Condition {
        reason: "TerminationByKubelet".into(),
        message: "low on memory".into(),
        last_transition_time: Some(at(2)),
        observed_generation: 4,
        ..condition("DisruptionTarget", "True")
    };
    let expected = Pod {
        node_name: Field::Known("node-1".into()),
        phase: Field::Known("Failed".into()),
        containers_stopped: false.into(),
        reason: Field::Known("Evicted".into()),
        conditions: vec![disruption].into(),
        volumes: Field::Known(vec![
            PodVolume {
                name: "data".into(),
                source: VolumeSource::Claim("data-web-0".into()),
            },
            PodVolume {
                name: "scratch".into(),
                source: VolumeSource::Ephemeral,
            },
        ]),
        secrets: names(&[]),
        termination_grace_period_seconds: Some(30).into(),
        tolerations: Field::Known(vec![
            Toleration {
                key: "node.kubernetes.io/not-ready".into(),
                operator: "Exists".into(),
                effect: "NoExecute".into(),
                toleration_seconds: Some(300),
                ..Toleration::default()
            },
            Toleration {
                key: "dedicated".into(),
                value: "db".into(),
                ..Toleration::default()
            },
        ]),
        completion_index: Some(3).into(),
        restart_count: 7.into(),
        restart_count_max: 5.into(),
        ready_at: None.into(),
        deletion_cost: Field::Known(-10),
        pod_group: Field::Known("batch-1".into()),
    };
    assert_eq!((read, flaws), (expected, vec![]));
}

#[test]
fn readiness_and_costs_of_pods() {
    let ready = |condition: Value| {
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Initialized" }, condition] });
        pod(json!({ "spec": {}, "status": status })).0.ready_at
    };
    let transition = "2026-03-01T12:00:02Z";
    for (condition, expected) in [
        (
            json!({ "type": "Ready", "status": "True", "lastTransitionTime": transition }),
            Field::Known(Some(at(2))),
        ),
        (
            json!({ "type": "Ready", "status": "True" }),
            Field::Known(Some(Timestamp::EPOCH)),
        ),
        (
            json!({ "type": "Ready", "status": "False", "lastTransitionTime": transition }),
            Field::Known(None),
        ),
        (json!({ "type": "Ready", "status": 1 }), Field::Unread),
        (
            json!({ "type": "Ready", "status": "True", "lastTransitionTime": "soon" }),
            Field::Unread,
        ),
    ] {
        assert_eq!(ready(condition.clone()), expected, "{condition}");
    }
    for (text, expected) in [
        ("7", 7),
        ("-7", -7),
        ("+7", 0),
        ("07", 0),
        ("0", 0),
        ("4294967296", 0),
        ("x", 0),
    ] {
        let metadata = json!({ "annotations": { "controller.kubernetes.io/pod-deletion-cost": text } });
        let (read, _) = pod(json!({ "metadata": metadata, "spec": {}, "status": { "phase": "Running" } }));
        assert_eq!(read.deletion_cost, Field::Known(expected), "{text}");
    }
}

#[test]
fn absent_fields_are_unset_and_stripped_ones_are_unread() {
    let phase = |phase: Field<&str>| Pod {
        phase: phase.map(Into::into),
        ..Pod::default()
    };
    let without_spec = Pod {
        node_name: Field::Unread,
        volumes: Field::Unread,
        secrets: Field::Unread,
        termination_grace_period_seconds: Field::Unread,
        tolerations: Field::Unread,
        pod_group: Field::Unread,
        ..phase("Pending".into())
    };
    const NO_PHASE: &[&str] = &["status.phase: missing: Pending is assumed"];
    const NO_STATUS: &[&str] = &["status: missing: that of a new object is assumed"];
    let cases: [(Value, Pod, &[&str]); 8] = [
        (
            json!({ "spec": {}, "status": { "phase": "Pending" } }),
            phase("Pending".into()),
            &[],
        ),
        (
            json!({ "spec": { "nodeName": null, "volumes": null, "imagePullSecrets": null }, "status": { "phase": "Pending", "conditions": null, "reason": null } }),
            phase("Pending".into()),
            &[],
        ),
        (json!({ "status": { "phase": "Pending" } }), without_spec, &[]),
        (json!({ "spec": {} }), phase("Pending".into()), NO_STATUS),
        (
            json!({ "spec": {}, "status": { "reason": "Evicted" } }),
            Pod {
                reason: Field::Known("Evicted".into()),
                ..phase("Pending".into())
            },
            NO_PHASE,
        ),
        (
            json!({ "spec": {}, "status": { "phase": null } }),
            phase("Pending".into()),
            NO_PHASE,
        ),
        (
            json!({ "spec": {}, "status": { "phase": 7 } }),
            phase(Field::Unread),
            &["status.phase: expected a string, found a number"],
        ),
        // podgc takes an empty phase for that of a pod that has ended.
        (
            json!({ "spec": {}, "status": { "phase": "" } }),
            phase("".into()),
            &[],
        ),
    ];
    check(
        Resource::Pods,
        cases.map(|(body, pod, flaws)| (body, Body::Pod(pod), flaws)),
    );
    for body in [json!({}), json!({ "spec": null, "status": null })] {
        check(
            Resource::Pods,
            [(body.clone(), Body::Unread, &["status.phase: missing"])],
        );
        assert_eq!(live(Resource::Pods, body), Body::Pod(Pod::default()));
    }
}

#[test]
fn fields_of_the_wrong_type_are_unread_and_reported() {
    let expected = |text: &str| format!("spec.{text}");
    for (spec, node, volumes, secrets, flaws) in [
        (
            json!({ "nodeName": 7 }),
            false,
            true,
            true,
            vec!["nodeName: expected a string, found a number"],
        ),
        (
            json!({ "volumes": {} }),
            true,
            false,
            false,
            vec!["volumes: expected a list, found a map"],
        ),
        (
            json!({ "volumes": [7] }),
            true,
            false,
            false,
            vec!["volumes[0]: expected a map, found a number"],
        ),
        (
            json!({ "volumes": [null] }),
            true,
            false,
            false,
            vec!["volumes[0]: expected a map, found null"],
        ),
        (
            json!({ "volumes": [{ "name": "a", "persistentVolumeClaim": "data" }] }),
            true,
            false,
            true,
            vec!["volumes[0].persistentVolumeClaim: expected a map, found a string"],
        ),
        (
            json!({ "volumes": [{ "name": "a", "persistentVolumeClaim": { "claimName": ["data"] } }] }),
            true,
            false,
            true,
            vec!["volumes[0].persistentVolumeClaim.claimName: expected a string, found a list"],
        ),
        (
            json!({ "volumes": [{ "name": "a", "ephemeral": true }] }),
            true,
            false,
            true,
            vec!["volumes[0].ephemeral: expected a map, found a boolean"],
        ),
        (
            json!({ "volumes": [{ "name": 1, "ephemeral": {} }] }),
            true,
            false,
            true,
            vec!["volumes[0].name: expected a string, found a number"],
        ),
        (
            json!({ "volumes": [{ "name": "a", "secret": { "secretName": 1 } }, { "name": "b", "csi": 2 }] }),
            true,
            true,
            false,
            vec![
                "volumes[0].secret.secretName: expected a string, found a number",
                "volumes[1].csi: expected a map, found a number",
            ],
        ),
        (
            json!({ "volumes": [{ "name": "a", "projected": { "sources": [{ "secret": { "name": {} } }, "x"] } }] }),
            true,
            true,
            false,
            vec![
                "volumes[0].projected.sources[0].secret.name: expected a string, found a map",
                "volumes[0].projected.sources[1]: expected a map, found a string",
            ],
        ),
        (
            json!({ "imagePullSecrets": [{ "name": "a" }, "b"] }),
            true,
            true,
            false,
            vec!["imagePullSecrets[1]: expected a map, found a string"],
        ),
        (
            json!({ "containers": [{ "env": [{ "valueFrom": { "secretKeyRef": "a" } }] }], "initContainers": 7 }),
            true,
            true,
            false,
            vec![
                "containers[0].env[0].valueFrom.secretKeyRef: expected a map, found a string",
                "initContainers: expected a list, found a number",
            ],
        ),
        (
            json!({ "containers": [{ "envFrom": [{ "secretRef": { "name": 7 } }, 1] }, null] }),
            true,
            true,
            false,
            vec![
                "containers[0].envFrom[0].secretRef.name: expected a string, found a number",
                "containers[0].envFrom[1]: expected a map, found a number",
                "containers[1]: expected a map, found null",
            ],
        ),
        (
            json!({ "terminationGracePeriodSeconds": "30" }),
            true,
            true,
            true,
            vec!["terminationGracePeriodSeconds: expected a whole number, found a string"],
        ),
    ] {
        let (read, found) = pod(json!({ "spec": spec, "status": { "phase": "Running" } }));
        let known = (
            !read.node_name.is_unread(),
            !read.volumes.is_unread(),
            !read.secrets.is_unread(),
        );
        assert_eq!(known, (node, volumes, secrets), "{spec}");
        let flaws: Vec<String> = flaws.into_iter().map(expected).collect();
        assert_eq!(found, flaws, "{spec}");
    }
    let (read, found) = pod(json!({ "spec": [], "status": { "phase": "Running" } }));
    assert_eq!(read.node_name, Field::Unread);
    assert_eq!(found, ["spec: expected a map, found a list"]);
    let (read, found) =
        running(json!({ "terminationGracePeriodSeconds": "30", "tolerations": [{ "key": 7 }] }));
    assert_eq!(
        (read.termination_grace_period_seconds, read.tolerations),
        (Field::Unread, Field::Unread)
    );
    assert_eq!(
        found,
        [
            "spec.terminationGracePeriodSeconds: expected a whole number, found a string",
            "spec.tolerations[0].key: expected a string, found a number",
        ]
    );
}

#[test]
fn each_field_of_a_status_is_read_alone() {
    let cases: [(Value, [bool; 3], &[&str]); 5] = [
        (
            json!(7),
            [false, false, false],
            &["status: expected a map, found a number"],
        ),
        (
            json!({ "phase": 7 }),
            [false, true, true],
            &["status.phase: expected a string, found a number"],
        ),
        (
            json!({ "phase": "Failed", "reason": ["Evicted"] }),
            [true, false, true],
            &["status.reason: expected a string, found a list"],
        ),
        (
            json!({ "phase": "Failed", "conditions": [{ "type": "DisruptionTarget", "lastTransitionTime": "soon", "status": true }] }),
            [true, true, false],
            &[
                "status.conditions[0].lastTransitionTime: \"soon\" is not a date",
                "status.conditions[0].status: expected a string, found a boolean",
            ],
        ),
        (
            json!({ "phase": "Failed", "conditions": [{ "type": 7 }, { "type": "DisruptionTarget" }] }),
            [true, true, false],
            &["status.conditions[0].type: expected a string, found a number"],
        ),
    ];
    for (status, known, flaws) in cases {
        let (read, found) = pod(json!({ "spec": {}, "status": status }));
        let unread = [
            read.phase.is_unread(),
            read.reason.is_unread(),
            read.conditions.is_unread(),
        ];
        assert_eq!(unread.map(|unread| !unread), known, "{status}");
        assert_eq!(found, flaws, "{status}");
    }
}

#[test]
fn the_containers_of_a_terminating_pod_are_read() {
    let (waiting, terminated) = (
        json!({ "waiting": {} }),
        json!({ "terminated": { "exitCode": 1 } }),
    );
    let running = json!({ "running": {} });
    for (states, expected) in [
        (vec![], true),
        (vec![&waiting, &terminated], true),
        (vec![&terminated, &running], false),
        (vec![&json!({})], false),
    ] {
        let statuses: Vec<Value> = states
            .into_iter()
            .map(|state| json!({ "state": state }))
            .collect();
        let status = json!({ "phase": "Running", "containerStatuses": statuses });
        let terminating = json!({ "deletionTimestamp": "2026-03-01T12:00:00Z" });
        let (read, flaws) = pod(json!({ "metadata": terminating, "spec": {}, "status": status }));
        assert_eq!(
            (read.containers_stopped, flaws),
            (expected.into(), vec![]),
            "{statuses:?}"
        );
        let (read, _) = pod(json!({ "spec": {}, "status": status }));
        assert_eq!(read.containers_stopped, false.into(), "it is not being deleted");
    }
}

#[test]
fn every_reference_to_a_secret_is_found() {
    let env = json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "x", "key": "k" } } }, { "name": "B", "value": "b" }]);
    let env_from = json!([{ "secretRef": { "name": "x" } }, { "configMapRef": { "name": "no" } }]);
    for spec in [
        json!({ "imagePullSecrets": [{ "name": "x" }] }),
        json!({ "containers": [{ "name": "a" }, { "env": env }] }),
        json!({ "initContainers": [{ "env": env }] }),
        json!({ "ephemeralContainers": [{ "env": env }] }),
        json!({ "containers": [{ "envFrom": env_from }] }),
        json!({ "initContainers": [{ "envFrom": env_from }] }),
        json!({ "ephemeralContainers": [{ "envFrom": env_from }] }),
        json!({ "volumes": [{ "name": "v", "secret": { "secretName": "x" } }] }),
        json!({ "volumes": [{ "name": "v", "azureFile": { "secretName": "x", "shareName": "s" } }] }),
        json!({ "volumes": [{ "name": "v", "csi": { "driver": "d", "nodePublishSecretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "cephfs": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "cinder": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "flexVolume": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "iscsi": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "rbd": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "scaleIO": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "storageos": { "secretRef": { "name": "x" } } }] }),
        json!({ "volumes": [{ "name": "v", "projected": { "sources": [{ "configMap": { "name": "no" } }, { "secret": { "name": "x" } }] } }] }),
    ] {
        let (pod, flaws) = running(spec.clone());
        assert_eq!((pod.secrets, flaws), (names(&["x"]), vec![]), "{spec}");
        assert_eq!(pod.volumes, Field::default(), "{spec}");
    }
    let (pod, _) = running(json!({
        "imagePullSecrets": [{ "name": "z" }, { "name": "" }, {}],
        "containers": [{ "env": env }],
        "volumes": [{ "name": "v", "secret": { "secretName": "b" } }, { "name": "w", "secret": { "secretName": "z" } }],
    }));
    assert_eq!(
        pod.secrets,
        names(&["b", "x", "z"]),
        "sorted, each once, and no empty one"
    );
}

#[test]
fn names_with_escaped_letters_are_names() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1"},
        "spec":{"containers":[{"env":[{"valueFrom":{"s\u0065cretKeyRef":{"name":"x"}}}]}]},
        "status":{"phase":"Failed","conditions":[{"type":"\u0044isruptionTarget","status":"True"}]}}"#;
    let record = snapshot(text).record_at(0).expect("a pod");
    let pod = record.pod().expect("it is a pod");
    assert_eq!(pod.secrets, names(&["x"]));
    assert_eq!(pod.conditions.known().map(Vec::len), Some(1));
    // YAML has more ways to write a name, and a line may end within one.
    for key in [
        r"s\x65cretKeyRef",
        r"s\u0065cretKeyRef",
        r"s\U00000065cretKeyRef",
        "sec\\\n      retKeyRef",
        "sec\\\r\n      retKeyRef",
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: shop, uid: '1'}}\nspec:\n  containers:\n  - env:\n    - valueFrom: {{\"{key}\": {{name: x}}}}\n"
        );
        let record = snapshot(&text).record_at(0).expect("a pod");
        let pod = record.pod().expect("it is a pod");
        assert_eq!(pod.secrets, names(&["x"]), "{text}");
    }
}

#[test]
fn equal_pods_share_their_details() {
    let pods: Vec<Value> = (0..3)
        .map(|at| {
            let volume = format!("kube-api-access-{at}");
            let changed = format!("2026-03-01T12:00:0{at}Z");
            let mut pod = object(Resource::Pods, json!({
                "spec": { "nodeName": "node-1", "volumes": [{ "name": volume, "projected": { "sources": [] } }] },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": changed }] },
            }));
            pod["metadata"]["name"] = format!("p{at}").into();
            pod["metadata"]["uid"] = format!("u{at}").into();
            pod
        })
        .collect();
    let snapshot = snapshot(&json!({ "apiVersion": "v1", "kind": "List", "items": pods }).to_string());
    let details: Vec<_> = snapshot.objects().filter_map(|object| object.details).collect();
    assert_eq!(details.len(), 3);
    assert!(details.iter().all(|other| Arc::ptr_eq(other, &details[0])));
}

#[test]
fn containers_are_not_read_where_the_text_mentions_no_secret() {
    let (pod, flaws) = running(json!({ "containers": { "env": 7 }, "ephemeralContainers": [1] }));
    assert_eq!((pod.secrets, flaws), (names(&[]), vec![]));
}
