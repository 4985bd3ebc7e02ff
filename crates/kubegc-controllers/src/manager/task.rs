//! Tasks, and the effects of their ends on keys.

use std::{borrow::Cow, sync::Arc, time::Duration};

use kubegc_core::{Kept, Preconditions, Timestamp, record::ObjectId};

use super::{
    Cause, Manager, Outcome, Unit,
    schedule::{STALE_DELAY, blocked},
};
use crate::{Action, Controller, End, Found, Key, Steps};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

/// Work of one controller on one key.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Task {
    /// Identifies the task in [`Input::Ended`](super::Input::Ended).
    pub id: TaskId,
    pub controller: Arc<dyn Controller>,
    pub key: Key,
    pub object: ObjectId,
    pub work: Work,
    /// The [cause](Manager::set_cause) of the last change that enqueued the key.
    pub cause: Option<Cause>,
}

#[derive(Clone, Debug)]
pub enum Work {
    Action(Action),
    Steps(Steps),
}

impl Work {
    pub const fn object(&self) -> &ObjectId {
        match self {
            Self::Action(action) => &action.object,
            Self::Steps(steps) => steps.object(),
        }
    }

    /// Converts the work into steps. `verify` makes the reads of an action; off in simulations, where nothing
    /// can have changed.
    pub fn into_steps(self, verify: bool) -> Steps {
        match self {
            Self::Action(action) => action.into_steps(verify),
            Self::Steps(steps) => steps,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    unit: Unit,
    object: ObjectId,
    /// The code of the reason of an action.
    action: Option<&'static str>,
}

impl Manager {
    /// The next task of the last reconcile. Work that a change has overtaken is dropped: its key is
    /// reconciled again.
    pub(super) fn hand_out(&mut self) -> Option<Task> {
        let (unit, mut works) = self.pending.take()?;
        let running = &self.controllers[unit.controller];
        let is_periodic = running.timing.period.is_some();
        let controller = Arc::clone(&running.controller);
        let mut task = None;
        while task.is_none()
            && let Some(work) = works.pop_front()
        {
            if !is_periodic && self.queue.is_due(&unit, self.now) {
                works.clear();
            } else if !self.is_overtaken(&work) {
                let id = TaskId(self.next_id);
                self.next_id = self.next_id.wrapping_add(1);
                let in_flight = InFlight {
                    unit: unit.clone(),
                    object: work.object().clone(),
                    action: match &work {
                        Work::Action(action) => Some(action.reason.code()),
                        Work::Steps(_) => None,
                    },
                };
                self.in_flight.insert(id, in_flight);
                self.queue.begin(&unit);
                task = Some(Task {
                    id,
                    controller: Arc::clone(&controller),
                    key: unit.key.clone(),
                    object: work.object().clone(),
                    work,
                    cause: self.causes.get(&unit).copied(),
                });
            }
        }
        if works.is_empty() {
            self.finish(&unit, Outcome::Neither);
        } else {
            self.pending = Some((unit, works));
        }
        task
    }

    /// Returns whether the object of an action no longer exists, or has changed since it was decided on.
    fn is_overtaken(&self, work: &Work) -> bool {
        let Work::Action(action) = work else {
            return false;
        };
        let Some(record) = self.record(&action.object) else {
            return true;
        };
        let Preconditions { resource_version, .. } = &action.precondition;
        let version = resource_version.as_ref();
        version.is_some_and(|version| *version != record.meta.resource_version)
    }

    /// Returns whether an action has been performed for the same reason and its object has not changed since.
    pub(super) fn is_repeated(&self, controller: usize, action: &Action) -> bool {
        let key = (controller, action.object.clone(), action.reason.code());
        let Some(left_at) = self.left_at.get(&key) else {
            return false;
        };
        self.record(&action.object)
            .is_some_and(|record| record.meta.resource_version == *left_at)
    }

    pub(super) fn end(&mut self, task: TaskId, end: End) {
        let Some(InFlight { unit, object, action }) = self.in_flight.remove(&task) else {
            return;
        };
        if self.is_simulation
            && end == End::Done
            && let Some(code) = action
            && let Some(record) = self.record(&object)
        {
            let version = record.meta.resource_version.clone();
            let key = (unit.controller, object.clone(), code);
            self.left_at.insert(key, version);
        }
        let outcome = match end {
            End::Done | End::Kept(_) => Outcome::Succeeded,
            End::Unknown(reason) => {
                self.record_unknown(&unit, vec![Kept { object, reason }]);
                if !self.is_simulation {
                    self.enqueue_for_resync(&unit);
                }
                Outcome::Neither
            }
            End::Stale(found) => {
                self.stale(&unit, found);
                Outcome::Neither
            }
            End::Cloud(response) => {
                if self.record(&object).is_some() {
                    self.cloud.insert(unit.clone(), response);
                    // The response belongs to this sync, not to the next one.
                    self.queue.add_at(&unit, self.now);
                }
                Outcome::Neither
            }
            End::RequeueAfter { after, .. } => {
                self.enqueue(&unit, self.now.saturating_add(after));
                Outcome::Neither
            }
            End::Failed { is_retried: true, .. } => Outcome::Failed,
            End::Failed { .. } => {
                self.enqueue_for_resync(&unit);
                Outcome::Neither
            }
        };
        self.finish(&unit, outcome);
    }

    /// Enqueues a key for the next periodic sync or resync, if the controller has either.
    fn enqueue_for_resync(&mut self, unit: &Unit) {
        let timing = self.controllers[unit.controller].timing;
        if let Some(resync) = timing.resync {
            self.enqueue(unit, self.now.saturating_add(resync));
        } else if timing.period.is_some() {
            self.enqueue(unit, self.now);
        }
    }

    /// Puts the results of live reads into the cache and enqueues the key, at once unless it was already
    /// stale at this time.
    fn stale(&mut self, unit: &Unit, found: Vec<Found>) {
        let mut is_known = true;
        for found in found {
            is_known &= self.cache.has(found.resource);
            let record = found.record.map(Cow::Owned);
            self.change(found.resource, &found.key, record);
        }
        let last: Option<Timestamp> = self.stale_at.insert(unit.clone(), self.now);
        let is_first = is_known && last != Some(self.now);
        let delay = if is_first { Duration::ZERO } else { STALE_DELAY };
        self.queue.add_at(unit, self.now.saturating_add(delay));
    }

    /// A task that kept a key busy has ended. If all have and any failed, the key is retried.
    pub(super) fn finish(&mut self, unit: &Unit, outcome: Outcome) {
        let Some(failures) = self.queue.end(unit, outcome) else {
            return;
        };
        let timing = self.controllers[unit.controller].timing;
        if timing.blocks_on_failure {
            let (until, again_at) = blocked(&timing, self.now, failures);
            return self.queue.block(unit, until, again_at);
        }
        self.enqueue(unit, self.now.saturating_add(timing.retry_delay(failures)));
    }
}
