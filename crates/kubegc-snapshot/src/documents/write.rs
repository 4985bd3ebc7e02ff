//! Writes fields as the body that they are read from.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    certificate::Certificate,
    fields::{self, Fields},
    history::{Limit, StartTime},
    job::Ttl,
    object::{self, Resource},
    pod,
    statefulset::Retention,
    token::bootstrap::{Expiration, SECRET_TYPE},
    volume::{
        self, ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY, Holder,
        PodVolume, Policy, Source,
    },
};
use serde_json::{Map, Value};

use crate::{
    body::{
        ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, Annotations, AnySpec, Body, BodyMeta, ClaimRef,
        ClaimSource, Condition, Data, List, Named, Ordinals, PodSpec, RetentionPolicy, Spec, Status, Taint,
        Template, TemplateMeta, Volume,
    },
    encoding,
    item::Text,
    soft::{AnyMap, Labels, Shape, Soft},
    x509,
};

/// The body of an object with these fields. `resource` matters only where they are unread.
pub(super) fn body(fields: &Fields, resource: Resource) -> Map<String, Value> {
    let body = match fields {
        Fields::MetadataUnread | Fields::Unread => unread(resource),
        Fields::CertificateSigningRequest(request) => certificate_request(request),
        Fields::ConfigMap(config_map) => Body {
            data: match &config_map.since {
                Some(since) => Soft::Is(Data {
                    since: text(since),
                    ..Data::default()
                }),
                None => Soft::Absent,
            },
            ..Body::default()
        },
        Fields::CronJob(cron_job) => of_cron_job(cron_job),
        Fields::Job(job) => of_job(job),
        Fields::Node(node) => of_node(node),
        Fields::PersistentVolumeClaim(claim) => with_spec(Spec {
            volume_name: unless_empty(&claim.volume_name),
            volume_mode: or_absent(claim.mode.as_deref()),
            ..Spec::default()
        }),
        Fields::PersistentVolume(volume) => of_volume(volume),
        Fields::Pod(pod) => of_pod(pod),
        Fields::Secret(secret) => of_secret(secret),
        Fields::ServiceAccount(account) => Body {
            secrets: or_unknown(account.secrets.as_deref().map(named)),
            ..Body::default()
        },
        Fields::StatefulSet(set) => of_stateful_set(set),
    };
    match serde_json::to_value(body) {
        Ok(Value::Object(body)) => body,
        // A body is a map of texts and numbers.
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Stands for what is not known: nothing that is read is a flag where this is put.
fn unknown<T>() -> Soft<T> {
    Soft::Wrong(Shape::Flag)
}

fn or_unknown<T>(value: Option<T>) -> Soft<T> {
    value.map_or_else(unknown, Soft::Is)
}

fn text(text: &str) -> Soft<Text<'_>> {
    Soft::Is(Text(Cow::Borrowed(text)))
}

fn owned(text: String) -> Soft<Text<'static>> {
    Soft::Is(Text(Cow::Owned(text)))
}

fn unless_empty(value: &str) -> Soft<Text<'_>> {
    if value.is_empty() {
        Soft::Absent
    } else {
        text(value)
    }
}

fn or_absent(value: Option<&str>) -> Soft<Text<'_>> {
    value.map_or(Soft::Absent, text)
}

fn time(time: Option<Timestamp>) -> Soft<Text<'static>> {
    time.map_or(Soft::Absent, |time| owned(time.to_string()))
}

fn named(names: &[Arc<str>]) -> List<Named<'_>> {
    let entries = names.iter().map(|name| Soft::Is(Named { name: text(name) }));
    entries.collect()
}

fn with_spec(spec: Spec<'_>) -> Body<'_> {
    Body {
        spec: Soft::Is(AnySpec::Any(Box::new(spec))),
        ..Body::default()
    }
}

fn conditions(conditions: &[object::Condition]) -> List<Condition<'_>> {
    let entries = conditions.iter().map(|condition| {
        Soft::Is(Condition {
            kind: text(&condition.kind),
            status: unless_empty(&condition.status),
            reason: unless_empty(&condition.reason),
            message: unless_empty(&condition.message),
            last_transition_time: time(condition.last_transition_time),
            last_update_time: time(condition.last_update_time),
        })
    });
    entries.collect()
}

/// What says that nothing was read of an object of a resource.
fn unread(resource: Resource) -> Body<'static> {
    match resource {
        Resource::ConfigMaps => Body {
            data: unknown(),
            ..Body::default()
        },
        Resource::ServiceAccounts => Body {
            secrets: unknown(),
            ..Body::default()
        },
        Resource::PersistentVolumes | Resource::Secrets => Body {
            metadata: Soft::Is(BodyMeta {
                annotations: unknown(),
            }),
            ..Body::default()
        },
        // Without a spec and a status nothing is known of all others.
        _ => Body::default(),
    }
}

