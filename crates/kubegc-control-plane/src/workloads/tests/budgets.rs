//! Disruption budgets.

use super::*;

fn budget(spec: Value) -> Value {
    let base = json!({"selector": {"matchLabels": {"app": "web"}}});
    object(
        Kind::Budget,
        "web",
        json!({"metadata": {"generation": 7}, "spec": merged(&base, spec)}),
    )
}

fn labelled(pod: Value) -> Value {
    merged(&pod, json!({"metadata": {"labels": {"app": "web"}}}))
}

fn ready(name: &str) -> Value {
    labelled(ready_pod(name, 50))
}

/// Allowed disruptions, and healthy, desired and expected pods.
fn counts(status: &Value) -> [u64; 4] {
    [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ]
    .map(|key| status[key].as_u64().unwrap())
}

fn message(status: &Value) -> &str {
    status["conditions"][0]["message"].as_str().unwrap()
}

#[test]
fn a_budget_counts_the_pods_that_it_selects() {
    let pods = [
        ready("a"),
        ready("b"),
        ready("c"),
        deleting(ready("d")),
        labelled(pod_in("e", "Running")),
        ready_pod("other", 50),
    ];
    for (spec, expected) in [
        (json!({"minAvailable": 1}), [2, 3, 1, 5]),
        (json!({"minAvailable": 3}), [0, 3, 3, 5]),
        (json!({"minAvailable": 4}), [0, 3, 4, 5]),
        (json!({}), [0, 3, 0, 0]),
    ] {
        let status =
            World::new([budget(spec.clone())].into_iter().chain(pods.clone())).status(Kind::Budget, "web");
        assert_eq!(counts(&status), expected, "{spec}");
        let (holds, reason) = if expected[0] > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let condition = json!({
            "type": "DisruptionAllowed", "status": holds, "reason": reason, "message": "",
            "lastTransitionTime": time(100), "observedGeneration": 7,
        });
        assert_eq!(status["conditions"], json!([condition]));
        assert_eq!(status["observedGeneration"], 7);
        assert!(status.get("disruptedPods").is_none());
    }
    let without_generation = merged(&budget(json!({})), json!({"metadata": {"generation": 0}}));
    let status = World::new([without_generation]).status(Kind::Budget, "web");
    assert!(status["conditions"][0].get("observedGeneration").is_none());
    for (minor, has_conditions) in [(20, false), (21, true)] {
        let mut object = budget(json!({"minAvailable": 1}));
        if minor == 20 {
            object["apiVersion"] = "policy/v1beta1".into();
        }
        let version = KubernetesVersion::new(minor, 0).unwrap();
        let status = World::of(version, [object, ready("a")]).status(Kind::Budget, "web");
        assert_eq!(status.get("conditions").is_some(), has_conditions, "1.{minor}");
    }
}

/// An empty selector selects all pods, but none in `policy/v1beta1`.
#[test]
fn an_empty_selector_selects_all_pods() {
    for (minor, expected) in [(20, 0), (36, 1)] {
        let mut object = merged(
            &budget(json!({"minAvailable": 1})),
            json!({"spec": {"selector": null}}),
        );
        object["spec"]["selector"] = json!({});
        if minor == 20 {
            object["apiVersion"] = "policy/v1beta1".into();
        }
        let version = KubernetesVersion::new(minor, 0).unwrap();
        let status = World::of(version, [object, ready("a")]).status(Kind::Budget, "web");
        assert_eq!(counts(&status)[3], expected, "1.{minor}");
    }
    let mut without = budget(json!({"minAvailable": 1}));
    without["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(
        counts(&World::new([without, ready("a")]).status(Kind::Budget, "web"))[3],
        0
    );
}

