//! The words of a container plan: what is done, to which container, and why.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, node_facts::Container};

use crate::{GoDuration, pod::PodGone};

/// What an executor does for a container plan.
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
        /// Stop it first, with this grace in seconds: the runtime does not know whether it runs. Where that fails, it is not removed.
        stop_first: Option<u32>,
        /// Why.
        reason: RemovedBecause,
    },
}

impl Action {
    /// The container that goes.
    #[must_use]
    pub const fn container(&self) -> &Arc<Container> {
        match self {
            Self::Remove { container, .. } => container,
        }
    }

    /// Why it goes.
    #[must_use]
    pub const fn reason(&self) -> RemovedBecause {
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

/// Why a dead container goes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedBecause {
    /// Its pod is gone: all of the unit goes.
    PodGone(PodGone),
    /// Its unit keeps no more than this.
    UnitLimit {
        /// The limit of each unit.
        per_unit_max: u32,
    },
    /// The node keeps too many, and this is what each unit may keep of them.
    EvenShare {
        /// What each unit keeps: the node's limit divided by the units, at least one.
        share: u32,
        /// The limit of the node.
        node_max: u32,
    },
    /// The node keeps too many even with one in each unit, and this is among the oldest.
    NodeLimit {
        /// The limit of the node.
        node_max: u32,
    },
}

impl RemovedBecause {
    /// The reason's name, as an Event would have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodGone(_) => "PodGone",
            Self::UnitLimit { .. } => "UnitLimit",
            Self::EvenShare { .. } => "EvenShare",
            Self::NodeLimit { .. } => "NodeLimit",
        }
    }
}

/// What a container plan speaks of.
#[expect(clippy::exhaustive_enums, reason = "one container, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One container.
    Container(Arc<Container>),
    /// The node as a whole.
    Node,
}

/// Why a container stays, or what is odd about the facts.
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
    /// It was created in the future: some clock is wrong.
    CreatedInFuture {
        /// How far ahead.
        ahead: GoDuration,
    },
    /// It is dead and within all limits.
    WithinLimits {
        /// How many newer ones its unit keeps.
        newer: u32,
    },
    /// Its pod is gone, but not all sources of pods have spoken, so only the limits count.
    SourcesNotReady,
    /// The runtime gave no metadata, so its unit is not known.
    NoMetadata,
    /// The runtime gave no id, so nothing can be asked of it.
    NoId,
    /// It names no pod. It belongs to the unit of all that do not.
    NoPod,
    /// Its id stands in the listing more than once, with equal contents; counted once.
    Repeated,
    /// Its id stands in the listing more than once, with different contents; not touched.
    Contradiction,
    /// There is no listing of containers.
    Unlisted(Box<str>),
    /// The node's limit is lower than what the units' limit lets stay, so units keep less than their limit.
    LimitsConflict {
        /// The limit of each unit, where there is one.
        per_unit_max: Option<u32>,
        /// The limit of the node.
        node_max: u32,
        /// Units with dead containers.
        units: u32,
        /// What each unit keeps.
        share: u32,
    },
    /// Equal shares leave fewer than the node's limit allows.
    MoreThanAsked {
        /// What stays.
        remaining: u32,
        /// The limit of the node.
        node_max: u32,
    },
}

impl Reason {
    /// The reason's name, as an Event would have it.
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
            Self::MoreThanAsked { .. } => "MoreThanAsked",
        }
    }
}

/// What a container plan amounts to.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// Dead containers old enough to go.
    pub candidates: u32,
    /// Evict units that they form.
    pub units: u32,
    /// How many go because their pod is gone.
    pub pod_gone: u32,
    /// How many go by the limit of their unit.
    pub unit_limit: u32,
    /// How many go by an equal share of the node's limit.
    pub even_share: u32,
    /// How many go as the oldest of the node.
    pub node_limit: u32,
}

impl Summary {
    /// How many go.
    #[must_use]
    pub const fn removed(&self) -> u32 {
        self.pod_gone + self.unit_limit + self.even_share + self.node_limit
    }
}

impl fmt::Display for RemovedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGone(gone) => write!(f, "its pod is {}", gone.as_str()),
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
            Self::SourcesNotReady => f.write_str("its pod is gone, but not all sources of pods are ready"),
            Self::NoMetadata => f.write_str("the runtime gave no metadata"),
            Self::NoId => f.write_str("the runtime gave no id"),
            Self::NoPod => f.write_str("no label names its pod"),
            Self::Repeated => f.write_str("listed more than once, alike"),
            Self::Contradiction => f.write_str("listed more than once, differently"),
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
                    Some(max) => write!(f, ", though each may keep {max}"),
                    None => f.write_str(", though a unit has no limit of its own"),
                }
            }
            Self::MoreThanAsked { remaining, node_max } => {
                write!(f, "equal shares leave {remaining} where {node_max} may stay")
            }
        }
    }
}
