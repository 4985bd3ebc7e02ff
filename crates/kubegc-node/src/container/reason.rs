//! Actions, reasons and findings of a container plan.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, node_facts::Container};

use crate::{GoDuration, Subject, pod::RemovableState};

/// An action of a container plan: remove a dead container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename = "remove", rename_all = "camelCase")
)]
pub struct Action {
    pub container: Arc<Container>,
    /// If its state is unknown: stop it first, with this grace period in seconds. If the stop fails, it is
    /// not removed.
    pub stop_first: Option<u32>,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: RemovalReason,
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        (&self.container).into()
    }
}

kubegc_core::reasons! {
    /// The reason why a dead container is removed.
    #[derive(Copy)]
    pub enum RemovalReason {
        /// All containers of its unit are removed because of the state of its pod.
        PodEnded(state: RemovableState) = "its pod is {state}";
        UnitLimit { per_unit_max: u32 } = "beyond {per_unit_max} of its pod and container name";
        /// The node exceeds its limit, and the unit its share: the limit divided by the number of units, at
        /// least one.
        EvenShare { share: u32, node_max: u32 } =
            "beyond {share} of its unit, the equal share of the node's limit of {node_max}";
        /// The node exceeds its limit with one container in each unit.
        NodeLimit { node_max: u32 } = "among the oldest beyond the node's limit of {node_max}";
    }

    /// The reason why a container is kept, or a finding.
    pub enum Reason {
        Running = "running";
        TooYoung { age: GoDuration, age_min: GoDuration } = "created {age} ago, less than {age_min}";
        /// A clock is wrong.
        CreatedInFuture { ahead: GoDuration } = "created {ahead} in the future";
        WithinLimits {
            /// The number of newer containers in its unit.
            newer: u32,
        } = "{}", match newer {
            0 => "the newest of its unit, within all limits".to_owned(),
            newer => format!("within all limits, {newer} newer in its unit"),
        };
        /// Only the limits apply.
        SourcesNotReady = "its pod may no longer exist, but not all pod sources are ready";
        /// Its unit is unknown.
        NoMetadata = "the runtime returned no metadata";
        /// It cannot be removed.
        NoId = "the runtime returned no id";
        /// It belongs to the unit with an empty uid ([N2.11](crate::rules#n2-11)).
        NoPod = "its labels have no pod uid";
        /// It counts once.
        Repeated = "listed more than once with equal contents";
        /// It is not removed.
        Contradiction = "listed more than once with different contents";
        Unlisted(error: Box<str>) = "the containers are unknown: {error}";
        /// The node's limit is lower than the sum of the units' limits.
        LimitsConflict { per_unit_max: Option<u32>, node_max: u32, units: u32, share: u32 } =
            "{units} units share the node's limit of {node_max} containers, {share} each, although {}",
            match per_unit_max {
                Some(max) => format!("the limit of each unit is {max}"),
                None => "units have no limit".to_owned(),
            };
        RemovesMoreThanNeeded { remaining: u32, node_max: u32 } =
            "with equal shares {remaining} containers are kept, although {node_max} are allowed";
    }
}

/// The summary of a container plan.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Summary {
    /// The number of dead containers that reached the minimum age.
    pub candidates: u32,
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
    pub const fn removed(&self) -> u32 {
        self.pod_ended + self.unit_limit + self.even_share + self.node_limit
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = self.object();
        if let Some(seconds) = self.stop_first {
            write!(f, "stop within {seconds}s and ")?;
        }
        write!(f, "remove {container}: {}", self.reason)
    }
}
