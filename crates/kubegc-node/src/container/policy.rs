//! How many dead containers a node keeps, and for how long.

use crate::{GoDuration, Order, Semantics};

/// On whose behalf containers and sandboxes are collected.
#[expect(clippy::exhaustive_enums, reason = "upstream has these two callers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// The loop that runs every minute.
    #[default]
    Periodic,
    /// A node under pressure: containers of pods that ran to their end go too. Upstream: `evictNonDeletedPods`.
    Forced,
}

/// Limits on dead containers. `Default` is upstream's: one of each pod and container name.
#[expect(clippy::exhaustive_structs, reason = "settings that callers build")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Age since *creation* below which a dead container is spared, whatever else holds. Zero: none is spared. Too long, and the dead of deleted
    /// pods hold their disk space; too short, and logs are gone before they are read.
    pub age_min: GoDuration,
    /// Dead containers kept in each evict unit (pod and container name); `None`: any number. 1 is what `kubectl logs --previous` needs.
    pub per_unit_max: Option<u32>,
    /// Dead containers kept on the node; `None`: any number. Where it is lower than the number of units, some units lose their last one.
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

/// The limits ask for an age below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("invalid minimum garbage collection age: {age_min}")]
#[non_exhaustive]
pub struct InvalidAge {
    /// The age that was asked for.
    pub age_min: GoDuration,
}

/// Chooses dead containers to remove. See the [module](super).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    pub(super) limits: Limits,
    pub(super) semantics: Semantics,
    pub(super) occasion: Occasion,
    pub(super) order: Order,
}

impl Policy {
    /// A policy of the periodic loop.
    ///
    /// # Errors
    /// The minimum age is negative; the text is upstream's.
    pub const fn new(limits: Limits, semantics: Semantics) -> Result<Self, InvalidAge> {
        if limits.age_min.is_negative() {
            return Err(InvalidAge {
                age_min: limits.age_min,
            });
        }
        Ok(Self {
            limits,
            semantics,
            occasion: Occasion::Periodic,
            order: Order::Total,
        })
    }

    /// The same policy for another occasion.
    #[must_use]
    pub const fn on(mut self, occasion: Occasion) -> Self {
        self.occasion = occasion;
        self
    }

    /// The same policy with another order among equals.
    #[must_use]
    pub const fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }
}
