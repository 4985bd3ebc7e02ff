//! Actions, reasons and findings of a container plan.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, node_facts::Container};

use crate::{GoDuration, pod::RemovableState};

/// An action of a container plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Action {
    /// Remove a dead container.
    Remove {
        container: Arc<Container>,
        /// If its state is unknown: stop it first, with this grace period in seconds. If the stop fails, it
        /// is not removed.
        stop_first: Option<u32>,
        #[cfg_attr(feature = "serde", serde(flatten))]
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
    /// All containers of its unit are removed because of the state of its pod.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Subject {
    Container(Arc<Container>),
    /// The node as a whole.
    Node,
}

/// The reason why a container is kept, or a finding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Running,
    /// It is younger than the minimum age.
    TooYoung {
        /// Its age since creation.
        age: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// Its creation time is in the future: a clock is wrong.
    CreatedInFuture {
        /// Time until its creation.
        ahead: GoDuration,
    },
    /// It is dead and within all limits.
    WithinLimits {
        /// The number of newer containers in its unit.
        newer: u32,
    },
    /// The state of its pod allows its removal, but not all pod sources are ready. So only the limits apply.
    SourcesNotReady,
    /// The runtime returned no metadata, so its unit is unknown.
    NoMetadata,
    /// The runtime returned no id, so it cannot be removed.
    NoId,
    /// Its labels have no pod uid. It belongs to the unit with an empty uid ([N2.11](crate::rules#n2-11)).
    NoPod,
    /// Its id is listed more than once, with equal contents. It counts once.
    Repeated,
    /// Its id is listed more than once, with different contents. It is not removed.
    Contradiction,
    /// The listing of containers is missing.
    Unlisted(Box<str>),
    /// The node's limit is lower than the sum of the units' limits, so units keep less than their limit.
    LimitsConflict {
        /// The limit of each unit, if there is one.
        per_unit_max: Option<u32>,
        /// The limit of the node.
        node_max: u32,
        /// The number of units with dead containers.
        units: u32,
        /// The share of each unit.
        share: u32,
    },
    /// With equal shares fewer containers are kept than the node's limit allows.
    RemovesMoreThanNeeded {
        /// The number of kept containers.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Summary {
    /// The number of dead containers that reached the minimum age.
    pub candidates: u32,
    /// The number of their evict units.
    pub units: u32,
    /// The number of containers removed because of the state of their pod.
    pub pod_ended: u32,
    /// The number of containers removed by the limit of each unit.
    pub unit_limit: u32,
    /// The number of containers removed by equal shares of the node's limit.
    pub even_share: u32,
    /// The number of containers removed as the oldest of the node.
    pub node_limit: u32,
}

impl Summary {
    /// The number of removed containers.
    #[must_use]
    pub const fn removed(&self) -> u32 {
        self.pod_ended + self.unit_limit + self.even_share + self.node_limit
    }
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodEnded(state) => write!(f, "its pod is {}", state.as_str()),
            Self::UnitLimit { per_unit_max } => {
                write!(f, "beyond {per_unit_max} of its pod and container name")
            }
            Self::EvenShare { share, node_max } => {
                write!(
                    f,
                    "beyond {share} of its unit, the equal share of the node's limit of {node_max}"
                )
            }
            Self::NodeLimit { node_max } => {
                write!(f, "among the oldest beyond the node's limit of {node_max}")
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::TooYoung { age, age_min } => write!(f, "created {age} ago, less than {age_min}"),
            Self::CreatedInFuture { ahead } => write!(f, "created {ahead} in the future"),
            Self::WithinLimits { newer: 0 } => f.write_str("the newest of its unit, within all limits"),
            Self::WithinLimits { newer } => write!(f, "within all limits, {newer} newer in its unit"),
            Self::SourcesNotReady => {
                f.write_str("its pod may no longer exist, but not all pod sources are ready")
            }
            Self::NoMetadata => f.write_str("the runtime returned no metadata"),
            Self::NoId => f.write_str("the runtime returned no id"),
            Self::NoPod => f.write_str("its labels have no pod uid"),
            Self::Repeated => f.write_str("listed more than once with equal contents"),
            Self::Contradiction => f.write_str("listed more than once with different contents"),
            Self::Unlisted(error) => write!(f, "the containers are unknown: {error}"),
            Self::LimitsConflict {
                per_unit_max,
                node_max,
                units,
                share,
            } => {
                write!(
                    f,
                    "{units} units share the node's limit of {node_max} containers, {share} each"
                )?;
                match per_unit_max {
                    Some(max) => write!(f, ", although the limit of each unit is {max}"),
                    None => f.write_str(", although units have no limit"),
                }
            }
            Self::RemovesMoreThanNeeded { remaining, node_max } => {
                write!(
                    f,
                    "with equal shares {remaining} containers are kept, although {node_max} are allowed"
                )
            }
        }
    }
}

serialize_reason!(RemovalReason, Reason);

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Remove {
            container,
            stop_first,
            reason,
        } = self;
        let container = Subject::Container(Arc::clone(container));
        match stop_first {
            Some(seconds) => write!(f, "stop within {seconds}s and remove {container}: {reason}"),
            None => write!(f, "remove {container}: {reason}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(container) => {
                let name = container.name.as_deref().unwrap_or("unnamed");
                write!(f, "container {} ({name} of {})", container.id, container.pod)
            }
            Self::Node => f.write_str("node"),
        }
    }
}
