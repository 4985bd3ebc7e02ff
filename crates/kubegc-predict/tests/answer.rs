//! Questions and answers in JSON, and the JSON schemas of the documents, which name every field that a
//! document has.

use std::path::Path;

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{
    Assumptions, Cluster, Intent,
    document::{SCHEMAS, answer},
};
use kubegc_snapshot::Reader;
use proptest::prelude::*;
use serde_json::{Value, json};

fn answered(question: &Value) -> Value {
    serde_json::from_str(&answer(question.to_string().as_bytes(), &[]).text).expect("JSON")
}

/// A Deployment with a ReplicaSet, and a Secret with a finalizer.
fn dump() -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1", "controller": true}]);
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web", "uid": "u1"}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata":
            {"namespace": "shop", "name": "web-1", "uid": "u2", "ownerReferences": owner}},
        {"apiVersion": "v1", "kind": "Secret", "metadata":
            {"namespace": "shop", "name": "held", "uid": "u3", "finalizers": ["example.com/hold"], "labels": {"a": "b"}}}
    ]})
}

/// A question about the dump, with further fields.
fn question(fields: Value) -> Value {
    let mut question = json!({"schema": "kubegc-question/1", "dump": dump(), "complete": ["all"]});
    let (Value::Object(question_fields), Value::Object(fields)) = (&mut question, fields) else {
        panic!("objects");
    };
    question_fields.extend(fields);
    question
}

/// The kinds of a dump: an object, a text, an array of both, files of the host.
#[test]
fn a_dump_can_be_inline_or_in_files() {
    let delete = json!([{"arguments": ["deploy", "web"]}]);
    let whole = answered(&question(json!({"delete": delete})));
    assert_eq!(whole["status"], "ok", "{whole}");
    assert_eq!(whole["forecast"]["summary"], json!({"deleted": 2}));
    let items = dump()["items"].clone();
    let texts: Vec<String> = items
        .as_array()
        .expect("a list")
        .iter()
        .map(Value::to_string)
        .collect();
    for dump in [
        json!(dump().to_string()),
        items.clone(),
        json!(texts),
        json!([texts[0], items[1], [dump()]]),
    ] {
        let other = answered(&question(json!({"delete": delete, "dump": dump})));
        let (wanted, got) = (&whole["forecast"]["summary"], &other["forecast"]["summary"]);
        assert_eq!(wanted, got, "{dump}: {other}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("dump.json"), dump().to_string()).expect("a file");
    let mut of_files = question(json!({"delete": delete}));
    of_files["dump"] = Value::Null;
    let of_files = answer(of_files.to_string().as_bytes(), &[directory.path()]).text;
    assert_eq!(
        serde_json::from_str::<Value>(&of_files).expect("JSON")["forecast"],
        whole["forecast"]
    );
}

/// An object of an answer can be deleted by the next question.
#[test]
fn deletes_are_arguments_of_kubectl_or_objects() {
    let by_arguments = answered(&question(
        json!({"delete": [{"arguments": ["deploy/web"], "namespace": "shop"}]}),
    ));
    let object = &by_arguments["forecast"]["targets"][0];
    assert_eq!(object["uid"], "u1");
    let by_object = answered(&question(json!({"delete": [{"object": object}]})));
    assert_eq!(
        by_arguments["forecast"]["summary"],
        by_object["forecast"]["summary"]
    );
    let another = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u9"});
    let refused = answered(&question(json!({"delete": [{"object": another}]})));
    assert_eq!(
        refused["status"], "refused",
        "the uid is a precondition: {refused}"
    );

    // kubectl sends a policy. Without one, the default of a Job keeps its dependents.
    let dump = json!([
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "shop", "name": "report", "uid": "1"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "rows", "uid": "2",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "report", "uid": "1"}]}},
    ]);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "shop", "name": "report"});
    for (delete, deleted) in [
        (json!({"arguments": ["job/report"]}), 2),
        (json!({"arguments": ["job/report"], "options": {}}), 1),
        (json!({"object": job}), 1),
        (
            json!({"object": job, "options": {"propagationPolicy": "Foreground"}}),
            2,
        ),
        (
            json!({"filename": dump[0], "options": {"propagationPolicy": "Background"}}),
            2,
        ),
    ] {
        let answer = answered(&question(json!({"dump": dump, "delete": [delete]})));
        assert_eq!(
            answer["forecast"]["summary"]["deleted"], deleted,
            "{delete}: {answer}"
        );
    }
}

