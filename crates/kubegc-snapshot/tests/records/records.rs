//! Objects with and without a body, fields of other kinds, and what is kept of texts.

use kubegc_controllers::Documents;
use kubegc_core::{
    KubernetesVersion,
    record::{Body, Field, Record, Resource},
};
use kubegc_snapshot::{JsonDocuments, Reader};
use serde_json::{Value, json};

use crate::common::{object, read, snapshot};

/// Every position of the kind: before or after the other fields, or in the list.
fn ways(api_version: &str, kind: &str, body: &str) -> Vec<String> {
    let meta = r#""metadata":{"name":"a","namespace":"shop","uid":"1"}"#;
    let head = format!(r#""apiVersion":"{api_version}","kind":"{kind}""#);
    let list = format!(r#""apiVersion":"{api_version}","kind":"{kind}List""#);
    vec![
        format!("{{{head},{meta},{body}}}"),
        format!("{{{body},{meta},{head}}}"),
        format!(r#"{{"kind":"{kind}",{body},{meta},"apiVersion":"{api_version}"}}"#),
        format!(r#"{{{list},"items":[{{{body},{meta}}}]}}"#),
        format!(r#"{{"items":[{{{body},{meta}}}],{list}}}"#),
    ]
}

/// Fields that core kinds have, in shapes that they have nowhere.
const ODD: &str = r#""spec":{"volumes":{"a":1},"replicas":"three","nodeName":["x"],"taints":7,"containers":{"secretRef":1},"names":[],"versions":{},
    "jobTemplate":1,"claimRef":[],"ordinals":"x"},"status":{"conditions":{"Ready":true},"phase":7,"certificate":[]},"data":[1,2],"stringData":"x","type":7,
    "secrets":"x""#;

#[test]
fn objects_of_other_kinds_have_no_flaws_with_any_fields() {
    for (api_version, kind) in [
        ("example.com/v1", "Widget"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("management.cattle.io/v3", "Node"),
        ("policy/v1", "PodDisruptionBudget"),
        ("v1", "ReplicationController"),
    ] {
        for text in ways(api_version, kind, ODD) {
            let snapshot = snapshot(&text);
            let object = snapshot.object(0).expect("one object");
            assert!(!object.is_flawed(), "{text}: {:?}", snapshot.findings);
            assert_eq!(object.details(), None, "{text}");
            let meta = object.meta();
            assert_eq!(object.record(), Record::metadata_only(meta), "{text}");
        }
    }
    for text in ways("v1", "Pod", ODD) {
        let snapshot = snapshot(&text);
        assert!(snapshot.object(0).expect("one object").is_flawed(), "{text}");
    }
}

#[test]
fn an_object_whose_metadata_cannot_be_read_is_unread_and_live_it_is_refused() {
    let cases = [
        ("deletionTimestamp", json!("garbage")),
        ("creationTimestamp", json!("yesterday")),
        ("deletionGracePeriodSeconds", json!("soon")),
        ("finalizers", json!(["x", 7])),
        (
            "labels",
            json!({ "kubernetes.io/legacy-token-last-used": 20260101, "a": "b" }),
        ),
        (
            "ownerReferences",
            json!([{ "apiVersion": "batch/v1", "kind": "CronJob", "name": "c" }]),
        ),
        ("resourceVersion", json!(7)),
        ("generation", json!(1.5)),
        ("uid", json!("")),
    ];
    let body = json!({ "spec": { "ttlSecondsAfterFinished": 600 }, "status": { "startTime": "2026-03-01T12:00:00Z" } });
    for resource in [
        Resource::Jobs,
        Resource::Secrets,
        Resource::Pods,
        Resource::PersistentVolumes,
    ] {
        for (field, value) in &cases {
            let mut document = object(resource, body.clone());
            document["metadata"][*field] = value.clone();
            let text = document.to_string();
            for text in [
                text.clone(),
                format!(r#"{{"items":[{text}],"kind":"List","apiVersion":"v1"}}"#),
            ] {
                let snapshot = snapshot(&text);
                let record = snapshot.object(0).expect("one object").record();
                let found = snapshot.object(0).expect("one object");
                assert!(found.is_flawed() && found.has_flawed_meta(), "{text}");
                assert_eq!(record, Record::unreadable(found.meta()), "{text}");
                assert_eq!(
                    (&*record.meta.name, &*record.meta.namespace == "shop"),
                    ("a", resource != Resource::PersistentVolumes)
                );
            }
            let documents = JsonDocuments::default();
            let refused = documents.read(resource, text.as_bytes());
            let error = refused.expect_err("its metadata cannot be read").to_string();
            assert!(error.starts_with(&format!("metadata.{field}")), "{error}");
        }
        let document = object(resource, body.clone()).to_string();
        let snapshot = snapshot(&document);
        let found = snapshot.object(0).expect("one object");
        assert!(!found.has_flawed_meta(), "{document}");
        assert_ne!(*found.record().body, Body::Unread, "{document}");
    }
}

#[test]
fn metadata_alone_leaves_all_other_fields_unread() {
    let text = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[
        {"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"shop","uid":"1","labels":{"a":"b"},
         "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"2"}]}}]}"#;
    for (api_version, kind) in [
        ("v1", "ServiceAccount"),
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("batch/v1", "Job"),
        ("v1", "Pod"),
    ] {
        let mut reader = Reader::new(KubernetesVersion::LATEST);
        reader
            .read_as("f", api_version, kind, text.as_bytes())
            .expect("a list");
        let snapshot = reader.finish().expect("a snapshot");
        let record = snapshot.object(0).expect("one object").record();
        assert_eq!(*record.body, Body::Unread, "{kind}");
        assert_eq!(
            (record.meta.labels.len(), record.meta.owner_references.len()),
            (1, 1)
        );
        assert!(snapshot.object(1).is_none());
    }
}

#[test]
fn a_kind_has_the_same_fields_in_every_version_of_its_group() {
    for (api_version, kind, body) in [
        (
            "batch/v1beta1",
            "CronJob",
            r#""spec":{"failedJobsHistoryLimit":2}"#,
        ),
        (
            "certificates.k8s.io/v1beta1",
            "CertificateSigningRequest",
            r#""status":{}"#,
        ),
        ("apps/v1beta2", "StatefulSet", r#""spec":{"replicas":2}"#),
    ] {
        for text in ways(api_version, kind, body) {
            let record = snapshot(&text).object(0).expect("one object").record();
            assert_ne!(*record.body, Body::Unread, "{text}");
        }
    }
}

#[test]
fn the_last_kind_of_a_list_counts() {
    let meta = r#""metadata":{"name":"a","namespace":"shop","uid":"1"}"#;
    let list = |head: &str, body: &str, tail: &str| {
        format!(r#"{{"apiVersion":"v1"{head},"items":[{{{meta},{body}}}]{tail}}}"#)
    };
    let pods = list(
        r#","kind":"PodList""#,
        r#""spec":{"nodeName":"n"},"status":{"phase":"Running"}"#,
        "",
    );
    let record = snapshot(&pods).object(0).expect("one object").record();
    assert!(record.pod().is_some());
    // A kind is given twice: fields that were read for the first do not count for the second.
    let other = list(
        r#","kind":"PodList""#,
        r#""spec":{"nodeName":"n"}"#,
        r#","kind":"PersistentVolumeClaimList""#,
    );
    let found = snapshot(&other);
    assert!(found.find("", "PersistentVolumeClaim", "shop", "a").is_some());
    assert_eq!(*found.object(0).expect("one object").record().body, Body::Unread);
    // An item with a kind of its own does not take the kind of the list.
    let mixed = list(
        r#","kind":"WidgetList""#,
        r#""spec":{"nodeName":"n"},"status":{"phase":"Running"},"kind":"Pod","apiVersion":"v1""#,
        "",
    );
    let record = snapshot(&mixed).object(0).expect("one object").record();
    assert_eq!(
        record.pod().map(|pod| &pod.node_name),
        Some(&Field::Known("n".into()))
    );
}

/// The digest of a template, which is the same in a Deployment and a ReplicaSet.
fn digest(template: &Value) -> Field<u64> {
    let body = json!({ "spec": { "revisionHistoryLimit": 1, "template": template }, "status": {} });
    let (Body::Deployment(deployment), flaws) = read(Resource::Deployments, body.clone()) else {
        panic!("a Deployment");
    };
    assert_eq!(flaws, [""; 0]);
    let (Body::ReplicaSet(set), _) = read(Resource::ReplicaSets, body) else {
        panic!("a ReplicaSet");
    };
    assert_eq!(set.template_digest, deployment.template_digest, "{template}");
    set.template_digest
}

#[test]
fn equivalent_templates_have_one_digest() {
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "args": ["a", "b"] }], "restartPolicy": "Always", "priority": 1 },
    });
    for same in [
        json!({
            "metadata": { "creationTimestamp": null, "labels": { "pod-template-hash": "5d4", "app": "web" } },
            "spec": { "priority": 1, "restartPolicy": "Always",
                "containers": [{ "args": ["a", "b"], "name": "web", "resources": {}, "env": [], "image": "" }] },
        }),
        json!({
            "metadata": { "labels": { "app": "web" }, "annotations": {} },
            "spec": { "containers": [{ "name": "web", "args": ["a", "b"], "securityContext": { "capabilities": {} } }],
                "restartPolicy": "Always", "priority": 1 },
        }),
    ] {
        assert_eq!(digest(&same), digest(&template), "{same}");
    }
    for (path, value) in [
        ("/metadata/labels/app", json!("db")),
        (
            "/metadata/labels",
            json!({ "app": "web", "tier": "pod-template-hash" }),
        ),
        ("/spec/restartPolicy", json!("Never")),
        ("/spec/restartPolicy", json!(null)),
        ("/spec/priority", json!("1")),
        ("/spec/priority", json!(1.5)),
        ("/spec/priority", json!(true)),
        ("/spec/containers/0/name", json!("log")),
        ("/spec/containers/0/args", json!(["b", "a"])),
        ("/spec/containers/0/args", json!(["a", ["b"]])),
        ("/spec/containers/0/args", json!({ "a": "b" })),
        ("/spec/containers", json!([])),
        ("/spec", json!({ "labels": { "pod-template-hash": "5d4" } })),
    ] {
        let mut other = template.clone();
        *other.pointer_mut(path).expect("a field") = value;
        assert_ne!(digest(&other), digest(&template), "{other}");
    }
}

#[test]
fn names_with_escaped_letters_are_names() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1"},
        "spec":{"containers":[{"env":[{"valueFrom":{"s\u0065cretKeyRef":{"name":"x"}}}]}]},
        "status":{"phase":"Failed","conditions":[{"type":"\u0044isruptionTarget","status":"True"}]}}"#;
    let record = snapshot(text).object(0).expect("a pod").record();
    let pod = record.pod().expect("it is a pod");
    assert_eq!(pod.secrets, Field::Known(vec!["x".into()]));
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
        let record = snapshot(&text).object(0).expect("a pod").record();
        let pod = record.pod().expect("it is a pod");
        assert_eq!(pod.secrets, Field::Known(vec!["x".into()]), "{text}");
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
    let details: Vec<_> = snapshot.objects().filter_map(|object| object.details()).collect();
    assert_eq!(details.len(), 3);
    assert!(details.iter().all(|other| std::ptr::eq(*other, details[0])));
}

#[test]
fn no_secret_data_is_kept() {
    let text = r#"{"kind":"List","apiVersion":"v1","items":[
        {"data":{"password":"aHVudGVyMg==","expiration":"MjAy"},"metadata":{"name":"a","namespace":"b","uid":"c"},"apiVersion":"v1","kind":"Secret","type":"bootstrap.kubernetes.io/token"},
        {"data":{"expiration":"aHVudGVyMg=="},"metadata":{"name":"f","namespace":"b","uid":"g"},"apiVersion":"v1","kind":"Secret","type":"Opaque"},
        {"apiVersion":"v1","kind":"Secret","stringData":{"expiration":"hunter2"},"metadata":{"name":"h","namespace":"b","uid":"i"}},
        {"stringData":{"password":"hunter2"},"metadata":{"name":"d","namespace":"b","uid":"e"},"apiVersion":"v1","kind":"Secret"}]}"#;
    let snapshot = snapshot(text);
    let kept = format!("{:?}", snapshot.objects().collect::<Vec<_>>());
    assert!(kept.contains("Known(\"202\")"));
    assert!(
        !kept.contains("hunter2") && !kept.contains("aHVudGVyMg=="),
        "{kept}"
    );
}
