//! Jobs, CronJobs and StatefulSets.

use kubegc_core::record::{
    Body, ClaimRetentionPolicy, Condition, CronJob, Field, Job, Resource, StatefulSet,
};
use serde_json::json;

use crate::common::{at, check, condition, live};

#[test]
fn jobs() {
    let ended = |kind: &str, seconds| Condition {
        last_transition_time: Some(at(seconds)),
        ..condition(kind, "True")
    };
    let job = |ttl_seconds_after_finished, conditions, start_time| {
        Body::Job(Job {
            ttl_seconds_after_finished,
            conditions,
            start_time,
            ..Job::default()
        })
    };
    let empty = || Field::Known(vec![]);
    check(
        Resource::Jobs,
        [
            (
                json!({
                    "spec": { "ttlSecondsAfterFinished": 60, "replicas": "none of a Job's", "volumes": 7, "template": { "spec": { "nodeName": [] } } },
                    "status": {
                        "startTime": "2026-03-01T12:00:00Z", "completionTime": "2026-03-01T12:00:09Z",
                        "conditions": [
                            { "type": "Suspended", "status": "False", "lastTransitionTime": 7 },
                            { "type": "Failed", "status": "True", "lastTransitionTime": "2026-03-01T12:00:05Z" },
                            { "type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T12:00:09Z" },
                        ],
                    },
                }),
                job(
                    Some(60).into(),
                    vec![ended("Failed", 5), ended("Complete", 9)].into(),
                    Some(at(0)).into(),
                ),
                &[],
            ),
            (
                json!({ "spec": {}, "status": {} }),
                Body::Job(Job::default()),
                &[],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": null }, "status": { "startTime": null, "conditions": null } }),
                Body::Job(Job::default()),
                &[],
            ),
            (json!({}), Body::Unread, &[]),
            (json!({ "spec": null, "status": null }), Body::Unread, &[]),
            (
                json!({ "status": {} }),
                job(Field::Unread, empty(), None.into()),
                &[],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": -1 } }),
                job(Some(-1).into(), Field::Unread, Field::Unread),
                &[],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": 3_000_000_000_u64 }, "status": {} }),
                job(Field::Unread, empty(), None.into()),
                &["spec.ttlSecondsAfterFinished: 3000000000 has more than 32 bits"],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": 0.5 }, "status": {} }),
                job(Field::Unread, empty(), None.into()),
                &["spec.ttlSecondsAfterFinished: expected a whole number, found a number"],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": u64::MAX }, "status": {} }),
                job(Field::Unread, empty(), None.into()),
                &["spec.ttlSecondsAfterFinished: expected a whole number, found a number"],
            ),
            (
                json!({ "spec": 7, "status": { "startTime": 7 } }),
                job(Field::Unread, empty(), Field::Unread),
                &[
                    "spec: expected a map, found a number",
                    "status.startTime: expected a string, found a number",
                ],
            ),
            (
                json!({ "spec": {}, "status": { "startTime": "", "conditions": [{ "type": "Complete", "status": 1 }] } }),
                job(None.into(), Field::Unread, Field::Unread),
                &[
                    "status.conditions[0].status: expected a string, found a number",
                    "status.startTime: \"\" is not a date",
                ],
            ),
            (
                json!({ "spec": {}, "status": { "conditions": "none" } }),
                job(None.into(), Field::Unread, None.into()),
                &["status.conditions: expected a list, found a string"],
            ),
        ],
    );
    assert_eq!(live(Resource::Jobs, json!({})), Body::Job(Job::default()));
}

/// The API server has a default for each.
const NO_LIMITS: [&str; 2] = [
    "spec.failedJobsHistoryLimit: missing",
    "spec.successfulJobsHistoryLimit: missing",
];

