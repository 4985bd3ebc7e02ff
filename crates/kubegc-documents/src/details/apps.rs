//! Facts of Deployments, ReplicaSets, DaemonSets, StatefulSets and ControllerRevisions.

use kubegc_core::{
    json::JsonType,
    record::{
        ClaimRetentionPolicy, ControllerRevision, DaemonSet, Deployment, DeploymentStrategy, IntOrPercent,
        ReplicaSet, StatefulSet,
    },
};
use serde_json::{Value, json};

use super::{
    facts::{By, Each, Fact, Facts, Filled, In, Object, Or, Plain, Required},
    node::Conditions,
    reading::{At, Found, Origin, Reading, Unreadable},
};
use crate::{body::Raw, fields::ANNOTATION_REVISION, template};

facts! {
    Deployment {
        spec {
            revision_history_limit: "revisionHistoryLimit" => By(history_limit),
            is_paused: "paused" => Plain,
            replicas: "replicas" => Or(1),
            selector: "selector" => Required,
            strategy: "strategy" => Plain,
            template_digest: "template" => Required,
        }
        status {
            status_replicas: "" => Plain,
            observed_generation: "observedGeneration" => Plain,
            failures: "conditions" => Conditions(&["ReplicaFailure"]),
        }
    }
    ReplicaSet {
        spec {
            replicas: "replicas" => Or(1),
            selector: "selector" => Required,
            template_digest: "template" => Required,
        }
        status {
            status_replicas: "replicas" => Plain,
            available_replicas: "availableReplicas" => Plain,
            observed_generation: "observedGeneration" => Plain,
            failures: "conditions" => Conditions(&["ReplicaFailure"]),
        }
        metadata {
            revision: "annotations" => In(ANNOTATION_REVISION, Plain),
        }
    }
    DaemonSet {
        spec {
            selector: "selector" => Required,
            revision_history_limit: "revisionHistoryLimit" => Plain,
        }
        status {
            observed_generation: "observedGeneration" => Plain,
        }
    }
    StatefulSet {
        spec {
            replicas: "replicas" => Or(1),
            first_ordinal: "ordinals" => In("start", Plain),
            retention_policy: "persistentVolumeClaimRetentionPolicy" => Plain,
            claim_templates: "volumeClaimTemplates" => Each(In("metadata", In("name", Plain))),
            revision_history_limit: "revisionHistoryLimit" => Plain,
        }
        status {
            current_revision: "currentRevision" => Plain,
            update_revision: "updateRevision" => Plain,
            observed_generation: "observedGeneration" => Plain,
        }
    }
    ControllerRevision {
        object {
            revision: "revision" => By(revision),
        }
    }
}

map_of_facts! {
    ClaimRetentionPolicy {
        when_deleted: "whenDeleted" => Filled,
        when_scaled: "whenScaled" => Filled,
    }
}

/// The API server has the default 10. A whole object without a limit keeps all.
fn history_limit(reading: &mut Reading<'_>, at: At<'_, '_>) -> Found<i32> {
    let limit = reading.number(at)?;
    Ok(match reading.origin {
        Origin::Whole => limit,
        Origin::Dump | Origin::Manifest => limit.or(Some(10)),
    })
}

/// The API server always fills it.
fn revision(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<i64, Unreadable> {
    match reading.whole(at)? {
        Some(revision) => Ok(revision),
        None => reading.or_default(0),
    }
}

const STATUS_REPLICAS: [&str; 3] = ["replicas", "updatedReplicas", "availableReplicas"];

/// The counts of replicas in the status of a Deployment.
impl Fact for [i32; 3] {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        let [all, updated, available] = STATUS_REPLICAS.map(|field| i32::read(reading, at.field(field)));
        Ok([all?, updated?, available?])
    }

    fn write(&self) -> Value {
        let fields = STATUS_REPLICAS.into_iter().zip(self);
        let fields = fields.map(|(field, count)| (field.to_owned(), count.write()));
        fields.collect::<Object>().into()
    }

    fn unread() -> Value {
        json!({ "replicas": false })
    }
}

impl Fact for u64 {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        reading.map(at)?;
        let digest = at.value.get(template::DIGEST).as_str();
        Ok(digest.and_then(|digest| digest.parse().ok()).unwrap_or_default())
    }

    fn write(&self) -> Value {
        json!({ template::DIGEST: self.to_string() })
    }
}

impl Fact for DeploymentStrategy {
    const TYPE: JsonType = JsonType::Map;

    /// The API server has the default `RollingUpdate` with 25 % each.
    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        let default = match reading.origin {
            Origin::Whole => "",
            Origin::Dump | Origin::Manifest => "RollingUpdate",
        };
        reading.map(at)?;
        let strategy = reading.text_unless_empty(at.field("type"))?;
        match strategy.as_deref().unwrap_or(default) {
            "Recreate" => return Ok(Self::Recreate),
            "RollingUpdate" => {}
            _ => return Ok(Self::Unset),
        }
        let limits = at.field("rollingUpdate");
        reading.map(limits)?;
        Ok(Self::RollingUpdate {
            max_unavailable: share(reading, limits.field("maxUnavailable"))?,
            max_surge: share(reading, limits.field("maxSurge"))?,
        })
    }

    fn write(&self) -> Value {
        let share = |share: &IntOrPercent| match share {
            IntOrPercent::Int(number) => json!(number),
            IntOrPercent::Percent(percent) => json!(format!("{percent}%")),
        };
        match self {
            // An absent one has a default.
            Self::Unset => json!({ "type": "None" }),
            Self::Recreate => json!({ "type": "Recreate" }),
            Self::RollingUpdate {
                max_unavailable,
                max_surge,
            } => json!({
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": share(max_unavailable), "maxSurge": share(max_surge) },
            }),
        }
    }
}

/// A whole number or a percentage.
fn share(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<IntOrPercent, Unreadable> {
    let share = match at.value {
        Raw::Null => Some(IntOrPercent::Percent(25)),
        Raw::Number(number) => i32::try_from(*number).ok().map(IntOrPercent::Int),
        Raw::Text(text) => {
            let percent = text.as_str().strip_suffix('%');
            let percent = percent.and_then(|percent| percent.parse().ok());
            percent.map(IntOrPercent::Percent)
        }
        _ => None,
    };
    share.ok_or_else(|| reading.wrong(at, "a whole number or a percentage"))
}
