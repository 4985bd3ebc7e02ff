//! What happened in a simulation, write by write, and why each write was made.

use std::{fmt, time::Duration};

use kubegc_controllers::Operation;
use kubegc_core::{ObjectRef, PropagationPolicy};
use kubegc_objects::reason::Reason;

/// Who made a write.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// Whoever has the intent.
    Client,
    /// The owner-reference collector.
    GarbageCollector,
    /// The controller that empties namespaces.
    NamespaceController,
    /// The controller that removes the objects of a CustomResourceDefinition.
    CustomResourceCleaner,
    /// The kubelet, once a pod has ended.
    Kubelet,
    /// Whoever holds a finalizer that is assumed to be released.
    FinalizerHolder,
    /// The controller of this name.
    Controller(&'static str),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "you",
            Self::GarbageCollector => "garbage collector",
            Self::NamespaceController => "namespace controller",
            Self::CustomResourceCleaner => "custom resource cleaner",
            Self::Kubelet => "kubelet",
            Self::FinalizerHolder => "finalizer's holder",
            Self::Controller(name) => name,
        })
    }
}

/// What a write asked for.
#[non_exhaustive]
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
    /// A write of something else, such as a namespace's phase or a finalizer.
    Update,
    /// No write: the plugin of a volume is asked for something.
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
            Self::Update => f.write_str("update"),
            Self::Storage(Operation::DeleteVolume) => f.write_str("delete the storage of"),
            Self::Storage(Operation::RecycleVolume) => f.write_str("empty"),
        }
    }
}

/// What became of one object through a write.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is gone.
    Gone,
    /// It is being deleted and still there.
    Terminating,
    /// It changed otherwise: it lost references or finalizers.
    Changed,
}

/// One object that a write changed.
#[expect(clippy::exhaustive_structs, reason = "two parts")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The object.
    pub object: ObjectRef,
    /// What became of it.
    pub outcome: Outcome,
}

/// Why a write was made.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It is the intent at this position.
    Intent(usize),
    /// The collector's reason.
    Collector(Reason),
    /// Its namespace is being deleted.
    NamespaceTerminating,
    /// The definition of its kind is being deleted.
    DefinitionTerminating,
    /// The pod's grace period is over.
    GraceOver,
    /// The finalizer is assumed to be released.
    FinalizerReleased(std::sync::Arc<str>),
    /// The reason of a controller.
    Controller(Box<kubegc_controllers::Reason>),
}

/// One write.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// When, since the beginning.
    pub at: Duration,
    /// Who.
    pub actor: Actor,
    /// What was asked for.
    pub act: Act,
    /// Of which object.
    pub object: ObjectRef,
    /// The HTTP status that answered it.
    pub code: u16,
    /// What it changed.
    pub changes: Vec<Change>,
    /// Why.
    pub why: Why,
}
