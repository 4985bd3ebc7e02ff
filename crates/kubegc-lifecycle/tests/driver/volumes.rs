//! Volumes: what is behind them goes first, plugins and provisioners may refuse, and what was decided is read again.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    driver::{Operated, Report},
    volume::{Migration, external, external::Guard, reclaim::Plugin},
};
use serde_json::{Value, json};

use crate::{
    outside::Someone,
    support::{Bench, claim, only, pod_with_claim, volume, with},
};

const PROVISIONER: &str = "kubernetes.io/gce-pd";

/// Volumes of a provisioner within Kubernetes, with a plugin at hand.
fn in_tree() -> Settings {
    let mut settings = only([Mechanism::Volumes]);
    let storage = &mut settings.storage;
    storage.migrations.insert(PROVISIONER.into(), Migration::Off);
    storage.plugins.insert(PROVISIONER.into(), Plugin::Known);
    storage.plugins.insert("".into(), Plugin::Known);
    settings
}

fn provisioned(volume: Value, provisioner: &str, finalizer: &str) -> Value {
    let over = json!({ "metadata": {
        "annotations": { "pv.kubernetes.io/provisioned-by": provisioner }, "finalizers": [finalizer],
    } });
    with(volume, over)
}

fn disk(phase: &str) -> Value {
    provisioned(
        volume("disk", "data", phase, "Delete"),
        PROVISIONER,
        "kubernetes.io/pv-controller",
    )
}

fn phase(bench: &Bench) -> String {
    let disk = bench.object("PersistentVolume", "", "disk").expect("it stays");
    disk["status"]["phase"].as_str().unwrap_or("").to_owned()
}

#[test]
fn a_volume_goes_with_its_claim() {
    let bench = Bench::new(&[disk("Bound"), claim("data", "disk")]);
    let someone = Arc::new(Someone::new(&bench.clock));
    let driver = bench.driver(bench.store(), in_tree()).outside(someone.clone());
    let mut found = [false; 2];
    bench.run_beside(driver, 60, async {
        bench.until(10).await;
        assert!(bench.reports.calls().is_empty(), "a bound volume is left alone");
        bench.delete("PersistentVolumeClaim", "shop", "data");
        found = bench
            .around(10, |bench| bench.there("PersistentVolume", "", "disk"))
            .await;
    });
    assert!(!found[1]);
    assert_eq!(someone.asked(), ["DeleteVolume disk"]);
    let calls: Vec<String> = bench.reports.calls().into_iter().map(|call| call.1).collect();
    assert_eq!(
        calls,
        [
            "volumes: change the status of PersistentVolume disk: claim shop/data is gone",
            "volumes: ask for DeleteVolume of PersistentVolume disk: claim shop/data is gone",
            "volumes: change PersistentVolume disk: what was behind it is deleted",
            "volumes: delete PersistentVolume disk: what was behind it is deleted",
        ]
    );
}

#[test]
fn a_volume_stays_whose_policy_says_so_or_whose_plugin_is_not_known() {
    let retained = with(
        disk("Bound"),
        json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } }),
    );
    let bench = Bench::new(&[retained]);
    let someone = Arc::new(Someone::new(&bench.clock));
    bench.run_with(someone.clone(), in_tree(), 60);
    assert_eq!((phase(&bench), someone.asked().len()), ("Released".to_owned(), 0));

    // The settings say that there is a plugin, and nobody has it.
    let bench = Bench::new(&[disk("Released")]);
    let summary = bench.run(in_tree(), 60);
    assert!(bench.reports.deletions().is_empty());
    assert_eq!(summary.of(Mechanism::Volumes).failed, 0);
    let kept = bench.reports.all().iter().any(|(_, report)| {
        matches!(report, Report::Ended { kept: Some(reason), .. } if reason.to_string() == "whether it has a plugin is not known")
    });
    assert!(kept);

    // Nothing is known of its provisioner.
    let bench = Bench::new(&[disk("Released")]);
    let someone = Arc::new(Someone::new(&bench.clock));
    let summary = bench.run_with(someone.clone(), only([Mechanism::Volumes]), 60);
    assert_eq!((someone.asked().len(), summary.undecided.len()), (0, 1));
}

#[test]
fn l5_5_a_plugin_that_fails_is_asked_again_after_the_resync() {
    let bench = Bench::new(&[disk("Released")]);
    let message = "disk is on fire".to_owned();
    let in_use = "attached to n1".to_owned();
    let answers = [
        Operated::Failed { message },
        Operated::InUse { message: in_use },
        Operated::Done,
    ];
    let someone = Someone::answering(&bench.clock, &answers);
    let driver = bench.driver(bench.store(), in_tree()).outside(someone.clone());
    let mut found = [false; 2];
    let summary = bench.run_beside(driver, 60, async {
        bench.until(1).await;
        let disk = bench
            .object("PersistentVolume", "", "disk")
            .expect("the plugin failed");
        assert_eq!(
            disk["status"],
            json!({ "phase": "Failed", "message": "disk is on fire" })
        );
        // That it has failed is a change, which does not bring the next attempt forward.
        assert_eq!(someone.asked().len(), 1);
        bench.until(16).await;
        assert_eq!(someone.asked().len(), 2);
        found = bench
            .around(30, |bench| bench.there("PersistentVolume", "", "disk"))
            .await;
    });
    assert_eq!(found, [true, false]);
    assert_eq!(someone.asked().len(), 3);
    assert_eq!(bench.reports.events(), ["VolumeFailedDelete", "VolumeDelete"]);
    let tally = summary.of(Mechanism::Volumes);
    assert_eq!(tally.failed, 2, "{tally:?}");
}

