//! Renders record bodies as the JSON that they are read from.

use std::sync::Arc;

use kubegc_core::{
    Timestamp,
    record::{
        Body, Certificate, CertificateSigningRequest, ClaimRef, Condition, CronJob, Field, Job, Lease,
        Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, Secret, StatefulSet,
        Toleration, VolumeAnnotations, VolumeSource,
    },
};
use serde_json::{Value, json};

use super::change::{Object, with_condition, with_taint};
use crate::{
    body::{
        ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, ANNOTATION_BOUND_BY_CONTROLLER,
        ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, SECRET_TYPE_BOOTSTRAP_TOKEN,
    },
    encoding, x509,
};

/// The JSON of a body. Unread fields are `false`, which no field can be.
pub(super) fn body(body: &Body) -> Object {
    match body {
        Body::Unread => object([
            ("metadata", json!({ "annotations": false })),
            ("spec", false.into()),
            ("status", false.into()),
            ("type", false.into()),
            ("data", false.into()),
            ("secrets", false.into()),
        ]),
        Body::CertificateSigningRequest(request) => certificate_request(request),
        Body::ConfigMap(config_map) => {
            let data = known(&config_map.since, |since| json!({ "since": since }));
            object([("data", data)])
        }
        Body::CronJob(cron_job) => of_cron_job(cron_job),
        Body::Job(job) => of_job(job),
        Body::Lease(lease) => of_lease(lease),
        Body::Namespace(namespace) => of_namespace(namespace),
        Body::Node(node) => of_node(node),
        Body::PersistentVolume(volume) => of_volume(volume),
        Body::PersistentVolumeClaim(claim) => of_claim(claim),
        Body::Pod(pod) => of_pod(pod),
        Body::Secret(secret) => of_secret(secret),
        Body::ServiceAccount(account) => object([("secrets", known(&account.secrets, |names| named(names)))]),
        Body::StatefulSet(set) => of_stateful_set(set),
        // Kinds of which only the metadata is read.
        Body::ControllerRevision(_)
        | Body::DaemonSet(_)
        | Body::Deployment(_)
        | Body::Endpoints(_)
        | Body::ReplicaSet(_)
        | Body::ResourceClaim(_)
        | Body::Service(_)
        | Body::ServiceCidr(_)
        | Body::VolumeAttachment(_) => Object::new(),
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

fn text(field: &Field<Arc<str>>) -> Value {
    known(field, |text| json!(text))
}

fn optional_text(field: &Field<Option<Arc<str>>>) -> Value {
    known(field, |text| json!(text))
}

fn optional_time(field: &Field<Option<Timestamp>>) -> Value {
    known(field, |time| json!(time.map(|time| time.to_string())))
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
    let spec = object([("ttlSecondsAfterFinished", plain(&job.ttl_seconds_after_finished))]);
    let status = object([
        ("conditions", conditions(&job.conditions)),
        ("startTime", optional_time(&job.start_time)),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
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
    let status = object([("conditions", conditions(&node.conditions))]);
    object([("spec", spec.into()), ("status", status.into())])
}

fn of_volume(volume: &PersistentVolume) -> Object {
    let claim_ref = |claim: &ClaimRef| {
        let uid = claim.uid.to_string();
        json!({ "namespace": claim.namespace, "name": claim.name, "uid": uid })
    };
    let spec = object([
        (
            "claimRef",
            known(&volume.claim_ref, |claim| json!(claim.as_ref().map(claim_ref))),
        ),
        ("persistentVolumeReclaimPolicy", text(&volume.reclaim_policy)),
        ("volumeMode", optional_text(&volume.volume_mode)),
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

fn of_claim(claim: &PersistentVolumeClaim) -> Object {
    let spec = object([
        ("volumeName", text(&claim.volume_name)),
        ("volumeMode", optional_text(&claim.volume_mode)),
    ]);
    object([("spec", spec.into())])
}

fn of_pod(pod: &Pod) -> Object {
    let volumes = match pod.volumes.known() {
        Some(volumes) => volumes.iter().map(pod_volume).collect(),
        // A list that is no list would make the secrets unread too.
        None => json!([{ "persistentVolumeClaim": false }]),
    };
    let spec = object([
        ("nodeName", text(&pod.node_name)),
        ("volumes", volumes),
        ("imagePullSecrets", known(&pod.secrets, |names| named(names))),
        (
            "terminationGracePeriodSeconds",
            plain(&pod.termination_grace_period_seconds),
        ),
        (
            "tolerations",
            known(&pod.tolerations, |all| all.iter().map(toleration).collect()),
        ),
    ]);
    // Readers skip the conditions and the containers of a pod whose text mentions neither of these.
    let conditions = match conditions(&pod.conditions) {
        Value::Bool(_) => "DisruptionTarget".into(),
        known => known,
    };
    let container_statuses = match pod.containers_stopped.known() {
        Some(true) => json!([{ "state": { "terminated": {} } }]),
        Some(false) => json!([{ "state": { "running": {} } }]),
        None => "deletionTimestamp".into(),
    };
    let status = object([
        ("phase", text(&pod.phase)),
        ("reason", text(&pod.reason)),
        ("conditions", conditions),
        ("containerStatuses", container_statuses),
    ]);
    object([("spec", spec.into()), ("status", status.into())])
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
    ]);
    object([("spec", spec.into())])
}
