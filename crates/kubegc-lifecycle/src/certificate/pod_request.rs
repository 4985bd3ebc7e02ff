//! Deletes certificate requests of pods by their age alone.
//!
//! # Upstream
//! `pkg/controller/certificates/cleaner/pcrcleaner.go`. Deviations: what is being deleted already is not
//! deleted again, and a request without a uid stays.

use std::{fmt, time::Duration};

use kubegc_core::{
    Behavior, DeleteOptions, Kept, KubernetesVersion, ObjectMeta, PlanOf, Planner, Preconditions, StoreError,
    Timestamp,
};

use crate::object::{Act, Call, Failure, Object, Resource, Sent, Wire, by_identity, expected};

const POD_REQUESTS_ARE_CLEANED: Behavior = Behavior::since(34, 0, "PodCertificateRequest, alpha");

/// How long certificate requests of pods stay. Starts from upstream's defaults for a release.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether the controller runs. Default: since 1.34.
    ///
    /// Upstream: feature gate `PodCertificateRequest`, alpha. Off, there are no such requests either, so that nothing depends on
    /// whether it is set.
    pub enabled: bool,
    /// The age from which on a request is deleted, whatever came of it. Default: 30 min.
    ///
    /// Upstream: a parameter of the controller; the default is what a comment there says, and was not seen wired. Too low, a slow signer
    /// finds its request gone.
    pub age: Duration,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            enabled: version.has(POD_REQUESTS_ARE_CLEANED),
            age: Duration::from_secs(30 * 60),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}

/// What a plan rests on.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The metadata of the requests as they were listed. Nothing else of them is read.
    pub requests: Vec<ObjectMeta>,
}

/// What is done to a request.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the request.
    Delete {
        /// The request.
        object: Object,
        /// The request as it was listed. Upstream expects the uid alone.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// What upstream makes of a failed deletion: what is gone is done, all else is told and left to the next look.
    #[must_use]
    pub const fn failure(error: &StoreError) -> Failure {
        match error {
            StoreError::NotFound => Failure::Ignored,
            _ => Failure::Told,
        }
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        let Self::Delete { object, .. } = self;
        object
    }

    fn expect(&self) -> &Preconditions {
        let Self::Delete { expect, .. } = self;
        expect
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        let Self::Delete { object, expect, .. } = self;
        let options = DeleteOptions::default();
        vec![Call::delete(object, expect, wire, Sent::Uid, options)]
    }
}

/// Why a request is deleted or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It is old enough.
    Due {
        /// Since when.
        since: Timestamp,
    },
    /// It will be old enough.
    NotDue {
        /// From when on.
        from: Timestamp,
    },
    /// It will be old enough beyond what a [`Timestamp`] can tell.
    NeverDue,
    /// The controller does not run.
    Disabled,
    /// Its deletion was asked for already.
    Deleting,
    /// Two listed requests have this identity and are not alike.
    ListedTwice,
    /// Its creation time is not known.
    AgeNotKnown,
    /// Its uid is not known: nothing could tell it from another of its name.
    UidNotKnown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due { since } => write!(f, "its time was over at {since}"),
            Self::NotDue { from } => write!(f, "stays until {from}"),
            Self::NeverDue => f.write_str("stays for centuries"),
            Self::Disabled => f.write_str("certificate requests of pods are not deleted"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::AgeNotKnown => f.write_str("its creation time is not known"),
            Self::UidNotKnown => f.write_str("its uid is not known"),
        }
    }
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = ();

    /// Plans one look, in the order of namespaces and names. `next_at` is when the next request is old enough, not when upstream looks.
    ///
    /// # Complexity
    /// O(n log n) in the number of requests.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        for (object, meta) in by_identity(Resource::PodCertificateRequests, &facts.requests, |meta| meta) {
            let reason = meta.map_or(Reason::ListedTwice, |meta| self.fate(meta, now));
            match (meta, &reason) {
                (Some(meta), Reason::Due { .. }) => plan.actions.push(Action::Delete {
                    object,
                    expect: expected(meta),
                    reason,
                }),
                (_, kept) => {
                    if let Reason::NotDue { from } = *kept {
                        plan.next_at = plan.next_at.into_iter().chain([from]).min();
                    }
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        plan
    }
}

impl Settings {
    fn fate(&self, meta: &ObjectMeta, now: Timestamp) -> Reason {
        if !self.enabled {
            return Reason::Disabled;
        }
        if meta.is_deleting() {
            return Reason::Deleting;
        }
        if meta.uid.is_empty() {
            return Reason::UidNotKnown;
        }
        let Some(created) = meta.creation_timestamp else {
            return Reason::AgeNotKnown;
        };
        match created.checked_add(self.age) {
            None => Reason::NeverDue,
            Some(since) if since <= now => Reason::Due { since },
            Some(from) => Reason::NotDue { from },
        }
    }
}
