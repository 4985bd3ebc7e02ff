//! Kubelets: the status of pods over time.

use super::*;

fn node() -> Value {
    let addresses =
        json!([{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.1.2.3"}]);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    object(
        Kind::Node,
        "n1",
        json!({"status": {"addresses": addresses, "conditions": ready}}),
    )
}

fn pod(spec: Value) -> Value {
    let containers = json!([{"name": "c", "image": "web:1"}, {"name": "d", "image": "log:1"}]);
    let pod = json!({"spec": {"nodeName": "n1", "containers": containers}});
    object(Kind::Pod, "web", merged(&pod, json!({"spec": spec})))
}

fn world(fate: PodFate, pod: Value) -> World {
    let mut world = World::new([node(), pod]);
    world.rules = Workloads::new().pods(move |_| Some(fate));
    world
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn condition(kind: &str, since: u64, why: Option<(&str, &str)>) -> Value {
    let status = if why.is_none() { "True" } else { "False" };
    let mut condition = json!({
        "type": kind, "status": status, "lastTransitionTime": time(since), "lastProbeTime": null,
    });
    if let Some((reason, message)) = why {
        for (key, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                condition[key] = text.into();
            }
        }
    }
    condition
}

/// The status of one container of the pod.
fn container(name: &str, image: &str, ready: bool, state: Value) -> Value {
    json!({
        "name": name, "image": image, "imageID": "", "containerID": format!("containerd://Pod-web/{name}/0"),
        "ready": ready, "started": true, "restartCount": 0, "state": state, "lastState": {},
    })
}

#[test]
fn a_pod_runs_at_once_and_is_ready_later() {
    let mut world = world(PodFate::Ready { after: seconds(5) }, pod(json!({})));
    let synced = world.play(Kind::Pod, "web");
    assert_eq!(
        synced.lines,
        ["kubelet: status pod/web (Started): its containers run"]
    );
    assert_eq!(synced.due, Some(at(105)));
    let unready = Some(("ContainersNotReady", "containers with unready status: [c d]"));
    let running = json!({"running": {"startedAt": time(100)}});
    let mut status = json!({
        "phase": "Running",
        "conditions": [
            condition("PodReadyToStartContainers", 100, None),
            condition("Initialized", 100, None),
            condition("Ready", 100, unready),
            condition("ContainersReady", 100, unready),
            condition("PodScheduled", 100, None),
        ],
        "hostIP": "10.1.2.3",
        "startTime": time(100),
        "podIP": "10.182.37.224",
        "podIPs": [{"ip": "10.182.37.224"}],
        "containerStatuses": [
            container("c", "web:1", false, running.clone()),
            container("d", "log:1", false, running.clone()),
        ],
    });
    assert_eq!(synced.objects[0]["status"], status);

    world.now = 104;
    let synced = world.play(Kind::Pod, "web");
    assert!(synced.lines.is_empty());
    assert_eq!(synced.due, Some(at(105)));

    world.now = 105;
    let synced = world.play(Kind::Pod, "web");
    assert_eq!(
        synced.lines,
        ["kubelet: status pod/web (Started): its containers run and are ready"]
    );
    assert_eq!(synced.due, None);
    status["conditions"][2] = condition("Ready", 105, None);
    status["conditions"][3] = condition("ContainersReady", 105, None);
    for at in 0..2 {
        status["containerStatuses"][at]["ready"] = true.into();
    }
    assert_eq!(synced.objects[0]["status"], status);
    assert!(world.sync(Kind::Pod, "web").lines.is_empty());
}

#[test]
fn releases_before_1_29_do_not_report_the_sandbox() {
    for (minor, reports) in [(28, false), (29, true)] {
        let world = World::of(
            KubernetesVersion::new(minor, 0).unwrap(),
            [node(), pod(json!({}))],
        );
        let status = world.status(Kind::Pod, "web");
        let first = &status["conditions"][0]["type"];
        assert_eq!(*first == "PodReadyToStartContainers", reports, "1.{minor}");
        assert_eq!(
            status["conditions"].as_array().unwrap().len(),
            4 + usize::from(reports)
        );
    }
}

#[test]
fn a_pending_pod_has_no_address_and_no_containers() {
    for fate in [PodFate::Pending, PodFate::Unschedulable] {
        let world = world(
            fate,
            pod(json!({"containers": [{"name": "c", "image": "web:1"}]})),
        );
        world.expect(
            Kind::Pod,
            "web",
            &["kubelet: status pod/web (Pending): its containers are being created"],
        );
        let unready = Some(("ContainersNotReady", "containers with unready status: [c]"));
        let expected = json!({
            "phase": "Pending",
            "conditions": [
                condition("PodReadyToStartContainers", 100, Some(("", ""))),
                condition("Initialized", 100, Some(("", ""))),
                condition("Ready", 100, unready),
                condition("ContainersReady", 100, unready),
                condition("PodScheduled", 100, None),
            ],
            "hostIP": "10.1.2.3",
            "startTime": time(100),
            "containerStatuses": [{
                "name": "c", "image": "web:1", "imageID": "", "containerID": "", "ready": false,
                "started": false, "restartCount": 0, "lastState": {},
                "state": {"waiting": {"reason": "ContainerCreating"}},
            }],
        });
        assert_eq!(world.status(Kind::Pod, "web"), expected);
    }
    let world = world(PodFate::NotReady, pod(json!({})));
    let synced = world.sync(Kind::Pod, "web");
    assert_eq!(
        synced.lines,
        ["kubelet: status pod/web (Started): its containers run"]
    );
    assert_eq!(synced.due, None);
}

/// They are restarted at once, then after 10 s, 20 s and so on up to 300 s.
#[test]
fn failed_containers_are_restarted_with_a_growing_delay() {
    let fate = PodFate::Fails { after: seconds(5) };
    for policy in ["Always", "OnFailure", ""] {
        let mut world = world(fate, pod(json!({"restartPolicy": policy})));
        let mut seen = Vec::new();
        for _ in 0..16 {
            let synced = world.play(Kind::Pod, "web");
            let status = &synced.objects[0]["status"];
            assert_eq!(status["phase"], "Running");
            let restarts = status["containerStatuses"][0]["restartCount"].as_u64().unwrap();
            let is_waiting = !status["containerStatuses"][0]["state"]["waiting"].is_null();
            let expected = if is_waiting { "BackOff" } else { "Started" };
            assert_eq!(synced.reasons(), [expected]);
            seen.push((world.now, restarts, is_waiting));
            world.now = synced.due.unwrap().since(at(0)).as_secs();
        }
        let run = |at, restarts| (at, restarts, false);
        let wait = |at, restarts| (at, restarts, true);
        let expected = [
            run(100, 0),
            run(105, 1),
            wait(110, 1),
            run(120, 2),
            wait(125, 2),
            run(145, 3),
            wait(150, 3),
            run(190, 4),
            wait(195, 4),
            run(275, 5),
            wait(280, 5),
            run(440, 6),
            wait(445, 6),
            run(745, 7),
            wait(750, 7),
            run(1050, 8),
        ];
        assert_eq!(seen, expected, "{policy}");
    }
}

#[test]
fn containers_report_their_last_exit() {
    let fate = PodFate::Fails { after: seconds(5) };
    let mut world = world(
        fate,
        pod(json!({"containers": [{"name": "c", "image": "web:1"}]})),
    );
    for (now, restarts, state) in [
        (105, 1, json!({"running": {"startedAt": time(105)}})),
        (
            110,
            1,
            json!({"waiting": {
                "reason": "CrashLoopBackOff", "message": "back-off restarting failed container c",
            }}),
        ),
    ] {
        if now == 105 {
            world.play(Kind::Pod, "web");
        }
        world.now = now;
        let synced = world.play(Kind::Pod, "web");
        let id = format!("containerd://Pod-web/c/{restarts}");
        let terminated = json!({
            "exitCode": 1, "reason": "Error", "containerID": id, "startedAt": time(100), "finishedAt": time(now),
        });
        let is_running = now == 105;
        let expected = json!([{
            "name": "c", "image": "web:1", "imageID": "", "containerID": id, "ready": is_running,
            "started": is_running, "restartCount": restarts, "state": state,
            "lastState": {"terminated": terminated},
        }]);
        assert_eq!(synced.objects[0]["status"]["containerStatuses"], expected);
    }
    world.now = 119;
    let synced = world.sync(Kind::Pod, "web");
    assert!(synced.lines.is_empty());
    assert_eq!(synced.due, Some(at(120)));
}

#[test]
fn a_pod_ends_unless_its_containers_are_restarted() {
    let (succeeds, fails) = (
        PodFate::Succeeds { after: seconds(5) },
        PodFate::Fails { after: seconds(5) },
    );
    for (fate, policy, line, code) in [
        (
            succeeds,
            "Never",
            "(Completed): its containers have succeeded",
            Some(0),
        ),
        (
            succeeds,
            "OnFailure",
            "(Completed): its containers have succeeded",
            Some(0),
        ),
        (
            succeeds,
            "Always",
            "(Started): its containers run and are ready",
            None,
        ),
        (fails, "Never", "(Failed): its containers have failed", Some(1)),
    ] {
        let mut world = world(
            fate,
            pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]})),
        );
        assert_eq!(world.play(Kind::Pod, "web").due, Some(at(105)));
        world.now = 105;
        let synced = world.play(Kind::Pod, "web");
        assert_eq!(synced.lines, [format!("kubelet: status pod/web {line}")]);
        let status = &synced.objects[0]["status"];
        let Some(code) = code else {
            assert_eq!(
                status["containerStatuses"][0]["lastState"]["terminated"]["reason"],
                "Completed"
            );
            continue;
        };
        assert_eq!(synced.due, None);
        let (phase, exit, reason) = match code {
            0 => ("Succeeded", "Completed", "PodCompleted"),
            _ => ("Failed", "Error", "PodFailed"),
        };
        assert_eq!(status["phase"], phase);
        let terminated = json!({"terminated": {
            "exitCode": code, "reason": exit, "containerID": "containerd://Pod-web/c/0",
            "startedAt": time(100), "finishedAt": time(105),
        }});
        let mut ended = container("c", "i", false, terminated);
        ended["started"] = false.into();
        assert_eq!(status["containerStatuses"], json!([ended]));
        let initialized = match code {
            0 => {
                let mut condition = condition("Initialized", 100, None);
                condition["reason"] = reason.into();
                condition
            }
            _ => condition("Initialized", 100, None),
        };
        let conditions = json!([
            condition("PodReadyToStartContainers", 105, Some(("", ""))),
            initialized,
            condition("Ready", 105, Some((reason, ""))),
            condition("ContainersReady", 105, Some((reason, ""))),
            condition("PodScheduled", 100, None),
        ]);
        assert_eq!(status["conditions"], conditions);
        world.now = 200;
        assert!(
            world.sync(Kind::Pod, "web").lines.is_empty(),
            "an ended pod does not change"
        );
    }
}

