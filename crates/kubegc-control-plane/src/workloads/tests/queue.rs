//! The queue of keys, and the execution of plans.

use kubegc_sim::EventType;

use super::*;
use crate::{Act, Actor, ControlPlane, Settings, StepResult, Why, workloads::queue::WorkloadQueue};

fn labelled(object: Value, labels: Value) -> Value {
    merged(&object, json!({"metadata": {"labels": labels}}))
}

/// The keys that a change of an object adds to the queue.
fn affected(world: &World, event: EventType, object: Value, previous: Option<Value>) -> Vec<(Kind, String)> {
    let mut queue = WorkloadQueue::new(Arc::new(Workloads::new()), &world.server);
    while queue.next(at(0)).is_some() {}
    let kind = object["kind"].as_str().unwrap();
    let id = world
        .server
        .catalog()
        .mapping(object["apiVersion"].as_str().unwrap(), kind)
        .unwrap();
    let [object, previous] =
        [Some(object), previous].map(|json| json.map(|json| Manifest::read(json).unwrap().object));
    queue.observe(
        &world.server,
        id,
        (event, &object.unwrap(), previous.as_ref()),
        Some(7),
    );
    let mut keys = Vec::new();
    while let Some(((kind, _, name), cause)) = queue.next(at(0)) {
        assert_eq!(cause, Some(7));
        keys.push((kind, name.to_string()));
    }
    keys
}

#[test]
fn a_change_enqueues_the_keys_that_it_affects() {
    let web = object(Kind::Deployment, "web", json!({}));
    let set = controlled(&web, object(Kind::ReplicaSet, "web-1", json!({})));
    let daemons = object(Kind::DaemonSet, "log", json!({}));
    let app = || json!({"app": "web"});
    let a = labelled(controlled(&set, merged(&ready_pod("a", 0), json!({}))), app());
    let b = controlled(&set, pod_in("b", "Pending"));
    let c = merged(&ready_pod("c", 0), json!({"spec": {"nodeName": "n2"}}));
    let claim = object(Kind::Claim, "data", json!({}));
    let volume = |reference: Value| object(Kind::Volume, "disk", json!({"spec": {"claimRef": reference}}));
    let revision = object(Kind::Revision, "r", json!({}));
    let selector = json!({"spec": {"selector": {"matchLabels": app()}}});
    let node = object(Kind::Node, "n1", json!({}));
    let world = World::new([
        node.clone(),
        object(Kind::Node, "n2", json!({})),
        web.clone(),
        set.clone(),
        daemons.clone(),
        object(Kind::StatefulSet, "db", json!({})),
        object(Kind::Budget, "budget", selector),
        a.clone(),
        b,
        c.clone(),
        claim.clone(),
        volume(json!({"namespace": "shop", "name": "data"})),
        revision.clone(),
    ]);
    let (modified, deleted) = (EventType::Modified, EventType::Deleted);
    let [pod_a, pod_b, pod_c] = ["a", "b", "c"].map(|name| (Kind::Pod, name));
    let set_key = (Kind::ReplicaSet, "web-1");
    let sets = [(Kind::StatefulSet, "db"), (Kind::DaemonSet, "log")];
    let budget = (Kind::Budget, "budget");
    let web_key = (Kind::Deployment, "web");
    let free = labelled(ready_pod("a", 0), app());
    let of_shop = {
        let shop =
            json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s", "uid": "u1"}});
        controlled(&shop, c.clone())
    };
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"}});
    for (event, object, previous, expected) in [
        (modified, a.clone(), Some(a.clone()), vec![pod_a, set_key, budget]),
        (
            deleted,
            a.clone(),
            Some(a.clone()),
            vec![pod_a, set_key, web_key, budget],
        ),
        (
            modified,
            c.clone(),
            Some(c.clone()),
            vec![pod_c, sets[0], sets[1]],
        ),
        (
            modified,
            free,
            Some(a.clone()),
            vec![pod_a, set_key, sets[0], sets[1], budget],
        ),
        (
            modified,
            c.clone(),
            Some(labelled(c.clone(), app())),
            vec![pod_c, sets[0], sets[1], budget],
        ),
        (modified, of_shop, None, vec![pod_c]),
        (
            modified,
            node,
            None,
            vec![(Kind::Node, "n1"), pod_a, pod_b, sets[1]],
        ),
        (modified, claim.clone(), None, vec![(Kind::Claim, "data"), pod_b]),
        (deleted, claim, None, vec![(Kind::Claim, "data"), pod_b, sets[0]]),
        (
            modified,
            volume(json!({"namespace": "shop", "name": "data"})),
            None,
            vec![(Kind::Volume, "disk"), (Kind::Claim, "data")],
        ),
        (modified, volume(json!(null)), None, vec![(Kind::Volume, "disk")]),
        (
            modified,
            revision.clone(),
            None,
            vec![(Kind::Revision, "r"), sets[0], sets[1]],
        ),
        (
            modified,
            controlled(&daemons, revision),
            None,
            vec![(Kind::Revision, "r"), sets[1]],
        ),
        (modified, set.clone(), Some(set.clone()), vec![set_key, web_key]),
        (deleted, set.clone(), Some(set), vec![set_key, web_key]),
        (modified, secret, None, vec![]),
    ] {
        let keys = affected(&world, event, object.clone(), previous);
        let keys: Vec<(Kind, &str)> = keys.iter().map(|(kind, name)| (*kind, &**name)).collect();
        assert_eq!(keys, expected, "{event:?} {object}");
    }
}

