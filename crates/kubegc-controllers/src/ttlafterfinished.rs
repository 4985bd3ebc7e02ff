//! Deletes Jobs whose time to live after finishing has expired.
//!
//! The rules are [L2.1](crate::rules#l2-1) to [L2.8](crate::rules#l2-8), and
//! [L2.10](crate::rules#l2-10).
//!
//! Without a transition time upstream fails and retries with backoff, although only a change of the Job can
//! help. Here only a change reconciles the Job again.
//!
//! # Upstream
//! [`processJob` and
//! `processTTL`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/ttlafterfinished/ttlafterfinished_controller.go)
//! in `ttlafterfinished_controller.go`.

use kubegc_core::PropagationPolicy;

use crate::{prelude::*, reason::age};

/// The feature gate `TTLAfterFinished`: alpha and off from 1.12, beta and on from 1.21, locked from 1.23.
const TTL_AFTER_FINISHED: Behavior = Behavior::since(21, 0, "feature gate TTLAfterFinished is beta");

#[derive(Clone, Copy, Debug)]
pub struct TtlAfterFinished {
    /// Whether the feature gate `TTLAfterFinished` is on. Off, finished Jobs are kept.
    pub is_enabled: bool,
}

impl TtlAfterFinished {
    /// Upstream's default in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            is_enabled: version.has(TTL_AFTER_FINISHED),
        }
    }
}

/// When a Job that finished at this time expires; `None` beyond what a [`Timestamp`] can represent. Negative
/// TTLs, which the API server refuses, count as they are.
fn expiry(finished_at: Timestamp, ttl_seconds: i32) -> Option<Timestamp> {
    let ttl = Duration::from_secs(u64::from(ttl_seconds.unsigned_abs()));
    if ttl_seconds < 0 {
        Some(finished_at.saturating_sub(ttl))
    } else {
        finished_at.checked_add(ttl)
    }
}

static INFO: Info = Info {
    name: "ttl-after-finished-controller",
    summary: "deletes finished Jobs whose TTL has expired",
    resources: &[Resource::Jobs],
    permissions: &[(Resource::Jobs, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/ttlafterfinished/ttlafterfinished_controller.go",
    ..Info::BASE
};

impl Controller for TtlAfterFinished {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if !self.is_enabled {
            return id.keep("Disabled", "the feature gate TTLAfterFinished is off");
        }
        if record.meta.is_deleting() {
            return id.keep("Terminating", "it is being deleted");
        }
        let job = id.body(record, Record::job)?;
        let unread = |field| Err(Missing::field(id, field));
        let (ttl_seconds, finished) = match (&job.ttl_seconds_after_finished, job.finished()) {
            (Field::Known(None), _) => return id.keep("NoTtl", "spec.ttlSecondsAfterFinished is not set"),
            (_, Some(None)) => return id.keep("NotFinished", "it has not finished"),
            (Field::Unread, _) => return unread("spec.ttlSecondsAfterFinished"),
            (_, None) => return unread("status.conditions"),
            (Field::Known(Some(ttl_seconds)), Some(Some(finished))) => (*ttl_seconds, finished),
        };
        let Some(finished_at) = finished.last_transition_time else {
            let message = format!(
                "unable to find the time when the Job {}/{} finished",
                id.namespace, id.name
            );
            return id.keep("NoFinishTime", message);
        };
        let Some(expires_at) = expiry(finished_at, ttl_seconds) else {
            return id.keep("NeverExpires", "its time to live ends after the year 2262");
        };
        if expires_at > cx.now {
            let mut decision = Decision::default();
            if cx.notes_kept {
                let message = format!("its time to live ends in {}", age(expires_at.since(cx.now)));
                decision.add_kept(id.clone(), Reason::new("TtlNotExpired", message));
            }
            return Ok(decision.requeue_at(expires_at));
        }
        let message = format!(
            "it finished {} ago, and spec.ttlSecondsAfterFinished is {ttl_seconds}",
            age(cx.now.since(finished_at))
        );
        let action = Action::new(Resource::Jobs, &record.meta, Reason::new("TtlExpired", message))
            .after_reading(Read::unchanged(Resource::Jobs, record))
            .delete(
                cx.wire,
                Sent::Uid,
                DeleteOptions::policy(PropagationPolicy::Foreground),
            )
            .on_error(OnError::Retry);
        Ok(action.into())
    }
}