#[test]
fn init_containers_have_completed_and_sidecars_run() {
    let init = json!([
        {"name": "init", "image": "i"},
        {"name": "sidecar", "image": "s", "restartPolicy": "Always"},
    ]);
    let mut world = world(
        PodFate::Ready { after: seconds(5) },
        pod(json!({"initContainers": init, "containers": [{"name": "c", "image": "web:1"}]})),
    );
    let completed = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "containerID": "containerd://Pod-web/init/0",
        "startedAt": time(100), "finishedAt": time(100),
    }});
    let mut init = container("init", "i", true, completed);
    init["started"] = false.into();
    let sidecar = |ready| {
        container(
            "sidecar",
            "s",
            ready,
            json!({"running": {"startedAt": time(100)}}),
        )
    };
    let synced = world.play(Kind::Pod, "web");
    let statuses = &synced.objects[0]["status"]["initContainerStatuses"];
    // The start of the pod is not known while it is written for the first time.
    assert_eq!(*statuses, json!([init, sidecar(false)]));
    world.now = 105;
    let synced = world.play(Kind::Pod, "web");
    let statuses = &synced.objects[0]["status"]["initContainerStatuses"];
    assert_eq!(
        *statuses,
        json!([init, sidecar(true)]),
        "the end of the init container stays"
    );

    let world = self::world(
        PodFate::Pending,
        pod(json!({"initContainers": [{"name": "init", "image": "i"}]})),
    );
    let status = &world.status(Kind::Pod, "web")["initContainerStatuses"][0];
    assert_eq!(
        status["state"],
        json!({"waiting": {"reason": "ContainerCreating"}})
    );
    assert_eq!([&status["ready"], &status["started"]], [false, false]);
}

