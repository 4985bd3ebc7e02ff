//! Claims: they stay while pods use them, and go with the stateful set or the pod that they belong to.

use kubegc_lifecycle::controller::Mechanism;
use serde_json::{Value, json};

use crate::support::{Bench, claim, object, only, pod, pod_with_claim, volume, with};

#[test]
fn claims_are_protected_while_pods_use_them() {
    let held = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] } });
    let bench = Bench::new(&[
        with(claim("data", "disk"), held),
        claim("bare", "disk-2"),
        volume("disk", "data", "Bound", "Retain"),
        pod_with_claim("web", "n1", "data"),
    ]);
    let driver = bench.driver(bench.store(), only([Mechanism::Protection]));
    let mut found = [false; 2];
    bench.run_beside(driver, 60, async {
        bench.until(10).await;
        let bare = bench
            .object("PersistentVolumeClaim", "shop", "bare")
            .expect("it is in use by nobody");
        assert_eq!(
            bare["metadata"]["finalizers"],
            json!(["kubernetes.io/pvc-protection"])
        );
        bench.delete("PersistentVolumeClaim", "shop", "data");
        bench.until(30).await;
        assert!(
            bench.there("PersistentVolumeClaim", "shop", "data"),
            "a pod uses it"
        );
        bench.patch_status(
            "Pod",
            "shop",
            "web",
            &json!({ "status": { "phase": "Succeeded" } }),
        );
        bench.until(40).await;
        assert!(
            bench.there("PersistentVolumeClaim", "shop", "data"),
            "a pod that has ended, too (L6.4)"
        );
        bench.delete("Pod", "shop", "web");
        found = bench
            .around(40, |bench| bench.there("PersistentVolumeClaim", "shop", "data"))
            .await;
        let disk = bench
            .object("PersistentVolume", "", "disk")
            .expect("nobody deleted it");
        assert_eq!(
            disk["metadata"]["finalizers"],
            json!(["kubernetes.io/pv-protection"])
        );
    });
    assert!(!found[1]);
}

fn stateful_set(replicas: i32) -> Value {
    let rest = json!({ "spec": {
        "replicas": replicas, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
        "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [] } },
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
    } });
    object("apps/v1", "StatefulSet", "shop", "db", rest)
}

fn member(name: &str) -> Value {
    let over = json!({ "metadata": {
        "labels": { "app": "db" },
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-of-db", "controller": true }],
    } });
    with(pod(name, "n1", "Running"), over)
}

#[test]
fn claims_of_stateful_sets_belong_to_the_set_or_to_the_pod_that_goes() {
    let bench = Bench::new(&[
        stateful_set(2),
        member("db-0"),
        member("db-1"),
        with(
            claim("data-db-0", "v0"),
            json!({ "metadata": { "labels": { "app": "db" } } }),
        ),
        with(
            claim("data-db-1", "v1"),
            json!({ "metadata": { "labels": { "app": "db" } } }),
        ),
    ]);
    let owner = |name: &str| {
        let claim = bench
            .object("PersistentVolumeClaim", "shop", name)
            .expect("it stays");
        let owner = claim["metadata"]["ownerReferences"][0].clone();
        (
            owner["kind"].as_str().map(str::to_owned),
            owner["name"].as_str().map(str::to_owned),
        )
    };
    let set = (Some("StatefulSet".to_owned()), Some("db".to_owned()));
    let driver = bench.driver(bench.store(), only([Mechanism::StatefulSets]));
    bench.run_beside(driver, 60, async {
        bench.until(1).await;
        assert_eq!(
            [owner("data-db-0"), owner("data-db-1")],
            [set.clone(), set.clone()]
        );
        bench.until(10).await;
        bench.patch("StatefulSet", "shop", "db", &json!({ "spec": { "replicas": 1 } }));
        bench.until(11).await;
        let pod = (Some("Pod".to_owned()), Some("db-1".to_owned()));
        assert_eq!([owner("data-db-0"), owner("data-db-1")], [set.clone(), pod]);
    });
}
