//! Causes that keep objects in deletion.

use std::sync::Arc;

use kubegc_control_plane::{Refusal, RefusedBy, finalizers};
use kubegc_core::{ObjectRef, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::{BrokenExtension, Extension, words::some_of};

/// A cause that keeps objects in deletion, with the way to repair it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    #[serde(flatten)]
    pub cause: Cause,
    /// The proof of the cause. Causes are ordered by it, best proof first.
    pub proof: Proof,
    /// Since when, if the dump shows it.
    pub since: Option<Timestamp>,
    /// Whether everything that it blocks has been terminating for so short a time that nothing may be wrong.
    pub is_recent: bool,
    /// Who should act.
    pub actor: String,
    /// Conditions, messages and times that show it.
    pub evidence: Vec<String>,
    /// What it blocks, each object after one that it waits for. Empty for a broken extension that nothing
    /// waits for.
    pub blocks: Vec<Blocked>,
    /// The ways to repair it, the best one first.
    pub fixes: Vec<Fix>,
    /// What not to do, and why.
    pub warnings: Vec<String>,
}

/// A command that repairs something, and its risk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// The command for a POSIX shell.
    pub command: String,
    pub risk: String,
}

/// The proof of a cause, from the best to the weakest.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// Objects of the dump, their conditions and Events.
    Seen,
    /// A request of the forecast, which the API server refuses.
    Refused,
    /// An object that has waited for long.
    Overdue,
    /// An assumption.
    Assumed,
    /// Nothing: the dump lacks the data.
    Missing,
}

/// An object that a cause keeps in deletion.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    pub object: ObjectRef,
    /// The time at which its deletion was requested; `None` if it is not terminating yet.
    pub since: Option<Timestamp>,
    /// The number of objects between it and the cause.
    pub depth: usize,
    /// Whether it is not terminating because the API server refuses its deletion.
    pub is_refused: bool,
    /// The request that the API server refuses while nothing deletes the object: `creation of pods`.
    pub refused_request: Option<String>,
    #[serde(skip)]
    pub(crate) position: u32,
}

/// What keeps objects in deletion.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Cause {
    /// An extension of the API server that cannot be reached, or a webhook that refuses.
    #[display("{}", extension(_0))]
    Extension(BrokenExtension),
    /// The API server refuses requests for another reason.
    #[display("the API server refuses requests: {_0}")]
    Refused(Refusal),
    /// A controller, or a component outside of kube-controller-manager, does not act.
    #[display("{name} does not {}", if is_external(name) { "remove its finalizers" } else { "act" })]
    Component { name: &'static str },
    /// The finalizer of an operator.
    #[display(
        "finalizer {name} of {}, which does not remove it",
        finalizers::find(name).map_or("an operator".to_owned(), |known| known.owner.to_string())
    )]
    Finalizer { name: Arc<str> },
    /// The kubelet of a node does not run.
    #[display("the kubelet of node {node} does not run")]
    LostNode {
        node: Arc<str>,
        /// The node, if it exists.
        object: Option<ObjectRef>,
    },
    /// A kubelet that runs has not ended pods.
    #[display("the kubelet of node {node}, which runs, has not ended pods after their grace period")]
    PodNotEnded { node: Arc<str> },
    /// Objects that are deleted in the foreground wait for each other.
    #[display(
        "a cycle of {} in foreground deletion, each of which waits for another one: {}",
        members.len(),
        names(members)
    )]
    ForegroundCycle { members: Vec<ObjectRef> },
    /// Pods that are not being deleted use a claim.
    #[display(
        "{} cannot be removed: {} {} it",
        claim.short(),
        names(pods),
        if pods.len() == 1 { "uses" } else { "use" }
    )]
    ClaimInUse { claim: ObjectRef, pods: Vec<ObjectRef> },
    /// A volume is bound to a claim that is not being deleted.
    #[display("{} cannot be removed: it is bound to {}", volume.short(), claim.short())]
    VolumeBound { volume: ObjectRef, claim: ObjectRef },
    /// A bug of the job-controller leaves its finalizer on pods.
    #[display(
        "the job-controller of 1.23.0 to 1.23.5 may leave finalizer batch.kubernetes.io/job-tracking on pods \
         whose Job no longer exists"
    )]
    JobTracking,
    /// A dependent has an owner of a kind that is not served.
    #[display(
        "{} names an owner of {kind}, which is not served: the garbage collector never decides about it",
        object.short()
    )]
    OwnerNotServed {
        /// The dependent.
        object: ObjectRef,
        /// apiVersion and kind of that owner.
        kind: String,
    },
    /// A namespace or a CustomResourceDefinition has content that is not in the dump.
    #[display("{} may have content that is not in the dump", object.short())]
    UnseenContent {
        /// The namespace or definition.
        object: ObjectRef,
        /// The resources that are not complete in the dump, as kubectl accepts them.
        resources: Vec<String>,
    },
    /// Anything else.
    #[display("{} is {wait}", object.short())]
    Other {
        /// The object that waits.
        object: ObjectRef,
        /// The end of the sentence that the object is.
        wait: String,
    },
}