#[test]
fn readiness_gates_must_be_true() {
    let gates = json!([{"conditionType": "shop/a"}, {"conditionType": "shop/b"}]);
    let message =
        |gate: &str| format!("the status of pod readiness gate \"{gate}\" is not \"True\", but False");
    for (known, closed) in [
        (json!([]), Some("shop/a")),
        (json!([{"type": "shop/a", "status": "True"}]), Some("shop/b")),
        (
            json!([{"type": "shop/a", "status": "False"}, {"type": "shop/b", "status": "True"}]),
            Some("shop/a"),
        ),
        (
            json!([{"type": "shop/a", "status": "True"}, {"type": "shop/b", "status": "True"}]),
            None,
        ),
    ] {
        let pod = merged(
            &pod(json!({"readinessGates": gates})),
            json!({"status": {"conditions": known}}),
        );
        let status = world(
            PodFate::Ready {
                after: Duration::ZERO,
            },
            pod,
        )
        .status(Kind::Pod, "web");
        let conditions = status["conditions"].as_array().unwrap();
        let of = |kind: &str| {
            conditions
                .iter()
                .find(|condition| condition["type"] == kind)
                .unwrap()
        };
        let texts = closed.map(|gate| ("ReadinessGatesNotReady", message(gate)));
        let why = texts
            .as_ref()
            .map(|(reason, message)| (*reason, message.as_str()));
        assert_eq!(*of("Ready"), condition("Ready", 100, why));
        assert_eq!(*of("ContainersReady"), condition("ContainersReady", 100, None));
        let kept = known.as_array().unwrap();
        assert_eq!(&conditions[..kept.len()], &kept[..], "conditions of others stay");
    }
}

