//! Every call goes wrong once, in every way: in the end the cluster is as without that, and nothing else is gone.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    controller::Settings,
    driver::Summary,
    node::Cloud,
    volume::{Migration, external, reclaim::Plugin},
};
use kubegc_sim::{
    FaultPlan, Faulty,
    fault::{Call, Fault, Rule},
};
use serde_json::{Value, json};

use crate::{
    outside::Someone,
    support::{Bench, claim, job, latest, namespace, node, object, pod, text, volume, with},
};

/// Long enough for every retry, resync and pass but those of a day.
const SECONDS: i64 = 3 * 3_600;

fn settings() -> Settings {
    let mut settings = Settings::new(latest());
    settings.pods.as_mut().expect("they run").terminated_threshold = 1;
    settings.nodes.as_mut().expect("they run").period = std::time::Duration::from_secs(300);
    settings
        .external_volumes
        .push(external::Settings::new("disks.example.com"));
    let storage = &mut settings.storage;
    storage
        .migrations
        .insert("kubernetes.io/gce-pd".into(), Migration::Off);
    storage
        .plugins
        .insert("kubernetes.io/gce-pd".into(), Plugin::Known);
    settings
}

/// Something for every mechanism: what goes, and its neighbour that stays.
fn objects() -> Vec<Value> {
    let cron_job = json!({
        "spec": { "schedule": "@hourly", "successfulJobsHistoryLimit": 1, "jobTemplate": { "spec": {} } },
        "status": { "active": [{ "kind": "Job", "name": "hourly-1", "uid": "uid-of-hourly-1" }] },
    });
    let of_cron_job = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }] } });
    let request = |name: &str, condition: Value| {
        let rest =
            json!({ "spec": { "request": "", "signerName": "x/y" }, "status": { "conditions": condition } });
        object(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            "",
            name,
            rest,
        )
    };
    let provisioned = |name: &str, by: &str, finalizer: &str| {
        let over = json!({ "metadata": {
            "annotations": { "pv.kubernetes.io/provisioned-by": by }, "finalizers": [finalizer],
        } });
        with(volume(name, name, "Released", "Delete"), over)
    };
    let lease = |name: &str| {
        let owner =
            json!([{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-of-{name}") }]);
        let rest = json!({ "metadata": { "ownerReferences": owner }, "spec": {} });
        object("coordination.k8s.io/v1", "Lease", "kube-node-lease", name, rest)
    };
    let secret = |name: &str, expiration: Option<&str>| {
        let rest = json!({ "type": "bootstrap.kubernetes.io/token", "data": { "expiration": expiration } });
        object("v1", "Secret", "kube-system", name, rest)
    };
    let set = json!({ "spec": {
        "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
        "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [] } },
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
    } });
    let member = json!({ "metadata": {
        "labels": { "app": "db" },
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-of-db", "controller": true }],
    } });
    let labelled =
        json!({ "metadata": { "labels": { "app": "db" }, "finalizers": ["kubernetes.io/pvc-protection"] } });
    let leaving = json!({ "metadata": {
        "finalizers": ["kubernetes.io/pvc-protection"], "deletionTimestamp": text(-5), "deletionGracePeriodSeconds": 0,
    } });
    let terminating = json!({
        "metadata": { "deletionTimestamp": text(-5) }, "status": { "phase": "Active" },
    });
    let content = json!({ "metadata": { "namespace": "old" }, "data": {} });
    vec![
        node("n1", "True"),
        node("n2", "Unknown"),
        pod("done-1", "n1", "Succeeded"),
        pod("done-2", "n1", "Succeeded"),
        // Older than the others: once it is marked as failed it may be one too many.
        with(
            pod("lost", "n0", "Running"),
            json!({ "metadata": { "creationTimestamp": text(-20_000) } }),
        ),
        pod("fine", "n1", "Running"),
        job("report", -50, Some(100)),
        job("kept", -50, None),
        object("batch/v1", "CronJob", "shop", "hourly", cron_job),
        with(job("hourly-1", -500, None), of_cron_job.clone()),
        with(job("hourly-2", -400, None), of_cron_job),
        request(
            "denied",
            json!([{ "type": "Denied", "status": "True", "lastUpdateTime": text(-9_000) }]),
        ),
        request("pending", json!([])),
        provisioned("disk", "kubernetes.io/gce-pd", "kubernetes.io/pv-controller"),
        provisioned(
            "far",
            "disks.example.com",
            "external-provisioner.volume.kubernetes.io/finalizer",
        ),
        volume("manual", "nobody", "Released", "Retain"),
        with(claim("leaving", ""), leaving),
        object("apps/v1", "StatefulSet", "shop", "db", set),
        with(pod("db-0", "n1", "Running"), member),
        with(claim("data-db-0", "v0"), labelled),
        lease("n1"),
        lease("n2"),
        secret("bootstrap-token-aaaaaa", Some("MjAyNi0wMS0wMVQwMDowMDo1MFo=")),
        secret("bootstrap-token-bbbbbb", None),
        with(namespace("old"), terminating),
        with(object("v1", "ConfigMap", "old", "settings", json!({})), content),
    ]
}

/// Every object that is left, with what was done to it.
fn left(bench: &Bench) -> BTreeSet<String> {
    bench.shared.with(|server| {
        let mut left = BTreeSet::new();
        let kinds: Vec<_> = server.catalog().iter().map(|(kind, _)| kind).collect();
        for kind in kinds {
            for stored in server.objects(kind, None) {
                let meta = &stored.meta;
                // Jobs that are gone are taken out of it once: whoever runs cron jobs takes the rest out.
                let status = stored
                    .at(&["status"])
                    .filter(|status| status.get("active").is_none());
                left.insert(format!(
                    "{} {}/{} deleting={} finalizers={:?} owners={:?} status={} taints={}",
                    server.catalog()[kind].qualified_kind(),
                    meta.namespace,
                    meta.name,
                    meta.is_deleting(),
                    meta.finalizers,
                    meta.owner_references
                        .iter()
                        .map(|owner| &owner.uid)
                        .collect::<Vec<_>>(),
                    status.cloned().unwrap_or_default(),
                    stored.at(&["spec", "taints"]).cloned().unwrap_or_default(),
                ));
            }
        }
        left
    })
}

struct Outcome {
    left: BTreeSet<String>,
    injected: u64,
    calls: u64,
    summary: Summary,
}

fn run(rules: Vec<Rule>) -> Outcome {
    let bench = Bench::new(&objects());
    let someone = Someone::new(&bench.clock);
    let nodes = [("n1", (Cloud::Yes, Cloud::No)), ("n2", (Cloud::Yes, Cloud::Yes))];
    someone
        .nodes
        .lock()
        .expect("no test panics while it holds this")
        .extend(nodes);
    let plan = FaultPlan {
        rules,
        ..FaultPlan::default()
    };
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store.clone(), settings()).outside(Arc::new(someone));
    let summary = bench.run_beside(driver, SECONDS, async {
        // A bootstrap token whose deletion has failed waits for its next change (L12.3), and a job of a cron job for one of that (L3.9).
        bench.until(SECONDS / 2).await;
        let touched = json!({ "metadata": { "labels": { "touched": "yes" } } });
        let token = "bootstrap-token-aaaaaa";
        if bench.there("Secret", "kube-system", token) {
            bench.patch("Secret", "kube-system", token, &touched);
        }
        if bench.there("Job", "shop", "hourly-1") {
            bench.patch("CronJob", "shop", "hourly", &touched);
        }
    });
    Outcome {
        left: left(&bench),
        injected: store.injected(),
        calls: bench.reports.calls().len() as u64,
        summary,
    }
}

fn rule(call: Call, skip: u32, fault: &Fault) -> Rule {
    Rule {
        call: Some(call),
        resource: None,
        name: None,
        skip,
        times: 1,
        fault: fault.clone(),
    }
}

#[test]
fn without_faults_what_should_go_goes() {
    let Outcome { left, summary, .. } = run(Vec::new());
    let is_left = |name: &str| left.iter().any(|object| object.contains(&format!("/{name} ")));
    for name in [
        "done-1",
        "lost",
        "hourly-1",
        "denied",
        "disk",
        "far",
        "leaving",
        "bootstrap-token-aaaaaa",
        "old",
        "settings",
    ] {
        assert!(!is_left(name), "{name}");
    }
    for name in [
        "n1",
        "n2",
        "done-2",
        "fine",
        "kept",
        "hourly",
        "hourly-2",
        "pending",
        "manual",
        "db",
        "db-0",
        "data-db-0",
        "bootstrap-token-bbbbbb",
        "shop",
    ] {
        assert!(is_left(name), "{name}");
    }
    // Asked for in the foreground, which somebody else finishes.
    assert!(left.iter().any(|object| object.contains("/report deleting=true")));
    assert!(
        summary.tasks.values().all(|tally| tally.failed == 0),
        "{summary:?}"
    );
}

#[test]
fn every_call_may_fail_once() {
    let calm = run(Vec::new()).left;
    let refusals = [500, 429, 409, 403].map(|code| Fault::of_code(code).expect("a refusal"));
    let reads = &refusals[..2];
    let writes: Vec<Fault> = refusals.iter().cloned().chain([Fault::LoseAnswer]).collect();
    let kinds: [(Call, &[Fault]); 8] = [
        (Call::Discover, reads),
        (Call::List, reads),
        (Call::Watch, reads),
        (Call::Get, reads),
        (Call::Delete, &writes),
        (Call::Patch, &writes),
        (Call::Replace, &writes),
        (Call::DeleteCollection, &writes),
    ];
    for (call, faults) in kinds {
        for fault in faults {
            let mut injected = 0;
            // Until the call is made no more often: each is made a few dozen times at most.
            for skip in 0..200 {
                let outcome = run(vec![rule(call, skip, fault)]);
                if outcome.injected == 0 {
                    break;
                }
                injected += 1;
                assert!(outcome.calls > 0);
                let gone: Vec<_> = calm.difference(&outcome.left).collect();
                let kept: Vec<_> = outcome.left.difference(&calm).collect();
                assert!(
                    gone.is_empty() && kept.is_empty(),
                    "{call:?} {skip} {fault:?}: gone {gone:#?} kept {kept:#?}"
                );
            }
            assert!(injected > 0, "{call:?} is made");
        }
    }
}

#[test]
fn nothing_is_done_while_nothing_can_be_read() {
    let error = StoreError::Refused {
        code: 403,
        message: "forbidden".to_owned(),
        retry_after: None,
    };
    let fault = Fault::Refuse(error);
    let always = |call| Rule {
        times: u32::MAX,
        ..rule(call, 0, &fault)
    };
    let untouched = {
        let bench = Bench::new(&objects());
        left(&bench)
    };
    for call in [Call::Discover, Call::List, Call::Watch] {
        let outcome = run(vec![always(call)]);
        assert_eq!((outcome.calls, outcome.left == untouched), (0, true), "{call:?}");
        assert!(outcome.injected > 100, "{call:?} is tried again");
    }
}
