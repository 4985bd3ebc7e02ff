//! How a driver keeps up with the cluster: what is not served, what is forbidden, watches that end or grow old, documents that nobody can read.

use std::{sync::Arc, time::Duration};

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    driver::Report,
};
use kubegc_sim::{
    Faulty,
    fault::{Call, Fault, Rule},
};
use serde_json::json;

use crate::{
    stores::{Odd, Oddity},
    support::{Bench, Reports, at, job, node, object, only, plan_of, pod},
};

fn faulty(
    bench: &Bench,
    call: Call,
    resource: &str,
    times: u32,
    error: StoreError,
) -> Arc<Faulty<kubegc_sim::SharedApiServer>> {
    let rule = Rule {
        call: Some(call),
        resource: Some(resource.into()),
        name: None,
        skip: 0,
        times,
        fault: Fault::Refuse(error),
    };
    let plan = plan_of(rule);
    Arc::new(Faulty::new(bench.shared.clone(), plan))
}

fn forbidden() -> StoreError {
    StoreError::Refused {
        code: 403,
        message: "jobs is forbidden".to_owned(),
        retry_after: None,
    }
}

fn millis(reports: &Reports) -> Vec<u128> {
    reports
        .failures()
        .into_iter()
        .map(|failure| failure.0.as_millis())
        .collect()
}

#[test]
fn a_list_that_is_forbidden_leaves_everything_undecided_until_it_works() {
    let cron_job = object(
        "batch/v1",
        "CronJob",
        "shop",
        "hourly",
        json!({ "spec": { "jobTemplate": { "spec": {} } } }),
    );
    let bench = Bench::new(&[job("report", -50, Some(10)), cron_job, pod("old", "n0", "Failed")]);
    let store = faulty(&bench, Call::List, "jobs", u32::MAX, forbidden());
    let settings = only([Mechanism::Jobs, Mechanism::Histories, Mechanism::Pods]);
    let summary = bench.run_beside(bench.driver(store, settings), 120, async {});
    // The first after 0.8 s, each other one twice as late.
    assert_eq!(
        millis(&bench.reports),
        [0, 800, 2_400, 5_600, 12_000, 24_800, 50_400, 80_400, 110_400]
    );
    assert!(bench.alive("Job", "shop", "report"));
    let undecided: Vec<String> = summary
        .undecided
        .iter()
        .map(|(_, object, reason)| format!("{object}: {reason}"))
        .collect();
    assert_eq!(undecided.len(), 1, "{undecided:?}");
    assert!(
        undecided[0].starts_with("CronJob shop/hourly: the jobs are not known"),
        "{undecided:?}"
    );
    assert_eq!(
        bench.reports.deletions(),
        ["Pod shop/old"],
        "pods are not concerned"
    );

    let bench = Bench::new(&[job("report", -50, Some(10))]);
    let store = faulty(&bench, Call::List, "jobs", 3, forbidden());
    let summary = bench.run_beside(bench.driver(store, only([Mechanism::Jobs])), 60, async {});
    assert_eq!(
        bench.reports.calls().first().map(|call| call.0),
        Some(Duration::from_millis(5_600))
    );
    assert!(summary.undecided.is_empty());
}

#[test]
fn what_is_known_stays_known_while_a_new_list_fails() {
    let bench = Bench::new(&[
        job("a", -50, Some(60)),
        job("b", -50, Some(90)),
        job("touched", -50, Some(100)),
    ]);
    // The metadata and the whole objects were listed once.
    let rule = Rule {
        call: Some(Call::List),
        resource: Some("jobs".into()),
        name: None,
        skip: 2,
        times: u32::MAX,
        fault: Fault::Refuse(forbidden()),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store, only([Mechanism::Jobs]));
    bench.run_beside(driver, 100, async {
        bench.until(5).await;
        expire(&bench);
    });
    // Read right before, these two are as they were listed. The third is not, and how it is now the watch did not tell.
    assert_eq!(bench.reports.deletions(), ["Job shop/a", "Job shop/b"]);
    assert!(bench.alive("Job", "shop", "touched"));
    let failures = bench.reports.failures();
    assert!(
        failures.len() > 3 && failures.iter().all(|(_, text)| text.contains("forbidden")),
        "{failures:?}"
    );
}

