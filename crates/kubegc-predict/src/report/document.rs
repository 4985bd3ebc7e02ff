//! The JSON forms of forecasts, comparisons and diagnoses, as types.
//!
//! Each document has a field `schema` with its name and version. Within a version, fields are added and never
//! removed, and the values of a field keep their meaning. Times are RFC 3339 in UTC. With the feature
//! `schemars`, every type has a JSON schema.

use std::collections::BTreeMap;

use kubegc_core::Uid;
use serde::Serialize;

use crate::Remaining;

/// A forecast.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForecastDocument<'a> {
    /// Name and version of this form: [`FORECAST_SCHEMA`].
    pub schema: &'static str,
    /// The time at which it begins.
    pub began: String,
    /// The time at which it ends: after the horizon, or after the last change.
    pub until: String,
    /// The time at which a controller reconciles the next key after the end; null if none does.
    pub next_at: Option<String>,
    /// The simulated time until the last change.
    pub duration_seconds: f64,
    /// The objects of the requests, in order.
    pub targets: Vec<ObjectDocument<'a>>,
    /// The number of objects by fate.
    pub summary: BTreeMap<&'static str, usize>,
    /// The number of removed objects by `apiVersion/kind`.
    pub removals: BTreeMap<String, usize>,
    /// Every affected object with its fate.
    pub fates: Vec<ObjectFateDocument<'a>>,
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
    pub controllers: Vec<&'static str>,
    /// Assumptions about everything outside of the control plane.
    pub assumptions: AssumptionsDocument<'a>,
}

/// Name and version of [`ForecastDocument`].
pub const FORECAST_SCHEMA: &str = "kubegc-forecast/1";
/// Name and version of [`ComparisonDocument`].
pub const COMPARISON_SCHEMA: &str = "kubegc-comparison/1";
/// Name and version of [`DiagnosisDocument`].
pub const DIAGNOSIS_SCHEMA: &str = "kubegc-diagnosis/1";

/// An object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectDocument<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub uid: &'a Uid,
}

/// An object and its fate.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ObjectFateDocument<'a> {
    /// The object.
    pub object: ObjectDocument<'a>,
    /// Its fate.
    #[serde(flatten)]
    pub fate: FateDocument<'a>,
}

/// A fate.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "fate", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FateDocument<'a> {
    /// It no longer exists.
    Deleted {
        /// The client that deleted it.
        by: String,
    },
    /// It is kept and loses owner references.
    Released {
        /// The removed references.
        owners: Vec<ReferenceDocument<'a>>,
    },
    /// It is terminating.
    Terminating {
        /// The conditions that it waits for.
        waits_for: Vec<WaitDocument<'a>>,
    },
    /// It depends on data that is missing from the dump.
    Undetermined {
        /// The missing data.
        missing: Vec<String>,
    },
    /// It is kept.
    Kept,
}

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
        dependents: Vec<ObjectDocument<'a>>,
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
        reason: Option<&'a str>,
    },
    /// For the end of its grace period.
    Grace {
        /// The time of that end.
        grace_period_ends_at: Option<String>,
    },
    /// For the kubelet of its node.
    Kubelet {
        /// The node.
        node: Option<&'a str>,
    },
}

/// An owner reference.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReferenceDocument<'a> {
    /// Group and version of the owner's kind.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner.
    pub name: &'a str,
    /// Uid of the owner.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub uid: &'a Uid,
    /// Whether the owner is the controller; absent if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether it blocks a foreground deletion of the owner; absent if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The end of an event for an object.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubjectDocument<'a> {
    /// The object.
    pub object: ObjectDocument<'a>,
    /// The end of the event for it.
    pub end: EndDocument,
    /// The time at which it is removed.
    pub removed_at: Option<String>,
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
    pub at: String,
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
    pub object: ObjectDocument<'a>,
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
    pub reference: ReferenceDocument<'a>,
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
    pub object: ObjectDocument<'a>,
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
    pub object: ObjectDocument<'a>,
    /// Reason of the Event.
    pub reason: &'static str,
    /// Message of the Event.
    pub message: String,
}

