//! Laws: rendered records are read again, the order of files does not matter, and all forms of a patch do the
//! same.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_controllers::{Documents, FieldChange, Form, Write};
use kubegc_core::{
    Catalog, KubernetesVersion, ObjectMeta, OwnerReference, PatchType, Preconditions, Timestamp,
    record::{Body, Condition, ObjectId, Record, Resource},
};
use kubegc_sim::{ApiServer, Manifest, Settings};
use kubegc_snapshot::JsonDocuments;
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use crate::{
    common::{object, snapshot},
    fields::{inputs, places},
};

/// Any text, including characters that JSON escapes.
fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        select(vec![
            "",
            "a",
            "True",
            "secretRef",
            "\"\\\n\u{1}",
            "\u{e9}\u{1f600}",
            "?",
            "null",
            "7"
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
    ]
    .prop_map(Into::into)
}

/// A date of whole seconds, as conditions have it.
fn date() -> impl Strategy<Value = Timestamp> {
    (-9_000_000_000_i64..9_000_000_000).prop_map(Timestamp::from_secs)
}

/// A resource and a body of it: one of `fields.txt` with other values.
fn bodies() -> impl Strategy<Value = (Resource, Value)> {
    let inputs: Vec<_> = inputs().map(|(resource, body, _)| (resource, body)).collect();
    let any_text = || {
        let date = date().prop_map(|date| date.to_string());
        prop_oneof![3 => text().prop_map(|text| text.to_string()), 1 => date]
    };
    let number = || prop_oneof![-1_i64..3, any::<i32>().prop_map(i64::from), any::<i64>()];
    let other = prop_oneof![
        any_text().prop_map(Value::from),
        number().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
    ];
    let change = (any::<Index>(), any_text(), number(), option::weighted(0.3, other));
    (select(inputs), vec(change, 0..6)).prop_map(|((resource, mut body), changes)| {
        for (at, text, number, other) in changes {
            let places = places(&body, "", "");
            let Some((pointer, _)) = (!places.is_empty()).then(|| at.get(&places)) else {
                continue;
            };
            let place = body.pointer_mut(pointer).expect("it is there");
            *place = match (other, &*place) {
                (Some(other), _) => other,
                (None, Value::String(_)) => text.into(),
                (None, Value::Number(_)) => number.into(),
                (None, place) => place.clone(),
            };
        }
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        // The containers of a pod are read only while it is being deleted.
        body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
        (resource, body)
    })
}

/// All kinds with fields.
fn resources() -> Vec<Resource> {
    let all = Resource::ALL.iter().copied();
    let has_fields = |resource: &Resource| {
        !matches!(
            resource,
            Resource::EndpointSlices
                | Resource::IpAddresses
                | Resource::PodCertificateRequests
                | Resource::PodGroups
                | Resource::VolumeAttributesClasses
        )
    };
    all.filter(has_fields).collect()
}

fn fields(body: &Body) -> Value {
    Value::Object(JsonDocuments::fields(body))
}

fn read(resource: Resource, document: &Value) -> Body {
    let documents = JsonDocuments::default();
    let read = documents.read(resource, document.to_string().as_bytes());
    Body::clone(&read.expect("good metadata").body)
}

/// Whether no field of a body is known.
fn is_all_unread(body: &Body) -> bool {
    let text = format!("{body:?}");
    text.contains("Unread") && !text.contains("Known")
}