/// Lets the open watch be too old: a change that it did not see is forgotten.
fn expire(bench: &Bench) {
    bench.shared.with(|server| {
        let jobs = server.catalog().mapping("batch/v1", "Job").expect("it is served");
        let body = br#"{"metadata":{"labels":{"touched":"yes"}}}"#;
        let answer = server.patch(jobs, "shop", "touched", "application/merge-patch+json", body);
        assert!(answer.is_success());
        server.prune_events(server.revision());
    });
}

#[test]
fn a_watch_that_is_too_old_begins_with_a_new_list() {
    let bench = Bench::new(&[
        job("a", -50, Some(60)),
        job("b", -50, Some(90)),
        job("c", -50, Some(70)),
    ]);
    let store = Odd::shared(&bench.shared, Oddity::default());
    let driver = bench.driver(store.clone(), only([Mechanism::Jobs]));
    let mut found = [false; 2];
    bench.run_beside(driver, 100, async {
        bench.until(5).await;
        bench.shared.with(|server| {
            let jobs = server.catalog().mapping("batch/v1", "Job").expect("it is served");
            let ttl = br#"{"spec":{"ttlSecondsAfterFinished":80}}"#;
            let format = "application/merge-patch+json";
            assert!(server.patch(jobs, "shop", "a", format, ttl).is_success());
            let options = kubegc_core::DeleteOptions::policy(kubegc_core::PropagationPolicy::Background);
            assert!(server.delete_with(jobs, "shop", "c", &options).is_success());
            server.prune_events(server.revision());
        });
        found = bench.around(30, |bench| bench.alive("Job", "shop", "a")).await;
        assert!(!found[1]);
    });
    assert_eq!(
        found,
        [true, false],
        "80 s after it finished, as the new list says"
    );
    assert_eq!(bench.reports.deletions(), ["Job shop/a", "Job shop/b"]);
    assert!(
        bench.reports.failures().is_empty(),
        "that a watch grows old is no failure"
    );
    assert_eq!(
        (store.count("list_objects jobs"), store.count("list jobs")),
        (2, 2)
    );
}

#[test]
fn a_watch_that_ends_goes_on_where_it_ended() {
    let bench = Bench::new(&[job("a", -50, Some(1_000)), job("b", -50, Some(90))]);
    let mut oddity = Oddity::default();
    oddity.ends_after.insert("jobs", 1);
    let store = Odd::shared(&bench.shared, oddity);
    let driver = bench.driver(store.clone(), only([Mechanism::Jobs]));
    let mut found = [false; 2];
    bench.run_beside(driver, 100, async {
        for (seconds, ttl) in [(2, 800), (3, 600), (5, 70)] {
            bench.until(seconds).await;
            let patch = json!({ "spec": { "ttlSecondsAfterFinished": ttl } });
            bench.patch("Job", "shop", "a", &patch);
        }
        found = bench.around(20, |bench| bench.alive("Job", "shop", "a")).await;
    });
    assert_eq!(found, [true, false]);
    assert_eq!(
        (store.count("list jobs"), store.count("list_objects jobs")),
        (1, 1)
    );
    assert!(store.count("watch jobs") >= 4);
}

#[test]
fn a_watch_that_delivers_nothing_is_opened_again_later_each_time() {
    let bench = Bench::new(&[job("a", -50, Some(60))]);
    let mut oddity = Oddity::default();
    oddity.ends_after.insert("jobs", 0);
    let store = Odd::shared(&bench.shared, oddity);
    let driver = bench.driver(store.clone(), only([Mechanism::Jobs]));
    bench.run_beside(driver, 60, async {});
    // At 0, 0.8, 2.4, 5.6, 12, 24.8 and 50.4.
    assert_eq!(store.count("watch jobs"), 7);
    assert_eq!(
        bench.reports.deletions(),
        ["Job shop/a"],
        "what was listed is known"
    );
}