#[test]
fn cron_jobs() {
    let cron_job = |successful: Field<i32>, failed: Field<i32>, labels: Field<&[(&str, &str)]>| {
        let pair = |&(key, value): &(&str, &str)| (key.into(), value.into());
        Body::CronJob(CronJob {
            successful_jobs_history_limit: successful.map(Some),
            failed_jobs_history_limit: failed.map(Some),
            template_labels: labels.map(|labels| labels.iter().map(pair).collect()),
        })
    };
    let unread = Field::Unread;
    check(
        Resource::CronJobs,
        [
            (
                json!({ "spec": {
                    "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 0,
                    "jobTemplate": { "metadata": { "labels": { "app": "report", "tier": null } } },
                } }),
                cron_job(
                    3.into(),
                    0.into(),
                    Field::Known(&[("app", "report"), ("tier", "")]),
                ),
                &[],
            ),
            (
                json!({ "spec": {} }),
                cron_job(unread, unread, Field::Known(&[])),
                &NO_LIMITS,
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": null, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": {} } } }),
                cron_job(unread, 1.into(), Field::Known(&[])),
                &NO_LIMITS[1..],
            ),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": "3", "failedJobsHistoryLimit": [], "jobTemplate": 7 } }),
                cron_job(unread, unread, Field::Unread),
                &[
                    "spec.failedJobsHistoryLimit: expected a whole number, found a list",
                    "spec.jobTemplate: expected a map, found a number",
                    "spec.successfulJobsHistoryLimit: expected a whole number, found a string",
                ],
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": { "labels": { "app": 7, "tier": "b" } } } } }),
                cron_job(2.into(), 1.into(), Field::Unread),
                &["spec.jobTemplate.metadata.labels[app]: expected a string, found a number"],
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": { "labels": "app" } } } }),
                cron_job(2.into(), 1.into(), Field::Unread),
                &["spec.jobTemplate.metadata.labels: expected a map, found a string"],
            ),
        ],
    );
    for body in [json!({}), json!({ "spec": {} })] {
        assert_eq!(live(Resource::CronJobs, body), Body::CronJob(CronJob::default()));
    }
}

#[test]
fn stateful_sets() {
    let set = |replicas, first_ordinal, policy: Field<Option<[&str; 2]>>, templates: Field<&[&str]>| {
        let policy = policy.map(|policy| {
            policy.map(|[when_deleted, when_scaled]| ClaimRetentionPolicy {
                when_deleted: when_deleted.into(),
                when_scaled: when_scaled.into(),
            })
        });
        Body::StatefulSet(StatefulSet {
            replicas,
            first_ordinal,
            retention_policy: policy,
            claim_templates: templates.map(|names| names.iter().map(|name| (*name).into()).collect()),
            ..StatefulSet::default()
        })
    };
    let none: Field<&[&str]> = Field::Known(&[]);
    check(
        Resource::StatefulSets,
        [
            (
                json!({ "spec": {
                    "replicas": 3, "ordinals": { "start": 5 },
                    "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Keep" },
                    "volumeClaimTemplates": [{ "metadata": { "name": "data" } }, { "metadata": { "name": "log" } }],
                } }),
                set(
                    3.into(),
                    5.into(),
                    Some(["Delete", "Keep"]).into(),
                    Field::Known(&["data", "log"]),
                ),
                &[],
            ),
            (
                json!({ "spec": {} }),
                set(1.into(), 0.into(), None.into(), none),
                &[],
            ),
            (
                json!({ "spec": { "ordinals": {}, "persistentVolumeClaimRetentionPolicy": { "whenScaled": "" }, "volumeClaimTemplates": null } }),
                set(1.into(), 0.into(), Some(["", ""]).into(), none),
                &[],
            ),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": { "replicas": "3", "ordinals": 5, "persistentVolumeClaimRetentionPolicy": "Delete" } }),
                set(Field::Unread, Field::Unread, Field::Unread, none),
                &[
                    "spec.ordinals: expected a map, found a number",
                    "spec.persistentVolumeClaimRetentionPolicy: expected a map, found a string",
                    "spec.replicas: expected a whole number, found a string",
                ],
            ),
            (
                json!({ "spec": { "replicas": 1, "ordinals": { "start": true }, "persistentVolumeClaimRetentionPolicy": { "whenDeleted": 1, "whenScaled": "Delete" } } }),
                set(1.into(), Field::Unread, Field::Unread, none),
                &[
                    "spec.ordinals.start: expected a whole number, found a boolean",
                    "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: expected a string, found a number",
                ],
            ),
            (
                json!({ "spec": { "replicas": 1, "volumeClaimTemplates": [{ "metadata": { "name": 7 } }] } }),
                set(1.into(), 0.into(), None.into(), Field::Unread),
                &["spec.volumeClaimTemplates[0].metadata.name: expected a string, found a number"],
            ),
        ],
    );
    let whole = live(Resource::StatefulSets, json!({}));
    assert_eq!(whole, set(1.into(), 0.into(), None.into(), none));
}
