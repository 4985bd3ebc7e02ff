//! Requests of the garbage collector and of controllers, and the steps of the trace.

use kubegc_controllers::{Cloud, ExternalProvisioner, Operation as StorageOperation, PersistentVolumeBinder};
use kubegc_core::DeleteOptions;
use kubegc_objects::{Operation, Response};

use super::*;

fn policy(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions::policy(policy)
}

fn dependent(name: &str, owner: (&str, &str, &str), blocks: bool) -> Value {
    let (kind, owner, uid) = owner;
    let mut references = owned_by("v1", kind, owner, uid);
    references[0]["blockOwnerDeletion"] = blocks.into();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

/// The steps, one a line: actor, verb, name, status code, causes and changes.
fn transcript(steps: &[Step]) -> String {
    let line = |step: &Step| {
        let changes = step.changes.iter();
        let changes: Vec<_> = changes
            .map(|change| format!("{} {:?}", change.object.name, change.outcome))
            .collect();
        format!(
            "{}: {:?} {}, {}, because of {:?}: {}\n",
            step.actor,
            step.act,
            step.object.name,
            step.code,
            &step.causes[..],
            changes.join(", ")
        )
    };
    steps.iter().map(line).collect()
}

impl Fixture {
    /// Deletes an object as the client of the trace.
    fn intend(&mut self, kind: &str, name: &str, options: &DeleteOptions) {
        let (target, kind) = (self.identity(kind, name), self.kind(kind));
        let response = self.plane.delete(&mut self.server, kind, target, options, 0);
        assert!(response.is_success(), "{:?}", response.status());
    }

    /// Steps until the garbage collector has sent such a request.
    fn until(&mut self, is_it: impl Fn(&Operation) -> bool) -> Response {
        for _ in 0..1_000 {
            if let StepResult::Requested { request, response } = self.plane.step(&mut self.server)
                && is_it(&request.operation)
            {
                return *response;
            }
        }
        panic!("no such request")
    }
}

/// Dependents that block their owner are deleted first, those with dependents of their own in the foreground.
#[test]
fn a_foreground_deletion_starts_with_the_last_dependents() {
    let mut fixture = Fixture::new(settings());
    let owner = fixture.add("Secret", json!({"metadata": {"name": "owner"}}));
    let middle = fixture.add(
        "ConfigMap",
        dependent("middle", ("Secret", "owner", &owner), true),
    );
    fixture.add(
        "Secret",
        dependent("last", ("ConfigMap", "middle", &middle), true),
    );
    fixture.settle();
    fixture.intend("Secret", "owner", &policy(PropagationPolicy::Foreground));
    fixture.settle();
    let expected = "\
you: Delete { propagation: Some(Foreground) } owner, 200, because of []: owner Terminating
garbage collector: Delete { propagation: Some(Foreground) } middle, 200, because of [0]: middle Terminating
garbage collector: Delete { propagation: Some(Background) } last, 200, because of [1]: last Removed
garbage collector: Patch { merge: true } middle, 200, because of [1, 2]: middle Removed
garbage collector: Patch { merge: true } owner, 200, because of [0, 3]: owner Removed
";
    assert_eq!(transcript(fixture.plane.steps()), expected);
}

#[test]
fn orphans_are_released_before_their_owner_is_removed() {
    let mut fixture = Fixture::new(settings());
    let owner = fixture.add("Secret", json!({"metadata": {"name": "owner"}}));
    fixture.add(
        "ConfigMap",
        dependent("orphan", ("Secret", "owner", &owner), false),
    );
    fixture.settle();
    fixture.intend("Secret", "owner", &policy(PropagationPolicy::Orphan));
    fixture.settle();
    let expected = "\
you: Delete { propagation: Some(Orphan) } owner, 200, because of []: owner Terminating
garbage collector: Patch { merge: false } orphan, 200, because of [0]: orphan Changed
garbage collector: Patch { merge: true } owner, 200, because of [0, 1]: owner Removed
";
    assert_eq!(transcript(fixture.plane.steps()), expected);
    assert!(fixture.exists("ConfigMap", "orphan"));
}

/// An object of the same name that was created in between is not deleted.
#[test]
fn a_delete_has_the_uid_that_was_read() {
    let mut fixture = Fixture::new(settings());
    let gone = ("Secret", "gone", "u1");
    fixture.add("ConfigMap", dependent("config", gone, false));
    // The item and its owner are read before the item is deleted.
    fixture.until(|operation| matches!(operation, Operation::Get));
    fixture.until(|operation| matches!(operation, Operation::Get));
    fixture.delete("ConfigMap", "config");
    let free = json!({"metadata": {"name": "config"}});
    fixture.add("ConfigMap", free);
    let response = fixture.until(|operation| matches!(operation, Operation::Delete { .. }));
    assert!(matches!(response, Response::Conflict), "{response:?}");
    fixture.settle();
    assert!(fixture.exists("ConfigMap", "config"));
    let codes: Vec<u16> = fixture.plane.steps().iter().map(|step| step.code).collect();
    assert_eq!(codes, [409]);
}

/// Work that the first lists cause is done without other actors, and no time passes.
#[test]
fn the_collector_can_be_settled_alone() {
    let mut fixture = Fixture::new(without_collector());
    fixture.add("ConfigMap", dependent("config", ("Secret", "gone", "u1"), false));
    fixture.add("Namespace", json!({"metadata": {"name": "old"}}));
    fixture.delete("Namespace", "old");
    fixture.plane = ControlPlane::new(&fixture.server, settings());
    fixture.plane.settle_collector(&mut fixture.server);
    assert!(!fixture.exists("ConfigMap", "config"));
    assert!(fixture.exists("Namespace", "old"));
    assert_eq!(fixture.plane.steps().len(), 1);
    fixture.advance(Duration::from_secs(20));
    assert!(
        !fixture.exists("Namespace", "old"),
        "its deletion is known from the first list"
    );
}

#[test]
fn an_owner_in_another_namespace_is_a_warning() {
    let mut fixture = Fixture::new(settings());
    fixture.add("Namespace", json!({"metadata": {"name": "other"}}));
    let owner = fixture.add("Secret", json!({"metadata": {"name": "owner"}}));
    let mut stray = dependent("stray", ("Secret", "owner", &owner), false);
    stray["metadata"]["namespace"] = "other".into();
    fixture.add("ConfigMap", stray);
    fixture.settle();
    let config_maps = fixture.kind("ConfigMap");
    assert!(fixture.server.object(config_maps, "other", "stray").is_none());
    assert_eq!(fixture.plane.warnings().len(), 1);
    let (trace, warnings) = fixture.plane.into_trace();
    assert_eq!((trace.steps().len(), warnings.len()), (1, 1));
}

/// podgc asks for the node of a pod before it deletes the pod.
#[test]
fn objects_that_controllers_did_not_find_are_recorded() {
    let mut fixture = Fixture::new(settings());
    let began = fixture.server.now();
    fixture.add(
        "Pod",
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "gone"}}),
    );
    fixture.settle();
    let key = kubegc_controllers::Key::new("shop", "web");
    assert!(
        fixture
            .plane
            .manager()
            .cache()
            .get(Resource::Pods, &key)
            .is_some()
    );
    assert!(fixture.plane.manager().resources().contains(&Resource::Nodes));
    assert_eq!(
        (fixture.plane.began(), fixture.plane.last_change()),
        (began, began)
    );
    fixture.advance(Duration::from_secs(120));
    assert!(!fixture.exists("Pod", "web"));
    let missing: Vec<_> = fixture
        .plane
        .not_found()
        .map(|object| (object.resource, &*object.name))
        .collect();
    assert_eq!(missing, [(Resource::Nodes, "gone")]);
    assert_eq!(
        (fixture.plane.began(), fixture.plane.now()),
        (began, fixture.server.now())
    );
    let last = fixture.plane.steps().last().unwrap();
    assert_eq!(fixture.plane.last_change(), began.saturating_add(last.at));
    assert_eq!(last.at, Duration::from_secs(40), "after its quarantine");
    assert_eq!(
        (last.actor, last.is_delete()),
        (Actor::Controller("pod-garbage-collector-controller"), true)
    );
    assert!(last.causes.is_empty(), "another client created the pod");
    let acts: Vec<Act> = fixture.plane.steps().iter().map(|step| step.act).collect();
    assert_eq!(
        acts,
        [Act::Patch { merge: false }, Act::Delete { propagation: None }]
    );
    assert!(!fixture.plane.trace().was_terminating(&"another".into()));
    fixture.add(
        "ConfigMap",
        json!({"metadata": {"name": "held", "finalizers": ["shop/hold"]}}),
    );
    fixture.intend("ConfigMap", "held", &DeleteOptions::default());
    let uid = fixture.identity("ConfigMap", "held").uid;
    assert!(fixture.plane.trace().was_terminating(&uid));
    let last = fixture.plane.steps().last().unwrap();
    assert_eq!(last.act, Act::Delete { propagation: None });
}

