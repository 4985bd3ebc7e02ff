//! ReplicaSets and Deployments.

use super::*;

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(spec: Value) -> Value {
    let base =
        json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web:2")});
    object(
        Kind::Deployment,
        "web",
        json!({"metadata": {"generation": 7}, "spec": merged(&base, spec)}),
    )
}

/// A ReplicaSet of the Deployment, of the new template or an old one.
fn set(name: &str, image: &str, replicas: usize, annotations: Value) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = name.into();
    let spec = json!({"replicas": replicas, "template": template});
    let set = object(
        Kind::ReplicaSet,
        name,
        json!({"metadata": {"annotations": annotations}, "spec": spec}),
    );
    controlled(&deployment(json!({})), set)
}

fn annotations(revision: u32, desired: u32, max: u32) -> Value {
    json!({
        REVISION: revision.to_string(),
        "deployment.kubernetes.io/desired-replicas": desired.to_string(),
        "deployment.kubernetes.io/max-replicas": max.to_string(),
    })
}

#[test]
fn a_replica_set_creates_missing_pods() {
    let spec = json!({"replicas": 3, "template": template("web:1")});
    let web = object(Kind::ReplicaSet, "web", json!({"spec": spec}));
    let own = |name: &str, phase: &str| controlled(&web, pod_in(name, phase));
    let line = "replicaset-controller: create pod/web- (SuccessfulCreate): replicaset/web has too few pods";
    let pods = [
        own("a", "Running"),
        own("b", "Failed"),
        own("c", "Succeeded"),
        deleting(own("d", "Running")),
        pod_in("e", "Running"),
    ];
    let world = World::new([web.clone()].into_iter().chain(pods));
    let synced = world.expect(Kind::ReplicaSet, "web", &[line, line]);
    let pod = json!({
        "metadata": {"generateName": "web-", "labels": {"app": "web"}, "ownerReferences": [reference_to(&web)]},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    assert_eq!(synced.objects[0], pod);
    for (web, creates) in [
        (deleting(web.clone()), 0),
        (merged(&web, json!({"spec": {"replicas": 501}})), 500),
        (merged(&web, json!({"spec": {"replicas": -1}})), 0),
        (merged(&web, json!({"spec": {"replicas": null}})), 1),
        (merged(&web, json!({"spec": {"replicas": 0}})), 0),
    ] {
        let lines = World::new([web]).sync(Kind::ReplicaSet, "web").lines;
        assert_eq!(lines.iter().filter(|known| *known == line).count(), creates);
    }
}

#[test]
fn a_replica_set_counts_its_pods() {
    let spec = json!({"replicas": 3, "minReadySeconds": 10, "template": template("web:1")});
    let condition = json!([{"type": "ReplicaFailure", "status": "False"}]);
    let fields = json!({"metadata": {"generation": 4}, "spec": spec, "status": {"conditions": condition}});
    let web = object(Kind::ReplicaSet, "web", fields);
    let labeled = json!({"metadata": {"labels": {"app": "web", "x": "y"}}});
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    let mut world = World::new([
        web.clone(),
        controlled(&web, merged(&ready_pod("a", 90), labeled.clone())),
        controlled(&web, merged(&ready_pod("b", 91), other)),
        controlled(&web, merged(&pod_in("c", "Pending"), labeled)),
        controlled(&web, pod_in("d", "Failed")),
    ]);
    let line = "replicaset-controller: status replicaset/web (StatusChanged): its status has changed";
    let synced = world.expect(Kind::ReplicaSet, "web", &[line]);
    assert_eq!(synced.due, Some(at(101)));
    let status = json!({
        "replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
        "observedGeneration": 4, "conditions": condition,
    });
    assert_eq!(synced.objects[0]["status"], status);
    world.play(Kind::ReplicaSet, "web");
    assert_eq!(world.expect(Kind::ReplicaSet, "web", &[]).due, Some(at(101)));
    world.now = 101;
    assert_eq!(world.sync(Kind::ReplicaSet, "web").due, None);
    assert_eq!(world.status(Kind::ReplicaSet, "web")["availableReplicas"], 2);
    let empty = World::new([merged(&web, json!({"spec": {"replicas": 0}, "status": null}))]);
    assert_eq!(
        empty.status(Kind::ReplicaSet, "web"),
        json!({"replicas": 0, "observedGeneration": 4})
    );
}

#[test]
fn the_new_replica_set_has_the_template_and_a_hash() {
    let deployment = deployment(json!({"minReadySeconds": 5}));
    let notes = json!({
        "team": "shop", REVISION: "9", HISTORY: "8", "deprecated.deployment.rollback.to": "1",
        "deployment.kubernetes.io/desired-replicas": "9", "deployment.kubernetes.io/max-replicas": "9",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    let deployment = merged(&deployment, json!({"metadata": {"annotations": notes}}));
    let world = World::new([deployment.clone()]);
    let hash = revisions::hash(&template("web:2"), 0);
    let line = format!(
        "deployment-controller: create replicaset/web-{hash} (ScalingReplicaSet): Scaled up replica set web-{hash} from 0 to 3"
    );
    let synced = world.expect(Kind::Deployment, "web", &[&line]);
    let labels = json!({"app": "web", "pod-template-hash": hash});
    let mut labelled = template("web:2");
    labelled["metadata"]["labels"] = labels.clone();
    let mut notes = annotations(1, 3, 4);
    notes["team"] = "shop".into();
    let expected = json!({
        "metadata": {
            "name": format!("web-{hash}"), "labels": labels, "annotations": notes,
            "ownerReferences": [reference_to(&deployment)],
        },
        "spec": {
            "replicas": 3, "minReadySeconds": 5, "selector": {"matchLabels": labels}, "template": labelled,
        },
    });
    assert_eq!(synced.objects[0], expected);
}

#[test]
fn a_name_that_is_taken_counts_as_a_collision() {
    let hash = revisions::hash(&template("web:2"), 0);
    let other = object(Kind::ReplicaSet, &format!("web-{hash}"), json!({}));
    let mut world = World::new([deployment(json!({})), other]);
    let line = format!(
        "deployment-controller: status deployment/web (Collision): a ReplicaSet named web-{hash} exists"
    );
    let synced = world.play(Kind::Deployment, "web");
    assert_eq!(synced.lines, [line]);
    assert_eq!(synced.objects[0]["status"], json!({"collisionCount": 1}));
    let name = format!("web-{}", revisions::hash(&template("web:2"), 1));
    let synced = world.sync(Kind::Deployment, "web");
    assert_eq!(synced.objects[0]["metadata"]["name"], name);
}

#[test]
fn the_new_replica_set_grows_within_the_surge() {
    let rolling = |surge: Value, unavailable: Value| json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    // Spec, size of the new and the old one, and the new size.
    for (spec, new, old, wanted) in [
        (json!({}), None, 3, 1),
        (json!({}), Some(1), 3, 1),
        (json!({}), Some(1), 2, 2),
        (json!({}), Some(2), 0, 3),
        (json!({}), Some(0), 0, 3),
        (json!({}), Some(5), 0, 5),
        (rolling(2.into(), 0.into()), Some(1), 3, 2),
        (rolling("100%".into(), 0.into()), Some(0), 3, 3),
        (rolling(0.into(), 1.into()), Some(0), 3, 0),
        (rolling(0.into(), 1.into()), Some(0), 2, 1),
        (json!({"strategy": {"type": "Recreate"}}), None, 0, 3),
        (json!({"strategy": {"type": "Recreate"}}), Some(1), 0, 3),
        (json!({"strategy": {"type": "Recreate"}}), Some(0), 1, 0),
    ] {
        let new_set = new.map(|size| set("web-new", "web:2", size, json!({})));
        let world = World::new(
            [deployment(spec.clone()), set("web-old", "web:1", old, json!({}))]
                .into_iter()
                .chain(new_set),
        );
        let synced = world.sync(Kind::Deployment, "web");
        let first = &synced.objects[0];
        let size = match &*synced.lines[0] {
            line if line.contains("replicaset/") => {
                usize::try_from(first["spec"]["replicas"].as_u64().unwrap()).unwrap()
            }
            _ => new.unwrap_or(0),
        };
        assert_eq!(size, wanted, "{spec} {new:?} {old} {:?}", synced.lines);
        let present = new.unwrap_or(0);
        if size > present && new.is_some() {
            let message = format!("Scaled up replica set web-new from {present} to {wanted}");
            let line =
                format!("deployment-controller: update replicaset/web-new (ScalingReplicaSet): {message}");
            assert_eq!(synced.lines, [line]);
        }
    }
}

#[test]
fn recreate_waits_until_old_pods_have_ended() {
    let old = set("web-old", "web:1", 0, json!({}));
    for (phase, creates) in [
        ("Running", false),
        ("Pending", false),
        ("Failed", true),
        ("Succeeded", true),
    ] {
        let deployment = deployment(json!({"strategy": {"type": "Recreate"}}));
        let world = World::new([deployment, old.clone(), controlled(&old, pod_in("a", phase))]);
        let lines = world.sync(Kind::Deployment, "web").lines;
        assert_eq!(
            lines[0].contains("create replicaset"),
            creates,
            "{phase}: {lines:?}"
        );
    }
}

#[test]
fn a_paused_deployment_scales_its_only_replica_set() {
    let paused = deployment(json!({"paused": true}));
    let [up, down] = [("up", 1), ("down", 5)].map(|(direction, size)| {
        let message = format!("Scaled {direction} replica set web-old from {size} to 3");
        (
            size,
            format!("deployment-controller: update replicaset/web-old (ScalingReplicaSet): {message}"),
        )
    });
    for (size, line) in [up, down] {
        let world = World::new([paused.clone(), set("web-old", "web:1", size, json!({}))]);
        let synced = world.expect(Kind::Deployment, "web", &[&line]);
        assert_eq!(synced.objects[0]["spec"]["replicas"], 3);
    }
    let sets = |old, new| {
        [
            set("web-old", "web:1", old, json!({})),
            set("web-new", "web:2", new, json!({})),
        ]
    };
    // If several are active, the new one follows.
    for (old, new, scaled) in [
        (2, 1, Some("web-new")),
        (2, 0, Some("web-old")),
        (0, 0, Some("web-new")),
        (3, 0, None),
        (1, 3, None),
    ] {
        let world = World::new([paused.clone()].into_iter().chain(sets(old, new)));
        let lines = world.sync(Kind::Deployment, "web").lines;
        let expected = scaled.map(|name| format!("update replicaset/{name} "));
        match expected {
            Some(expected) => assert!(lines[0].contains(&expected), "{old} {new} {lines:?}"),
            None => assert!(
                lines[0].contains("status deployment/web"),
                "{old} {new} {lines:?}"
            ),
        }
    }
    World::new([paused]).expect(
        Kind::Deployment,
        "web",
        &["deployment-controller: status deployment/web (StatusChanged): its status has changed"],
    );
    let deleted = World::new([deleting(deployment(json!({})))]).sync(Kind::Deployment, "web");
    assert_eq!(deleted.reasons(), ["StatusChanged"]);
    let conditions = deleted.objects[0]["status"]["conditions"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(conditions, 1, "only whether it is available");
}

#[test]
fn the_new_replica_set_has_the_highest_revision() {
    let changed = "deployment-controller: update replicaset/web-new (AnnotationsChanged): the annotations of \
                  its Deployment have changed";
    let old = |revision: u32| set("web-old", "web:1", 0, annotations(revision, 3, 4));
    let with_history = |mut notes: Value, history: &str| {
        notes[HISTORY] = history.into();
        notes
    };
    for (old_revision, before, after) in [
        (1, annotations(2, 3, 4), None),
        (1, annotations(3, 3, 4), None),
        (1, annotations(2, 5, 4), Some(annotations(2, 3, 4))),
        (1, annotations(2, 3, 9), Some(annotations(2, 3, 4))),
        (
            2,
            annotations(1, 3, 4),
            Some(with_history(annotations(3, 3, 4), "1")),
        ),
        (
            2,
            annotations(2, 3, 4),
            Some(with_history(annotations(3, 3, 4), "2")),
        ),
        (
            4,
            with_history(annotations(3, 3, 4), "1"),
            Some(with_history(annotations(5, 3, 4), "1,3")),
        ),
        (2, json!({}), Some(annotations(3, 3, 4))),
    ] {
        let mut world = World::new([
            deployment(json!({})),
            old(old_revision),
            set("web-new", "web:2", 3, before.clone()),
        ]);
        let synced = world.play(Kind::Deployment, "web");
        let Some(after) = after else {
            assert_eq!(synced.reasons(), ["StatusChanged"], "{before}");
            continue;
        };
        assert_eq!(synced.lines, [changed]);
        assert_eq!(synced.objects[0]["metadata"]["annotations"], after);
        let synced = world.play(Kind::Deployment, "web");
        assert_eq!(synced.reasons(), ["StatusChanged"]);
        assert_eq!(
            synced.objects[0]["metadata"]["annotations"][REVISION],
            after[REVISION]
        );
        world.expect(Kind::Deployment, "web", &[]);
    }
    let notes = json!({"metadata": {"annotations": {"team": "shop"}}});
    let new = set(
        "web-new",
        "web:2",
        3,
        merged(&annotations(1, 3, 4), json!({"other": "x"})),
    );
    let world = World::new([merged(&deployment(json!({})), notes), new]);
    let synced = world.expect(Kind::Deployment, "web", &[changed]);
    let expected = merged(&annotations(1, 3, 4), json!({"other": "x", "team": "shop"}));
    assert_eq!(synced.objects[0]["metadata"]["annotations"], expected);
}

/// With the counts of its two ReplicaSets, and the status that it has already.
fn reported(spec: Value, status: Value, [old, new]: [Value; 2]) -> (World, Value, Option<Timestamp>) {
    let deployment = merged(&deployment(spec), json!({"status": status}));
    let notes = annotations(2, 3, 4);
    let world = World::new([
        deployment,
        merged(
            &set("web-old", "web:1", 0, annotations(1, 3, 4)),
            json!({"status": old}),
        ),
        merged(&set("web-new", "web:2", 3, notes), json!({"status": new})),
    ]);
    let synced = world.sync(Kind::Deployment, "web");
    let status = synced
        .objects
        .first()
        .map_or(Value::Null, |object| object["status"].clone());
    (world, status, synced.due)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, since: u64) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time(since),
        "lastUpdateTime": time(since),
    })
}

#[test]
fn a_deployment_reports_its_replica_sets() {
    let counts = |replicas: u32, ready: u32, available: u32| json!({"replicas": replicas, "readyReplicas": ready, "availableReplicas": available});
    let (_, status, due) = reported(
        json!({}),
        json!({"collisionCount": 2}),
        [counts(2, 2, 1), counts(2, 1, 0)],
    );
    let unavailable = condition(
        "Available",
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
        100,
    );
    let progressing = condition(
        "Progressing",
        "True",
        "ReplicaSetUpdated",
        "ReplicaSet \"web-new\" is progressing.",
        100,
    );
    let expected = json!({
        "replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 1, "unavailableReplicas": 3,
        "observedGeneration": 7, "collisionCount": 2, "conditions": [unavailable, progressing],
    });
    assert_eq!(status, expected);
    assert_eq!(
        due,
        Some(at(701)),
        "the deadline is 600 s after the last progress, and one second for rounding"
    );

    let (_, status, due) = reported(json!({}), json!({}), [counts(0, 0, 0), counts(3, 3, 3)]);
    let available = condition(
        "Available",
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
        100,
    );
    let complete = condition(
        "Progressing",
        "True",
        "NewReplicaSetAvailable",
        "ReplicaSet \"web-new\" has successfully progressed.",
        100,
    );
    let expected = json!({
        "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "observedGeneration": 7, "conditions": [available, complete],
    });
    assert_eq!((status, due), (expected, None));

    // Of 3 replicas, 25 % are none that may be unavailable; of 4, one.
    for (replicas, available, expected) in [(3, 2, "False"), (4, 3, "True"), (4, 2, "False")] {
        let deployment = deployment(json!({"replicas": replicas}));
        let new = set(
            "web-new",
            "web:2",
            replicas,
            annotations(
                1,
                u32::try_from(replicas).unwrap(),
                u32::try_from(replicas + 1).unwrap(),
            ),
        );
        let world = World::new([
            deployment,
            merged(&new, json!({"status": counts(3, 3, available)})),
        ]);
        let status = world.status(Kind::Deployment, "web");
        assert_eq!(
            status["conditions"][0]["status"], expected,
            "{replicas} {available}"
        );
    }
}

#[test]
fn a_deployment_reports_its_progress() {
    let known = |reason: &str, status: &str, since: u64| {
        let mut known = condition("Progressing", status, reason, "m", since);
        known["message"] = "m".into();
        json!([known])
    };
    let some = |field: &str, count: u32| json!({field: count});
    let updated = ("True", "ReplicaSetUpdated");
    let idle = ("True", "Idle");
    let full = json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3});
    // Spec, status, status of the old and new ReplicaSet; the condition and its next check.
    for (spec, status, old, new, expected, due) in [
        (
            json!({"paused": true}),
            json!({}),
            json!({}),
            json!({}),
            ("Unknown", "DeploymentPaused"),
            None,
        ),
        (
            json!({}),
            json!({"conditions": known("DeploymentPaused", "Unknown", 50)}),
            json!({}),
            json!({}),
            ("Unknown", "DeploymentResumed"),
            None,
        ),
        // A complete rollout stays complete while only the availability changes.
        (
            json!({}),
            json!({"conditions": known("NewReplicaSetAvailable", "True", 50)}),
            json!({}),
            some("replicas", 2),
            ("True", "NewReplicaSetAvailable"),
            None,
        ),
        (
            json!({}),
            json!({"conditions": known("NewReplicaSetAvailable", "True", 50)}),
            some("replicas", 1),
            some("replicas", 2),
            updated,
            Some(701),
        ),
        // More pods that are updated, ready or available, or fewer old ones.
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50)}),
            json!({}),
            some("replicas", 1),
            updated,
            Some(701),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50), "updatedReplicas": 1, "replicas": 1}),
            json!({}),
            some("replicas", 1),
            idle,
            Some(651),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50), "updatedReplicas": 1, "replicas": 1}),
            json!({}),
            json!({"replicas": 1, "readyReplicas": 1}),
            updated,
            Some(701),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50), "updatedReplicas": 1, "replicas": 1}),
            json!({}),
            json!({"replicas": 1, "availableReplicas": 1}),
            updated,
            Some(701),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50), "updatedReplicas": 1, "replicas": 3}),
            some("replicas", 1),
            some("replicas", 1),
            updated,
            Some(701),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50), "updatedReplicas": 1, "replicas": 2}),
            some("replicas", 2),
            some("replicas", 1),
            idle,
            Some(651),
        ),
        (
            json!({}),
            json!({"conditions": known("Idle", "True", 50)}),
            json!({}),
            full,
            ("True", "NewReplicaSetAvailable"),
            None,
        ),
        // Without progress, the deadline counts from the last one.
        (
            json!({"progressDeadlineSeconds": 50}),
            json!({"conditions": known("Idle", "True", 50)}),
            json!({}),
            json!({}),
            idle,
            Some(101),
        ),
        (
            json!({"progressDeadlineSeconds": 49}),
            json!({"conditions": known("Idle", "True", 50)}),
            json!({}),
            json!({}),
            ("False", "ProgressDeadlineExceeded"),
            None,
        ),
        (
            json!({"progressDeadlineSeconds": 49}),
            json!({"conditions": known("ProgressDeadlineExceeded", "False", 10)}),
            json!({}),
            json!({}),
            ("False", "ProgressDeadlineExceeded"),
            None,
        ),
        (
            json!({}),
            json!({}),
            json!({}),
            json!({}),
            ("True", "NewReplicaSetCreated"),
            Some(701),
        ),
    ] {
        let (_, written, next) = reported(spec.clone(), status.clone(), [old.clone(), new.clone()]);
        let conditions = written["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == "Progressing")
            .unwrap();
        let shown = (
            found["status"].as_str().unwrap(),
            found["reason"].as_str().unwrap(),
        );
        assert_eq!(
            (shown, next),
            (expected, due.map(at)),
            "{spec} {status} {old} {new}"
        );
    }
}

