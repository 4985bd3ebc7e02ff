//! Admission webhooks that cannot be reached: which requests they refuse.

use std::sync::Arc;

use kubegc_core::{
    LabelRequirement, LabelSelector, Scope,
    admission::{Webhook, WebhookRule},
    deletion::DeleteOptionsSpec,
};
use kubegc_sim::{AdmissionWebhook, Filter};
use serde_json::json;

use crate::world::{MERGE, World, dry_run, policy, world};

const KIND: &str = "ValidatingWebhookConfiguration";

fn texts(list: &[&str]) -> Vec<Arc<str>> {
    list.iter().map(|text| (*text).into()).collect()
}

fn rule(operations: &[&str], groups: &[&str], resources: &[&str], scope: Option<Scope>) -> WebhookRule {
    WebhookRule {
        operations: texts(operations),
        api_groups: texts(groups),
        api_versions: texts(&["v1"]),
        resources: texts(resources),
        scope,
    }
}

fn webhook(rule: WebhookRule) -> Webhook {
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
        is_reachable: webhook.service.is_some(),
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
fn deletes_are_refused_with_upstreams_message_and_change_nothing() {
    let mut world = refuses(webhook(rule(&["DELETE"], &[""], &["configmaps"], None)));
    let before = world.server.revision();
    for options in [DeleteOptionsSpec::default(), policy("Foreground"), dry_run()] {
        for name in ["a", "b"] {
            let response = world.delete("ConfigMap", name, &options);
            let status = response.status().expect("a refusal");
            assert_eq!((response.code, status.reason), (500, "InternalError"));
            let message = "Internal error occurred: failed calling webhook \"w.example.com\"";
            assert!(status.message.starts_with(message), "{}", status.message);
        }
    }
    let kind = world.kind("ConfigMap");
    let all = Filter::default();
    let response = world
        .server
        .delete_collection(kind, Some("ns"), &all, &policy("Background"));
    assert_eq!(response.code, 500);
    assert_eq!(world.server.revision(), before);
    assert_eq!(world.delete("ConfigMap", "none", &policy("Background")).code, 404);
    assert_eq!(world.delete("Pod", "p", &policy("Background")).code, 200);
}

#[test]
fn removing_the_last_finalizer_is_an_update() {
    let free = json!({"metadata": {"finalizers": null}});
    for (operation, deleted, freed) in [("UPDATE", 200, 500), ("DELETE", 500, 200), ("CREATE", 200, 200)] {
        let mut world = refuses(webhook(rule(&[operation], &["*"], &["*"], None)));
        assert_eq!(
            world.delete("ConfigMap", "a", &policy("Background")).code,
            deleted
        );
        assert_eq!(
            world.patch("ConfigMap", "a", MERGE, &free).code,
            freed,
            "{operation}"
        );
        let created = world.create("ConfigMap", json!({"metadata": {"name": "new"}}));
        assert_eq!(created.code == 500, operation == "CREATE");
    }
}

#[test]
fn resources_name_subresources_and_scopes() {
    let status = json!({"status": {"phase": "Running"}});
    for (resource, scope, pod, pod_status, namespace) in [
        ("pods", None, true, false, false),
        ("pods/status", None, false, true, false),
        ("pods/*", None, true, true, false),
        ("*", None, true, false, true),
        ("*/*", None, true, true, true),
        ("*/*", Some(Scope::Namespaced), true, true, false),
        ("*/*", Some(Scope::Cluster), false, false, true),
    ] {
        let mut world = refuses(webhook(rule(&["*"], &["*"], &[resource], scope)));
        let kind = world.kind("Pod");
        let body = status.to_string();
        let response = world
            .server
            .patch_subresource(kind, "ns", "p", "status", MERGE, body.as_bytes());
        let of_status = response.code == 500;
        let of_pod = world.delete("Pod", "p", &policy("Background")).code == 500;
        let namespaces = world.kind("Namespace");
        let response = world.server.delete(namespaces, "", "ns", &policy("Background"));
        let found = (of_pod, of_status, response.code == 500);
        assert_eq!(found, (pod, pod_status, namespace), "{resource} {scope:?}");
    }
}

#[test]
fn selectors_match_the_object_and_its_namespace() {
    let requirement = |is_wanted, values: Option<&[&str]>| LabelSelector {
        match_expressions: vec![LabelRequirement {
            key: "tier".into(),
            is_wanted,
            values: values.map(texts),
        }],
        ..LabelSelector::default()
    };
    let db = LabelSelector {
        match_labels: [("tier".into(), "db".into())].into(),
        ..LabelSelector::default()
    };
    // Labels of the selected objects, and whether the request is refused.
    for (selector, of_db, of_web, of_none) in [
        (LabelSelector::default(), true, true, true),
        (db, true, false, false),
        (requirement(true, Some(&["db", "x"])), true, false, false),
        (requirement(false, Some(&["db", "x"])), false, true, true),
        (requirement(true, None), true, true, false),
        (requirement(false, None), false, false, true),
    ] {
        for (labels, expected) in [
            (json!({"tier": "db"}), of_db),
            (json!({"tier": "web"}), of_web),
            (json!({}), of_none),
        ] {
            let labelled = json!({"metadata": {"labels": labels}});
            for kind in ["Namespace", "ConfigMap"] {
                let mut webhook = webhook(rule(&["DELETE"], &["*"], &["*"], None));
                if kind == "Namespace" {
                    webhook.namespace_selector = selector.clone();
                } else {
                    webhook.object_selector = selector.clone();
                }
                let mut world = world();
                world.put("ConfigMap", "a", &[]);
                let (namespace, name) = if kind == "Namespace" {
                    ("", "ns")
                } else {
                    ("ns", "a")
                };
                let id = world.kind(kind);
                let body = labelled.to_string();
                let response = world.server.patch(id, namespace, name, MERGE, body.as_bytes());
                assert_eq!(response.code, 200);
                install(&mut world, webhook);
                let refused = world.delete("ConfigMap", "a", &policy("Background")).code == 500;
                assert_eq!(refused, expected, "{kind} {selector:?} {labelled}");
            }
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
        rule.api_versions = texts(&["v1beta1"]);
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

#[test]
fn a_webhook_with_ignored_failures_refuses_nothing() {
    let mut ignored = webhook(rule(&["*"], &["*"], &["*/*"], None));
    ignored.refuses_on_failure = false;
    let mut world = refuses(ignored);
    assert_eq!(world.delete("ConfigMap", "b", &policy("Background")).code, 200);
}
