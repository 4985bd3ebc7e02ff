//! Patches: the form of each change, its preconditions, and refused changes.

use kubegc_controllers::{Documents, FieldChange, Form, Write};
use kubegc_core::{
    OwnerReference, PatchType, Preconditions,
    record::{Body, Condition, JobCounts, ObjectId, Resource, Taint},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

use crate::common::{at, object};

const MERGE: Form = Form::Patch(PatchType::Merge);
const STRATEGIC: Form = Form::Patch(PatchType::Strategic);
const JSON: Form = Form::Patch(PatchType::Json);

/// A write of the object of [`document`].
fn write(form: Form, precondition: &Preconditions, changes: &[FieldChange]) -> Write {
    Write {
        object: ObjectId {
            resource: Resource::Jobs,
            namespace: "shop".into(),
            name: "a".into(),
            uid: "u-a".into(),
        },
        subresource: "",
        form,
        precondition: precondition.clone(),
        changes: changes.to_vec(),
    }
}

/// The patch; null where nothing changes.
fn patch(
    form: Form,
    precondition: &Preconditions,
    changes: &[FieldChange],
    document: &Value,
) -> Result<Value, String> {
    let write = write(form, precondition, changes);
    let patch = JsonDocuments::default().write(&write, document.to_string().as_bytes());
    let Some((patch_type, body)) = patch.map_err(|error| error.to_string())? else {
        return Ok(Value::Null);
    };
    let expected = match form {
        Form::Patch(patch_type) => patch_type,
        Form::Update => PatchType::Merge,
    };
    assert_eq!(patch_type, expected);
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
    Taint::new(key, "NoSchedule")
}

fn disruption() -> Condition {
    Condition {
        reason: "DeletionByPodGC".into(),
        message: "PodGC: node no longer exists".into(),
        last_transition_time: Some(at(0)),
        ..Condition::new("DisruptionTarget", "True")
    }
}

/// A change, the object before, and the part of a merge, a strategic and a JSON patch that makes it,
/// preconditions aside.
fn cases() -> Vec<(FieldChange, Value, [Value; 3])> {
    let entry = |name: &str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("u-{name}"), "blockOwnerDeletion": true });
    let add = |path: &str, value: Value| json!([{ "op": "add", "path": path, "value": value }]);
    let at_status = |key: &str, value: Value| json!({ "status": { (key): value } });
    let counted = JobCounts {
        failed: 2,
        ..JobCounts::default()
    };
    let uncounted =
        json!({ "status": { "active": 1, "failed": 1, "uncountedTerminatedPods": { "failed": ["u-1"] } } });
    let counted_status = json!({ "active": 1, "failed": 2, "uncountedTerminatedPods": {} });
    let removed = json!({ "status": { "failed": 2, "uncountedTerminatedPods": { "failed": null } } });
    vec![
        (
            FieldChange::JobCounts(Box::new(counted)),
            uncounted,
            [removed.clone(), removed, add("/status", counted_status)],
        ),
        (
            FieldChange::Phase("Failed".into()),
            json!({ "status": { "phase": "Running" } }),
            [
                at_status("phase", "Failed".into()),
                at_status("phase", "Failed".into()),
                add("/status/phase", "Failed".into()),
            ],
        ),
        (
            FieldChange::Message("m".into()),
            json!({}),
            [
                at_status("message", "m".into()),
                at_status("message", "m".into()),
                json!([{ "op": "add", "path": "/status", "value": {} }, { "op": "add", "path": "/status/message", "value": "m" }]),
            ],
        ),
        (
            FieldChange::Condition(disruption()),
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
            FieldChange::Condition(disruption()),
            json!({ "status": { "conditions": [
                { "type": "DisruptionTarget", "status": "False", "lastProbeTime": "x", "observedGeneration": 3, "message": "old", "extra": 1 },
                { "type": "Ready", "status": "True" },
            ] } }),
            [
                at_status(
                    "conditions",
                    json!([with(condition_json(), "extra", json!(1)), { "type": "Ready", "status": "True" }]),
                ),
                at_status(
                    "conditions",
                    json!([with(
                        with(condition_json(), "lastProbeTime", Value::Null),
                        "observedGeneration",
                        Value::Null
                    )]),
                ),
                add(
                    "/status/conditions",
                    json!([with(condition_json(), "extra", json!(1)), { "type": "Ready", "status": "True" }]),
                ),
            ],
        ),
        (
            FieldChange::AddFinalizer("c"),
            json!({ "metadata": { "finalizers": ["a", "b"] } }),
            [
                json!({ "metadata": { "finalizers": ["a", "b", "c"] } }),
                json!({ "metadata": { "finalizers": ["c"] } }),
                add("/metadata/finalizers", json!(["a", "b", "c"])),
            ],
        ),
        (
            FieldChange::AddFinalizer("c"),
            json!({}),
            [
                json!({ "metadata": { "finalizers": ["c"] } }),
                json!({ "metadata": { "finalizers": ["c"] } }),
                add("/metadata/finalizers", json!(["c"])),
            ],
        ),
        (
            FieldChange::RemoveFinalizer("b"),
            json!({ "metadata": { "finalizers": ["a", "b", "c"] } }),
            [
                json!({ "metadata": { "finalizers": ["a", "c"] } }),
                json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["b"] } }),
                add("/metadata/finalizers", json!(["a", "c"])),
            ],
        ),
        (
            FieldChange::OwnerReferences(vec![reference("b"), reference("c")]),
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
            FieldChange::OwnerReferences(vec![reference("b"), reference("a")]),
            json!({ "metadata": { "ownerReferences": [entry("a"), entry("b")] } }),
            [
                json!({ "metadata": { "ownerReferences": [entry("b"), entry("a")] } }),
                json!({ "metadata": { "ownerReferences": [{ "$patch": "replace" }, entry("b"), entry("a")] } }),
                add("/metadata/ownerReferences", json!([entry("b"), entry("a")])),
            ],
        ),
        (
            FieldChange::SpecFinalizers(vec!["b".into()]),
            json!({ "spec": { "finalizers": ["kubernetes", "b"] } }),
            [
                json!({ "spec": { "finalizers": ["b"] } }),
                json!({ "spec": { "finalizers": ["b"] } }),
                add("/spec/finalizers", json!(["b"])),
            ],
        ),
        (
            FieldChange::Conditions(vec![
                Condition {
                    observed_generation: 2,
                    ..Condition::new("B", "True")
                },
                Condition::new("C", ""),
            ]),
            json!({ "status": { "conditions": [{ "type": "A" }, { "type": "B", "status": "False", "extra": 1 }] } }),
            [
                at_status(
                    "conditions",
                    json!([{ "type": "B", "status": "True", "observedGeneration": 2, "extra": 1 }, { "type": "C" }]),
                ),
                at_status(
                    "conditions",
                    json!([{ "type": "B", "status": "True", "observedGeneration": 2 }, { "type": "C" }, { "$patch": "delete", "type": "A" }]),
                ),
                add(
                    "/status/conditions",
                    json!([{ "type": "B", "status": "True", "observedGeneration": 2, "extra": 1 }, { "type": "C" }]),
                ),
            ],
        ),
        (
            FieldChange::Label {
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
            FieldChange::Annotation {
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
            FieldChange::RemoveAnnotation("a"),
            json!({ "metadata": { "annotations": { "a": "x", "b": "y" } } }),
            [
                json!({ "metadata": { "annotations": { "a": null } } }),
                json!({ "metadata": { "annotations": { "a": null } } }),
                json!([{ "op": "remove", "path": "/metadata/annotations/a" }]),
            ],
        ),
        (
            FieldChange::RemoveClaimRef,
            json!({ "spec": { "claimRef": { "name": "a" } } }),
            [
                json!({ "spec": { "claimRef": null } }),
                json!({ "spec": { "claimRef": null } }),
                json!([{ "op": "remove", "path": "/spec/claimRef" }]),
            ],
        ),
        (
            FieldChange::RemoveClaimRefUid,
            json!({ "spec": { "claimRef": { "name": "a", "uid": "u" } } }),
            [
                json!({ "spec": { "claimRef": { "uid": null } } }),
                json!({ "spec": { "claimRef": { "uid": null } } }),
                json!([{ "op": "remove", "path": "/spec/claimRef/uid" }]),
            ],
        ),
        (
            FieldChange::AddTaint(taint("b")),
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
            FieldChange::AddTaint(Taint {
                value: "y".into(),
                time_added: Some(at(0)),
                ..taint("b")
            }),
            json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule", "value": "x" }, { "key": "a" }] } }),
            {
                let added = json!({ "key": "b", "effect": "NoSchedule", "value": "y", "timeAdded": "2026-03-01T12:00:00Z" });
                let taints = json!([added, { "key": "a" }]);
                [
                    json!({ "spec": { "taints": taints } }),
                    json!({ "spec": { "taints": taints } }),
                    add("/spec/taints", taints),
                ]
            },
        ),
        (
            FieldChange::RemoveTaint(taint("b")),
            json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule", "value": "x" }, { "key": "b", "effect": "NoExecute" }] } }),
            [
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }),
                json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }),
                add("/spec/taints", json!([{ "key": "b", "effect": "NoExecute" }])),
            ],
        ),
        (
            FieldChange::RemoveActive("U-1".into()),
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

/// A patch without its preconditions, and the preconditions.
fn apart(mut patch: Value) -> (Value, Vec<(String, Value)>) {
    let mut sent = Vec::new();
    match &mut patch {
        Value::Array(operations) => operations.retain(|operation| {
            let path = operation["path"].as_str().unwrap_or_default();
            let key = path.strip_prefix("/metadata/").unwrap_or_default();
            let is_precondition = matches!(key, "uid" | "resourceVersion");
            sent.extend(is_precondition.then(|| (key.to_owned(), operation["value"].clone())));
            !is_precondition
        }),
        Value::Object(patch) => {
            let meta = patch.get_mut("metadata").and_then(Value::as_object_mut);
            let is_bare = meta.is_some_and(|meta| {
                for key in ["resourceVersion", "uid"] {
                    sent.extend(meta.remove(key).map(|value| (key.to_owned(), value)));
                }
                meta.is_empty()
            });
            if is_bare {
                patch.remove("metadata");
            }
        }
        _ => {}
    }
    sent.sort_by(|a, b| a.0.cmp(&b.0));
    (patch, sent)
}

#[test]
fn each_change_in_each_form() {
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
            (Form::Update, &merge),
        ] {
            let (changed, sent) = apart(patch(form, &nothing, &changes, &document).expect("a patch"));
            assert_eq!(changed, *expected, "{form:?} {changes:?}");
            // A list that is written as a whole needs the version that was read.
            let list_is_whole = match form {
                Form::Update => {
                    assert_eq!(sent, both, "{changes:?}");
                    continue;
                }
                STRATEGIC => {
                    changed.to_string().contains("replace")
                        || changed.pointer("/spec/taints").is_some()
                        || changed.pointer("/spec/finalizers").is_some()
                        || changed.pointer("/status/active").is_some()
                }
                _ => merge.to_string().contains('['),
            };
            let expected = if list_is_whole {
                vec![version.clone()]
            } else {
                vec![]
            };
            assert_eq!(sent, expected, "{form:?} {changes:?}");
        }
    }
}

