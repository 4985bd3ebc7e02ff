//! Carries a look at a volume out: answers its questions by live reads, and its writes with the volume as it is then.

use std::collections::VecDeque;

use kubegc_core::StoreError;

use super::{super::Operated, Hands, Progress, hands::Attempt};
use crate::{
    controller::{Ended, Reason},
    fields::{Fields, PersistentVolume, PersistentVolumeClaim, Record},
    object::{Act, Call, Object, Operation, Resource},
    volume::{
        Claim, ClaimRef, Holder, Migration, Phase, Policy, Volume,
        reclaim::{self, Answer, Ending, Pass, Step},
    },
};

/// A look at one volume.
#[derive(Clone, Debug)]
pub(super) struct Reclaiming {
    pass: Pass,
    /// The volume as it was read last.
    document: Vec<u8>,
    /// The calls that are left of the present step.
    calls: VecDeque<Call>,
    /// Why the present step is taken.
    reason: Reason,
    /// Whether the present step has written the volume, or found it written.
    has_written: bool,
    /// The answer to the present step.
    answer: Option<Answer>,
    /// The last error.
    failed: Option<StoreError>,
    /// Whether a plugin did not delete what is behind the volume.
    has_operation_failed: bool,
}

impl Reclaiming {
    pub(super) const fn new(pass: Pass) -> Self {
        Self {
            pass,
            document: Vec::new(),
            calls: VecDeque::new(),
            reason: Reason::Volume(reclaim::Reason::VolumeNotRead),
            has_written: false,
            answer: None,
            failed: None,
            has_operation_failed: false,
        }
    }

    /// Each turn makes one call, or takes the next step.
    pub(super) async fn step(&mut self, hands: &Hands<'_>) -> Progress {
        loop {
            let Some(call) = self.calls.pop_front() else {
                if std::mem::take(&mut self.has_written) && matches!(self.answer, Some(Answer::Done)) {
                    self.answer = Some(self.read_volume(hands).await);
                }
                if let Some(over) = self.advance(hands).await {
                    return over;
                }
                continue;
            };
            self.has_written |= matches!(call, Call::Change { .. });
            let attempt = hands.make(&call, false).await;
            self.has_operation_failed |= has_deletion_failed(&call, &attempt);
            let result = match attempt {
                Attempt::Unneeded => continue,
                Attempt::NotMade(error) => {
                    self.fail(Answer::Failed(error));
                    continue;
                }
                // Nobody guards these volumes.
                Attempt::Guarded(_) => continue,
                Attempt::Made(Err(error)) if !matches!(call, Call::Event { .. }) => {
                    self.fail(Answer::Failed(error.clone()));
                    Err(error)
                }
                Attempt::Made(result) => result,
                Attempt::Operated(Operated::Done) => Ok(()),
                Attempt::Operated(Operated::InUse { message }) => {
                    self.fail(Answer::InUse {
                        message: message.clone(),
                    });
                    Err(StoreError::Unknown { message })
                }
                Attempt::Operated(Operated::Failed { message }) => {
                    self.fail(Answer::PluginFailed {
                        message: message.clone(),
                    });
                    Err(StoreError::Unknown { message })
                }
            };
            return Progress::made(call, &self.reason, result);
        }
    }

    /// Leaves the rest of the present step out.
    fn fail(&mut self, answer: Answer) {
        self.calls.clear();
        if let Answer::Failed(error) = &answer {
            self.failed = Some(error.clone());
        }
        self.answer = Some(answer);
    }

    /// Takes the next step, and answers it at once where it is a question; gives the end when there is none.
    async fn advance(&mut self, hands: &Hands<'_>) -> Option<Progress> {
        let answer = match self.pass.next(self.answer.take()) {
            Step::ReadClaim(claim) => self.read_claim(hands, &claim).await,
            Step::ReadVolume => self.read_volume(hands).await,
            Step::FindPlugin(operation) => {
                let volume = Object::new(Resource::PersistentVolumes, &self.pass.volume().meta);
                let plugin = hands.outside.find_plugin(&volume, &self.document, operation);
                Answer::Plugin(plugin.await)
            }
            Step::Perform(action) => {
                self.reason = Reason::Volume(action.reason().clone());
                self.calls = action.calls(hands.wire).into();
                Answer::Done
            }
            Step::Done(ending) => return Some(self.over(ending, hands)),
        };
        self.answer = Some(answer);
        None
    }

