//! Patches: what each change looks like in each form, what guards it, and what is refused.

use kubegc_core::{OwnerReference, PatchType, Preconditions};
use kubegc_lifecycle::{
    driver::Documents,
    object::{Change, Condition, Form, Resource, Taint},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

use crate::common::{at, object};

const MERGE: Form = Form::Patch(PatchType::Merge);
const STRATEGIC: Form = Form::Patch(PatchType::Strategic);
const JSON: Form = Form::Patch(PatchType::Json);

/// The body of the patch; null where it is empty.
fn patch(form: Form, expect: &Preconditions, changes: &[Change], document: &Value) -> Result<Value, String> {
    let documents = JsonDocuments::default();
    let (patch_type, body) = documents
        .patch(form, expect, changes, document.to_string().as_bytes())
        .map_err(|error| error.to_string())?;
    let expected = match form {
        Form::Patch(patch_type) => patch_type,
        Form::Replace => PatchType::Merge,
    };
    assert_eq!(patch_type, expected);
    if body.is_empty() {
        return Ok(Value::Null);
    }
    Ok(serde_json::from_slice(&body).expect("JSON"))
}

fn document(body: Value) -> Value {
    object(Resource::Jobs, body)
}

fn reference(name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.into(),
        uid: format!("u-{name}").as_str().into(),
        controller: None,
        block_owner_deletion: Some(true),
    }
}

fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        effect: "NoSchedule".into(),
    }
}

fn disruption() -> Condition {
    Condition {
        reason: "DeletionByPodGC".into(),
        message: "PodGC: node no longer exists".into(),
        last_transition_time: Some(at(0)),
        ..Condition::new("DisruptionTarget", "True")
    }
}

