//! A forecast as JSON, one stable form for programs.

use serde_json::{Value, json};

use kubegc_controllers::Operation;
use kubegc_core::ObjectRef;
use kubegc_objects::classify::Resolved;

use crate::{Act, Fate, Forecast, Outcome, Step, Why, explain::Told};

impl Forecast {
    /// The forecast as a JSON value: `summary`, `fates`, `timeline`, `warnings`, `findings`, `assumptions`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "summary": self.counts(),
            "durationSeconds": self.duration.as_secs_f64(),
            "fates": self.fates.iter().map(|fate| {
                let mut value = fate_json(&fate.fate);
                value["object"] = object_json(&fate.object);
                value
            }).collect::<Vec<_>>(),
            "timeline": self.timeline.iter().map(step_json).collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(|warning| json!({
                "object": object_json(&warning.dependent),
                "reason": kubegc_objects::effect::InvalidNamespace::REASON,
                "message": warning.to_string(),
            })).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "assumptions": {
                "podsEnd": self.assumptions.pods_end,
                "finalizersReleased": self.assumptions.finalizers_released,
                "unreachableWebhooks": self.assumptions.unreachable_webhooks,
            },
        })
    }
}

fn object_json(object: &ObjectRef) -> Value {
    json!({
        "apiVersion": object.api_version,
        "kind": object.kind,
        "namespace": object.namespace,
        "name": object.name,
        "uid": object.uid,
    })
}

fn fate_json(fate: &Fate) -> Value {
    match fate {
        Fate::Deleted { by } => json!({ "fate": "deleted", "by": by.to_string() }),
        Fate::Released { owners } => json!({ "fate": "released", "owners": owners }),
        Fate::Stuck {
            finalizers,
            blocked_by,
            in_grace,
        } => json!({
            "fate": "stuck",
            "finalizers": finalizers,
            "blockedBy": blocked_by.iter().map(object_json).collect::<Vec<_>>(),
            "inGrace": in_grace,
        }),
        Fate::Undecided { missing } => json!({
            "fate": "undecided",
            "missing": missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Fate::Kept => json!({ "fate": "kept" }),
    }
}

fn step_json(step: &Step) -> Value {
    let act = match step.act {
        Act::Delete { .. } => "delete",
        Act::DeleteCollection => "deleteCollection",
        Act::Patch { .. } => "patch",
        Act::Create => "create",
        Act::Update => "update",
        Act::Storage(Operation::DeleteVolume) => "deleteStorage",
        Act::Storage(Operation::RecycleVolume) => "recycleStorage",
    };
    let propagation = match step.act {
        Act::Delete { propagation } => propagation.map(|policy| policy.as_str()),
        _ => None,
    };
    let outcome = |outcome| match outcome {
        Outcome::Gone => "gone",
        Outcome::Terminating => "terminating",
        Outcome::Changed => "changed",
        Outcome::Created => "created",
    };
    let (reason, owners): (&str, &[Resolved]) = match &step.why {
        Why::Collector(reason) => (reason.name(), reason.owners()),
        Why::Intent(_) => ("Intent", &[]),
        Why::DefinitionTerminating => ("DefinitionTerminating", &[]),
        Why::DefinitionsChanged => ("DefinitionsChanged", &[]),
        Why::GracePeriodExpired => ("GracePeriodExpired", &[]),
        Why::FinalizerReleased(_) => ("FinalizerReleased", &[]),
        Why::Controller(reason) => (reason.code(), &[]),
    };
    json!({
        "atSeconds": step.at.as_secs_f64(),
        "actor": step.actor.to_string(),
        "act": act,
        "propagationPolicy": propagation,
        "object": object_json(&step.object),
        "code": step.code,
        "failure": step.failure,
        "reason": reason,
        "owners": owners.iter().map(|owner| json!({
            "reference": owner.reference,
            "class": owner.class().to_string(),
            "state": owner.state.to_string(),
        })).collect::<Vec<_>>(),
        "changes": step.changes.iter().map(|change| json!({
            "object": object_json(&change.object),
            "outcome": outcome(change.outcome),
        })).collect::<Vec<_>>(),
        "text": Told(step).to_string(),
    })
}
