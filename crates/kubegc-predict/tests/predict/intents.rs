//! Deletes of missing objects, orphans that are adopted, and colours of a report.

use std::time::Duration;

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Assumptions, Cluster, Detail, Intent, PredictError, Target};
use serde_json::{Value, json};

use crate::common;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1}]}
";

fn delete(name: &str, options: DeleteOptions) -> Intent {
    Intent::delete(name.parse().expect("a name in two or three parts"), options)
}

#[test]
fn a_missing_object_cannot_be_deleted() {
    let cluster = common::of_dump("1.36", WEB, &["all"], Assumptions::default());
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
    let gadgets = Intent {
        target: Target::Labelled {
            kind: "gadgets".into(),
            namespace: None,
            selector: "a=b".parse().expect("a selector"),
        },
        options: DeleteOptions::default(),
        after: Duration::ZERO,
    };
    assert_eq!(
        cluster.predict(&[gadgets]).map(|_| ()),
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
    let cluster = common::of_dump("1.36", WEB, &["all"], Assumptions::default());
    let intents = [delete("shop/Deployment/web", DeleteOptions::default())];
    let forecast = cluster.predict(&intents).expect("it is there");
    let coloured = forecast.to_text(Detail {
        colours: true,
        ..Detail::default()
    });
    assert!(
        coloured.contains("\n\u{1b}[1;31mDeleted: 2\u{1b}[0m\n"),
        "{coloured}"
    );
    let plain = coloured.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, forecast.to_text(Detail::default()));
}
