//! The scheduler.

use super::*;

fn on(node: &str, name: &str, phase: &str) -> Value {
    let pod = pod_in(name, phase);
    merged(&pod, json!({"spec": {"nodeName": node}}))
}

#[test]
fn a_pod_is_bound_to_the_suitable_node_with_the_fewest_pods() {
    let nodes = ["a", "b"].map(|name| object(Kind::Node, name, json!({})));
    let web = object(Kind::Pod, "web", json!({"spec": {}}));
    let cases: [(&[Value], &str); 5] = [
        (&[], "a"),
        (&[on("a", "x", "Running")], "b"),
        (&[on("a", "x", "Succeeded"), on("a", "y", "Failed")], "a"),
        (
            &[
                on("a", "x", "Running"),
                on("b", "y", "Running"),
                on("a", "z", "Pending"),
            ],
            "b",
        ),
        (
            &[on("b", "x", "Running"), on("a", "y", ""), on("b", "z", "Running")],
            "a",
        ),
    ];
    for (others, node) in cases {
        let world = World::new(nodes.iter().chain([&web]).chain(others).cloned());
        let bound = format!("default-scheduler: bind pod/web to {node} (Scheduled): it fits on node/{node}");
        world.expect(Kind::Pod, "web", &[&bound]);
    }
}

#[test]
fn only_active_pods_of_this_scheduler_without_gates_are_scheduled() {
    let node = object(Kind::Node, "a", json!({}));
    let pod = |fields: Value| object(Kind::Pod, "web", fields);
    for (pod, is_scheduled) in [
        (pod(json!({"spec": {"schedulerName": "default-scheduler"}})), true),
        (pod(json!({"spec": {"schedulerName": "other"}})), false),
        (
            pod(json!({"spec": {"schedulingGates": [{"name": "shop/wait"}]}})),
            false,
        ),
        (pod(json!({"spec": {"schedulingGates": []}})), true),
        (deleting(pod(json!({}))), false),
        (pod_in("web", "Failed"), false),
        (pod_in("web", "Succeeded"), false),
        (pod_in("web", "Pending"), true),
    ] {
        let world = World::new([node.clone(), pod.clone()]);
        assert_eq!(
            world.sync(Kind::Pod, "web").lines.len(),
            usize::from(is_scheduled),
            "{pod}"
        );
    }
}