#[test]
fn changes_without_effect_make_no_patch() {
    let expect = Preconditions::uid("u-a".into());
    let entry = json!({ "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u-a", "blockOwnerDeletion": true, "future": 1 });
    let whole = document(json!({
        "metadata": { "finalizers": ["a"], "ownerReferences": [entry], "labels": { "l": "1" }, "annotations": { "n": "1" } },
        "spec": { "taints": [{ "key": "b", "effect": "NoSchedule", "extra": "x" }], "claimRef": { "uid": null }, "finalizers": ["kubernetes"] },
        "status": { "phase": "Failed", "message": "m", "conditions": [condition_json()], "active": [{ "uid": "1" }] },
    }));
    let without_fields = document(json!({}));
    for (document, change) in [
        (&whole, FieldChange::Phase("Failed".into())),
        (&whole, FieldChange::Message("m".into())),
        (&whole, FieldChange::Condition(disruption())),
        (&whole, FieldChange::AddFinalizer("a")),
        (&whole, FieldChange::RemoveFinalizer("b")),
        (&whole, FieldChange::OwnerReferences(vec![reference("a")])),
        (&whole, FieldChange::Conditions(vec![disruption()])),
        (&whole, FieldChange::SpecFinalizers(vec!["kubernetes".into()])),
        (
            &whole,
            FieldChange::Label {
                key: "l",
                value: "1".into(),
            },
        ),
        (
            &whole,
            FieldChange::Annotation {
                key: "n",
                value: "1".into(),
            },
        ),
        (&whole, FieldChange::RemoveAnnotation("o")),
        (&whole, FieldChange::RemoveClaimRefUid),
        (&whole, FieldChange::AddTaint(taint("b"))),
        (&whole, FieldChange::RemoveTaint(taint("c"))),
        (&whole, FieldChange::RemoveActive("2".into())),
        (&without_fields, FieldChange::RemoveFinalizer("b")),
        (&without_fields, FieldChange::OwnerReferences(vec![])),
        (&without_fields, FieldChange::Conditions(vec![])),
        (&without_fields, FieldChange::SpecFinalizers(vec![])),
        (&without_fields, FieldChange::RemoveAnnotation("o")),
        (&without_fields, FieldChange::RemoveClaimRef),
        (&without_fields, FieldChange::RemoveClaimRefUid),
        (&without_fields, FieldChange::RemoveTaint(taint("c"))),
        (&without_fields, FieldChange::RemoveActive("2".into())),
    ] {
        for form in [MERGE, STRATEGIC, JSON, Form::Update] {
            let changes = [change.clone()];
            assert_eq!(
                patch(form, &expect, &changes, document),
                Ok(Value::Null),
                "{form:?} {changes:?}"
            );
        }
    }
    // Two changes that cancel out.
    let changes = [FieldChange::AddFinalizer("x"), FieldChange::RemoveFinalizer("x")];
    assert_eq!(patch(MERGE, &expect, &changes, &whole), Ok(Value::Null));
    assert_eq!(patch(MERGE, &expect, &[], &whole), Ok(Value::Null));
}

