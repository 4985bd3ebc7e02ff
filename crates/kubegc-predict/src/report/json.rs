//! A forecast as JSON, one stable form for programs.

use std::collections::BTreeMap;

use kubegc_controllers::{Cloud, Operation};
use kubegc_core::ObjectRef;
use kubegc_objects::classify::Resolved;
use serde_json::{Value, json};

use super::{
    events::{End, Subject, events},
    reasons::because,
};
use crate::{Act, Fate, Forecast, Outcome, Step, Wait, Why, explain::StepText};

impl Forecast {
    /// The forecast as a JSON value. Times are RFC 3339.
    ///
    /// - `began`, `until`, `nextAt` (null if no controller reconciles again of itself), `durationSeconds`;
    /// - `summary`: the number of objects by fate; `removals`: the number of removed objects by `apiVersion/kind`;
    /// - `fates`: each `object` with its `fate` and what belongs to it;
    /// - `events`: deletions and changes in order of time, each with `at`, `actor`, `message`, `object`, `end` (`removed`,
    ///   `terminating` or `changed`), `removedAt`, and `with`: the objects whose deletion it caused, with the same. A
    ///   deleted object is in one event, once. Where `certain` is false, the fates of the objects are undetermined;
    /// - `undetermined`: controllers that cannot decide about an object, each with a `message`;
    /// - `timeline`: every write with `actor`, `act`, `object`, `code`, `reason`, `causes` (positions of earlier writes),
    ///   `changes` and `text`;
    /// - `warnings`, `findings`, `controllers` and `assumptions`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut removals: BTreeMap<String, usize> = BTreeMap::new();
        for removal in self.removals() {
            let ObjectRef {
                api_version, kind, ..
            } = removal.object;
            *removals.entry(format!("{api_version}/{kind}")).or_default() += 1;
        }
        let fates = self.fates.iter().map(|fate| {
            let mut value = fate_json(&fate.fate);
            value["object"] = object_json(&fate.object);
            value
        });
        let events = events(self).into_iter().map(|event| {
            let mut value = subject_json(&event.subject);
            value["at"] = event.at.to_string().into();
            value["actor"] = event.step.actor.to_string().into();
            value["message"] = because(&event.step.why, event.subject.object).into();
            value["certain"] = event.is_certain.into();
            value["with"] = event.followers.iter().map(subject_json).collect();
            value
        });
        let cloud = self.assumptions.cloud.iter().map(|(node, instance)| {
            json!({
                "node": node,
                "exists": cloud_json(&instance.exists),
                "isShutdown": cloud_json(&instance.is_shutdown),
            })
        });
        json!({
            "began": self.began.to_string(),
            "until": self.until().to_string(),
            "nextAt": self.next_at.map(|at| at.to_string()),
            "durationSeconds": self.duration.as_secs_f64(),
            "summary": self.counts(),
            "removals": removals,
            "fates": fates.collect::<Vec<_>>(),
            "events": events.collect::<Vec<_>>(),
            "undetermined": self.undetermined.iter().map(|one| json!({
                "controller": one.controller,
                "kind": one.object.resource.kind(),
                "namespace": one.object.namespace,
                "name": one.object.name,
                "uid": one.object.uid,
                "message": one.missing.to_string(),
            })).collect::<Vec<_>>(),
            "timeline": self.timeline.iter().map(step_json).collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(|warning| json!({
                "object": object_json(&warning.dependent),
                "reason": kubegc_objects::effect::InvalidNamespace::REASON,
                "message": warning.to_string(),
            })).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "controllers": self.controllers,
            "assumptions": {
                "podsEnd": self.assumptions.pods_end,
                "finalizersReleased": self.assumptions.finalizers_released,
                "unreachableWebhooks": self.assumptions.unreachable_webhooks,
                "storageIsDeleted": self.assumptions.storage_is_deleted,
                "externalControllersRun": self.assumptions.external_controllers_run,
                "cloud": cloud.collect::<Vec<_>>(),
            },
        })
    }
}

pub(super) fn object_json(object: &ObjectRef) -> Value {
    json!({
        "apiVersion": object.api_version,
        "kind": object.kind,
        "namespace": object.namespace,
        "name": object.name,
        "uid": object.uid,
    })
}

pub(super) fn fate_json(fate: &Fate) -> Value {
    match fate {
        Fate::Deleted { by } => json!({ "fate": "deleted", "by": by.to_string() }),
        Fate::Released { owners } => json!({ "fate": "released", "owners": owners }),
        Fate::Terminating { waits_for } => json!({
            "fate": "terminating",
            "waitsFor": waits_for.iter().map(wait_json).collect::<Vec<_>>(),
        }),
        Fate::Undetermined { missing } => json!({
            "fate": "undetermined",
            "missing": missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Fate::Kept => json!({ "fate": "kept" }),
    }
}

fn wait_json(wait: &Wait) -> Value {
    let mut value = match wait {
        Wait::Dependents { blocking } => {
            json!({ "dependents": blocking.iter().map(object_json).collect::<Vec<_>>() })
        }
        Wait::Content { remaining, .. } => json!({ "remaining": remaining }),
        Wait::Finalizer { known, reason, .. } => json!({
            "removedBy": known.map(|known| known.owner.to_string()),
            "removedWhen": known.map(|known| known.removed),
            "reason": reason,
        }),
        Wait::Grace { ends_at } => json!({ "gracePeriodEndsAt": ends_at.map(|at| at.to_string()) }),
        Wait::Kubelet { node } => json!({ "node": node }),
    };
    value["finalizer"] = wait.finalizer().into();
    value["text"] = wait.to_string().into();
    value
}

fn subject_json(subject: &Subject<'_>) -> Value {
    let (end, removed_at) = match subject.end {
        End::Removed(at) => ("removed", Some(at.to_string())),
        End::Terminating => ("terminating", None),
        End::Changed => ("changed", None),
    };
    json!({ "object": object_json(subject.object), "end": end, "removedAt": removed_at })
}

/// An answer of the cloud provider; null if there is none.
fn cloud_json(answer: &Cloud) -> Value {
    match answer {
        Cloud::Yes => true.into(),
        Cloud::No => false.into(),
        Cloud::NotImplemented | Cloud::Failed(_) => Value::Null,
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
        "causes": step.causes,
        "text": StepText(step).to_string(),
    })
}