/// A change, the object before, and the part of a merge, a strategic and a JSON patch that says it, guards aside.
fn cases() -> Vec<(Change, Value, [Value; 3])> {
    let entry = |name: &str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("u-{name}"), "blockOwnerDeletion": true });
    let add = |path: &str, value: Value| json!([{ "op": "add", "path": path, "value": value }]);
    let at_status = |key: &str, value: Value| json!({ "status": { (key): value } });
    vec![
        (
            Change::Phase("Failed".into()),
            json!({ "status": { "phase": "Running" } }),
            [
                at_status("phase", "Failed".into()),
                at_status("phase", "Failed".into()),
                add("/status/phase", "Failed".into()),
            ],
        ),
        (
            Change::Message("m".into()),
            json!({}),
            [
                at_status("message", "m".into()),
                at_status("message", "m".into()),
                json!([{ "op": "add", "path": "/status", "value": {} }, { "op": "add", "path": "/status/message", "value": "m" }]),
            ],
        ),
        (
            Change::Condition(disruption()),
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }, 7] } }),
            [
                at_status(
                    "conditions",
                    json!([{ "type": "Ready", "status": "True" }, 7, condition_json()]),
                ),
                at_status(
                    "conditions",
                    json!([{ "$patch": "replace" }, { "type": "Ready", "status": "True" }, 7, condition_json()]),
                ),
                add(
                    "/status/conditions",
                    json!([{ "type": "Ready", "status": "True" }, 7, condition_json()]),
                ),
            ],
        ),
        (
            Change::Condition(disruption()),
            json!({ "status": { "conditions": [
                { "type": "DisruptionTarget", "status": "False", "lastProbeTime": null, "lastUpdateTime": "x", "message": "old" },
                { "type": "Ready", "status": "True" },
            ] } }),
            [
                at_status(
                    "conditions",
                    json!([with(condition_json(), "lastProbeTime", Value::Null), { "type": "Ready", "status": "True" }]),
                ),
                at_status(
                    "conditions",
                    json!([with(condition_json(), "lastUpdateTime", Value::Null)]),
                ),
                add(
                    "/status/conditions",
                    json!([with(condition_json(), "lastProbeTime", Value::Null), { "type": "Ready", "status": "True" }]),
                ),
            ],
        ),
        (
            Change::AddFinalizer("c"),
            json!({ "metadata": { "finalizers": ["a", "b"] } }),
            [
                json!({ "metadata": { "finalizers": ["a", "b", "c"] } }),
                json!({ "metadata": { "finalizers": ["c"] } }),
                add("/metadata/finalizers", json!(["a", "b", "c"])),
            ],
        ),
        (
            Change::AddFinalizer("c"),
            json!({}),
            [
                json!({ "metadata": { "finalizers": ["c"] } }),
                json!({ "metadata": { "finalizers": ["c"] } }),
                add("/metadata/finalizers", json!(["c"])),
            ],
        ),
        (
            Change::RemoveFinalizer("b"),
            json!({ "metadata": { "finalizers": ["a", "b", "c"] } }),
            [
                json!({ "metadata": { "finalizers": ["a", "c"] } }),
                json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["b"] } }),
                add("/metadata/finalizers", json!(["a", "c"])),
            ],
        ),
        (
            Change::OwnerReferences(vec![reference("b"), reference("c")]),
            json!({ "metadata": { "ownerReferences": [entry("a"), with(entry("b"), "future", json!(1))] } }),
            [
                json!({ "metadata": { "ownerReferences": [with(entry("b"), "future", json!(1)), entry("c")] } }),
                json!({ "metadata": { "ownerReferences": [entry("c"), { "$patch": "delete", "uid": "u-a" }] } }),
                add(
                    "/metadata/ownerReferences",
                    json!([with(entry("b"), "future", json!(1)), entry("c")]),
                ),
            ],
        ),
        (
            Change::OwnerReferences(vec![reference("b"), reference("a")]),
            json!({ "metadata": { "ownerReferences": [entry("a"), entry("b")] } }),
            [
                json!({ "metadata": { "ownerReferences": [entry("b"), entry("a")] } }),
                json!({ "metadata": { "ownerReferences": [{ "$patch": "replace" }, entry("b"), entry("a")] } }),
                add("/metadata/ownerReferences", json!([entry("b"), entry("a")])),
            ],
        ),
        (
            Change::RemoveOwnerReferences(vec!["u-a".into(), "u-x".into()]),
            json!({ "metadata": { "ownerReferences": [entry("a"), entry("b")] } }),
            [
                json!({ "metadata": { "ownerReferences": [entry("b")] } }),
                json!({ "metadata": { "ownerReferences": [{ "$patch": "delete", "uid": "u-a" }] } }),
                add("/metadata/ownerReferences", json!([entry("b")])),
            ],
        ),
        (
            Change::Label {
                key: "a.io/b",
                value: "2026-03-01".into(),
            },
            json!({}),
            [
                json!({ "metadata": { "labels": { "a.io/b": "2026-03-01" } } }),
                json!({ "metadata": { "labels": { "a.io/b": "2026-03-01" } } }),
                json!([{ "op": "add", "path": "/metadata/labels", "value": {} }, { "op": "add", "path": "/metadata/labels/a.io~1b", "value": "2026-03-01" }]),
            ],
        ),
        (
            Change::Annotation {
                key: "a~b",
                value: "x".into(),
            },
            json!({ "metadata": { "annotations": { "other": "y" } } }),
            [
                json!({ "metadata": { "annotations": { "a~b": "x" } } }),
                json!({ "metadata": { "annotations": { "a~b": "x" } } }),
                add("/metadata/annotations/a~0b", json!("x")),
            ],
        ),
        (
            Change::RemoveAnnotation("a"),
            json!({ "metadata": { "annotations": { "a": "x", "b": "y" } } }),
            [
                json!({ "metadata": { "annotations": { "a": null } } }),
                json!({ "metadata": { "annotations": { "a": null } } }),
                json!([{ "op": "remove", "path": "/metadata/annotations/a" }]),
            ],
        ),
        (
            Change::RemoveClaimRef,
            json!({ "spec": { "claimRef": { "name": "a" } } }),
            [
                json!({ "spec": { "claimRef": null } }),
                json!({ "spec": { "claimRef": null } }),
                json!([{ "op": "remove", "path": "/spec/claimRef" }]),
            ],
        ),
        (
            Change::ReleaseClaimRef,
            json!({ "spec": { "claimRef": { "name": "a", "uid": "u" } } }),
            [
                json!({ "spec": { "claimRef": { "uid": null } } }),
                json!({ "spec": { "claimRef": { "uid": null } } }),
                json!([{ "op": "remove", "path": "/spec/claimRef/uid" }]),
            ],
        ),
        (
            Change::AddTaint(taint("b")),
            json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }, "odd"] } }),
            [
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }, "odd", { "key": "b", "effect": "NoSchedule" }] } }),
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }, "odd", { "key": "b", "effect": "NoSchedule" }] } }),
                add(
                    "/spec/taints",
                    json!([{ "key": "b", "effect": "NoExecute" }, "odd", { "key": "b", "effect": "NoSchedule" }]),
                ),
            ],
        ),
        (
            Change::RemoveTaint(taint("b")),
            json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule", "value": "x" }, { "key": "b", "effect": "NoExecute" }] } }),
            [
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }),
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }),
                add("/spec/taints", json!([{ "key": "b", "effect": "NoExecute" }])),
            ],
        ),
        (
            Change::RemoveActive("U-1".into()),
            json!({ "status": { "active": [{ "uid": "U-1" }, { "uid": "U-2", "name": "b" }] } }),
            [
                at_status("active", json!([{ "uid": "U-2", "name": "b" }])),
                at_status("active", json!([{ "uid": "U-2", "name": "b" }])),
                add("/status/active", json!([{ "uid": "U-2", "name": "b" }])),
            ],
        ),
    ]
}