/// A control plane that runs only the workloads.
struct Played {
    server: ApiServer,
    plane: ControlPlane,
}

impl Played {
    fn new(rules: Option<Workloads>, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = World::new(objects);
        let namespaces = world.server.catalog().mapping("v1", "Namespace").unwrap();
        world.server.set_now(at(0));
        world
            .server
            .create_json(namespaces, "", json!({"metadata": {"name": "shop"}}));
        let settings = Settings {
            controllers: Vec::new(),
            collector_runs: false,
            workloads: rules.map(Arc::new),
            ..Settings::new(KubernetesVersion::LATEST)
        };
        let plane = ControlPlane::new(&world.server, settings);
        Self {
            server: world.server,
            plane,
        }
    }

    fn settle(&mut self) -> crate::Idle {
        for _ in 0..1_000 {
            if let StepResult::Idle(idle) = self.plane.step(&mut self.server) {
                return idle;
            }
        }
        panic!("not settled after 1,000 steps")
    }

    fn get(&self, kind: Kind, name: &str) -> Value {
        let namespace = if kind == Kind::Node { "" } else { "shop" };
        let id = kind.id(&self.server).unwrap();
        let object = find(&self.server, kind, namespace, name).unwrap();
        object.to_json(&self.server.catalog()[id])
    }
}

fn replica_set(replicas: u64) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec =
        json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    object(Kind::ReplicaSet, "web", json!({"spec": spec}))
}

/// Actor, verb, name, status code, reason and causes of a step.
type Shown<'s> = (Actor, Act, &'s str, u16, &'s str, &'s [usize]);

#[test]
fn a_replica_set_gets_a_ready_pod_write_by_write() {
    let node = super::super::ready_node("n1", at(0));
    let mut played = Played::new(Some(Workloads::new()), [node]);
    // With types, the server records who wrote which field.
    played.server = played.server.with_settings(kubegc_sim::Settings {
        types: true,
        ..kubegc_sim::Settings::default()
    });
    let sets = Kind::ReplicaSet.id(&played.server).unwrap();
    let web = json!({"metadata": {"name": "web"}, "spec": replica_set(1)["spec"]});
    let response = played.server.create_json(sets, "shop", web);
    assert_eq!(response.code, 201, "{:?}", response.status());
    let before = played.server.field_manager().to_owned();
    let idle = played.settle();
    assert_eq!(idle.next_at(), None, "{:#?}", played.plane.steps());
    assert_eq!(played.server.field_manager(), before, "it is restored");
    let pods = Kind::Pod.id(&played.server).unwrap();
    let pod = played.server.objects(pods, Some("shop")).remove(0);
    let name = &*pod.meta.name;
    assert!(name.starts_with("web-") && name.len() > 4);
    let controller = Actor::Controller("replicaset-controller");
    let steps = played.plane.steps().iter().map(|step| {
        let Why::Controller(why) = &step.why else {
            panic!("{step:?}")
        };
        (
            step.actor,
            step.act,
            &*step.object.name,
            step.code,
            why.code(),
            &step.causes[..],
        )
    });
    let expected: [Shown<'_>; 4] = [
        (controller, Act::Create, name, 201, "SuccessfulCreate", &[]),
        (
            Actor::Controller("default-scheduler"),
            Act::Update,
            name,
            201,
            "Scheduled",
            &[0],
        ),
        (Actor::Kubelet, Act::Update, name, 200, "Started", &[1]),
        (controller, Act::Update, "web", 200, "StatusChanged", &[2]),
    ];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
    assert_eq!(played.plane.steps()[0].object.uid, pod.meta.uid);
    let managers = &played.get(Kind::Pod, name)["metadata"]["managedFields"];
    let managers: Vec<&str> = managers
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(
        managers,
        ["default-scheduler", "kube-controller-manager", "kubelet"]
    );
}