fn certificate_request(request: &fields::CertificateSigningRequest) -> Body<'_> {
    let fields::CertificateSigningRequest {
        conditions: known,
        certificate,
    } = request;
    if known.is_none() && *certificate == Certificate::Unknown {
        return Body::default();
    }
    let certificate = match certificate {
        Certificate::Unknown => unknown(),
        Certificate::None => Soft::Absent,
        Certificate::Empty => text(""),
        // Any text that is not base64.
        Certificate::Unread => text("?"),
        read => x509::write(read).map_or_else(unknown, |bytes| owned(encoding::to_base64(&bytes))),
    };
    Body {
        status: Soft::Is(Status {
            conditions: or_unknown(known.as_deref().map(conditions)),
            certificate,
            ..Status::default()
        }),
        ..Body::default()
    }
}

fn of_cron_job(cron_job: &fields::CronJob) -> Body<'_> {
    if *cron_job == fields::CronJob::default() {
        return Body::default();
    }
    let limit = |limit| match limit {
        // The API server never leaves it out, so its absence says nothing either.
        Limit::Unknown | Limit::Unset => Soft::Absent,
        Limit::Jobs(jobs) => Soft::Is(i64::from(jobs)),
    };
    let labels = cron_job.template_labels.as_ref().map(labels);
    with_spec(Spec {
        successful_jobs_history_limit: limit(cron_job.successful_limit),
        failed_jobs_history_limit: limit(cron_job.failed_limit),
        job_template: Soft::Is(Template {
            metadata: Soft::Is(TemplateMeta {
                labels: or_unknown(labels),
                ..TemplateMeta::default()
            }),
        }),
        ..Spec::default()
    })
}

fn labels(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Labels<'_> {
    let pairs = labels.iter();
    Labels(
        pairs
            .map(|(key, value)| (Text(Cow::Borrowed(&**key)), text(value)))
            .collect(),
    )
}

fn of_job(job: &fields::Job) -> Body<'_> {
    let mut body = match job.ttl {
        Ttl::Unknown => Body::default(),
        Ttl::Unset => with_spec(Spec::default()),
        Ttl::Seconds(seconds) => with_spec(Spec {
            ttl_seconds_after_finished: Soft::Is(seconds.into()),
            ..Spec::default()
        }),
    };
    if let Some(status) = &job.status {
        body.status = Soft::Is(Status {
            conditions: Soft::Is(conditions(&status.conditions)),
            start_time: match status.start_time {
                StartTime::Unknown => unknown(),
                StartTime::Unset => Soft::Absent,
                StartTime::At(at) => time(Some(at)),
            },
            ..Status::default()
        });
    }
    body
}

fn of_node(node: &fields::Node) -> Body<'_> {
    let mut body = Body::default();
    if node.taints.is_some() || node.provider_id.is_some() {
        let taint = |taint: &'_ object::Taint| -> Soft<Taint<'_>> {
            Soft::Is(Taint {
                key: owned(taint.key.to_string()),
                effect: owned(taint.effect.to_string()),
            })
        };
        body = with_spec(Spec {
            taints: or_unknown(
                node.taints
                    .as_ref()
                    .map(|taints| taints.iter().map(taint).collect()),
            ),
            provider_id: or_unknown(node.provider_id.as_ref().map(|id| Text(Cow::Borrowed(&**id)))),
            ..Spec::default()
        });
    }
    if let Some(known) = &node.conditions {
        body.status = Soft::Is(Status {
            conditions: Soft::Is(conditions(known)),
            ..Status::default()
        });
    }
    body
}

fn of_volume(volume: &fields::PersistentVolume) -> Body<'_> {
    let claim_ref = match &volume.claim_ref {
        Holder::Unknown => unknown(),
        Holder::Nobody => Soft::Absent,
        Holder::Claim(claim) => Soft::Is(ClaimRef {
            namespace: text(&claim.namespace),
            name: text(&claim.name),
            uid: if claim.uid.is_empty() {
                Soft::Absent
            } else {
                owned(claim.uid.to_string())
            },
        }),
    };
    let policy = match &volume.policy {
        // The API server never leaves it out, so its absence says nothing either.
        Policy::Unknown => Soft::Absent,
        Policy::Retain => text("Retain"),
        Policy::Delete => text("Delete"),
        Policy::Recycle => text("Recycle"),
        Policy::Other(other) => text(other),
    };
    let is_unread =
        volume.claim_ref == Holder::Unknown && volume.policy == Policy::Unknown && volume.mode.is_none();
    let mut body = if is_unread {
        Body::default()
    } else {
        with_spec(Spec {
            claim_ref,
            persistent_volume_reclaim_policy: policy,
            volume_mode: or_absent(volume.mode.as_deref()),
            ..Spec::default()
        })
    };
    // Without it the phase is not known.
    if !volume.phase.as_str().is_empty() {
        body.status = Soft::Is(Status {
            phase: text(volume.phase.as_str()),
            ..Status::default()
        });
    }
    body.metadata = Soft::Is(BodyMeta {
        annotations: or_unknown(volume.annotations.as_ref().map(volume_annotations)),
    });
    body
}

