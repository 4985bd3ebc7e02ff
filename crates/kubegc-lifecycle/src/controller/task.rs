//! What a controller wants done: the action, and what must still be so when it is.

use std::sync::Arc;

use kubegc_core::{ObjectMeta, Preconditions, ResourceVersion, StoreError, Uid};

use super::{Mechanism, Reason};
use crate::{
    history, namespace,
    object::{Act, Call, Object, Resource, Wire},
    volume::reclaim,
};

/// Names one task of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(super) u64);

/// Something to be done.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Task {
    /// Which one: its end is told with it.
    pub id: TaskId,
    /// Who wants it.
    pub mechanism: Mechanism,
    /// What it is.
    pub work: Work,
}

/// The work of a task.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug)]
pub enum Work {
    /// Calls that were decided on.
    Act(Planned),
    /// The jobs of one cron job, one after another; a failure of one does not stop the others.
    History(Box<history::Pass>),
    /// One look at one volume, which reads for itself right before it acts.
    Volume(Box<reclaim::Pass>),
    /// One visit to a deleted namespace, which reads for itself. Whoever visits makes the [`namespace::Pass`], as it takes what the API server serves.
    Namespace {
        /// Its settings.
        settings: namespace::Settings,
        /// The namespace.
        name: Arc<str>,
        /// How many visits in a row have failed before.
        failures: u32,
    },
}

/// An action, in the form that all mechanisms share.
#[expect(clippy::exhaustive_structs, reason = "executors take every field")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Planned {
    /// What is acted on.
    pub object: Object,
    /// What the action rests on.
    pub expect: Preconditions,
    /// Why.
    pub reason: Reason,
    /// The calls, in order, each only if the one before succeeded.
    pub calls: Vec<Call>,
    /// What was listed must still be so: an executor reads each of these first, and ends the task as [`Ended::Stale`] where one differs.
    ///
    /// As upstream has it, all else is as it was listed: the pods that mention tokens, and how many pods have ended.
    pub rests_on: Vec<Basis>,
}

impl Planned {
    /// An action of any mechanism.
    #[must_use]
    pub fn of(action: &impl Act, reason: Reason, wire: Wire, rests_on: Vec<Basis>) -> Self {
        Self {
            object: action.object().clone(),
            expect: action.expect().clone(),
            reason,
            calls: action.calls(wire),
            rests_on,
        }
    }
}

/// Something that was listed and that a decision rests on.
#[expect(clippy::exhaustive_enums, reason = "an executor must check each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The object is there in this very version.
    Same {
        /// The object.
        object: Object,
        /// Its version; empty where any will do.
        resource_version: ResourceVersion,
    },
    /// There is no object of this name.
    Absent {
        /// The resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped resources.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
    },
    /// No pod of the namespace mentions a claim but, maybe, those that are here in these versions. Any other is read right before.
    PodsAre {
        /// The namespace.
        namespace: Arc<str>,
        /// Name of the claim.
        claim: Arc<str>,
        /// Name, uid and version of each pod, by name. Claims of one namespace share them.
        pods: Arc<[(Arc<str>, Uid, ResourceVersion)]>,
    },
}

impl Basis {
    /// An object is there, in whatever version.
    #[must_use]
    pub fn there(resource: Resource, meta: &ObjectMeta) -> Self {
        Self::Same {
            object: Object::new(resource, meta),
            resource_version: ResourceVersion::default(),
        }
    }

    /// An object is as it was listed. Where its version was not read, only its uid can tell.
    #[must_use]
    pub fn same(resource: Resource, meta: &ObjectMeta) -> Self {
        Self::Same {
            object: Object::new(resource, meta),
            resource_version: meta.resource_version.clone(),
        }
    }
}

/// How a task ended.
#[expect(clippy::exhaustive_enums, reason = "executors only build these")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All of it is done; or what failed was told, and nothing but a change makes upstream try it again.
    Done,
    /// Something that it rests on has changed. It comes again once the change is known.
    Stale,
    /// It is to be looked at again after this time: a namespace that is not empty yet, a volume of which something could not be found out.
    Again(std::time::Duration),
    /// A call failed, and what came after it was not done.
    Failed(StoreError),
}
