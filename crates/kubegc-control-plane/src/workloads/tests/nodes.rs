//! Nodes, claims and the rules of a test.

use super::*;

fn node(conditions: Value, spec: Value) -> Value {
    object(
        Kind::Node,
        "n1",
        json!({"spec": spec, "status": {"conditions": conditions}}),
    )
}

fn taint(key: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{key}"), "effect": "NoSchedule", "timeAdded": time(100)})
}

#[test]
fn conditions_become_no_schedule_taints() {
    let ready = |status: &str| json!({"type": "Ready", "status": status});
    let pressure = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let other = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"});
    let none: [&str; 0] = [];
    for (conditions, spec, expected) in [
        (vec![ready("True")], json!({}), None),
        (vec![ready("False")], json!({}), Some(json!([taint("not-ready")]))),
        (
            vec![ready("Unknown")],
            json!({}),
            Some(json!([taint("unreachable")])),
        ),
        (
            vec![ready("True")],
            json!({"unschedulable": true}),
            Some(json!([taint("unschedulable")])),
        ),
        (vec![ready("True")], json!({"unschedulable": false}), None),
        (
            vec![
                ready("True"),
                pressure("MemoryPressure", "True"),
                pressure("DiskPressure", "False"),
            ],
            json!({}),
            Some(json!([taint("memory-pressure")])),
        ),
        (
            vec![
                ready("True"),
                pressure("PIDPressure", "True"),
                pressure("NetworkUnavailable", "True"),
                pressure("DiskPressure", "True"),
            ],
            json!({}),
            Some(json!([
                taint("disk-pressure"),
                taint("network-unavailable"),
                taint("pid-pressure")
            ])),
        ),
        // Taints that no longer hold are removed; others stay, as do those that already hold.
        (
            vec![ready("True")],
            json!({"taints": [taint("not-ready"), other]}),
            Some(json!([other])),
        ),
        (vec![ready("True")], json!({"taints": [other]}), None),
        (
            vec![ready("False")],
            json!({"taints": [taint("not-ready")]}),
            None,
        ),
        (
            vec![ready("False")],
            json!({"taints": [other]}),
            Some(json!([other, taint("not-ready")])),
        ),
        (
            vec![ready("Unknown")],
            json!({"taints": [taint("not-ready")]}),
            Some(json!([taint("unreachable")])),
        ),
    ] {
        let world = World::new([node(conditions.clone().into(), spec.clone())]);
        let Some(expected) = expected else {
            world.expect(Kind::Node, "n1", &none);
            continue;
        };
        let line = "node-lifecycle-controller: patch node/n1 (TaintsChanged): its NoSchedule taints follow its \
                    conditions";
        let synced = world.expect(Kind::Node, "n1", &[line]);
        assert_eq!(
            synced.objects[0]["spec"]["taints"], expected,
            "{conditions:?} {spec}"
        );
    }
    let world = World::new([deleting(node(json!([ready("False")]), json!({})))]);
    world.expect(Kind::Node, "n1", &none);
}

#[test]
fn pods_of_a_lost_node_are_not_ready() {
    let lost = node(
        json!([{"type": "Ready", "status": "Unknown"}]),
        json!({"taints": [taint("unreachable")]}),
    );
    let elsewhere = merged(&ready_pod("elsewhere", 50), json!({"spec": {"nodeName": "n2"}}));
    let unready = merged(
        &ready_pod("unready", 50),
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    let world = World::new([lost, elsewhere, unready, ready_pod("web", 50)]);
    let line = "node-lifecycle-controller: status pod/web (NodeNotReady): its node is not ready";
    let synced = world.expect(Kind::Node, "n1", &[line]);
    let condition = json!({
        "type": "Ready", "status": "False", "lastTransitionTime": time(100), "lastProbeTime": null,
    });
    assert_eq!(synced.objects[0]["status"]["conditions"], json!([condition]));
    let fine = node(json!([{"type": "Ready", "status": "True"}]), json!({}));
    World::new([fine, ready_pod("web", 50)]).expect(Kind::Node, "n1", &[]);
}

#[test]
fn kubelets_report_and_stop_reporting() {
    let mut world = World::new([object(Kind::Node, "n1", json!({}))]);
    let line = "kubelet: status node/n1 (NodeReady): its kubelet reports that it is ready";
    world.expect(Kind::Node, "n1", &[line]);
    let first = world.play(Kind::Node, "n1").objects.remove(0);
    let healthy = |(kind, status, reason, message): (&str, &str, &str, &str), since: u64, beat: u64| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time(since), "lastHeartbeatTime": time(beat),
        })
    };
    let rows = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let expected = Value::from(rows.map(|row| healthy(row, 100, 100)).to_vec());
    assert_eq!(first["status"]["conditions"], expected);

    let set_runs = |world: &World, runs| {
        world.read(node_syncs::set_runs(
            &world.view(),
            &world.stored(Kind::Node, "n1"),
            runs,
        ))
    };
    world.now = 150;
    let stopped = set_runs(&world, false);
    let line = "node-lifecycle-controller: status node/n1 (NodeNotReady): its kubelet stopped reporting";
    assert_eq!(stopped.lines, [line]);
    let unknown = rows.map(|(kind, ..)| {
        healthy(
            (
                kind,
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ),
            150,
            100,
        )
    });
    assert_eq!(
        stopped.objects[0]["status"]["conditions"],
        Value::from(unknown.to_vec())
    );
    world.put(stopped.objects[0].clone());
    world.now = 160;
    let resumed = set_runs(&world, true);
    let expected = Value::from(rows.map(|row| healthy(row, 160, 160)).to_vec());
    assert_eq!(resumed.objects[0]["status"]["conditions"], expected);

    let made = super::super::ready_node("n2", at(100));
    assert_eq!(made["status"]["conditions"], first["status"]["conditions"]);
    assert_eq!(
        made["status"]["addresses"],
        json!([{"type": "Hostname", "address": "n2"}])
    );
    assert_eq!(
        made["metadata"],
        json!({"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}})
    );
}

#[test]
fn a_node_without_an_internal_address_gets_one_of_its_uid() {
    let world = World::new([
        object(
            Kind::Node,
            "n1",
            json!({"status": {"addresses": [{"type": "Hostname", "address": "n1"}]}}),
        ),
        object(
            Kind::Node,
            "n2",
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}}),
        ),
    ]);
    // FNV-1a of "Node-n1" is 0x0ca26281.
    assert_eq!(
        node_syncs::address(&world.stored(Kind::Node, "n1")),
        "192.168.12.162"
    );
    assert_eq!(node_syncs::address(&world.stored(Kind::Node, "n2")), "10.0.0.7");
}

