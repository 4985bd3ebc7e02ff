//! Judges one state of one job.

use kubegc_core::Timestamp;

use super::{Job, State, Ttl};

/// What is to be said of a job in this state.
///
/// # Upstream
/// `needsCleanup` and `timeLeft`. The status of the condition counts, the completion time in the status of the job does not.
pub(super) fn judge(job: &Job, now: Timestamp) -> State {
    if job.meta.is_deleting() {
        return State::Deleting;
    }
    if job.ttl == Ttl::Unset {
        return State::NoTtl;
    }
    let Some(conditions) = &job.conditions else {
        return State::NotKnown {
            field: "status.conditions",
        };
    };
    // The first one counts, whatever the later ones say.
    let finished = conditions
        .iter()
        .find(|condition| matches!(&*condition.kind, "Complete" | "Failed") && condition.is_true());
    let Some(finished) = finished else {
        return State::NotFinished;
    };
    let Ttl::Seconds(ttl) = job.ttl else {
        return State::NotKnown {
            field: "spec.ttlSecondsAfterFinished",
        };
    };
    let Some(finished_at) = finished.last_transition_time else {
        return State::NoFinishTime {
            job: format!("{}/{}", job.meta.namespace, job.meta.name).into(),
        };
    };
    // The deletion has to expect it.
    if job.meta.uid.is_empty() {
        let field = "metadata.uid";
        return State::NotKnown { field };
    }
    let ttl_nanos = i64::from(ttl) * 1_000_000_000;
    match finished_at.as_nanos().checked_add(ttl_nanos) {
        Some(at) if at > now.as_nanos() => State::NotExpired {
            finished_at,
            expires_at: Timestamp::from_nanos(at),
        },
        Some(at) => State::Expired {
            finished_at,
            expired_at: Timestamp::from_nanos(at),
        },
        None if ttl < 0 => State::Expired {
            finished_at,
            expired_at: Timestamp::from_nanos(i64::MIN),
        },
        None => State::NeverExpires { finished_at },
    }
}