impl Cause {
    /// One word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Extension(BrokenExtension { extension, .. }) => match extension {
                Extension::Api { .. } => "ApiUnavailable",
                Extension::Webhook { .. } => "WebhookRefuses",
                Extension::Conversion => "ConversionFails",
            },
            Self::Refused(refusal) => match refusal.by {
                Some(RefusedBy::Quota(_)) => "QuotaExceeded",
                Some(RefusedBy::Conflict) => "WriteConflict",
                _ => "RequestRefused",
            },
            Self::Component { .. } => "ComponentDoesNotAct",
            Self::Finalizer { .. } => "OperatorFinalizer",
            Self::LostNode { .. } => "NodeLost",
            Self::PodNotEnded { .. } => "PodNotEnded",
            Self::ForegroundCycle { .. } => "ForegroundCycle",
            Self::ClaimInUse { .. } => "ClaimInUse",
            Self::VolumeBound { .. } => "VolumeBound",
            Self::JobTracking => "JobTrackingLeak",
            Self::OwnerNotServed { .. } => "OwnerNotServed",
            Self::UnseenContent { .. } => "ContentNotInDump",
            Self::Other { .. } => "Other",
        }
    }

    /// The objects to repair or to delete. Empty if they are those that it blocks.
    pub fn objects(&self) -> Vec<&ObjectRef> {
        match self {
            Self::Extension(broken) => vec![&broken.object],
            Self::LostNode { object, .. } => object.iter().collect(),
            Self::ForegroundCycle { members } => members.iter().collect(),
            Self::ClaimInUse { pods, .. } => pods.iter().collect(),
            Self::VolumeBound { claim, .. } => vec![claim],
            Self::OwnerNotServed { object, .. }
            | Self::UnseenContent { object, .. }
            | Self::Other { object, .. } => vec![object],
            _ => Vec::new(),
        }
    }
}

/// The controllers that delete storage, which may fail without an end. Forecasts assume that they succeed.
pub(super) const STORAGE_DELETERS: [&str; 2] = ["external-provisioner", "persistentvolume-binder-controller"];

pub(super) const NAMED_MAX: usize = 3;

pub(super) fn names(objects: &[ObjectRef]) -> String {
    some_of(objects.iter().map(ObjectRef::short).collect(), NAMED_MAX).join(", ")
}

fn extension(broken: &BrokenExtension) -> String {
    let (object, failure) = (broken.object.short(), &broken.failure);
    match &broken.extension {
        Extension::Api { api_version, .. } => format!(
            "{object} is not available ({failure}): the discovery of {api_version} fails, and no namespace can \
             be removed"
        ),
        Extension::Webhook { name, requests, .. } => {
            let requests = requests.join(", ");
            format!("webhook {name} of {object} refuses {requests}: {failure}")
        }
        Extension::Conversion => format!(
            "the conversion webhook of {object} cannot be reached ({failure}): objects that are not stored in the \
             requested version cannot be read"
        ),
    }
}

pub(super) fn is_external(component: &str) -> bool {
    finalizers::external_components().any(|external| external == component)
}

impl Blocked {
    pub(super) fn is_namespace(&self) -> bool {
        *self.object.kind == *"Namespace"
    }

    /// Whether it is being deleted, or would be if the API server allowed it.
    pub(crate) const fn is_in_deletion(&self) -> bool {
        self.since.is_some() || self.is_refused
    }
}

impl RootCause {
    /// Whether it keeps nothing in deletion, and the API server refuses other requests.
    pub(crate) fn only_refuses(&self) -> bool {
        let mut blocks = self.blocks.iter();
        !self.blocks.is_empty() && blocks.all(|one| one.refused_request.is_some() && !one.is_in_deletion())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (word, message, objects) = (self.word(), self.to_string(), self.objects());
        json!({ "cause": word, "message": message, "objects": objects }).serialize(serializer)
    }
}