#[test]
fn percentages_refer_to_the_scale_of_the_controllers() {
    let deployment = object(Kind::Deployment, "web", json!({"spec": {"replicas": 10}}));
    let set = controlled(
        &deployment,
        object(Kind::ReplicaSet, "web-1", json!({"spec": {"replicas": 4}})),
    );
    let alone = object(Kind::ReplicaSet, "alone", json!({"spec": {"replicas": 4}}));
    let stateful = object(Kind::StatefulSet, "db", json!({"spec": {"replicas": 2}}));
    let percent = json!({"maxUnavailable": "25%"});
    let half = json!({"minAvailable": "50%"});
    for (spec, controllers, owners, expected) in [
        (
            percent.clone(),
            vec![deployment.clone(), set.clone()],
            vec![&set, &set],
            [0, 2, 7, 10],
        ),
        (
            half.clone(),
            vec![deployment.clone(), set.clone()],
            vec![&set],
            [0, 1, 5, 10],
        ),
        (
            half.clone(),
            vec![alone.clone()],
            vec![&alone, &alone, &alone],
            [1, 3, 2, 4],
        ),
        (
            json!({"maxUnavailable": 1}),
            vec![stateful.clone(), alone.clone()],
            vec![&stateful, &alone],
            [0, 2, 5, 6],
        ),
        (
            json!({"maxUnavailable": 5}),
            vec![alone.clone()],
            vec![&alone],
            [1, 1, 0, 4],
        ),
        // A Deployment that no longer exists does not count.
        (half, vec![set.clone()], vec![&set], [0, 1, 2, 4]),
    ] {
        let pods = owners
            .iter()
            .enumerate()
            .map(|(at, owner)| controlled(owner, ready(&format!("p{at}"))));
        let free = ready("free");
        let objects = [budget(spec.clone())].into_iter().chain(controllers).chain(pods);
        let status = World::new(objects.chain([deleting(free)])).status(Kind::Budget, "web");
        assert_eq!(counts(&status), expected, "{spec}");
    }
}

#[test]
fn a_pod_whose_controller_has_no_scale_fails_the_sync() {
    let alone = object(Kind::ReplicaSet, "alone", json!({"spec": {"replicas": 4}}));
    let daemons = object(Kind::DaemonSet, "log", json!({}));
    let other = merged(&alone, json!({"metadata": {"uid": "u9"}}));
    let unknown = merged(&alone, json!({"kind": "Shop"}));
    for (controllers, owner) in [
        (vec![], &alone),
        (vec![other], &alone),
        (vec![daemons.clone()], &daemons),
        (vec![], &unknown),
    ] {
        let before =
            json!({"status": {"currentHealthy": 5, "disruptionsAllowed": 2, "observedGeneration": 6}});
        let budget = merged(&budget(json!({"maxUnavailable": 1})), before);
        let objects = [budget, controlled(owner, ready("a"))]
            .into_iter()
            .chain(controllers);
        let status = World::new(objects).status(Kind::Budget, "web");
        assert_eq!(message(&status), "found no controllers for pod \"a\"");
        let condition = &status["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("SyncFailed"))
        );
        assert_eq!([&status["currentHealthy"], &status["disruptionsAllowed"]], [5, 0]);
        assert_eq!(condition["observedGeneration"], 6);
    }
}

#[test]
fn an_evicted_pod_is_not_healthy_for_two_minutes() {
    let disrupted = |at: u64| json!({"status": {"disruptedPods": {"a": time(at), "gone": time(at)}}});
    for (evicted, expected, due) in [(90, true, Some(211)), (0, true, Some(121))] {
        let budget = merged(&budget(json!({"minAvailable": 1})), disrupted(evicted));
        let mut world = World::new([budget, ready("a"), ready("b")]);
        world.now = if evicted == 0 { 120 } else { 100 };
        let synced = world.sync(Kind::Budget, "web");
        let status = &synced.objects[0]["status"];
        assert_eq!(counts(status), [0, 1, 1, 2]);
        assert_eq!(status["disruptedPods"] == json!({"a": time(evicted)}), expected);
        assert_eq!(synced.due, due.map(at));
        world.now = if evicted == 0 { 121 } else { 211 };
        let synced = world.sync(Kind::Budget, "web");
        assert_eq!(
            (counts(&synced.objects[0]["status"]), synced.due),
            ([1, 2, 1, 2], None)
        );
        assert!(synced.objects[0]["status"].get("disruptedPods").is_none());
    }
    let budget = merged(&budget(json!({"minAvailable": 1})), disrupted(90));
    let world = World::new([budget, deleting(ready("a")), ready("b")]);
    assert!(
        world.status(Kind::Budget, "web").get("disruptedPods").is_none(),
        "it is deleted already"
    );
}
