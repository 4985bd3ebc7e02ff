//! The JSON forms of forecasts, comparisons and diagnoses, and of questions and their answers.
//!
//! [`answer`] takes a question and returns a report, all in JSON.
//!
//! Each document has a field `schema` with its name and version. Within a version, fields are added and never
//! removed, and the values of a field keep their meaning. Times are RFC 3339 in UTC. [`SCHEMAS`] has the JSON
//! schemas, which describe each field.

use std::collections::BTreeMap;

use kubegc_controllers::Operation;
use kubegc_objects::{classify::Resolved, collector::InvalidNamespace};
use serde::Serialize;
use serde_json::{Value, json};

pub use super::answer::{Answer, AnswerStatus, answer, error};
use super::{
    answer::ANSWER_SCHEMA,
    events::{Event, because, events},
    question::{AssumptionsDocument, QUESTION_SCHEMA},
};
use crate::{
    Comparison, Diagnosis, Forecast, Step,
    node::json as node,
    trace::{Act, Outcome, Why},
};

/// Name and version of the document of a [`Forecast`].
pub const FORECAST_SCHEMA: &str = "kubegc-forecast/1";
/// Name and version of the document of a [`Comparison`].
pub const COMPARISON_SCHEMA: &str = "kubegc-comparison/1";
/// Name and version of the document of a [`Diagnosis`].
pub const DIAGNOSIS_SCHEMA: &str = "kubegc-diagnosis/1";

/// The JSON schemas of all documents, by their name and version: questions, answers and reports.
pub const SCHEMAS: [(&str, &str); 7] = [
    (QUESTION_SCHEMA, include_str!("../../schemas/question.json")),
    (ANSWER_SCHEMA, include_str!("../../schemas/answer.json")),
    (FORECAST_SCHEMA, include_str!("../../schemas/forecast.json")),
    (COMPARISON_SCHEMA, include_str!("../../schemas/comparison.json")),
    (DIAGNOSIS_SCHEMA, include_str!("../../schemas/diagnosis.json")),
    (
        node::FORECAST_SCHEMA,
        include_str!("../../schemas/node-forecast.json"),
    ),
    (
        node::COMPARISON_SCHEMA,
        include_str!("../../schemas/node-comparison.json"),
    ),
];

impl Forecast {
    /// The forecast as a JSON value, for programs.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    pub fn to_json(&self) -> Value {
        let mut removals: BTreeMap<String, usize> = BTreeMap::new();
        for removal in self.removals() {
            let kind = format!("{}/{}", removal.object.api_version, removal.object.kind);
            *removals.entry(kind).or_default() += 1;
        }
        let undetermined = self.undetermined.iter().map(|one| {
            json!({
                "controller": one.controller,
                "kind": one.object.resource.kind(),
                "namespace": one.object.namespace,
                "name": one.object.name,
                "uid": one.object.uid,
                "message": one.missing.to_string(),
            })
        });
        let warnings = self.warnings.iter().map(|warning| {
            json!({
                "object": warning.dependent,
                "reason": InvalidNamespace::REASON,
                "message": warning.to_string(),
            })
        });
        let findings = self.findings.iter().map(ToString::to_string);
        json!({
            "schema": FORECAST_SCHEMA,
            "began": self.began,
            "until": self.until(),
            "nextAt": self.next_at,
            "durationSeconds": self.duration.as_secs_f64(),
            "targets": self.targets,
            "summary": self.counts(),
            "removals": removals,
            "fates": self.fates,
            "events": events(self).iter().map(event).collect::<Value>(),
            "undetermined": undetermined.collect::<Value>(),
            "timeline": self.timeline.iter().map(step).collect::<Value>(),
            "warnings": warnings.collect::<Value>(),
            "findings": findings.collect::<Value>(),
            "controllers": self.controllers,
            "assumptions": AssumptionsDocument::from(&self.assumptions),
        })
    }
}

impl Comparison<'_> {
    /// The comparison as a JSON value, for programs.
    pub fn to_json(&self) -> Value {
        document(COMPARISON_SCHEMA, self)
    }
}

impl Diagnosis {
    /// The diagnosis as a JSON value, for programs.
    pub fn to_json(&self) -> Value {
        document(DIAGNOSIS_SCHEMA, self)
    }
}

/// A report with the name and version of its form. It has only texts as keys, so this does not fail.
fn document(schema: &str, report: &impl Serialize) -> Value {
    let mut document = serde_json::to_value(report).unwrap_or_default();
    document["schema"] = schema.into();
    document
}

/// A deletion or another change, with the deletions that it causes.
fn event(event: &Event<'_>) -> Value {
    let mut document = json!(event.subject);
    let why = &event.step.why;
    document["at"] = json!(event.at);
    document["actor"] = event.step.actor.to_string().into();
    document["reason"] = reason_name(why).into();
    document["message"] = because(why, event.subject.object).into();
    document["certain"] = event.is_certain.into();
    document["with"] = json!(event.followers);
    document
}

const fn reason_name(why: &Why) -> &'static str {
    match why {
        Why::Collector(reason) => reason.name(),
        Why::Intent(_) => "Intent",
        Why::DefinitionTerminating => "DefinitionTerminating",
        Why::DefinitionsChanged => "DefinitionsChanged",
        Why::GracePeriodExpired => "GracePeriodExpired",
        Why::FinalizerReleased(_) => "FinalizerReleased",
        Why::Controller(reason) => reason.code(),
    }
}

/// A write.
fn step(step: &Step) -> Value {
    let (act, propagation_policy) = match step.act {
        Act::Delete { propagation } => ("delete", propagation.map(|policy| policy.as_str())),
        Act::DeleteCollection => ("deleteCollection", None),
        Act::Patch { .. } => ("patch", None),
        Act::Create => ("create", None),
        Act::Update => ("update", None),
        Act::Storage(Operation::DeleteVolume) => ("deleteStorage", None),
        Act::Storage(Operation::RecycleVolume) => ("recycleStorage", None),
    };
    let owners: &[Resolved] = match &step.why {
        Why::Collector(reason) => reason.owners(),
        _ => &[],
    };
    let owners = owners.iter().map(|owner| {
        json!({
            "reference": owner.reference,
            "class": owner.class().to_string(),
            "state": owner.state.to_string(),
        })
    });
    let changes = step.changes.iter().map(|change| {
        let outcome = match change.outcome {
            Outcome::Removed => "removed",
            Outcome::Terminating => "terminating",
            Outcome::Changed => "changed",
            Outcome::Created => "created",
        };
        json!({ "object": change.object, "outcome": outcome })
    });
    json!({
        "atSeconds": step.at.as_secs_f64(),
        "actor": step.actor.to_string(),
        "act": act,
        "propagationPolicy": propagation_policy,
        "object": step.object,
        "code": step.code,
        "failure": step.failure.as_ref().map(|refusal| &*refusal.message),
        "reason": reason_name(&step.why),
        "owners": owners.collect::<Value>(),
        "changes": changes.collect::<Value>(),
        "causes": step.causes,
        "text": step.to_string(),
    })
}
