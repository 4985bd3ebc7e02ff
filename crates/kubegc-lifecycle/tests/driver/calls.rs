//! Single tasks: which calls are made, with which preconditions, what is told when one fails, and that nothing waits where the server does not.

use std::sync::Arc;

use futures_util::FutureExt as _;
use kubegc_core::{PatchType, Preconditions, StoreError, store::Discovered};
use kubegc_lifecycle::{
    controller::{Controller, Ended, Input, Mechanism, Output, Settings},
    driver::{DocumentError, Documents, Execution, Hands, Made, Nobody, Request, Resources},
    fields::Record,
    namespace,
    object::{Call as ObjectCall, Change, Form, Resource, Wire},
};
use kubegc_sim::{
    FaultPlan, Faulty, SharedApiServer,
    fault::{Call, Fault, Rule},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::json;

use crate::{
    outside::Someone,
    support::{Bench, at, job, namespace, node, object, only, plan_of, pod, text, with},
};

/// Lists everything once and carries out all that is due, over nothing but the server: whatever waits is a failure.
fn at_once(bench: &Bench, settings: Settings, wire: Wire, verifies: bool) -> (Vec<Made>, Vec<Ended>) {
    let documents = JsonDocuments::default();
    let store: &SharedApiServer = &bench.shared;
    let ready = "the server in memory never waits";
    let discovered: Discovered = kubegc_core::ObjectStore::discover(store)
        .now_or_never()
        .expect(ready)
        .expect("it answers");
    let resources = Resources::new(&discovered);
    let hands = Hands {
        store,
        documents: &documents,
        outside: &Nobody,
        resources: &resources,
        discovered: &discovered,
        wire,
        verifies,
    };
    let mut controller = Controller::new(settings, wire, at(0));
    for resource in controller.resources() {
        let api = resources.find(resource).expect("it is served");
        let listed = kubegc_core::ObjectStore::list_objects(store, api, None)
            .now_or_never()
            .expect(ready);
        let listed = listed.expect("it is listed").into_iter();
        let records: Vec<Record> = listed
            .map(|document| documents.read(resource, &document).expect("it is readable"))
            .collect();
        controller.handle(
            at(0),
            Input::Listed {
                resource,
                records: Ok(records),
            },
        );
    }
    let (mut made, mut ended) = (Vec::new(), Vec::new());
    while let Output::Perform(task) = controller.poll_output(at(0)) {
        let mut execution = Execution::new(*task, at(0));
        assert_eq!(execution.ended(), None);
        while let Some(one) = execution.step(&hands, at(0)).now_or_never().expect(ready) {
            made.push(one);
        }
        assert!(
            execution
                .step(&hands, at(0))
                .now_or_never()
                .expect(ready)
                .is_none()
        );
        let end = execution.ended().cloned().expect("it has nothing more to do");
        controller.handle(
            at(0),
            Input::Ended {
                task: execution.task(),
                ended: end.clone(),
            },
        );
        ended.push(end);
    }
    (made, ended)
}

fn preconditions(made: &[Made]) -> Vec<(bool, bool)> {
    let expected = |made: &Made| match &made.request {
        Request::Call(ObjectCall::Delete { options, .. }) => {
            let Preconditions {
                uid,
                resource_version,
            } = &options.preconditions;
            Some((uid.is_some(), resource_version.is_some()))
        }
        _ => None,
    };
    made.iter().filter_map(expected).collect()
}

#[test]
fn as_much_goes_over_the_wire_as_is_wanted() {
    for (mechanism, objects, upstream, strict) in [
        (
            Mechanism::Jobs,
            vec![job("report", -50, Some(10))],
            (true, false),
            (true, true),
        ),
        (
            Mechanism::Pods,
            vec![with(
                pod("lost", "", "Pending"),
                json!({ "metadata": { "deletionTimestamp": text(-60), "deletionGracePeriodSeconds": 30 } }),
            )],
            (false, false),
            (true, false),
        ),
        (
            Mechanism::Certificates,
            vec![object(
                "certificates.k8s.io/v1",
                "CertificateSigningRequest",
                "",
                "old",
                json!({
                    "metadata": { "creationTimestamp": text(-100_000) },
                    "spec": { "request": "", "signerName": "x/y" }, "status": {},
                }),
            )],
            (false, false),
            (true, true),
        ),
    ] {
        for (wire, expected) in [(Wire::AsUpstream, upstream), (Wire::Strict, strict)] {
            let bench = Bench::new(&objects);
            let (made, ended) = at_once(&bench, only([mechanism]), wire, true);
            assert_eq!(preconditions(&made), [expected], "{mechanism} {wire:?}");
            assert_eq!(ended, [Ended::Done], "{mechanism} {wire:?}");
        }
    }
}

#[test]
fn nothing_waits_over_a_server_that_does_not() {
    let bench = Bench::new(&[
        job("report", -50, Some(10)),
        with(
            namespace("old"),
            json!({ "metadata": { "deletionTimestamp": text(-60) }, "status": { "phase": "Terminating" } }),
        ),
        object("v1", "ConfigMap", "old", "settings", json!({ "data": {} })),
    ]);
    let mut settings = only([Mechanism::Jobs, Mechanism::Namespaces]);
    settings.namespaces.as_mut().expect("they run").delay = std::time::Duration::ZERO;
    let (made, ended) = at_once(&bench, settings, Wire::AsUpstream, false);
    assert_eq!(ended, [Ended::Done, Ended::Done]);
    assert!(!bench.there("Namespace", "", "old") && !bench.there("ConfigMap", "old", "settings"));
    let made: Vec<String> = made.iter().map(ToString::to_string).collect();
    assert_eq!(
        made[0],
        "jobs: delete Job shop/report: finished at 2025-12-31T23:59:10Z and expired at 2025-12-31T23:59:20Z"
    );
    assert_eq!(
        made.last().map(String::as_str),
        Some("namespaces: remove the last finalizer of namespace old: is being deleted")
    );
    assert!(
        made.iter().any(|made| made
            == "namespaces: delete all /v1, Resource=configmaps in namespace old: is being deleted"),
        "{made:#?}"
    );
}

#[test]
fn a_patch_that_changes_nothing_is_not_sent() {
    // Listed while it was pending; by now somebody else has marked it.
    let bench = Bench::new(&[with(
        pod("lost", "", "Pending"),
        json!({ "metadata": { "deletionTimestamp": text(-60), "deletionGracePeriodSeconds": 30 } }),
    )]);
    let oddity = crate::stores::Oddity {
        deaf: vec!["pods"],
        ..Default::default()
    };
    let store = crate::stores::Odd::new(&bench.shared, oddity);
    let mut settings = only([Mechanism::Pods]);
    settings.pods.as_mut().expect("they run").period = std::time::Duration::from_secs(20);
    let rule = Rule {
        call: Some(Call::Delete),
        resource: Some("pods".into()),
        name: None,
        skip: 0,
        times: 1,
        fault: Fault::of_code(500).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(store, plan));
    let driver = bench.driver(store, settings).wire(Wire::AsUpstream);
    bench.run_beside(driver, 30, async {});
    let calls: Vec<String> = bench.reports.calls().into_iter().map(|call| call.1).collect();
    let text = "pods: change the status of Pod shop/lost: ";
    assert_eq!(
        calls.iter().filter(|call| call.starts_with(text)).count(),
        1,
        "{calls:?}"
    );
    assert_eq!(bench.reports.deletions(), ["Pod shop/lost", "Pod shop/lost"]);
    assert!(!bench.there("Pod", "shop", "lost"));
}

#[test]
fn what_fails_is_told_where_upstream_tells_it() {
    let refused = |resource: &str, times| Rule {
        call: Some(Call::Delete),
        resource: Some(resource.into()),
        name: None,
        skip: 0,
        times,
        fault: Fault::Refuse(StoreError::Refused {
            code: 403,
            message: "not today".to_owned(),
            retry_after: None,
        }),
    };
    let cron_job = json!({ "spec": { "schedule": "@hourly", "successfulJobsHistoryLimit": 0, "jobTemplate": { "spec": {} } } });
    let owned = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }] } });
    let bench = Bench::new(&[
        node("gone", "Unknown"),
        object("batch/v1", "CronJob", "shop", "hourly", cron_job),
        with(job("hourly-1", -500, None), owned.clone()),
        with(job("hourly-2", -400, None), owned),
    ]);
    let plan = FaultPlan {
        rules: vec![refused("nodes", 1), refused("jobs", 1)],
        ..FaultPlan::default()
    };
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let someone = Arc::new(Someone::new(&bench.clock));
    let settings = only([Mechanism::Nodes, Mechanism::Histories]);
    let driver = bench.driver(store, settings).outside(someone.clone());
    bench.run_beside(driver, 4, async {});
    let mut told: Vec<String> = someone
        .told
        .lock()
        .expect("no test panics while it holds this")
        .iter()
        .map(|event| format!("{} {event}", if event.is_warning { "Warning" } else { "Normal" }))
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            // That the other one is gone is a change, after which it is tried again.
            "Normal CronJob shop/hourly: SuccessfulDelete: Deleted job hourly-1",
            "Normal CronJob shop/hourly: SuccessfulDelete: Deleted job hourly-2",
            "Normal Node gone: DeletingNode: Deleting node gone because it does not exist in the cloud provider",
            "Warning CronJob shop/hourly: FailedDelete: Deleted job: not today",
            "Warning Node gone: DeletingNodeFailed: Failed deleting node gone: not today",
        ]
    );
}

