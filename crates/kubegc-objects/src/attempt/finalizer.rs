//! Removal of one of the collector's finalizers from an owner, with retries on conflicts
//! ([F-1](crate::rules#f-1) to [F-5](crate::rules#f-5)).
//!
//! As upstream, the uid is not verified: another object with the same name can lose its finalizer
//! ([F-4](crate::rules#f-4)). [`Strict`](crate::settings::Hardening::Strict) mode verifies it.
//!
//! # Upstream
//! `removeFinalizer` in
//! [`operations.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/operations.go),
//! 1.13, 1.20.2 and 1.36.

use std::time::Duration;

use kubegc_core::{ObjectMeta, PatchType, Preconditions, version::behavior};

use super::{Context, Target};
use crate::{
    patch::{self, Change},
    reason::Reason,
    request::{AttemptError, Operation, Request, Response},
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
    Request(Request),
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

    /// Whether it waits for a response, and not for its start or the end of a sleep.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sent != Sent::Nothing
    }

    /// Processes the response to the last request. The first call, and the call after a sleep, have none.
    pub(crate) fn next(&mut self, context: &Context<'_>, response: Option<Response>) -> Removal {
        match (self.sent, response) {
            (Sent::Nothing, _) | (_, None) => {
                self.sent = Sent::Read;
                Removal::Request(self.target.request(Operation::Get, Reason::ReadBeforeFinalizer))
            }
            (Sent::Read, Some(Response::Found(live))) => self.write(context, &live),
            (Sent::Read, Some(Response::NotFound)) => Removal::Done(Ok(())),
            (Sent::Read, Some(response)) => Removal::Done(Err(AttemptError::CannotFinalize {
                owner: self.target.object.clone(),
                response,
            })),
            (Sent::Write, Some(Response::Applied(_))) => Removal::Done(Ok(())),
            (Sent::Write, Some(Response::Conflict)) => {
                self.sent = Sent::Nothing;
                self.conflicts += 1;
                match WAITS.get(self.conflicts - 1) {
                    Some(&wait) => Removal::Sleep(wait),
                    None => Removal::Done(Err(AttemptError::TooManyConflicts {
                        owner: self.target.object.clone(),
                    })),
                }
            }
            (Sent::Write, Some(response)) => {
                let target = self.target.object.clone();
                Removal::Done(Err(AttemptError::failed(target, "patched", response)))
            }
        }
    }

    fn write(&mut self, context: &Context<'_>, live: &ObjectMeta) -> Removal {
        if context.strict && live.uid != self.target.object.uid {
            return Removal::Done(Ok(()));
        }
        let read_at = live.resource_version.clone();
        let change = Change::RemoveFinalizer(self.finalizer.into());
        let format = PatchType::Merge;
        let operation = if context.version.has(behavior::FINALIZERS_ARE_PATCHED) {
            let body = change.body(context.version, format, live);
            body.map(|body| Operation::Patch { format, body, change })
        } else {
            patch::without(&live.finalizers, self.finalizer).map(|finalizers| Operation::Put {
                read_at: read_at.clone(),
                finalizers,
            })
        };
        let Some(operation) = operation else {
            return Removal::Done(Ok(()));
        };
        self.sent = Sent::Write;
        let mut request = self.target.request(operation, self.reason.clone());
        request.expect = Preconditions {
            uid: Some(live.uid.clone()),
            resource_version: Some(read_at),
        };
        Removal::Request(request)
    }
}