#[test]
fn a_simulation_reads_no_more_than_the_dump() {
    let server = ApiServer::new(
        KubernetesVersion::LATEST,
        Catalog::builtin(KubernetesVersion::LATEST),
    );
    for resource in resources() {
        let document = object(resource, fields(&Body::Unread));
        let unread = read(resource, &document);
        assert!(is_all_unread(&unread), "{resource:?}: {unread:?}");
        let mut server = server.clone();
        let manifest = Manifest::read(object(resource, fields(&unread))).expect("an object");
        let kind = server
            .catalog()
            .mapping(&manifest.api_version, &manifest.kind)
            .expect("served");
        let (namespace, name) = (
            manifest.object.meta.namespace.clone(),
            manifest.object.meta.name.clone(),
        );
        server.insert(kind, manifest.object).expect("stored");
        let stored = server.object(kind, &namespace, &name).expect("there");
        let served = stored.to_json(&server.catalog()[kind]);
        assert_eq!(read(resource, &served), unread, "{resource:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rendered_records_survive_a_round_trip((resource, body) in bodies()) {
        let document = object(resource, body);
        let of_dump = |document: &Value| {
            let record = snapshot(&document.to_string()).object(0).expect("one object").record();
            Body::clone(&record.body)
        };
        let of_server = |document: &Value| read(resource, document);
        let ways: [&dyn Fn(&Value) -> Body; 2] = [&of_server, &of_dump];
        for read in ways {
            let expected = read(&document);
            let mut rendered = object(resource, fields(&expected));
            rendered["metadata"]["deletionTimestamp"] = document["metadata"]["deletionTimestamp"].clone();
            let again = read(&rendered);
            // A body without a kind is rendered with the fields of all kinds.
            let is_same = again == expected || expected == Body::Unread && is_all_unread(&again);
            prop_assert!(is_same, "{}: {:?} instead of {:?}", rendered, again, expected);
        }
    }

    #[test]
    fn random_documents_do_not_panic((resource, body) in bodies(), at in any::<Index>(), noise in any::<u8>()) {
        let mut text = object(resource, body).to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = noise;
        let documents = JsonDocuments::default();
        let write = write(Form::Update, Preconditions::default(), vec![FieldChange::AddFinalizer("x")]);
        let _may_fail = (documents.read(resource, &text), documents.write(&write, &text), documents.replace(&write, &text));
    }
}

fn write(form: Form, precondition: Preconditions, changes: Vec<FieldChange>) -> Write {
    Write {
        object: ObjectId::new(
            Resource::PersistentVolumeClaims,
            &ObjectMeta::new("shop", "a", "u-a"),
        ),
        subresource: "",
        form,
        precondition,
        changes,
    }
}

/// Objects of several kinds, some of them twice, at other versions, and flawed.
fn documents() -> Vec<String> {
    let mut all = Vec::new();
    for (at, resource) in resources().into_iter().enumerate() {
        let base = object(resource, fields(&Body::Unread));
        let mut newer = object(
            resource,
            json!({
                "spec": { "nodeName": "n", "replicas": 2, "taints": [{ "key": "k" }], "volumeName": "v" },
                "status": { "phase": "Failed", "conditions": [{ "type": "Ready", "status": "True" }] },
                "type": "t", "data": { "since": "s" }, "secrets": [{ "name": "s" }],
            }),
        );
        newer["metadata"]["resourceVersion"] = (7 + at % 3).to_string().into();
        let mut flawed = newer.clone();
        flawed["metadata"]["name"] = "b".into();
        flawed["metadata"]["uid"] = "u-b".into();
        flawed["spec"] = json!({ "nodeName": 7, "taints": 7, "replicas": "x", "claimRef": 7, "volumeName": 7, "ttlSecondsAfterFinished": "x" });
        flawed["data"] = 7.into();
        all.extend([base, newer, flawed].map(|document| document.to_string()));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_order_of_files_changes_no_record(order in Just(documents()).prop_shuffle(), cut in 1_usize..60) {
        let records = |parts: &[&[String]]| {
            let mut reader = kubegc_snapshot::Reader::new(KubernetesVersion::LATEST);
            for part in parts {
                reader.read("f", part.join("\n").as_bytes()).expect("documents");
            }
            let snapshot = reader.finish().expect("a snapshot");
            let records: Vec<Record> = snapshot.objects().map(|object| object.record()).collect();
            (records, snapshot.finding_counts)
        };
        let (one, two) = order.split_at(cut);
        prop_assert_eq!(records(&[one, two]), records(&[&documents()]));
    }
}

static KEYS: [&str; 3] = ["example.com/a", "example.com/b", "example.com/c"];

/// An object with lists of all sorts, and changes of its metadata, or of its status.
fn changed() -> impl Strategy<Value = (Value, Vec<FieldChange>, bool)> {
    let entry = |name: &&str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("u-{name}"), "controller": false });
    let reference = |name: &str| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.into(),
        uid: format!("u-{name}").as_str().into(),
        controller: Some(false),
        block_owner_deletion: None,
    };
    let some = || prop::sample::subsequence(KEYS.to_vec(), 0..=3).prop_shuffle();
    let document = (some(), some(), some(), some(), some(), any::<bool>()).prop_map(
        move |(finalizers, owners, labels, annotations, conditions, is_bare)| {
            if is_bare {
                return object(Resource::PersistentVolumeClaims, json!({ "spec": {} }));
            }
            let owners: Vec<Value> = owners.iter().map(entry).collect();
            let pairs = |keys: Vec<&'static str>| keys.into_iter().map(|key| (key, "old")).collect::<BTreeMap<_, _>>();
            let conditions: Vec<Value> = conditions.iter().map(|kind| json!({ "type": kind, "status": "False", "extra": "kept", "reason": "Old" })).collect();
            object(Resource::PersistentVolumeClaims, json!({
                "metadata": { "finalizers": finalizers, "ownerReferences": owners, "labels": pairs(labels), "annotations": pairs(annotations) },
                "spec": { "volumeName": "pv" }, "status": { "phase": "Bound", "conditions": conditions },
            }))
        },
    );
    // No controller changes one list twice: a strategic patch could not express every order that this may
    // leave.
    let finalizer = prop_oneof![
        select(&KEYS[..]).prop_map(FieldChange::AddFinalizer),
        select(&KEYS[..]).prop_map(FieldChange::RemoveFinalizer),
    ];
    let owners = some()
        .prop_map(move |names| FieldChange::OwnerReferences(names.into_iter().map(reference).collect()));
    let pair = || (select(&KEYS[..]), select(vec!["old", "new"]));
    let text_change = prop_oneof![
        pair().prop_map(|(key, value)| FieldChange::Label {
            key,
            value: value.to_owned()
        }),
        pair().prop_map(|(key, value)| FieldChange::Annotation {
            key,
            value: value.to_owned()
        }),
        select(&KEYS[..]).prop_map(FieldChange::RemoveAnnotation),
    ];
    let of_meta = (option::of(finalizer), option::of(owners), vec(text_change, 0..4)).prop_map(
        |(finalizer, owners, texts)| {
            finalizer
                .into_iter()
                .chain(owners)
                .chain(texts)
                .collect::<Vec<_>>()
        },
    );
    let times = (option::of(date()), option::of(date()), 0_i64..3);
    let condition = (select(&KEYS[..]), text(), text(), text(), times).prop_map(
        |(condition_type, status, reason, message, times)| Condition {
            condition_type: condition_type.into(),
            status,
            reason,
            message,
            last_transition_time: times.0,
            last_update_time: times.1,
            observed_generation: times.2,
        },
    );
    let of_status = prop_oneof![
        select(vec!["Bound", "Lost"]).prop_map(|phase| FieldChange::Phase(phase.into())),
        condition.prop_map(FieldChange::Condition),
    ];
    let changes = prop_oneof![
        of_meta.prop_map(|changes| (changes, false)),
        vec(of_status, 0..4).prop_map(|changes| (changes, true)),
    ];
    (document, changes).prop_map(|(document, (changes, is_status))| (document, changes, is_status))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn all_forms_of_a_patch_do_the_same((document, changes, is_status) in changed()) {
        let settings = Settings { namespaces_must_exist: false, ..Settings::default() };
        let server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
        let mut server = server.with_settings(settings);
        let manifest = Manifest::read(document).expect("an object");
        let kind = server.catalog().mapping("v1", "PersistentVolumeClaim").expect("built in");
        server.insert(kind, manifest.object).expect("stored");
        let documents = JsonDocuments::default();
        let whole = |server: &ApiServer| {
            let stored = server.object(kind, "shop", "a").expect("there");
            stored.to_json(&server.catalog()[kind])
        };
        let send = |server: &mut ApiServer, form: PatchType, body: &[u8]| {
            let form = form.content_type();
            if is_status {
                server.patch_subresource(kind, "shop", "a", "status", form, body)
            } else {
                server.patch(kind, "shop", "a", form, body)
            }
        };
        let expect = Preconditions::uid("u-a".into());
        let mut outcomes = Vec::new();
        // Strategic patches are sent of statuses only.
        let strategic = is_status.then_some(Form::Patch(PatchType::Strategic));
        let others = [Form::Update, Form::Patch(PatchType::Merge), Form::Patch(PatchType::Json)];
        for form in others.into_iter().chain(strategic) {
            let mut server = server.clone();
            let text = whole(&server).to_string();
            let write = write(form, expect.clone(), changes.clone());
            let patch = documents.write(&write, text.as_bytes()).expect("good lists");
            if let Some((patch_type, patch)) = &patch {
                let response = send(&mut server, *patch_type, patch);
                prop_assert_eq!(response.code, 200, "{:?} {}", form, String::from_utf8_lossy(patch));
            }
            let mut after = whole(&server);
            let again = documents.write(&write, after.to_string().as_bytes()).expect("good lists");
            prop_assert_eq!(again, None, "{:?}: nothing is left to change", form);
            after["metadata"]["resourceVersion"] = Value::Null;
            after["metadata"]["managedFields"] = Value::Null;
            // The server chooses the place of a new entry.
            for (part, list) in [("metadata", "finalizers"), ("metadata", "ownerReferences"), ("status", "conditions")] {
                if let Some(entries) = after[part][list].as_array_mut() {
                    entries.sort_by_key(ToString::to_string);
                }
            }
            outcomes.push((form, after));
            // An object that has changed is not written.
            if let (Some((patch_type, patch)), Form::Update) = (&patch, form) {
                let bump = br#"{"metadata":{"labels":{"bumped":"yes"}}}"#;
                let mut other = server.clone();
                prop_assert_eq!(other.patch(kind, "shop", "a", PatchType::Merge.content_type(), bump).code, 200);
                prop_assert_eq!(send(&mut other, *patch_type, patch).code, 409);
            }
        }
        let (_, first) = &outcomes[0];
        for (form, outcome) in &outcomes {
            prop_assert_eq!(outcome, first, "{:?} {:?}", form, changes);
        }
    }
}