fn condition_json() -> Value {
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    })
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

/// A patch without its guard, and the guard.
fn apart(mut patch: Value) -> (Value, Vec<(String, Value)>) {
    let mut guard = Vec::new();
    match &mut patch {
        Value::Array(operations) => operations.retain(|operation| {
            let path = operation["path"].as_str().unwrap_or_default();
            let key = path.strip_prefix("/metadata/").unwrap_or_default();
            let is_guard = matches!(key, "uid" | "resourceVersion");
            guard.extend(is_guard.then(|| (key.to_owned(), operation["value"].clone())));
            !is_guard
        }),
        Value::Object(patch) => {
            let meta = patch.get_mut("metadata").and_then(Value::as_object_mut);
            let is_bare = meta.is_some_and(|meta| {
                for key in ["resourceVersion", "uid"] {
                    guard.extend(meta.remove(key).map(|value| (key.to_owned(), value)));
                }
                meta.is_empty()
            });
            if is_bare {
                patch.remove("metadata");
            }
        }
        _ => {}
    }
    guard.sort_by(|a, b| a.0.cmp(&b.0));
    (patch, guard)
}

#[test]
fn each_change_is_said_in_each_form() {
    let nothing = Preconditions::default();
    let version = ("resourceVersion".to_owned(), json!("7"));
    let both = vec![version.clone(), ("uid".to_owned(), json!("u-a"))];
    for (change, body, [merge, strategic, json]) in cases() {
        let document = document(body);
        let changes = [change];
        for (form, expected) in [
            (MERGE, &merge),
            (STRATEGIC, &strategic),
            (JSON, &json),
            (Form::Replace, &merge),
        ] {
            let (said, guard) = apart(patch(form, &nothing, &changes, &document).expect("a patch"));
            assert_eq!(said, *expected, "{form:?} {changes:?}");
            // A list that is written whole rests on the version that was read.
            let list_is_whole = match form {
                Form::Replace => {
                    assert_eq!(guard, both, "{changes:?}");
                    continue;
                }
                STRATEGIC => {
                    said.to_string().contains("replace")
                        || said.pointer("/spec/taints").is_some()
                        || said.pointer("/status/active").is_some()
                }
                _ => merge.to_string().contains('['),
            };
            let expected = if list_is_whole {
                vec![version.clone()]
            } else {
                vec![]
            };
            assert_eq!(guard, expected, "{form:?} {changes:?}");
        }
    }
}

