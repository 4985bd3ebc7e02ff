//! Each kind of question, on a cluster written for it, with the report as text.

use kubegc_core::{DeleteOptions, Preconditions, PropagationPolicy, deletion::Propagation};
use kubegc_predict::{Assumptions, Cluster, Detail, Fate, Finding, Intent, KindName, PredictError, Target};
use serde_json::{Value, json};

use crate::common;

/// An object: `namespace/Kind/name`, and its owners in the same form.
fn object(api_version: &str, name: &str, owners: &[(&str, &str)]) -> Value {
    let parts: Vec<&str> = name.split('/').collect();
    let owners: Vec<Value> = owners
        .iter()
        .map(|(api_version, owner)| {
            let parts: Vec<&str> = owner.split('/').collect();
            json!({
                "apiVersion": api_version, "kind": parts[1], "name": parts[2], "uid": uid(owner),
                "controller": true, "blockOwnerDeletion": true,
            })
        })
        .collect();
    let mut item = json!({
        "apiVersion": api_version,
        "kind": parts[1],
        "metadata": { "name": parts[2], "uid": uid(name), "resourceVersion": "5", "ownerReferences": owners },
    });
    if !parts[0].is_empty() {
        item["metadata"]["namespace"] = parts[0].into();
    }
    match parts[1] {
        "Pod" => {
            item["spec"] = json!({ "nodeName": "node-1", "terminationGracePeriodSeconds": 30 });
            item["status"] = json!({ "phase": "Running" });
        }
        "Namespace" => {
            item["spec"] = json!({ "finalizers": ["kubernetes"] });
            item["status"] = json!({ "phase": "Active" });
        }
        _ => {}
    }
    item
}

fn uid(name: &str) -> String {
    format!("uid-of-{name}")
}

fn with(mut item: Value, field: &str, value: Value) -> Value {
    item["metadata"][field] = value;
    item
}

/// A Deployment with its ReplicaSet, two Pods and their Node.
fn web() -> Vec<Value> {
    let deployment = ("apps/v1", "shop/Deployment/web");
    let set = ("apps/v1", "shop/ReplicaSet/web-1");
    vec![
        with(
            object(deployment.0, deployment.1, &[]),
            "labels",
            json!({ "app": "web" }),
        ),
        object(set.0, set.1, &[deployment]),
        with(
            object("v1", "shop/Pod/web-1-a", &[set]),
            "labels",
            json!({ "app": "web" }),
        ),
        with(
            object("v1", "shop/Pod/web-1-b", &[set]),
            "labels",
            json!({ "app": "web", "tier": "canary" }),
        ),
        common::node(),
    ]
}

fn options(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions {
        propagation: Some(Propagation::Policy(policy)),
        ..DeleteOptions::default()
    }
}

fn delete(name: &str, options: DeleteOptions) -> Intent {
    Intent::delete(name.parse().expect("a name in two or three parts"), options)
}

fn labelled(kind: &str, namespace: Option<&str>, selector: &str) -> Intent {
    let selector = selector.parse().expect("a selector");
    let target = Target::Labelled {
        kind: KindName::new(kind),
        namespace: namespace.map(Into::into),
        selector,
    };
    Intent {
        target,
        options: DeleteOptions::default(),
        after: std::time::Duration::ZERO,
    }
}

fn text(cluster: &Cluster, intents: &[Intent]) -> String {
    let forecast = cluster.predict(intents).expect("the question can be understood");
    forecast.to_text(Detail {
        steps: true,
        ..Detail::default()
    })
}

fn check(items: &[Value], assumptions: Assumptions, intents: &[Intent], expected: &str) {
    let cluster = common::read(&[common::list(items)], &["all"], assumptions);
    assert_eq!(text(&cluster, intents), expected);
}

const BACKGROUND: PropagationPolicy = PropagationPolicy::Background;
const FOREGROUND: PropagationPolicy = PropagationPolicy::Foreground;
const ORPHAN: PropagationPolicy = PropagationPolicy::Orphan;

