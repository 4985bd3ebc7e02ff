//! Jobs, cron jobs, stateful sets, nodes.

use kubegc_lifecycle::{
    fields::{CronJob, Fields, Job, Node, StatefulSet},
    history::{self, Limit, StartTime},
    job::Ttl,
    object::{Condition, Resource, Taint},
    statefulset::Retention,
};
use serde_json::{Value, json};

use crate::common::{at, condition, read};

/// Reads each body and compares.
fn check<const N: usize>(resource: Resource, cases: [(Value, Fields, &[&str]); N]) {
    for (body, expected, flaws) in cases {
        let (found, named) = read(resource, body.clone());
        assert_eq!(found, expected, "{body}");
        assert_eq!(named, flaws, "{body}");
    }
}

fn job(ttl: Ttl, status: Option<(Vec<Condition>, StartTime)>) -> Fields {
    let status = status.map(|(conditions, start_time)| history::Status {
        conditions,
        start_time,
    });
    Fields::Job(Job { ttl, status })
}

#[test]
fn jobs() {
    let ended = |kind: &str, seconds| Condition {
        last_transition_time: Some(at(seconds)),
        ..condition(kind, "True")
    };
    let empty = || Some((vec![], StartTime::Unset));
    check(
        Resource::Jobs,
        [
            (
                json!({
                    "spec": { "ttlSecondsAfterFinished": 60, "replicas": "none of a job's", "volumes": 7, "template": { "spec": { "nodeName": [] } } },
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
                    Ttl::Seconds(60),
                    Some((
                        vec![ended("Failed", 5), ended("Complete", 9)],
                        StartTime::At(at(0)),
                    )),
                ),
                &[],
            ),
            (json!({ "spec": {}, "status": {} }), job(Ttl::Unset, empty()), &[]),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": null }, "status": { "startTime": null, "conditions": null } }),
                job(Ttl::Unset, empty()),
                &[],
            ),
            (json!({}), job(Ttl::Unknown, None), &[]),
            (
                json!({ "spec": null, "status": null }),
                job(Ttl::Unknown, None),
                &[],
            ),
            (json!({ "status": {} }), job(Ttl::Unknown, empty()), &[]),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": -1 } }),
                job(Ttl::Seconds(-1), None),
                &[],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": 3_000_000_000_u64 } }),
                job(Ttl::Unknown, None),
                &["spec.ttlSecondsAfterFinished: 3000000000 has more than 32 bits"],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": 0.5 } }),
                job(Ttl::Unknown, None),
                &["spec.ttlSecondsAfterFinished: expected a whole number, found a number"],
            ),
            (
                json!({ "spec": { "ttlSecondsAfterFinished": u64::MAX } }),
                job(Ttl::Unknown, None),
                &["spec.ttlSecondsAfterFinished: expected a whole number, found a number"],
            ),
            (
                json!({ "spec": 7, "status": { "startTime": 7 } }),
                job(Ttl::Unknown, Some((vec![], StartTime::Unknown))),
                &[
                    "spec: expected a map, found a number",
                    "status.startTime: expected a string, found a number",
                ],
            ),
            (
                json!({ "spec": {}, "status": { "startTime": "", "conditions": [{ "type": "Complete", "status": 1 }] } }),
                job(Ttl::Unset, None),
                &[
                    "status.conditions[0].status: expected a string, found a number",
                    "status.startTime: \"\" is no date",
                ],
            ),
            (
                json!({ "spec": {}, "status": { "conditions": "none" } }),
                job(Ttl::Unset, None),
                &["status.conditions: expected a list, found a string"],
            ),
        ],
    );
}

/// The API server has a default for each.
const NO_LIMITS: [&str; 2] = [
    "spec.failedJobsHistoryLimit: not there",
    "spec.successfulJobsHistoryLimit: not there",
];

#[test]
fn cron_jobs() {
    let cron_job = |successful_limit, failed_limit, labels: Option<&[(&str, &str)]>| {
        let labels = labels.map(|labels| {
            labels
                .iter()
                .map(|&(key, value)| (key.into(), value.into()))
                .collect()
        });
        Fields::CronJob(CronJob {
            successful_limit,
            failed_limit,
            template_labels: labels,
        })
    };
    check(
        Resource::CronJobs,
        [
            (
                json!({ "spec": {
                    "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 0,
                    "jobTemplate": { "metadata": { "labels": { "app": "report", "tier": null } } },
                } }),
                cron_job(
                    Limit::Jobs(3),
                    Limit::Jobs(0),
                    Some(&[("app", "report"), ("tier", "")]),
                ),
                &[],
            ),
            (
                json!({ "spec": {} }),
                cron_job(Limit::Unknown, Limit::Unknown, Some(&[])),
                &NO_LIMITS,
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": null, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": {} } } }),
                cron_job(Limit::Unknown, Limit::Jobs(1), Some(&[])),
                &NO_LIMITS[1..],
            ),
            (json!({}), cron_job(Limit::Unknown, Limit::Unknown, None), &[]),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": "3", "failedJobsHistoryLimit": [], "jobTemplate": 7 } }),
                cron_job(Limit::Unknown, Limit::Unknown, None),
                &[
                    "spec.failedJobsHistoryLimit: expected a whole number, found a list",
                    "spec.jobTemplate: expected a map, found a number",
                    "spec.successfulJobsHistoryLimit: expected a whole number, found a string",
                ],
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": { "labels": { "app": 7, "tier": "b" } } } } }),
                cron_job(Limit::Jobs(2), Limit::Jobs(1), None),
                &["spec.jobTemplate.metadata.labels[app]: expected a string, found a number"],
            ),
            (
                json!({ "spec": { "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "jobTemplate": { "metadata": { "labels": "app" } } } }),
                cron_job(Limit::Jobs(2), Limit::Jobs(1), None),
                &["spec.jobTemplate.metadata.labels: expected a map, found a string"],
            ),
        ],
    );
}

