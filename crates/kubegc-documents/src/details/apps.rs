//! Fields of Deployments, ReplicaSets, DaemonSets, StatefulSets and ControllerRevisions.

use kubegc_core::json::Soft;
use kubegc_core::{
    LabelSelector,
    record::{
        ClaimRetentionPolicy, ControllerRevision, DaemonSet, Deployment, DeploymentStrategy, Field,
        IntOrPercent, ReplicaSet, StatefulSet,
    },
};

use super::{
    SPEC, STATUS, annotation,
    reading::{Found, Origin, Path, Reading, Unreadable},
    selector, spec_of, status_of,
};
use crate::body::{ANNOTATION_REVISION, Body, Share, Spec, Status};

pub(super) fn deployment(reading: &mut Reading<'_>, body: &Body<'_>) -> Deployment {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    Deployment {
        revision_history_limit: reading.field(spec, |reading, spec| {
            let limit = history_limit(reading, spec)?;
            // The API server has the default 10. A whole object without a limit keeps all.
            Ok(match reading.origin {
                Origin::Whole => limit,
                Origin::Dump | Origin::Manifest => limit.or(Some(10)),
            })
        }),
        is_paused: field!(reading, spec.paused => copy_or_zero("paused")),
        replicas: reading.field(spec, replicas),
        selector: reading.field(spec, selector_of),
        strategy: reading.field(spec, strategy),
        template_digest: reading.field(spec, template_digest),
        status_replicas: reading.field(status, |reading, status| {
            let all = reading.number_or(&status.replicas, STATUS.field("replicas"), 0);
            let updated = reading.number_or(&status.updated_replicas, STATUS.field("updatedReplicas"), 0);
            let available =
                reading.number_or(&status.available_replicas, STATUS.field("availableReplicas"), 0);
            Ok([all?, updated?, available?])
        }),
        observed_generation: reading.field(status, observed_generation),
    }
}

pub(super) fn replica_set(reading: &mut Reading<'_>, body: &Body<'_>) -> ReplicaSet {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    ReplicaSet {
        replicas: reading.field(spec, replicas),
        selector: reading.field(spec, selector_of),
        template_digest: reading.field(spec, template_digest),
        revision: reading.field(Some(body), |reading, body| {
            let revision = annotation(reading, body, ANNOTATION_REVISION)?;
            Ok(revision.unwrap_or_default())
        }),
        status_replicas: reading.field(status, |reading, status| {
            reading.number_or(&status.replicas, STATUS.field("replicas"), 0)
        }),
        available_replicas: reading.field(status, |reading, status| {
            reading.number_or(&status.available_replicas, STATUS.field("availableReplicas"), 0)
        }),
        observed_generation: reading.field(status, observed_generation),
    }
}

pub(super) fn daemon_set(reading: &mut Reading<'_>, body: &Body<'_>) -> DaemonSet {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    DaemonSet {
        selector: reading.field(spec, selector_of),
        revision_history_limit: reading.field(spec, history_limit),
        observed_generation: reading.field(status, observed_generation),
    }
}

/// The API server always fills the only field.
pub(super) fn controller_revision(reading: &mut Reading<'_>, body: &Body<'_>) -> ControllerRevision {
    let path = Path::of("revision");
    let revision = reading.value(&body.revision, path);
    let revision = revision.map(Option::<&i64>::copied);
    ControllerRevision {
        revision: reading
            .or_default(revision, || 0)
            .map_or(Field::Unread, Field::Known),
    }
}

