//! The JSON forms of forecasts, comparisons and diagnoses, and of questions and their answers.
//!
//! [`answer`] takes a question and returns a report, all in JSON.
//!
//! The types of a report are serialized as they are. The types of this module are the parts whose JSON form
//! differs from them: facts that are derived, and sentences.
//!
//! Each document has a field `schema` with its name and version. Within a version, fields are added and never
//! removed, and the values of a field keep their meaning. Times are RFC 3339 in UTC. [`SCHEMAS`] has the JSON
//! schemas; with the feature `schemars`, the types generate theirs.

use std::{collections::BTreeMap, fmt};

use kubegc_controllers::Operation;
use kubegc_core::{ObjectRef, OwnerReference, Timestamp, Uid};
use kubegc_objects::{classify::Resolved, collector::InvalidNamespace};
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use super::{
    answer::{Answer, AnswerStatus, answer, error},
    question::{AssumptionsDocument, InstanceDocument},
};
use super::{
    events::{Event, events},
    reasons::because,
};
use crate::{
    Comparison, Diagnosis, Forecast, ObjectFate, Remaining, Step, Wait,
    doctor::{Cause, ReferenceProblem},
    node::json as node,
    trace::{Act, Outcome, Why},
};

/// A report with the name and version of its form.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Document<'a, T> {
    /// Name and version: [`COMPARISON_SCHEMA`] or [`DIAGNOSIS_SCHEMA`].
    pub schema: &'static str,
    /// The report, whose fields follow.
    #[serde(flatten)]
    pub report: &'a T,
}

/// A forecast.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForecastDocument<'a> {
    /// Name and version of this form: [`FORECAST_SCHEMA`].
    pub schema: &'static str,
    /// The time at which it begins.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub began: Timestamp,
    /// The time at which it ends: after the horizon, or after the last change.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub until: Timestamp,
    /// The time at which a controller reconciles the next key after the end; null if none does.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub next_at: Option<Timestamp>,
    /// The simulated time until the last change.
    pub duration_seconds: f64,
    /// The objects of the requests, in order.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ObjectSchema>"))]
    pub targets: &'a [ObjectRef],
    /// The number of objects by fate.
    pub summary: BTreeMap<&'static str, usize>,
    /// The number of removed objects by `apiVersion/kind`.
    pub removals: BTreeMap<String, usize>,
    /// Every affected object with its fate.
    pub fates: &'a [ObjectFate],
    /// Deletions and changes in order of time. A deleted object is in one event, once.
    pub events: Vec<EventDocument<'a>>,
    /// Controllers that cannot decide about an object.
    pub undetermined: Vec<UndeterminedDocument<'a>>,
    /// Every write, in order.
    pub timeline: Vec<StepDocument<'a>>,
    /// Warnings that the garbage collector publishes as Events.
    pub warnings: Vec<WarningDocument<'a>>,
    /// Further findings.
    pub findings: Vec<String>,
    /// The controllers that run in addition to the garbage collector.
    pub controllers: &'a [&'static str],
    /// Assumptions about everything outside of the control plane.
    pub assumptions: AssumptionsDocument,
}

/// Name and version of [`ForecastDocument`].
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

/// A condition that a terminating object waits for.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WaitDocument<'a> {
    /// The finalizer that the object has until then.
    pub finalizer: Option<&'a str>,
    /// The wait as a sentence.
    pub text: String,
    /// The rest, by kind of wait.
    #[serde(flatten)]
    pub cause: WaitCauseDocument<'a>,
}

/// The fields of each kind of wait.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum WaitCauseDocument<'a> {
    /// For dependents that block its deletion.
    Dependents {
        /// These.
        #[cfg_attr(feature = "schemars", schemars(with = "Vec<ObjectSchema>"))]
        dependents: Vec<&'a ObjectRef>,
    },
    /// A namespace for its content.
    Content {
        /// The content by resource.
        remaining: &'a [Remaining],
    },
    /// For the controller that removes a finalizer.
    Finalizer {
        /// The controller, if known.
        removed_by: Option<String>,
        /// The event after which it removes the finalizer.
        removed_when: Option<&'static str>,
        /// The reason why it has not.
        reason: Option<String>,
    },
    /// For the end of its grace period.
    Grace {
        /// The time of that end.
        #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
        grace_period_ends_at: Option<Timestamp>,
    },
    /// For a request that the API server refuses.
    Refused {
        /// The sender.
        refused_to: String,
        /// The verb.
        verb: String,
        /// The object of the request.
        #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
        request_for: &'a ObjectRef,
        /// The API server's message.
        message: &'a str,
    },
    /// A namespace for the discovery of an API.
    Discovery {
        /// Its group and version.
        api_version: &'a str,
        /// The name of its APIService.
        api_service: &'a str,
        /// Why it is not available.
        failure: &'a str,
        /// Since when, if the dump says so.
        #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
        since: Option<Timestamp>,
    },
    /// For the conversion of custom resources.
    Conversion {
        /// The resource with its version.
        resource: &'a str,
        /// The name of its CustomResourceDefinition.
        definition: &'a str,
        /// Why the conversion webhook cannot be reached.
        failure: &'a str,
    },
    /// For the kubelet of its node.
    Kubelet {
        /// The node.
        node: Option<&'a str>,
        /// The end of the grace period, if its kubelet should have ended the pod long ago.
        #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
        overdue_since: Option<Timestamp>,
    },
}