/// Assumptions about everything outside of the control plane.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AssumptionsDocument<'a> {
    /// Pods end after their grace period.
    pub pods_end: bool,
    /// Finalizers that are removed from terminating objects.
    pub finalizers_released: Vec<&'a str>,
    /// Admission webhooks that cannot be reached.
    pub unreachable_webhooks: Vec<&'a str>,
    /// Storage plugins delete volumes.
    pub storage_is_deleted: bool,
    /// Cloud and CSI controllers remove their finalizers.
    pub external_controllers_run: bool,
    /// The cloud provider's responses for nodes.
    pub cloud: Vec<InstanceDocument<'a>>,
}

/// The cloud provider's response for a node.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceDocument<'a> {
    /// The node.
    pub node: &'a str,
    /// Whether its machine exists; null if there is no response.
    pub exists: Option<bool>,
    /// Whether it is shut down; null if there is no response.
    pub is_shutdown: Option<bool>,
}

/// The objects whose fates differ in two forecasts.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ComparisonDocument<'a> {
    /// Name and version of this form: [`COMPARISON_SCHEMA`].
    pub schema: &'static str,
    /// The differences.
    pub differences: Vec<DifferenceDocument<'a>>,
}

/// An object with two fates.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DifferenceDocument<'a> {
    /// The object.
    pub object: ObjectDocument<'a>,
    /// The fate in the first forecast; null if it is not affected.
    pub left: Option<FateDocument<'a>>,
    /// The fate in the second forecast; null if it is not affected.
    pub right: Option<FateDocument<'a>>,
}

/// Terminating objects and wrong owner references.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiagnosisDocument<'a> {
    /// Name and version of this form: [`DIAGNOSIS_SCHEMA`].
    pub schema: &'static str,
    /// The newest time in the dump.
    pub now: String,
    /// The terminating objects.
    pub terminating: Vec<TerminatingDocument<'a>>,
    /// The wrong owner references.
    pub references: Vec<WrongReferenceDocument<'a>>,
}

/// A terminating object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminatingDocument<'a> {
    /// The object.
    pub object: ObjectDocument<'a>,
    /// Its fate if nothing outside of the control plane changes.
    #[serde(flatten)]
    pub fate: FateDocument<'a>,
    /// The time at which its deletion was requested.
    pub since: Option<String>,
    /// The finalizers that no controller of Kubernetes removes.
    pub foreign_finalizers: Vec<ForeignFinalizerDocument<'a>>,
}

/// A finalizer that a component outside of Kubernetes removes.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForeignFinalizerDocument<'a> {
    /// The finalizer.
    pub name: &'a str,
    /// The component, if the finalizer is a well-known one.
    pub component: Option<String>,
    /// Workloads with a similar name.
    pub similar_workloads: Vec<ObjectDocument<'a>>,
    /// Whether the dump has all workloads.
    pub workloads_are_complete: bool,
    /// The way to remove it by hand.
    pub fix: FixDocument<'a>,
}

/// A command and its risk.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FixDocument<'a> {
    /// The command, for a POSIX shell.
    pub command: &'a str,
    /// Its risk.
    pub risk: &'a str,
}

/// An owner reference that does not mean a live object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WrongReferenceDocument<'a> {
    /// The object with the reference.
    pub object: ObjectDocument<'a>,
    /// Its fate.
    #[serde(flatten)]
    pub fate: FateDocument<'a>,
    /// The position of the reference.
    pub index: usize,
    /// The reference.
    pub reference: ReferenceDocument<'a>,
    /// Name of the problem.
    pub problem: &'static str,
    /// The problem as a sentence.
    pub message: String,
    /// Whether the dump proves the problem.
    pub is_certain: bool,
    /// A repair.
    pub fix: Option<FixDocument<'a>>,
}
