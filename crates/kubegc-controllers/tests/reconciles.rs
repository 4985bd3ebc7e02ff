//! Queries of the cloud provider, Jobs of which the owner is not known, and the pods that one sync counts.

use std::{sync::Arc, time::Duration};

use crate::common::{affected, at, cache, key, line, object, reconcile, record};
use kubegc_controllers::{
    BatchPlanner, Cloud, CloudNodeLifecycle, CloudResponse, CronJobHistory, End, Input, Manager, Output,
    Wire, job,
};
use kubegc_core::{
    KubernetesVersion, Planner as _, Timestamp,
    record::{Record, Resource},
};

#[test]
fn each_sync_queries_the_cloud_about_a_node_that_is_not_ready() {
    let seconds = |seconds: u64| at("12:00").saturating_add(Duration::from_secs(seconds));
    let controller = CloudNodeLifecycle::new(KubernetesVersion::LATEST);
    let mut manager = Manager::new(vec![Arc::new(controller)], Wire::Strict, seconds(0));
    let node = |ready: &str| {
        let ready = format!(r#"[{{"type":"Ready","status":"{ready}"}}]"#);
        record(object(&format!(
            "v1 Node n spec.providerID=fake://n spec.taints=[] status.conditions={ready}"
        )))
        .1
    };
    let resource = Resource::Nodes;
    let records = Ok(vec![node("False")]);
    manager.handle(seconds(0), Input::Listed { resource, records });
    for sync in 0..3 {
        let now = seconds(5 * sync);
        let Output::Perform(task) = manager.poll_output(now) else {
            panic!("sync {sync}")
        };
        let response = CloudResponse {
            node_uid: "node-n".into(),
            exists: Cloud::Yes,
            is_shut_down: Cloud::No,
        };
        let (task, end) = (task.id, End::Cloud(response));
        manager.handle(now, Input::Ended { task, end });
        let Output::Wait { until } = manager.poll_output(now) else {
            panic!("it is running")
        };
        assert_eq!(until, Some(seconds(5 * (sync + 1))));
    }
    let record = Box::new(node("True"));
    manager.handle(seconds(11), Input::Applied { resource, record });
    assert!(matches!(
        manager.poll_output(seconds(15)),
        Output::Wait { until: None }
    ));
}

#[test]
fn an_unreadable_job_may_belong_to_any_cron_job_of_its_namespace() {
    let old = CronJobHistory::new("1.20".parse().expect("a release in range"));
    for (controller, elsewhere) in [(CronJobHistory::new(KubernetesVersion::LATEST), 0), (old, 1)] {
        let objects = [
            "batch/v1 CronJob depot/cron metadata.uid=depot spec.successfulJobsHistoryLimit=1",
            "batch/v1 CronJob shop/cron spec.successfulJobsHistoryLimit=1",
            r#"batch/v1 Job shop/a owner:batch/v1/CronJob/cron status.conditions=[{"type":"Complete","status":"True"}]"#,
            r#"batch/v1 Job shop/b owner:batch/v1/CronJob/cron status.conditions=[{"type":"Complete","status":"True"}]"#,
            "batch/v1 Job shop/stray",
        ];
        let mut cache = cache(&controller, &objects.map(object));
        let stray = cache
            .get(Resource::Jobs, &key("shop/stray"))
            .cloned()
            .expect("a Job");
        let stray = Record::unreadable(stray.meta);
        cache.put(Resource::Jobs, &key("shop/stray"), Some(stray.clone()));
        let decide = |cache: &_, of: &str| {
            let decision = reconcile(&controller, cache, &key(of), Timestamp::EPOCH, Wire::AsUpstream);
            let unknown: Vec<_> = decision
                .unknown
                .iter()
                .map(|unknown| unknown.reason.code())
                .collect();
            (decision.steps.is_some(), unknown.join(" "))
        };
        let unknown = ["MetadataUnread"; 4];
        let (is_written, found) = decide(&cache, "shop/cron");
        assert!(
            !is_written && found.starts_with(&unknown[..3].join(" ")),
            "{found}"
        );
        let (is_written, found) = decide(&cache, "depot/cron");
        assert_eq!((is_written, found.is_empty()), (false, elsewhere == 0), "{found}");
        let keys = affected(&controller, &cache, Resource::Jobs, Some(&stray), None);
        assert_eq!(
            (keys.contains(&key("shop/cron")), keys.len()),
            (true, 1 + elsewhere)
        );
        cache.put(Resource::Jobs, &key("shop/stray"), None);
        assert!(decide(&cache, "shop/cron").0);
    }
}

#[test]
fn one_sync_counts_500_pods() {
    let mut objects = vec![object(
        "batch/v1 Job shop/j spec.completions=1000 spec.completionMode=NonIndexed",
    )];
    objects.extend((0..700).map(|number| {
        object(&format!(
            "v1 Pod shop/p-{number:03} owner:batch/v1/Job/j finalizer:batch.kubernetes.io/job-tracking \
             status.phase=Succeeded"
        ))
    }));
    let controller = job::RULE.at(KubernetesVersion::LATEST);
    let planner = BatchPlanner::new(controller).wire(Wire::AsUpstream);
    let plan = planner.plan(&cache(&controller, &objects), at("12:00"));
    let lines: Vec<String> = plan
        .actions
        .iter()
        .flat_map(|action| &action.requests)
        .map(line)
        .collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("patch")).count(), 500);
    assert_eq!(plan.kept.len(), 200);
    assert!(
        lines[0].ends_with("[0+500 succeeded, 0+0 failed]"),
        "{}",
        lines[0]
    );
}