/// Every step of a namespace's deletion is caused by the one before. Requests that change nothing are no
/// steps.
#[test]
fn a_namespace_is_emptied_step_by_step() {
    let mut fixture = Fixture::new(settings());
    for (kind, name) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("Secret", "c")] {
        fixture.add(kind, json!({"metadata": {"name": name}}));
    }
    fixture.settle();
    let first = fixture.plane.steps().len();
    fixture.delete("Namespace", "shop");
    fixture.advance(Duration::from_secs(60));
    assert!(!fixture.exists("Namespace", "shop"));
    let steps = &fixture.plane.steps()[first..];
    let removed = |step: &Step| -> Vec<String> {
        let removed = step.changes.iter();
        let removed = removed.filter(|change| change.outcome == Outcome::Removed);
        removed.map(|change| change.object.name.to_string()).collect()
    };
    let emptied = steps.iter().filter(|step| step.act == Act::DeleteCollection);
    let emptied: Vec<_> = emptied.map(removed).collect();
    assert_eq!(emptied, [vec!["a", "b"], vec!["c"]], "{steps:?}");
    let controller = Actor::Controller("namespace-controller");
    assert!(steps.iter().all(|step| step.actor == controller), "{steps:?}");
    // The finalizer is removed from the version before the update of the status: that conflicts once.
    let codes: Vec<u16> = steps.iter().map(|step| step.code).collect();
    assert_eq!(codes, [200, 200, 200, 409, 200]);
    assert!(steps[0].causes.is_empty(), "another client deleted the namespace");
    assert_eq!(steps.last().map(removed), Some(vec!["shop".to_owned()]));
}