#[test]
fn what_is_so_already_makes_an_empty_patch() {
    let expect = Preconditions::uid("u-a".into());
    let entry = json!({ "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u-a", "blockOwnerDeletion": true, "future": 1 });
    let whole = document(json!({
        "metadata": { "finalizers": ["a"], "ownerReferences": [entry], "labels": { "l": "1" }, "annotations": { "n": "1" } },
        "spec": { "taints": [{ "key": "b", "effect": "NoSchedule", "value": "x" }], "claimRef": { "uid": null } },
        "status": { "phase": "Failed", "message": "m", "conditions": [condition_json()], "active": [{ "uid": "1" }] },
    }));
    let bare = document(json!({}));
    for (document, change) in [
        (&whole, Change::Phase("Failed".into())),
        (&whole, Change::Message("m".into())),
        (&whole, Change::Condition(disruption())),
        (&whole, Change::AddFinalizer("a")),
        (&whole, Change::RemoveFinalizer("b")),
        (&whole, Change::OwnerReferences(vec![reference("a")])),
        (&whole, Change::RemoveOwnerReferences(vec!["u-b".into()])),
        (
            &whole,
            Change::Label {
                key: "l",
                value: "1".into(),
            },
        ),
        (
            &whole,
            Change::Annotation {
                key: "n",
                value: "1".into(),
            },
        ),
        (&whole, Change::RemoveAnnotation("o")),
        (&whole, Change::ReleaseClaimRef),
        (&whole, Change::AddTaint(taint("b"))),
        (&whole, Change::RemoveTaint(taint("c"))),
        (&whole, Change::RemoveActive("2".into())),
        (&bare, Change::RemoveFinalizer("b")),
        (&bare, Change::RemoveOwnerReferences(vec!["u-b".into()])),
        (&bare, Change::RemoveAnnotation("o")),
        (&bare, Change::RemoveClaimRef),
        (&bare, Change::ReleaseClaimRef),
        (&bare, Change::RemoveTaint(taint("c"))),
        (&bare, Change::RemoveActive("2".into())),
    ] {
        for form in [MERGE, STRATEGIC, JSON, Form::Replace] {
            let changes = [change.clone()];
            assert_eq!(
                patch(form, &expect, &changes, document),
                Ok(Value::Null),
                "{form:?} {changes:?}"
            );
        }
    }
    // The API server keeps no empty list.
    for form in [MERGE, STRATEGIC, JSON, Form::Replace] {
        let changes = [Change::OwnerReferences(vec![])];
        assert_eq!(patch(form, &expect, &changes, &bare), Ok(Value::Null), "{form:?}");
    }
    // What one change does and the next undoes is no change.
    let changes = [Change::AddFinalizer("x"), Change::RemoveFinalizer("x")];
    assert_eq!(patch(MERGE, &expect, &changes, &whole), Ok(Value::Null));
    assert_eq!(patch(MERGE, &expect, &[], &whole), Ok(Value::Null));
}

#[test]
fn what_is_expected_goes_along() {
    let expect = |uid: Option<&str>, version: Option<&str>| Preconditions {
        uid: uid.map(Into::into),
        resource_version: version.map(Into::into),
    };
    let change = [Change::Phase("Failed".into())];
    let document = document(json!({}));
    let uid = ("uid".to_owned(), json!("u-a"));
    let version = ("resourceVersion".to_owned(), json!("7"));
    for form in [MERGE, STRATEGIC, JSON] {
        for (expect, expected) in [
            (expect(None, None), vec![]),
            (expect(Some("u-a"), None), vec![uid.clone()]),
            (expect(None, Some("7")), vec![version.clone()]),
            (expect(Some("u-a"), Some("7")), vec![version.clone(), uid.clone()]),
        ] {
            let (_, guard) = apart(patch(form, &expect, &change, &document).expect("a patch"));
            assert_eq!(guard, expected, "{form:?}");
        }
    }
}