/// A cron job that keeps no finished jobs, and two of these.
fn history() -> [serde_json::Value; 3] {
    let cron_job = json!({
        "spec": { "schedule": "@hourly", "successfulJobsHistoryLimit": 0, "jobTemplate": { "spec": {} } },
        "status": { "active": [{ "kind": "Job", "name": "hourly-1", "uid": "uid-of-hourly-1" }] },
    });
    let owned = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": "uid-of-hourly", "controller": true,
    }] } });
    [
        object("batch/v1", "CronJob", "shop", "hourly", cron_job),
        with(job("hourly-1", -500, None), owned.clone()),
        with(job("hourly-2", -400, None), owned),
    ]
}

fn failing(bench: &Bench, call: Call, resource: &str, error: StoreError) -> Arc<Faulty<SharedApiServer>> {
    let rule = Rule {
        call: Some(call),
        resource: Some(resource.into()),
        name: None,
        skip: 0,
        times: u32::MAX,
        fault: Fault::Refuse(error),
    };
    let plan = plan_of(rule);
    Arc::new(Faulty::new(bench.shared.clone(), plan))
}

#[test]
fn l3_9_jobs_that_cannot_be_deleted_wait_until_something_changes() {
    let bench = Bench::new(&history());
    let error = StoreError::Refused {
        code: 403,
        message: "not today".to_owned(),
        retry_after: None,
    };
    let store = failing(&bench, Call::Delete, "jobs", error);
    let driver = bench.driver(store, only([Mechanism::Histories]));
    let mut told = 0;
    bench.run_beside(driver, 3_600, async {
        bench.until(1_800).await;
        told = bench.reports.events().len();
        let patch = json!({ "metadata": { "labels": { "new": "yes" } } });
        bench.patch("CronJob", "shop", "hourly", &patch);
    });
    assert_eq!((told, bench.reports.events()), (2, vec!["FailedDelete"; 4]));
}