/// The end of an event for an object.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum EndDocument {
    /// It no longer exists.
    Removed,
    /// It is terminating.
    Terminating,
    /// It is kept.
    Changed,
}

/// An object of an event.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubjectDocument<'a> {
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub object: &'a ObjectRef,
    /// The end of the event for it.
    pub end: EndDocument,
    /// The time at which it is removed.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub removed_at: Option<Timestamp>,
}

/// A deletion or another change, with the deletions that it causes.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventDocument<'a> {
    /// The object, and how the event ends for it.
    #[serde(flatten)]
    pub subject: SubjectDocument<'a>,
    /// The time of the event.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub at: Timestamp,
    /// The actor.
    pub actor: String,
    /// Name of the reason, such as `NoOwnerLeft`.
    pub reason: &'static str,
    /// The reason as a sentence.
    pub message: String,
    /// Whether it happens for certain. Otherwise the fates of its objects are undetermined.
    pub certain: bool,
    /// The objects whose deletion it causes.
    pub with: Vec<SubjectDocument<'a>>,
}

/// A controller that cannot decide about an object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UndeterminedDocument<'a> {
    /// The controller.
    pub controller: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub uid: &'a Uid,
    /// The missing fact.
    pub message: String,
}

/// A write.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepDocument<'a> {
    /// Seconds since the beginning.
    pub at_seconds: f64,
    /// The client that writes.
    pub actor: String,
    /// The verb: `delete`, `deleteCollection`, `patch`, `create`, `update`, `deleteStorage` or
    /// `recycleStorage`.
    pub act: &'static str,
    /// The propagation policy of a delete that sets one.
    pub propagation_policy: Option<&'static str>,
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub object: &'a ObjectRef,
    /// Code of the response.
    pub code: u16,
    /// Message of a refusal.
    pub failure: Option<&'a str>,
    /// Name of the reason, such as `NoOwnerLeft`.
    pub reason: &'static str,
    /// The owners that the reason depends on.
    pub owners: Vec<ResolvedDocument<'a>>,
    /// The changes.
    pub changes: Vec<ChangeDocument<'a>>,
    /// Positions of the writes that led to it.
    pub causes: &'a [usize],
    /// The write as a sentence.
    pub text: String,
}

/// An owner, as the collector found it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDocument<'a> {
    /// The reference.
    #[cfg_attr(feature = "schemars", schemars(with = "ReferenceSchema"))]
    pub reference: &'a OwnerReference,
    /// `solid`, `waiting` or `dangling`.
    pub class: String,
    /// The result of the lookup.
    pub state: String,
}

/// The change of an object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeDocument<'a> {
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub object: &'a ObjectRef,
    /// `removed`, `terminating`, `changed` or `created`.
    pub outcome: &'static str,
}

/// A warning of the garbage collector.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WarningDocument<'a> {
    /// The object that the Event is about.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub object: &'a ObjectRef,
    /// Reason of the Event.
    pub reason: &'static str,
    /// Message of the Event.
    pub message: String,
}

/// A problem with an owner reference.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemDocument {
    /// Name of the problem.
    problem: &'static str,
    /// The problem as a sentence.
    message: String,
    /// Whether the dump proves the problem.
    is_certain: bool,
}

/// A cause that keeps objects in deletion.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct CauseDocument<'a> {
    /// Name of the cause.
    cause: &'static str,
    /// The cause as a sentence.
    message: String,
    /// The objects to repair or to delete; empty if they are those that it blocks.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ObjectSchema>"))]
    objects: Vec<&'a ObjectRef>,
}

/// The schema of an object.
#[cfg(feature = "schemars")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ObjectSchema {
    /// Group and version.
    api_version: String,
    /// Kind.
    kind: String,
    /// Namespace; empty for cluster-scoped objects.
    namespace: String,
    /// Name.
    name: String,
    /// Uid.
    uid: String,
}

/// The schema of an owner reference.
#[cfg(feature = "schemars")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ReferenceSchema {
    /// Group and version of the owner's kind.
    api_version: String,
    /// Kind of the owner.
    kind: String,
    /// Name of the owner.
    name: String,
    /// Uid of the owner.
    uid: String,
    /// Whether the owner is the controller; absent if it is not set.
    controller: Option<bool>,
    /// Whether it blocks a foreground deletion of the owner; absent if it is not set.
    block_owner_deletion: Option<bool>,
}

