//! DaemonSets.

use super::*;

fn set(spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c"}]}});
    let base = json!({"selector": {"matchLabels": {"app": "log"}}, "template": template});
    object(
        Kind::DaemonSet,
        "log",
        json!({"metadata": {"generation": 7}, "spec": merged(&base, spec)}),
    )
}

/// The revision of the set's template.
fn revision(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    let labels = json!({"controller-revision-hash": "new"});
    let fields = json!({
        "metadata": {"labels": labels}, "data": {"spec": {"template": template}}, "revision": 1,
    });
    controlled(set, object(Kind::Revision, "log-new", fields))
}

fn node(name: &str, fields: Value) -> Value {
    object(Kind::Node, name, fields)
}

fn tainted(name: &str, effect: &str) -> Value {
    node(
        name,
        json!({"spec": {"taints": [{"key": "k", "effect": effect}]}}),
    )
}

fn on(node: &str, name: &str, revision: &str, pod: Value) -> Value {
    let labels = json!({"app": "log", "controller-revision-hash": revision});
    let pod = merged(
        &pod,
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node}}),
    );
    controlled(&set(json!({})), pod)
}

fn ready(node: &str, name: &str, revision: &str) -> Value {
    on(node, name, revision, ready_pod(name, 50))
}

fn world(spec: Value, objects: &[Value]) -> World {
    let set = set(spec);
    let revision = revision(&set);
    World::new([set, revision].into_iter().chain(objects.iter().cloned()))
}

fn tolerations() -> Vec<Value> {
    let rows = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    rows.map(|(key, effect)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect}))
        .to_vec()
}

#[test]
fn a_node_without_a_pod_gets_one() {
    let world = world(json!({}), &[node("n1", json!({})), tainted("n2", "NoSchedule")]);
    let line =
        "daemonset-controller: create pod/log- (SuccessfulCreate): node/n1 has no pod of daemonset/log";
    let synced = world.expect(Kind::DaemonSet, "log", &[line]);
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    let required = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    let expected = json!({
        "metadata": {
            "generateName": "log-", "labels": {"app": "log", "controller-revision-hash": "new"},
            "ownerReferences": [reference_to(&set(json!({})))],
        },
        "spec": {
            "containers": [{"name": "c"}],
            "tolerations": tolerations(),
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        },
    });
    assert_eq!(synced.objects[0], expected);
}

