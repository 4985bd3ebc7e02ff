//! Decides which volumes an external provisioner deletes.
//!
//! The controller within Kubernetes leaves these volumes to their provisioner once they are released. This is the decision of the library that
//! most provisioners are built on.
//!
//! # Upstream
//! `sig-storage-lib-external-provisioner`, the controller's `shouldDelete` and `deleteVolumeOperation`. The provisioner's own guard comes
//! in as a fact. Deviations, to the safe side: a volume is read right before, judged anew, and left alone if its claim has changed; upstream goes by
//! what it listed. What has no uid or version is left alone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{DeleteOptions, Kept, PlanOf, Planner, Preconditions, StoreError, Timestamp};

use super::{FINALIZER_EXTERNAL, Phase, Policy, Volume};
use crate::object::{
    Act, Call, Change, Form, Live, Object, Operation, Reads, Resource, Sent, Wire, by_identity, expected,
};

/// Who the provisioner is, and whether it keeps its volumes by a finalizer.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The provisioner's name, as in the annotation of its volumes.
    pub provisioner: Arc<str>,
    /// Whether it puts a finalizer on its volumes. Default: yes.
    ///
    /// Off, volumes that are being deleted before their claims leak what is behind them.
    pub has_finalizer: bool,
}

impl Settings {
    /// A provisioner that keeps its volumes by a finalizer.
    #[must_use]
    pub fn new(provisioner: &str) -> Self {
        Self {
            provisioner: provisioner.into(),
            has_finalizer: true,
        }
    }
}

/// What a plan rests on.
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// What the provisioner's own guard says of each volume, by name. Where it says nothing, the volume stays.
    pub guards: BTreeMap<Arc<str>, Guard>,
    /// The volumes as they were read right before. Nothing is deleted without that.
    pub read_volumes: Reads<Volume>,
}

/// What a provisioner's own guard says.
#[expect(clippy::exhaustive_enums, reason = "a guard says yes or no, or was not asked")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guard {
    /// Nobody asked it.
    #[default]
    Unknown,
    /// The provisioner has none, or it lets the volume go.
    Allows,
    /// The volume must stay.
    Forbids,
}

/// Has the provisioner delete what is behind a volume, then takes its finalizer away, then deletes the volume.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// All of that.
    Delete {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// Whether the finalizer is there to be taken away.
        has_finalizer: bool,
    },
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

    /// The volume's version changes with its finalizer, so that its deletion expects no more than the uid then.
    fn calls(&self, wire: Wire) -> Vec<Call> {
        let Self::Delete {
            object,
            expect,
            has_finalizer,
            ..
        } = self;
        let mut calls = vec![Call::Outside {
            object: object.clone(),
            expect: expect.clone(),
            operation: Operation::DeleteVolume,
        }];
        let mut left = expect.clone();
        if *has_finalizer {
            left.resource_version = None;
            calls.push(Call::Change {
                object: object.clone(),
                subresource: "",
                form: Form::Replace,
                expect: expect.clone(),
                changes: vec![Change::RemoveFinalizer(FINALIZER_EXTERNAL)],
            });
        }
        let options = DeleteOptions::default();
        calls.push(Call::delete(object, &left, wire, Sent::Nothing, options));
        calls
    }
}

