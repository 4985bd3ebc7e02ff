//! Patches: `patches.txt` has changes, the object before, and the patch of each form; and objects that are
//! replaced or refused.

use kubegc_controllers::{Documents, FieldChange, Form, Write};
use kubegc_core::{
    OwnerReference, PatchType, Preconditions,
    record::{Body, Condition, JobCounts, ObjectId, Resource, Taint},
};
use kubegc_fixtures::check_transcript;
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

use crate::common::{at, object};

const FORMS: [(&str, Form); 4] = [
    ("merge", Form::Patch(PatchType::Merge)),
    ("strategic", Form::Patch(PatchType::Strategic)),
    ("json", Form::Patch(PatchType::Json)),
    ("update", Form::Update),
];

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

/// The patch as text.
fn patch(form: Form, precondition: &Preconditions, changes: &[FieldChange], document: &Value) -> String {
    let write = write(form, precondition, changes);
    let patch = JsonDocuments::default().write(&write, document.to_string().as_bytes());
    match patch {
        Err(error) => format!("refused: {error}"),
        Ok(None) => "nothing".to_owned(),
        Ok(Some((patch_type, body))) => {
            let expected = match form {
                Form::Patch(patch_type) => patch_type,
                Form::Update => PatchType::Merge,
            };
            assert_eq!(patch_type, expected);
            String::from_utf8(body.to_vec()).expect("text")
        }
    }
}

fn document(body: Value) -> Value {
    object(Resource::Jobs, body)
}

fn taint(key: &str) -> Taint {
    Taint::new(key, "NoSchedule")
}

/// A change by its words.
fn change(text: &str) -> FieldChange {
    let words: Vec<&'static str> = text.split(' ').map(|word| &*word.to_owned().leak()).collect();
    let reference = |name: &&str| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: (*name).into(),
        uid: format!("u-{name}").as_str().into(),
        controller: None,
        block_owner_deletion: Some(true),
    };
    let condition = |name: &&str| match *name {
        "DisruptionTarget" => Condition {
            reason: "DeletionByPodGC".into(),
            message: "PodGC: node no longer exists".into(),
            last_transition_time: Some(at(0)),
            ..Condition::new("DisruptionTarget", "True")
        },
        "B" => Condition {
            observed_generation: 2,
            ..Condition::new("B", "True")
        },
        name => Condition::new(name, ""),
    };
    match &words[..] {
        ["phase", phase] => FieldChange::Phase((*phase).into()),
        ["message", message] => FieldChange::Message((*message).into()),
        ["job", "counts", "failed", failed] => FieldChange::JobCounts(Box::new(JobCounts {
            failed: failed.parse().expect("a number"),
            ..JobCounts::default()
        })),
        ["add", "finalizer", name] => FieldChange::AddFinalizer(name),
        ["remove", "finalizer", name] => FieldChange::RemoveFinalizer(name),
        ["spec", "finalizers", names @ ..] => {
            FieldChange::SpecFinalizers(names.iter().map(|name| (*name).into()).collect())
        }
        ["owners", names @ ..] => FieldChange::OwnerReferences(names.iter().map(reference).collect()),
        ["condition", name] => FieldChange::Condition(condition(name)),
        ["conditions", names @ ..] => FieldChange::Conditions(names.iter().map(condition).collect()),
        ["label", key, value] => FieldChange::Label {
            key,
            value: (*value).to_owned(),
        },
        ["annotation", key, value] => FieldChange::Annotation {
            key,
            value: (*value).to_owned(),
        },
        ["remove", "annotation", key] => FieldChange::RemoveAnnotation(key),
        ["remove", "claimRef"] => FieldChange::RemoveClaimRef,
        ["remove", "claimRef", "uid"] => FieldChange::RemoveClaimRefUid,
        ["add", "taint", key] => FieldChange::AddTaint(taint(key)),
        ["add", "taint", key, value] => FieldChange::AddTaint(Taint {
            value: (*value).into(),
            time_added: Some(at(0)),
            ..taint(key)
        }),
        ["remove", "taint", key] => FieldChange::RemoveTaint(taint(key)),
        ["remove", "active", uid] => FieldChange::RemoveActive((*uid).into()),
        ["remove", "secret", name] => FieldChange::RemoveSecretReference((*name).into()),
        words => panic!("{words:?}: no change"),
    }
}

/// An input is the preconditions, the changes, and the fields of the object; `null` removes those of the
/// metadata.
#[test]
fn each_change_in_each_form() {
    check_transcript("tests/records/patches.txt", |input| {
        let (first, body) = input.split_once('\n').expect("changes and an object");
        let mut precondition = Preconditions::default();
        let mut changes = Vec::new();
        for part in first.split("; ") {
            match part.split_once(' ') {
                Some(("uid", uid)) => precondition.uid = Some(uid.into()),
                Some(("version", version)) => precondition.resource_version = Some(version.into()),
                _ if part == "no change" => {}
                _ => changes.push(change(part)),
            }
        }
        let body: Value = serde_json::from_str(body).expect("JSON");
        let mut document = if body.is_object() { document(body) } else { body };
        if let Some(meta) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|_, value| !value.is_null());
        }
        let of_form = |(name, form)| (name, patch(form, &precondition, &changes, &document));
        let patches = FORMS.map(of_form);
        if patches.iter().all(|(_, patch)| *patch == patches[0].1) {
            return format!("all: {}", patches[0].1);
        }
        patches.map(|(name, patch)| format!("{name}: {patch}")).join("\n")
    });
}

#[test]
fn a_text_that_is_no_json_is_not_changed() {
    let write = write(Form::Update, &Preconditions::default(), &[change("phase Failed")]);
    let error = JsonDocuments::default().write(&write, b"{").expect_err("no JSON");
    assert!(error.to_string().starts_with("not valid JSON: EOF"), "{error}");
}

#[test]
fn documents_that_cannot_be_read_are_refused() {
    let documents = JsonDocuments::default();
    let read = |text: &[u8]| documents.read(Resource::Jobs, text);
    check_transcript("tests/records/unreadable.txt", |input| {
        match read(input.as_bytes()) {
            Ok(record) if *record.body == Body::Unread => "metadata alone".to_owned(),
            Ok(record) => format!("job {}", record.meta.name),
            Err(error) => error.to_string(),
        }
    });
    assert_eq!(read(b"\xff").expect_err("no text").to_string(), "not UTF-8");
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