#[test]
fn pods_keep_the_tolerations_and_the_affinity_of_the_template() {
    let own = json!({"key": "team", "operator": "Exists"});
    let known = tolerations().remove(0);
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
    let affinity = json!({
        "podAffinity": {}, "nodeAffinity": {
            "preferred": 1, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        },
    });
    let template = json!({"spec": {"hostNetwork": true, "tolerations": [own, known], "affinity": affinity}});
    let annotations = json!({"deprecated.daemonset.template.generation": "4"});
    let set = merged(
        &set(json!({"template": template})),
        json!({"metadata": {"annotations": annotations}}),
    );
    let zone = node("n1", json!({"metadata": {"labels": {"zone": "a"}}}));
    let world = World::new([set.clone(), revision(&set), zone, node("n2", json!({}))]);
    let synced = world.sync(Kind::DaemonSet, "log");
    assert_eq!(synced.lines.len(), 1, "n2 does not fit");
    let pod = &synced.objects[0];
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "4");
    let network = json!({
        "key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule",
    });
    let mut expected = vec![own];
    expected.extend(tolerations());
    expected.push(network);
    assert_eq!(pod["spec"]["tolerations"], Value::from(expected));
    let mut term = term;
    term["matchFields"] = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    let mut expected = affinity;
    expected["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
        json!([term]);
    assert_eq!(pod["spec"]["affinity"], expected);

    // Other kinds of affinity are kept as well.
    for affinity in [
        json!({"podAffinity": {"x": 1}}),
        json!({"nodeAffinity": {"preferred": 1}}),
    ] {
        let world = self::world(
            json!({"template": {"spec": {"affinity": affinity}}}),
            &[node("n1", json!({}))],
        );
        let pod = world.sync(Kind::DaemonSet, "log").objects.remove(0);
        let kept = merged(&pod["spec"]["affinity"], affinity.clone());
        assert_eq!(pod["spec"]["affinity"], kept, "{affinity}");
        let required =
            &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_node_keeps_one_pod_that_may_run_there() {
    let delete =
        |name: &str, why: &str| format!("daemonset-controller: delete pod/{name} (SuccessfulDelete): {why}");
    let fine = node("n1", json!({}));
    let younger = |pod: Value| merged(&pod, json!({"metadata": {"creationTimestamp": time(10)}}));
    let failed = on("n1", "b", "new", pod_in("b", "Failed"));
    let waiting = {
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
        let required = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        let pod = merged(&ready("n1", "a", "new"), json!({"spec": {"affinity": affinity}}));
        merged(&pod, json!({"spec": {"nodeName": null}}))
    };
    let cases: [(Value, Vec<Value>, Vec<String>); 9] = [
        (fine.clone(), vec![ready("n1", "a", "new")], vec![]),
        (fine.clone(), vec![waiting], vec![]),
        (
            fine.clone(),
            vec![younger(ready("n1", "a", "new")), ready("n1", "b", "new")],
            vec![delete("a", "node/n1 has an older one")],
        ),
        (
            fine.clone(),
            vec![
                ready("n1", "a", "new"),
                ready("n1", "b", "new"),
                ready("n1", "c", "new"),
            ],
            vec![
                delete("b", "node/n1 has an older one"),
                delete("c", "node/n1 has an older one"),
            ],
        ),
        (
            fine.clone(),
            vec![ready("n1", "a", "new"), failed.clone()],
            vec![delete("b", "it has failed")],
        ),
        (
            fine.clone(),
            vec![deleting(ready("n1", "a", "new")), ready("n1", "b", "new")],
            vec![],
        ),
        (fine, vec![deleting(failed)], vec![]),
        (
            tainted("n1", "NoExecute"),
            vec![ready("n1", "a", "new"), deleting(ready("n1", "b", "new"))],
            vec![delete("a", "daemonset/log does not run on node/n1")],
        ),
        (tainted("n1", "NoSchedule"), vec![ready("n1", "a", "new")], vec![]),
    ];
    for (node, pods, expected) in cases {
        let mut lines = world(json!({}), &[&[node], &pods[..]].concat())
            .sync(Kind::DaemonSet, "log")
            .lines;
        lines.retain(|line| !line.contains(": status "));
        assert_eq!(lines, expected, "{pods:?}");
    }
    World::new([deleting(set(json!({}))), node("n1", json!({}))]).expect(Kind::DaemonSet, "log", &[]);
}

#[test]
fn pods_of_other_revisions_are_replaced_a_few_at_a_time() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, json!({})));
    let old = |node: &str| ready(node, &format!("p-{node}"), "old");
    let new = |node: &str| ready(node, &format!("p-{node}"), "new");
    let unready = |node: &str, revision: &str| {
        let name = format!("p-{node}");
        on(node, &name, revision, pod_in(&name, "Running"))
    };
    let late = |node: &str| {
        let name = format!("p-{node}");
        on(node, &name, "new", ready_pod(&name, 95))
    };
    let max = |value: Value| json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": value}}});
    for (spec, pods, expected, due) in [
        (
            json!({}),
            vec![old("n1"), old("n2"), old("n3")],
            vec!["p-n1"],
            None,
        ),
        (
            json!({}),
            vec![new("n1"), old("n2"), old("n3")],
            vec!["p-n2"],
            None,
        ),
        (
            max(2.into()),
            vec![old("n1"), old("n2"), old("n3")],
            vec!["p-n1", "p-n2"],
            None,
        ),
        (
            max("50%".into()),
            vec![old("n1"), old("n2"), old("n3")],
            vec!["p-n1", "p-n2"],
            None,
        ),
        (
            max(0.into()),
            vec![old("n1"), old("n2"), old("n3")],
            vec!["p-n1"],
            None,
        ),
        (
            max(2.into()),
            vec![unready("n1", "new"), old("n2"), old("n3")],
            vec!["p-n2"],
            None,
        ),
        (
            json!({}),
            vec![unready("n1", "new"), old("n2"), old("n3")],
            vec![],
            None,
        ),
        (
            json!({}),
            vec![old("n1"), unready("n2", "old"), unready("n3", "old")],
            vec!["p-n2", "p-n3"],
            None,
        ),
        (
            json!({}),
            vec![deleting(old("n1")), old("n2"), old("n3")],
            vec![],
            None,
        ),
        (
            json!({"minReadySeconds": 10}),
            vec![late("n1"), old("n2"), old("n3")],
            vec![],
            Some(105),
        ),
        (
            json!({"minReadySeconds": 5}),
            vec![late("n1"), old("n2"), old("n3")],
            vec!["p-n2"],
            None,
        ),
        (
            json!({"updateStrategy": {"type": "OnDelete"}}),
            vec![old("n1"), old("n2"), old("n3")],
            vec![],
            None,
        ),
    ] {
        let world = world(spec.clone(), &[&nodes[..], &pods[..]].concat());
        let synced = world.sync(Kind::DaemonSet, "log");
        let deleted: Vec<&str> = synced
            .lines
            .iter()
            .filter(|line| !line.contains(": status "))
            .map(|line| {
                let line = line.strip_prefix("daemonset-controller: delete pod/").unwrap();
                line.strip_suffix(" (SuccessfulDelete): it is not of the present revision")
                    .unwrap()
            })
            .collect();
        assert_eq!(deleted, expected, "{spec} {pods:?}");
        assert_eq!(synced.due, due.map(at), "{spec}");
    }
    // Nodes on which no pod runs do not count.
    let pods = [old("n1"), ready("n4", "p-n4", "old")];
    let places = [nodes[0].clone(), tainted("n4", "NoSchedule")];
    let world = world(max("100%".into()), &[&places[..], &pods[..]].concat());
    let synced = world.sync(Kind::DaemonSet, "log");
    assert_eq!(synced.lines.len(), 1);
    assert!(synced.lines[0].contains("delete pod/p-n1"));
}

