//! A control plane over a server that clients write to between its steps.

mod actors;
mod bounds;
mod requests;
mod workloads;

use std::{sync::Arc, time::Duration};

use kubegc_control_plane::{
    Act, Actor, AggregatedApi, Assumptions, ControlPlane, Idle, Instance, Outcome, Settings, Simulation,
    Step, StepResult, Why, object_ref,
};
use kubegc_core::{
    Catalog, KindId, KubernetesVersion, ObjectRef, PropagationPolicy, Timestamp, record::Resource,
};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};

const VERSION: KubernetesVersion = KubernetesVersion::LATEST;

fn settings() -> Settings {
    Settings::new(VERSION)
}

fn without_collector() -> Settings {
    Settings {
        collector_runs: false,
        ..settings()
    }
}

struct Fixture {
    server: ApiServer,
    plane: ControlPlane,
}

impl Fixture {
    fn new(settings: Settings) -> Self {
        Self::at(VERSION, settings)
    }

    fn at(version: KubernetesVersion, settings: Settings) -> Self {
        let mut server = ApiServer::new(version, Catalog::builtin(version));
        server.set_now(Timestamp::from_secs(1_000));
        let plane = ControlPlane::new(&server, settings);
        let mut fixture = Self { server, plane };
        fixture.add("Namespace", json!({"metadata": {"name": "shop"}}));
        fixture
    }

    /// The id of a kind, and the namespace of its objects.
    fn id(&self, kind: &str) -> (KindId, &'static str) {
        let mut kinds = self.server.catalog().iter();
        let (id, resource) = kinds
            .find(|(_, resource)| resource.preferred && *resource.kind == *kind)
            .unwrap();
        (id, if resource.is_namespaced() { "shop" } else { "" })
    }

    fn kind(&self, kind: &str) -> KindId {
        self.id(kind).0
    }

    /// Creates an object, in the namespace `shop` if it names no other, and returns its uid.
    #[track_caller]
    fn add(&mut self, kind: &str, object: Value) -> String {
        let (id, default) = self.id(kind);
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(default)
            .to_owned();
        let response = self.server.create_json(id, &namespace, object);
        assert_eq!(response.code, 201, "{kind}: {:?}", response.status());
        response.object().unwrap().meta.uid.to_string()
    }

    /// Defines a kind and creates its object `a`. Returns owner references to it.
    fn define_an_owner(&mut self) -> Value {
        self.add("CustomResourceDefinition", definition());
        let owner = self.add("Shop", json!({"metadata": {"name": "a"}}));
        owned_by("example.com/v1", "Shop", "a", &owner)
    }

    fn delete(&mut self, kind: &str, name: &str) {
        let (id, namespace) = self.id(kind);
        let response = self.server.delete(id, namespace, name, &Default::default());
        assert!(response.is_success(), "{:?}", response.status());
    }

    fn find(&self, kind: &str, name: &str) -> Option<&StoredObject> {
        let (id, namespace) = self.id(kind);
        self.server.object(id, namespace, name).map(|object| &**object)
    }

    fn exists(&self, kind: &str, name: &str) -> bool {
        self.find(kind, name).is_some()
    }

    /// The identity of an object that exists.
    fn identity(&self, kind: &str, name: &str) -> ObjectRef {
        let meta = &self.find(kind, name).unwrap().meta;
        object_ref(&self.server, self.kind(kind), &meta.clone().into())
    }

    /// Steps until there is nothing to do at this time.
    fn settle(&mut self) -> Idle {
        for _ in 0..10_000 {
            if let StepResult::Idle(idle) = self.plane.step(&mut self.server) {
                return idle;
            }
        }
        panic!("not settled after 10,000 steps")
    }

    /// Advances the time, from one event to the next.
    fn advance(&mut self, time: Duration) {
        let end = self.server.now().saturating_add(time);
        loop {
            match self.settle().next_at() {
                Some(next) if next <= end => self.server.set_now(next),
                _ => break,
            }
        }
        self.server.set_now(end);
        self.settle();
    }
}

fn owned_by(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}])
}

fn definition() -> Value {
    json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
    })
}

#[test]
fn kinds_defined_later_are_collected_at_once() {
    let mut fixture = Fixture::new(settings());
    fixture.settle();
    let references = fixture.define_an_owner();
    fixture.add(
        "ConfigMap",
        json!({"metadata": {"name": "config", "ownerReferences": references}}),
    );
    fixture.settle();
    assert!(fixture.exists("ConfigMap", "config"));
    fixture.delete("Shop", "a");
    fixture.settle();
    assert!(!fixture.exists("ConfigMap", "config"));
}

/// The collector knows the owners that it has listed, also those that no dependent blocks.
#[test]
fn objects_of_the_first_list_are_known() {
    let mut fixture = Fixture::new(without_collector());
    let owner = fixture.add("Secret", json!({"metadata": {"name": "owner"}}));
    let references = owned_by("v1", "Secret", "owner", &owner);
    fixture.add(
        "ConfigMap",
        json!({"metadata": {"name": "free", "finalizers": ["shop/hold"], "ownerReferences": references}}),
    );
    fixture.plane = ControlPlane::new(&fixture.server, settings());
    let secrets = fixture.kind("Secret");
    let foreground = kubegc_core::DeleteOptions::policy(PropagationPolicy::Foreground);
    fixture.server.delete_with(secrets, "shop", "owner", &foreground);
    fixture.settle();
    let dependent = fixture.find("ConfigMap", "free").unwrap();
    assert!(
        dependent.meta.is_deleting(),
        "a foreground deletion deletes every dependent"
    );
    assert!(
        !fixture.exists("Secret", "owner"),
        "and waits only for those that block it"
    );
}