#[test]
fn a_claim_gets_a_volume_of_its_own() {
    let spec = json!({
        "resources": {"requests": {"storage": "5Gi"}}, "accessModes": ["ReadWriteMany"], "volumeMode": "Block",
        "storageClassName": "fast",
    });
    let mut world = World::new([object(Kind::Claim, "data", json!({"spec": spec}))]);
    world.rules = Workloads::new().claims(|_| {
        Some(ClaimFate::Bound {
            after: Duration::from_secs(100),
        })
    });
    world.now = 99;
    let synced = world.expect(Kind::Claim, "data", &[]);
    assert_eq!(synced.due, Some(at(100)));

    world.now = 100;
    let name = "pvc-PersistentVolumeClaim-data";
    let claim = world.json(Kind::Claim, &world.stored(Kind::Claim, "data"));
    let line = format!(
        "external-provisioner: create persistentvolume/{name} (ProvisioningSucceeded): Successfully provisioned volume {name}"
    );
    let synced = world.expect(Kind::Claim, "data", &[&line]);
    assert_eq!(synced.due, None);
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
        "uid": "PersistentVolumeClaim-data", "resourceVersion": claim["metadata"]["resourceVersion"],
    });
    let expected = json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": "csi.example.com"}},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "volumeMode": "Block",
            "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete", "claimRef": reference,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
    });
    assert_eq!(synced.objects[0], expected);
    world.put(object(Kind::Volume, name, json!({"spec": expected["spec"]})));

    let bound = format!("it is bound to persistentvolume/{name}");
    let line =
        format!("persistentvolume-binder-controller: update persistentvolumeclaim/data (Bound): {bound}");
    let synced = world.play(Kind::Claim, "data");
    assert_eq!(synced.lines, [line]);
    assert_eq!(synced.objects[0]["spec"]["volumeName"], name);
    let annotations = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
    });
    assert_eq!(synced.objects[0]["metadata"]["annotations"], annotations);

    let line =
        format!("persistentvolume-binder-controller: status persistentvolumeclaim/data (Bound): {bound}");
    let synced = world.play(Kind::Claim, "data");
    assert_eq!(synced.lines, [line]);
    let status = json!({"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}});
    assert_eq!(synced.objects[0]["status"], status);
    world.expect(Kind::Claim, "data", &[]);
}

#[test]
fn a_claim_is_bound_to_the_volume_that_it_names() {
    let claim = |fields: Value| {
        object(
            Kind::Claim,
            "data",
            merged(&json!({"spec": {"volumeName": "disk"}}), fields),
        )
    };
    let volume = |reference: Value| object(Kind::Volume, "disk", json!({"spec": {"claimRef": reference}}));
    let free = object(Kind::Volume, "disk", json!({}));
    let update = "persistentvolume-binder-controller: update persistentvolume/disk (Bound): it is bound to \
                  persistentvolume/disk";
    let own = "PersistentVolumeClaim-data";
    let cases: [(Value, Option<Value>, &[&str]); 8] = [
        (claim(json!({})), None, &[]),
        (claim(json!({})), Some(free.clone()), &[update]),
        (
            claim(json!({})),
            Some(volume(json!({"namespace": "shop", "name": "data"}))),
            &[update],
        ),
        (
            claim(json!({})),
            Some(volume(json!({"namespace": "shop", "name": "data", "uid": "u1"}))),
            &[],
        ),
        (
            claim(json!({})),
            Some(volume(json!({"namespace": "shop", "name": "other"}))),
            &[],
        ),
        (
            claim(json!({})),
            Some(volume(json!({"namespace": "other", "name": "data"}))),
            &[],
        ),
        (deleting(claim(json!({}))), Some(free.clone()), &[]),
        (
            claim(json!({"status": {"phase": "Lost"}})),
            Some(free.clone()),
            &[],
        ),
    ];
    for (claim, volume, lines) in cases {
        let world = World::new([claim].into_iter().chain(volume));
        world.expect(Kind::Claim, "data", lines);
    }
    let mut world = World::new([claim(json!({})), free]);
    let synced = world.play(Kind::Claim, "data");
    assert_eq!(synced.objects[0]["spec"]["claimRef"]["uid"], own);
    // The name of the volume is not enough: the binding must be complete.
    assert_eq!(
        world.play(Kind::Claim, "data").objects[0]["kind"],
        "PersistentVolumeClaim"
    );
    assert_eq!(
        world.play(Kind::Claim, "data").objects[0]["status"]["phase"],
        "Bound"
    );
    world.rules = Workloads::new().claims(|_| Some(ClaimFate::Pending));
    world.put(claim(json!({})));
    world.expect(Kind::Claim, "data", &[]);
}

#[test]
fn a_claim_without_details_gets_the_usual_volume() {
    let world = World::new([object(Kind::Claim, "data", json!({}))]);
    let spec = &world.sync(Kind::Claim, "data").objects[0]["spec"];
    assert_eq!(spec["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(spec["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(spec["volumeMode"], "Filesystem");
    assert!(spec.get("storageClassName").is_none());
}

#[test]
fn the_first_rule_with_an_outcome_counts() {
    let fails = PodFate::Fails {
        after: Duration::from_secs(5),
    };
    let rules = Workloads::new()
        .pods(|pod| pod.has_label("app", "db").then_some(PodFate::NotReady))
        .pods(move |pod| pod.is_of("Deployment", "web").then_some(fails))
        .pods(|pod| (pod.namespace() == "other").then_some(PodFate::Pending))
        .pods(|pod| pod.at(&["spec", "nodeName"]).map(|_| PodFate::Unschedulable))
        .nodes(["a", "b"]);
    let deployment = object(Kind::Deployment, "web", json!({}));
    let set = controlled(&deployment, object(Kind::ReplicaSet, "web-1", json!({})));
    let job = object(Kind::Job, "backup", json!({}));
    let in_set = |name: &str, fields: Value| controlled(&set, object(Kind::Pod, name, fields));
    let world = World::new([
        deployment.clone(),
        set.clone(),
        job.clone(),
        in_set("a", json!({"metadata": {"labels": {"app": "db"}}})),
        in_set("b", json!({"metadata": {"labels": {"app": "web"}}})),
        object(Kind::Pod, "c", json!({"spec": {"nodeName": "n1"}})),
        object(Kind::Pod, "d", json!({})),
        controlled(&job, object(Kind::Pod, "e", json!({}))),
    ]);
    let (ready, succeeds) = (
        PodFate::Ready {
            after: Duration::ZERO,
        },
        PodFate::Succeeds {
            after: Duration::ZERO,
        },
    );
    for (name, expected) in [
        ("a", PodFate::NotReady),
        ("b", fails),
        ("c", PodFate::Unschedulable),
        ("d", ready),
        ("e", succeeds),
    ] {
        let pod = world.stored(Kind::Pod, name);
        assert_eq!(rules.pod(&world.view().subject(&pod)), expected, "{name}");
    }
    let pod = world.stored(Kind::Pod, "b");
    let view = world.view();
    let subject = view.subject(&pod);
    assert_eq!((subject.name(), &*subject.meta().uid.to_string()), ("b", "Pod-b"));
    for (kind, name, expected) in [
        ("ReplicaSet", "web-1", true),
        ("ReplicaSet", "web", false),
        ("Deployment", "web-1", false),
        ("Deployment", "web", true),
        ("Job", "web", false),
    ] {
        assert_eq!(subject.is_of(kind, name), expected, "{kind} {name}");
    }
    assert!(!subject.has_label("app", "db") && !subject.has_label("other", "web"));
    assert_eq!(rules.node_names(), ["a", "b"]);
    let text = format!("{rules:?}");
    assert_eq!(
        text,
        "Workloads { pod_rules: 4, claim_rules: 0, nodes: [\"a\", \"b\"] }"
    );
}
