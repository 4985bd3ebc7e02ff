//! The control plane over a server that clients write to between its steps: new kinds, namespaces, pods, and a plane that does not collect.

use std::{sync::Arc, time::Duration};

use kubegc_core::{Catalog, KindId, KubernetesVersion, Timestamp};
use kubegc_predict::{Assumptions, ControlPlane, Turn};
use kubegc_sim::ApiServer;
use serde_json::{Value, json};

struct World {
    server: ApiServer,
    plane: ControlPlane,
}

impl World {
    fn new(start: impl FnOnce(&ApiServer, Assumptions) -> ControlPlane) -> Self {
        let version = KubernetesVersion::LATEST;
        let mut server = ApiServer::new(version, Catalog::builtin(version));
        server.set_now(Timestamp::from_secs(1_000));
        let plane = start(&server, Assumptions::default());
        let mut world = Self { server, plane };
        world.create("v1", "Namespace", "", json!({"metadata": {"name": "shop"}}));
        world
    }

    fn kind(&self, api_version: &str, kind: &str) -> KindId {
        self.server.catalog().mapping(api_version, kind).unwrap()
    }

    /// Creates an object and answers with its uid.
    fn create(&mut self, api_version: &str, kind: &str, namespace: &str, object: Value) -> String {
        let kind = self.kind(api_version, kind);
        let answer = self.server.create_json(kind, namespace, object);
        assert_eq!(answer.code, 201, "{:?}", answer.status());
        answer.object().unwrap().meta.uid.to_string()
    }

    /// Defines a kind and creates its object `a`; the references that name it as the owner.
    fn define_an_owner(&mut self) -> Value {
        self.create(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            definition(),
        );
        let owner = self.create(
            "example.com/v1",
            "Shop",
            "shop",
            json!({"metadata": {"name": "a"}}),
        );
        owned_by("example.com/v1", "Shop", "a", &owner)
    }

    fn delete(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let kind = self.kind(api_version, kind);
        let answer = self.server.delete(kind, namespace, name, &Default::default());
        assert!(answer.is_success(), "{:?}", answer.status());
    }

    fn is_there(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let kind = self.kind(api_version, kind);
        self.server.object(kind, namespace, name).is_some()
    }

    /// Steps until there is nothing to do now; when something happens for sure, and when something is tried again.
    fn rest(&mut self) -> (Option<Timestamp>, Option<Timestamp>) {
        for _ in 0..10_000 {
            if let Turn::Idle { certain_at, retry_at } = self.plane.step(&mut self.server) {
                return (certain_at, retry_at);
            }
        }
        panic!("no rest after 10,000 steps")
    }