#[test]
fn what_is_not_served_is_empty_and_what_is_not_discovered_is_unknown() {
    let version = "1.23".parse().expect("a release in range");
    let bench = Bench::of_release(version, &[job("report", -50, Some(10))]);
    let settings = Settings::only(version, [Mechanism::PodCertificates, Mechanism::Jobs]);
    let summary = bench.run(settings.clone(), 60);
    assert_eq!(bench.reports.deletions(), ["Job shop/report"]);
    assert!(summary.undecided.is_empty() && bench.reports.failures().is_empty());

    // Pods and nodes are served, and nothing says so: nothing is gone for that.
    for (undiscovered, deleted) in [("batch/v1", false), ("apps/v1", true)] {
        let bench = Bench::new(&[job("report", -50, Some(10))]);
        let oddity = Oddity {
            undiscovered: vec![undiscovered],
            ..Oddity::default()
        };
        let store = Odd::shared(&bench.shared, oddity);
        let driver = bench.driver(store, only([Mechanism::Jobs]));
        bench.run_beside(driver, 60, async {});
        assert_eq!(!bench.alive("Job", "shop", "report"), deleted, "{undiscovered}");
    }
    let bench = Bench::new(&[node("n1", "True"), pod("web", "n1", "Running")]);
    let oddity = Oddity {
        undiscovered: vec!["v1"],
        ..Oddity::default()
    };
    let store = Odd::shared(&bench.shared, oddity);
    let driver = bench.driver(store.clone(), only([Mechanism::Pods]));
    let mut calls = 0;
    bench.run_beside(driver, 200, async {
        bench.until(100).await;
        calls = bench.reports.calls().len();
        store
            .oddity
            .lock()
            .expect("no test panics while it holds this")
            .undiscovered
            .clear();
        bench.delete("Node", "", "n1");
    });
    assert_eq!(calls, 0);
    assert_eq!(
        bench.reports.deletions(),
        ["Pod shop/web"],
        "asked again, it is discovered"
    );
}

#[test]
fn discovery_that_fails_is_tried_again() {
    let bench = Bench::new(&[job("report", -50, Some(10))]);
    let rule = Rule {
        call: Some(Call::Discover),
        resource: None,
        name: None,
        skip: 0,
        times: 3,
        fault: Fault::of_code(500).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store, only([Mechanism::Jobs]));
    bench.run_beside(driver, 60, async {});
    assert_eq!(millis(&bench.reports), [0, 800, 2_400]);
    assert_eq!(
        bench.reports.calls().first().map(|call| call.0),
        Some(Duration::from_millis(5_600))
    );
}

#[test]
fn an_object_that_nobody_can_read_is_undecided_and_alone() {
    let bench = Bench::new(&[job("good", -50, Some(10)), job("odd", -50, Some(10))]);
    let oddity = Oddity {
        garbled: Some("odd"),
        ..Oddity::default()
    };
    let store = Odd::shared(&bench.shared, oddity);
    let driver = bench.driver(store.clone(), only([Mechanism::Jobs]));
    let mut while_odd = Vec::new();
    let summary = bench.run_beside(driver, 60, async {
        bench.until(30).await;
        while_odd = bench.reports.deletions();
        store
            .oddity
            .lock()
            .expect("no test panics while it holds this")
            .garbled = None;
        bench.patch(
            "Job",
            "shop",
            "odd",
            &json!({ "metadata": { "labels": { "fixed": "yes" } } }),
        );
    });
    assert_eq!(while_odd, ["Job shop/good"]);
    assert!(summary.undecided.is_empty(), "read again after it changed");
    assert_eq!(bench.reports.deletions(), ["Job shop/good", "Job shop/odd"]);
    let unreadable: Vec<String> = bench
        .reports
        .all()
        .iter()
        .filter(|(_, report)| matches!(report, Report::Unreadable { .. }))
        .map(|(told_at, report)| format!("{} {report}", told_at.since(at(0)).as_secs()))
        .collect();
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert!(
        unreadable[0].starts_with("0 Job shop/odd is not readable: "),
        "{unreadable:?}"
    );

    let bench = Bench::new(&[job("odd", -50, Some(10))]);
    let oddity = Oddity {
        garbled: Some("odd"),
        ..Oddity::default()
    };
    let store = Odd::shared(&bench.shared, oddity);
    let driver = bench.driver(store, only([Mechanism::Jobs]));
    let summary = bench.run_beside(driver, 60, async {});
    let undecided: Vec<String> = summary
        .undecided
        .iter()
        .map(|(_, object, _)| object.to_string())
        .collect();
    assert_eq!(undecided, ["Job shop/odd"]);
}

