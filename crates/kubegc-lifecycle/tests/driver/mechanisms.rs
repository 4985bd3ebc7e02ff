//! Each mechanism from the list to the last call: objects go when they should, and not one instant before.

use std::{sync::Arc, time::Duration};

use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    node::Cloud,
};
use serde_json::{Value, json};

use crate::{
    outside::Someone,
    support::{Bench, job, latest, node, object, only, pod, text, with},
};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Runs for some time; gives whether something was alive one instant before a second, and one after.
fn around(bench: &Bench, settings: Settings, seconds: i64, look: impl Fn(&Bench) -> bool) -> [bool; 2] {
    let mut found = [false; 2];
    let driver = bench.driver(bench.store(), settings);
    bench.run_beside(driver, seconds + 1, async {
        found = bench.around(seconds, look).await;
    });
    found
}

#[test]
fn jobs_go_when_their_time_is_up() {
    let bench = Bench::new(&[
        job("report", -50, Some(100)),
        job("kept", -50, Some(52)),
        job("endless", -50, None),
    ]);
    let settings = only([Mechanism::Jobs]);
    let found = around(&bench, settings, 50, |bench| bench.alive("Job", "shop", "report"));
    assert_eq!(found, [true, false]);
    assert_eq!(bench.reports.deletions(), ["Job shop/kept", "Job shop/report"]);
    assert!(bench.alive("Job", "shop", "endless"));
    let calls = bench.reports.calls();
    assert_eq!(calls[0].0, Duration::from_secs(2));
    // Deleted in the foreground (L2.7): it stays until its pods are gone.
    let kept = bench
        .object("Job", "shop", "kept")
        .expect("its finalizer holds it");
    assert_eq!(kept["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[test]
fn a_job_that_finishes_later_goes_at_its_own_time() {
    let running = with(
        job("report", -50, Some(10)),
        json!({ "status": { "conditions": null } }),
    );
    let bench = Bench::new(&[running]);
    let driver = bench.driver(bench.store(), only([Mechanism::Jobs]));
    let mut found = [false; 2];
    let summary = bench.run_beside(driver, 100, async {
        bench.until(20).await;
        let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": text(20) }]);
        bench.patch_status(
            "Job",
            "shop",
            "report",
            &json!({ "status": { "conditions": complete } }),
        );
        found = bench
            .around(30, |bench| bench.alive("Job", "shop", "report"))
            .await;
    });
    assert_eq!(found, [true, false]);
    assert_eq!(summary.of(Mechanism::Jobs).done, 1);
    assert_eq!((summary.undecided.len(), summary.next_at), (0, None));
}

#[test]
fn terminated_pods_over_the_threshold_go_in_the_next_pass() {
    let bench = Bench::new(&[
        node("n1", "True"),
        pod("a", "n1", "Succeeded"),
        pod("b", "n1", "Failed"),
        pod("c", "n1", "Running"),
    ]);
    let mut settings = only([Mechanism::Pods]);
    settings.pods.as_mut().expect("they run").terminated_threshold = 2;
    let driver = bench.driver(bench.store(), settings);
    let mut found = [false; 2];
    bench.run_beside(driver, 60, async {
        bench.until(5).await;
        bench.patch_status("Pod", "shop", "c", &json!({ "status": { "phase": "Succeeded" } }));
        found = bench.around(20, |bench| bench.there("Pod", "shop", "a")).await;
    });
    assert_eq!(found, [true, false]);
    assert_eq!(bench.reports.deletions(), ["Pod shop/a"]);
}

#[test]
fn orphaned_pods_are_marked_and_go_after_the_quarantine() {
    let bench = Bench::new(&[
        node("n1", "True"),
        node("n2", "True"),
        pod("lost", "n1", "Running"),
        pod("fine", "n2", "Running"),
    ]);
    let driver = bench.driver(bench.store(), only([Mechanism::Pods]));
    let mut found = [false; 2];
    bench.run_beside(driver, 100, async {
        bench.until(5).await;
        bench.delete("Node", "", "n1");
        // Missed first in the pass at 20, the 40 s are over in the one at 60.
        found = bench.around(60, |bench| bench.there("Pod", "shop", "lost")).await;
    });
    assert_eq!(found, [true, false]);
    let calls: Vec<String> = bench.reports.calls().into_iter().map(|call| call.1).collect();
    assert_eq!(
        calls,
        [
            "pods: change the status of Pod shop/lost: its node n1 is gone",
            "pods: delete Pod shop/lost: its node n1 is gone",
        ]
    );
    assert!(bench.alive("Pod", "shop", "fine"));
}

#[test]
fn terminating_pods_without_a_node_and_on_nodes_out_of_service_go_in_the_next_pass() {
    let deleting = json!({ "metadata": {
        "deletionTimestamp": text(-100), "deletionGracePeriodSeconds": 30, "finalizers": ["shop/hold"],
    } });
    let taint = json!({ "spec": { "taints": [
        { "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" },
    ] } });
    let free = json!({ "metadata": { "finalizers": null } });
    let bench = Bench::new(&[
        with(node("dead", "Unknown"), taint),
        node("fine", "True"),
        with(
            with(pod("nowhere", "", "Pending"), deleting.clone()),
            free.clone(),
        ),
        with(
            with(pod("stuck", "dead", "Running"), deleting.clone()),
            free.clone(),
        ),
        with(with(pod("ending", "fine", "Running"), deleting), free),
    ]);
    bench.run(only([Mechanism::Pods]), 1);
    assert_eq!(bench.reports.deletions(), ["Pod shop/stuck", "Pod shop/nowhere"]);
    assert!(bench.there("Pod", "shop", "ending"));
    assert!(!bench.there("Pod", "shop", "stuck") && !bench.there("Pod", "shop", "nowhere"));
}

fn cron_job(active: &[&str]) -> Value {
    let active: Vec<Value> = active
        .iter()
        .map(|name| json!({ "kind": "Job", "name": name, "uid": format!("uid-of-{name}") }))
        .collect();
    let rest = json!({
        "spec": {
            "schedule": "@hourly", "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1,
            "jobTemplate": { "spec": {} },
        },
        "status": { "active": active },
    });
    object("batch/v1", "CronJob", "shop", "hourly", rest)
}

fn of_cron_job(job: Value) -> Value {
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }]);
    with(job, json!({ "metadata": { "ownerReferences": owner } }))
}

