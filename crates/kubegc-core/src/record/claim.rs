//! Fields of resource claims.

use std::sync::Arc;

use super::Field;
use crate::Uid;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceClaim {
    /// `status.reservedFor`.
    pub reserved_for: Field<Vec<Consumer>>,
    /// Whether `status.allocation` is set.
    pub is_allocated: Field<bool>,
    /// `spec.allocationMode` of releases before 1.31: `WaitForFirstConsumer` or `Immediate`; empty if unset.
    pub allocation_mode: Field<Arc<str>>,
}

/// An entry of `status.reservedFor` of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Consumer {
    /// `apiGroup`; empty for the core group.
    pub api_group: Arc<str>,
    /// `resource`, such as `pods`.
    pub resource: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}
