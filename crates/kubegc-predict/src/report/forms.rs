//! The documents of forecasts, comparisons and diagnoses, and the schemas of all documents.

use std::collections::BTreeMap;

use kubegc_core::{ObjectRef, Timestamp};
use kubegc_objects::collector::InvalidNamespace;
use serde::Serialize;
use serde_json::Value;

use super::{
    assumptions::AssumptionsDocument,
    entries::{self, EventDocument, StepDocument, UndeterminedDocument, WarningDocument},
    events::events,
};
use crate::{Comparison, Diagnosis, Forecast, ObjectFate, node::json as node};

/// A report with the name and version of its form.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct Document<'a, T> {
    /// Name and version: [`COMPARISON_SCHEMA`] or [`DIAGNOSIS_SCHEMA`].
    schema: &'static str,
    /// The report, whose fields follow.
    #[serde(flatten)]
    report: &'a T,
}

/// A forecast.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForecastDocument<'a> {
    /// Name and version of this form: [`FORECAST_SCHEMA`].
    schema: &'static str,
    /// The time at which it begins.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    began: Timestamp,
    /// The time at which it ends: after the horizon, or after the last change.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    until: Timestamp,
    /// The time at which a controller reconciles the next key after the end; null if none does.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    next_at: Option<Timestamp>,
    /// The simulated time until the last change.
    duration_seconds: f64,
    /// The objects of the requests, in order.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<crate::schemas::ObjectSchema>"))]
    targets: &'a [ObjectRef],
    /// The number of objects by fate.
    summary: BTreeMap<&'static str, usize>,
    /// The number of removed objects by `apiVersion/kind`.
    removals: BTreeMap<String, usize>,
    /// Every affected object with its fate.
    fates: &'a [ObjectFate],
    /// Deletions and changes in order of time. A deleted object is in one event, once.
    events: Vec<EventDocument<'a>>,
    /// Controllers that cannot decide about an object.
    undetermined: Vec<UndeterminedDocument<'a>>,
    /// Every write, in order.
    timeline: Vec<StepDocument<'a>>,
    /// Warnings that the garbage collector publishes as Events.
    warnings: Vec<WarningDocument<'a>>,
    /// Further findings.
    findings: Vec<String>,
    /// The controllers that run in addition to the garbage collector.
    controllers: &'a [&'static str],
    /// Assumptions about everything outside of the control plane.
    assumptions: AssumptionsDocument,
}

/// Name and version of the document of a [`Forecast`].
pub const FORECAST_SCHEMA: &str = "kubegc-forecast/1";
/// Name and version of the document of a [`Comparison`].
pub const COMPARISON_SCHEMA: &str = "kubegc-comparison/1";
/// Name and version of the document of a [`Diagnosis`].
pub const DIAGNOSIS_SCHEMA: &str = "kubegc-diagnosis/1";
pub(super) const QUESTION_SCHEMA: &str = "kubegc-question/1";
pub(super) const ANSWER_SCHEMA: &str = "kubegc-answer/1";

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
    /// The forecast as a document for programs.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    pub(super) fn document(&self) -> ForecastDocument<'_> {
        let mut removals: BTreeMap<String, usize> = BTreeMap::new();
        for removal in self.removals() {
            let ObjectRef {
                api_version, kind, ..
            } = removal.object;
            *removals.entry(format!("{api_version}/{kind}")).or_default() += 1;
        }
        let undetermined = self.undetermined.iter().map(|one| UndeterminedDocument {
            controller: one.controller,
            kind: one.object.resource.kind(),
            namespace: &one.object.namespace,
            name: &one.object.name,
            uid: &one.object.uid,
            message: one.missing.to_string(),
        });
        let warnings = self.warnings.iter().map(|warning| WarningDocument {
            object: &warning.dependent,
            reason: InvalidNamespace::REASON,
            message: warning.to_string(),
        });
        ForecastDocument {
            schema: FORECAST_SCHEMA,
            began: self.began,
            until: self.until(),
            next_at: self.next_at,
            duration_seconds: self.duration.as_secs_f64(),
            targets: &self.targets,
            summary: self.counts(),
            removals,
            fates: &self.fates,
            events: events(self).iter().map(entries::event).collect(),
            undetermined: undetermined.collect(),
            timeline: self.timeline.iter().map(entries::step).collect(),
            warnings: warnings.collect(),
            findings: self.findings.iter().map(ToString::to_string).collect(),
            controllers: &self.controllers,
            assumptions: AssumptionsDocument::from(&self.assumptions),
        }
    }

    /// The document as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Comparison<'_> {
    /// The comparison as a document for programs.
    pub(super) const fn document(&self) -> Document<'_, Self> {
        Document {
            schema: COMPARISON_SCHEMA,
            report: self,
        }
    }

    /// The document as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Diagnosis {
    /// The diagnosis as a document for programs.
    pub(super) const fn document(&self) -> Document<'_, Self> {
        Document {
            schema: DIAGNOSIS_SCHEMA,
            report: self,
        }
    }

    /// The document as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

/// A document as a value. Documents have only texts as keys, so this does not fail.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}