/// The write that a controller observed causes its next one.
#[test]
fn a_controllers_step_is_caused_by_the_change_that_it_observed() {
    let mut fixture = Fixture::new(settings());
    fixture.add("ConfigMap", json!({"metadata": {"name": "a"}}));
    fixture.settle();
    fixture.intend("Namespace", "shop", &DeleteOptions::default());
    fixture.advance(Duration::from_secs(60));
    let steps = fixture.plane.steps();
    assert_eq!(
        (steps[0].actor, steps[1].actor),
        (Actor::Client, Actor::Controller("namespace-controller"))
    );
    assert!(steps[1..].iter().all(|step| step.causes == [0]), "{steps:?}");
}

/// ttlafterfinished deletes Jobs in the foreground.
#[test]
fn the_policy_of_a_controllers_delete_is_recorded() {
    let mut fixture = Fixture::new(settings());
    let finished = json!({
        "metadata": {"name": "backup"},
        "spec": {"ttlSecondsAfterFinished": 30, "template": {"spec": {}}},
        "status": {
            "completionTime": "1970-01-01T00:16:40Z",
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "1970-01-01T00:16:40Z"}],
        },
    });
    let jobs = fixture.kind("Job");
    let mut object = finished;
    for (key, value) in [("namespace", "shop"), ("uid", "u1")] {
        object["metadata"][key] = value.into();
    }
    let object = kubegc_sim::Manifest::read(object).unwrap().object;
    fixture.server.insert(jobs, object).unwrap();
    fixture.plane = ControlPlane::new(&fixture.server, settings());
    fixture.advance(Duration::from_secs(60));
    assert!(fixture.server.object(jobs, "shop", "backup").is_none());
    let step = &fixture.plane.steps()[0];
    let foreground = Act::Delete {
        propagation: Some(PropagationPolicy::Foreground),
    };
    let actor = Actor::Controller("ttl-after-finished-controller");
    assert_eq!((step.actor, step.act, step.at.as_secs()), (actor, foreground, 30));
    assert_eq!(&*step.object.api_version, "batch/v1");
}

