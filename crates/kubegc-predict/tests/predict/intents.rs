//! Each kind of question, on a cluster written for it, with the report as text.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Assumptions, Cluster, Detail, Intent, PredictError, Target};
use serde_json::{Value, json};

use crate::common;

/// Metadata with finalizers, to be merged into an object.
fn held() -> Value {
    json!({ "metadata": { "finalizers": ["example.com/held"] } })
}

fn add_shop(fixture: &mut Fixture) {
    let active = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } });
    fixture.add("v1", "Namespace", "", "shop", active);
}

/// A Deployment with its ReplicaSet, two Pods and their Node.
fn web() -> Fixture {
    let mut fixture = Fixture::default();
    let labels = |labels: Value| json!({ "metadata": { "labels": labels } });
    fixture.add(
        "apps/v1",
        "Deployment",
        "shop",
        "web",
        labels(json!({ "app": "web" })),
    );
    fixture.add(
        "apps/v1",
        "ReplicaSet",
        "shop",
        "web-1",
        owned_by("apps/v1", "Deployment", "web"),
    );
    for (name, of) in [
        ("web-1-a", json!({ "app": "web" })),
        ("web-1-b", json!({ "app": "web", "tier": "canary" })),
    ] {
        let pod = json!({
            "spec": { "nodeName": "node-1", "terminationGracePeriodSeconds": 30 },
            "status": { "phase": "Running" },
        });
        fixture.add("v1", "Pod", "shop", name, pod);
        fixture.change_last(owned_by("apps/v1", "ReplicaSet", "web-1"));
        fixture.change_last(labels(of));
    }
    fixture.objects.push(common::node());
    fixture
}

fn delete(name: &str, options: DeleteOptions) -> Intent {
    Intent::delete(name.parse().expect("a name in two or three parts"), options)
}