    async fn read_claim(&mut self, hands: &Hands<'_>, claim: &ClaimRef) -> Answer {
        let read = hands.read(Resource::PersistentVolumeClaims, &claim.namespace, &claim.name);
        let (_, record) = match read.await {
            Ok(read) => read,
            Err(error) => return self.read_failed(error),
        };
        match claim_of(record) {
            Some(claim) => Answer::Claim(claim),
            None => self.read_failed(StoreError::Invalid {
                message: format!("claim {claim} has no spec"),
            }),
        }
    }

    /// Reads the volume of this uid.
    async fn read_volume(&mut self, hands: &Hands<'_>) -> Answer {
        let meta = &self.pass.volume().meta;
        let (uid, name) = (meta.uid.clone(), meta.name.clone());
        match hands.read(Resource::PersistentVolumes, "", &name).await {
            Ok((document, record)) if record.meta.uid == uid => {
                self.document = document;
                Answer::Volume(volume_of(record))
            }
            // Another volume has taken its name.
            Ok(_) => self.read_failed(StoreError::NotFound),
            Err(error) => self.read_failed(error),
        }
    }

    fn read_failed(&mut self, error: StoreError) -> Answer {
        if error != StoreError::NotFound {
            self.failed = Some(error.clone());
        }
        Answer::Failed(error)
    }

    /// What was left because something was not known comes again with the next resync; unless nothing can become known.
    fn over(&mut self, ending: Ending, hands: &Hands<'_>) -> Progress {
        let resync = self.pass.settings.resync;
        let (ended, reason) = match ending {
            Ending::Deleted => (Ended::Done, None),
            Ending::Kept(reason @ reclaim::Reason::Changed) => (Ended::Stale, Some(reason)),
            Ending::Kept(reason) if hands.verifies && Reason::Volume(reason.clone()).is_undecided() => {
                (Ended::Again(resync), Some(reason))
            }
            Ending::Kept(reason) => (Ended::Done, Some(reason)),
            Ending::Failed(reason) => {
                let message = reason.to_string();
                let error = match self.failed.take() {
                    // Nobody knows what has become of it.
                    _ if self.has_operation_failed => StoreError::Unknown { message },
                    Some(error) => error,
                    None => StoreError::Conflict { message },
                };
                (Ended::Failed(error), Some(reason))
            }
        };
        Progress::Over {
            ended,
            kept: reason.map(Reason::Volume),
        }
    }
}

/// Whether a plugin was to delete what is behind a volume, and did not.
const fn has_deletion_failed(call: &Call, attempt: &Attempt) -> bool {
    let is_failure = matches!(
        attempt,
        Attempt::Operated(Operated::InUse { .. } | Operated::Failed { .. })
    );
    is_failure
        && matches!(
            call,
            Call::Outside {
                operation: Operation::DeleteVolume,
                ..
            }
        )
}

/// The volume that a record is of. What was not read is unknown.
fn volume_of(record: Record) -> Volume {
    let fields = match record.fields {
        Fields::PersistentVolume(fields) => fields,
        _ => PersistentVolume {
            phase: Phase::Unknown,
            policy: Policy::Unknown,
            claim_ref: Holder::Unknown,
            mode: None,
            annotations: None,
        },
    };
    Volume {
        meta: record.meta,
        phase: fields.phase,
        policy: fields.policy,
        claim_ref: fields.claim_ref,
        mode: fields.mode,
        annotations: fields.annotations,
        // The pass knows.
        migration: Migration::Unknown,
    }
}

/// The claim that a record is of; `None` where nothing but its metadata was read.
fn claim_of(record: Record) -> Option<Claim> {
    let Fields::PersistentVolumeClaim(PersistentVolumeClaim { volume_name, mode }) = record.fields else {
        return None;
    };
    Some(Claim {
        meta: record.meta,
        volume_name,
        mode,
    })
}
