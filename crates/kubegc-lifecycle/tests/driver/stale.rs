//! What has changed between the list and the call: nothing goes that would not go now.

use std::{sync::Arc, time::Duration};

use kubegc_core::{ApiResource, Scope};
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    object::Wire,
    volume::{Migration, reclaim::Plugin},
};
use serde_json::{Value, json};

use crate::{
    outside::Someone,
    stores::{Odd, Oddity},
    support::{Bench, claim, job, namespace, node, only, pod, pod_with_claim, text, volume, with},
};

/// What somebody does meanwhile.
type Change<'a> = &'a dyn Fn(&Bench);

/// A store whose watches of some resources deliver nothing.
fn deaf(bench: &Bench, resources: &[&'static str]) -> Arc<Odd> {
    let oddity = Oddity {
        deaf: resources.to_vec(),
        ..Oddity::default()
    };
    Odd::shared(&bench.shared, oddity)
}

#[test]
fn a_job_stays_whose_ttl_was_raised_or_that_is_another_one_by_now() {
    let raise = |bench: &Bench| {
        let patch = json!({ "spec": { "ttlSecondsAfterFinished": 1_000 } });
        bench.patch("Job", "shop", "report", &patch);
    };
    let replace = |bench: &Bench| {
        bench.delete("Job", "shop", "report");
        bench.patch(
            "Job",
            "shop",
            "report",
            &json!({ "metadata": { "finalizers": null } }),
        );
        bench.create(with(
            job("report", 0, None),
            json!({ "metadata": { "uid": null, "creationTimestamp": null } }),
        ));
    };
    let changes: [(&str, Change<'_>); 2] = [("raised", &raise), ("replaced", &replace)];
    for wire in [Wire::Strict, Wire::AsUpstream] {
        for (what, change) in changes {
            let bench = Bench::new(&[job("report", -50, Some(100))]);
            let store = deaf(&bench, &["jobs"]);
            let driver = bench.driver(store, only([Mechanism::Jobs])).wire(wire);
            let summary = bench.run_beside(driver, 60, async {
                bench.until(40).await;
                change(&bench);
            });
            assert!(bench.alive("Job", "shop", "report"), "{what} {wire:?}");
            assert!(bench.reports.calls().is_empty(), "{what} {wire:?}");
            // Looked at again every second, until the watch tells.
            assert_eq!(summary.of(Mechanism::Jobs).stale, 10, "{what} {wire:?}");
        }
    }
}

#[test]
fn pods_stay_whose_node_came_back() {
    for wire in [Wire::Strict, Wire::AsUpstream] {
        let bench = Bench::new(&[pod("web", "n1", "Running")]);
        let store = deaf(&bench, &["nodes"]);
        let driver = bench.driver(store.clone(), only([Mechanism::Pods])).wire(wire);
        let summary = bench.run_beside(driver, 130, async {
            bench.until(39).await;
            bench.create(with(
                node("n1", "True"),
                json!({ "metadata": { "uid": null, "creationTimestamp": null } }),
            ));
        });
        assert!(bench.reports.calls().is_empty() && bench.alive("Pod", "shop", "web"));
        assert!(summary.of(Mechanism::Pods).stale >= 1 && store.count("get nodes") >= 1);
    }
}

#[test]
fn a_claim_stays_that_a_pod_uses_by_now() {
    let held = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] } });
    let bench = Bench::new(&[with(claim("data", "disk"), held)]);
    let store = deaf(&bench, &["pods"]);
    let driver = bench.driver(store, only([Mechanism::Protection]));
    let summary = bench.run_beside(driver, 30, async {
        bench.until(5).await;
        let new = json!({ "metadata": { "uid": null, "creationTimestamp": null } });
        bench.create(with(pod_with_claim("web", "n1", "data"), new));
        bench.until(10).await;
        bench.delete("PersistentVolumeClaim", "shop", "data");
    });
    assert!(bench.there("PersistentVolumeClaim", "shop", "data"));
    assert!(summary.of(Mechanism::Protection).stale > 5);
    assert!(bench.reports.calls().is_empty());
}