#[test]
fn the_condition_names_a_replica_set_that_was_found_or_created() {
    for (set_created, expected) in [
        (0, ("FoundNewReplicaSet", "Found new replica set \"web-new\"")),
        (
            50,
            ("NewReplicaSetCreated", "Created new replica set \"web-new\""),
        ),
        (
            90,
            ("NewReplicaSetCreated", "Created new replica set \"web-new\""),
        ),
    ] {
        let created = |at: u64| json!({"metadata": {"creationTimestamp": time(at)}});
        let new = set("web-new", "web:2", 3, annotations(1, 3, 4));
        let world = World::new([
            merged(&deployment(json!({})), created(50)),
            merged(&new, created(set_created)),
        ]);
        let status = world.status(Kind::Deployment, "web");
        assert_eq!(
            status["conditions"][1],
            condition("Progressing", "True", expected.0, expected.1, 100)
        );
    }
    let texts = [
        (json!({"paused": true}), "Deployment is paused"),
        (
            json!({"progressDeadlineSeconds": 10}),
            "ReplicaSet \"web-new\" has timed out progressing.",
        ),
    ];
    for (spec, message) in texts {
        let status = json!({"conditions": [condition("Progressing", "True", "Idle", "m", 50)]});
        let (_, written, _) = reported(spec, status, [json!({}), json!({})]);
        assert_eq!(written["conditions"][1]["message"], message);
    }
    let resumed = json!({"conditions": [condition("Progressing", "Unknown", "DeploymentPaused", "m", 50)]});
    let (_, written, _) = reported(json!({}), resumed, [json!({}), json!({})]);
    // The transition time is that of the status, the update time that of the reason.
    let mut expected = condition(
        "Progressing",
        "Unknown",
        "DeploymentResumed",
        "Deployment is resumed",
        50,
    );
    expected["lastUpdateTime"] = time(100);
    assert_eq!(written["conditions"][1], expected);
}

