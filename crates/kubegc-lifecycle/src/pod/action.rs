//! What is done to a pod, in which calls, and how upstream counts it.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{DeleteOptions, PatchType, Preconditions};

use super::Reason;
use crate::object::{Act, Call, Change, Condition, Form, Object, Sent, Wire};

/// What is done to a pod.
#[expect(clippy::exhaustive_enums, reason = "executors must perform each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the pod without grace. Where there is a mark it is written first, and a failure of that spares the pod (L1.15).
    ///
    /// The version that is expected is the one before the mark: under [`Wire::Strict`] the mark expects it, and the deletion that follows a mark expects the
    /// uid only.
    Delete {
        /// The pod.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// What is written before the deletion; `None` where the phase is final.
        mark: Option<Mark>,
        /// Why.
        reason: Reason,
    },
}

/// What is written into the status of a pod before it is deleted: the phase `Failed`, and maybe why.
#[expect(clippy::exhaustive_structs, reason = "executors must perform every part")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The condition that goes with it.
    pub condition: Option<Condition>,
}

impl Action {
    /// Why.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        let Self::Delete { reason, .. } = self;
        reason
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
        let Self::Delete {
            object, expect, mark, ..
        } = self;
        let mut left = expect.clone();
        let mut calls = Vec::with_capacity(2);
        if let Some(Mark { condition }) = mark {
            let mut changes = vec![Change::Phase("Failed".into())];
            changes.extend(condition.clone().map(Change::Condition));
            calls.push(Call::Change {
                object: object.clone(),
                subresource: "status",
                form: Form::Patch(PatchType::Strategic),
                expect: wire.says(expect, Sent::Uid),
                changes,
            });
            // The mark makes another version of the pod.
            left.resource_version = None;
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        calls.push(Call::delete(object, &left, wire, Sent::Nothing, options));
        calls
    }
}

/// Upstream's counters `force_delete_pods_total` and `force_delete_pod_errors_total` of the subsystem `pod_gc_collector`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// The counts, by their labels `namespace` and `reason`.
    pub counts: BTreeMap<(Arc<str>, &'static str), Count>,
}

/// How often pods were to be deleted.
#[expect(clippy::exhaustive_structs, reason = "two counters")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count {
    /// How often, successful or not.
    pub attempts: u64,
    /// How often not successful: the mark or the deletion failed.
    pub errors: u64,
}

impl Tally {
    /// Counts one action that was tried.
    pub fn record(&mut self, action: &Action, is_done: bool) {
        let Some(label) = action.reason().label() else {
            return;
        };
        let key = (Arc::clone(&action.object().namespace), label);
        let count = self.counts.entry(key).or_default();
        count.attempts = count.attempts.saturating_add(1);
        count.errors = count.errors.saturating_add(u64::from(!is_done));
    }
}