#[test]
fn an_object_that_changed_and_cannot_be_read_is_undecided_until_it_can() {
    let bench = Bench::new(&[job("a", -50, Some(60)), job("b", -50, Some(60))]);
    let rule = Rule {
        call: Some(Call::Get),
        resource: Some("jobs".into()),
        name: Some("a".into()),
        skip: 0,
        times: 4,
        fault: Fault::of_code(500).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store, only([Mechanism::Jobs]));
    bench.run_beside(driver, 60, async {
        bench.until(5).await;
        bench.patch(
            "Job",
            "shop",
            "a",
            &json!({ "metadata": { "labels": { "new": "yes" } } }),
        );
    });
    let calls = bench.reports.calls();
    assert!(
        calls[0].1.contains("shop/b") && calls[0].0 == Duration::from_secs(10),
        "{calls:?}"
    );
    // Read in vain at 5, 5.8, 7.4 and 10.6, and then at 17.
    assert!(
        calls[1].1.contains("shop/a") && calls[1].0 == Duration::from_secs(17),
        "{calls:?}"
    );
}

#[test]
fn many_changes_at_once_are_read_by_one_list() {
    let jobs: Vec<_> = (0..200)
        .map(|number| job(&format!("job-{number:03}"), -50, Some(10_000)))
        .collect();
    for (changes, lists, reads) in [(10, 1, 10), (49, 1, 49), (120, 2, 0)] {
        let bench = Bench::new(&jobs);
        let store = Odd::shared(&bench.shared, Oddity::default());
        let driver = bench.driver(store.clone(), only([Mechanism::Jobs]));
        bench.run_beside(driver, 60, async {
            bench.until(5).await;
            bench.shared.with(|server| {
                let kind = server.catalog().mapping("batch/v1", "Job").expect("it is served");
                for number in 0..changes {
                    let body = br#"{"spec":{"ttlSecondsAfterFinished":80}}"#;
                    let name = format!("job-{number:03}");
                    assert!(
                        server
                            .patch(kind, "shop", &name, "application/merge-patch+json", body)
                            .is_success()
                    );
                }
            });
            bench.until(6).await;
            let counts = (store.count("list_objects jobs"), store.count("get_object jobs"));
            assert_eq!(counts, (lists, reads), "{changes} changes");
        });
        assert_eq!(
            bench.reports.deletions().len(),
            changes,
            "all of them are known as they are"
        );
    }
}

#[test]
fn an_object_that_is_gone_before_it_is_read_is_gone() {
    let bench = Bench::new(&[job("a", -50, Some(60))]);
    let driver = bench.driver(bench.store(), only([Mechanism::Jobs]));
    let summary = bench.run_beside(driver, 60, async {
        bench.until(5).await;
        bench.patch(
            "Job",
            "shop",
            "a",
            &json!({ "metadata": { "labels": { "new": "yes" } } }),
        );
        bench.delete("Job", "shop", "a");
        bench.patch("Job", "shop", "a", &json!({ "metadata": { "finalizers": null } }));
    });
    assert!(bench.reports.calls().is_empty());
    assert_eq!((summary.next_at, summary.tasks.len()), (None, 0));
}