#[test]
fn preconditions_are_in_the_metadata_of_the_patch() {
    let expect = |uid: Option<&str>, version: Option<&str>| Preconditions {
        uid: uid.map(Into::into),
        resource_version: version.map(Into::into),
    };
    let change = [FieldChange::Phase("Failed".into())];
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
            let (_, sent) = apart(patch(form, &expect, &change, &document).expect("a patch"));
            assert_eq!(sent, expected, "{form:?}");
        }
    }
}

#[test]
fn several_changes_make_one_patch() {
    let changes = [
        FieldChange::RemoveClaimRef,
        FieldChange::RemoveAnnotation("pv.kubernetes.io/bound-by-controller"),
        FieldChange::AddFinalizer("b"),
        FieldChange::RemoveFinalizer("a"),
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
        patch(Form::Update, &Preconditions::default(), &changes, &document),
        Ok(expected)
    );
}

#[test]
fn a_removed_map_covers_its_fields() {
    let document = document(json!({ "spec": { "claimRef": { "name": "a", "uid": "u" } } }));
    let changes = [FieldChange::RemoveClaimRefUid, FieldChange::RemoveClaimRef];
    let gone = json!({ "spec": { "claimRef": null } });
    let nothing = Preconditions::default();
    assert_eq!(patch(MERGE, &nothing, &changes, &document), Ok(gone.clone()));
    assert_eq!(patch(STRATEGIC, &nothing, &changes, &document), Ok(gone));
    let removed = json!([{ "op": "remove", "path": "/spec/claimRef" }]);
    assert_eq!(patch(JSON, &nothing, &changes, &document), Ok(removed));
}

