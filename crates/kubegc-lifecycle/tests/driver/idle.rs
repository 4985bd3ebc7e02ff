//! Stopping: at once, in mid-way, and when nothing is due.

use std::{sync::Arc, time::Duration};

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    driver::{Driver, Report},
    volume::{Migration, reclaim::Plugin},
};
use kubegc_sim::{
    Faulty,
    fault::{Call, Fault, Rule},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::json;

use crate::{
    outside::Someone,
    stores::{Odd, Oddity},
    support::{Bench, at, block_on, job, latest, node, object, only, plan_of, pod, text, volume, with},
};

#[test]
fn a_run_that_ends_idle_does_what_is_due_and_says_when_more_is() {
    let bench = Bench::new(&[
        job("due", -50, Some(10)),
        job("later", -50, Some(100)),
        job("latest", -50, Some(500)),
        pod("old", "n0", "Failed"),
    ]);
    let driver = bench.driver(bench.store(), only([Mechanism::Jobs]));
    let summary = bench.run_until_idle(driver);
    assert_eq!(bench.reports.deletions(), ["Job shop/due"]);
    assert_eq!(summary.next_at, Some(at(50)));
    assert_eq!(
        (summary.of(Mechanism::Jobs).done, summary.undecided.len()),
        (1, 0)
    );
    assert_eq!(bench.clock.next_wake(), None, "nothing waits any more");
}

#[test]
fn a_run_that_ends_idle_follows_what_its_own_calls_make_due() {
    // The claim goes once its finalizer is taken, and with it its volume.
    let held = json!({ "metadata": {
        "finalizers": ["kubernetes.io/pvc-protection"], "deletionTimestamp": at(-5).to_string(),
        "deletionGracePeriodSeconds": 0,
    } });
    let disk = with(
        volume("disk", "data", "Bound", "Delete"),
        json!({ "metadata": {
            "annotations": { "pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd" },
            "finalizers": ["kubernetes.io/pv-controller", "kubernetes.io/pv-protection"],
        } }),
    );
    let bench = Bench::new(&[with(crate::support::claim("data", "disk"), held), disk]);
    let mut settings = only([Mechanism::Volumes, Mechanism::Protection]);
    settings
        .storage
        .migrations
        .insert("kubernetes.io/gce-pd".into(), Migration::Off);
    settings
        .storage
        .plugins
        .insert("kubernetes.io/gce-pd".into(), Plugin::Known);
    let someone = Arc::new(Someone::new(&bench.clock));
    let driver = bench.driver(bench.store(), settings).outside(someone);
    bench.run_until_idle(driver);
    assert!(!bench.there("PersistentVolumeClaim", "shop", "data"));
    assert!(!bench.there("PersistentVolume", "", "disk"));
}

#[test]
fn a_run_that_ends_idle_does_not_wait_for_what_fails() {
    let error = StoreError::Refused {
        code: 403,
        message: "no".to_owned(),
        retry_after: None,
    };
    for (call, resource) in [
        (Call::Discover, None),
        (Call::List, Some("jobs")),
        (Call::Watch, Some("jobs")),
    ] {
        let bench = Bench::new(&[job("due", -50, Some(10))]);
        let rule = Rule {
            call: Some(call),
            resource: resource.map(Into::into),
            name: None,
            skip: 0,
            times: u32::MAX,
            fault: Fault::Refuse(error.clone()),
        };
        let plan = plan_of(rule);
        let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
        let driver = bench.driver(store, only([Mechanism::Jobs]));
        let summary = bench.run_until_idle(driver);
        assert!(bench.reports.calls().is_empty());
        assert_eq!(
            (bench.reports.failures().len(), summary.tasks.len()),
            (1, 0),
            "{call:?}"
        );
        let passed = kubegc_core::Clock::now(&bench.clock).since(at(0));
        assert_eq!(passed, Duration::ZERO, "{call:?}");
    }
}

#[test]
fn what_looks_in_passes_looks_as_soon_as_all_is_listed() {
    let condition = json!([{ "type": "Denied", "status": "True", "lastUpdateTime": text(-10_000) }]);
    let request = object(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "",
        "denied",
        json!({ "spec": { "request": "", "signerName": "x/y" }, "status": { "conditions": condition } }),
    );
    let leaving = json!({ "metadata": { "deletionTimestamp": text(-5), "deletionGracePeriodSeconds": 0 } });
    let objects = [
        request,
        node("n1", "Unknown"),
        with(pod("nowhere", "", "Pending"), leaving),
        pod("lost", "n0", "Running"),
    ];
    let settings = || only([Mechanism::Pods, Mechanism::Certificates, Mechanism::Nodes]);
    for is_idle in [true, false] {
        let bench = Bench::new(&objects);
        let oddity = Oddity {
            lists_take: Some((bench.clock.clone(), Duration::from_millis(100))),
            ..Oddity::default()
        };
        let someone = Arc::new(Someone::new(&bench.clock));
        let store = Odd::shared(&bench.shared, oddity);
        let driver = bench.driver(store, settings()).outside(someone);
        let summary = if is_idle {
            bench.run_until_idle(driver)
        } else {
            bench.run_beside(driver, 1, async {})
        };
        let mut deleted = bench.reports.deletions();
        deleted.sort();
        assert_eq!(
            deleted,
            ["CertificateSigningRequest denied", "Node n1", "Pod shop/nowhere"]
        );
        let calls = bench.reports.calls();
        // The metadata were listed, and then the whole objects.
        assert!(
            calls.iter().all(|call| call.0 == Duration::from_millis(200)),
            "{calls:?}"
        );
        // The next passes count from then on. Nodes have the shortest period.
        let next_at = at(5).saturating_add(Duration::from_millis(200));
        assert_eq!(summary.next_at, Some(next_at));
    }

    // What could not be listed is told.
    let bench = Bench::new(&objects);
    let rule = Rule {
        call: Some(Call::List),
        resource: Some("nodes".into()),
        name: None,
        skip: 0,
        times: u32::MAX,
        fault: Fault::of_code(500).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let oddity = Oddity {
        lists_take: Some((bench.clock.clone(), Duration::from_millis(100))),
        ..Oddity::default()
    };
    let store = Arc::new(Faulty::new(Odd::new(&bench.shared, oddity), plan));
    let summary = bench.run_until_idle(bench.driver(store, only([Mechanism::Pods])));
    assert_eq!((bench.reports.calls().len(), summary.undecided.len()), (0, 2));
}

#[test]
fn nothing_runs_unless_somebody_says_what() {
    let bench = Bench::new(&[job("due", -50, Some(10))]);
    let driver = bench.driver(bench.store(), Settings::none());
    let summary = bench.run_until_idle(driver);
    assert!(summary.tasks.is_empty() && bench.reports.calls().is_empty());
    let clock = Arc::new(bench.clock.clone());
    let driver = Driver::builder(bench.store(), clock, Arc::new(JsonDocuments::default())).build();
    block_on(&bench.clock, driver.run_until_idle(std::future::pending()));
    assert!(bench.alive("Job", "shop", "due"));
}

#[test]
fn a_stop_begins_nothing_more_and_lets_end_what_is_under_way() {
    let disk = |name: &str| {
        with(
            volume(name, name, "Released", "Delete"),
            json!({ "metadata": {
                "annotations": { "pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd" },
                "finalizers": ["kubernetes.io/pv-controller"],
            } }),
        )
    };
    let bench = Bench::new(&[disk("a"), disk("b"), disk("c"), job("soon", -50, Some(53))]);
    let mut settings = only([Mechanism::Volumes, Mechanism::Jobs]);
    settings
        .storage
        .migrations
        .insert("kubernetes.io/gce-pd".into(), Migration::Off);
    settings
        .storage
        .plugins
        .insert("kubernetes.io/gce-pd".into(), Plugin::Known);
    let mut someone = Someone::new(&bench.clock);
    someone.takes = Duration::from_secs(10);
    let someone = Arc::new(someone);
    let driver = bench
        .driver(bench.store(), settings)
        .outside(someone.clone())
        .workers(2);
    let summary = bench.run_beside(driver, 2, async {});
    assert_eq!(
        kubegc_core::Clock::now(&bench.clock),
        at(10),
        "the plugins take 10 s"
    );
    assert_eq!(someone.asked().len(), 2);
    assert_eq!(summary.of(Mechanism::Volumes).done, 2);
    let left: Vec<bool> = ["a", "b", "c"]
        .map(|name| bench.there("PersistentVolume", "", name))
        .into();
    assert_eq!(left.iter().filter(|there| **there).count(), 1, "{left:?}");
    assert!(bench.alive("Job", "shop", "soon"), "due at 3, after the stop");
}

#[test]
fn a_stop_before_anything_was_listed_ends_at_once() {
    let bench = Bench::new(&[job("due", -50, Some(10))]);
    let driver = bench.driver(bench.store(), Settings::new(latest())).build();
    let summary = block_on(&bench.clock, driver.run(async {}));
    assert!(summary.tasks.is_empty() && bench.reports.calls().is_empty());
    assert!(
        !bench
            .reports
            .all()
            .iter()
            .any(|(_, report)| matches!(report, Report::Made(_)))
    );
}
