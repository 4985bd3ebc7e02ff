//! Fields of nodes, leases and namespaces.

use std::sync::Arc;

use super::{Condition, Field};
use crate::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `status.conditions`. Readers may omit all but those of type `Ready`.
    pub conditions: Field<Vec<Condition>>,
    /// `spec.taints`.
    pub taints: Field<Vec<Taint>>,
    /// `spec.providerID`; empty if unset.
    pub provider_id: Field<Arc<str>>,
    /// `status.volumesInUse`.
    pub volumes_in_use: Field<Vec<Arc<str>>>,
}

impl Node {
    /// Whether the first condition of type `Ready` is true; `None` if the conditions were not read.
    pub fn is_ready(&self) -> Option<bool> {
        let conditions = self.conditions.known()?;
        let ready = conditions
            .iter()
            .find(|condition| &*condition.condition_type == "Ready");
        Some(ready.is_some_and(Condition::is_true))
    }

    /// Whether the node has a taint with this key; `None` if the taints were not read.
    pub fn has_taint(&self, key: &str) -> Option<bool> {
        let taints = self.taints.known()?;
        Some(taints.iter().any(|taint| &*taint.key == key))
    }
}

/// An entry of `spec.taints` of a Node. Key and effect identify it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    pub key: Arc<str>,
    /// `effect`, such as `NoSchedule`.
    pub effect: Arc<str>,
    pub value: Arc<str>,
    /// `timeAdded`; `None` if unset.
    pub time_added: Option<Timestamp>,
}

impl Taint {
    /// A taint without a value.
    pub fn new(key: &str, effect: &str) -> Self {
        Self {
            key: key.into(),
            effect: effect.into(),
            ..Self::default()
        }
    }

    /// Whether both have the same key and effect.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// `spec.renewTime`; `None` if unset.
    pub renew_time: Field<Option<Timestamp>>,
    /// `spec.leaseDurationSeconds`; `None` if unset.
    pub lease_duration_seconds: Field<Option<i32>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// `status.phase`; empty if unset.
    pub phase: Field<Arc<str>>,
    /// `spec.finalizers`, in addition to those of the metadata.
    pub finalizers: Field<Vec<Arc<str>>>,
    /// `status.conditions`.
    pub conditions: Field<Vec<Condition>>,
}