#[test]
fn a_cron_job_without_a_status_to_write_ends_its_pass() {
    let bench = Bench::new(&history());
    let store = failing(&bench, Call::Patch, "cronjobs", StoreError::NotFound);
    let summary = bench.run_beside(bench.driver(store, only([Mechanism::Histories])), 3_600, async {});
    let writes = bench
        .reports
        .calls()
        .into_iter()
        .filter(|call| call.1.contains("status"));
    assert_eq!(writes.count(), 1);
    assert_eq!(summary.of(Mechanism::Histories).failed, 0);
    // Another failure is one.
    let bench = Bench::new(&history());
    let message = "down".to_owned();
    let store = failing(&bench, Call::Patch, "cronjobs", StoreError::Unknown { message });
    let summary = bench.run_beside(bench.driver(store, only([Mechanism::Histories])), 1, async {});
    assert!(summary.of(Mechanism::Histories).failed > 0);
}

#[test]
fn content_is_deleted_one_by_one_where_collections_are_not_supported() {
    let bench = Bench::new(&[
        with(
            namespace("old"),
            json!({ "metadata": { "deletionTimestamp": text(-60) }, "status": { "phase": "Terminating" } }),
        ),
        object("v1", "ConfigMap", "old", "a", json!({ "data": {} })),
        object("v1", "ConfigMap", "old", "b", json!({ "data": {} })),
        object("v1", "ConfigMap", "shop", "c", json!({ "data": {} })),
    ]);
    let rule = Rule {
        call: Some(Call::DeleteCollection),
        resource: None,
        name: None,
        skip: 0,
        times: u32::MAX,
        fault: Fault::of_code(405).expect("a refusal"),
    };
    let plan = plan_of(rule);
    let store = Arc::new(Faulty::new(bench.shared.clone(), plan));
    let driver = bench.driver(store, only([Mechanism::Namespaces]));
    bench.run_beside(driver, 10, async {});
    assert!(!bench.there("Namespace", "", "old") && bench.there("ConfigMap", "shop", "c"));
    let each = bench.reports.made().into_iter().filter(|made| {
        matches!(
            &made.request,
            Request::Namespace(namespace::Action::Delete { .. })
        )
    });
    assert_eq!(each.count(), 2);
}

