//! Requests: their texts, checks and effects on records.

use std::sync::Arc;

use kubegc_controllers::{
    EventRequest, FieldChange, Form, Key, Operation, Request, Sent, Wire, Write, preconditions,
};
use kubegc_core::{
    ApiResource, DeleteOptions, ObjectMeta, PatchType, Preconditions, Scope, StoreError, Timestamp,
    record::{Condition, Consumer, JobCounts, ObjectId, Resource, Taint},
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
    for (wire, sent, uid, version) in [
        (Wire::Strict, Sent::Nothing, Some("u1"), Some("7")),
        (Wire::AsUpstream, Sent::Nothing, None, None),
        (Wire::AsUpstream, Sent::Uid, Some("u1"), None),
        (Wire::AsUpstream, Sent::ResourceVersion, None, Some("7")),
    ] {
        assert_eq!(wire.preconditions(&meta, sent), expected(uid, version));
    }
    assert_eq!(
        preconditions(&ObjectMeta::new("shop", "a", "")),
        expected(None, None)
    );
}

fn condition(kind: &str, status: &str) -> Condition {
    Condition {
        condition_type: kind.into(),
        status: status.into(),
        reason: "Why".into(),
        message: "because".into(),
        last_transition_time: Some(Timestamp::from_secs(60)),
        ..Condition::default()
    }
}

/// A record changes as the object does.
#[test]
fn a_change_of_a_record_is_that_of_the_object() {
    let metadata = json!({"namespace": "shop", "name": "a"});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a", "annotations": {
            "pv.kubernetes.io/provisioned-by": "x", "pv.kubernetes.io/migrated-to": "y",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}},
        "status": {"phase": "Bound"},
    });
    let bare = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {}, "status": {}});
    let known =
        json!([{"type": "DisruptionTarget", "status": "True"}, {"type": "Failed", "status": "False"}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {},
        "status": {"phase": "Running", "conditions": known},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": {"conditions": known},
    });
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes", "x"]},
        "status": {"phase": "Active"},
    });
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "secrets": [{"name": "x"}, {"name": "y"}],
    });
    let consumer = |name: &str| json!({"resource": "pods", "name": name, "uid": name});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {},
        "status": {"allocation": {}, "reservedFor": [consumer("p"), consumer("q")]},
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 3}, "status": {},
    });
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect, "value": "old"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "spec": {"taints": [taint("k", "NoExecute"), taint("k", "NoSchedule"), taint("l", "NoExecute")]},
        "status": {},
    });
    let new_taint = |key: &str, effect: &str| Taint {
        value: "new".into(),
        ..Taint::new(key, effect)
    };
    let counts = JobCounts {
        succeeded: 3,
        failed: 2,
        uncounted_succeeded: vec!["u1".into()],
        uncounted_failed: vec!["u2".into()],
        completed_indexes: "0-2".into(),
        failed_indexes: "".into(),
    };
    let annotation = |key, value: &str| FieldChange::Annotation {
        key,
        value: value.to_owned(),
    };
    let (provisioned, migrated, bound) = (
        "pv.kubernetes.io/provisioned-by",
        "pv.kubernetes.io/migrated-to",
        "pv.kubernetes.io/bound-by-controller",
    );
    let left = Consumer {
        api_group: "".into(),
        resource: "pods".into(),
        name: "q".into(),
        uid: "q".into(),
    };
    for (object, change) in [
        (&volume, FieldChange::Phase("Released".into())),
        (&volume, annotation(provisioned, "z")),
        (&bare, annotation(migrated, "z")),
        (&bare, annotation(bound, "yes")),
        (&volume, FieldChange::RemoveAnnotation(provisioned)),
        (&volume, FieldChange::RemoveAnnotation(migrated)),
        (&volume, FieldChange::RemoveAnnotation(bound)),
        (&volume, FieldChange::RemoveClaimRef),
        (&volume, FieldChange::RemoveClaimRefUid),
        (&pod, FieldChange::Phase("Failed".into())),
        (
            &pod,
            FieldChange::Condition(condition("DisruptionTarget", "False")),
        ),
        (&job, FieldChange::Condition(condition("Complete", "True"))),
        (&job, FieldChange::Condition(condition("Failed", "True"))),
        (&job, FieldChange::JobCounts(Box::new(counts))),
        (&namespace, FieldChange::Phase("Terminating".into())),
        (&namespace, FieldChange::Conditions(vec![condition("A", "True")])),
        (&namespace, FieldChange::SpecFinalizers(vec!["x".into()])),
        (&account, FieldChange::RemoveSecretReference("x".into())),
        (&claim, FieldChange::ReservedFor(vec![left])),
        (&claim, FieldChange::RemoveAllocation),
        (&set, FieldChange::Replicas(1)),
        (&node, FieldChange::AddTaint(new_taint("k", "NoExecute"))),
        (&node, FieldChange::AddTaint(new_taint("l", "NoSchedule"))),
        (&node, FieldChange::RemoveTaint(new_taint("k", "NoSchedule"))),
    ] {
        let (resource, before) = record(object.clone());
        let mut changed = before.clone();
        change.apply(&mut changed);
        let Value::Object(mut fields) = object.clone() else {
            panic!("{object}")
        };
        JsonDocuments::change(&change, &mut fields).unwrap();
        let (_, expected) = record(Value::Object(fields));
        assert_eq!(changed.body, expected.body, "{change:?}");
        assert_ne!(changed.body, before.body, "{change:?} of {resource:?}");
        assert_eq!(changed.meta, before.meta);
    }
}

#[test]
fn changes_of_metadata_need_no_body() {
    let mut start = ObjectMeta::new("shop", "a", "u1");
    start.finalizers = vec!["a".into(), "b".into(), "c".into()];
    start.labels.insert("x".into(), "y".into());
    let finalizers = |meta: &ObjectMeta| {
        meta.finalizers
            .iter()
            .map(|name| name.to_string())
            .collect::<Vec<_>>()
    };
    for (change, expected) in [
        (FieldChange::AddFinalizer("d"), vec!["a", "b", "c", "d"]),
        (FieldChange::AddFinalizer("b"), vec!["a", "b", "c"]),
        (FieldChange::RemoveFinalizer("b"), vec!["a", "c"]),
        (FieldChange::RemoveFinalizer("d"), vec!["a", "b", "c"]),
    ] {
        let mut meta = start.clone();
        assert!(change.apply_to_metadata(&mut meta));
        assert_eq!(finalizers(&meta), expected, "{change:?}");
    }
    let mut meta = start.clone();
    let label = FieldChange::Label {
        key: "k",
        value: "v".to_owned(),
    };
    assert!(label.apply_to_metadata(&mut meta));
    assert_eq!(meta.labels.get("k").map(|value| &**value), Some("v"));
    let (_, owned) = record(crate::common::object("v1 Pod shop/q owner:v1/Pod/p"));
    let owners = owned.meta.owner_references.to_vec();
    assert!(FieldChange::OwnerReferences(owners).apply_to_metadata(&mut meta));
    assert_eq!(meta.owner_references.len(), 1);
    let mut same = start.clone();
    assert!(!FieldChange::Replicas(3).apply_to_metadata(&mut same));
    assert_eq!(same, start);
}