#[test]
fn only_the_kubelet_of_a_reporting_node_writes() {
    let fate = PodFate::Ready {
        after: Duration::ZERO,
    };
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    for (node, writes) in [
        (Some(node()), 1),
        (None, 0),
        (Some(object(Kind::Node, "n1", lost)), 0),
    ] {
        let mut world = World::new(node.into_iter().chain([pod(json!({}))]));
        world.rules = Workloads::new().pods(move |_| Some(fate));
        assert_eq!(world.sync(Kind::Pod, "web").lines.len(), writes);
    }
}

/// After the grace period, only finalizers keep a pod.
#[test]
fn a_deleted_pod_is_killed_at_the_end_of_its_grace_period() {
    let fate = PodFate::Ready {
        after: Duration::ZERO,
    };
    let running = {
        let mut world = world(fate, pod(json!({})));
        world.play(Kind::Pod, "web").objects.remove(0)
    };
    let deleted = deleting(running);
    assert!(
        world(fate, deleted.clone())
            .sync(Kind::Pod, "web")
            .lines
            .is_empty()
    );
    let due = merged(&deleted, json!({"metadata": {"deletionGracePeriodSeconds": 0}}));
    let mut world = world(fate, due);
    world.now = 130;
    world.expect(
        Kind::Pod,
        "web",
        &["kubelet: status pod/web (Failed): its containers have failed"],
    );
    let status = world.status(Kind::Pod, "web");
    let terminated = json!({
        "exitCode": 137, "reason": "Error", "containerID": "containerd://Pod-web/c/0",
        "startedAt": time(100), "finishedAt": time(130),
    });
    assert_eq!(
        status["containerStatuses"][0]["state"],
        json!({"terminated": terminated})
    );
}

#[test]
fn running_containers_are_restarted_on_demand() {
    let fate = PodFate::Ready { after: seconds(5) };
    let mut world = world(fate, pod(json!({"containers": [{"name": "c", "image": "i"}]})));
    let restart = |world: &World| world.read(pods::restart(&world.view(), &world.stored(Kind::Pod, "web")));
    assert!(restart(&world).lines.is_empty(), "nothing runs yet");
    world.play(Kind::Pod, "web");
    world.now = 150;
    world.play(Kind::Pod, "web");
    world.now = 160;
    let restarted = restart(&world);
    assert_eq!(
        restarted.lines,
        ["kubelet: status pod/web (Started): its containers run"]
    );
    let status = &restarted.objects[0]["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["state"], json!({"running": {"startedAt": time(160)}}));
    let last = &status["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["finishedAt"]), (&json!(1), &time(160)));
    world.put(restarted.objects[0].clone());
    assert_eq!(world.sync(Kind::Pod, "web").due, Some(at(165)));
    world.put(deleting(restarted.objects[0].clone()));
    assert!(restart(&world).lines.is_empty(), "a deleted pod is not restarted");
}
