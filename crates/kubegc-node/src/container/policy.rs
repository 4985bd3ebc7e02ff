//! The limits for dead containers ([N1.16](crate::rules#n1-16) to [N1.19](crate::rules#n1-19)).

use crate::{GoDuration, Order, Semantics};

/// The mode of a run that removes containers and sandboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The container loop, which runs every minute ([N2.1](crate::rules#n2-1)).
    #[default]
    Periodic,
    /// A reclaim under node pressure ([N2.2](crate::rules#n2-2)): containers of terminated pods are removed
    /// too. Upstream: `evictNonDeletedPods`.
    Forced,
}

/// The limits for dead containers. `Default` is upstream's: one for each pod and container name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Time since *creation* for which a dead container is kept. Zero: not at all. Too long: containers of
    /// deleted pods use disk space. Too short: logs are removed before they are read.
    pub age_min: GoDuration,
    /// Dead containers kept in each evict unit (pod and container name); `None`: no limit.
    /// `kubectl logs --previous` needs 1.
    pub per_unit_max: Option<u32>,
    /// Dead containers kept on the node; `None`: no limit. If it is lower than the number of units, the
    /// last container of some units is removed.
    pub node_max: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            age_min: GoDuration::ZERO,
            per_unit_max: Some(1),
            node_max: None,
        }
    }
}

/// The minimum age is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("invalid minimum garbage collection age: {age_min}")]
#[non_exhaustive]
pub struct InvalidAge {
    pub age_min: GoDuration,
}

/// Planner for dead containers, by evict units: those of one pod and container name. See the [module](super).
///
/// `Default` has upstream's limits and the newest release. [`new`](Self::new) validates limits.
///
/// # Examples
/// ```
/// use kubegc_core::{Planner, Timestamp, node_facts::Container};
/// use kubegc_node::{Inventory, container::EvictUnits};
///
/// let exited = |id, seconds| Container::exited(id, ["shop", "web-0", "u1"], "app", Timestamp::from_secs(seconds));
/// let inventory = Inventory::new().with_containers([exited("c1", 1), exited("c2", 2)]);
/// assert_eq!(EvictUnits::default().plan(&inventory, Timestamp::from_secs(60)).to_string(), "\
/// actions (1):
///   remove container c1 (app of pod/web-0 -n shop): beyond 1 of its pod and container name
/// kept (1):
///   the newest of its unit, within all limits (1): container c2 (app of pod/web-0 -n shop)
/// ");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvictUnits {
    pub limits: Limits,
    /// The version and its feature gates.
    pub semantics: Semantics,
    pub mode: Mode,
    /// The order among entries with equal sort keys.
    pub order: Order,
}

impl EvictUnits {
    /// Creates a planner whose other fields have their defaults.
    ///
    /// # Errors
    /// The minimum age is negative. The text is upstream's.
    pub const fn new(limits: Limits, semantics: Semantics) -> Result<Self, InvalidAge> {
        if limits.age_min.is_negative() {
            return Err(InvalidAge {
                age_min: limits.age_min,
            });
        }
        Ok(Self {
            limits,
            semantics,
            mode: Mode::Periodic,
            order: Order::Total,
        })
    }
}