/// Why a volume is deleted, or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Done: it is released, and its policy is to delete it.
    Released,
    /// Kept: another provisioner made it, or none.
    NotOurs,
    /// Kept: its phase is not `Released`.
    PhaseIs {
        /// The phase.
        phase: Phase,
    },
    /// Kept: its policy is not to delete it.
    PolicyIs {
        /// The policy.
        policy: Policy,
    },
    /// Kept: it is being deleted, and what was behind it has been seen to already, or is not ours to see to any more.
    BeingDeleted,
    /// Kept: the provisioner's own guard says so.
    Guarded,
    /// Kept: the provisioner's own guard was not asked.
    GuardUnknown,
    /// Kept: it is listed twice, and not alike.
    ListedTwice,
    /// Kept, for now: its annotations, and with them its provisioner, were not read.
    AnnotationsUnknown,
    /// Kept, for now: its uid or version was not read, so that a write might hit another object.
    IdentityUnknown,
    /// Kept, for now: it must be read right before.
    VolumeNotRead,
    /// Kept, for now: it was read again right before and is another volume, or belongs to another claim.
    Changed,
    /// Kept, for now: the read right before failed.
    ReadFailed {
        /// The error.
        message: Arc<str>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("released, and its policy is to delete it"),
            Self::NotOurs => f.write_str("another provisioner made it, or none"),
            Self::PhaseIs {
                phase: Phase::Unknown,
            } => f.write_str("its phase is not known"),
            Self::PhaseIs { phase } => write!(f, "its phase is {:?}", phase.as_str()),
            Self::PolicyIs {
                policy: Policy::Unknown,
            } => f.write_str("its reclaim policy is not known"),
            Self::PolicyIs { policy } => write!(f, "its reclaim policy is {policy:?}"),
            Self::BeingDeleted => f.write_str("it is being deleted already"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::AnnotationsUnknown => f.write_str("its annotations are not known"),
            Self::IdentityUnknown => f.write_str("its uid or version is not known"),
            Self::VolumeNotRead => f.write_str("it must be read again first"),
            Self::Changed => f.write_str("it has changed since it was listed"),
            Self::ReadFailed { message } => write!(f, "could not be read: {message}"),
            Self::Guarded => f.write_str("its provisioner guards it"),
            Self::GuardUnknown => f.write_str("whether its provisioner guards it is not known"),
        }
    }
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = ();

    /// Plans for all volumes, by name and uid. Each is deleted or kept, once. Time plays no part.
    ///
    /// # Complexity
    /// O(n log n) in the number of volumes.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        for (object, volume) in
            by_identity(Resource::PersistentVolumes, &facts.volumes, |volume| &volume.meta)
        {
            let Some(volume) = volume else {
                let reason = Reason::ListedTwice;
                plan.kept.push(Kept { object, reason });
                continue;
            };
            match self.confirmed(&object, volume, facts) {
                Err(reason) => plan.kept.push(Kept { object, reason }),
                Ok(live) => plan.actions.push(Action::Delete {
                    object,
                    expect: expected(&live.meta),
                    reason: Reason::Released,
                    has_finalizer: self.has_finalizer && live.meta.has_finalizer(FINALIZER_EXTERNAL),
                }),
            }
        }
        plan
    }
}

impl Settings {
    /// The volume as it was read right before, where list and read agree that it goes.
    fn confirmed<'a>(
        &self,
        object: &Object,
        listed: &'a Volume,
        facts: &'a Facts,
    ) -> Result<&'a Volume, Reason> {
        let guard = facts.guards.get(&object.name).copied().unwrap_or_default();
        let judged = |volume: &Volume| self.reason_to_keep(volume, guard).map_or(Ok(()), Err);
        judged(listed)?;
        let failed = |message| Reason::ReadFailed { message };
        let live = match facts.read_volumes.of(object, listed) {
            Live::Found(live) => live,
            Live::NotAsked => return Err(Reason::VolumeNotRead),
            Live::NotFound => return Err(failed(StoreError::NotFound.to_string().into())),
            Live::Failed(message) => return Err(failed(message)),
        };
        if Object::new(Resource::PersistentVolumes, &live.meta) != *object
            || live.claim_ref != listed.claim_ref
        {
            return Err(Reason::Changed);
        }
        judged(live)?;
        let expect = expected(&live.meta);
        let is_known = expect.uid.is_some() && expect.resource_version.is_some();
        if is_known {
            Ok(live)
        } else {
            Err(Reason::IdentityUnknown)
        }
    }

    fn reason_to_keep(&self, volume: &Volume, guard: Guard) -> Option<Reason> {
        if volume.annotations.is_none() {
            return Some(Reason::AnnotationsUnknown);
        }
        let is_ours = volume
            .provisioner()
            .is_some_and(|name| *name == self.provisioner || volume.driver() == Some(&self.provisioner));
        let may_be_deleting = self.has_finalizer && volume.meta.has_finalizer(FINALIZER_EXTERNAL);
        if !is_ours {
            Some(Reason::NotOurs)
        } else if volume.phase != Phase::Released {
            let phase = volume.phase.clone();
            Some(Reason::PhaseIs { phase })
        } else if volume.policy != Policy::Delete {
            let policy = volume.policy.clone();
            Some(Reason::PolicyIs { policy })
        } else if volume.meta.is_deleting() && !may_be_deleting {
            Some(Reason::BeingDeleted)
        } else {
            match guard {
                Guard::Unknown => Some(Reason::GuardUnknown),
                Guard::Forbids => Some(Reason::Guarded),
                Guard::Allows => None,
            }
        }
    }
}
