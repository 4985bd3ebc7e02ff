//! Plans the deletion of all requests for which a rule holds.

use std::time::Duration;

use kubegc_core::{DeleteOptions, Kept, PlanOf, Planner, Preconditions, StoreError, Timestamp};

use super::{Certificate, Facts, Reason, Request, Rule, Settings};
use crate::object::{Act, Call, Condition, Failure, Object, Resource, Sent, Wire, by_identity, expected};

/// What upstream reports for an empty certificate where it counts as issued.
const NOT_PEM: &str = "expected the certificate associated with the CSR to be PEM encoded";

/// What is done to a request.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the request.
    Delete {
        /// The request.
        object: Object,
        /// The request as it was listed. Upstream expects nothing.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// What upstream makes of a failed deletion: it tells [`Self::told_failed`], and the next look tries again.
    #[must_use]
    pub const fn failure(_error: &StoreError) -> Failure {
        Failure::Told
    }

    /// What to tell after the deletion failed with this error. The message is upstream's; it goes to the log, there are no events.
    #[must_use]
    pub fn told_failed(&self, error: &str) -> String {
        let Self::Delete { object, .. } = self;
        format!("unable to delete CSR {:?}: {error}", object.name)
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
        vec![Call::delete(object, expect, wire, Sent::Nothing, options)]
    }
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = ();

    /// Plans one look, in the order of names.
    ///
    /// `next_at` is when a rule becomes true for one that is kept, not when upstream looks next: see [`Settings::pass_at`].
    ///
    /// # Complexity
    /// O(n log n) in the number of requests.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        let resource = Resource::CertificateSigningRequests;
        for (object, request) in by_identity(resource, &facts.requests, |request| &request.meta) {
            let (reason, from) = match request {
                None => (Reason::ListedTwice, None),
                Some(request) => self.fate(request),
            };
            match (request, from) {
                (Some(request), Some((since, rule))) if since <= now => plan.actions.push(Action::Delete {
                    object,
                    expect: expected(&request.meta),
                    reason: Reason::Due { rule, since },
                }),
                (_, from) => {
                    let from = from.map(|(from, _)| from);
                    plan.next_at = plan.next_at.into_iter().chain(from).min();
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        plan
    }
}

impl Settings {
    /// Why a request stays while it does, and from when on which rule holds. Time has no part in it.
    fn fate(&self, request: &Request) -> (Reason, Option<(Timestamp, Rule)>) {
        let field = |field| (Reason::NotKnown { field }, None);
        if request.meta.is_deleting() {
            return (Reason::Deleting, None);
        }
        if request.meta.uid.is_empty() {
            return field("metadata.uid");
        }
        if self.bad_certificate_keeps {
            let message = match &request.certificate {
                Certificate::Bad(message) => Some(message.clone()),
                Certificate::Empty if self.empty_is_issued => Some(NOT_PEM.into()),
                Certificate::Unknown | Certificate::Unread => return field("status.certificate"),
                _ => None,
            };
            if let Some(message) = message {
                return (Reason::BadCertificate { message }, None);
            }
        }
        let Some(conditions) = &request.conditions else {
            return field("status.conditions");
        };
        let first = self.dues(request, conditions).into_iter().flatten().min();
        let is_approved = conditions.iter().any(|condition| is(condition, "Approved"));
        let reason = match (&request.certificate, first) {
            (Certificate::Unknown | Certificate::Unread, _) if is_approved => {
                let field = "status.certificate";
                Reason::NotKnown { field }
            }
            (_, None) if conditions.is_empty() && request.meta.creation_timestamp.is_none() => {
                let field = "metadata.creationTimestamp";
                Reason::NotKnown { field }
            }
            (_, Some((from, rule))) => Reason::NotDue { rule, from },
            (_, None) => Reason::NoRule,
        };
        (reason, first)
    }

    /// From when on each rule holds; `None` for those that never will.
    fn dues(&self, request: &Request, conditions: &[Condition]) -> [Option<(Timestamp, Rule)>; 6] {
        let aged = |kind, age: Option<Duration>| {
            let updated = conditions
                .iter()
                .filter(|condition| is(condition, kind))
                .filter_map(|condition| condition.last_update_time);
            older_than(updated.min()?, age?)
        };
        let (issued, unissued) = match &request.certificate {
            Certificate::Unknown => (false, false),
            Certificate::None => (false, true),
            Certificate::Empty => (self.empty_is_issued, !self.empty_is_issued),
            Certificate::Unread | Certificate::NotAfter(_) | Certificate::Bad(_) => (true, false),
        };
        let is_approved = conditions.iter().any(|condition| is(condition, "Approved"));
        let expired = match request.certificate {
            Certificate::NotAfter(end) if is_approved => older_than(end, Duration::ZERO),
            _ => None,
        };
        let pending = request.meta.creation_timestamp.filter(|_| conditions.is_empty());
        let pending = pending.and_then(|created| older_than(created, self.pending_age));
        [
            aged("Approved", issued.then_some(self.issued_age)).map(|at| (at, Rule::Issued)),
            aged("Denied", Some(self.denied_age)).map(|at| (at, Rule::Denied)),
            aged("Failed", self.failed_age).map(|at| (at, Rule::Failed)),
            pending.map(|at| (at, Rule::Pending)),
            expired.map(|at| (at, Rule::CertificateExpired)),
            aged("Approved", self.unissued_age.filter(|_| unissued)).map(|at| (at, Rule::Unissued)),
        ]
    }
}

fn is(condition: &Condition, kind: &str) -> bool {
    *condition.kind == *kind
}

/// The first instant at which a time is older than an age: its age must exceed it.
fn older_than(time: Timestamp, age: Duration) -> Option<Timestamp> {
    time.checked_add(age)?.checked_add(Duration::from_nanos(1))
}
