//! Requests: their texts, checks and effects on records.

use std::sync::Arc;

use kubegc_controllers::{EventRequest, FieldChange, Form, Key, Operation, Request, Write, preconditions};
use kubegc_core::{
    ApiResource, DeleteOptions, ObjectMeta, PatchType, Preconditions, Scope, StoreError,
    record::{ObjectId, Resource},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

use crate::common::record;

fn object() -> ObjectId {
    ObjectId::new(Resource::Jobs, &ObjectMeta::new("shop", "report", "u1"))
}

fn write(subresource: &'static str, form: Form, precondition: Preconditions) -> Write {
    Write {
        object: object(),
        subresource,
        form,
        precondition,
        changes: Vec::new(),
    }
}

#[test]
fn requests_have_texts_objects_and_effects() {
    let options = DeleteOptions::default;
    let widgets = Arc::new(ApiResource::new(
        "example.com/v1",
        "Widget",
        "widgets",
        Scope::Namespaced,
    ));
    let namespace: Arc<str> = "shop".into();
    let event = EventRequest {
        object: object(),
        is_warning: false,
        reason: "SuccessfulDelete".into(),
        message: "deleted".to_owned(),
    };
    let plain = |subresource, form| Request::Write(write(subresource, form, Preconditions::default()));
    let requests = [
        Request::Get {
            resource: Resource::Jobs,
            key: Key::new("shop", "report"),
        },
        Request::Get {
            resource: Resource::Nodes,
            key: Key::cluster("n1"),
        },
        Request::List {
            resource: Resource::Pods,
            namespace: namespace.clone(),
        },
        Request::Delete {
            object: object(),
            options: options(),
        },
        plain("", Form::Update),
        plain("status", Form::Patch(PatchType::Merge)),
        Request::Event(event),
        Request::FindPlugin {
            volume: object(),
            operation: Operation::RecycleVolume,
        },
        Request::QueryGuard { volume: object() },
        Request::Operate {
            volume: object(),
            operation: Operation::DeleteVolume,
        },
        Request::QueryCloud {
            node: object(),
            provider_id: "".into(),
        },
        Request::Discover,
        Request::ListContent {
            resource: Arc::clone(&widgets),
            namespace: namespace.clone(),
        },
        Request::DeleteCollection {
            resource: Arc::clone(&widgets),
            namespace: namespace.clone(),
            options: options(),
        },
        Request::DeleteContent {
            resource: Arc::clone(&widgets),
            key: Key::new(namespace, "report"),
            options: options(),
        },
    ];
    let line = |request: &Request| {
        let kind = match (request.is_write(), request.is_deletion()) {
            (true, true) => "delete",
            (true, false) => "write",
            (false, false) => "read",
            (false, true) => panic!("{request} deletes without writing"),
        };
        let has_object = request.object().is_some_and(|found| *found == object());
        format!("{kind}, {has_object}: {request}\n")
    };
    let expected = "\
read, false: get job.batch/report -n shop
read, false: get node/n1
read, false: list pods -n shop
delete, true: delete job.batch/report -n shop
write, true: update job.batch/report -n shop
write, true: patch status of job.batch/report -n shop
write, true: record event SuccessfulDelete for job.batch/report -n shop: deleted
read, true: find the plugin to recycle the storage of job.batch/report -n shop
read, true: ask the provisioner whether to delete job.batch/report -n shop
write, true: delete the storage of job.batch/report -n shop
read, true: query the cloud provider for job.batch/report -n shop
read, false: discover resources
read, false: list example.com/v1/widgets -n shop
delete, false: delete all example.com/v1/widgets -n shop
delete, false: delete example.com/v1/widgets/report -n shop
";
    assert_eq!(requests.iter().map(line).collect::<String>(), expected);
}

#[test]
fn a_write_is_refused_if_the_object_is_another_one() {
    let mut meta = ObjectMeta::new("shop", "report", "u1");
    meta.resource_version = "7".into();
    let expected = |uid: Option<&str>, version: Option<&str>| Preconditions {
        uid: uid.map(Into::into),
        resource_version: version.map(Into::into),
    };
    let mut other = meta.clone();
    other.uid = "u2".into();
    for (precondition, meta, is_fine) in [
        (expected(None, None), &meta, true),
        (expected(Some("u1"), None), &meta, true),
        (expected(None, Some("7")), &meta, true),
        (expected(Some("u1"), Some("7")), &meta, true),
        (expected(None, None), &other, false),
        (expected(Some("u2"), None), &meta, false),
        (expected(Some("u2"), None), &other, false),
        (expected(Some("u1"), Some("8")), &meta, false),
        (expected(None, Some("8")), &meta, false),
    ] {
        let checked = write("", Form::Update, precondition.clone()).check(meta);
        let message = "job.batch/report -n shop has changed".to_owned();
        let result = if is_fine {
            Ok(())
        } else {
            Err(StoreError::Conflict { message })
        };
        assert_eq!(checked, result, "{precondition:?}");
    }
    assert_eq!(
        preconditions(&ObjectMeta::new("shop", "a", "")),
        expected(None, None)
    );
}

/// Metadata and volumes change in a record as in the object.
#[test]
fn a_change_of_a_record_is_that_of_the_object() {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["a", "b", "c"], "annotations": {
            "pv.kubernetes.io/provisioned-by": "x", "pv.kubernetes.io/migrated-to": "y",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}},
        "status": {"phase": "Bound"},
    });
    let bare = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {}, "status": {}});
    let migrated = "pv.kubernetes.io/migrated-to";
    let migration = FieldChange::Annotation {
        key: migrated,
        value: "z".to_owned(),
    };
    let label = FieldChange::Label {
        key: "k",
        value: "v".to_owned(),
    };
    let (_, owned) = record(crate::common::object("v1 Pod shop/q owner:v1/Pod/p"));
    let owners = FieldChange::OwnerReferences(owned.meta.owner_references.to_vec());
    for (object, change, has_effect) in [
        (&volume, FieldChange::Phase("Released".into()), true),
        (&volume, migration.clone(), true),
        (&bare, migration, true),
        (&volume, FieldChange::RemoveAnnotation(migrated), true),
        (
            &volume,
            FieldChange::RemoveAnnotation("pv.kubernetes.io/bound-by-controller"),
            true,
        ),
        (&volume, FieldChange::RemoveClaimRef, true),
        (&volume, FieldChange::RemoveClaimRefUid, true),
        (&volume, FieldChange::AddFinalizer("d"), true),
        (&volume, FieldChange::AddFinalizer("b"), false),
        (&volume, FieldChange::RemoveFinalizer("b"), true),
        (&volume, FieldChange::RemoveFinalizer("d"), false),
        (&volume, label, true),
        (&volume, owners, true),
    ] {
        let (_, before) = record(object.clone());
        let mut changed = before.clone();
        change.apply(&mut changed);
        let Value::Object(mut fields) = object.clone() else {
            panic!("{object}")
        };
        JsonDocuments::change(&change, &mut fields).unwrap();
        let (_, expected) = record(Value::Object(fields));
        assert_eq!(changed, expected, "{change:?}");
        assert_eq!(changed != before, has_effect, "{change:?}");
    }
}