/// Fields of a question, and the status and a part of its answer.
const STATUSES: &str = r#"
{"delete": [{"arguments": ["deploy/web"]}]} => ok |
{} => undetermined | only its metadata was read
{"ask": "diagnosis"} => ok |
{"delete": [{"arguments": ["secret/held"]}]} => problem | example.com/hold
{"delete": [{"arguments": ["secret/held"]}], "assumptions": {"finalizersReleased": ["example.com/hold"]}} => ok |
{"delete": [{"arguments": ["deploy/webb"]}]} => notFound | did you mean web
{"delete": [{"arguments": ["deploi/web"]}]} => notFound | did you mean deployments.apps
{"dump": "{"} => unreadable | dump, document 1: the input ends
{"dump": ["{}", {"kind": 1}]} => unreadable | dump[
{"dump": null} => unreadable | no Kubernetes object was read: no dump was given
{"delete": [{}]} => invalid | name the objects
{"delete": [{"arguments": ["secrets"], "selector": "=="}]} => invalid | selector:
{"delete": [{"arguments": ["deploy/web"], "options": {"propagationPolicy": "Sideways"}}]} => invalid | Sideways
{"delete": [{"arguments": ["a/b"], "object": {"apiVersion": "v1", "kind": "A", "name": "b"}}]} => invalid | alone
{"only": ["ttl"]} => invalid | expected one of
{"complete": ["pots"]} => invalid | "pots"
{"kubernetes": "1.x"} => invalid | kubernetes:
{"horizon": 3} => invalid | unknown field `horizon`
{"schema": "kubegc-question/2", "other": 1} => invalid | expected "kubegc-question/1"
"#;

#[test]
fn the_status_says_how_the_question_ends() {
    for row in STATUSES.trim().lines() {
        let (fields, outcome) = row.split_once(" => ").expect("an outcome");
        let (status, part) = outcome.split_once(" |").expect("a status");
        let (fields, part): (Value, _) = (serde_json::from_str(fields).expect("JSON"), part.trim());
        let answer = answered(&question(fields.clone()));
        assert_eq!(answer["status"], status, "{fields}: {answer}");
        assert!(
            answer.to_string().contains(&part.replace('"', "\\\"")),
            "{fields}: {answer}"
        );
        assert_eq!(answer["schema"], "kubegc-answer/1");
        assert_eq!(
            answer["error"].is_null(),
            answer["kubernetes"].is_string(),
            "{answer}"
        );
    }
    let missing = answer(
        question(json!({})).to_string().as_bytes(),
        &[Path::new("/no/such/dump")],
    )
    .text;
    assert!(
        missing.contains(r#""status":"unreadable""#) && missing.contains("/no/such/dump"),
        "{missing}"
    );
}

proptest! {
    /// A damaged question has an answer, too.
    #[test]
    fn every_question_has_an_answer(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut text = question(json!({"delete": [{"arguments": ["deploy/web"]}], "now": "2026-05-01T12:00:00Z"})).to_string().into_bytes();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        let answer: Value = serde_json::from_str(&answer(&text, &[]).text).expect("JSON");
        let word = answer["status"].as_str().expect("a word");
        prop_assert_ne!(word, "internal");
        prop_assert_eq!(answer["error"].is_string(), matches!(word, "invalid" | "unreadable" | "notFound"));
    }
}

const DUMP: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: owner, namespace: shop, uid: u1}
---
apiVersion: v1
kind: Secret
metadata:
  {name: held, namespace: shop, uid: u2, finalizers: [example.com/hold], deletionTimestamp: "2026-05-01T12:00:00Z", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop, uid: u3, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u9}]}
"#;

fn cluster() -> Cluster {
    let version = KubernetesVersion::LATEST;
    let mut reader = Reader::new(version).complete("all");
    reader.read("dump.yaml", DUMP.as_bytes()).expect("YAML");
    Cluster::new(version, reader.finish().expect("a dump"), Assumptions::default())
}