/// Cannot make patches, and knows nothing of namespaces.
struct Clumsy(JsonDocuments);

impl Documents for Clumsy {
    fn read(&self, resource: Resource, document: &[u8]) -> Result<Record, DocumentError> {
        self.0.read(resource, document)
    }

    fn patch(
        &self,
        _form: Form,
        _expect: &Preconditions,
        _changes: &[Change],
        _document: &[u8],
    ) -> Result<(PatchType, Vec<u8>), DocumentError> {
        Err(DocumentError::new("status: no idea"))
    }
}

#[test]
fn what_cannot_be_written_is_not_done() {
    let bench = Bench::new(&[
        with(
            pod("lost", "", "Pending"),
            json!({ "metadata": { "deletionTimestamp": text(-60), "deletionGracePeriodSeconds": 30 } }),
        ),
        with(
            namespace("old"),
            json!({ "metadata": { "deletionTimestamp": text(-60) }, "status": { "phase": "Terminating" } }),
        ),
        object("v1", "ConfigMap", "old", "a", json!({ "data": {} })),
    ]);
    let clock = Arc::new(bench.clock.clone());
    let reports = bench.reports.clone();
    let documents = Arc::new(Clumsy(JsonDocuments::default()));
    let driver = kubegc_lifecycle::driver::Driver::builder(bench.store(), clock, documents)
        .settings(only([Mechanism::Pods, Mechanism::Namespaces]))
        .observer(move |report| reports.all().push((at(0), report)));
    let summary = bench.run_beside(driver, 30, async {});
    assert!(
        bench.reports.calls().is_empty(),
        "the pod is not deleted unmarked"
    );
    assert_eq!(summary.of(Mechanism::Pods).failed, 2, "in the passes at 0 and 20");
    assert!(summary.of(Mechanism::Namespaces).failed > 2 && bench.there("ConfigMap", "old", "a"));
    let told: Vec<String> = bench
        .reports
        .all()
        .iter()
        .map(|(_, report)| report.to_string())
        .collect();
    assert!(told.iter().any(|report| report == "pods: failed: invalid: Pod shop/lost cannot be changed: status: no idea"), "{told:#?}");
    assert!(
        told.iter()
            .any(|report| report == "namespaces: failed: unknown outcome: namespaces cannot be read"),
        "{told:#?}"
    );
}