#[test]
fn several_changes_make_one_patch() {
    let changes = [
        Change::RemoveClaimRef,
        Change::RemoveAnnotation("pv.kubernetes.io/bound-by-controller"),
        Change::AddFinalizer("b"),
        Change::RemoveFinalizer("a"),
    ];
    let document = document(json!({
        "metadata": { "finalizers": ["a", "x"], "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" } },
        "spec": { "claimRef": { "name": "a", "uid": "u" } },
    }));
    let expected = json!({
        "metadata": {
            "finalizers": ["x", "b"], "annotations": { "pv.kubernetes.io/bound-by-controller": null },
            "resourceVersion": "7", "uid": "u-a",
        },
        "spec": { "claimRef": null },
    });
    assert_eq!(
        patch(Form::Replace, &Preconditions::default(), &changes, &document),
        Ok(expected)
    );
}

#[test]
fn a_part_of_what_goes_is_not_said_by_itself() {
    let document = document(json!({ "spec": { "claimRef": { "name": "a", "uid": "u" } } }));
    let changes = [Change::ReleaseClaimRef, Change::RemoveClaimRef];
    let gone = json!({ "spec": { "claimRef": null } });
    let nothing = Preconditions::default();
    assert_eq!(patch(MERGE, &nothing, &changes, &document), Ok(gone.clone()));
    assert_eq!(patch(STRATEGIC, &nothing, &changes, &document), Ok(gone));
    let removed = json!([{ "op": "remove", "path": "/spec/claimRef" }]);
    assert_eq!(patch(JSON, &nothing, &changes, &document), Ok(removed));
}

#[test]
fn what_the_changes_are_not_meant_for_is_refused() {
    let nothing = Preconditions::default();
    let phase = || vec![Change::Phase("Failed".into())];
    let without = |key: &str| {
        let mut document = document(json!({}));
        document["metadata"].as_object_mut().expect("a map").remove(key);
        document
    };
    let version = Preconditions {
        resource_version: Some("6".into()),
        ..Preconditions::default()
    };
    let finalizer = || vec![Change::AddFinalizer("a")];
    for (form, expect, changes, document, expected) in [
        (
            MERGE,
            Preconditions::uid("u-b".into()),
            phase(),
            document(json!({})),
            "metadata.uid: expected u-b, found u-a",
        ),
        (
            MERGE,
            Preconditions::uid("u-b".into()),
            phase(),
            without("uid"),
            "metadata.uid: expected u-b, found none",
        ),
        (
            STRATEGIC,
            version.clone(),
            phase(),
            document(json!({})),
            "metadata.resourceVersion: expected 6, found 7",
        ),
        (
            STRATEGIC,
            version,
            phase(),
            without("resourceVersion"),
            "metadata.resourceVersion: expected 6, found none",
        ),
        (
            Form::Replace,
            nothing.clone(),
            phase(),
            without("resourceVersion"),
            "metadata.resourceVersion: not there, so nothing guards the patch",
        ),
        (
            Form::Replace,
            nothing.clone(),
            phase(),
            without("uid"),
            "metadata.uid: not there, so nothing guards the patch",
        ),
        (
            MERGE,
            nothing.clone(),
            finalizer(),
            without("resourceVersion"),
            "metadata.resourceVersion: not there, so nothing guards the patch",
        ),
        (
            MERGE,
            nothing.clone(),
            phase(),
            document(json!({ "status": 7 })),
            "status: expected a map, found a number",
        ),
        (
            MERGE,
            nothing.clone(),
            finalizer(),
            document(json!({ "metadata": { "finalizers": {} } })),
            "metadata.finalizers: expected a list, found a map",
        ),
        (
            MERGE,
            nothing.clone(),
            vec![Change::RemoveFinalizer("a")],
            document(json!({ "metadata": { "finalizers": "a" } })),
            "metadata.finalizers: expected a list, found a string",
        ),
        (
            MERGE,
            nothing.clone(),
            vec![Change::ReleaseClaimRef],
            document(json!({ "spec": { "claimRef": "a" } })),
            "spec.claimRef: expected a map, found a string",
        ),
        (
            MERGE,
            nothing.clone(),
            vec![Change::RemoveTaint(taint("a"))],
            document(json!({ "spec": [] })),
            "spec: expected a map, found a list",
        ),
        (
            STRATEGIC,
            nothing.clone(),
            finalizer(),
            document(json!({ "metadata": { "finalizers": ["b", "b"] } })),
            "metadata.finalizers: a strategic patch cannot say this change of the list",
        ),
        (
            MERGE,
            nothing.clone(),
            phase(),
            json!([]),
            "expected a map, found a list",
        ),
    ] {
        assert_eq!(
            patch(form, &expect, &changes, &document),
            Err(expected.to_owned())
        );
    }
    let documents = JsonDocuments::default();
    let error = documents
        .patch(MERGE, &nothing, &phase(), b"{")
        .expect_err("no JSON");
    assert!(error.to_string().starts_with("not valid JSON: EOF"), "{error}");
}

