//! Why a lease goes, loses references or stays.

use std::{fmt, sync::Arc};

use kubegc_core::{StoreError, Uid};

/// A node that a lease names as its owner, and what was found of it.
#[expect(
    clippy::exhaustive_structs,
    reason = "two parts, and there will not be a third"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The node's name.
    pub node: Arc<str>,
    /// What was found.
    pub state: OwnerState,
}

/// What was found of an owner.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerState {
    /// It is there. It may be being deleted, as long as it does not wait for its dependents.
    Present,
    /// It is being deleted in the foreground: its dependents are to go first.
    Waiting,
    /// It does not exist.
    Absent,
    /// Its name belongs to another node.
    Replaced {
        /// The uid of that node.
        live: Uid,
    },
}

impl OwnerState {
    /// Whether the owner neither is there nor waits.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self, Self::Absent | Self::Replaced { .. })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        match &self.state {
            OwnerState::Present => write!(f, "node {node}, which is there"),
            OwnerState::Waiting => write!(f, "node {node}, which waits for its dependents to be deleted"),
            OwnerState::Absent => write!(f, "node {node}, which does not exist"),
            OwnerState::Replaced { live } => {
                write!(
                    f,
                    "node {node}, whose name now belongs to another one (uid {live})"
                )
            }
        }
    }
}

/// Why a lease goes, loses references or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Goes, loses references or stays, as these owners say: it goes where none is present, and loses the references to those that are not where some are.
    Owners {
        /// The owners, in stored order; never none.
        owners: Vec<Owner>,
    },
    /// Stays: it has no owners.
    NoOwners,
    /// Stays as it is: its deletion was asked for.
    BeingDeleted,
    /// Stays: it is not in the namespace of node leases.
    OtherNamespace,
    /// Stays, for now: the node has to be looked up first.
    NodeNotLookedUp {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: the node could not be looked up.
    NodeLookupFailed {
        /// The node.
        node: Arc<str>,
        /// The error.
        message: Arc<str>,
    },
    /// Stays: the node was listed twice, with two identities or in two states.
    NodeListedTwice {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: its reference to the node, or the node that was found, has no uid, so nobody can say whether the one means the other.
    OwnerIdentityUnknown {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: it has an owner that is no node, of which nothing is known here.
    OwnerIsNoNode {
        /// The owner.
        owner: String,
    },
    /// Stays: it was listed twice, in two states or with two identities.
    ListedTwice,
    /// Stays: it has no uid that a call could expect.
    IdentityUnknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owners { owners } => {
                let owners: Vec<String> = owners.iter().map(Owner::to_string).collect();
                write!(f, "owned by {}", owners.join("; "))
            }
            Self::NoOwners => f.write_str("has no owners"),
            Self::BeingDeleted => f.write_str("is being deleted"),
            Self::OtherNamespace => f.write_str("is no node lease"),
            Self::NodeNotLookedUp { node } => write!(f, "node {node} was not looked up"),
            Self::NodeLookupFailed { node, message } => {
                write!(f, "node {node} could not be looked up: {message}")
            }
            Self::NodeListedTwice { node } => write!(f, "node {node} was listed twice, and not alike"),
            Self::OwnerIdentityUnknown { node } => {
                write!(f, "its owner node {node} cannot be told by its uid")
            }
            Self::OwnerIsNoNode { owner } => write!(f, "its owner {owner} is no node"),
            Self::ListedTwice => f.write_str("listed twice, in two states"),
            Self::IdentityUnknown => f.write_str("its uid is not known"),
        }
    }
}

/// What a plan amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The nodes to look up, by name, each once.
    pub lookups: Vec<Arc<str>>,
    /// Why nothing was planned: the leases were not listed.
    pub error: Option<StoreError>,
}