#[test]
fn jobs_beyond_the_limits_of_their_cron_job_go_at_once() {
    let bench = Bench::new(&[
        cron_job(&["hourly-1", "hourly-4"]),
        of_cron_job(job("hourly-1", -400, None)),
        of_cron_job(job("hourly-2", -300, None)),
        of_cron_job(job("hourly-3", -200, None)),
        with(
            of_cron_job(job("hourly-4", -100, None)),
            json!({ "status": { "conditions": null } }),
        ),
    ]);
    let driver = bench.driver(bench.store(), only([Mechanism::Histories]));
    let mut found = [false; 2];
    bench.run_beside(driver, 60, async {
        bench.until(1).await;
        assert!(!bench.there("Job", "shop", "hourly-1"));
        // It is no active job of its cron job any more.
        let cron_job = bench.object("CronJob", "shop", "hourly").expect("it stays");
        assert_eq!(cron_job["status"]["active"][0]["name"], "hourly-4");
        bench.until(30).await;
        let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": text(30) }]);
        bench.patch_status(
            "Job",
            "shop",
            "hourly-4",
            &json!({ "status": { "conditions": complete } }),
        );
        found = bench
            .around(30, |bench| bench.there("Job", "shop", "hourly-2"))
            .await;
    });
    assert!(!found[1]);
    assert_eq!(
        bench.reports.deletions(),
        ["Job shop/hourly-1", "Job shop/hourly-2"]
    );
    assert_eq!(bench.reports.events(), ["SuccessfulDelete", "SuccessfulDelete"]);
    assert!(bench.there("Job", "shop", "hourly-3") && bench.there("Job", "shop", "hourly-4"));
}

fn request(name: &str, status: Value) -> Value {
    let rest =
        json!({ "spec": { "request": "", "signerName": "kubernetes.io/kubelet-serving" }, "status": status });
    object(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "",
        name,
        rest,
    )
}