fn volume_annotations(known: &volume::Annotations) -> Annotations<'_> {
    let mut annotations = Annotations::default();
    annotations.push(
        ANNOTATION_PROVISIONED_BY,
        or_absent(known.provisioned_by.as_deref()),
    );
    annotations.push(ANNOTATION_MIGRATED_TO, or_absent(known.migrated_to.as_deref()));
    if known.is_bound_by_controller {
        annotations.push(ANNOTATION_BOUND_BY_CONTROLLER, text("yes"));
    }
    annotations
}

fn of_pod(pod: &fields::Pod) -> Body<'_> {
    let mut body = Body::default();
    if pod.node_name.is_some() || pod.volumes.is_some() || pod.secrets.is_some() {
        let node_name = pod.node_name.as_deref();
        body.spec = Soft::Is(AnySpec::Pod(PodSpec {
            node_name: node_name.map_or_else(unknown, unless_empty),
            volumes: Soft::Is(match &pod.volumes {
                Some(volumes) => volumes.iter().map(pod_volume).collect(),
                // Of a list that cannot be read, secrets would be unknown, too.
                None => vec![Soft::Is(Volume {
                    persistent_volume_claim: unknown(),
                    ..Volume::default()
                })],
            }),
            image_pull_secrets: or_unknown(pod.secrets.as_deref().map(named)),
            ..PodSpec::default()
        }));
    }
    if let Some(pod::Status {
        phase,
        reason,
        conditions: known,
    }) = &pod.status
    {
        body.status = Soft::Is(Status {
            phase: text(phase),
            reason: unless_empty(reason),
            conditions: Soft::Is(conditions(known)),
            ..Status::default()
        });
    }
    body
}

fn pod_volume(volume: &PodVolume) -> Soft<Volume<'_>> {
    let mut written = Volume {
        name: text(&volume.name),
        ..Volume::default()
    };
    match &volume.source {
        Source::Claim(name) => {
            written.persistent_volume_claim = Soft::Is(ClaimSource {
                claim_name: text(name),
            });
        }
        Source::Ephemeral => written.ephemeral = Soft::Is(AnyMap {}),
        Source::Other => {}
    }
    Soft::Is(written)
}

/// Of all secrets only bootstrap tokens are said to expire.
fn of_secret(secret: &fields::Secret) -> Body<'_> {
    let mut annotations = Annotations::default();
    for (key, known) in [
        (ANNOTATION_ACCOUNT_NAME, &secret.account_name),
        (ANNOTATION_ACCOUNT_UID, &secret.account_uid),
    ] {
        annotations.push(key, known.as_deref().map_or_else(unknown, unless_empty));
    }
    let data = match &secret.expiration {
        // The data of a token is never empty, so its absence says nothing either.
        Expiration::Unknown => Soft::Absent,
        _ if secret.secret_type.as_deref() != Some(SECRET_TYPE) => Soft::Absent,
        Expiration::Absent => Soft::Is(Data {
            has_others: true,
            ..Data::default()
        }),
        Expiration::Text(text) => Soft::Is(Data {
            expiration: owned(encoding::to_base64(text.as_bytes())),
            ..Data::default()
        }),
    };
    let metadata = Soft::Is(BodyMeta {
        annotations: Soft::Is(annotations),
    });
    Body {
        metadata,
        // The API server never leaves it out, so its absence says nothing either.
        object_type: or_absent(secret.secret_type.as_deref()),
        data,
        ..Body::default()
    }
}

fn of_stateful_set(set: &fields::StatefulSet) -> Body<'_> {
    let retention = |retention: &Retention| match retention {
        Retention::Unknown => unknown(),
        Retention::Retain => text("Retain"),
        Retention::Delete => text("Delete"),
        Retention::Other(other) => owned(other.to_string()),
    };
    let template = |name: &Arc<str>| {
        Soft::Is(Template {
            metadata: Soft::Is(TemplateMeta {
                name: owned(name.to_string()),
                ..TemplateMeta::default()
            }),
        })
    };
    let start = |start| Ordinals {
        start: Soft::Is(i64::from(start)),
    };
    with_spec(Spec {
        // The API server never leaves it out, so its absence says nothing either.
        replicas: set
            .replicas
            .map_or(Soft::Absent, |replicas| Soft::Is(replicas.into())),
        ordinals: or_unknown(set.first_ordinal.map(start)),
        retention_policy: Soft::Is(RetentionPolicy {
            when_deleted: retention(&set.when_deleted),
            when_scaled: retention(&set.when_scaled),
        }),
        volume_claim_templates: Soft::Is(set.templates.iter().map(template).collect()),
        ..Spec::default()
    })
}