#[test]
fn documents_that_cannot_be_read_are_refused() {
    let documents = JsonDocuments::default();
    let read = |text: &str| {
        documents
            .read(Resource::Jobs, text.as_bytes())
            .map_err(|error| error.to_string())
    };
    let with_meta = |meta: &str| format!(r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{{meta}}}}}"#);
    for (text, expected) in [
        (
            "{".to_owned(),
            "not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        ("[]".to_owned(), "expected a map, found a list"),
        ("{}".to_owned(), "metadata: not there"),
        (
            r#"{"metadata":7}"#.to_owned(),
            "metadata: expected a map, found a number",
        ),
        (with_meta(""), "metadata.name: not there"),
        (with_meta(r#""name":"a""#), "metadata.uid: not there"),
        (
            with_meta(r#""name":7,"uid":"1""#),
            "metadata.name: expected a string, found a number",
        ),
        (
            with_meta(r#""name":"a","uid":"1","deletionTimestamp":"soon""#),
            "metadata.deletionTimestamp: \"soon\" is no date",
        ),
        (
            with_meta(r#""name":"a","uid":"1","finalizers":"x""#),
            "metadata.finalizers: expected a list, found a string",
        ),
        (
            with_meta(
                r#""name":"a","uid":"1","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n"}]"#,
            ),
            "metadata.ownerReferences[0].uid: not there",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"1"}}"#.to_owned(),
            "kind: expected Job, found Pod",
        ),
        (
            r#"{"apiVersion":"batch.volcano.sh/v1","kind":"Job","metadata":{"name":"a","uid":"1"}}"#
                .to_owned(),
            "apiVersion: expected one of group \"batch\", found batch.volcano.sh/v1",
        ),
    ] {
        assert_eq!(read(&text).map(|_| ()), Err(expected.to_owned()), "{text}");
    }
    let error = documents.read(Resource::Jobs, b"\xff").expect_err("no text");
    assert_eq!(error.to_string(), "not UTF-8");
    // Items of a list do not say their kind, and metadata alone says nothing else.
    let record = read(r#"{"metadata":{"name":"a","uid":"1"},"spec":{}}"#).expect("a job");
    assert_ne!(record.fields, kubegc_lifecycle::fields::Fields::Unread);
    let partial = r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a","uid":"1"},"spec":{}}"#;
    assert_eq!(
        read(partial).expect("metadata").fields,
        kubegc_lifecycle::fields::Fields::Unread
    );
}