#[test]
fn stateful_sets() {
    let set = |replicas, first_ordinal, when_deleted, when_scaled, templates: &[&str]| {
        Fields::StatefulSet(StatefulSet {
            replicas,
            first_ordinal,
            when_deleted,
            when_scaled,
            templates: templates.iter().map(|name| (*name).into()).collect(),
        })
    };
    let (retain, delete, unknown) = (Retention::Retain, Retention::Delete, Retention::Unknown);
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
                    Some(3),
                    Some(5),
                    delete.clone(),
                    Retention::Other("Keep".into()),
                    &["data", "log"],
                ),
                &[],
            ),
            (
                json!({ "spec": {} }),
                set(None, Some(0), retain.clone(), retain.clone(), &[]),
                &[],
            ),
            (
                json!({ "spec": { "ordinals": {}, "persistentVolumeClaimRetentionPolicy": { "whenScaled": "" }, "volumeClaimTemplates": null } }),
                set(None, Some(0), retain.clone(), retain.clone(), &[]),
                &[],
            ),
            (json!({}), Fields::Unread, &[]),
            (
                json!({ "spec": { "replicas": "3", "ordinals": 5, "persistentVolumeClaimRetentionPolicy": "Delete" } }),
                set(None, None, unknown.clone(), unknown.clone(), &[]),
                &[
                    "spec.ordinals: expected a map, found a number",
                    "spec.persistentVolumeClaimRetentionPolicy: expected a map, found a string",
                    "spec.replicas: expected a whole number, found a string",
                ],
            ),
            (
                json!({ "spec": { "replicas": 1, "ordinals": { "start": true }, "persistentVolumeClaimRetentionPolicy": { "whenDeleted": 1, "whenScaled": "Delete" } } }),
                set(Some(1), None, unknown, delete, &[]),
                &[
                    "spec.ordinals.start: expected a whole number, found a boolean",
                    "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: expected a string, found a number",
                ],
            ),
            (
                json!({ "spec": { "replicas": 1, "volumeClaimTemplates": [{ "metadata": { "name": 7 } }] } }),
                Fields::Unread,
                &["spec.volumeClaimTemplates[0].metadata.name: expected a string, found a number"],
            ),
        ],
    );
}

#[test]
fn nodes() {
    let ready = Condition {
        reason: "KubeletReady".into(),
        message: "kubelet is posting ready status".into(),
        last_transition_time: Some(at(1)),
        ..condition("Ready", "True")
    };
    let node = |conditions, taints: Option<&[(&str, &str)]>, provider_id: Option<&str>| {
        let taint = |&(key, effect): &(&str, &str)| Taint {
            key: key.into(),
            effect: effect.into(),
        };
        Fields::Node(Node {
            conditions,
            taints: taints.map(|taints| taints.iter().map(taint).collect()),
            provider_id: provider_id.map(Into::into),
        })
    };
    check(
        Resource::Nodes,
        [
            (
                json!({
                    "spec": {
                        "providerID": "aws:///a/i-1", "podCIDR": "10.0.0.0/24",
                        "taints": [{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": 7 }, { "key": "a" }],
                    },
                    "status": { "conditions": [
                        { "type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-03-01T12:00:09Z" },
                        { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                          "lastHeartbeatTime": "2026-03-01T12:00:09Z", "lastTransitionTime": "2026-03-01T12:00:01Z" },
                    ] },
                }),
                node(
                    Some(vec![ready]),
                    Some(&[("node.kubernetes.io/out-of-service", "NoExecute"), ("a", "")]),
                    Some("aws:///a/i-1"),
                ),
                &[],
            ),
            (
                json!({ "spec": {}, "status": {} }),
                node(Some(vec![]), Some(&[]), Some("")),
                &[],
            ),
            (json!({}), node(None, None, None), &[]),
            (
                json!({ "spec": { "taints": null } }),
                node(None, Some(&[]), Some("")),
                &[],
            ),
            (
                json!({ "spec": { "taints": [{ "key": "a", "effect": 1 }], "providerID": {} }, "status": { "conditions": [7] } }),
                node(None, None, None),
                &[
                    "spec.providerID: expected a string, found a map",
                    "spec.taints[0].effect: expected a string, found a number",
                    "status.conditions[0]: expected a map, found a number",
                ],
            ),
        ],
    );
}