fn in_tree() -> Settings {
    let mut settings = only([Mechanism::Volumes]);
    let provisioner = "kubernetes.io/gce-pd";
    settings
        .storage
        .migrations
        .insert(provisioner.into(), Migration::Off);
    settings.storage.plugins.insert(provisioner.into(), Plugin::Known);
    settings
}

fn disk() -> Value {
    let over = json!({ "metadata": {
        "annotations": { "pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd" },
        "finalizers": ["kubernetes.io/pv-controller"],
    } });
    with(volume("disk", "data", "Released", "Delete"), over)
}

#[test]
fn a_volume_stays_whose_policy_or_claim_has_changed() {
    let retain = |bench: &Bench| {
        let patch = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
        bench.patch("PersistentVolume", "", "disk", &patch);
    };
    let free = |bench: &Bench| {
        bench.patch(
            "PersistentVolume",
            "",
            "disk",
            &json!({ "spec": { "claimRef": null } }),
        );
    };
    let rebind = |bench: &Bench| {
        let patch = json!({ "spec": { "claimRef": { "name": "other", "uid": "uid-of-other" } } });
        bench.patch("PersistentVolume", "", "disk", &patch);
    };
    let changes: [(&str, Change<'_>); 3] =
        [("retained", &retain), ("freed", &free), ("bound again", &rebind)];
    for (what, change) in changes {
        let bench = Bench::new(&[
            with(disk(), json!({ "status": { "phase": "Bound" } })),
            claim("data", "disk"),
        ]);
        let store = deaf(&bench, &["persistentvolumes"]);
        let someone = Arc::new(Someone::new(&bench.clock));
        let driver = bench.driver(store, in_tree()).outside(someone.clone());
        bench.run_beside(driver, 60, async {
            bench.until(5).await;
            change(&bench);
            bench.until(10).await;
            bench.delete("PersistentVolumeClaim", "shop", "data");
        });
        assert!(someone.asked().is_empty(), "{what}");
        assert!(bench.alive("PersistentVolume", "", "disk"), "{what}");
        assert!(bench.reports.deletions().is_empty(), "{what}");
    }
}

#[test]
fn a_volume_stays_whose_claim_is_there_after_all() {
    // The list had no such claim, and the watch does not tell of it.
    let bench = Bench::new(&[disk()]);
    let store = deaf(&bench, &["persistentvolumeclaims"]);
    let mut someone = Someone::new(&bench.clock);
    someone.takes = Duration::from_secs(5);
    let someone = Arc::new(someone);
    let driver = bench.driver(store, in_tree()).outside(someone.clone());
    bench.run_beside(driver, 60, async {
        bench.until(0).await;
    });
    assert_eq!(someone.asked().len(), 1, "without the claim it goes");

    let bench = Bench::new(&[with(
        disk(),
        json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } }),
    )]);
    let store = deaf(&bench, &["persistentvolumeclaims"]);
    let someone = Arc::new(Someone::new(&bench.clock));
    let driver = bench.driver(store, in_tree()).outside(someone.clone());
    bench.run_beside(driver, 60, async {
        bench.until(5).await;
        bench.shared.with(|server| {
            let kind = server
                .catalog()
                .mapping("v1", "PersistentVolumeClaim")
                .expect("it is served");
            let claim = kubegc_sim::Manifest::read(claim("data", "disk")).expect("well-formed");
            server.insert(kind, claim.object).expect("it has a name");
        });
        bench.until(10).await;
        let patch = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
        bench.patch("PersistentVolume", "", "disk", &patch);
    });
    assert!(someone.asked().is_empty() && bench.alive("PersistentVolume", "", "disk"));
}

