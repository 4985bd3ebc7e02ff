//! Planner for dead containers, oldest first.
//!
//! A container is *dead* if it is not running. Dead containers that reached the minimum age form *evict
//! units*: one for each pod uid and container name ([N2.10](crate::rules#n2-10) to
//! [N2.12](crate::rules#n2-12)). These rules apply in this order:
//! 1. If the [state](crate::pod::RemovableState) of the pod allows it, all containers of the unit are
//!    removed.
//! 2. Each unit keeps its newest containers, up to the limit of each unit.
//! 3. If the node exceeds its limit, each unit keeps an equal share of it (integer division, at least one).
//! 4. If that is still too many, the oldest containers of the node are removed.
//!
//! # Guarantees
//! A running container is never removed. The age of a container is the time since its creation, not since its
//! exit. After a failed removal no other container is removed instead. A container in the state unknown is
//! stopped before it is removed.
//!
//! # Complexity
//! `n` containers: `O(n log n)` time for sorting each unit, `O(n)` memory.
//!
//! # Upstream
//! [`pkg/kubelet/kuberuntime/kuberuntime_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go),
//! `evictContainers`, equal from 1.20 to 1.36. Upstream processes units in random order; here they are
//! ordered by pod uid and container name. Upstream panics on a container without metadata; here it is kept
//! and reported.

mod listing;
mod plan;
mod reason;

pub use reason::{Action, Reason, RemovalReason, Summary};

pub use crate::Subject;
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

/// The limits for dead containers ([N1.16](crate::rules#n1-16) to [N1.19](crate::rules#n1-19)). `Default` is
/// upstream's: one for each pod and container name.
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

/// Planner for dead containers, by evict units: those of one pod and container name. See the [module](self).
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