/// The fields of an object that a schema does not name, with their path.
fn unknown_fields(value: &Value, schema: &Value, root: &Value, path: &str, out: &mut Vec<String>) {
    let schemas = resolved(schema, root);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                let named: Vec<&Value> = schemas
                    .iter()
                    .filter_map(|schema| schema["properties"].get(name))
                    .collect();
                let free = schemas
                    .iter()
                    .any(|schema| schema.get("additionalProperties").is_some());
                match named.first() {
                    None if free => {}
                    None => out.push(path),
                    Some(_) => {
                        let any =
                            Value::from_iter([("anyOf", named.into_iter().cloned().collect::<Value>())]);
                        unknown_fields(field, &any, root, &path, out);
                    }
                }
            }
        }
        Value::Array(items) => {
            let of_items: Value = schemas
                .iter()
                .filter_map(|schema| schema.get("items"))
                .cloned()
                .collect();
            let any = Value::from_iter([("anyOf", of_items)]);
            for item in items {
                unknown_fields(item, &any, root, path, out);
            }
        }
        _ => {}
    }
}

/// The schema and all that it refers to or combines.
fn resolved<'s>(schema: &'s Value, root: &'s Value) -> Vec<&'s Value> {
    let (mut found, mut pending) = (Vec::new(), vec![schema]);
    while let Some(next) = pending.pop() {
        if let Some(reference) = next["$ref"].as_str() {
            let pointer = reference.trim_start_matches('#');
            pending.extend(root.pointer(pointer));
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            pending.extend(next[word].as_array().into_iter().flatten());
        }
        found.push(next);
    }
    found
}

fn check(value: &Value, name: &str) {
    let schema = SCHEMAS.iter().find(|(schema, _)| *schema == name);
    let (_, schema) = schema.expect("a schema of this name");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let mut unknown = Vec::new();
    unknown_fields(value, &schema, &schema, "", &mut unknown);
    assert_eq!(unknown, [""; 0], "{schema:#}");
    assert_eq!(value["schema"], name);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert!(required.contains(&"schema"), "{required:?}");
    for field in required {
        assert!(value.get(field).is_some(), "{name} has no field {field}");
    }
}

#[test]
fn schemas_name_every_field_of_a_document() {
    let cluster = cluster();
    let delete = |policy| {
        let target = "shop/ConfigMap/owner".parse().expect("a name");
        cluster
            .predict(&[Intent::delete(target, DeleteOptions::policy(policy))])
            .expect("it is there")
    };
    let (foreground, orphan) = (
        delete(PropagationPolicy::Foreground),
        delete(PropagationPolicy::Orphan),
    );
    for forecast in [&foreground, &orphan, cluster.pending()] {
        check(&forecast.to_json(), "kubegc-forecast/1");
    }
    check(&foreground.compare(&orphan).to_json(), "kubegc-comparison/1");
    let diagnosis = cluster.doctor();
    assert!(!diagnosis.terminating.is_empty() && !diagnosis.references.is_empty());
    check(&diagnosis.to_json(), "kubegc-diagnosis/1");
}

#[test]
fn schemas_name_every_field_of_questions_and_answers() {
    for ask in ["forecast", "diagnosis"] {
        let question = json!({
            "schema": "kubegc-question/1", "ask": ask, "kubernetes": "1.33", "dump": DUMP, "complete": ["all"],
            "apiResources": "NAME SHORTNAMES APIVERSION NAMESPACED KIND\n", "lenient": true,
            "delete": [
                {"arguments": ["configmaps"], "namespace": "shop", "allNamespaces": false, "selector": "!a", "all": false},
                {"filename": DUMP, "afterSeconds": 1},
                {
                    "object": {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "key", "uid": "u3"},
                    "options": {
                        "propagationPolicy": "Orphan", "gracePeriodSeconds": 0, "dryRun": ["All"],
                        "preconditions": {"uid": "u3", "resourceVersion": null},
                    },
                },
            ],
            "now": "2026-05-01T12:00:00Z", "horizonSeconds": 60, "everything": true, "only": [], "without": [],
            "assumptions": {
                "podsEnd": true, "finalizersReleased": ["external-attacher/x"], "acting": {"snapshot-controller": false},
                "unreachableWebhooks": [], "unavailableApis": [], "storageIsDeleted": true,
                "externalControllersRun": true, "otherNodesAreReady": false,
                "cloud": [{"node": "n", "exists": true, "isShutdown": null}],
            },
        });
        check(&question, "kubegc-question/1");
        let answer = answer(question.to_string().as_bytes(), &[]).text;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["error"], Value::Null);
        assert!(answer[ask].is_object());
        check(&answer, "kubegc-answer/1");
    }
}
