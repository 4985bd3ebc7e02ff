//! Renders record bodies as the JSON that they are read from.

use std::sync::Arc;

use kubegc_core::{
    LabelRequirement, LabelSelector, Timestamp, Uid,
    record::{
        Body, Certificate, CertificateSigningRequest, ClaimRef, Condition, Consumer, CronJob, DaemonSet,
        Deployment, DeploymentStrategy, Field, IntOrPercent, Job, JobCounts, Lease, Namespace, Node,
        ParentRef, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, Pod, PodVolume,
        ReplicaSet, ResourceClaim, Secret, StatefulSet, Toleration, VolumeAnnotations, VolumeAttachment,
        VolumeSource,
    },
};
use serde_json::{Value, json};

use super::change::{Object, with_condition, with_taint};
use crate::{
    body::{
        ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, ANNOTATION_BOUND_BY_CONTROLLER,
        ANNOTATION_COMPLETION_INDEX, ANNOTATION_DELETION_COST, ANNOTATION_INDEX_FAILURES,
        ANNOTATION_JOB_TRACKING, ANNOTATION_LEADER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY,
        ANNOTATION_REVISION, SECRET_TYPE_BOOTSTRAP_TOKEN,
    },
    encoding, template, x509,
};

/// The JSON of a body. Unread fields are `false`, or 0 in place of a flag, so that they cannot be
/// read again.
pub(super) fn body(body: &Body) -> Object {
    match body {
        Body::Unread => object([
            ("metadata", json!({ "annotations": false })),
            ("spec", false.into()),
            ("status", false.into()),
            ("type", false.into()),
            ("data", false.into()),
            ("secrets", false.into()),
            ("revision", false.into()),
            ("subsets", false.into()),
        ]),
        Body::CertificateSigningRequest(request) => certificate_request(request),
        Body::ConfigMap(config_map) => {
            let data = known(&config_map.since, |since| json!({ "since": since }));
            object([("data", data)])
        }
        Body::ControllerRevision(revision) => object([("revision", plain(&revision.revision))]),
        Body::CronJob(cron_job) => of_cron_job(cron_job),
        Body::DaemonSet(set) => of_daemon_set(set),
        Body::Deployment(deployment) => of_deployment(deployment),
        Body::Endpoints(endpoints) => {
            let leader = presence(&endpoints.has_leader_annotation, "{}");
            let subsets = presence(&endpoints.has_ready_address, json!([{ "addresses": [{}] }]));
            let mut fields = annotations([(ANNOTATION_LEADER, leader)]);
            fields.extend(object([("subsets", subsets)]));
            fields
        }
        Body::IpAddress(address) => {
            let parent = |parent: &ParentRef| {
                json!({
                    "group": parent.group, "resource": parent.resource,
                    "namespace": parent.namespace, "name": parent.name,
                })
            };
            let spec = object([("parentRef", known(&address.parent, parent))]);
            object([("spec", spec.into())])
        }
        Body::Job(job) => of_job(job),
        Body::Lease(lease) => of_lease(lease),
        Body::Namespace(namespace) => of_namespace(namespace),
        Body::Node(node) => of_node(node),
        Body::PersistentVolume(volume) => of_volume(volume),
        Body::PersistentVolumeClaim(claim) => of_claim(claim),
        Body::Pod(pod) => of_pod(pod),
        Body::ReplicaSet(set) => of_replica_set(set),
        Body::ResourceClaim(claim) => of_resource_claim(claim),
        Body::Secret(secret) => of_secret(secret),
        Body::Service(service) => {
            let spec = object([
                ("selector", known(&service.selector, |labels| json!(labels))),
                ("clusterIPs", list(&service.cluster_ips, |ips| json!(ips))),
            ]);
            object([("spec", spec.into())])
        }
        Body::ServiceAccount(account) => object([("secrets", known(&account.secrets, |names| named(names)))]),
        Body::ServiceCidr(cidr) => {
            let spec = object([("cidrs", known(&cidr.cidrs, |cidrs| json!(cidrs)))]);
            object([("spec", spec.into())])
        }
        Body::StatefulSet(set) => of_stateful_set(set),
        Body::VolumeAttachment(attachment) => of_attachment(attachment),
    }
}

/// A map of the fields that are not null.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn known<T>(field: &Field<T>, write: impl FnOnce(&T) -> Value) -> Value {
    field.known().map_or(Value::Bool(false), write)
}

fn plain<T: Clone + Into<Value>>(field: &Field<T>) -> Value {
    known(field, |value| value.clone().into())
}

