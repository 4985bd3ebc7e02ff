//! The writes of a simulation, each with its actor, response, effects and reason.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_controllers::Operation;
use kubegc_core::{ObjectRef, PropagationPolicy};
use kubegc_objects::reason::Reason;
use kubegc_sim::Response;

/// Who made a write.
#[expect(clippy::exhaustive_enums, reason = "readers of a trace handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// The client with the intent.
    Client,
    /// The garbage collector.
    GarbageCollector,
    /// A controller inside the API server, such as the one that deletes the objects of a CustomResourceDefinition.
    ApiServer,
    /// The kubelet of the pod's node.
    Kubelet,
    /// The owner of a finalizer, outside of kube-controller-manager.
    FinalizerOwner,
    /// The controller of this name.
    Controller(&'static str),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "you",
            Self::GarbageCollector => "garbage collector",
            Self::ApiServer => "API server",
            Self::Kubelet => "kubelet",
            Self::FinalizerOwner => "finalizer owner",
            Self::Controller(name) => name,
        })
    }
}

/// The verb of a write.
#[expect(clippy::exhaustive_enums, reason = "readers of a trace handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// A DELETE, with its policy where it had one.
    Delete {
        /// The policy.
        propagation: Option<PropagationPolicy>,
    },
    /// A DELETE of all objects of a resource in a namespace.
    DeleteCollection,
    /// A PATCH of metadata.
    Patch {
        /// Whether as a JSON merge patch.
        merge: bool,
    },
    /// A POST.
    Create,
    /// A write of something else, such as a namespace's phase or a finalizer.
    Update,
    /// An operation of a volume plugin, outside of the API server.
    Storage(Operation),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete {
                propagation: Some(policy),
            } => write!(f, "delete ({policy})"),
            Self::Delete { propagation: None } => f.write_str("delete"),
            Self::DeleteCollection => f.write_str("delete all"),
            Self::Patch { .. } => f.write_str("patch"),
            Self::Create => f.write_str("create"),
            Self::Update => f.write_str("update"),
            Self::Storage(Operation::DeleteVolume) => f.write_str("delete the storage of"),
            Self::Storage(Operation::RecycleVolume) => f.write_str("empty"),
        }
    }
}

/// The effect of a write on one object.
#[expect(clippy::exhaustive_enums, reason = "readers of a trace handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It no longer exists.
    Gone,
    /// It exists and has a deletion timestamp.
    Terminating,
    /// It changed otherwise.
    Changed,
    /// It was created.
    Created,
}

/// One object that a write changed.
#[expect(clippy::exhaustive_structs, reason = "two parts")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The object.
    pub object: ObjectRef,
    /// The effect.
    pub outcome: Outcome,
}

/// Why a write was made.
#[expect(clippy::exhaustive_enums, reason = "readers of a trace handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The intent at this position.
    Intent(usize),
    /// The reason of the garbage collector.
    Collector(Reason),
    /// The CustomResourceDefinition of its kind is terminating.
    DefinitionTerminating,
    /// The CustomResourceDefinitions of the group and version have changed.
    DefinitionsChanged,
    /// The pod's grace period has expired.
    GracePeriodExpired,
    /// The owner of this finalizer is assumed to remove it.
    FinalizerReleased(Arc<str>),
    /// The reason of a controller.
    Controller(Box<kubegc_controllers::Reason>),
}

/// One write.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The time since the beginning.
    pub at: Duration,
    /// The actor.
    pub actor: Actor,
    /// The verb.
    pub act: Act,
    /// The object of the request.
    pub object: ObjectRef,
    /// The HTTP status code of the response.
    pub code: u16,
    /// The message of a response with a 5xx code, such as the one that names an unreachable webhook.
    pub failure: Option<Arc<str>>,
    /// The objects that it changed.
    pub changes: Vec<Change>,
    /// The reason.
    pub why: Why,
}

/// The code of a response, and its message where the server failed.
pub(crate) type Code = (u16, Option<Arc<str>>);

/// The code and the message of a response.
pub(crate) fn code_of(response: &Response) -> Code {
    let status = response.status().filter(|status| status.code >= 500);
    (response.code, status.map(|status| status.message.as_str().into()))
}
