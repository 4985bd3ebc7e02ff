//! Pods on tainted nodes, VolumeAttachments and API server Leases.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{
    ApiServerLeases, BatchPlanner, Context, Controller as _, Deadlines, Key, TaintEviction,
    VolumeAttachments, Wire,
};
use kubegc_core::{
    Planner as _, Uid,
    record::{
        Body, ClaimRef, Condition, Field, Lease, Node, PersistentVolume, PersistentVolumeSource, Pod,
        PodVolume, Record, Resource, Taint, Toleration, VolumeAttachment, VolumeSource,
    },
};

fn taint(key: &str, effect: &str, added: Option<i64>) -> Taint {
    Taint {
        time_added: added.map(secs),
        ..Taint::new(key, effect)
    }
}

fn node(taints: Vec<Taint>) -> (Resource, Record) {
    let node = Node {
        taints: taints.into(),
        ..Node::default()
    };
    (Resource::Nodes, object("", "n", Body::Node(node)))
}

fn tolerating(key: &str, operator: &str, effect: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: key.into(),
        operator: operator.into(),
        effect: effect.into(),
        toleration_seconds: seconds,
        value: "".into(),
    }
}

fn pod(tolerations: Vec<Toleration>) -> (Resource, Record) {
    let pod = Pod {
        node_name: Field::Known("n".into()),
        tolerations: tolerations.into(),
        ..Pod::default()
    };
    (Resource::Pods, object("shop", "p", Body::Pod(pod)))
}

#[test]
fn pods_are_evicted_by_taints_and_tolerations() {
    let controller = TaintEviction::new(version(34));
    let exists = |seconds| tolerating("a", "Exists", "", seconds);
    let a = |added| taint("a", "NoExecute", added);
    for (taints, tolerations, expected) in [
        (vec![], vec![], "keep NoTaint"),
        (vec![taint("a", "NoSchedule", None)], vec![], "keep NoTaint"),
        (vec![a(None)], vec![], "delete TaintNotTolerated"),
        (vec![a(None)], vec![exists(None)], "keep Tolerated"),
        (
            vec![a(None)],
            vec![tolerating("", "Exists", "", None)],
            "keep Tolerated",
        ),
        (
            vec![a(None)],
            vec![tolerating("a", "", "NoExecute", None)],
            "keep Tolerated",
        ),
        (
            vec![a(None)],
            vec![tolerating("a", "", "NoSchedule", None)],
            "delete TaintNotTolerated",
        ),
        (
            vec![a(None)],
            vec![tolerating("b", "Exists", "", None)],
            "delete TaintNotTolerated",
        ),
        (
            vec![a(None), taint("b", "NoExecute", None)],
            vec![exists(None)],
            "delete TaintNotTolerated",
        ),
        (vec![a(None)], vec![exists(Some(300))], "next 400"),
        (vec![a(Some(50))], vec![exists(Some(300))], "next 350"),
        (
            vec![a(Some(50))],
            vec![exists(Some(50))],
            "delete TolerationEnded",
        ),
        (
            vec![a(Some(100))],
            vec![exists(Some(-5))],
            "delete TolerationEnded",
        ),
        // The first toleration that fits counts, then the least of all taints.
        (
            vec![a(Some(90))],
            vec![exists(Some(20)), exists(Some(1))],
            "next 110",
        ),
        (
            vec![a(Some(90))],
            vec![exists(None), exists(Some(1))],
            "keep Tolerated",
        ),
        (
            vec![a(Some(90)), taint("b", "NoExecute", Some(95))],
            vec![exists(Some(20)), tolerating("b", "Exists", "", Some(30))],
            "next 115",
        ),
    ] {
        let objects = [node(taints), pod(tolerations)];
        let known = cache(&controller, objects.to_vec());
        let lines = plan(&controller, &known, secs(100));
        let found = match lines.as_slice() {
            [_, patch, delete] => {
                assert!(patch.starts_with("patch status of pod/p"), "{lines:?}");
                delete.replace("pod/p -n shop: ", "")
            }
            [_, next] => next.replace("next at", "next"),
            [keep] => keep.replace("pod/p -n shop: ", ""),
            _ => String::new(),
        };
        assert_eq!(found, expected, "{lines:?}");
        assert_cautious(&controller, &objects, secs(100));
    }
}

#[test]
fn an_eviction_keeps_its_time_until_it_is_cancelled() {
    let controller = TaintEviction::new(version(34));
    let stored = Deadlines::from([("eviction".into(), secs(120))]);
    let decide = |taints, seconds, now| {
        let objects = vec![node(taints), pod(vec![tolerating("a", "Exists", "", seconds)])];
        let known = cache(&controller, objects);
        let cx = Context {
            cache: &known,
            now: secs(now),
            wire: Wire::AsUpstream,
            deadlines: &stored,
            cloud: None,
            failures: 0,
        };
        controller.reconcile(&cx, &Key::new("shop", "p"))
    };
    let a = || vec![taint("a", "NoExecute", Some(100))];
    assert_eq!(decide(a(), Some(300), 110).requeue_at, Some(secs(120)));
    assert_eq!(decide(a(), Some(300), 120).actions.len(), 1);
    for cancelled in [decide(vec![], Some(300), 110), decide(a(), None, 110)] {
        assert_eq!(cancelled.deadlines, Some(Deadlines::new()));
    }
}