/// A boolean; `false` is omitted. An unread one is written as a number, so that it is not read as `false`.
fn flag(field: &Field<bool>) -> Value {
    let write = |&flag: &bool| if flag { true.into() } else { Value::Null };
    field.known().map_or(Value::from(0), write)
}

fn text(field: &Field<Arc<str>>) -> Value {
    known(field, |text| json!(text))
}

/// A text of which the empty one is not written.
fn filled(field: &Field<Arc<str>>) -> Value {
    known(
        field,
        |text| if text.is_empty() { Value::Null } else { json!(text) },
    )
}

/// A list of which the empty one is not written.
fn list<T>(field: &Field<Vec<T>>, write: impl FnOnce(&[T]) -> Value) -> Value {
    known(field, |all| if all.is_empty() { Value::Null } else { write(all) })
}

fn optional_text(field: &Field<Option<Arc<str>>>) -> Value {
    known(field, |text| json!(text))
}

fn optional_time(field: &Field<Option<Timestamp>>) -> Value {
    known(field, |time| json!(time.map(|time| time.to_string())))
}

/// The placeholder of a field of which only the presence is known.
fn presence(field: &Field<bool>, present: impl Into<Value>) -> Value {
    known(
        field,
        |&is_present| if is_present { present.into() } else { Value::Null },
    )
}

fn annotations<const N: usize>(annotations: [(&str, Value); N]) -> Object {
    let annotations = object(annotations);
    if annotations.is_empty() {
        return annotations;
    }
    object([("metadata", json!({ "annotations": annotations }))])
}

/// A value under two keys, or null.
fn within([outer, inner]: [&str; 2], value: Value) -> Value {
    if value.is_null() {
        return value;
    }
    json!({ outer: { inner: value } })
}

/// A template that is known by its digest only.
fn template(digest: &Field<u64>) -> Value {
    known(digest, |digest| json!({ template::DIGEST: digest.to_string() }))
}

