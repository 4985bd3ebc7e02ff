//! Stopping: at once, in mid-way, and when nothing is due.

use std::{sync::Arc, time::Duration};

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    driver::{Driver, Report},
    volume::{Migration, reclaim::Plugin},
};
use kubegc_sim::{
    FaultPlan, Faulty,
    fault::{Call, Fault, Rule},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::json;

use crate::{
    outside::Someone,
    support::{Bench, at, block_on, job, latest, only, pod, volume, with},
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
        let plan = FaultPlan {
            rules: vec![rule],
            ..FaultPlan::default()
        };
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
