//! The plan of a policy: a run in which every removal succeeds, and the reasons for all images.

use std::sync::Arc;

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp};

use super::{
    Action, Hook, Run, Policy, Reason, Response, Subject, Summary, Task, choice::Fate, step::Wanted,
};
use crate::{GoDuration, Inventory};

impl Planner for Policy {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    fn plan(&self, inventory: &Inventory, now: Timestamp) -> PlanOf<Self> {
        let records = inventory.image_records.clone();
        let mut run = Run::new(*self, self.task, records, inventory.image_gc_began_at, now);
        let mut response = None;
        // Terminates: a run lists once, measures once, and removes each image at most twice.
        loop {
            response = match run.next_wanted(response) {
                Wanted::Listing => Some(Response::Listed { inventory, at: now }),
                Wanted::Measurement => Some(Response::Measured(inventory.image_file_system.clone())),
                Wanted::Removal => Some(Response::Removed(Ok(()))),
                Wanted::Nothing => return run.finish(),
            };
        }
    }
}

impl Run<'_> {
    /// The actions of the run, and the reasons for kept images. Removals that failed are among the actions,
    /// and their images are kept.
    ///
    /// For an unfinished run: its actions so far.
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
        self.forget_removed();
        let outcome = self.outcome;
        let usage = self.usage;
        Plan {
            actions: outcome.actions,
            kept,
            findings: outcome.findings,
            next_at,
            summary: Summary {
                records: self.records,
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

    /// The reason why each image is kept, in the order of their keys.
    fn kept(&mut self, images: &[Arc<kubegc_core::node_facts::Image>]) -> Vec<Kept<Subject, Reason>> {
        // Position of each record's candidate.
        let mut candidate_of = vec![u32::MAX; self.choice.listed.len()];
        for (at, candidate) in (0_u32..).zip(&self.choice.candidates) {
            candidate_of[candidate.record as usize] = at;
        }
        let mut kept = Vec::with_capacity(self.choice.listed.len());
        let waiting = self.waiting();
        for (at, &candidate) in candidate_of.iter().enumerate() {
            let reason = if self.choice.listed[at].in_use {
                Reason::InUse
            } else if self.records.sorted[at].pinned {
                Reason::Pinned
            } else {
                match self.choice.fates.get(candidate as usize) {
                    None => Reason::InvalidId,
                    Some(Fate::Removed) => continue,
                    Some(Fate::Failed(why)) => Reason::RemovalFailed(why.clone()),
                    Some(Fate::UsedSince) => Reason::UsedSince,
                    Some(Fate::TooYoung) => Reason::TooYoung {
                        age: self.choice.candidates[candidate as usize].age(self.now),
                        age_min: self.policy().thresholds.age_min,
                    },
                    Some(Fate::Waiting) => waiting.clone(),
                }
            };
            kept.push(Kept {
                object: Subject::Image(self.choice.take(at, images)),
                reason,
            });
        }
        kept
    }

    /// The reason for images that were not considered.
    fn waiting(&self) -> Reason {
        match (&self.outcome.error, self.outcome.freed, self.usage) {
            (_, Some(freed_bytes), _) => Reason::EnoughFreed { freed_bytes },
            (Some(error), None, _) => Reason::RunEnded(Box::new(error.clone())),
            (_, None, Some(usage)) if usage.overflow => Reason::ArithmeticOverflow,
            (_, None, Some(usage)) => Reason::BelowThreshold {
                usage_percent: usage.percent,
                high_percent: self.policy().thresholds.high_percent,
            },
            (_, None, None) => Reason::OnlyDetected,
        }
    }

    /// When the same facts can give another plan: an image reaches the minimum age, or has been unused for
    /// too long.
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
        let ages = self
            .policy()
            .semantics
            .version
            .has(crate::semantics::behavior::MAXIMUM_AGE)
            && self.task() == Task::Collect
            && thresholds.age_max != GoDuration::ZERO;
        // Ages are compared strictly, so the age step starts one nanosecond later.
        let watched = after(self.image_gc_began_at(), thresholds.age_max, 1);
        let candidates = self.choice.candidates.iter().zip(&self.choice.fates);
        let times = candidates.filter_map(|(candidate, fate)| {
            let young = match (fate, candidate.first_detected) {
                (Fate::TooYoung, Some(detected)) => Some(after(detected, thresholds.age_min, 0)),
                // Used at this instant or later: one nanosecond later this no longer applies.
                (Fate::UsedSince, _) => candidate.last_used.map(|used| after(used, GoDuration::ZERO, 1)),
                _ => None,
            };
            // An image that is removed to make room, too: after it is removed by age, other images make room.
            let unused = ages.then(|| {
                let idle = candidate.last_used.map(|used| after(used, thresholds.age_max, 1));
                idle.map_or(watched, |idle| idle.max(watched))
            });
            // The end of time means never.
            let is_ahead = |&at: &Timestamp| at > self.now && at.as_nanos() < i64::MAX;
            [young, unused].into_iter().flatten().filter(is_ahead).min()
        });
        times.min()
    }

    fn hook(&self) -> Hook {
        let id = |&at: &usize| {
            let record = &self.records.sorted[self.choice.candidates[at].record as usize];
            let images = self
                .inventory
                .and_then(|inventory| inventory.images.as_ref().ok());
            let listed = self.choice.listed[self.choice.candidates[at].record as usize];
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

    /// [N3.45](crate::rules#n3-45): removes the records of removed images.
    fn forget_removed(&mut self) {
        let mut removed = vec![false; self.records.sorted.len()];
        for (candidate, fate) in self.choice.candidates.iter().zip(&self.choice.fates) {
            removed[candidate.record as usize] = *fate == Fate::Removed;
        }
        let mut at = 0;
        self.records.sorted.retain(|_| {
            at += 1;
            !removed[at - 1]
        });
    }
}