#[test]
fn a_resource_that_goes_is_asked_for_soon_and_listed_anew() {
    let version = "1.23".parse().expect("a release in range");
    let bench = Bench::of_release(version, &[job("a", -50, Some(100))]);
    let rule = Rule {
        call: Some(Call::Watch),
        resource: Some("jobs".into()),
        name: None,
        skip: 0,
        times: 2,
        fault: Fault::Refuse(StoreError::NotFound),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(Odd::new(&bench.shared, Oddity::default()), plan));
    // Requests of pods are not served: what is served is asked for again after five minutes anyway.
    let settings = Settings::only(version, [Mechanism::PodCertificates, Mechanism::Jobs]);
    let driver = bench.driver(store.clone(), settings);
    let discoveries = || store.store().count("discover");
    let mut counts = Vec::new();
    bench.run_beside(driver, 400, async {
        for seconds in [0, 1, 3, 299, 310] {
            bench.until(seconds).await;
            counts.push(discoveries());
        }
    });
    assert_eq!(millis(&bench.reports), [0, 800]);
    assert_eq!(bench.reports.deletions(), ["Job shop/a"]);
    // At 0, at 0.8, and five minutes after that.
    assert_eq!(counts[1..], [2, 2, 2, 3]);
}

#[test]
fn a_list_that_comes_between_a_failed_read_and_its_repetition_loses_nothing() {
    // One object is read by itself, many are by one list.
    for (changes, call, skip) in [(1, Call::Get, 0), (60, Call::List, 2)] {
        let mut jobs: Vec<_> = (0..60)
            .map(|number| job(&format!("job-{number:02}"), -50, Some(10_000)))
            .collect();
        jobs.push(job("touched", -50, Some(10_000)));
        let bench = Bench::new(&jobs);
        let rule = Rule {
            call: Some(call),
            resource: Some("jobs".into()),
            name: None,
            skip,
            times: 1,
            fault: Fault::of_code(500).expect("a refusal"),
        };
        let plan = plan_of(rule);
        let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
        let driver = bench.driver(store, only([Mechanism::Jobs]));
        let instant = |millis| at(5).saturating_add(Duration::from_millis(millis));
        bench.run_beside(driver, 60, async {
            bench.until(5).await;
            bench.shared.with(|server| {
                let kind = server.catalog().mapping("batch/v1", "Job").expect("it is served");
                for number in 0..changes {
                    let body = br#"{"metadata":{"labels":{"new":"yes"}}}"#;
                    let name = format!("job-{number:02}");
                    let answer = server.patch(kind, "shop", &name, "application/merge-patch+json", body);
                    assert!(answer.is_success());
                }
            });
            // It would be read again at 5.8.
            kubegc_core::Clock::sleep_until(&bench.clock, instant(100)).await;
            expire(&bench);
            kubegc_core::Clock::sleep_until(&bench.clock, instant(200)).await;
            let patch = json!({ "spec": { "ttlSecondsAfterFinished": 70 } });
            bench.patch("Job", "shop", "job-00", &patch);
        });
        let failed = bench
            .reports
            .all()
            .iter()
            .any(|(_, report)| matches!(report, Report::ReadFailed { .. }));
        assert!(failed, "{changes} changes");
        let calls = bench.reports.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0].0, Duration::from_secs(20), "{calls:?}");
    }
}

#[test]
fn an_object_that_cannot_be_read_holds_up_no_other_one() {
    let bench = Bench::new(&[job("a", -50, Some(1_000)), job("b", -50, Some(1_000))]);
    let rule = Rule {
        call: Some(Call::Get),
        resource: Some("jobs".into()),
        name: Some("a".into()),
        skip: 0,
        times: u32::MAX,
        fault: Fault::of_code(500).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store, only([Mechanism::Jobs]));
    bench.run_beside(driver, 60, async {
        for (seconds, name, ttl) in [(5, "a", 20), (6, "b", 10)] {
            bench.until(seconds).await;
            let patch = json!({ "spec": { "ttlSecondsAfterFinished": ttl } });
            bench.patch("Job", "shop", name, &patch);
        }
    });
    let calls = bench.reports.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(
        calls[0].1.contains("shop/b") && calls[0].0 == Duration::from_secs(6),
        "{calls:?}"
    );
    // In vain at 5, 5.8, 7.4, 10.6, 17 and 29.8, and then at 55.4.
    let reads = bench.reports.all();
    let failed = reads
        .iter()
        .filter(|(_, report)| matches!(report, Report::ReadFailed { .. }));
    assert_eq!(failed.count(), 7);
}