    /// Lets time pass from one due thing to the next for so long.
    fn pass(&mut self, time: Duration) {
        let end = self.server.now().saturating_add(time);
        loop {
            let (certain, retry) = self.rest();
            match certain.into_iter().chain(retry).min() {
                Some(next) if next <= end => self.server.set_now(next),
                _ => break,
            }
        }
        self.server.set_now(end);
        self.rest();
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
fn kinds_that_are_defined_later_are_collected_at_once() {
    let mut world = World::new(ControlPlane::new);
    world.rest();
    let references = world.define_an_owner();
    world.create(
        "v1",
        "ConfigMap",
        "shop",
        json!({"metadata": {"name": "config", "ownerReferences": references}}),
    );
    world.rest();
    assert!(world.is_there("v1", "ConfigMap", "shop", "config"));
    world.delete("example.com/v1", "Shop", "shop", "a");
    world.rest();
    assert!(!world.is_there("v1", "ConfigMap", "shop", "config"));
}

/// What is deleted after the start was there when the collector listed: its dependents see it go, blocking or not.
#[test]
fn what_was_there_at_the_start_is_known() {
    let mut world = World::new(ControlPlane::without_collector);
    let owner = world.create("v1", "Secret", "shop", json!({"metadata": {"name": "owner"}}));
    let references = owned_by("v1", "Secret", "owner", &owner);
    world.create(
        "v1",
        "ConfigMap",
        "shop",
        json!({"metadata": {"name": "free", "finalizers": ["shop/hold"], "ownerReferences": references}}),
    );
    world.plane = ControlPlane::new(&world.server, Assumptions::default());
    let secrets = world.kind("v1", "Secret");
    let foreground = kubegc_core::DeleteOptions::policy(kubegc_core::PropagationPolicy::Foreground);
    world.server.delete_with(secrets, "shop", "owner", &foreground);
    world.rest();
    let config_maps = world.kind("v1", "ConfigMap");
    let dependent = world.server.object(config_maps, "shop", "free").unwrap();
    assert!(
        dependent.meta.is_deleting(),
        "a foreground deletion asks every dependent to go"
    );
    assert!(
        !world.is_there("v1", "Secret", "shop", "owner"),
        "and waits for none that does not block"
    );
}

#[test]
fn a_definition_takes_its_objects_and_their_dependents_along() {
    let mut world = World::new(ControlPlane::new);
    let references = world.define_an_owner();
    world.create(
        "v1",
        "Secret",
        "shop",
        json!({"metadata": {"name": "key", "ownerReferences": references}}),
    );
    world.rest();
    world.delete(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        "shops.example.com",
    );
    world.pass(Duration::from_secs(60));
    assert!(!world.is_there(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        "shops.example.com"
    ));
    assert!(!world.is_there("v1", "Secret", "shop", "key"));
}

#[test]
fn pods_end_when_their_grace_does_and_namespaces_are_emptied() {
    for collects in [true, false] {
        let start: fn(&ApiServer, Assumptions) -> ControlPlane = if collects {
            ControlPlane::new
        } else {
            ControlPlane::without_collector
        };
        let mut world = World::new(start);
        let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": "n1"}});
        world.create("v1", "Pod", "shop", pod);
        world.create("v1", "Secret", "shop", json!({"metadata": {"name": "key"}}));
        world.delete("v1", "Namespace", "", "shop");
        world.pass(Duration::from_secs(20));
        // This release empties namespaces of pods first.
        assert!(
            world.is_there("v1", "Secret", "shop", "key"),
            "collects: {collects}"
        );
        assert!(world.is_there("v1", "Pod", "shop", "web"), "its grace is 30 s");
        world.pass(Duration::from_secs(120));
        assert!(!world.is_there("v1", "Pod", "shop", "web"));
        assert!(!world.is_there("v1", "Secret", "shop", "key"));
        assert!(!world.is_there("v1", "Namespace", "", "shop"));
    }
}

/// A pod that took the place of one whose grace period had been running has its own.
#[test]
fn a_pod_of_the_same_name_ends_at_its_own_time() {
    let mut world = World::new(ControlPlane::new);
    let pods = world.kind("v1", "Pod");
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30}});
    let graceful = |seconds| kubegc_core::deletion::DeleteOptionsSpec {
        grace_period_seconds: Some(seconds),
        ..Default::default()
    };
    world.create("v1", "Pod", "shop", pod.clone());
    world.server.delete(pods, "shop", "web", &graceful(30));
    world.rest();
    world.server.delete(pods, "shop", "web", &graceful(0));
    world.rest();
    world.create("v1", "Pod", "shop", pod);
    world.server.delete(pods, "shop", "web", &graceful(300));
    world.pass(Duration::from_secs(299));
    assert!(world.is_there("v1", "Pod", "shop", "web"));
    world.pass(Duration::from_secs(2));
    assert!(!world.is_there("v1", "Pod", "shop", "web"));
}

#[test]
fn a_plane_without_collector_leaves_dependents_alone() {
    let mut world = World::new(ControlPlane::without_collector);
    let references = owned_by("v1", "Secret", "gone", "u1");
    world.create(
        "v1",
        "ConfigMap",
        "shop",
        json!({"metadata": {"name": "left", "ownerReferences": references}}),
    );
    world.create(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        definition(),
    );
    world.pass(Duration::from_secs(600));
    assert!(world.is_there("v1", "ConfigMap", "shop", "left"));
    assert!(world.plane.steps().is_empty(), "{:?}", world.plane.steps());
}

#[test]
fn what_watchers_have_yet_to_read_is_kept() {
    let mut world = World::new(ControlPlane::new);
    let before = world.server.revision();
    let secrets = world.kind("v1", "Secret");
    world.create("v1", "Secret", "shop", json!({"metadata": {"name": "key"}}));
    world.rest();
    let names: Vec<Arc<str>> = world
        .server
        .events_since(secrets, before)
        .unwrap()
        .map(|event| Arc::clone(&event.object.meta.name))
        .collect();
    assert_eq!(names, ["key".into()]);
}
