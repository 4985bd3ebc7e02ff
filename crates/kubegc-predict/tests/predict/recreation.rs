//! Deleted objects that their controllers create again.

use kubegc_core::DeleteOptions;
use kubegc_fixtures::{merge, owned_by};
use kubegc_predict::{Detail, Finding, Intent};
use serde_json::{Value, json};

use crate::common;

const CERTAIN: Option<bool> = Some(true);
const POSSIBLE: Option<bool> = Some(false);
const NEVER: Option<bool> = None;

/// An object in the namespace shop, except nodes.
fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let namespace = if kind == "Node" { "" } else { "shop" };
    kubegc_fixtures::object(api_version, kind, namespace, name, fields)
}

/// The same with a controller.
fn of(controller: &Value, mut object: Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| text(&controller[field]));
    let owned = owned_by(&api_version, &kind, &text(&controller["metadata"]["name"]));
    merge(&mut object, owned);
    object
}

fn pod(name: &str, phase: &str) -> Value {
    let rest = json!({ "spec": { "nodeName": "n1" }, "status": { "phase": phase } });
    object("v1", "Pod", name, rest)
}

fn replica_set(name: &str, replicas: i32, image: &str) -> Value {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": image }] } });
    let selector = json!({ "matchLabels": labels });
    let spec = json!({ "replicas": replicas, "selector": selector, "template": template });
    object("apps/v1", "ReplicaSet", name, json!({ "spec": spec }))
}

/// Whether the finding about an object of the items says that it is created again, after a request deletes
/// it.
fn recreation(items: &[Value], deleted: &str) -> Option<bool> {
    let cluster = common::complete(items);
    let target = deleted.parse().expect("a name");
    let forecast = cluster.predict(&[Intent::delete(target, DeleteOptions::default())]);
    let findings = forecast.expect("it exists").findings;
    findings.iter().find_map(|finding| match finding {
        Finding::CreatedAgain {
            object, is_certain, ..
        } if deleted.ends_with(&*object.name) => Some(*is_certain),
        _ => None,
    })
}

#[test]
fn a_replica_set_replaces_the_pods_that_it_lacks() {
    for (replicas, other, expected) in [
        (2, "Running", CERTAIN),
        (1, "Running", NEVER),
        (1, "Failed", CERTAIN),
        (0, "Running", NEVER),
    ] {
        let set = replica_set("web", replicas, "a");
        let pods = [of(&set, pod("web-a", "Running")), of(&set, pod("web-b", other))];
        let items = [&[set, common::node()], &pods[..]].concat();
        let found = recreation(&items, "shop/Pod/web-a");
        assert_eq!(found, expected, "{replicas} replicas, the other pod is {other}");
    }
}

#[test]
fn a_controller_whose_fields_were_not_read_may_create_a_pod_again() {
    let read = replica_set("web", 1, "a");
    let mut unread = read.clone();
    unread["spec"] = Value::Null;
    for (set, expected) in [(read, CERTAIN), (unread, POSSIBLE)] {
        let items = [set.clone(), of(&set, pod("web-a", "Running")), common::node()];
        assert_eq!(recreation(&items, "shop/Pod/web-a"), expected, "{set}");
    }
}

#[test]
fn a_deployment_creates_the_replica_set_of_its_template_only() {
    let deployment = |is_paused: bool| {
        let mut spec = replica_set("web", 2, "new")["spec"].clone();
        spec["paused"] = is_paused.into();
        object("apps/v1", "Deployment", "web", json!({ "spec": spec }))
    };
    for (is_paused, image, expected) in [
        (false, "new", CERTAIN),
        (false, "old", NEVER),
        (true, "new", NEVER),
    ] {
        let deployment = deployment(is_paused);
        let items = [
            deployment.clone(),
            of(&deployment, replica_set("web-1", 0, image)),
        ];
        let found = recreation(&items, "shop/ReplicaSet/web-1");
        assert_eq!(found, expected, "paused {is_paused}, image {image}");
    }
}