/// The cloud node lifecycle controller deletes nodes whose instances no longer exist.
#[test]
fn responses_of_the_cloud_provider_are_assumed() {
    for (exists, is_deleted) in [(Some(Cloud::No), true), (Some(Cloud::Yes), false), (None, false)] {
        let instance = exists.clone().map(|exists| Instance {
            exists,
            is_shutdown: Cloud::No,
        });
        let assumptions = Assumptions {
            cloud: instance
                .into_iter()
                .map(|instance| ("n1".into(), instance))
                .collect(),
            ..Assumptions::default()
        };
        let settings = Settings {
            assumptions: Arc::new(assumptions),
            ..settings()
        };
        let mut fixture = Fixture::new(settings.clone());
        let conditions = json!([{"type": "Ready", "status": "Unknown"}]);
        let node = json!({
            "metadata": {"name": "n1"}, "spec": {"providerID": "x://1"}, "status": {"conditions": conditions},
        });
        fixture.add("Node", node);
        fixture.plane = ControlPlane::new(&fixture.server, settings);
        fixture.advance(Duration::from_secs(60));
        assert_eq!(!fixture.exists("Node", "n1"), is_deleted, "{exists:?}");
    }
}

/// The storage of a released volume is deleted, then its object: by a plugin of the release, or by an
/// external provisioner.
#[test]
fn released_volumes_are_deleted_with_their_storage() {
    let host_path = json!({"hostPath": {"path": "/tmp/x"}});
    let csi = json!({"csi": {"driver": "csi.example.com", "volumeHandle": "v"}});
    for (source, provisioner, release, storage_is_deleted, expected) in [
        (&host_path, "kubernetes.io/host-path", Some(VERSION), true, true),
        (&host_path, "kubernetes.io/host-path", None, true, false),
        (&csi, "csi.example.com", Some(VERSION), true, true),
        (&csi, "csi.example.com", Some(VERSION), false, false),
    ] {
        let mut binder = PersistentVolumeBinder::new(VERSION);
        binder.storage.release = release;
        let mut fixture = Fixture::new(Settings {
            assumptions: Arc::new(Assumptions {
                storage_is_deleted,
                ..Assumptions::default()
            }),
            controllers: vec![
                Arc::new(binder),
                Arc::new(ExternalProvisioner::new("csi.example.com")),
            ],
            ..settings()
        });
        let mut volume = json!({
            "metadata": {"name": "disk", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
            "spec": source,
            "status": {"phase": "Bound"},
        });
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into();
        volume["spec"]["claimRef"] =
            json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "u1"});
        fixture.add("PersistentVolume", volume);
        fixture.advance(Duration::from_secs(60));
        assert_eq!(
            !fixture.exists("PersistentVolume", "disk"),
            expected,
            "{source} {release:?}"
        );
        let acts: Vec<Act> = fixture.plane.steps().iter().map(|step| step.act).collect();
        let deletes_storage = acts.contains(&Act::Storage(StorageOperation::DeleteVolume));
        assert_eq!(deletes_storage, expected, "{acts:?}");
    }
}