#[test]
fn other_objects_and_odd_fields_are_refused() {
    let nothing = Preconditions::default();
    let phase = || vec![FieldChange::Phase("Failed".into())];
    let without = |key: &str| {
        let mut document = document(json!({}));
        document["metadata"].as_object_mut().expect("a map").remove(key);
        document
    };
    let version = Preconditions {
        resource_version: Some("6".into()),
        ..Preconditions::default()
    };
    let finalizer = || vec![FieldChange::AddFinalizer("a")];
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
            Form::Update,
            nothing.clone(),
            phase(),
            without("resourceVersion"),
            "metadata.resourceVersion: missing, so the patch has no precondition",
        ),
        (
            Form::Update,
            nothing.clone(),
            phase(),
            without("uid"),
            "metadata.uid: missing, so the patch has no precondition",
        ),
        (
            MERGE,
            nothing.clone(),
            finalizer(),
            without("resourceVersion"),
            "metadata.resourceVersion: missing, so the patch has no precondition",
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
            vec![FieldChange::RemoveFinalizer("a")],
            document(json!({ "metadata": { "finalizers": "a" } })),
            "metadata.finalizers: expected a list, found a string",
        ),
        (
            MERGE,
            nothing.clone(),
            vec![FieldChange::RemoveClaimRefUid],
            document(json!({ "spec": { "claimRef": "a" } })),
            "spec.claimRef: expected a map, found a string",
        ),
        (
            MERGE,
            nothing.clone(),
            vec![FieldChange::RemoveTaint(taint("a"))],
            document(json!({ "spec": [] })),
            "spec: expected a map, found a list",
        ),
        (
            STRATEGIC,
            nothing.clone(),
            finalizer(),
            document(json!({ "metadata": { "finalizers": ["b", "b"] } })),
            "metadata.finalizers: a strategic patch cannot express this change of the list",
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
    let write = write(MERGE, &nothing, &phase());
    let error = documents.write(&write, b"{").expect_err("no JSON");
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
        ("{}".to_owned(), "metadata: missing"),
        (
            r#"{"metadata":7}"#.to_owned(),
            "metadata: expected a map, found a number",
        ),
        (with_meta(""), "metadata.name: missing"),
        (with_meta(r#""name":"a""#), "metadata.uid: missing"),
        (
            with_meta(r#""name":7,"uid":"1""#),
            "metadata.name: expected a string, found a number",
        ),
        (
            with_meta(r#""name":"a","uid":"1","deletionTimestamp":"soon""#),
            "metadata.deletionTimestamp: \"soon\" is not a date",
        ),
        (
            with_meta(r#""name":"a","uid":"1","finalizers":"x""#),
            "metadata.finalizers: expected a list, found a string",
        ),
        (
            with_meta(
                r#""name":"a","uid":"1","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n"}]"#,
            ),
            "metadata.ownerReferences[0].uid: missing",
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
    // Items of a list have no kind, and metadata has no body.
    let record = read(r#"{"metadata":{"name":"a","uid":"1"},"spec":{}}"#).expect("a job");
    assert!(record.job().is_some());
    let partial = r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a","uid":"1"},"spec":{}}"#;
    assert_eq!(*read(partial).expect("metadata").body, Body::Unread);
}

/// The whole object with the changes of a write.
fn replace(precondition: &Preconditions, change: FieldChange, document: &Value) -> Result<Value, String> {
    let write = write(Form::Update, precondition, &[change]);
    let body = JsonDocuments::default().replace(&write, document.to_string().as_bytes());
    let body = body.map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn objects_are_replaced_whole() {
    let namespace = document(json!({
        "spec": { "finalizers": ["kubernetes", "example.com/hold"], "future": 1 },
        "status": { "phase": "Active", "conditions": [{ "type": "Odd", "status": "Perhaps", "extra": 1 }] },
    }));
    let expect = Preconditions {
        uid: Some("u-a".into()),
        resource_version: Some("5".into()),
    };
    for (change, path, expected) in [
        (
            FieldChange::Phase("Terminating".into()),
            "/status/phase",
            json!("Terminating"),
        ),
        (
            FieldChange::SpecFinalizers(vec!["example.com/hold".into()]),
            "/spec/finalizers",
            json!(["example.com/hold"]),
        ),
        (
            FieldChange::Conditions(vec![
                Condition::new("Odd", "False"),
                Condition {
                    last_transition_time: Some(at(9)),
                    ..Condition::new("New", "Unknown")
                },
            ]),
            "/status/conditions",
            json!([
                { "type": "Odd", "status": "False", "extra": 1 },
                { "type": "New", "status": "Unknown", "lastTransitionTime": "2026-03-01T12:00:09Z" },
            ]),
        ),
    ] {
        // A version other than the document's is sent to the server, which responds with a conflict.
        let mut replaced = replace(&expect, change, &namespace).expect("it is the object");
        assert_eq!(replaced.pointer(path), Some(&expected));
        let mut before = namespace.clone();
        before["metadata"]["resourceVersion"] = "5".into();
        for object in [&mut replaced, &mut before] {
            *object.pointer_mut(path).expect("it was there") = Value::Null;
        }
        assert_eq!(replaced, before, "nothing else changes at {path}");
    }
    let phase = || FieldChange::Phase("Terminating".into());
    let replaced = replace(&Preconditions::default(), phase(), &document(json!({}))).expect("an object");
    assert_eq!(
        (
            &replaced["status"]["phase"],
            &replaced["metadata"]["resourceVersion"]
        ),
        (&json!("Terminating"), &json!("7"))
    );
    let other = Preconditions::uid("u-b".into());
    assert_eq!(
        replace(&other, phase(), &namespace),
        Err("metadata.uid: expected u-b, found u-a".to_owned())
    );
}
