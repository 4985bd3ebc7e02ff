//! Admission webhooks that cannot be reached: which requests they refuse.

use std::sync::Arc;

use kubegc_core::{LabelSelector, RequestMatcher, Scope, admission::Webhook};
use kubegc_sim::AdmissionWebhook;
use serde_json::json;

use crate::world::{MERGE, World, policy, world};

const KIND: &str = "ValidatingWebhookConfiguration";

fn texts(list: &[&str]) -> Vec<Arc<str>> {
    list.iter().map(|text| (*text).into()).collect()
}

fn rule(operations: &[&str], groups: &[&str], resources: &[&str], scope: Option<Scope>) -> RequestMatcher {
    let lists = [texts(groups), texts(&["v1"]), texts(resources)];
    RequestMatcher::of_webhook(texts(operations), lists, scope).unwrap()
}

fn webhook(rule: RequestMatcher) -> Webhook {
    Webhook {
        name: "w.example.com".into(),
        refuses_on_failure: true,
        rules: vec![rule],
        ..Webhook::default()
    }
}

fn install(world: &mut World, webhook: Webhook) {
    let installed = AdmissionWebhook {
        kind: KIND.into(),
        configuration: "w".into(),
        failure: webhook.service.is_none().then(|| "it cannot be reached".into()),
        webhook,
    };
    world.server = world.server.clone().with_webhooks(vec![installed]);
}

fn refuses(webhook: Webhook) -> World {
    let mut world = world();
    world.put("ConfigMap", "a", &["x.dev/hold"]);
    world.put("ConfigMap", "b", &[]);
    world.put("Pod", "p", &[]);
    install(&mut world, webhook);
    world
}

#[test]
fn resources_name_subresources_and_scopes() {
    // Whether the deletion of a pod, a write of its status and the deletion of a namespace are refused.
    for (resource, scope, expected) in [
        ("*", None, [true, false, true]),
        ("pods/status", None, [false, true, false]),
        ("*/*", Some(Scope::Namespaced), [true, true, false]),
        ("*/*", Some(Scope::Cluster), [false, false, true]),
    ] {
        let mut world = refuses(webhook(rule(&["*"], &["*"], &[resource], scope)));
        let (pods, namespaces) = (world.kind("Pod"), world.kind("Namespace"));
        let body = br#"{"status":{"phase":"Running"}}"#;
        let server = &mut world.server;
        let of_status = server.patch_subresource(pods, "ns", "p", "status", MERGE, body);
        let of_pod = server.delete(pods, "ns", "p", &policy("Background"));
        let of_namespace = server.delete(namespaces, "", "ns", &policy("Background"));
        let refused = [of_pod, of_status, of_namespace].map(|response| response.code == 500);
        assert_eq!(refused, expected, "{resource} {scope:?}");
    }
}

#[test]
fn selectors_match_the_object_and_its_namespace() {
    let selector = LabelSelector {
        match_labels: [("tier".into(), "db".into())].into(),
        ..LabelSelector::default()
    };
    for (tier, refused) in [("db", true), ("web", false)] {
        for selects_namespace in [true, false] {
            let mut webhook = webhook(rule(&["DELETE"], &["*"], &["*"], None));
            let mut world = world();
            world.put("ConfigMap", "a", &[]);
            let (kind, namespace, name) = if selects_namespace {
                webhook.namespace_selector = selector.clone();
                (world.kind("Namespace"), "", "ns")
            } else {
                webhook.object_selector = selector.clone();
                (world.kind("ConfigMap"), "ns", "a")
            };
            let body = json!({"metadata": {"labels": {"tier": tier}}}).to_string();
            let response = world.server.patch(kind, namespace, name, MERGE, body.as_bytes());
            assert_eq!(response.code, 200);
            install(&mut world, webhook);
            let code = world.delete("ConfigMap", "a", &policy("Background")).code;
            assert_eq!(code == 500, refused, "{tier}");
        }
    }
}

#[test]
fn another_version_matches_where_the_policy_is_equivalent() {
    for matches_equivalent in [true, false] {
        let mut world = world();
        let catalog = world.server.catalog();
        let ingresses = catalog
            .mapping("networking.k8s.io/v1", "Ingress")
            .expect("served");
        assert!(catalog.mapping("extensions/v1beta1", "Ingress").is_some());
        let created = world
            .server
            .create_json(ingresses, "ns", json!({"metadata": {"name": "i"}}));
        assert_eq!(created.code, 201);
        let mut rule = rule(&["DELETE"], &["extensions"], &["ingresses"], None);
        rule.versions = texts(&["v1beta1"]);
        let mut webhook = webhook(rule);
        webhook.matches_equivalent = matches_equivalent;
        install(&mut world, webhook);
        let response = world.server.delete(ingresses, "ns", "i", &policy("Background"));
        assert_eq!(response.code == 500, matches_equivalent);
    }
}

#[test]
fn the_timeout_comes_from_the_service_and_the_configuration() {
    let mut called = webhook(rule(&["*"], &["*"], &["*/*"], Some(Scope::Namespaced)));
    called.service = Some(("ns".into(), "hook".into()));
    let mut world = refuses(called);
    let created = world.create("Service", json!({"metadata": {"name": "hook"}}));
    assert_eq!(created.code, 201, "it is reachable");
    assert_eq!(world.delete("Service", "hook", &policy("Background")).code, 200);
    assert_eq!(world.delete("ConfigMap", "b", &policy("Background")).code, 500);
    // No webhook is called for requests about webhook configurations.
    let catalog = world.server.catalog();
    let kind = catalog
        .mapping("admissionregistration.k8s.io/v1", KIND)
        .expect("served in 1.20");
    let everything = webhook(rule(&["*"], &["*"], &["*/*"], None));
    install(&mut world, everything);
    let configuration = json!({"metadata": {"name": "w"}});
    assert_eq!(world.server.create_json(kind, "", configuration).code, 201);
    assert_eq!(world.delete("ConfigMap", "b", &policy("Background")).code, 500);
    assert_eq!(
        world.server.delete(kind, "", "w", &policy("Background")).code,
        200
    );
    assert_eq!(world.delete("ConfigMap", "b", &policy("Background")).code, 200);
}
