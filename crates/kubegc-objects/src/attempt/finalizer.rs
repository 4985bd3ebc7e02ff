//! Removal of one of the collector's finalizers from an owner, with retries on conflicts
//! ([F-1](crate::rules#f-1) to [F-5](crate::rules#f-5)).
//!
//! As upstream, the uid is not verified: another object with the same name can lose its finalizer
//! ([F-4](crate::rules#f-4)). [`Strict`](crate::Hardening::Strict) mode verifies it.
//!
//! # Upstream
//! `removeFinalizer` in
//! [`operations.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/operations.go),
//! 1.13, 1.20.2 and 1.36.

use std::time::Duration;

use kubegc_core::{ObjectMeta, PatchType, Preconditions};

use super::{Context, Target};
use crate::{
    call::{Answer, Ask, AttemptError, Request},
    patch,
    reason::Reason,
};

/// The waits between the four tries ([F-1](crate::rules#f-1)). Upstream adds up to 10 % jitter.
const WAITS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// A removal of a finalizer in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Removing {
    target: Target,
    finalizer: &'static str,
    reason: Reason,
    conflicts: usize,
    sent: Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sent {
    Nothing,
    Read,
    Write,
}

pub(crate) enum Removal {
    Ask(Ask),
    Sleep(Duration),
    Done(Result<(), AttemptError>),
}

impl Removing {
    pub(crate) fn new(target: Target, finalizer: &'static str, reason: Reason) -> Self {
        Self {
            target,
            finalizer,
            reason,
            conflicts: 0,
            sent: Sent::Nothing,
        }
    }

    /// Processes the response to the last request. The first call, and the call after a sleep, have none.
    pub(crate) fn next(&mut self, context: &Context<'_>, answer: Option<Answer>) -> Removal {
        match (self.sent, answer) {
            (Sent::Nothing, _) | (_, None) => {
                self.sent = Sent::Read;
                Removal::Ask(self.target.ask(Request::Get, Reason::ReadBeforeFinalizer))
            }
            (Sent::Read, Some(Answer::Found(live))) => self.write(context, &live),
            (Sent::Read, Some(Answer::NotFound)) => Removal::Done(Ok(())),
            (Sent::Read, Some(answer)) => Removal::Done(Err(AttemptError::CannotFinalize {
                owner: self.target.object.clone(),
                answer,
            })),
            (Sent::Write, Some(Answer::Applied(_))) => Removal::Done(Ok(())),
            (Sent::Write, Some(Answer::Conflict)) => {
                self.sent = Sent::Nothing;
                self.conflicts += 1;
                match WAITS.get(self.conflicts - 1) {
                    Some(&wait) => Removal::Sleep(wait),
                    None => Removal::Done(Err(AttemptError::TooManyConflicts {
                        owner: self.target.object.clone(),
                    })),
                }
            }
            (Sent::Write, Some(answer)) => Removal::Done(Err(AttemptError::Answered {
                target: self.target.object.clone(),
                asked: "patched",
                answer,
            })),
        }
    }

    fn write(&mut self, context: &Context<'_>, live: &ObjectMeta) -> Removal {
        if context.strict && live.uid != self.target.object.uid {
            return Removal::Done(Ok(()));
        }
        let read_at = live.resource_version.clone();
        let request = if context.semantics.patch_finalizers {
            patch::remove_finalizer(&read_at, &live.finalizers, self.finalizer).map(|body| Request::Patch {
                format: PatchType::Merge,
                body,
            })
        } else {
            patch::without(&live.finalizers, self.finalizer).map(|finalizers| Request::Put {
                read_at: read_at.clone(),
                finalizers,
            })
        };
        let Some(request) = request else {
            return Removal::Done(Ok(()));
        };
        self.sent = Sent::Write;
        let mut ask = self.target.ask(request, self.reason.clone());
        ask.expect = Preconditions {
            uid: Some(live.uid.clone()),
            resource_version: Some(read_at),
        };
        Removal::Ask(ask)
    }
}
