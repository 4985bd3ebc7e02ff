//! The writes of one sync of a Job, in their order.

use std::collections::BTreeSet;

use kubegc_core::record::JobCounts;

use super::TRACKING_FINALIZER;
use crate::{prelude::*, request::server_message};

/// A pod that is deleted or loses the finalizer.
#[derive(Debug)]
pub(super) struct PodWork {
    pub(super) id: ObjectId,
    pub(super) meta: SharedMeta,
    pub(super) removes_finalizer: bool,
    pub(super) reason: Reason,
}

impl PodWork {
    async fn remove_finalizer(&self, wire: Wire, port: &Port) -> Result<Option<SharedMeta>, StoreError> {
        port.set_reason(self.reason.clone());
        let precondition = wire.preconditions(&self.meta, Sent::Nothing);
        let change = FieldChange::RemoveFinalizer(TRACKING_FINALIZER);
        port.write(Write::patch(&self.id, precondition, change)).await
    }
}

#[derive(Debug)]
pub(super) struct SyncWork {
    id: ObjectId,
    meta: SharedMeta,
    wire: Wire,
    pub(super) deletes: Vec<PodWork>,
    pub(super) finalizer_removals: Vec<PodWork>,
    pub(super) counts: JobCounts,
    pub(super) with_finalizer: BTreeSet<Uid>,
    /// Whether the counts differ from the status.
    pub(super) is_flushed: bool,
    pub(super) announcement: Option<Condition>,
    pub(super) end: Option<Condition>,
}

impl SyncWork {
    pub(super) fn new(id: &ObjectId, record: &Record, wire: Wire) -> Self {
        Self {
            id: id.clone(),
            meta: record.meta.clone(),
            wire,
            deletes: Vec::new(),
            finalizer_removals: Vec::new(),
            counts: JobCounts::default(),
            with_finalizer: BTreeSet::new(),
            is_flushed: false,
            announcement: None,
            end: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deletes.is_empty()
            && self.finalizer_removals.is_empty()
            && !self.is_flushed
            && self.announcement.is_none()
            && self.end.is_none()
    }
}

/// Moves the uids of pods without the finalizer to the counts. Returns whether there were any.
pub(super) fn count_without_finalizer(counts: &mut JobCounts, with_finalizer: &BTreeSet<Uid>) -> bool {
    let move_to = |count: &mut i32, uncounted: &mut Vec<Uid>| {
        let before = uncounted.len();
        uncounted.retain(|uid| with_finalizer.contains(uid));
        let moved = before.saturating_sub(uncounted.len());
        *count = count.saturating_add(i32::try_from(moved).unwrap_or(i32::MAX));
        moved > 0
    };
    let succeeded = move_to(&mut counts.succeeded, &mut counts.uncounted_succeeded);
    move_to(&mut counts.failed, &mut counts.uncounted_failed) | succeeded
}

/// Sends the writes in the order of upstream: surplus pods, the status, the finalizers, the status that
/// counts them, the event.
pub(super) async fn perform(work: Arc<SyncWork>, port: Port) -> Result<End, End> {
    let mut failure = None;
    for pod in &work.deletes {
        if let Err(error) = delete(&work, pod, &port).await {
            failure.get_or_insert(error);
        }
    }
    if let Some(error) = failure {
        return Err(error.into());
    }
    let mut job = work.meta.clone();
    let mut counts = work.counts.clone();
    if work.is_flushed || work.announcement.is_some() {
        port.set_reason(Reason::new("PodsCounted", "its status counts its finished pods"));
        let mut changes = Vec::new();
        if work.is_flushed {
            changes.push(FieldChange::JobCounts(Box::new(counts.clone())));
        }
        changes.extend(work.announcement.clone().map(FieldChange::Condition));
        port.update(&work.id, &mut job, work.wire, "status", changes)
            .await?;
    }
    let mut with_finalizer = work.with_finalizer.clone();
    for pod in &work.finalizer_removals {
        match pod.remove_finalizer(work.wire, &port).await {
            Ok(_) | Err(StoreError::NotFound) => {
                with_finalizer.remove(&pod.id.uid);
            }
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    let mut changes = Vec::new();
    if count_without_finalizer(&mut counts, &with_finalizer) {
        changes.push(FieldChange::JobCounts(Box::new(counts.clone())));
    }
    let is_counted = counts.uncounted_succeeded.is_empty() && counts.uncounted_failed.is_empty();
    let end = work.end.as_ref().filter(|_| failure.is_none() && is_counted);
    changes.extend(end.cloned().map(FieldChange::Condition));
    if !changes.is_empty() {
        port.set_reason(Reason::new("PodsCounted", "its status counts its finished pods"));
        port.update(&work.id, &mut job, work.wire, "status", changes)
            .await?;
    }
    if let Some(end) = end {
        let event = match &*end.condition_type {
            "Complete" => EventRequest::new(&work.id, false, "Completed", "Job completed"),
            _ => EventRequest::new(&work.id, true, &end.reason, &*end.message),
        };
        port.event(event).await;
    }
    Ok(failure.map_or(End::Done, End::failed))
}

/// Deletes a pod, after its finalizer if that is to be removed first.
async fn delete(work: &SyncWork, pod: &PodWork, port: &Port) -> Result<(), StoreError> {
    let mut meta = pod.meta.clone();
    if pod.removes_finalizer {
        match pod.remove_finalizer(work.wire, port).await {
            Ok(written) => {
                meta.resource_version = written
                    .map(|meta| meta.resource_version.clone())
                    .unwrap_or_default();
            }
            Err(StoreError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    port.set_reason(pod.reason.clone());
    let options = work.wire.options(DeleteOptions::default(), &meta, Sent::Nothing);
    let deleted = port.delete(pod.id.clone(), options).await;
    let (is_warning, reason, message) = match &deleted {
        Err(StoreError::NotFound) => return Ok(()),
        Ok(()) => (false, "SuccessfulDelete", format!("Deleted pod: {}", pod.id.name)),
        Err(error) => {
            let message = format!("Error deleting: {}", server_message(error));
            (true, "FailedDelete", message)
        }
    };
    port.event(EventRequest::new(&work.id, is_warning, reason, message))
        .await;
    deleted
}