fn labelled(kind: &str, namespace: Option<&str>, selector: &str) -> Intent {
    let selector = selector.parse().expect("a selector");
    let target = Target::Labelled {
        kind: kind.into(),
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

/// Checks the report up to the assumptions, and returns these.
fn check(fixture: &Fixture, assumptions: Assumptions, intents: &[Intent], expected: &str) -> String {
    let cluster = common::read(&[common::list(&fixture.objects)], &["all"], assumptions);
    let text = text(&cluster, intents);
    let (report, assumed) = text.split_once("\nAssumed:\n").expect("assumptions are listed");
    assert_eq!(report, expected);
    assumed.to_owned()
}

const BACKGROUND: PropagationPolicy = PropagationPolicy::Background;
const FOREGROUND: PropagationPolicy = PropagationPolicy::Foreground;

/// 1.20 deletes CronJobs in `batch/v1beta1`, whose default is Orphan.
#[test]
fn a_cron_job_that_is_deleted_without_options_orphans_its_jobs_up_to_1_20() {
    for (release, api_version, expected) in [
        ("1.20.2", "batch/v1beta1", "released"),
        ("1.21.0", "batch/v1", "deleted"),
    ] {
        let mut fixture = Fixture::default();
        fixture.add(
            api_version,
            "CronJob",
            "shop",
            "cron",
            json!({ "spec": { "failedJobsHistoryLimit": 1, "successfulJobsHistoryLimit": 3 } }),
        );
        let owner = owned_by(api_version, "CronJob", "cron");
        fixture.add("batch/v1", "Job", "shop", "run", owner);
        let cluster = common::of_release(release, &fixture.objects, &["all"], Assumptions::default());
        let intent = delete("shop/CronJob/cron", DeleteOptions::default());
        let forecast = cluster
            .predict(&[intent])
            .expect("the question can be understood");
        assert_eq!(
            common::word(&cluster, &forecast, "job-run"),
            expected,
            "{release}"
        );
    }
}

#[test]
fn one_object_in_the_foreground() {
    let assumed = check(
        &web(),
        Assumptions::default(),
        &[delete("shop/Deployment/web", DeleteOptions::policy(FOREGROUND))],
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
"#,
    );
    let expected = "  - pods end after their grace period
  - cloud and CSI controllers remove their finalizers
  - other finalizers stay
  - no other controller creates objects again
";
    assert_eq!(assumed, expected);
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
"#,
    );
    check(
        &web(),
        Assumptions::default(),
        &[labelled("pods", Some("other"), "app=web")],
        r#"No resources found in other namespace of the dump; did you mean -n shop?

Requests: 0
"#,
    );
}

#[test]
fn pods_that_never_end_stay_terminating() {
    let assumptions = Assumptions {
        pods_end: false,
        ..Assumptions::default()
    };
    let assumed = check(
        &web(),
        assumptions,
        &[delete("shop/ReplicaSet/web-1", DeleteOptions::policy(FOREGROUND))],
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
"#,
    );
    assert!(assumed.starts_with("  - pods never end\n"), "{assumed}");
}

#[test]
fn an_object_is_deleted_after_its_finalizer_is_removed() {
    let mut fixture = Fixture::default();
    fixture.add("v1", "ConfigMap", "shop", "a", held());
    let intents = [delete("shop/ConfigMap/a", DeleteOptions::default())];
    check(
        &fixture,
        Assumptions::default(),
        &intents,
        r#"1 terminating

Terminating: 1
  - configmap/a -n shop: waiting for finalizer example.com/held, which no controller of Kubernetes removes

Requests: 1
    1.    0.000s  you delete configmap/a -n shop
"#,
    );
    let assumptions = Assumptions {
        acting: [("example.com/held".into(), true)].into(),
        ..Assumptions::default()
    };
    let assumed = check(
        &fixture,
        assumptions,
        &intents,
        r#"1 deleted
  1 configmap

Deleted: 1
  - configmap/a -n shop

Requests: 2
    1.    0.000s  you delete configmap/a -n shop
    2.    0.000s  finalizer example.com/held of configmap/a -n shop is assumed to be released
"#,
    );
    assert!(assumed.contains("  - example.com/held is removed\n"), "{assumed}");
}

#[test]
fn a_namespace_waits_for_content_with_a_finalizer() {
    let mut fixture = Fixture::default();
    add_shop(&mut fixture);
    fixture.add("v1", "ConfigMap", "shop", "a", held());
    fixture.add("v1", "Secret", "shop", "b", json!({}));
    check(
        &fixture,
        Assumptions::default(),
        &[delete("Namespace/shop", DeleteOptions::default())],
        r#"1 deleted, 2 terminating
  1 secret

Terminating: 2
  - namespace/shop: waiting for its content, of which these remain: configmaps (1); finalizers remaining:
    example.com/held in 1 object
  - configmap/a -n shop: waiting for finalizer example.com/held, which no controller of Kubernetes removes

Deleted: 1
  - namespace/shop (terminating)
    - secret/b -n shop

Requests: 4
    1.    0.000s  you delete namespace/shop
    2.    5.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    3.    5.000s  the namespace-controller deletes the content of namespace/shop: its namespace is terminating
    4.    5.000s  the namespace-controller changes namespace/shop: the progress of its deletion has changed
"#,
    );
}

#[test]
fn a_definition_waits_for_an_object_with_a_finalizer() {
    let mut fixture = Fixture::default();
    fixture.objects.push(common::widget_definition());
    fixture.add("example.com/v1", "Widget", "shop", "a", held());
    let intents = [delete(
        "CustomResourceDefinition/widgets.example.com",
        DeleteOptions::default(),
    )];
    check(
        &fixture,
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
"#,
    );
}

#[test]
fn a_missing_object_cannot_be_deleted() {
    let cluster = common::complete(&web().objects);
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
    let mut fixture = Fixture::default();
    fixture.objects.push(common::node());
    for (namespace, name) in [("one", "a"), ("one", "b"), ("two", "c")] {
        let labels = json!({ "app": "same" });
        let spec = json!({ "replicas": 2, "selector": { "matchLabels": labels } });
        fixture.add("apps/v1", "ReplicaSet", namespace, name, json!({ "spec": spec }));
        let ready = if name == "a" { a_ready } else { b_ready };
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": ready });
        for at in 0..2 {
            let pod = json!({
                "metadata": { "labels": labels },
                "spec": { "nodeName": "node-1" },
                "status": { "phase": "Running", "conditions": [ready] },
            });
            fixture.add("v1", "Pod", namespace, &format!("{name}-{at}"), pod);
            fixture.change_last(owned_by("apps/v1", "ReplicaSet", name));
        }
    }
    fixture.objects
}

#[test]
fn orphans_are_adopted_and_the_younger_pods_are_deleted() {
    let orphan = DeleteOptions::policy(PropagationPolicy::Orphan);
    let intent = Intent::delete("one/ReplicaSet/a".parse().expect("a name"), orphan);
    let words = |cluster: &Cluster| -> String {
        let forecast = cluster.predict(std::slice::from_ref(&intent));
        let fates = forecast.expect("it is there").fates.into_iter();
        let words = fates.map(|fate| format!("{} {}", fate.object.name, fate.fate.word()));
        words.collect::<Vec<_>>().join(", ")
    };
    let (long, just) = ("2025-01-01T00:00:00Z", "2026-04-30T23:59:00Z");
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
    let cluster = common::read(&[common::list(&web().objects)], &["all"], Assumptions::default());
    let intents = [delete("shop/Deployment/web", DeleteOptions::policy(BACKGROUND))];
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

/// Addresses of Services are objects from 1.33 on. The API server creates one that is missing, and deletes it
/// with its Service.
#[test]
fn the_api_server_creates_and_deletes_the_address_of_a_service() {
    for (release, is_created_again) in [("1.32.0", false), ("1.33.0", true)] {
        let mut fixture = Fixture::default();
        let spec = json!({ "spec": { "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"] } });
        fixture.add("v1", "Service", "shop", "web", spec);
        let parent = json!({ "group": "", "resource": "services", "namespace": "shop", "name": "web" });
        let api_version = if is_created_again {
            "networking.k8s.io/v1"
        } else {
            "networking.k8s.io/v1beta1"
        };
        let spec = json!({ "spec": { "parentRef": parent } });
        fixture.add(api_version, "IPAddress", "", "10.96.0.7", spec);
        let cluster = common::of_release(release, &fixture.objects, &["all"], Assumptions::default());
        let intent = delete("IPAddress/10.96.0.7", DeleteOptions::default());
        let text = text(&cluster, &[intent]);
        let finding = "1 ipaddress is created again for service/web -n shop, which is kept";
        assert_eq!(text.contains(finding), is_created_again, "{release}: {text}");
        let intent = delete("shop/Service/web", DeleteOptions::default());
        let forecast = cluster.predict(&[intent]).expect("it is there");
        let mut fates = forecast.fates.iter();
        let address = fates.find(|fate| &*fate.object.kind == "IPAddress");
        let explanation = address.map(|address| forecast.explain(&address.object).to_string());
        let expected = "ipaddress/10.96.0.7 is deleted\n  because you delete service/web -n shop, \
                        and the API server deletes ipaddress/10.96.0.7 with it\n";
        let is_expected = explanation.as_deref() == Some(expected);
        assert_eq!(is_expected, is_created_again, "{release}: {explanation:?}");
    }
}