#[test]
fn a_stateful_set_creates_the_pods_of_its_ordinals() {
    let spec = json!({ "replicas": 2, "ordinals": { "start": 1 }, "serviceName": "db" });
    let set = object("apps/v1", "StatefulSet", "db", json!({ "spec": spec }));
    for (name, expected) in [
        ("db-0", NEVER),
        ("db-1", CERTAIN),
        ("db-2", CERTAIN),
        ("db-3", NEVER),
    ] {
        let items = [set.clone(), of(&set, pod(name, "Running")), common::node()];
        assert_eq!(
            recreation(&items, &format!("shop/Pod/{name}")),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_daemon_set_has_pods_on_nodes_that_exist() {
    let set = object("apps/v1", "DaemonSet", "agent", json!({ "spec": {} }));
    let node = |taints: Value| object("v1", "Node", "n1", json!({ "spec": { "taints": taints } }));
    let tainted = json!([{ "key": "dedicated", "effect": "NoExecute" }]);
    for (node, expected) in [
        (Some(node(json!([]))), CERTAIN),
        (Some(node(tainted)), POSSIBLE),
        (None, NEVER),
    ] {
        let mut items = vec![set.clone(), of(&set, pod("agent-a", "Running"))];
        items.extend(node);
        assert_eq!(recreation(&items, "shop/Pod/agent-a"), expected, "{items:?}");
    }
}

#[test]
fn finished_jobs_and_cron_jobs_create_nothing_again() {
    let job = |conditions: Value| {
        let rest = json!({ "spec": {}, "status": { "conditions": conditions } });
        object("batch/v1", "Job", "sum", rest)
    };
    let complete = json!([{ "type": "Complete", "status": "True" }]);
    for (conditions, expected) in [(complete, NEVER), (json!([]), POSSIBLE)] {
        let job = job(conditions);
        let items = [job.clone(), of(&job, pod("sum-a", "Running")), common::node()];
        assert_eq!(recreation(&items, "shop/Pod/sum-a"), expected, "{items:?}");
    }
    let cron_job = object("batch/v1", "CronJob", "sums", json!({ "spec": {} }));
    let items = [cron_job.clone(), of(&cron_job, job(json!([])))];
    assert_eq!(recreation(&items, "shop/Job/sum"), NEVER);
}

#[test]
fn a_controller_of_another_kind_may_create_anything_again() {
    let widget = object("example.com/v1", "Widget", "w", json!({}));
    let config_map = of(&widget, object("v1", "ConfigMap", "settings", json!({})));
    let items = [widget, common::widget_definition(), config_map];
    assert_eq!(recreation(&items, "shop/ConfigMap/settings"), POSSIBLE);
}

/// A deleted pod is no longer counted. A quota that has been lowered counts too many even then.
#[test]
fn what_refuses_the_pods_of_a_controller_is_named() {
    let quota = |used: &str| {
        let hard = json!({ "pods": "4", "requests.cpu": "1" });
        let status = json!({ "hard": hard, "used": { "pods": used, "requests.cpu": "1" } });
        object("v1", "ResourceQuota", "compute", json!({ "status": status }))
    };
    let client = json!({ "service": { "namespace": "shop", "name": "gone" } });
    let rule =
        json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
    let webhook =
        json!({ "name": "w.example.com", "failurePolicy": "Fail", "clientConfig": client, "rules": [rule] });
    let kind = "ValidatingWebhookConfiguration";
    let (group, rest) = (
        "admissionregistration.k8s.io/v1",
        json!({ "webhooks": [webhook] }),
    );
    let hook = kubegc_fixtures::object(group, kind, "", "hook", rest);
    let of_quota = "pods \"web-a\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
    let of_hook =
        "Internal error occurred: failed calling webhook \"w.example.com\": service \"gone\" not found";
    for (refuses, refusal) in [
        (quota("4"), None),
        (quota("5"), Some(of_quota)),
        (hook, Some(of_hook)),
    ] {
        let set = replica_set("web", 1, "a");
        let items = [
            refuses.clone(),
            set.clone(),
            of(&set, pod("web-a", "Running")),
            common::node(),
        ];
        let cluster = common::complete(&items);
        let target = "shop/Pod/web-a".parse().expect("a name");
        let delete = Intent::delete(target, DeleteOptions::default());
        let forecast = cluster.predict(&[delete]).expect("it exists");
        let expected = match refusal {
            Some(refusal) => format!(
                "pod/web-a -n shop is not created again by replicaset/web -n shop: the API server refuses it: {refusal}"
            ),
            None => "pod/web-a -n shop is created again by replicaset/web -n shop, which is kept".to_owned(),
        };
        let document = forecast.to_json();
        let findings = document["findings"].as_array().expect("a list");
        assert!(findings.contains(&expected.clone().into()), "{findings:#?}");
        let text = forecast.to_text(Detail::default()).replace("\n    ", " ");
        let note = expected.replacen("pod/web-a -n shop", "1 pod", 1);
        assert!(text.contains(&note), "{text}");
    }
}
