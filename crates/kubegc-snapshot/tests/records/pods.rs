//! Pods: where they run, how they stand, their claims, and every secret that they mention.

use kubegc_lifecycle::{
    fields::{Fields, Pod},
    object::{Condition, Resource},
    pod::Status,
    volume::{PodVolume, Source},
};
use serde_json::{Value, json};

use crate::common::{at, condition, object, read, snapshot};

fn pod(body: Value) -> (Pod, Vec<String>) {
    match read(Resource::Pods, body) {
        (Fields::Pod(pod), flaws) => (pod, flaws),
        (other, _) => panic!("a pod is read as {other:?}"),
    }
}

/// A pod on a node that runs, with this spec beside.
fn running(mut spec: Value) -> (Pod, Vec<String>) {
    spec["nodeName"] = "node-1".into();
    pod(json!({ "spec": spec, "status": { "phase": "Running" } }))
}

fn names(names: &[&str]) -> Option<Vec<std::sync::Arc<str>>> {
    Some(names.iter().map(|name| (*name).into()).collect())
}

#[test]
fn whole_pods_tell_all() {
    let (read, flaws) = pod(json!({
        "spec": {
            "nodeName": "node-1", "terminationGracePeriodSeconds": 30, "containers": [{ "name": "web", "image": "web:1" }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
                { "name": "tmp", "emptyDir": {} },
            ],
        },
        "status": {
            "phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T12:00:00Z",
            "conditions": [
                { "type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T12:00:01Z" },
                { "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "low on memory",
                  "lastTransitionTime": "2026-03-01T12:00:02Z", "lastProbeTime": null },
            ],
        },
    }));
    let disruption = Condition {
        reason: "TerminationByKubelet".into(),
        message: "low on memory".into(),
        last_transition_time: Some(at(2)),
        ..condition("DisruptionTarget", "True")
    };
    let expected = Pod {
        node_name: Some("node-1".into()),
        status: Some(Status {
            phase: "Failed".into(),
            reason: "Evicted".into(),
            conditions: vec![disruption],
        }),
        volumes: Some(vec![
            PodVolume {
                name: "data".into(),
                source: Source::Claim("data-web-0".into()),
            },
            PodVolume {
                name: "scratch".into(),
                source: Source::Ephemeral,
            },
        ]),
        secrets: names(&[]),
    };
    assert_eq!((read, flaws), (expected, vec![]));
}

#[test]
fn what_was_not_read_is_unknown_and_what_is_absent_is_unset() {
    let bare = Pod {
        node_name: Some("".into()),
        status: Some(Status::new("Pending")),
        volumes: Some(vec![]),
        secrets: names(&[]),
    };
    let no_phase = "status.phase: not there".to_owned();
    for (body, expected, flaws) in [
        (
            json!({ "spec": {}, "status": { "phase": "Pending" } }),
            bare.clone(),
            vec![],
        ),
        (
            json!({ "spec": { "nodeName": null, "volumes": null, "imagePullSecrets": null }, "status": { "phase": "Pending", "conditions": null, "reason": null } }),
            bare.clone(),
            vec![],
        ),
        (json!({}), Pod::default(), vec![no_phase.clone()]),
        (
            json!({ "spec": null, "status": null }),
            Pod::default(),
            vec![no_phase.clone()],
        ),
        (
            json!({ "status": { "phase": "Pending" } }),
            Pod {
                status: bare.status.clone(),
                ..Pod::default()
            },
            vec![],
        ),
        (
            json!({ "spec": {}, "status": { "reason": "Evicted" } }),
            Pod {
                status: None,
                ..bare.clone()
            },
            vec![no_phase.clone()],
        ),
        (
            json!({ "spec": {}, "status": { "phase": null } }),
            Pod {
                status: None,
                ..bare.clone()
            },
            vec![no_phase],
        ),
        (
            json!({ "spec": {}, "status": { "phase": 7 } }),
            Pod {
                status: None,
                ..bare.clone()
            },
            vec!["status.phase: expected a string, found a number".to_owned()],
        ),
        // Upstream takes an empty phase for that of a pod that has ended.
        (
            json!({ "spec": {}, "status": { "phase": "" } }),
            Pod {
                status: Some(Status::new("")),
                ..bare.clone()
            },
            vec![],
        ),
    ] {
        assert_eq!(pod(body), (expected, flaws));
    }
}

#[test]
fn what_cannot_be_read_is_unknown_and_named() {
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
            read.node_name.is_some(),
            read.volumes.is_some(),
            read.secrets.is_some(),
        );
        assert_eq!(known, (node, volumes, secrets), "{spec}");
        let flaws: Vec<String> = flaws.into_iter().map(expected).collect();
        assert_eq!(found, flaws, "{spec}");
    }
    let (read, found) = pod(json!({ "spec": [], "status": { "phase": "Running" } }));
    assert_eq!(read.node_name, None);
    assert_eq!(found, ["spec: expected a map, found a list"]);
}

#[test]
fn a_status_of_which_a_part_cannot_be_read_is_unknown() {
    for (status, flaws) in [
        (json!(7), vec!["status: expected a map, found a number"]),
        (
            json!({ "phase": 7 }),
            vec!["status.phase: expected a string, found a number"],
        ),
        (
            json!({ "phase": "Failed", "reason": ["Evicted"] }),
            vec!["status.reason: expected a string, found a list"],
        ),
        (
            json!({ "phase": "Failed", "conditions": [{ "type": "DisruptionTarget", "lastTransitionTime": "soon", "status": true }] }),
            vec![
                "status.conditions[0].lastTransitionTime: \"soon\" is no date",
                "status.conditions[0].status: expected a string, found a boolean",
            ],
        ),
        (
            json!({ "phase": "Failed", "conditions": [{ "type": 7 }, { "type": "DisruptionTarget" }] }),
            vec!["status.conditions[0].type: expected a string, found a number"],
        ),
    ] {
        let (read, found) = pod(json!({ "spec": {}, "status": status }));
        assert_eq!(
            (read.status, found),
            (None, flaws.iter().map(|flaw| (*flaw).to_owned()).collect())
        );
    }
}

#[test]
fn every_way_to_mention_a_secret_is_known() {
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
        assert_eq!(pod.volumes, Some(vec![]), "{spec}");
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
    let Fields::Pod(pod) = record.fields else {
        panic!("it is a pod");
    };
    assert_eq!(pod.secrets, names(&["x"]));
    assert_eq!(pod.status.map(|status| status.conditions.len()), Some(1));
    // In YAML in more ways, and a line may end within a name.
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
        let Fields::Pod(pod) = record.fields else {
            panic!("it is a pod");
        };
        assert_eq!(pod.secrets, names(&["x"]), "{text}");
    }
}

#[test]
fn pods_that_are_alike_share_their_details() {
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
    assert!(
        details
            .iter()
            .all(|other| std::sync::Arc::ptr_eq(other, &details[0]))
    );
}

#[test]
fn what_is_not_mentioned_is_not_looked_into() {
    let (pod, flaws) = running(json!({ "containers": { "env": 7 }, "ephemeralContainers": [1] }));
    assert_eq!((pod.secrets, flaws), (names(&[]), vec![]));
}