/// A failed plan is repeated after 5 ms, and twice as long after each further failure.
#[test]
fn failed_plans_are_retried_with_a_growing_delay() {
    let mut played = Played::new(Some(Workloads::new()), [replica_set(3)]);
    let namespaces = played.server.catalog().mapping("v1", "Namespace").unwrap();
    // Nothing can be created in a terminating namespace.
    played.server.delete(namespaces, "", "shop", &Default::default());
    let mut delays = Vec::new();
    for _ in 0..20 {
        let retry = played.settle().retry_at.unwrap();
        delays.push(retry.since(played.server.now()).as_millis());
        assert_eq!(played.settle().retry_at, Some(retry), "not before");
        played.server.set_now(retry);
    }
    let expected: Vec<u128> = (0..20)
        .map(|failures| (5_u128 << failures).min(1_000_000))
        .collect();
    assert_eq!(delays, expected);
    let steps = played.plane.steps();
    assert_eq!(steps.len(), 20, "the first failure ends the plan");
    let first = &steps[0];
    assert_eq!(
        (first.act, first.code, &*first.object.kind, &*first.object.name),
        (Act::Create, 403, "Pod", "")
    );
    // A plan without failures, or without writes, ends the retries.
    let sets = Kind::ReplicaSet.id(&played.server).unwrap();
    let patch = br#"{"spec": {"replicas": 0}}"#;
    played
        .server
        .patch(sets, "shop", "web", "application/merge-patch+json", patch);
    let idle = played.settle();
    assert_eq!((idle.retry_at, idle.next_at()), (None, None));
    assert_eq!(played.get(Kind::ReplicaSet, "web")["status"]["replicas"], 0);
}

#[test]
fn keys_are_synced_again_when_they_are_due() {
    let node = super::super::ready_node("n1", at(0));
    let pod = object(
        Kind::Pod,
        "web",
        json!({"spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}),
    );
    let after = Duration::from_secs(5);
    let rules = Workloads::new().pods(move |_| Some(PodFate::Ready { after }));
    let mut played = Played::new(Some(rules), [node, pod]);
    let idle = played.settle();
    assert_eq!((idle.certain_at, idle.next_at()), (Some(at(5)), Some(at(5))));
    let phase = |played: &Played| {
        let pod = played.get(Kind::Pod, "web");
        pod["status"]["containerStatuses"][0]["ready"].as_bool()
    };
    played.server.set_now(at(4));
    assert_eq!(
        (played.settle().certain_at, phase(&played)),
        (Some(at(5)), Some(false))
    );
    played.server.set_now(at(5));
    assert_eq!((played.settle().certain_at, phase(&played)), (None, Some(true)));

    // Other rules are applied at once.
    played
        .plane
        .set_workloads(&played.server, Workloads::new().pods(|_| Some(PodFate::NotReady)));
    played.settle();
    assert_eq!(phase(&played), Some(false));
    // A test restarts the containers of a pod, and stops a kubelet.
    assert_eq!(
        played.plane.restart_pod(&mut played.server, "shop", "web"),
        Some(200)
    );
    assert_eq!(
        played.get(Kind::Pod, "web")["status"]["containerStatuses"][0]["restartCount"],
        1
    );
    assert_eq!(played.plane.restart_pod(&mut played.server, "shop", "none"), None);
    assert_eq!(
        played.plane.set_node_runs(&mut played.server, "n1", false),
        Some(200)
    );
    assert_eq!(
        played.get(Kind::Node, "n1")["status"]["conditions"][3]["status"],
        "Unknown"
    );
    assert_eq!(
        played.plane.set_node_runs(&mut played.server, "none", false),
        None
    );
}

#[test]
fn workloads_can_be_enabled_later() {
    let node = super::super::ready_node("n1", at(0));
    let mut played = Played::new(None, [node, replica_set(2)]);
    let pods = Kind::Pod.id(&played.server).unwrap();
    played.settle();
    assert!(played.plane.steps().is_empty());
    assert_eq!(played.plane.set_node_runs(&mut played.server, "n1", false), None);
    played.plane.set_workloads(&played.server, Workloads::new());
    played.settle();
    assert_eq!(played.server.objects(pods, Some("shop")).len(), 2);
}

/// It would create and release pods endlessly.
#[test]
fn an_owner_whose_selector_does_not_match_its_template_does_nothing() {
    for kind in [
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Deployment,
    ] {
        let spec = merged(
            &replica_set(1)["spec"],
            json!({"selector": {"matchLabels": {"app": "other"}}}),
        );
        let node = super::super::ready_node("n1", at(0));
        let mut played = Played::new(
            Some(Workloads::new()),
            [node, object(kind, "web", json!({"spec": spec}))],
        );
        played.settle();
        assert!(played.plane.steps().is_empty(), "{kind:?}");
    }
}