#[test]
fn a_history_keeps_a_job_that_has_changed() {
    let cron_job = crate::support::object(
        "batch/v1",
        "CronJob",
        "shop",
        "hourly",
        json!({ "spec": { "schedule": "@hourly", "successfulJobsHistoryLimit": 1, "jobTemplate": { "spec": {} } } }),
    );
    let owned = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }] } });
    let running = json!({ "status": { "conditions": null } });
    let bench = Bench::new(&[
        cron_job,
        with(job("hourly-1", -500, None), owned.clone()),
        with(with(job("hourly-2", -400, None), owned), running),
    ]);
    let store = Arc::new(kubegc_sim::Faulty::new(
        bench.shared.clone(),
        kubegc_sim::FaultPlan {
            rules: vec![kubegc_sim::fault::Rule {
                call: Some(kubegc_sim::fault::Call::Get),
                resource: Some("jobs".into()),
                name: Some("hourly-1".into()),
                skip: 0,
                times: u32::MAX,
                fault: kubegc_sim::fault::Fault::Refuse(kubegc_core::StoreError::Unknown {
                    message: "down".to_owned(),
                }),
            }],
            ..kubegc_sim::FaultPlan::default()
        },
    ));
    let driver = bench.driver(store, only([Mechanism::Histories]));
    let summary = bench.run_beside(driver, 60, async {
        bench.until(5).await;
        // It changes and cannot be read since: how it is now is not known.
        bench.patch(
            "Job",
            "shop",
            "hourly-1",
            &json!({ "metadata": { "labels": { "keep": "me" } } }),
        );
        bench.until(10).await;
        let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": text(10) }]);
        bench.patch_status(
            "Job",
            "shop",
            "hourly-2",
            &json!({ "status": { "conditions": complete } }),
        );
    });
    assert!(bench.there("Job", "shop", "hourly-1") && bench.there("Job", "shop", "hourly-2"));
    assert!(bench.reports.deletions().is_empty());
    assert!(!summary.undecided.is_empty());
}

#[test]
fn a_history_is_kept_whose_limit_was_raised() {
    let spec = |limit: i32| json!({ "spec": { "schedule": "@hourly", "successfulJobsHistoryLimit": limit, "jobTemplate": { "spec": {} } } });
    let owned = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }] } });
    let running = json!({ "status": { "conditions": null } });
    let bench = Bench::new(&[
        crate::support::object("batch/v1", "CronJob", "shop", "hourly", spec(1)),
        with(job("hourly-1", -500, None), owned.clone()),
        with(with(job("hourly-2", -400, None), owned), running),
    ]);
    let store = deaf(&bench, &["cronjobs"]);
    let driver = bench.driver(store, only([Mechanism::Histories]));
    let summary = bench.run_beside(driver, 60, async {
        bench.until(5).await;
        bench.patch("CronJob", "shop", "hourly", &spec(2));
        bench.until(10).await;
        let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": text(10) }]);
        let status = json!({ "status": { "conditions": complete } });
        bench.patch_status("Job", "shop", "hourly-2", &status);
    });
    assert!(bench.there("Job", "shop", "hourly-1") && bench.reports.calls().is_empty());
    assert!(summary.of(Mechanism::Histories).stale > 0);
}

#[test]
fn a_namespace_keeps_its_finalizer_while_a_kind_that_came_later_has_objects_in_it() {
    let bench = Bench::new(&[namespace("team")]);
    let driver = bench.driver(bench.store(), only([Mechanism::Namespaces]));
    let mut there = false;
    bench.run_beside(driver, 100, async {
        bench.until(5).await;
        bench.shared.with(|server| {
            let resource =
                ApiResource::new("shop.example.com/v1", "Widget", "widgets", Scope::Namespaced).custom();
            let kind = server.register(resource).expect("it is new");
            let widget = json!({ "metadata": { "name": "w", "finalizers": ["shop/hold"] } });
            assert_eq!(server.create_json(kind, "team", widget).code, 201);
        });
        bench.until(10).await;
        bench.delete("Namespace", "", "team");
        bench.until(60).await;
        there = bench.there("Namespace", "", "team");
        bench.patch(
            "Widget",
            "team",
            "w",
            &json!({ "metadata": { "finalizers": null } }),
        );
    });
    assert!(there, "the widget is still in it");
    assert!(!bench.there("Namespace", "", "team") && !bench.there("Widget", "team", "w"));
}