#[test]
fn an_eviction_sets_the_condition_and_deletes_the_pod() {
    let objects = || vec![node(vec![taint("a", "NoExecute", None)]), pod(vec![])];
    for (minor, expected) in [(25, 1), (26, 2)] {
        let controller = TaintEviction::new(version(minor));
        let mut known = cache(&controller, objects());
        let requests = run(&controller, &mut known, secs(1));
        assert_eq!(requests.len(), expected, "{requests:?}");
        assert_eq!(requests.last().map(String::as_str), Some("delete pod/p -n shop"));
    }
    let controller = TaintEviction::new(version(34));
    let mut held = objects();
    held[1].1 = held[1].1.clone().finalizer("example.com/hold");
    assert_eq!(
        run(&controller, &mut cache(&controller, held), secs(1)),
        [
            "patch status of pod/p -n shop DisruptionTarget=True DeletionByTaintManager",
            "delete pod/p -n shop"
        ]
    );
}

#[test]
fn attachments_wait_for_pods_and_nodes() {
    let controller = VolumeAttachments::new(version(34));
    let attachment = |volume: &str| {
        let body = VolumeAttachment {
            node_name: Field::Known("n".into()),
            volume_name: Field::Known(volume.into()),
        };
        (
            Resource::VolumeAttachments,
            object("", "va", Body::VolumeAttachment(body)),
        )
    };
    let volume = {
        let body = PersistentVolume {
            claim_ref: Some(ClaimRef {
                namespace: "shop".into(),
                name: "c".into(),
                uid: Uid::new("u-c"),
            })
            .into(),
            source: Field::Known(PersistentVolumeSource::Csi {
                driver: "d".into(),
                handle: "v".into(),
            }),
            ..PersistentVolume::default()
        };
        (
            Resource::PersistentVolumes,
            object("", "pv", Body::PersistentVolume(body)),
        )
    };
    let pod = |node: &str, phase: &str| {
        let body = Pod {
            node_name: Field::Known(node.into()),
            phase: Field::Known(phase.into()),
            volumes: vec![PodVolume {
                name: "data".into(),
                source: VolumeSource::Claim("c".into()),
            }]
            .into(),
            ..Pod::default()
        };
        (Resource::Pods, object("shop", "p", Body::Pod(body)))
    };
    let node = |in_use: bool, ready: &str, out_of_service: bool| {
        let body = Node {
            volumes_in_use: if in_use {
                vec!["kubernetes.io/csi/d^v".into()]
            } else {
                vec![]
            }
            .into(),
            conditions: vec![Condition::new("Ready", ready)].into(),
            taints: if out_of_service {
                vec![Taint::new("node.kubernetes.io/out-of-service", "NoExecute")]
            } else {
                vec![]
            }
            .into(),
            ..Node::default()
        };
        (Resource::Nodes, object("", "n", Body::Node(body)))
    };
    let base = || vec![attachment("pv"), volume.clone()];
    for (more, expected) in [
        (
            vec![pod("n", "Running"), node(false, "True", false)],
            "keep InUse",
        ),
        (
            vec![pod("n", "Succeeded"), node(false, "True", false)],
            "delete Unused",
        ),
        (
            vec![pod("other", "Running"), node(false, "True", false)],
            "delete Unused",
        ),
        (vec![node(true, "True", false)], "keep Mounted"),
        (vec![node(true, "True", true)], "delete NodeOutOfService"),
        (vec![node(true, "False", false)], "keep NodeNotReady next 370"),
        (vec![], "keep NodeDeleted next 370"),
    ] {
        let mut objects = base();
        objects.extend(more);
        let lines = plan(&controller, &cache(&controller, objects.clone()), secs(10));
        let found = lines
            .join(" ")
            .replace("volumeattachment.storage.k8s.io/va: ", "")
            .replace("next at", "next");
        assert_eq!(found, expected);
        assert_cautious(&controller, &objects, secs(10));
    }
    let known = cache(&controller, base());
    let stored = Deadlines::from([("detach".into(), secs(370))]);
    let planner = BatchPlanner::new(controller).wire(Wire::AsUpstream);
    let plan_at = |now| {
        planner
            .plan_with(&known, secs(now), |_| (Some(&stored), None))
            .actions
            .len()
    };
    assert_eq!(
        (
            plan_at(369),
            plan_at(370),
            planner.plan(&known, secs(370)).actions.len()
        ),
        (0, 1, 0)
    );
    let inline = cache(&controller, vec![attachment("")]);
    assert_eq!(
        plan(&controller, &inline, secs(0)),
        ["unknown volumeattachment.storage.k8s.io/va: OutsideUnknown"]
    );
}

#[test]
fn leases_of_api_servers_expire() {
    let lease = |name: &str, renewed: Option<i64>, seconds: Option<i32>| {
        let body = Lease {
            renew_time: renewed.map(secs).into(),
            lease_duration_seconds: seconds.into(),
        };
        let record = object("kube-system", name, Body::Lease(body));
        (
            Resource::Leases,
            record.label("apiserver.kubernetes.io/identity", "kube-apiserver"),
        )
    };
    let mut other = lease("other", None, None);
    other.1.meta.labels.clear();
    let mut old = other.clone();
    old.1 = object("kube-system", "old", Body::Lease(Lease::default()))
        .label("k8s.io/component", "kube-apiserver");
    let objects = [
        lease("fresh", Some(100), Some(3_600)),
        lease("late", Some(99), Some(3_600)),
        lease("never", None, Some(3_600)),
        other,
        old,
    ];
    for (minor, expected) in [(25, ""), (26, "old"), (27, "late never old"), (34, "late never")] {
        let controller = ApiServerLeases::new(version(minor));
        let mut known = cache(&controller, objects.to_vec());
        let requests = run(&controller, &mut known, secs(3_700));
        let names: Vec<&str> = requests
            .iter()
            .filter_map(|line| {
                line.strip_prefix("delete lease.coordination.k8s.io/")?
                    .split(' ')
                    .next()
            })
            .collect();
        assert_eq!(names.join(" "), expected, "{minor}");
        assert_cautious(&controller, &objects, secs(3_700));
    }
}