#[test]
fn a_pod_without_a_suitable_node_says_why() {
    let claim = |phase: &str| object(Kind::Claim, "data", json!({"status": {"phase": phase}}));
    let volume = json!([{"name": "other"}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let needs = object(Kind::Pod, "web", json!({"spec": {"volumes": volume}}));
    let web = object(Kind::Pod, "web", json!({"spec": {}}));
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    let gone = "persistentvolumeclaim \"data\" is being deleted";
    let missing = "persistentvolumeclaim \"data\" not found";
    let node = object(Kind::Node, "a", json!({}));
    for (objects, problem) in [
        (
            vec![web.clone()],
            Some("0/0 nodes are available: no node fits.".to_owned()),
        ),
        (
            vec![web, deleting(node.clone())],
            Some("0/1 nodes are available: no node fits.".to_owned()),
        ),
        (
            vec![needs.clone(), node.clone()],
            Some(format!("0/1 nodes are available: {missing}.")),
        ),
        (
            vec![needs.clone(), node.clone(), claim("Pending")],
            Some(format!("0/1 nodes are available: {unbound}.")),
        ),
        (
            vec![needs.clone(), node.clone(), deleting(claim("Bound"))],
            Some(format!("0/1 nodes are available: {gone}.")),
        ),
        (vec![needs, node, claim("Bound")], None),
    ] {
        let mut world = World::new(objects);
        let synced = world.play(Kind::Pod, "web");
        let Some(problem) = problem else {
            assert_eq!(synced.reasons(), ["Scheduled"]);
            continue;
        };
        assert_eq!(
            synced.lines,
            [format!(
                "default-scheduler: status pod/web (FailedScheduling): {problem}"
            )]
        );
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": problem,
            "lastTransitionTime": time(100), "lastProbeTime": null,
        });
        assert_eq!(synced.objects[0]["status"]["conditions"], json!([condition]));
        world.now = 200;
        assert!(world.sync(Kind::Pod, "web").lines.is_empty(), "it is said once");
        world.put(object(
            Kind::Node,
            "b",
            json!({"spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        ));
        let next = world.sync(Kind::Pod, "web");
        assert_eq!(
            next.objects[0]["status"]["conditions"][0]["lastTransitionTime"],
            time(100)
        );
    }
}

#[test]
fn rules_keep_pods_from_being_scheduled() {
    let mut world = World::new([
        object(Kind::Node, "a", json!({})),
        object(Kind::Pod, "web", json!({"spec": {}})),
        object(Kind::Pod, "db", json!({"spec": {}})),
    ]);
    world.rules = Workloads::new().pods(|pod| (pod.name() == "web").then_some(PodFate::Unschedulable));
    let problem = "0/1 nodes are available: a rule of the test keeps it from being scheduled.";
    let line = format!("default-scheduler: status pod/web (FailedScheduling): {problem}");
    world.expect(Kind::Pod, "web", &[&line]);
    assert_eq!(world.sync(Kind::Pod, "db").reasons(), ["Scheduled"]);
}

#[test]
fn taints_need_tolerations() {
    let taint = json!({"key": "team", "value": "shop", "effect": "NoSchedule"});
    let evicts = json!({"key": "team", "value": "shop", "effect": "NoExecute"});
    let prefers = json!({"key": "team", "effect": "PreferNoSchedule"});
    let both = ["NoSchedule", "NoExecute"];
    let cases: [(Value, &[&Value], &[&str], bool); 15] = [
        (json!([]), &[], &both, true),
        (json!(null), &[&taint], &both, false),
        (json!([]), &[&prefers], &both, true),
        (json!([]), &[&taint], &["NoExecute"], true),
        (json!([]), &[&evicts], &["NoExecute"], false),
        (json!([{"operator": "Exists"}]), &[&taint, &evicts], &both, true),
        (
            json!([{"operator": "Exists", "effect": "NoSchedule"}]),
            &[&taint, &evicts],
            &both,
            false,
        ),
        (
            json!([{"key": "team", "operator": "Exists"}]),
            &[&taint],
            &both,
            true,
        ),
        (
            json!([{"key": "other", "operator": "Exists"}]),
            &[&taint],
            &both,
            false,
        ),
        (
            json!([{"key": "team", "value": "shop", "effect": "NoSchedule"}]),
            &[&taint],
            &both,
            true,
        ),
        (
            json!([{"key": "team", "operator": "Equal", "value": "shop"}]),
            &[&taint],
            &both,
            true,
        ),
        (
            json!([{"key": "team", "value": "other"}]),
            &[&taint],
            &both,
            false,
        ),
        (
            json!([{"key": "team", "value": "shop", "effect": "NoExecute"}]),
            &[&taint],
            &both,
            false,
        ),
        (
            json!([{"key": "x"}, {"key": "team", "value": "shop"}]),
            &[&taint],
            &both,
            true,
        ),
        (json!([{"key": "team"}]), &[&taint], &both, false),
    ];
    for (tolerations, taints, effects, expected) in cases {
        let world = World::new([object(Kind::Node, "a", json!({"spec": {"taints": taints}}))]);
        let spec = json!({"tolerations": tolerations});
        let tolerates = scheduler::tolerates(&spec, &world.stored(Kind::Node, "a"), effects);
        assert_eq!(tolerates, expected, "{spec} {taints:?} {effects:?}");
    }
    for (effect, is_bound) in [
        ("NoSchedule", false),
        ("NoExecute", false),
        ("PreferNoSchedule", true),
    ] {
        let node = object(
            Kind::Node,
            "a",
            json!({"spec": {"taints": [{"key": "k", "effect": effect}]}}),
        );
        let world = World::new([node, object(Kind::Pod, "web", json!({}))]);
        assert_eq!(
            world.sync(Kind::Pod, "web").reasons() == ["Scheduled"],
            is_bound,
            "{effect}"
        );
    }
}

#[test]
fn a_node_fits_by_name_labels_and_affinity() {
    let labels = json!({"zone": "a", "size": "5"});
    let world = World::new([object(Kind::Node, "n1", json!({"metadata": {"labels": labels}}))]);
    let node = world.stored(Kind::Node, "n1");
    let terms = |terms: Value| {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    };
    let requirement = |key: &str, operator: &str, values: Value| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        terms(json!([{"matchExpressions": [expression]}]))
    };
    let zone_a = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let zone_b = json!({"key": "zone", "operator": "In", "values": ["b"]});
    let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    for (spec, expected) in [
        (json!({}), true),
        (json!({"nodeName": "n1"}), true),
        (json!({"nodeName": "n2"}), false),
        (json!({"nodeSelector": {"zone": "a"}}), true),
        (json!({"nodeSelector": {"zone": "b"}}), false),
        (json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), false),
        (terms(json!([])), false),
        (terms(json!([{}])), false),
        (terms(json!([{"matchExpressions": [zone_a]}])), true),
        (terms(json!([{"matchExpressions": [zone_a, zone_b]}])), false),
        (
            terms(json!([{"matchExpressions": [zone_b]}, {"matchExpressions": [zone_a]}])),
            true,
        ),
        (terms(json!([{"matchFields": [named("n1")]}])), true),
        (terms(json!([{"matchFields": [named("n2")]}])), false),
        (
            terms(json!([{"matchExpressions": [zone_a], "matchFields": [named("n2")]}])),
            false,
        ),
        (
            terms(json!([{"matchExpressions": [zone_b], "matchFields": [named("n1")]}])),
            false,
        ),
        (
            terms(json!([{"matchFields": [{"key": "zone", "operator": "In", "values": ["a"]}]}])),
            false,
        ),
        (requirement("zone", "In", json!(["b", "a"])), true),
        (requirement("zone", "In", json!(["b", "c"])), false),
        (requirement("disk", "In", json!([1])), false),
        (requirement("zone", "NotIn", json!(["a"])), false),
        (requirement("zone", "NotIn", json!(["b"])), true),
        (requirement("disk", "NotIn", json!(["b"])), true),
        (requirement("zone", "Exists", json!(null)), true),
        (requirement("disk", "Exists", json!(null)), false),
        (requirement("zone", "DoesNotExist", json!(null)), false),
        (requirement("disk", "DoesNotExist", json!(null)), true),
        (requirement("size", "Gt", json!(["4"])), true),
        (requirement("size", "Gt", json!(["5"])), false),
        (requirement("size", "Lt", json!(["6"])), true),
        (requirement("size", "Lt", json!(["5"])), false),
        (requirement("size", "Gt", json!(["6"])), false),
        (requirement("size", "Lt", json!(["4"])), false),
        (requirement("zone", "Gt", json!(["1"])), false),
        (requirement("zone", "Is", json!(["a"])), false),
    ] {
        assert_eq!(scheduler::fits(&spec, &node), expected, "{spec}");
    }
}