impl Forecast {
    /// The forecast as a document for programs.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    #[must_use]
    pub fn document(&self) -> ForecastDocument<'_> {
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
            events: events(self).iter().map(event).collect(),
            undetermined: undetermined.collect(),
            timeline: self.timeline.iter().map(step).collect(),
            warnings: warnings.collect(),
            findings: self.findings.iter().map(ToString::to_string).collect(),
            controllers: &self.controllers,
            assumptions: AssumptionsDocument::from(&self.assumptions),
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Comparison<'_> {
    /// The comparison as a document for programs.
    #[must_use]
    pub const fn document(&self) -> Document<'_, Self> {
        Document {
            schema: COMPARISON_SCHEMA,
            report: self,
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Diagnosis {
    /// The diagnosis as a document for programs.
    #[must_use]
    pub const fn document(&self) -> Document<'_, Self> {
        Document {
            schema: DIAGNOSIS_SCHEMA,
            report: self,
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

/// A document as a value. Documents have only texts as keys, so this does not fail.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

/// Serializes the text of a value.
pub(crate) fn shown<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serializes the texts of values.
pub(crate) fn each_shown<S: Serializer>(
    values: &[impl fmt::Display],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        wait(self).serialize(serializer)
    }
}

impl Serialize for ReferenceProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = ProblemDocument {
            problem: self.word(),
            message: self.to_string(),
            is_certain: self.is_certain(),
        };
        document.serialize(serializer)
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = CauseDocument {
            cause: self.word(),
            message: self.to_string(),
            objects: self.objects(),
        };
        document.serialize(serializer)
    }
}

fn wait(wait: &Wait) -> WaitDocument<'_> {
    let cause = match wait {
        Wait::Dependents { blocking } => WaitCauseDocument::Dependents {
            dependents: blocking.iter().map(|blocking| &blocking.object).collect(),
        },
        Wait::Content { remaining, .. } => WaitCauseDocument::Content { remaining },
        Wait::Finalizer { known, reason, .. } => WaitCauseDocument::Finalizer {
            removed_by: known.map(|known| known.owner.to_string()),
            removed_when: known.map(|known| known.removed),
            reason: reason.as_ref().map(ToString::to_string),
        },
        Wait::Grace { ends_at } => WaitCauseDocument::Grace {
            grace_period_ends_at: *ends_at,
        },
        Wait::Refused {
            actor,
            act,
            object,
            refusal,
            ..
        } => WaitCauseDocument::Refused {
            refused_to: actor.to_string(),
            verb: act.to_string(),
            request_for: object,
            message: &refusal.message,
        },
        Wait::Discovery {
            api_version,
            api_service,
            failure,
            since,
            ..
        } => WaitCauseDocument::Discovery {
            api_version,
            api_service,
            failure,
            since: *since,
        },
        Wait::Conversion {
            resource,
            definition,
            failure,
            ..
        } => WaitCauseDocument::Conversion {
            resource,
            definition,
            failure,
        },
        Wait::Kubelet { node, overdue_since } => WaitCauseDocument::Kubelet {
            node: node.as_deref(),
            overdue_since: *overdue_since,
        },
    };
    WaitDocument {
        finalizer: wait.finalizer(),
        text: wait.to_string(),
        cause,
    }
}

fn event<'a>(event: &Event<'a>) -> EventDocument<'a> {
    EventDocument {
        subject: event.subject,
        at: event.at,
        actor: event.step.actor.to_string(),
        reason: reason_name(&event.step.why),
        message: because(&event.step.why, event.subject.object),
        certain: event.is_certain,
        with: event.followers.clone(),
    }
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

fn step(step: &Step) -> StepDocument<'_> {
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
    let owners = owners.iter().map(|owner| ResolvedDocument {
        reference: &owner.reference,
        class: owner.class().to_string(),
        state: owner.state.to_string(),
    });
    let changes = step.changes.iter().map(|change| ChangeDocument {
        object: &change.object,
        outcome: match change.outcome {
            Outcome::Removed => "removed",
            Outcome::Terminating => "terminating",
            Outcome::Changed => "changed",
            Outcome::Created => "created",
        },
    });
    StepDocument {
        at_seconds: step.at.as_secs_f64(),
        actor: step.actor.to_string(),
        act,
        propagation_policy,
        object: &step.object,
        code: step.code,
        failure: step.failure.as_ref().map(|refusal| &*refusal.message),
        reason: reason_name(&step.why),
        owners: owners.collect(),
        changes: changes.collect(),
        causes: &step.causes,
        text: step.to_string(),
    }
}
