//! JSON schemas of the documents: they name every field that a document has.

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{
    Assumptions, Cluster, Intent,
    document::{SCHEMAS, answer},
};
use kubegc_snapshot::Reader;
use serde_json::{Value, json};

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
