//! One look at one volume, from its finalizers to its deletion, as a state machine without I/O.
//!
//! # Upstream
//! `syncVolume`, `reclaimVolume`, `deleteVolumeOperation`, `recycleVolumeOperation` and `unbindVolume` in `pv_controller.go`.

use std::sync::Arc;

use kubegc_core::StoreError;

use super::{
    super::{ANNOTATION_BOUND_BY_CONTROLLER, Claim, FINALIZER_IN_TREE, Migration, Phase, Policy, Volume},
    Action, Answer, Ending, Plugin, Reason, Settings, Step,
    finalizers::{finalizer_changes, migration_changes},
    step::{message, misfit, read_failed, write_failed},
};
use crate::object::{Change, Live, Object, Operation, Resource, expected};

/// What a pass knows before it asks.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    /// The volume as it was listed.
    pub volume: Volume,
    /// The claim with the namespace and name that the volume names, as it was listed; [`Live::NotAsked`] where claims were not.
    pub claim: Live<Claim>,
    /// The pods that use a claim of that name and have not ended, as `namespace/name`, sorted; or why they are not known.
    pub users: Result<Vec<Arc<str>>, StoreError>,
}

/// One look at one volume: asks, is answered, and says in the end what came of it.
///
/// # Guarantees
/// Never panics, whatever the answers. Equal settings, knowledge and answers give equal steps. At most 9 steps before the end.
///
/// # Examples
/// ```
/// use kubegc_core::StoreError;
/// use kubegc_lifecycle::{object::Live, volume::{ClaimRef, Holder, Phase, Policy, Volume}};
/// use kubegc_lifecycle::volume::reclaim::{Answer, Ending, Known, Pass, Reason, Settings, Step};
///
/// let mut volume = Volume::new("disk", "uid-1");
/// volume.meta.resource_version = "7".into();
/// volume.phase = Phase::Released;
/// volume.policy = Policy::Delete;
/// volume.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", "uid-2"));
/// let mut pass = Pass::new(Settings::default(), Known { volume, claim: Live::NotFound, users: Ok(Vec::new()) });
/// assert_eq!(pass.next(None), Step::ReadVolume);
/// let Step::Done(Ending::Failed(reason)) = pass.next(Some(Answer::Failed(StoreError::NotFound))) else { panic!("nothing is deleted unread") };
/// assert_eq!(reason.to_string(), "could not be read: not found");
/// ```
#[derive(Clone, Debug)]
pub struct Pass {
    pub(crate) settings: Settings,
    volume: Volume,
    claim: Live<Claim>,
    users: Result<Vec<Arc<str>>, StoreError>,
    /// Why the volume is reclaimed, once that is decided.
    released_because: Reason,
    /// Whether the claim was read live in this pass.
    has_read_claim: bool,
    /// Whether writes were answered without the volume, so that its version is not known since.
    is_supposed: bool,
    state: State,
    asked: Option<Step>,
}

/// What was asked last, and what comes after it.
#[derive(Clone, Debug)]
enum State {
    Start,
    UpdatingMetadata,
    ReadingClaim,
    SettingPhase(Then),
    ReadingVolume(Operation),
    ConfirmingRelease(Operation),
    FindingPlugin(Operation),
    AskingPlugin(Operation),
    ReadingForFinalizer,
    RemovingFinalizer,
    Deleting,
    Telling(Then),
    Unbinding(Reason),
    Ended,
}

/// What comes after a write that does not decide anything.
#[derive(Clone, Debug)]
enum Then {
    Reclaim,
    Unbind,
    End(Ending),
}

impl Pass {
    /// Prepares a look.
    #[must_use]
    pub fn new(settings: Settings, known: Known) -> Self {
        let Known { volume, claim, users } = known;
        Self {
            settings,
            volume,
            claim,
            users,
            released_because: Reason::Unclaimed,
            has_read_claim: false,
            is_supposed: false,
            state: State::Start,
            asked: None,
        }
    }