/// The API server has the default 1.
fn replicas(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<i32, Unreadable> {
    reading.number_or(&spec.replicas, SPEC.field("replicas"), 1)
}

fn history_limit(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<i32> {
    reading.number(&spec.revision_history_limit, SPEC.field("revisionHistoryLimit"))
}

fn observed_generation(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<i64, Unreadable> {
    reading.copy_or_zero(&status.observed_generation, STATUS.field("observedGeneration"))
}

/// Every workload has a selector: an absent one was stripped.
fn selector_of(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<LabelSelector, Unreadable> {
    let selector = selector::of_workload(reading, &spec.selector, SPEC.field("selector"));
    reading.unless_stripped(selector.map(|selector| Some(selector).filter(|_| !spec.selector.is_absent())))
}

/// The API server has the default `RollingUpdate` with 25 % each.
fn strategy(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<DeploymentStrategy, Unreadable> {
    let path = SPEC.field("strategy");
    let default = match reading.origin {
        Origin::Whole => "",
        Origin::Dump | Origin::Manifest => "RollingUpdate",
    };
    let strategy = reading.value(&spec.strategy, path)?;
    let kind = match strategy {
        Some(strategy) => reading.text_unless_empty(&strategy.strategy_type, path.field("type"))?,
        None => None,
    };
    match kind.as_deref().unwrap_or(default) {
        "Recreate" => return Ok(DeploymentStrategy::Recreate),
        "RollingUpdate" => {}
        _ => return Ok(DeploymentStrategy::Unset),
    }
    let path = path.field("rollingUpdate");
    let limits = match strategy {
        Some(strategy) => reading.value(&strategy.rolling_update, path)?,
        None => None,
    };
    let (mut max_unavailable, mut max_surge) = (None, None);
    if let Some(limits) = limits {
        max_unavailable = reading.value(&limits.max_unavailable, path.field("maxUnavailable"))?;
        max_surge = reading.value(&limits.max_surge, path.field("maxSurge"))?;
    }
    let or_default = |limit: Option<&Share>| limit.map_or(IntOrPercent::Percent(25), |share| share.0);
    Ok(DeploymentStrategy::RollingUpdate {
        max_unavailable: or_default(max_unavailable),
        max_surge: or_default(max_surge),
    })
}

/// Every workload has a template: an absent one was stripped.
fn template_digest(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<u64, Unreadable> {
    let template = reading.value(&spec.template, SPEC.field("template"));
    let digest = template.map(|template| template.map(|template| template.digest));
    reading.unless_stripped(digest)
}

pub(super) fn stateful_set(reading: &mut Reading<'_>, body: &Body<'_>) -> StatefulSet {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    StatefulSet {
        replicas: reading.field(spec, replicas),
        first_ordinal: reading.field(spec, |reading, spec| {
            let path = SPEC.field("ordinals");
            let start = match reading.value(&spec.ordinals, path)? {
                Some(ordinals) => reading.number(&ordinals.start, path.field("start"))?,
                None => None,
            };
            Ok(start.unwrap_or(0))
        }),
        retention_policy: reading.field(spec, retention_policy),
        claim_templates: reading.field(spec, |reading, spec| {
            let path = SPEC.field("volumeClaimTemplates");
            reading.list(&spec.volume_claim_templates, path, |reading, template, path| {
                let path = path.field("metadata");
                let meta = reading.value(&template.metadata, path)?;
                let absent = Soft::Absent;
                let name = meta.map_or(&absent, |meta| &meta.name);
                reading.text_or_empty(name, path.field("name"))
            })
        }),
        revision_history_limit: reading.field(spec, history_limit),
        current_revision: field!(reading, status.current_revision => text_or_empty("currentRevision")),
        update_revision: field!(reading, status.update_revision => text_or_empty("updateRevision")),
        observed_generation: reading.field(status, observed_generation),
    }
}

fn retention_policy(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<ClaimRetentionPolicy> {
    let path = SPEC.field("persistentVolumeClaimRetentionPolicy");
    let Some(policy) = reading.value(&spec.retention_policy, path)? else {
        return Ok(None);
    };
    let when_deleted = reading.text_or_empty(&policy.when_deleted, path.field("whenDeleted"));
    let when_scaled = reading.text_or_empty(&policy.when_scaled, path.field("whenScaled"));
    Ok(Some(ClaimRetentionPolicy {
        when_deleted: when_deleted?,
        when_scaled: when_scaled?,
    }))
}
