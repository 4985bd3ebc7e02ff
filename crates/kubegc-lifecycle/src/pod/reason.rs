//! Why a pod goes or stays.

use std::{fmt, sync::Arc};

use kubegc_core::{StoreError, Timestamp};

use super::Quarantine;

/// Why a pod goes or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Goes: too many pods are terminated, and this one is among the first in line.
    Terminated {
        /// How many are terminated.
        terminated: usize,
        /// How many may stay.
        threshold: i32,
    },
    /// Goes: it is terminating, and its node is out of service.
    OutOfService {
        /// The node.
        node: Arc<str>,
    },
    /// Goes: its node is gone.
    Orphaned {
        /// The node.
        node: Arc<str>,
    },
    /// Goes: it is terminating and has no node that would end it.
    Unscheduled,
    /// Stays: it has not ended, and nobody deletes it.
    Alive,
    /// Stays: terminated pods are not counted.
    NoThreshold,
    /// Stays: not too many pods are terminated.
    UnderThreshold {
        /// How many are terminated.
        terminated: usize,
        /// How many may stay.
        threshold: i32,
    },
    /// Stays: too many pods are terminated, but enough others go before this one.
    OthersGoFirst {
        /// How many are terminated.
        terminated: usize,
        /// How many may stay.
        threshold: i32,
    },
    /// Stays: whether it is among the first in line hangs on pods of which it is not known whether they are terminated, or how old they are.
    PlaceInLineUnknown {
        /// How many are known to be terminated.
        terminated: usize,
        /// How many pods are in question.
        unread: usize,
        /// How many may stay.
        threshold: i32,
    },
    /// Stays: it is terminating, and its node is ready and will end it.
    NodeReady {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: it is terminating on a node that is not ready, but nobody said that the node is out of service.
    NodeNotOutOfService {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: it is terminating, and this release does not ask whether its node is out of service.
    LeftToNode {
        /// The node.
        node: Arc<str>,
    },
    /// Stays, for now: its node is missing, but not for long enough.
    InQuarantine {
        /// The node.
        node: Arc<str>,
        /// When the node may be looked up.
        until: Timestamp,
    },
    /// Stays, for now: its node has to be looked up first, or again where that was done before the end of the quarantine.
    NodeNotLookedUp {
        /// The node.
        node: Arc<str>,
    },
    /// Stays, for now: a live read found its node.
    NodeFound {
        /// The node.
        node: Arc<str>,
    },
    /// Stays, for now: whether its node is gone could not be found out.
    NodeLookupFailed {
        /// The node.
        node: Arc<str>,
        /// The error.
        message: Arc<str>,
    },
    /// Stays: the state of its node is not known.
    NodeStateUnknown {
        /// The node.
        node: Arc<str>,
    },
    /// Stays: which node it is on is not known.
    NodeNameUnknown,
    /// Stays: its status is not known.
    StatusUnknown,
    /// Stays: it was listed twice, in two states or with two identities.
    ListedTwice,
    /// Stays: it has no uid that a deletion could expect.
    IdentityUnknown,
    /// Stays: nothing is known of the nodes, so the pass ended.
    NodesNotListed,
}

impl Reason {
    /// The value of the label `reason` that upstream's counters carry, where the pod goes.
    #[must_use]
    pub const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Terminated { .. } => Some("terminated"),
            Self::OutOfService { .. } => Some("out-of-service"),
            Self::Orphaned { .. } => Some("orphaned"),
            Self::Unscheduled => Some("unscheduled"),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminated {
                terminated,
                threshold,
            } => write!(
                f,
                "{terminated} pods are terminated, {threshold} may stay, and this one is among the first in line"
            ),
            Self::OutOfService { node } => write!(f, "terminating on node {node}, which is out of service"),
            Self::Orphaned { node } => write!(f, "its node {node} is gone"),
            Self::Unscheduled => f.write_str("terminating without a node"),
            Self::Alive => f.write_str("has not ended"),
            Self::NoThreshold => f.write_str("terminated, and any number of these may stay"),
            Self::UnderThreshold {
                terminated,
                threshold,
            } => write!(f, "{terminated} pods are terminated, {threshold} may stay"),
            Self::OthersGoFirst {
                terminated,
                threshold,
            } => write!(
                f,
                "{terminated} pods are terminated, {threshold} may stay, and others go first"
            ),
            Self::PlaceInLineUnknown {
                terminated,
                unread,
                threshold,
            } => write!(
                f,
                "{terminated} pods are terminated, {threshold} may stay, and which ones go hangs on {unread} that were not read in full"
            ),
            Self::NodeReady { node } => write!(f, "terminating on node {node}, which is ready"),
            Self::NodeNotOutOfService { node } => write!(
                f,
                "terminating on node {node}, which is not marked as out of service"
            ),
            Self::LeftToNode { node } => write!(f, "terminating, and left to node {node}"),
            Self::InQuarantine { node, until } => {
                write!(f, "node {node} is missing; in quarantine until {until}")
            }
            Self::NodeNotLookedUp { node } => {
                write!(f, "node {node} is missing and has to be looked up")
            }
            Self::NodeFound { node } => write!(f, "node {node} was found by a live read"),
            Self::NodeLookupFailed { node, message } => {
                write!(f, "node {node} could not be looked up: {message}")
            }
            Self::NodeStateUnknown { node } => {
                write!(f, "terminating on node {node}, whose state is not known")
            }
            Self::NodeNameUnknown => f.write_str("its node is not known"),
            Self::StatusUnknown => f.write_str("its status is not known"),
            Self::ListedTwice => f.write_str("listed twice, in two states"),
            Self::IdentityUnknown => f.write_str("its uid is not known"),
            Self::NodesNotListed => f.write_str("nodes were not listed"),
        }
    }
}

/// What a pass amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The quarantine to hand in next time.
    pub quarantine: Quarantine,
    /// The nodes to look up now, by name: pods are on them. They stay in quarantine until there is an answer.
    pub lookups: Vec<Arc<str>>,
    /// How many pods are known to be terminated.
    pub terminated: usize,
    /// Why the pass ended before it began: pods or nodes were not listed.
    pub error: Option<StoreError>,
}