#[test]
fn certificate_requests_go_in_the_first_pass_after_their_time() {
    let denied = |seconds| json!({ "conditions": [{ "type": "Denied", "status": "True", "lastUpdateTime": text(seconds) }] });
    let bench = Bench::new(&[
        request("denied", denied(-HOUR + 10)),
        request("later", denied(0)),
        request("young", json!({})),
    ]);
    let settings = only([Mechanism::Certificates]);
    let kind = "CertificateSigningRequest";
    // Its hour ends at 10, and the next pass is at 3600. For the other one it ends at 3600: not more than an hour ago then.
    let found = around(&bench, settings, HOUR, |bench| bench.there(kind, "", "denied"));
    assert_eq!(found, [true, false]);
    assert!(bench.there(kind, "", "later") && bench.there(kind, "", "young"));
}

#[test]
fn certificate_requests_of_pods_go_in_the_first_pass_after_half_an_hour() {
    let created = |name, seconds| {
        let rest = json!({ "metadata": { "creationTimestamp": text(seconds) }, "spec": {} });
        object(
            "certificates.k8s.io/v1",
            "PodCertificateRequest",
            "shop",
            name,
            rest,
        )
    };
    let version = "1.37".parse().expect("a release in range");
    let bench = Bench::of_release(version, &[created("a", HOUR / 2), created("b", HOUR / 2 + 1)]);
    let settings = Settings::only(version, [Mechanism::PodCertificates]);
    let found = around(&bench, settings, HOUR, |bench| {
        bench.there("PodCertificateRequest", "shop", "a")
    });
    assert_eq!(found, [true, false]);
    assert!(bench.there("PodCertificateRequest", "shop", "b"));
}

#[test]
fn nodes_go_that_the_cloud_no_longer_has() {
    let bench = Bench::new(&[
        node("gone", "Unknown"),
        node("ready", "True"),
        node("off", "Unknown"),
        node("slow", "Unknown"),
        node("asked", "Unknown"),
    ]);
    let mut someone = Someone::new(&bench.clock);
    let nodes = someone
        .nodes
        .get_mut()
        .expect("no test panics while it holds this");
    nodes.insert("off", (Cloud::Yes, Cloud::Yes));
    nodes.insert("slow", (Cloud::Yes, Cloud::No));
    nodes.insert("asked", (Cloud::Failed("too many requests".into()), Cloud::No));
    let someone = Arc::new(someone);
    let driver = bench
        .driver(bench.store(), only([Mechanism::Nodes]))
        .outside(someone.clone());
    let mut found = [false; 2];
    bench.run_beside(driver, 31, async {
        bench.until(1).await;
        assert!(!bench.there("Node", "", "gone"));
        bench.until(22).await;
        someone
            .nodes
            .lock()
            .expect("no test panics while it holds this")
            .remove("slow");
        found = bench.around(25, |bench| bench.there("Node", "", "slow")).await;
    });
    assert_eq!(found, [true, false], "with the next pass");
    assert_eq!(bench.reports.deletions(), ["Node gone", "Node slow"]);
    assert_eq!(bench.reports.events(), ["DeletingNode", "DeletingNode"]);
    let off = bench.object("Node", "", "off").expect("the cloud has it");
    assert_eq!(
        off["spec"]["taints"][0]["key"],
        "node.cloudprovider.kubernetes.io/shutdown"
    );
    for name in ["ready", "asked"] {
        let node = bench.object("Node", "", name).expect("it stays");
        assert!(node["spec"]["taints"].is_null(), "{name}");
    }
}

#[test]
fn nodes_stay_where_nobody_asks_the_cloud() {
    let bench = Bench::new(&[node("gone", "Unknown")]);
    let summary = bench.run(only([Mechanism::Nodes]), 60);
    assert!(bench.reports.calls().is_empty());
    let undecided: Vec<String> = summary
        .undecided
        .iter()
        .map(|undecided| undecided.1.to_string())
        .collect();
    assert_eq!(undecided, ["Node gone"]);
}