#[test]
fn l5_5_a_volume_of_which_something_is_not_known_is_tried_again_after_the_resync() {
    let bench = Bench::new(&[disk("Released")]);
    let mut someone = Someone::new(&bench.clock);
    someone.plugins = Mutex::new(vec![Plugin::Unknown, Plugin::Known]);
    let someone = Arc::new(someone);
    let driver = bench.driver(bench.store(), in_tree()).outside(someone.clone());
    let mut found = [false; 2];
    let summary = bench.run_beside(driver, 60, async {
        found = bench
            .around(15, |bench| bench.there("PersistentVolume", "", "disk"))
            .await;
    });
    assert_eq!(found, [true, false]);
    let tally = summary.of(Mechanism::Volumes);
    assert_eq!((tally.again, tally.done), (1, 1));
}

#[test]
fn a_volume_is_emptied_once_no_pod_uses_it() {
    let recycled = volume("disk", "data", "Released", "Recycle");
    let bench = Bench::new(&[recycled, pod_with_claim("web", "n1", "data")]);
    let someone = Arc::new(Someone::new(&bench.clock));
    let driver = bench.driver(bench.store(), in_tree()).outside(someone.clone());
    let minutes = 20 * 60;
    bench.run_beside(driver, minutes + 30, async {
        bench.until(minutes + 10).await;
        assert!(someone.asked().is_empty());
        bench.delete("Pod", "shop", "web");
        bench.until(minutes + 11).await;
        assert_eq!(
            someone.asked(),
            ["RecycleVolume disk"],
            "however often it was not to be"
        );
    });
    assert_eq!(someone.asked(), ["RecycleVolume disk"]);
    let disk = bench.object("PersistentVolume", "", "disk").expect("it stays");
    assert_eq!(disk["status"]["phase"], "Available");
    let claim_ref = &disk["spec"]["claimRef"];
    assert!(
        claim_ref["uid"].is_null() && claim_ref["name"] == "data",
        "it stays reserved (L5.10)"
    );
    assert!(bench.reports.events().contains(&"VolumeRecycled"));
}

/// A volume of a provisioner outside Kubernetes.
fn external_disk() -> Value {
    let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
    provisioned(
        volume("disk", "data", "Released", "Delete"),
        "disks.example.com",
        finalizer,
    )
}

fn external() -> Settings {
    let mut settings = only([]);
    settings
        .external_volumes
        .push(external::Settings::new("disks.example.com"));
    settings
}

#[test]
fn an_external_provisioner_asks_its_guard_deletes_and_lets_go() {
    let bench = Bench::new(&[external_disk()]);
    let someone = Arc::new(Someone::new(&bench.clock));
    *someone.guard.lock().expect("no test panics while it holds this") = Guard::Forbids;
    let driver = bench.driver(bench.store(), external()).outside(someone.clone());
    let mut found = [false; 2];
    let quarter = 15 * 60;
    let summary = bench.run_beside(driver, quarter + 10, async {
        bench.until(60).await;
        assert_eq!(someone.asked(), ["may disk go"]);
        *someone.guard.lock().expect("no test panics while it holds this") = Guard::Allows;
        found = bench
            .around(quarter, |bench| bench.there("PersistentVolume", "", "disk"))
            .await;
    });
    assert_eq!(found, [true, false]);
    assert_eq!(
        someone.asked(),
        ["may disk go", "may disk go", "DeleteVolume disk"]
    );
    let tally = summary.of(Mechanism::ExternalVolumes);
    assert_eq!((tally.again, tally.done), (1, 1));
}

#[test]
fn an_external_provisioner_that_fails_keeps_the_volume_and_its_finalizer() {
    let bench = Bench::new(&[external_disk()]);
    let message = "quota".to_owned();
    let someone = Someone::answering(&bench.clock, &[Operated::Failed { message }]);
    bench.run_with(someone.clone(), external(), 50);
    let disk = bench.object("PersistentVolume", "", "disk").expect("it stays");
    assert_eq!(disk["metadata"]["finalizers"].as_array().map(Vec::len), Some(1));
    let deleted = "DeleteVolume disk".to_owned();
    let asked = someone.asked().into_iter().filter(|asked| *asked == deleted);
    assert_eq!(asked.count(), 3, "at 0, 15 and 45");

    // Nobody is there to guard or to delete.
    let bench = Bench::new(&[external_disk()]);
    bench.run(external(), 60);
    assert!(bench.reports.calls().is_empty());
}

#[test]
fn no_more_plugins_work_at_a_time_than_there_are_workers() {
    let disks: Vec<Value> = (0..6)
        .map(|number| {
            let name = format!("disk-{number}");
            with(
                disk("Released"),
                json!({ "metadata": { "name": name, "uid": name } }),
            )
        })
        .collect();
    for (workers, at_most, seconds) in [(1, 1, 60), (2, 2, 30), (0, 1, 60), (100, 6, 10)] {
        let bench = Bench::new(&disks);
        let mut someone = Someone::new(&bench.clock);
        someone.takes = Duration::from_secs(10);
        let someone = Arc::new(someone);
        let driver = bench
            .driver(bench.store(), in_tree())
            .outside(someone.clone())
            .workers(workers);
        let mut gone = [false; 2];
        bench.run_beside(driver, 100, async {
            gone = bench
                .around(seconds, |bench| {
                    (0..6).any(|number| bench.there("PersistentVolume", "", &format!("disk-{number}")))
                })
                .await;
        });
        let most = someone
            .under_way
            .lock()
            .expect("no test panics while it holds this")
            .1;
        assert_eq!((most, gone), (at_most, [true, false]), "{workers} workers");
    }
}