fn named(names: &[Arc<str>]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

fn conditions(field: &Field<Vec<Condition>>) -> Value {
    known(field, |conditions| {
        let entries = conditions.iter();
        entries
            .map(|condition| with_condition(&Value::Null, condition))
            .collect()
    })
}

fn certificate_request(request: &CertificateSigningRequest) -> Object {
    let certificate = known(&request.certificate, |certificate| match certificate {
        Certificate::Absent => Value::Null,
        Certificate::Empty => "".into(),
        read => x509::write(read).map_or(Value::Null, |bytes| encoding::to_base64(&bytes).into()),
    });
    let status = object([
        ("conditions", conditions(&request.conditions)),
        ("certificate", certificate),
    ]);
    object([("status", status.into())])
}

fn of_cron_job(cron_job: &CronJob) -> Object {
    let labels = known(&cron_job.template_labels, |labels| json!(labels));
    let spec = object([
        (
            "successfulJobsHistoryLimit",
            plain(&cron_job.successful_jobs_history_limit),
        ),
        (
            "failedJobsHistoryLimit",
            plain(&cron_job.failed_jobs_history_limit),
        ),
        ("jobTemplate", json!({ "metadata": { "labels": labels } })),
    ]);
    object([("spec", spec.into())])
}

fn of_job(job: &Job) -> Object {
    let spec = object([
        ("ttlSecondsAfterFinished", plain(&job.ttl_seconds_after_finished)),
        ("parallelism", plain(&job.parallelism)),
        ("completions", plain(&job.completions)),
        ("completionMode", filled(&job.completion_mode)),
        ("suspend", flag(&job.is_suspended)),
        ("activeDeadlineSeconds", plain(&job.active_deadline_seconds)),
        ("backoffLimit", plain(&job.backoff_limit)),
        ("backoffLimitPerIndex", plain(&job.backoff_limit_per_index)),
        ("maxFailedIndexes", plain(&job.max_failed_indexes)),
        (
            "podFailurePolicy",
            presence(&job.has_pod_failure_policy, Object::new()),
        ),
        ("successPolicy", presence(&job.has_success_policy, Object::new())),
        ("podReplacementPolicy", filled(&job.pod_replacement_policy)),
        ("managedBy", filled(&job.managed_by)),
        (
            "template",
            within(["spec", "restartPolicy"], filled(&job.restart_policy)),
        ),
    ]);
    let mut status = object([
        ("conditions", conditions(&job.conditions)),
        ("startTime", optional_time(&job.start_time)),
    ]);
    status.extend(match job.counts.known() {
        Some(counts) if *counts == JobCounts::default() => Object::new(),
        Some(counts) => job_counts(counts),
        None => object([("succeeded", false.into())]),
    });
    let mut fields = annotations([(
        ANNOTATION_JOB_TRACKING,
        presence(&job.has_tracking_annotation, ""),
    )]);
    fields.extend(object([("spec", spec.into()), ("status", status.into())]));
    fields
}

fn job_counts(counts: &JobCounts) -> Object {
    let JobCounts {
        succeeded,
        failed,
        uncounted_succeeded,
        uncounted_failed,
        completed_indexes,
        failed_indexes,
    } = counts;
    let uids = |uids: &[Uid]| -> Value { uids.iter().map(Uid::to_string).collect() };
    object([
        ("succeeded", (*succeeded).into()),
        ("failed", (*failed).into()),
        (
            "uncountedTerminatedPods",
            json!({ "succeeded": uids(uncounted_succeeded), "failed": uids(uncounted_failed) }),
        ),
        ("completedIndexes", json!(completed_indexes)),
        ("failedIndexes", json!(failed_indexes)),
    ])
}

fn of_daemon_set(set: &DaemonSet) -> Object {
    let spec = object([
        ("revisionHistoryLimit", plain(&set.revision_history_limit)),
        ("selector", selector(&set.selector)),
    ]);
    let status = object([("observedGeneration", plain(&set.observed_generation))]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn selector(field: &Field<LabelSelector>) -> Value {
    let requirement = |requirement: &LabelRequirement| json!({ "key": requirement.key, "operator": requirement.operator(), "values": requirement.values });
    known(field, |selector| {
        let expressions: Value = selector.match_expressions.iter().map(requirement).collect();
        json!({ "matchLabels": selector.match_labels, "matchExpressions": expressions })
    })
}

fn strategy(strategy: &DeploymentStrategy) -> Value {
    let share = |share: &IntOrPercent| match share {
        IntOrPercent::Int(number) => json!(number),
        IntOrPercent::Percent(percent) => json!(format!("{percent}%")),
    };
    match strategy {
        // An absent one has a default.
        DeploymentStrategy::Unset => json!({ "type": "None" }),
        DeploymentStrategy::Recreate => json!({ "type": "Recreate" }),
        DeploymentStrategy::RollingUpdate {
            max_unavailable,
            max_surge,
        } => json!({
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": share(max_unavailable), "maxSurge": share(max_surge) },
        }),
    }
}

fn of_deployment(deployment: &Deployment) -> Object {
    let spec = object([
        ("revisionHistoryLimit", plain(&deployment.revision_history_limit)),
        ("paused", flag(&deployment.is_paused)),
        ("replicas", plain(&deployment.replicas)),
        ("selector", selector(&deployment.selector)),
        ("strategy", known(&deployment.strategy, strategy)),
        ("template", template(&deployment.template_digest)),
    ]);
    let mut status = object([("observedGeneration", plain(&deployment.observed_generation))]);
    status.extend(match deployment.status_replicas.known() {
        Some(&[all, updated, available]) => object([
            ("replicas", all.into()),
            ("updatedReplicas", updated.into()),
            ("availableReplicas", available.into()),
        ]),
        None => object([("replicas", false.into())]),
    });
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_replica_set(set: &ReplicaSet) -> Object {
    let spec = object([
        ("replicas", plain(&set.replicas)),
        ("selector", selector(&set.selector)),
        ("template", template(&set.template_digest)),
    ]);
    let status = object([
        ("replicas", plain(&set.status_replicas)),
        ("availableReplicas", plain(&set.available_replicas)),
        ("observedGeneration", plain(&set.observed_generation)),
    ]);
    let mut fields = annotations([(ANNOTATION_REVISION, text(&set.revision))]);
    fields.extend(object([("spec", spec.into()), ("status", status.into())]));
    fields
}

fn of_resource_claim(claim: &ResourceClaim) -> Object {
    let consumer = |consumer: &Consumer| {
        json!({
            "apiGroup": consumer.api_group, "resource": consumer.resource,
            "name": consumer.name, "uid": consumer.uid.to_string(),
        })
    };
    let reserved_for = known(&claim.reserved_for, |all| all.iter().map(consumer).collect());
    let spec = object([("allocationMode", text(&claim.allocation_mode))]);
    let status = object([
        ("reservedFor", reserved_for),
        ("allocation", presence(&claim.is_allocated, Object::new())),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_attachment(attachment: &VolumeAttachment) -> Object {
    let spec = object([
        ("nodeName", text(&attachment.node_name)),
        (
            "source",
            json!({ "persistentVolumeName": text(&attachment.volume_name) }),
        ),
    ]);
    object([("spec", spec.into())])
}

fn of_lease(lease: &Lease) -> Object {
    let spec = object([
        ("renewTime", optional_time(&lease.renew_time)),
        ("leaseDurationSeconds", plain(&lease.lease_duration_seconds)),
    ]);
    object([("spec", spec.into())])
}

fn of_namespace(namespace: &Namespace) -> Object {
    let spec = object([("finalizers", known(&namespace.finalizers, |names| json!(names)))]);
    let status = object([
        ("phase", text(&namespace.phase)),
        ("conditions", conditions(&namespace.conditions)),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_node(node: &Node) -> Object {
    let taints = known(&node.taints, |taints| {
        taints
            .iter()
            .map(|taint| with_taint(&Value::Null, taint))
            .collect()
    });
    let spec = object([("taints", taints), ("providerID", text(&node.provider_id))]);
    let status = object([
        ("conditions", conditions(&node.conditions)),
        ("volumesInUse", known(&node.volumes_in_use, |names| json!(names))),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_volume(volume: &PersistentVolume) -> Object {
    let claim_ref = |claim: &ClaimRef| {
        let uid = claim.uid.to_string();
        json!({ "namespace": claim.namespace, "name": claim.name, "uid": uid })
    };
    let source = volume.source.known().map_or("csi", PersistentVolumeSource::field);
    let spec = object([
        (
            "claimRef",
            known(&volume.claim_ref, |claim| json!(claim.as_ref().map(claim_ref))),
        ),
        ("persistentVolumeReclaimPolicy", text(&volume.reclaim_policy)),
        ("volumeMode", optional_text(&volume.volume_mode)),
        ("volumeAttributesClassName", text(&volume.attributes_class)),
        (source, known(&volume.source, of_source)),
    ]);
    let status = object([("phase", text(&volume.phase))]);
    let annotations = known(&volume.annotations, |annotations| {
        let VolumeAnnotations {
            provisioned_by,
            bound_by_controller,
            migrated_to,
        } = annotations;
        Value::Object(object([
            (ANNOTATION_PROVISIONED_BY, json!(provisioned_by)),
            (
                ANNOTATION_BOUND_BY_CONTROLLER,
                json!(bound_by_controller.then_some("yes")),
            ),
            (ANNOTATION_MIGRATED_TO, json!(migrated_to)),
        ]))
    });
    object([
        ("metadata", json!({ "annotations": annotations })),
        ("spec", spec.into()),
        ("status", status.into()),
    ])
}

fn of_source(source: &PersistentVolumeSource) -> Value {
    match source {
        PersistentVolumeSource::None => Value::Null,
        PersistentVolumeSource::Csi { driver, handle } => json!({ "driver": driver, "volumeHandle": handle }),
        PersistentVolumeSource::HostPath { path } => json!({ "path": path }),
        PersistentVolumeSource::Other(_) => Object::new().into(),
    }
}

fn of_claim(claim: &PersistentVolumeClaim) -> Object {
    let [wanted, current, target] = match claim.attributes_classes.known() {
        Some(classes) => [0, 1, 2].map(|at| json!(classes.get(at))),
        None => [false.into(), Value::Null, Value::Null],
    };
    let spec = object([
        ("volumeName", text(&claim.volume_name)),
        ("volumeMode", optional_text(&claim.volume_mode)),
        ("volumeAttributesClassName", wanted),
    ]);
    let status = object([
        ("currentVolumeAttributesClassName", current),
        (
            "modifyVolumeStatus",
            json!({ "targetVolumeAttributesClassName": target }),
        ),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_pod(pod: &Pod) -> Object {
    let volumes = match pod.volumes.known() {
        Some(volumes) if volumes.is_empty() => Value::Null,
        Some(volumes) => volumes.iter().map(pod_volume).collect(),
        // A list that is not a list would make the secrets unread too.
        None => json!([{ "persistentVolumeClaim": false }]),
    };
    let spec = object([
        ("nodeName", text(&pod.node_name)),
        ("volumes", volumes),
        ("imagePullSecrets", list(&pod.secrets, named)),
        (
            "terminationGracePeriodSeconds",
            plain(&pod.termination_grace_period_seconds),
        ),
        (
            "tolerations",
            list(&pod.tolerations, |all| all.iter().map(toleration).collect()),
        ),
        (
            "schedulingGroup",
            match filled(&pod.pod_group) {
                Value::Null => Value::Null,
                name => json!({ "podGroupName": name }),
            },
        ),
    ]);
    // A value of a wrong type stands for a field that was not read.
    let mut conditions = match conditions(&pod.conditions) {
        Value::Array(known) => known,
        _ => vec![json!({ "type": "DisruptionTarget", "status": false })],
    };
    conditions.extend(match pod.ready_at.known() {
        Some(None) => None,
        Some(Some(at)) => {
            Some(json!({ "type": "Ready", "status": "True", "lastTransitionTime": at.to_string() }))
        }
        None => Some(json!({ "type": "Ready", "status": false })),
    });
    let state = match pod.containers_stopped.known() {
        Some(true) => json!({ "terminated": {} }),
        Some(false) => json!({ "running": {} }),
        None => "deletionTimestamp".into(),
    };
    let most = &pod.restart_count_max;
    let container_statuses = json!([{ "state": state, "restartCount": known(most, |count| json!(count)) }]);
    // The sum is that of all containers.
    let others = |count: &i64| count.saturating_sub(most.known().copied().unwrap_or(0));
    let init_container_statuses = match pod.restart_count.known().map(others) {
        Some(0) => Value::Null,
        Some(count) => json!([{ "restartCount": count }]),
        None => "restartCount".into(),
    };
    let status = object([
        ("phase", text(&pod.phase)),
        ("reason", filled(&pod.reason)),
        ("conditions", conditions.into()),
        ("containerStatuses", container_statuses),
        ("initContainerStatuses", init_container_statuses),
    ]);
    let completion_index = known(&pod.completion_index, |index| {
        json!(index.map(|index| index.to_string()))
    });
    let cost = known(&pod.deletion_cost, |cost| {
        json!((*cost != 0).then(|| cost.to_string()))
    });
    let failures = known(&pod.index_failure_count, |count| {
        json!((*count != 0).then(|| count.to_string()))
    });
    let mut fields = annotations([
        (ANNOTATION_COMPLETION_INDEX, completion_index),
        (ANNOTATION_INDEX_FAILURES, failures),
        (ANNOTATION_DELETION_COST, cost),
    ]);
    fields.extend(object([("spec", spec.into()), ("status", status.into())]));
    fields
}

fn toleration(toleration: &Toleration) -> Value {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration;
    json!({
        "key": key, "operator": operator, "value": value, "effect": effect,
        "tolerationSeconds": toleration_seconds,
    })
}

fn pod_volume(volume: &PodVolume) -> Value {
    let name = &volume.name;
    match &volume.source {
        VolumeSource::Claim(claim) => {
            json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } })
        }
        VolumeSource::Ephemeral => json!({ "name": name, "ephemeral": {} }),
        VolumeSource::Other => json!({ "name": name }),
    }
}

fn of_secret(secret: &Secret) -> Object {
    let is_token = secret
        .secret_type
        .known()
        .is_some_and(|found| **found == *SECRET_TYPE_BOOTSTRAP_TOKEN);
    let expiration = known(&secret.expiration, |text| {
        encoding::to_base64(text.as_bytes()).into()
    });
    let annotations = json!({
        ANNOTATION_ACCOUNT_NAME: text(&secret.service_account_name),
        ANNOTATION_ACCOUNT_UID: text(&secret.service_account_uid),
    });
    object([
        ("metadata", json!({ "annotations": annotations })),
        ("type", text(&secret.secret_type)),
        (
            "data",
            if is_token {
                json!({ "expiration": expiration })
            } else {
                Value::Null
            },
        ),
    ])
}

fn of_stateful_set(set: &StatefulSet) -> Object {
    let policy =
        known(&set.retention_policy, |policy| {
            let policy = policy.as_ref();
            json!(policy.map(
                |policy| json!({ "whenDeleted": policy.when_deleted, "whenScaled": policy.when_scaled })
            ))
        });
    let templates = known(&set.claim_templates, |names| {
        names
            .iter()
            .map(|name| json!({ "metadata": { "name": name } }))
            .collect()
    });
    let spec = object([
        ("replicas", plain(&set.replicas)),
        ("ordinals", json!({ "start": plain(&set.first_ordinal) })),
        ("persistentVolumeClaimRetentionPolicy", policy),
        ("volumeClaimTemplates", templates),
        ("revisionHistoryLimit", plain(&set.revision_history_limit)),
    ]);
    let status = object([
        ("currentRevision", text(&set.current_revision)),
        ("updateRevision", text(&set.update_revision)),
        ("observedGeneration", plain(&set.observed_generation)),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
}