#[test]
fn a_daemon_set_reports_its_nodes() {
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| node(name, json!({})));
    let tainted = ["n5", "n6"].map(|name| tainted(name, "NoSchedule"));
    let spec = json!({"minReadySeconds": 10, "updateStrategy": {"type": "OnDelete"}});
    let conditions = json!([{"type": "x", "status": "True"}]);
    let status = json!({"status": {"collisionCount": 3, "conditions": conditions}});
    let set = merged(&set(spec), status);
    let pods = [
        ready("n1", "a", "new"),
        ready("n2", "b", "old"),
        on("n3", "c", "new", ready_pod("c", 95)),
        deleting(ready("n4", "d", "new")),
        ready("n5", "e", "new"),
    ];
    let mut world = World::new(
        [set.clone(), revision(&set)]
            .into_iter()
            .chain(nodes)
            .chain(tainted)
            .chain(pods),
    );
    let line = "daemonset-controller: status daemonset/log (StatusChanged): its status has changed";
    let synced = world.expect(Kind::DaemonSet, "log", &[line]);
    assert_eq!(synced.due, Some(at(105)));
    let expected = json!({
        "desiredNumberScheduled": 4, "currentNumberScheduled": 4, "numberMisscheduled": 1, "numberReady": 3,
        "updatedNumberScheduled": 2, "numberAvailable": 2, "numberUnavailable": 2,
        "observedGeneration": 7, "collisionCount": 3, "conditions": conditions,
    });
    assert_eq!(synced.objects[0]["status"], expected);
    world.now = 105;
    let synced = world.sync(Kind::DaemonSet, "log");
    assert_eq!(
        (&synced.objects[0]["status"]["numberAvailable"], synced.due),
        (&json!(3), None)
    );

    let empty = self::world(json!({}), &[]).status(Kind::DaemonSet, "log");
    let expected = json!({
        "desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        "observedGeneration": 7,
    });
    assert_eq!(empty, expected);
}