#[test]
fn one_object_in_the_background() {
    check(
        &web(),
        Assumptions::default(),
        &[delete("shop/Deployment/web", options(BACKGROUND))],
        r#"4 deleted
  2 pods, 1 deployment, 1 replicaset

Deleted: 4
  - deployment/web -n shop
    - replicaset/web-1 -n shop
      - 2 pods -n shop (web-1-a, web-1-b)

Requests: 6
    1.    0.000s  you delete deployment/web -n shop (Background)
    2.    0.000s  the garbage collector deletes replicaset/web-1 -n shop (Background): no owner of it is left
    3.    0.000s  the garbage collector deletes pod/web-1-a -n shop (Background): no owner of it is left
    4.    0.000s  the garbage collector deletes pod/web-1-b -n shop (Background): no owner of it is left
    5.   30.000s  pod/web-1-a -n shop has ended
    6.   30.000s  pod/web-1-b -n shop has ended

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn one_object_in_the_foreground() {
    check(
        &web(),
        Assumptions::default(),
        &[delete("shop/Deployment/web", options(FOREGROUND))],
        r#"4 deleted
  2 pods, 1 deployment, 1 replicaset

Deleted: 4
  - deployment/web -n shop
    - replicaset/web-1 -n shop
      - 2 pods -n shop (web-1-a, web-1-b)

Requests: 8
    1.    0.000s  you delete deployment/web -n shop (Foreground)
    2.    0.000s  the garbage collector deletes replicaset/web-1 -n shop (Foreground): an owner is being deleted in the
                  foreground and waits for it, and it has dependents of its own
    3.    0.000s  the garbage collector deletes pod/web-1-a -n shop (Background): its only remaining owner is being
                  deleted in the foreground and waits for it
    4.    0.000s  the garbage collector deletes pod/web-1-b -n shop (Background): its only remaining owner is being
                  deleted in the foreground and waits for it
    5.   30.000s  pod/web-1-a -n shop has ended
    6.   30.000s  pod/web-1-b -n shop has ended
    7.   30.000s  the garbage collector patches replicaset/web-1 -n shop: no dependent blocks its deletion any longer
    8.   30.000s  the garbage collector patches deployment/web -n shop: no dependent blocks its deletion any longer

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn one_object_without_its_dependents() {
    check(
        &web(),
        Assumptions::default(),
        &[delete("shop/Deployment/web", options(ORPHAN))],
        r#"1 deleted, 1 released, 2 kept
  1 deployment

Deleted: 1
  - deployment/web -n shop

Released: 1
  - replicaset/web-1 -n shop: released from deployment/web

Kept: 2
  - 2 pods -n shop (web-1-a, web-1-b)

Requests: 3
    1.    0.000s  you delete deployment/web -n shop (Orphan)
    2.    0.000s  the garbage collector patches replicaset/web-1 -n shop: its owner deployment/web -n shop is deleted
                  without its dependents
    3.    0.000s  the garbage collector patches deployment/web -n shop: all its dependents are released

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn objects_by_their_labels() {
    check(
        &web(),
        Assumptions::default(),
        &[labelled("pods", Some("shop"), "app=web,tier!=canary")],
        r#"1 deleted
  1 pod

Deleted: 1
  - pod/web-1-a -n shop

Requests: 2
    1.    0.000s  you delete pod/web-1-a -n shop
    2.   30.000s  pod/web-1-a -n shop has ended

Notes:
  ! 1 pod may be created again by replicaset/web-1 -n shop, which is kept

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
    check(
        &web(),
        Assumptions::default(),
        &[labelled("pods", Some("other"), "app=web")],
        r#"No resources found in other namespace of the dump; did you mean -n shop?

Requests: 0

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn pods_that_never_end_stay_terminating() {
    let assumptions = Assumptions {
        pods_end: false,
        ..Assumptions::default()
    };
    check(
        &web(),
        assumptions,
        &[delete("shop/ReplicaSet/web-1", options(FOREGROUND))],
        r#"3 terminating

Terminating: 3
  - replicaset/web-1 -n shop: waiting for its dependents pod/web-1-a -n shop, pod/web-1-b -n shop
  - 2 pods -n shop (web-1-a, web-1-b): waiting for its kubelet: pods are assumed never to end

Requests: 3
    1.    0.000s  you delete replicaset/web-1 -n shop (Foreground)
    2.    0.000s  the garbage collector deletes pod/web-1-a -n shop (Background): its only remaining owner is being
                  deleted in the foreground and waits for it
    3.    0.000s  the garbage collector deletes pod/web-1-b -n shop (Background): its only remaining owner is being
                  deleted in the foreground and waits for it

Notes:
  ! 1 replicaset may be created again by deployment/web -n shop, which is kept

Assumed:
  - pods never end
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn an_object_is_deleted_after_its_finalizer_is_removed() {
    let items = [with(
        object("v1", "shop/ConfigMap/a", &[]),
        "finalizers",
        json!(["example.com/held"]),
    )];
    let intents = [delete("shop/ConfigMap/a", DeleteOptions::default())];
    check(
        &items,
        Assumptions::default(),
        &intents,
        r#"1 terminating

Terminating: 1
  - configmap/a -n shop: waiting for finalizer example.com/held, which no controller of Kubernetes removes

Requests: 1
    1.    0.000s  you delete configmap/a -n shop

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
    let assumptions = Assumptions {
        finalizers_released: vec!["example.com/held".into()],
        ..Assumptions::default()
    };
    check(
        &items,
        assumptions,
        &intents,
        r#"1 deleted
  1 configmap

Deleted: 1
  - configmap/a -n shop

Requests: 2
    1.    0.000s  you delete configmap/a -n shop
    2.    0.000s  finalizer example.com/held of configmap/a -n shop is assumed to be released

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - the finalizers example.com/held are removed
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn several_deletes_are_requested_in_order() {
    let intents = [
        delete("shop/Deployment/web", options(ORPHAN)),
        delete("shop/ReplicaSet/web-1", options(ORPHAN)),
        delete("shop/Pod/web-1-a", DeleteOptions::default()),
    ];
    check(
        &web(),
        Assumptions::default(),
        &intents,
        r#"3 deleted, 1 released
  1 deployment, 1 pod, 1 replicaset

Deleted: 3
  - deployment/web -n shop
    - replicaset/web-1 -n shop
      - pod/web-1-a -n shop

Released: 1
  - pod/web-1-b -n shop: released from replicaset/web-1

Requests: 9
    1.    0.000s  you delete deployment/web -n shop (Orphan)
    2.    0.000s  you delete replicaset/web-1 -n shop (Orphan)
    3.    0.000s  you delete pod/web-1-a -n shop
    4.    0.000s  the garbage collector patches replicaset/web-1 -n shop: its owner deployment/web -n shop is deleted
                  without its dependents
    5.    0.000s  the garbage collector patches pod/web-1-a -n shop: its owner replicaset/web-1 -n shop is deleted
                  without its dependents
    6.    0.000s  the garbage collector patches pod/web-1-b -n shop: its owner replicaset/web-1 -n shop is deleted
                  without its dependents
    7.    0.000s  the garbage collector patches deployment/web -n shop: all its dependents are released
    8.    0.000s  the garbage collector patches replicaset/web-1 -n shop: all its dependents are released
    9.   30.000s  pod/web-1-a -n shop has ended

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn a_namespace_is_deleted_after_its_content_and_pods_first() {
    let mut items = web();
    items.push(object("v1", "/Namespace/shop", &[]));
    items.push(object("v1", "/Namespace/other", &[]));
    items.push(object("v1", "other/ConfigMap/b", &[]));
    items.push(object("v1", "shop/ConfigMap/a", &[]));
    check(
        &items,
        Assumptions::default(),
        &[delete("Namespace/shop", DeleteOptions::default())],
        r#"6 deleted
  2 pods, 1 configmap, 1 deployment, 1 namespace, 1 replicaset

Deleted: 6
  - namespace/shop
    - configmap/a -n shop
    - deployment/web -n shop
      - replicaset/web-1 -n shop
        - 2 pods -n shop (web-1-a, web-1-b)

Requests: 9
    1.    0.000s  you delete namespace/shop
    2.    5.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    3.    5.000s  the namespace-controller changes namespace/shop: the progress of its deletion has changed
    4.   35.000s  pod/web-1-a -n shop has ended
    5.   35.000s  pod/web-1-b -n shop has ended
    6.   42.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    7.   42.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    8.   42.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    9.   42.000s  the namespace-controller changes namespace/shop: no content is left in the namespace

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn a_namespace_waits_for_content_with_a_finalizer() {
    let items = [
        object("v1", "/Namespace/shop", &[]),
        with(
            object("v1", "shop/ConfigMap/a", &[]),
            "finalizers",
            json!(["example.com/held"]),
        ),
        object("v1", "shop/Secret/b", &[]),
    ];
    check(
        &items,
        Assumptions::default(),
        &[delete("Namespace/shop", DeleteOptions::default())],
        r#"1 deleted, 2 terminating
  1 secret

Terminating: 2
  - namespace/shop: waiting for its content, of which these remain: configmaps (1); finalizers remaining:
    example.com/held in 1 object
  - configmap/a -n shop: waiting for finalizer example.com/held, which no controller of Kubernetes removes

Deleted: 1
  - namespace/shop: terminating
    - secret/b -n shop

Requests: 4
    1.    0.000s  you delete namespace/shop
    2.    5.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    3.    5.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    4.    5.000s  the namespace-controller changes namespace/shop: the progress of its deletion has changed

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn a_definition_is_deleted_with_its_objects_and_their_dependents() {
    let items = [
        common::widget_definition(),
        object("example.com/v1", "shop/Widget/a", &[]),
        object(
            "v1",
            "shop/ConfigMap/of-a",
            &[("example.com/v1", "shop/Widget/a")],
        ),
    ];
    let intents = [delete(
        "CustomResourceDefinition/widgets.example.com",
        DeleteOptions::default(),
    )];
    check(
        &items,
        Assumptions::default(),
        &intents,
        r#"3 deleted
  1 configmap, 1 customresourcedefinition, 1 widget

Deleted: 3
  - customresourcedefinition/widgets.example.com
  - widget.example.com/a -n shop
    - configmap/of-a -n shop

Requests: 5
    1.    0.000s  you delete customresourcedefinition/widgets.example.com
    2.    0.000s  the API server deletes the custom resources of customresourcedefinition/widgets.example.com
    3.    0.000s  the API server deletes the custom resources of customresourcedefinition/widgets.example.com
    4.    0.000s  the garbage collector deletes configmap/of-a -n shop (Background): no owner of it is left
    5.    0.000s  the API server deletes the custom resources of customresourcedefinition/widgets.example.com

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn a_definition_waits_for_an_object_with_a_finalizer() {
    let items = [
        common::widget_definition(),
        with(
            object("example.com/v1", "shop/Widget/a", &[]),
            "finalizers",
            json!(["example.com/held"]),
        ),
    ];
    let intents = [delete(
        "CustomResourceDefinition/widgets.example.com",
        DeleteOptions::default(),
    )];
    check(
        &items,
        Assumptions::default(),
        &intents,
        r#"2 terminating

Terminating: 2
  - customresourcedefinition/widgets.example.com: waiting for its content, of which these remain: widgets.example.com
    (1); finalizers remaining: example.com/held in 1 object
  - widget.example.com/a -n shop: waiting for finalizer example.com/held, which no controller of Kubernetes removes

Requests: 3
    1.    0.000s  you delete customresourcedefinition/widgets.example.com
    2.    0.000s  the API server deletes the custom resources of customresourcedefinition/widgets.example.com
    3.    0.000s  the API server deletes the custom resources of customresourcedefinition/widgets.example.com

Assumed:
  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
"#,
    );
}

#[test]
fn a_precondition_that_does_not_hold_is_refused() {
    let cluster = common::complete(&web());
    for (preconditions, refused) in [
        (Preconditions::uid("another".into()), true),
        (
            Preconditions {
                uid: None,
                resource_version: Some("4".into()),
            },
            true,
        ),
        (
            Preconditions::uid(uid("shop/Deployment/web").as_str().into()),
            false,
        ),
    ] {
        let options = DeleteOptions {
            preconditions,
            ..DeleteOptions::default()
        };
        let forecast = cluster
            .predict(&[delete("shop/Deployment/web", options.clone())])
            .expect("it is there");
        let refusals: Vec<_> = forecast
            .findings
            .iter()
            .filter_map(|finding| match finding {
                Finding::Refused { object, code, .. } => Some((object.short(), *code)),
                _ => None,
            })
            .collect();
        if refused {
            assert_eq!(
                refusals,
                [("deployment/web -n shop".to_owned(), 409)],
                "{options:?}"
            );
            assert!(
                forecast.fates.iter().all(|fate| fate.fate == Fate::Kept),
                "{options:?}"
            );
        } else {
            assert!(refusals.is_empty());
            assert_eq!(forecast.counts().get("deleted"), Some(&4));
        }
    }
}

#[test]
fn a_deleted_pod_of_a_kept_controller_may_be_created_again() {
    let cluster = common::complete(&web());
    let forecast = cluster
        .predict(&[delete("shop/Pod/web-1-a", DeleteOptions::default())])
        .expect("it is there");
    let findings: Vec<String> = forecast.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        ["pod/web-1-a -n shop may be created again by replicaset/web-1 -n shop, which is kept"]
    );
}

#[test]
fn a_missing_object_cannot_be_deleted() {
    let cluster = common::complete(&web());
    let ask = |name: &str| {
        cluster
            .predict(&[delete(name, DeleteOptions::default())])
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        ask("shop/Deployment/api"),
        Err("deployments.apps \"api\" not found in namespace shop".to_owned())
    );
    assert_eq!(
        ask("shop/Gadget/api"),
        Err("no resource type \"Gadget\": it is neither built in nor defined in the dump".to_owned())
    );
    assert_eq!(ask("shop/deployments.apps/web"), Ok(()));
    assert_eq!(
        ask("other/Deployment/web"),
        Err("deployments.apps \"web\" not found in namespace other; did you mean web -n shop?".to_owned())
    );
    let unknown = cluster.predict(&[labelled("gadgets", None, "a=b")]).map(|_| ());
    assert_eq!(
        unknown,
        Err(PredictError::UnknownKind {
            name: "gadgets".to_owned(),
            similar: Vec::new(),
        })
    );
}

/// ReplicaSets `a` and `b` with one selector and two pods each that are ready since then, and one like them
/// in another namespace.
fn twins(a_ready: &str, b_ready: &str) -> Vec<Value> {
    let mut items = vec![common::node()];
    for (namespace, name) in [("one", "a"), ("one", "b"), ("two", "c")] {
        let meta = |name: &str| {
            json!({
                "name": name, "namespace": namespace, "uid": format!("uid-{name}"),
                "creationTimestamp": "2026-01-01T01:00:00Z",
            })
        };
        let labels = json!({ "app": "same" });
        items.push(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta(name),
            "spec": { "replicas": 2, "selector": { "matchLabels": labels } },
        }));
        let ready = if name == "a" { a_ready } else { b_ready };
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": ready });
        for at in 0..2 {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": meta(&format!("{name}-{at}")),
                "spec": { "nodeName": "node-1" },
                "status": { "phase": "Running", "conditions": [ready] },
            });
            pod["metadata"]["labels"] = labels.clone();
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("uid-{name}"),
                "controller": true, "blockOwnerDeletion": true,
            }]);
            items.push(pod);
        }
    }
    items
}

#[test]
fn orphans_are_adopted_and_the_younger_pods_are_deleted() {
    let orphan = DeleteOptions {
        propagation: Some(Propagation::Policy(PropagationPolicy::Orphan)),
        ..DeleteOptions::default()
    };
    let intent = Intent::delete("one/ReplicaSet/a".parse().expect("a name"), orphan);
    let words = |cluster: &Cluster| -> String {
        let forecast = cluster.predict(std::slice::from_ref(&intent));
        let fates = forecast.expect("it is there").fates.into_iter();
        let words = fates.map(|fate| format!("{} {}", fate.object.name, fate.fate.word()));
        words.collect::<Vec<_>>().join(", ")
    };
    let (long, just) = ("2025-01-01T00:00:00Z", "2026-01-01T00:59:00Z");
    assert_eq!(
        words(&common::complete(&twins(long, just))),
        "a-0 released, a-1 released, b-0 deleted, b-1 deleted, a deleted, b kept"
    );
    assert_eq!(
        words(&common::complete(&twins(just, long))),
        "a-0 deleted, a-1 deleted, b-0 kept, b-1 kept, a deleted, b kept"
    );
    // Where `b` may have more pods, or its selector was not read, its adoptions and deletions are unknown.
    let complete = ["replicasets", "nodes", "customresourcedefinitions"];
    let partial = common::list(&twins(long, just));
    let partial = common::read(&[partial], &complete, Assumptions::default());
    let mut stripped = twins(long, just);
    stripped[4]["spec"] = json!({ "replicas": 2 });
    for cluster in [partial, common::complete(&stripped)] {
        let words = words(&cluster);
        assert!(
            words.starts_with("a-0 undetermined, a-1 undetermined, "),
            "{words}"
        );
    }
}

#[test]
fn colours_change_headings_only() {
    let cluster = common::read(&[common::list(&web())], &["all"], Assumptions::default());
    let intents = [delete("shop/Deployment/web", options(BACKGROUND))];
    let forecast = cluster.predict(&intents).expect("it is there");
    let coloured = forecast.to_text(Detail {
        colours: true,
        ..Detail::default()
    });
    assert!(
        coloured.contains("\n\u{1b}[1;31mDeleted: 4\u{1b}[0m\n"),
        "{coloured}"
    );
    let plain = coloured.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, forecast.to_text(Detail::default()));
}
