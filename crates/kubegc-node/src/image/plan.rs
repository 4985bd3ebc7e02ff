//! The plan of a policy: a run in which every removal succeeds, with a reason for every image.

use std::{borrow::Cow, sync::Arc};

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp};

use super::{
    Action, Hook, Policy, Reason, Records, Response, Run, Subject, Summary, Task, candidates::CandidateState,
    step::Needed,
};
use crate::{GoDuration, Inventory};

impl Planner for Policy {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    fn plan(&self, inventory: &Inventory, now: Timestamp) -> PlanOf<Self> {
        let records = Cow::Borrowed(&inventory.image_records);
        let mut run = Run::with_records(*self, self.task, records, inventory.image_gc_began_at, now);
        let mut response = None;
        // Terminates: a run lists once, measures once, and removes each image at most twice.
        loop {
            response = match run.next_needed(response) {
                Needed::Listing => Some(Response::Listed { inventory, at: now }),
                Needed::Measurement => Some(Response::Measured(inventory.image_file_system.clone())),
                Needed::Removal => Some(Response::Removed(Ok(()))),
                Needed::Nothing => return run.finish(),
            };
        }
    }
}

impl Run<'_> {
    /// The actions of the run, and the reasons for kept images. If a removal failed, the plan contains its
    /// action, and the image is in `kept`.
    ///
    /// For an unfinished run: the actions so far.
    pub fn finish(mut self) -> PlanOf<Policy> {
        let images = self
            .inventory
            .and_then(|inventory| inventory.images.as_ref().ok());
        let mut kept = Vec::new();
        if let Some(images) = images {
            kept = self.kept(images);
        }
        let next_at = self.next_at();
        let hook = self.outcome.hooks_run.then(|| self.hook());
        let records = self.remaining_records();
        let outcome = self.outcome;
        let usage = self.usage;
        Plan {
            actions: outcome.actions,
            kept,
            findings: outcome.findings,
            next_at,
            summary: Summary {
                records,
                usage_percent: usage.map(|usage| usage.percent),
                to_free_bytes: usage.and_then(|usage| usage.to_free_bytes),
                freed_bytes: outcome.freed,
                freed_by_age_bytes: outcome.freed_by_age,
                error: outcome.error,
                events: outcome.events,
                hook,
            },
        }
    }

    /// The kept images with their reasons, sorted by key.
    fn kept(&mut self, images: &[Arc<kubegc_core::node_facts::Image>]) -> Vec<Kept<Subject, Reason>> {
        // The index of each record's candidate.
        let mut candidate_of = vec![u32::MAX; self.candidates.listed.len()];
        for (at, candidate) in (0_u32..).zip(&self.candidates.candidates) {
            candidate_of[candidate.record as usize] = at;
        }
        let mut kept = Vec::with_capacity(self.candidates.listed.len());
        let not_considered = self.not_considered();
        for (at, &candidate) in candidate_of.iter().enumerate() {
            let reason = if self.candidates.listed[at].in_use {
                Reason::InUse
            } else if self.records.sorted[at].pinned {
                Reason::Pinned
            } else {
                match self.candidates.states.get(candidate as usize) {
                    None => Reason::InvalidId,
                    Some(CandidateState::Removed) => continue,
                    Some(CandidateState::Failed(error)) => Reason::RemovalFailed(error.clone()),
                    Some(CandidateState::UsedSince) => Reason::UsedSince,
                    Some(CandidateState::TooYoung) => Reason::TooYoung {
                        age: self.candidates.candidates[candidate as usize].age(self.now),
                        age_min: self.policy().thresholds.age_min,
                    },
                    Some(CandidateState::NotConsidered) => not_considered.clone(),
                }
            };
            kept.push(Kept {
                object: Subject::Image(self.candidates.take(at, images)),
                reason,
            });
        }
        kept
    }

    /// The reason for candidates that were not considered.
    fn not_considered(&self) -> Reason {
        match (&self.outcome.error, self.outcome.freed, self.usage) {
            (_, Some(freed_bytes), _) => Reason::EnoughFreed { freed_bytes },
            (Some(error), None, _) => Reason::RunFailed(Box::new(error.clone())),
            (_, None, Some(usage)) if usage.overflow => Reason::ArithmeticOverflow,
            (_, None, Some(usage)) => Reason::BelowThreshold {
                usage_percent: usage.percent,
                high_percent: self.policy().thresholds.high_percent,
            },
            (_, None, None) => Reason::OnlyDetected,
        }
    }

    /// The earliest time at which the same facts lead to another plan: an image reaches the minimum age, or
    /// exceeds the maximum age.
    fn next_at(&self) -> Option<Timestamp> {
        if self.task() == Task::Detect {
            return None;
        }
        let thresholds = self.policy().thresholds;
        let after = |from: Timestamp, by: GoDuration, nanos: i64| {
            Timestamp::from_nanos(
                from.as_nanos()
                    .saturating_add(by.as_nanos())
                    .saturating_add(nanos),
            )
        };
        let has_age_max = self
            .policy()
            .semantics
            .version
            .has(crate::semantics::behavior::MAXIMUM_AGE)
            && self.task() == Task::Collect
            && thresholds.age_max != GoDuration::ZERO;
        // The maximum age must be exceeded, so it applies one nanosecond later.
        let applies_at = after(self.image_gc_began_at(), thresholds.age_max, 1);
        let candidates = self.candidates.candidates.iter().zip(&self.candidates.states);
        let times = candidates.filter_map(|(candidate, fate)| {
            let reconsidered = match (fate, candidate.first_detected) {
                (CandidateState::TooYoung, Some(detected)) => Some(after(detected, thresholds.age_min, 0)),
                // An image is kept if it was used at `now` or later. One nanosecond after its use this ends.
                (CandidateState::UsedSince, _) => {
                    candidate.last_used.map(|used| after(used, GoDuration::ZERO, 1))
                }
                _ => None,
            };
            // Also for an image that this plan removes to free space: later it is removed because of its age,
            // and other images are removed to free space.
            let exceeds_age_max = has_age_max.then(|| {
                let idle = candidate.last_used.map(|used| after(used, thresholds.age_max, 1));
                idle.map_or(applies_at, |idle| idle.max(applies_at))
            });
            // A saturated time means never.
            let is_future = |&at: &Timestamp| at > self.now && at.as_nanos() < i64::MAX;
            [reconsidered, exceeds_age_max]
                .into_iter()
                .flatten()
                .filter(is_future)
                .min()
        });
        times.min()
    }

    fn hook(&self) -> Hook {
        let id = |&at: &usize| {
            let record = &self.records.sorted[self.candidates.candidates[at].record as usize];
            let images = self
                .inventory
                .and_then(|inventory| inventory.images.as_ref().ok());
            let listed = self.candidates.listed[self.candidates.candidates[at].record as usize];
            images.map_or_else(
                || Arc::clone(&record.key),
                |images| Arc::clone(&images[listed.at as usize].id),
            )
        };
        Hook {
            remaining: self.outcome.considered.iter().map(id).collect(),
            began_at: self.now,
        }
    }

    /// [N3.45](crate::rules#n3-45): the records without those of removed images.
    fn remaining_records(&mut self) -> Records {
        let mut removed = vec![false; self.records.sorted.len()];
        for (candidate, fate) in self.candidates.candidates.iter().zip(&self.candidates.states) {
            removed[candidate.record as usize] = *fate == CandidateState::Removed;
        }
        let mut records = std::mem::take(&mut self.records).into_owned();
        let mut removed = removed.into_iter();
        records.sorted.retain(|_| removed.next() == Some(false));
        records
    }
}
