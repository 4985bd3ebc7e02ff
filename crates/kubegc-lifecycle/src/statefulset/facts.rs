//! Fixes what is known of stateful sets, their pods and their claims.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ObjectMeta, OwnerReference, StoreError};

use super::owners::{Owner, SET};

/// What a plan rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The stateful sets.
    pub sets: Vec<StatefulSet>,
    /// The pods, or why they are not known. Only those that a set controls count.
    pub pods: Result<Vec<ObjectMeta>, StoreError>,
    /// The claims, or why they are not known.
    pub claims: Result<Vec<ObjectMeta>, StoreError>,
    /// The claims whose read failed, by namespace and name, with the message. A claim that is neither here nor above does not exist.
    pub failed_claims: BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
}

/// A stateful set, as far as its claims depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatefulSet {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.replicas`; `None` where it was not read. The API server always sets it.
    pub replicas: Option<i32>,
    /// `spec.ordinals.start`, 0 where unset; `None` where it was not read.
    pub first_ordinal: Option<i32>,
    /// What becomes of claims when the set is deleted: `spec.persistentVolumeClaimRetentionPolicy.whenDeleted`; `Retain` where unset.
    pub when_deleted: Retention,
    /// What becomes of the claims of pods that are scaled away: `whenScaled` beside it; `Retain` where unset.
    pub when_scaled: Retention,
    /// The names in `spec.volumeClaimTemplates`, in stored order.
    pub templates: Vec<Arc<str>>,
}

impl StatefulSet {
    /// A set of so many replicas that retains its claims and has no template for any.
    #[must_use]
    pub fn new(namespace: &str, name: &str, uid: &str, replicas: i32) -> Self {
        Self {
            meta: ObjectMeta::new(namespace, name, uid),
            replicas: Some(replicas),
            first_ordinal: Some(0),
            when_deleted: Retention::Retain,
            when_scaled: Retention::Retain,
            templates: Vec::new(),
        }
    }

    /// The reference that makes the set the controller of a pod or claim.
    #[must_use]
    pub fn controller_reference(&self) -> OwnerReference {
        Owner::new(SET, &self.meta).reference(true)
    }

    /// Both halves of the policy. One that nobody knows makes both `Retain`.
    pub(super) const fn policy(&self) -> (&Retention, &Retention) {
        match (&self.when_scaled, &self.when_deleted) {
            (Retention::Other(_), _) | (_, Retention::Other(_)) => (&Retention::Retain, &Retention::Retain),
            known => known,
        }
    }

    /// Whether a half of the policy was not read, on which something depends.
    pub(super) fn has_unknown_policy(&self) -> bool {
        let (when_scaled, when_deleted) = self.policy();
        *when_scaled == Retention::Unknown || *when_deleted == Retention::Unknown
    }

    /// Whether there should be a pod of this ordinal; `None` where the number of replicas or the first ordinal is not known.
    pub(super) fn has_place_for(&self, ordinal: i32) -> Option<bool> {
        let first = i64::from(self.first_ordinal?);
        let end = first + i64::from(self.replicas?);
        Some((first..end).contains(&i64::from(ordinal)))
    }
}

/// What becomes of claims that are not needed any more.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Retention {
    /// Not read: nothing is decided on it.
    Unknown,
    /// They stay.
    Retain,
    /// They go.
    Delete,
    /// Any other text. The whole policy then counts as `Retain`.
    Other(Arc<str>),
}

impl From<&str> for Retention {
    fn from(text: &str) -> Self {
        match text {
            "Retain" => Self::Retain,
            "Delete" => Self::Delete,
            other => Self::Other(other.into()),
        }
    }
}