/// A pod has its own grace period, not that of a former pod of the same name.
#[test]
fn a_pod_of_the_same_name_ends_at_its_own_time() {
    let mut fixture = Fixture::new(settings());
    // podgc deletes pods of nodes that do not exist.
    fixture.add("Node", json!({"metadata": {"name": "n1"}}));
    let pods = fixture.kind("Pod");
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30}});
    let graceful = |seconds| kubegc_core::deletion::DeleteOptionsSpec {
        grace_period_seconds: Some(seconds),
        ..Default::default()
    };
    fixture.add("Pod", pod.clone());
    fixture.server.delete(pods, "shop", "web", &graceful(30));
    fixture.settle();
    fixture.server.delete(pods, "shop", "web", &graceful(0));
    fixture.settle();
    fixture.add("Pod", pod);
    fixture.server.delete(pods, "shop", "web", &graceful(300));
    fixture.advance(Duration::from_secs(299));
    assert!(fixture.exists("Pod", "web"));
    fixture.advance(Duration::from_secs(2));
    assert!(!fixture.exists("Pod", "web"));
}

#[test]
fn a_control_plane_without_collector_keeps_dependents() {
    let mut fixture = Fixture::new(without_collector());
    let references = owned_by("v1", "Secret", "gone", "u1");
    fixture.add(
        "ConfigMap",
        json!({"metadata": {"name": "left", "ownerReferences": references}}),
    );
    fixture.add("CustomResourceDefinition", definition());
    fixture.advance(Duration::from_secs(600));
    assert!(fixture.exists("ConfigMap", "left"));
    let steps = fixture.plane.steps();
    assert!(
        steps.iter().all(|step| step.actor == Actor::ApiServer),
        "{steps:?}"
    );
}

#[test]
fn events_that_watchers_have_not_read_are_kept() {
    let mut fixture = Fixture::new(settings());
    let before = fixture.server.revision();
    let secrets = fixture.kind("Secret");
    fixture.add("Secret", json!({"metadata": {"name": "key"}}));
    fixture.settle();
    let names: Vec<Arc<str>> = fixture
        .server
        .events_since(secrets, before)
        .unwrap()
        .map(|event| Arc::clone(&event.object.meta.name))
        .collect();
    assert_eq!(names, ["key".into()]);
}

#[test]
fn a_simulation_runs_to_a_time_or_until_nothing_changes_and_names_causes() {
    let mut fixture = Fixture::new(settings());
    fixture.add("Node", json!({"metadata": {"name": "n1"}}));
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30}});
    let pod = fixture.add("Pod", pod);
    let references = owned_by("v1", "Pod", "web", &pod);
    fixture.add(
        "Secret",
        json!({"metadata": {"name": "key", "ownerReferences": references}}),
    );
    let [web, key] = [("Pod", "web"), ("Secret", "key")].map(|(kind, name)| fixture.identity(kind, name));
    let pods = fixture.kind("Pod");
    let mut simulation = Simulation::of(fixture.server, fixture.plane);
    simulation.run_until_quiet();
    let options = kubegc_core::DeleteOptions::policy(PropagationPolicy::Background);
    let began = simulation.server.now();
    let Simulation { server, plane, .. } = &mut simulation;
    plane.delete(server, pods, web.clone(), &options, 0);
    let after = |seconds| began.saturating_add(Duration::from_secs(seconds));
    simulation.run_until(after(29));
    assert!(simulation.server.object(pods, "shop", "web").is_some());
    simulation.run_until_quiet();
    assert!(simulation.server.object(pods, "shop", "web").is_none());

    let steps = simulation.plane.steps();
    let intent = steps.iter().position(|step| step.why == Why::Intent(0)).unwrap();
    let (end, _) = simulation.plane.trace().removal(&web).expect("it is removed");
    assert_eq!((end.actor, &end.why), (Actor::Kubelet, &Why::GracePeriodExpired));
    assert_eq!((&end.causes[..], end.at.as_secs()), (&[intent][..], 30));
    let (collected, object) = simulation.plane.trace().removal(&key).expect("it is removed");
    let end = steps.iter().position(|step| step == end).unwrap();
    assert_eq!(
        (collected.actor, &collected.causes[..]),
        (Actor::GarbageCollector, &[end][..])
    );
    assert_eq!(**object, key);
}

#[test]
fn changes_are_delivered_to_the_collector_in_a_chosen_order() {
    let mut fixture = Fixture::new(settings());
    fixture.settle();
    fixture.add("Secret", json!({"metadata": {"name": "key"}}));
    fixture.add("ConfigMap", json!({"metadata": {"name": "config"}}));
    fixture.plane.observe(&mut fixture.server);
    let [secrets, config_maps] = ["Secret", "ConfigMap"].map(|kind| fixture.kind(kind));
    assert_eq!(fixture.plane.pending_kinds(), [secrets, config_maps].into());
    let len = fixture.plane.collector().graph().len();
    fixture.plane.deliver_next(config_maps);
    let pending: Vec<KindId> = fixture.plane.pending().map(|(kind, ..)| kind).collect();
    assert_eq!(pending, [secrets]);
    assert_eq!(fixture.plane.collector().graph().len(), len + 1);
}
