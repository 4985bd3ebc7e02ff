//! What is done to jobs and to their cron job, and in which calls.

use kubegc_core::{DeleteOptions, Preconditions, PropagationPolicy, Uid};

use super::Reason;
use crate::object::{Act, Call, Change, Form, Object, Sent, Wire};

/// What is done to a job or a cron job.
#[expect(clippy::exhaustive_enums, reason = "executors must perform each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes a job, its pods in the background, and tells so. Upstream expects nothing of it.
    Delete {
        /// The job.
        object: Object,
        /// The cron job whose history it is in.
        cron_job: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
    /// Takes deleted jobs out of the list of active ones in the status of a cron job.
    ///
    /// To be performed for the jobs that were deleted only: [`Pass`](super::Pass) sees to that. Without jobs the status is written back as it is.
    UpdateStatus {
        /// The cron job.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// The jobs, in the order of their deletion.
        jobs: Vec<Uid>,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// Why.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Delete { reason, .. } | Self::UpdateStatus { reason, .. } => reason,
        }
    }

    /// What to tell after the action failed with this error; `None` where upstream tells nothing. The message is upstream's.
    #[must_use]
    pub fn told_failed(&self, error: &str) -> Option<Call> {
        let Self::Delete { cron_job, .. } = self else {
            return None;
        };
        Some(Call::Event {
            object: cron_job.clone(),
            is_warning: true,
            reason: "FailedDelete",
            message: format!("Deleted job: {error}"),
        })
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::Delete { object, .. } | Self::UpdateStatus { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::Delete { expect, .. } | Self::UpdateStatus { expect, .. } => expect,
        }
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        match self {
            Self::Delete {
                object,
                cron_job,
                expect,
                ..
            } => {
                let options = DeleteOptions::policy(PropagationPolicy::Background);
                let deleted = Call::delete(object, expect, wire, Sent::Nothing, options);
                let told = Call::Event {
                    object: cron_job.clone(),
                    is_warning: false,
                    reason: "SuccessfulDelete",
                    message: format!("Deleted job {}", object.name),
                };
                vec![deleted, told]
            }
            // The object that is written back carries its version, whatever the wire.
            Self::UpdateStatus {
                object, expect, jobs, ..
            } => vec![Call::Change {
                object: object.clone(),
                subresource: "status",
                form: Form::Replace,
                expect: expect.clone(),
                changes: jobs.iter().cloned().map(Change::RemoveActive).collect(),
            }],
        }
    }
}
