//! The parts of a forecast's document whose JSON form differs from their types: facts that are derived, and
//! sentences.

use kubegc_controllers::Operation;
use kubegc_core::{ObjectRef, OwnerReference, Timestamp, Uid};
use kubegc_objects::classify::Resolved;
use serde::Serialize;

use super::{
    events::{Event, Subject},
    reasons::because,
};
#[cfg(feature = "schemars")]
use crate::schemas::{ObjectSchema, ReferenceSchema};
use crate::{
    Step,
    trace::{Act, Outcome, Why},
};

/// A deletion or another change, with the deletions that it causes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct EventDocument<'a> {
    /// The object, and how the event ends for it.
    #[serde(flatten)]
    pub(super) subject: Subject<'a>,
    /// The time of the event.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub(super) at: Timestamp,
    /// The actor.
    pub(super) actor: String,
    /// Name of the reason, such as `NoOwnerLeft`.
    pub(super) reason: &'static str,
    /// The reason as a sentence.
    pub(super) message: String,
    /// Whether it happens for certain. Otherwise the fates of its objects are undetermined.
    pub(super) certain: bool,
    /// The objects whose deletion it causes.
    pub(super) with: Vec<Subject<'a>>,
}

/// A controller that cannot decide about an object.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct UndeterminedDocument<'a> {
    /// The controller.
    pub(super) controller: &'static str,
    /// Kind.
    pub(super) kind: &'static str,
    /// Namespace; empty for cluster-scoped objects.
    pub(super) namespace: &'a str,
    /// Name.
    pub(super) name: &'a str,
    /// Uid.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub(super) uid: &'a Uid,
    /// The missing fact.
    pub(super) message: String,
}

/// A write.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct StepDocument<'a> {
    /// Seconds since the beginning.
    pub(super) at_seconds: f64,
    /// The client that writes.
    pub(super) actor: String,
    /// The verb: `delete`, `deleteCollection`, `patch`, `create`, `update`, `deleteStorage` or
    /// `recycleStorage`.
    pub(super) act: &'static str,
    /// The propagation policy of a delete that sets one.
    pub(super) propagation_policy: Option<&'static str>,
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub(super) object: &'a ObjectRef,
    /// Code of the response.
    pub(super) code: u16,
    /// Message of a refusal.
    pub(super) failure: Option<&'a str>,
    /// Name of the reason, such as `NoOwnerLeft`.
    pub(super) reason: &'static str,
    /// The owners that the reason depends on.
    pub(super) owners: Vec<ResolvedDocument<'a>>,
    /// The changes.
    pub(super) changes: Vec<ChangeDocument<'a>>,
    /// Positions of the writes that led to it.
    pub(super) causes: &'a [usize],
    /// The write as a sentence.
    pub(super) text: String,
}

/// An owner, as the collector found it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct ResolvedDocument<'a> {
    /// The reference.
    #[cfg_attr(feature = "schemars", schemars(with = "ReferenceSchema"))]
    pub(super) reference: &'a OwnerReference,
    /// `solid`, `waiting` or `dangling`.
    pub(super) class: String,
    /// The result of the lookup.
    pub(super) state: String,
}

/// The change of an object.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeDocument<'a> {
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub(super) object: &'a ObjectRef,
    /// `removed`, `terminating`, `changed` or `created`.
    pub(super) outcome: &'static str,
}

/// A warning of the garbage collector.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct WarningDocument<'a> {
    /// The object that the Event is about.
    #[cfg_attr(feature = "schemars", schemars(with = "ObjectSchema"))]
    pub(super) object: &'a ObjectRef,
    /// Reason of the Event.
    pub(super) reason: &'static str,
    /// Message of the Event.
    pub(super) message: String,
}

pub(super) fn event<'a>(event: &Event<'a>) -> EventDocument<'a> {
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

pub(super) fn step(step: &Step) -> StepDocument<'_> {
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
