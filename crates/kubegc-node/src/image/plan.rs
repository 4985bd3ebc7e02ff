//! The plan of a policy: a run in which every removal succeeds, with a reason for every image.

use std::sync::Arc;

use kubegc_core::{Kept, PlanOf, Planner, Timestamp};

use super::{
    Action, FreeSpace, Hook, Reason, Records, Response, Run, Step, Subject, Summary, Task,
    candidates::Candidate, detect::ImageState,
};
use crate::{GoDuration, Inventory};

impl Planner for FreeSpace {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    fn plan(&self, inventory: &Inventory, now: Timestamp) -> PlanOf<Self> {
        let records = inventory.image_records.clone();
        let mut run = Run::new(*self, records, inventory.image_gc_began_at, now);
        let mut response = None;
        // Terminates: a run lists once, measures once, and removes each image at most twice.
        loop {
            response = match run.next(response) {
                Step::List => Some(Response::Listed { inventory, at: now }),
                Step::Measure => Some(Response::Measured(inventory.image_file_system.clone())),
                Step::Remove(_) => Some(Response::Removed(Ok(()))),
                Step::Done => return run.finish(),
            };
        }
    }
}

impl Run {
    /// The actions of the run, and the reasons for kept images. If a removal failed, the plan contains its
    /// action, and the image is in `kept`.
    ///
    /// For an unfinished run: the actions so far.
    pub fn finish(mut self) -> PlanOf<FreeSpace> {
        self.plan.kept = self.kept();
        self.plan.next_at = self.next_at();
        self.plan.summary.hook = self.hooks_run.then(|| self.hook());
        self.plan.summary.records = self.remaining_records();
        self.plan
    }

    /// The kept images with their reasons, sorted by key.
    fn kept(&self) -> Vec<Kept<Subject, Reason>> {
        let not_considered = self.not_considered();
        let kept = self.listed.iter().filter_map(|listed| {
            let reason = match &listed.state {
                ImageState::NotConsidered => &not_considered,
                ImageState::Kept(reason) => reason,
                ImageState::Removed => return None,
            };
            Some(Subject::from(&listed.image).because(reason.clone()))
        });
        kept.collect()
    }

    fn not_considered(&self) -> Reason {
        match (
            &self.plan.summary.error,
            self.plan.summary.freed_bytes,
            self.usage,
        ) {
            (_, Some(freed_bytes), _) => Reason::EnoughFreed { freed_bytes },
            (Some(error), None, _) => Reason::RunFailed(Box::new(error.clone())),
            (_, None, Some(usage)) if usage.overflow => Reason::ArithmeticOverflow,
            (_, None, Some(usage)) => Reason::BelowThreshold {
                usage_percent: usage.percent,
                high_percent: self.policy.thresholds.high_percent,
            },
            (_, None, None) => Reason::OnlyDetected,
        }
    }

    /// The earliest time at which the same facts lead to another plan: an image reaches the minimum age, or
    /// exceeds the maximum age.
    fn next_at(&self) -> Option<Timestamp> {
        if self.policy.task == Task::Detect {
            return None;
        }
        let thresholds = self.policy.thresholds;
        let after = |from: Timestamp, by: GoDuration, nanos: i64| {
            Timestamp::from_nanos(
                from.as_nanos()
                    .saturating_add(by.as_nanos())
                    .saturating_add(nanos),
            )
        };
        let has_age_max = self
            .policy
            .semantics
            .version
            .has(crate::semantics::behavior::MAXIMUM_AGE)
            && self.policy.task == Task::Collect
            && thresholds.age_max != GoDuration::ZERO;
        // The maximum age must be exceeded, so it applies one nanosecond later.
        let applies_at = after(self.image_gc_began_at, thresholds.age_max, 1);
        let times = self.candidates.iter().filter_map(|candidate| {
            let Candidate {
                first_detected,
                last_used,
                record,
            } = *candidate;
            let reconsidered = match self.listed[record].state {
                ImageState::Kept(Reason::TooYoung { .. }) => {
                    first_detected.map(|detected| after(detected, thresholds.age_min, 0))
                }
                // An image is kept if it was used at `now` or later. One nanosecond after its use this ends.
                ImageState::Kept(Reason::UsedSince) => last_used.map(|used| after(used, GoDuration::ZERO, 1)),
                _ => None,
            };
            // Also for an image that this plan removes to free space: later it is removed because of its age,
            // and other images are removed to free space.
            let exceeds_age_max = has_age_max.then(|| {
                let idle = last_used.map(|used| after(used, thresholds.age_max, 1));
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
        let considered = self.considered.iter();
        Hook {
            remaining: considered
                .map(|&record| Arc::clone(&self.listed[record].image.id))
                .collect(),
            began_at: self.now,
        }
    }

    /// [N3.45](crate::rules#n3-45): the records without those of removed images.
    fn remaining_records(&mut self) -> Records {
        let mut records = std::mem::take(&mut self.records);
        let mut listed = self.listed.iter();
        records.sorted.retain(|_| {
            listed
                .next()
                .is_none_or(|listed| listed.state != ImageState::Removed)
        });
        records
    }
}
