//! Actions, reasons and findings of a container plan.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, node_facts::Container};

use crate::{GoDuration, pod::RemovableState};

/// An action of a container plan.
#[expect(
    clippy::exhaustive_enums,
    reason = "a new action must break executors at compile time"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove a dead container.
    Remove {
        /// The container.
        container: Arc<Container>,
        /// Stop it first, with this grace period in seconds, because its state is unknown. If that fails, it
        /// is not removed.
        stop_first: Option<u32>,
        /// The reason.
        reason: RemovalReason,
    },
}

impl Action {
    /// The container to remove.
    #[must_use]
    pub const fn container(&self) -> &Arc<Container> {
        match self {
            Self::Remove { container, .. } => container,
        }
    }

    /// The reason.
    #[must_use]
    pub const fn reason(&self) -> RemovalReason {
        match self {
            Self::Remove { reason, .. } => *reason,
        }
    }
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        Subject::Container(Arc::clone(self.container()))
    }

    fn is_deletion(&self) -> bool {
        true
    }
}

/// The reason why a dead container is removed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// The remains of its pod can be removed: the whole unit is removed.
    PodEnded(RemovableState),
    /// Its unit exceeds its limit.
    UnitLimit {
        /// The limit of each unit.
        per_unit_max: u32,
    },
    /// The node exceeds its limit, and the unit exceeds its share.
    EvenShare {
        /// The share of each unit: the node's limit divided by the number of units, at least one.
        share: u32,
        /// The limit of the node.
        node_max: u32,
    },
    /// The node exceeds its limit with one container in each unit, and this is among the oldest.
    NodeLimit {
        /// The limit of the node.
        node_max: u32,
    },
}

impl RemovalReason {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodEnded(_) => "PodEnded",
            Self::UnitLimit { .. } => "UnitLimit",
            Self::EvenShare { .. } => "EvenShare",
            Self::NodeLimit { .. } => "NodeLimit",
        }
    }
}

/// The subject of an entry in a container plan.
#[expect(clippy::exhaustive_enums, reason = "one container, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One container.
    Container(Arc<Container>),
    /// The node as a whole.
    Node,
}

/// The reason why a container is kept, or a finding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It runs.
    Running,
    /// It is younger than the minimum age.
    TooYoung {
        /// Its age since creation.
        age: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// It was created in the future: a clock is wrong.
    CreatedInFuture {
        /// Time until its creation.
        ahead: GoDuration,
    },
    /// It is dead and within all limits.
    WithinLimits {
        /// Number of newer ones in its unit.
        newer: u32,
    },
    /// The remains of its pod can be removed, but not all sources of pods are ready, so only the limits
    /// apply.
    SourcesNotReady,
    /// The runtime returned no metadata, so its unit is unknown.
    NoMetadata,
    /// The runtime returned no id, so it cannot be addressed.
    NoId,
    /// It names no pod. It belongs to the unit with an empty uid ([N2.11](crate::rules#n2-11)).
    NoPod,
    /// Its id is listed more than once, with equal contents; counted once.
    Repeated,
    /// Its id is listed more than once, with different contents; not touched.
    Contradiction,
    /// There is no listing of containers.
    Unlisted(Box<str>),
    /// The node's limit is lower than the sum of the units' limits, so units keep less than their limit.
    LimitsConflict {
        /// The limit of each unit, if there is one.
        per_unit_max: Option<u32>,
        /// The limit of the node.
        node_max: u32,
        /// Units with dead containers.
        units: u32,
        /// The share of each unit.
        share: u32,
    },
    /// Equal shares keep fewer containers than the node's limit allows.
    RemovesMoreThanNeeded {
        /// Number of kept containers.
        remaining: u32,
        /// The limit of the node.
        node_max: u32,
    },
}

impl Reason {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::TooYoung { .. } => "TooYoung",
            Self::CreatedInFuture { .. } => "CreatedInFuture",
            Self::WithinLimits { .. } => "WithinLimits",
            Self::SourcesNotReady => "SourcesNotReady",
            Self::NoMetadata => "NoMetadata",
            Self::NoId => "NoId",
            Self::NoPod => "NoPod",
            Self::Repeated => "Repeated",
            Self::Contradiction => "Contradiction",
            Self::Unlisted(_) => "Unlisted",
            Self::LimitsConflict { .. } => "LimitsConflict",
            Self::RemovesMoreThanNeeded { .. } => "RemovesMoreThanNeeded",
        }
    }
}

/// The summary of a container plan.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// Dead containers that reached the minimum age.
    pub candidates: u32,
    /// Evict units that they form.
    pub units: u32,
    /// Number removed with their pod.
    pub pod_ended: u32,
    /// Number removed by the limit of their unit.
    pub unit_limit: u32,
    /// Number removed by an equal share of the node's limit.
    pub even_share: u32,
    /// Number removed as the oldest of the node.
    pub node_limit: u32,
}

impl Summary {
    /// Number removed.
    #[must_use]
    pub const fn removed(&self) -> u32 {
        self.pod_ended + self.unit_limit + self.even_share + self.node_limit
    }
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodEnded(end) => write!(f, "its pod is {}", end.as_str()),
            Self::UnitLimit { per_unit_max } => {
                write!(f, "beyond {per_unit_max} of its pod and container name")
            }
            Self::EvenShare { share, node_max } => {
                write!(
                    f,
                    "beyond {share} in each unit, the share of {node_max} on the node"
                )
            }
            Self::NodeLimit { node_max } => {
                write!(f, "among the oldest beyond {node_max} on the node")
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("runs"),
            Self::TooYoung { age, age_min } => write!(f, "created {age} ago, less than {age_min}"),
            Self::CreatedInFuture { ahead } => write!(f, "created {ahead} in the future"),
            Self::WithinLimits { newer: 0 } => f.write_str("the newest of its unit, within all limits"),
            Self::WithinLimits { newer } => write!(f, "within all limits, {newer} newer in its unit"),
            Self::SourcesNotReady => {
                f.write_str("its pod no longer exists, but not all sources of pods are ready")
            }
            Self::NoMetadata => f.write_str("the runtime returned no metadata"),
            Self::NoId => f.write_str("the runtime returned no id"),
            Self::NoPod => f.write_str("no label names its pod"),
            Self::Repeated => f.write_str("listed more than once with equal contents"),
            Self::Contradiction => f.write_str("listed more than once with different contents"),
            Self::Unlisted(why) => write!(f, "the containers are unknown: {why}"),
            Self::LimitsConflict {
                per_unit_max,
                node_max,
                units,
                share,
            } => {
                write!(
                    f,
                    "{units} units share {node_max} places on the node, {share} each"
                )?;
                match per_unit_max {
                    Some(max) => write!(f, ", although its limit is {max}"),
                    None => f.write_str(", though a unit has no limit of its own"),
                }
            }
            Self::RemovesMoreThanNeeded { remaining, node_max } => {
                write!(
                    f,
                    "equal shares keep {remaining} of {node_max} allowed containers"
                )
            }
        }
    }
}