#[test]
fn leases_go_with_their_nodes() {
    let lease = |name: &str, uid: &str| {
        let owner = json!([{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid }]);
        let rest = json!({ "metadata": { "ownerReferences": owner }, "spec": {} });
        object("coordination.k8s.io/v1", "Lease", "kube-node-lease", name, rest)
    };
    let bench = Bench::new(&[
        node("n1", "True"),
        node("n2", "True"),
        node("n3", "True"),
        lease("n1", "uid-of-n1"),
        lease("n2", "uid-of-n2"),
        lease("n3", "uid-of-another"),
    ]);
    let driver = bench.driver(bench.store(), only([Mechanism::Leases]));
    let mut found = [false; 2];
    bench.run_beside(driver, 60, async {
        bench.until(10).await;
        assert!(bench.there("Lease", "kube-node-lease", "n1"));
        assert!(
            !bench.there("Lease", "kube-node-lease", "n3"),
            "of a node that was before (L9.3)"
        );
        bench.delete("Node", "", "n1");
        found = bench
            .around(10, |bench| bench.there("Lease", "kube-node-lease", "n1"))
            .await;
    });
    assert!(!found[1]);
    assert!(bench.there("Lease", "kube-node-lease", "n2"));
}

fn token(name: &str, secret_type: &str, rest: Value) -> Value {
    with(
        object(
            "v1",
            "Secret",
            "kube-system",
            name,
            json!({ "type": secret_type }),
        ),
        rest,
    )
}

#[test]
fn legacy_tokens_are_marked_and_go_after_another_period() {
    let since = json!({ "data": { "since": "2020-01-01" } });
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let annotations = json!({
        "kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "uid-of-robot",
    });
    let annotated =
        json!({ "metadata": { "annotations": annotations, "creationTimestamp": text(-1_000 * DAY) } });
    let kind = "kubernetes.io/service-account-token";
    let used = with(
        annotated.clone(),
        json!({ "metadata": { "labels": { "kubernetes.io/legacy-token-last-used": "2025-12-30" } } }),
    );
    let bench = Bench::new(&[
        object("v1", "ConfigMap", "kube-system", tracking, since),
        object(
            "v1",
            "ServiceAccount",
            "kube-system",
            "robot",
            json!({ "secrets": [{ "name": "robot-token-1" }, { "name": "robot-token-2" }] }),
        ),
        token("robot-token-1", kind, annotated.clone()),
        token("robot-token-2", kind, used),
        token("by-hand", kind, annotated),
    ]);
    let month = Duration::from_secs(30 * 24 * 3_600);
    let mut settings = only([Mechanism::LegacyTokens]);
    let policy = settings.legacy_tokens.take().expect("they run");
    settings.legacy_tokens = Some(policy.with_clean_up_period(month).expect("not zero"));
    let driver = bench.driver(bench.store(), settings);
    let mut found = [false; 2];
    bench.run_beside(driver, 32 * DAY, async {
        bench.until(1).await;
        let label = |name| {
            let secret = bench.object("Secret", "kube-system", name).expect("it stays");
            secret["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"].clone()
        };
        assert_eq!(label("robot-token-1"), "2026-01-01");
        assert!(label("robot-token-2").is_null() && label("by-hand").is_null());
        // By date, so that the day of the mark must be over a month ago.
        found = bench
            .around(31 * DAY, |bench| {
                bench.there("Secret", "kube-system", "robot-token-1")
            })
            .await;
    });
    assert_eq!(found, [true, false]);
    assert!(bench.there("Secret", "kube-system", "by-hand"));
}

#[test]
fn bootstrap_tokens_go_when_they_expire() {
    // 2026-01-01T00:00:50Z
    let expiring = |expiration: &str| json!({ "data": { "expiration": expiration } });
    let kind = "bootstrap.kubernetes.io/token";
    let bench = Bench::new(&[
        token(
            "bootstrap-token-aaaaaa",
            kind,
            expiring("MjAyNi0wMS0wMVQwMDowMDo1MFo="),
        ),
        token("bootstrap-token-bbbbbb", kind, json!({ "data": {} })),
        token("other", "Opaque", expiring("MjAyNi0wMS0wMVQwMDowMDo1MFo=")),
    ]);
    let settings = only([Mechanism::BootstrapTokens]);
    let found = around(&bench, settings, 50, |bench| {
        bench.there("Secret", "kube-system", "bootstrap-token-aaaaaa")
    });
    assert_eq!(found, [true, false]);
    assert_eq!(
        bench.reports.deletions(),
        ["Secret kube-system/bootstrap-token-aaaaaa"]
    );
}

