//! Causes that keep objects in deletion.

use std::sync::Arc;

use kubegc_control_plane::{Refusal, finalizers};
use kubegc_core::{ObjectRef, Timestamp};
use serde::Serialize;

use crate::{facts::BrokenExtension, words::some_of};

/// A cause that keeps objects in deletion, with the way to repair it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    /// One word for it, such as `NodeLost`.
    pub cause: &'static str,
    /// The sentence that describes it.
    pub message: String,
    /// The objects to repair or to delete. Empty if they are those that it blocks.
    pub objects: Vec<ObjectRef>,
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

/// What keeps objects in deletion. Objects with the same cause are found together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// An extension of the API server that cannot be reached, or a webhook that refuses.
    Extension(BrokenExtension),
    /// The API server refuses requests for another reason.
    Refused(Refusal),
    /// A controller, or a component outside of kube-controller-manager, does not act.
    Component(&'static str),
    /// The finalizer of an operator.
    Finalizer(Arc<str>),
    /// The kubelet of a node does not run.
    LostNode {
        node: Arc<str>,
        /// The node, if it exists.
        object: Option<ObjectRef>,
    },
    /// The kubelet of a node runs, and has not ended pods.
    PodNotEnded(Arc<str>),
    /// Objects that are deleted in the foreground wait for each other.
    ForegroundCycle(Vec<ObjectRef>),
    /// Pods that are not being deleted use a claim, or a volume is bound to a claim that is not.
    InUse {
        object: ObjectRef,
        users: Vec<ObjectRef>,
    },
    /// A bug of the job-controller leaves its finalizer on pods.
    JobTracking,
    /// A dependent has an owner of a kind that is not served.
    OwnerNotServed {
        object: ObjectRef,
        /// apiVersion and kind of the owner.
        kind: String,
    },
    /// A namespace or a CustomResourceDefinition has content that is not in the dump.
    UnseenContent {
        object: ObjectRef,
        /// The resources that are not complete in the dump, as kubectl accepts them.
        resources: Vec<String>,
    },
    /// Anything else, with the end of the sentence that the object is.
    Other { object: ObjectRef, wait: String },
}

/// The controllers that delete storage, which may fail without an end. Forecasts assume that they succeed.
pub(super) const STORAGE_DELETERS: [&str; 2] = ["external-provisioner", "persistentvolume-binder-controller"];

pub(super) const NAMED_MAX: usize = 3;

pub(super) fn names(objects: &[ObjectRef]) -> String {
    some_of(objects.iter().map(ObjectRef::short).collect(), NAMED_MAX).join(", ")
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