#[test]
fn the_oldest_replica_set_of_the_template_is_the_new_one() {
    let aged = |name: &str, created: u64| {
        merged(
            &set(name, "web:2", 0, json!({})),
            json!({"metadata": {"creationTimestamp": time(created)}}),
        )
    };
    for (a, b, new) in [(10, 20, "web-a"), (20, 10, "web-b"), (10, 10, "web-a")] {
        let world = World::new([deployment(json!({})), aged("web-a", a), aged("web-b", b)]);
        let lines = world.sync(Kind::Deployment, "web").lines;
        assert!(
            lines[0].contains(&format!("update replicaset/{new} ")),
            "{lines:?}"
        );
    }
}

#[test]
fn shares_are_counts_or_percentages() {
    for (value, replicas, up, down) in [
        (None, 10, 3, 2),
        (Some(json!(null)), 10, 3, 2),
        (Some(json!("50%")), 5, 3, 2),
        (Some(json!("100%")), 5, 5, 5),
        (Some(json!("x%")), 5, 0, 0),
        (Some(json!(7)), 5, 7, 7),
        (Some(json!(-1)), 5, 0, 0),
        (Some(json!({})), 5, 0, 0),
    ] {
        for (rounds_up, expected) in [(true, up), (false, down)] {
            let share = deployment_share(value.as_ref(), replicas, rounds_up);
            assert_eq!(share, expected, "{value:?} {rounds_up}");
        }
    }
}

fn deployment_share(value: Option<&Value>, replicas: usize, rounds_up: bool) -> usize {
    deployment::share(value, "25%", replicas, rounds_up)
}