#[test]
fn namespaces_are_emptied_in_order() {
    let config = object("v1", "ConfigMap", "shop", "settings", json!({ "data": {} }));
    let bench = Bench::new(&[pod("web", "n1", "Running"), config]);
    let driver = bench.driver(bench.store(), only([Mechanism::Namespaces]));
    let mut content = [false; 2];
    let mut found = [false; 2];
    let summary = bench.run_beside(driver, 100, async {
        bench.until(10).await;
        bench.delete("Namespace", "", "shop");
        // Five seconds after the event, pods first: this one gets its 30 s.
        content = bench.around(15, |bench| bench.alive("Pod", "shop", "web")).await;
        assert!(bench.there("ConfigMap", "shop", "settings"));
        // Its new conditions are an event, too. Then nothing changes until half of the estimate and a second have passed.
        bench.until(30).await;
        bench.delete("Pod", "shop", "web");
        found = bench
            .around(36, |bench| bench.there("Namespace", "", "shop"))
            .await;
    });
    assert_eq!((content, found), ([true, false], [true, false]));
    assert!(!bench.there("ConfigMap", "shop", "settings"));
    let tally = summary.of(Mechanism::Namespaces);
    assert_eq!((tally.again, tally.failed, tally.done >= 1), (2, 0, true));
    assert!(bench.there("Namespace", "", "kube-system"));
}

#[test]
fn a_namespace_with_a_finalizer_of_its_own_stays_with_that() {
    let bench = Bench::new(&[]);
    bench.create(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kept", "labels": { "team": "a" } },
        "spec": { "finalizers": ["kubernetes", "shop/archive"] },
    }));
    bench.delete("Namespace", "", "kept");
    bench.run(only([Mechanism::Namespaces]), 60);
    let kept = bench
        .object("Namespace", "", "kept")
        .expect("its finalizer holds it");
    assert_eq!(kept["spec"]["finalizers"], json!(["shop/archive"]));
    assert_eq!(
        kept["metadata"]["labels"]["team"], "a",
        "it is written back whole"
    );
}

#[test]
fn mechanisms_work_side_by_side() {
    let finished = with(
        pod("report-1", "n1", "Succeeded"),
        json!({ "metadata": { "ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "Job", "name": "report", "uid": "uid-of-report", "controller": true,
        }] } }),
    );
    let bench = Bench::new(&[
        node("n1", "True"),
        job("report", -50, Some(100)),
        finished,
        pod("old", "n1", "Failed"),
        with(pod("lost", "n2", "Running"), json!({})),
    ]);
    let mut settings = Settings::new(latest());
    settings.pods.as_mut().expect("they run").terminated_threshold = 1;
    let someone = Arc::new(Someone::new(&bench.clock));
    let driver = bench.driver(bench.store(), settings).outside(someone);
    let summary = bench.run_beside(driver, 200, async {});
    let calls = bench.reports.calls();
    let at = |text: &str| {
        let found = calls.iter().find(|call| call.1.contains(text));
        found.unwrap_or_else(|| panic!("{text}: {calls:?}")).0.as_secs()
    };
    // Pods in the passes at 0 and 40, the job at its time.
    assert_eq!(
        [
            at("delete Pod shop/old"),
            at("delete Pod shop/lost"),
            at("delete Job shop/report")
        ],
        [0, 40, 50]
    );
    assert!(
        bench.alive("Pod", "shop", "report-1"),
        "the owner graph sees to it"
    );
    assert!(bench.alive("Node", "", "n1"));
    assert_eq!(
        summary
            .tasks
            .values()
            .map(|tally| tally.failed + tally.stale)
            .sum::<u64>(),
        0
    );
}