    /// Takes the answer to the last step and gives the next one.
    ///
    /// Without an answer the last step is given again; the first call has none to give, and any is passed over. After
    /// [`Step::Done`] nothing changes any more.
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        let step = match (
            std::mem::replace(&mut self.state, State::Ended),
            answer,
            &self.asked,
        ) {
            (State::Start, _, _) => self.start(),
            (state, None, Some(asked)) => {
                self.state = state;
                return asked.clone();
            }
            (State::Ended, _, Some(asked)) => return asked.clone(),
            (state, answer, _) => self.advance(state, answer.unwrap_or(Answer::Failed(misfit()))),
        };
        self.asked = Some(step.clone());
        step
    }

    /// The volume as the pass has read or written it last.
    #[must_use]
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    fn advance(&mut self, state: State, answer: Answer) -> Step {
        match state {
            State::UpdatingMetadata => self.written(answer, Self::decide),
            State::ReadingClaim => match self.take_claim(answer) {
                Ok(claim) => self.resolve(claim),
                Err(ending) => Step::Done(ending),
            },
            State::ConfirmingRelease(operation) => match self.take_claim(answer) {
                Ok(claim) => self.confirm(claim, operation),
                Err(ending) => Step::Done(ending),
            },
            State::SettingPhase(then) => self.written(answer, |pass| pass.proceed(then)),
            State::ReadingVolume(operation) => match answer {
                Answer::Volume(volume) => self.reconsider(volume, operation),
                other => read_failed(other),
            },
            State::FindingPlugin(operation) => match answer {
                Answer::Plugin(plugin) => self.found(plugin, operation),
                other => read_failed(other),
            },
            State::AskingPlugin(Operation::DeleteVolume) => self.deleted(answer),
            State::AskingPlugin(Operation::RecycleVolume) => self.recycled(answer),
            State::ReadingForFinalizer => match answer {
                Answer::Volume(volume) if volume.meta.uid == self.volume.meta.uid => {
                    self.take(volume);
                    self.remove_finalizer()
                }
                Answer::Volume(_) => Step::Done(Ending::Kept(Reason::Changed)),
                Answer::Failed(StoreError::NotFound) => Step::Done(Ending::Deleted),
                other => self.fail_deletion(message(other)),
            },
            State::RemovingFinalizer => match self.take_write(answer) {
                Ok(()) => self.delete(),
                Err(message) => self.fail_deletion(message),
            },
            State::Deleting => match answer {
                Answer::Done | Answer::Volume(_) | Answer::Failed(StoreError::NotFound) => {
                    Step::Done(Ending::Deleted)
                }
                other => write_failed(message(other)),
            },
            // Nothing hangs on an event.
            State::Telling(then) => self.proceed(then),
            State::Unbinding(reason) => self.written(answer, |pass| {
                let then = Then::End(Ending::Kept(reason));
                pass.set_phase(Phase::Available, Reason::Unclaimed, then)
            }),
            State::Start | State::Ended => write_failed(misfit().to_string()),
        }
    }

    /// Goes on after a write that has succeeded.
    fn written(&mut self, answer: Answer, then: impl FnOnce(&mut Self) -> Step) -> Step {
        match self.take_write(answer) {
            Ok(()) => then(self),
            Err(message) => write_failed(message),
        }
    }

    /// Takes what a write answered, or supposes what it was to write.
    fn take_write(&mut self, answer: Answer) -> Result<(), String> {
        match answer {
            Answer::Volume(volume) => {
                self.take(volume);
                Ok(())
            }
            Answer::Done => {
                if let Some(Step::Perform(action)) = &self.asked {
                    let after = action.applied_to(&self.volume);
                    self.volume = after.unwrap_or_else(|| self.volume.clone());
                    self.is_supposed = true;
                }
                Ok(())
            }
            other => Err(message(other)),
        }
    }

    /// Takes what a live read of the claim found.
    fn take_claim(&mut self, answer: Answer) -> Result<Option<Claim>, Ending> {
        let claim = match answer {
            Answer::Claim(claim) if claim.meta.uid.is_empty() => {
                return Err(Ending::Kept(Reason::IdentityUnknown));
            }
            Answer::Claim(claim) => Some(claim),
            Answer::Failed(StoreError::NotFound) => {
                self.claim = Live::NotFound;
                None
            }
            other => {
                let message = message(other);
                return Err(Ending::Failed(Reason::ReadFailed { message }));
            }
        };
        self.has_read_claim = true;
        Ok(claim)
    }

    /// Takes a newer state. What the cluster does about migration is no part of the object.
    fn take(&mut self, volume: Volume) {
        let migration = self.volume.migration.clone();
        self.volume = Volume { migration, ..volume };
    }

    fn proceed(&mut self, then: Then) -> Step {
        match then {
            Then::Reclaim => self.reclaim(),
            Then::Unbind => self.unbind(Reason::Recycled, Reason::Recycled),
            Then::End(ending) => Step::Done(ending),
        }
    }

    fn perform(&mut self, state: State, action: Action) -> Step {
        let meta = &self.volume.meta;
        let is_unversioned = meta.resource_version.is_empty() && !self.is_supposed;
        if meta.uid.is_empty() || is_unversioned {
            return Step::Done(Ending::Kept(Reason::IdentityUnknown));
        }
        self.state = state;
        Step::Perform(action)
    }

    fn object(&self) -> Object {
        Object::new(Resource::PersistentVolumes, &self.volume.meta)
    }

    fn update(&mut self, state: State, reason: Reason, changes: Vec<Change>) -> Step {
        let action = Action::Update {
            object: self.object(),
            expect: expected(&self.volume.meta),
            reason,
            changes,
        };
        self.perform(state, action)
    }

    /// Puts finalizers and the note of a migration right (5.3), then goes on.
    fn start(&mut self) -> Step {
        if let Some(reason) = Reason::unread(&self.volume) {
            return Step::Done(Ending::Kept(reason));
        }
        let mut changes = migration_changes(&self.volume);
        if self.settings.honors_reclaim_policy {
            changes.extend(finalizer_changes(&self.volume));
        }
        if changes.is_empty() {
            return self.decide();
        }
        self.update(State::UpdatingMetadata, Reason::MetadataUnfit, changes)
    }

    /// Finds the claim, and reads it live where upstream does (R1 to R3).
    fn decide(&mut self) -> Step {
        if let Some(reason) = Reason::unread(&self.volume) {
            return Step::Done(Ending::Kept(reason));
        }
        let Some(claim_ref) = self.volume.holder().cloned() else {
            let then = Then::End(Ending::Kept(Reason::Unclaimed));
            return self.set_phase(Phase::Available, Reason::Unclaimed, then);
        };
        let is_settled = matches!(self.volume.phase, Phase::Released | Phase::Failed);
        match &self.claim {
            Live::Found(claim) if claim.meta.uid == claim_ref.uid => {
                let claim = Some(claim.clone());
                self.resolve(claim)
            }
            Live::NotFound if is_settled => self.resolve(None),
            Live::Found(_) | Live::NotFound | Live::NotAsked | Live::Failed(_) => {
                self.state = State::ReadingClaim;
                Step::ReadClaim(claim_ref)
            }
        }
    }

    /// Decides by what is known of the claim now (R3 to R7).
    fn resolve(&mut self, claim: Option<Claim>) -> Step {
        let Some(claim_ref) = self.volume.holder().cloned() else {
            return Step::Done(Ending::Kept(Reason::Unclaimed));
        };
        let Some(claim) = claim.filter(|claim| claim.meta.uid == claim_ref.uid) else {
            return self.release(Reason::ClaimGone { claim: claim_ref });
        };
        if claim.volume_name.is_empty() {
            let reason = if is_block(claim.mode.as_ref()) == is_block(self.volume.mode.as_ref()) {
                Reason::ClaimPending { claim: claim_ref }
            } else {
                Reason::ModeMismatch { claim: claim_ref }
            };
            return Step::Done(Ending::Kept(reason));
        }
        if claim.volume_name == self.volume.meta.name {
            let reason = Reason::Bound { claim: claim_ref };
            return self.set_phase(Phase::Bound, reason.clone(), Then::End(Ending::Kept(reason)));
        }
        let reason = Reason::ClaimBoundElsewhere {
            claim: claim_ref,
            volume: claim.volume_name,
        };
        match (&self.volume.policy, self.volume.provisioner()) {
            (Policy::Delete, Some(_)) => self.release(reason),
            (Policy::Unknown, Some(_)) => Step::Done(Ending::Kept(Reason::PolicyUnknown)),
            _ => self.unbind(reason, Reason::Unclaimed),
        }
    }

    /// Shows that the volume is released, then reclaims it. A failure stays visible.
    fn release(&mut self, reason: Reason) -> Step {
        self.released_because = reason.clone();
        match self.volume.phase {
            Phase::Released | Phase::Failed => self.reclaim(),
            _ => self.set_phase(Phase::Released, reason, Then::Reclaim),
        }
    }

    fn set_phase(&mut self, phase: Phase, reason: Reason, then: Then) -> Step {
        if self.volume.phase == phase {
            return self.proceed(then);
        }
        let action = Action::SetPhase {
            object: self.object(),
            expect: expected(&self.volume.meta),
            reason,
            phase,
            message: String::new(),
            event: None,
        };
        self.perform(State::SettingPhase(then), action)
    }

    /// Shows and tells a failure, unless the volume shows one already.
    fn fail(&mut self, event: &'static str, message: &str, reason: Reason) -> Step {
        let ending = Ending::Failed(reason.clone());
        if self.volume.phase == Phase::Failed {
            return Step::Done(ending);
        }
        let action = Action::SetPhase {
            object: self.object(),
            expect: expected(&self.volume.meta),
            reason,
            phase: Phase::Failed,
            message: message.to_owned(),
            event: Some(event),
        };
        self.perform(State::SettingPhase(Then::End(ending)), action)
    }

    fn fail_deletion(&mut self, message: String) -> Step {
        let text = message.clone();
        self.fail("VolumeFailedDelete", &text, Reason::PluginFailed { message })
    }

    fn fail_recycling(&mut self, message: String) -> Step {
        let text = message.clone();
        self.fail("VolumeFailedRecycle", &text, Reason::PluginFailed { message })
    }

    fn tell(&mut self, event: &'static str, message: String, reason: Reason, then: Then) -> Step {
        let action = Action::Tell {
            object: self.object(),
            expect: expected(&self.volume.meta),
            reason,
            event,
            message,
        };
        self.perform(State::Telling(then), action)
    }

    /// Goes by the policy (5.2).
    fn reclaim(&mut self) -> Step {
        if let Some(reason) = Reason::unread(&self.volume) {
            return Step::Done(Ending::Kept(reason));
        }
        if let Some(driver) = self.volume.driver() {
            let driver = Arc::clone(driver);
            return Step::Done(Ending::Kept(Reason::Migrated { driver }));
        }
        let operation = match &self.volume.policy {
            Policy::Retain => return Step::Done(Ending::Kept(Reason::Retained)),
            Policy::Unknown => return Step::Done(Ending::Kept(Reason::PolicyUnknown)),
            Policy::Other(policy) => {
                let policy = Arc::clone(policy);
                return self.fail(
                    "VolumeUnknownReclaimPolicy",
                    "Volume has unrecognized PersistentVolumeReclaimPolicy",
                    Reason::PolicyUnrecognized { policy },
                );
            }
            Policy::Delete => Operation::DeleteVolume,
            Policy::Recycle => Operation::RecycleVolume,
        };
        if self.volume.is_in_tree() && self.volume.migration == Migration::Unknown {
            return Step::Done(Ending::Kept(Reason::MigrationUnknown));
        }
        self.state = State::ReadingVolume(operation);
        Step::ReadVolume
    }

    /// Decides again by the volume as it is right before.
    fn reconsider(&mut self, live: Volume, operation: Operation) -> Step {
        let is_refused = !self.settings.honors_reclaim_policy && operation == Operation::DeleteVolume;
        let reason = if let Some(reason) = Reason::unread(&live) {
            Some(reason)
        } else if is_refused && live.meta.is_deleting() {
            Some(Reason::BeingDeleted)
        } else if live.holder().is_none() {
            Some(Reason::NotReleased)
        } else if live.meta.uid != self.volume.meta.uid
            || live.claim_ref != self.volume.claim_ref
            || live.policy != self.volume.policy
        {
            Some(Reason::Changed)
        } else {
            live.driver().map(|driver| Reason::Migrated {
                driver: Arc::clone(driver),
            })
        };
        if let Some(reason) = reason {
            return Step::Done(Ending::Kept(reason));
        }
        self.take(live);
        match self.volume.holder() {
            Some(claim) if !self.has_read_claim => {
                let step = Step::ReadClaim(claim.clone());
                self.state = State::ConfirmingRelease(operation);
                step
            }
            _ => self.find_plugin(operation),
        }
    }

    /// Decides again by the claim as it is right before (L5.3).
    fn confirm(&mut self, claim: Option<Claim>, operation: Operation) -> Step {
        let Some(holder) = self.volume.holder().cloned() else {
            return Step::Done(Ending::Kept(Reason::NotReleased));
        };
        self.released_because = match claim {
            Some(claim) if claim.meta.uid == holder.uid => {
                if claim.volume_name.is_empty() || claim.volume_name == self.volume.meta.name {
                    return Step::Done(Ending::Kept(Reason::NotReleased));
                }
                Reason::ClaimBoundElsewhere {
                    claim: holder,
                    volume: claim.volume_name,
                }
            }
            _ => Reason::ClaimGone { claim: holder },
        };
        self.find_plugin(operation)
    }

    /// Looks for who does it, unless pods use what is to be emptied.
    fn find_plugin(&mut self, operation: Operation) -> Step {
        if operation == Operation::RecycleVolume {
            let pods = match &self.users {
                Ok(pods) => pods.clone(),
                Err(error) => {
                    let message = error.to_string();
                    return Step::Done(Ending::Kept(Reason::PodsUnknown { message }));
                }
            };
            // A claim of that name that is still there is another one, on another volume: its pods do not count.
            if !pods.is_empty() && !matches!(self.claim, Live::Found(_)) {
                let message = format!("Volume is used by pods: {}", pods.join(","));
                let reason = Reason::UsedByPods { pods };
                let then = Then::End(Ending::Failed(reason.clone()));
                return self.tell("VolumeFailedRecycle", message, reason, then);
            }
        }
        self.state = State::FindingPlugin(operation);
        Step::FindPlugin(operation)
    }

    fn found(&mut self, plugin: Plugin, operation: Operation) -> Step {
        match (plugin, operation) {
            (Plugin::Unknown, _) => Step::Done(Ending::Kept(Reason::PluginUnknown)),
            (Plugin::Known, _) => {
                let action = Action::Ask {
                    object: self.object(),
                    expect: expected(&self.volume.meta),
                    reason: self.released_because.clone(),
                    operation,
                };
                self.perform(State::AskingPlugin(operation), action)
            }
            (Plugin::External, Operation::DeleteVolume) => {
                Step::Done(Ending::Kept(Reason::WaitsForProvisioner))
            }
            (Plugin::Missing { message }, Operation::DeleteVolume) => self.fail_deletion(message),
            (Plugin::External | Plugin::Missing { .. }, Operation::RecycleVolume) => {
                self.fail_recycling("No recycler plugin found for the volume!".to_owned())
            }
        }
    }

    /// The plugin was asked to delete.
    fn deleted(&mut self, answer: Answer) -> Step {
        match answer {
            Answer::Done | Answer::Volume(_) if self.settings.honors_reclaim_policy => {
                self.state = State::ReadingForFinalizer;
                Step::ReadVolume
            }
            Answer::Done | Answer::Volume(_) => self.delete(),
            Answer::InUse { message } => {
                let reason = Reason::StorageInUse {
                    message: message.clone(),
                };
                let then = Then::End(Ending::Failed(reason.clone()));
                self.tell("VolumeDelete", message, reason, then)
            }
            other => self.fail_deletion(message(other)),
        }
    }

    /// The plugin was asked to empty.
    fn recycled(&mut self, answer: Answer) -> Step {
        match answer {
            Answer::Done | Answer::Volume(_) => {
                let text = "Volume recycled".to_owned();
                self.tell("VolumeRecycled", text, Reason::Recycled, Then::Unbind)
            }
            other => self.fail_recycling(format!("Recycle failed: {}", message(other))),
        }
    }

    fn remove_finalizer(&mut self) -> Step {
        if !self.volume.meta.has_finalizer(FINALIZER_IN_TREE) {
            return self.delete();
        }
        let changes = vec![Change::RemoveFinalizer(FINALIZER_IN_TREE)];
        self.update(State::RemovingFinalizer, Reason::StorageDeleted, changes)
    }

    fn delete(&mut self) -> Step {
        let action = Action::Delete {
            object: self.object(),
            expect: expected(&self.volume.meta),
            reason: Reason::StorageDeleted,
        };
        self.perform(State::Deleting, action)
    }

    /// Frees the volume of its claim (5.4).
    fn unbind(&mut self, reason: Reason, ends_as: Reason) -> Step {
        let annotations = self.volume.annotations.as_ref();
        let changes = if annotations.is_some_and(|annotations| annotations.is_bound_by_controller) {
            vec![
                Change::RemoveClaimRef,
                Change::RemoveAnnotation(ANNOTATION_BOUND_BY_CONTROLLER),
            ]
        } else {
            vec![Change::ReleaseClaimRef]
        };
        self.update(State::Unbinding(ends_as), reason, changes)
    }
}

fn is_block(mode: Option<&Arc<str>>) -> bool {
    mode.is_some_and(|mode| &**mode == "Block")
}
