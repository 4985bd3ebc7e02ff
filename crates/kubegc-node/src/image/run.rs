//! One run over the images of a node, step by step: list, measure the disk, remove one image after the
//! other.

use std::sync::Arc;

use kubegc_core::{Kept, RuntimeError, Timestamp, node_facts::FileSystem};

use super::{
    Action, Arithmetic, Error, Policy, Reason, Records, RemovalReason, Subject, Task, Wording,
    choice::{Candidate, Choice, Fate},
    detect::detect,
    step::{Outcome, Response, Step, Wanted},
    usage::{Usage, usage},
};
use crate::{Inventory, Listing, aggregate, event, semantics::behavior};

/// One run over the images of a node ([N6.1](crate::rules#n6-1)). `'a`: the listing.
///
/// # Guarantees
/// If all steps succeed with the facts of one inventory, it performs the plan of the [`Policy`] in order.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    policy: Policy,
    task: Task,
    /// The start of the run: upstream's `freeTime`.
    pub(super) now: Timestamp,
    image_gc_began_at: Timestamp,
    /// Whether new records have no first detection, whatever the version does.
    with_zero_detection_time: bool,
    state: State,
    pub(super) records: Records,
    pub(super) inventory: Option<&'a Inventory>,
    pub(super) choice: Choice,
    /// Errors of removals in the current stage.
    errors: Vec<String>,
    pub(super) usage: Option<Usage>,
    pub(super) outcome: Outcome,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listing,
    /// Before the candidate at this position, in the age step.
    Age(usize),
    Measuring,
    /// Before the candidate at this position, in the space step.
    Space(usize),
    /// Waiting for the removal of the candidate at this position.
    Removing {
        at: usize,
        by_age: bool,
    },
    Done,
}

impl<'a> Run<'a> {
    /// Creates a run. `image_gc_began_at`: the start of image collection on this node.
    #[must_use]
    pub fn new(
        policy: Policy,
        task: Task,
        records: Records,
        image_gc_began_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let disk_first = task == Task::Collect && !policy.semantics.version.has(behavior::MAXIMUM_AGE);
        Self {
            policy,
            task,
            now,
            image_gc_began_at,
            with_zero_detection_time: false,
            state: if disk_first {
                State::Measuring
            } else {
                State::Listing
            },
            records,
            inventory: None,
            choice: Choice::default(),
            errors: Vec::new(),
            usage: None,
            outcome: Outcome::default(),
        }
    }

    /// Makes new images infinitely old, so that no minimum age protects them ([N3.14](crate::rules#n3-14)).
    ///
    /// # Upstream
    /// [`detectImages`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/kubelet/images/image_gc_manager.go)
    /// with the zero time, as the first detection of kubelets up to 1.28.
    #[must_use]
    pub const fn with_zero_detection_time(mut self) -> Self {
        self.with_zero_detection_time = true;
        self
    }

    /// Processes the result of the last step, and returns the next. The result of another step is ignored,
    /// and the same step returned again.
    pub fn next(&mut self, response: Option<Response<'a>>) -> Step {
        match self.next_wanted(response) {
            Wanted::Listing => Step::List,
            Wanted::Measurement => Step::Measure,
            Wanted::Removal => match self.outcome.actions.last() {
                Some(action) => Step::Remove(action.clone()),
                None => Step::Done,
            },
            Wanted::Nothing => Step::Done,
        }
    }

    /// The same, with the action left in place: it is the last of the outcome.
    pub(super) fn next_wanted(&mut self, response: Option<Response<'a>>) -> Wanted {
        match (self.state, response) {
            (State::Listing, Some(Response::Listed { inventory, at })) => self.listed(inventory, at),
            (State::Measuring, Some(Response::Measured(measured))) => self.measured(measured),
            (State::Removing { at, by_age }, Some(Response::Removed(result))) => {
                self.removed(at, by_age, result);
            }
            _ => {}
        }
        self.advance()
    }

    /// The candidates in the order of removal, after images were listed.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.choice.candidates
    }

    /// The current records: updated when images were listed. Records of removed images stay until the run
    /// ends.
    #[must_use]
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Returns whether images have been listed.
    #[must_use]
    pub const fn has_listed(&self) -> bool {
        self.inventory.is_some()
    }

    /// [N3.17](crate::rules#n3-17) to [N3.19](crate::rules#n3-19).
    fn listed(&mut self, inventory: &'a Inventory, at: Timestamp) {
        let records = std::mem::take(&mut self.records);
        let first_seen = self.task == Task::Detect
            && !records.detected
            && !self
                .policy
                .semantics
                .version
                .has(behavior::FIRST_DETECTION_IS_NOW);
        let first_detected = (!first_seen && !self.with_zero_detection_time).then_some(self.now);
        let findings = &mut self.outcome.findings;
        match detect(&self.policy, records, inventory, first_detected, at, findings) {
            Err((records, error)) => {
                self.records = records;
                if let Error::UseUnknown(container) = &error {
                    self.outcome.findings.push(Kept {
                        object: Subject::Container(Arc::clone(container)),
                        reason: Reason::UseUnknown,
                    });
                }
                self.fail(error);
            }
            Ok(detected) => {
                self.inventory = Some(inventory);
                self.records = detected.records;
                self.choice = Choice::new(&self.policy, &self.records, detected.listed, detected.shared);
                self.outcome
                    .findings
                    .extend(self.choice.findings(inventory, &self.records, self.now));
                self.begin();
            }
        }
    }

    /// Continues after a successful listing.
    fn begin(&mut self) {
        match self.task {
            Task::Detect => {
                self.records.detected = true;
                self.state = State::Done;
                return;
            }
            Task::DeleteUnused => self.make_room(i64::MAX),
            Task::Free { bytes } => self.make_room(bytes),
            Task::Collect => match self.usage {
                // The disk was measured first.
                Some(usage) => self.make_room(usage.to_free_bytes.unwrap_or(0)),
                None => self.state = State::Age(0),
            },
        }
        let invalid = self.choice.invalid();
        for _ in 0..invalid {
            let reason = event::reason::IMAGE_ID_IS_NOT_VALID;
            self.outcome.events.push(event::Event::warning(reason, ""));
        }
    }

    fn make_room(&mut self, bytes: i64) {
        self.outcome.wanted = Some(bytes);
        self.outcome.freed = Some(0);
        self.state = State::Space(0);
    }

    /// [N3.30](crate::rules#n3-30) to [N3.33](crate::rules#n3-33).
    fn measured(&mut self, measured: Listing<FileSystem>) {
        let usage = match measured {
            Err(why) => Err(Error::FileSystem(why)),
            Ok(file_system) => usage(&self.policy, &file_system),
        };
        let usage = match usage {
            Ok(usage) => usage,
            Err(error) => {
                if error == Error::InvalidCapacity {
                    let reason = event::reason::INVALID_DISK_CAPACITY;
                    let event = event::Event::warning(reason, error.to_string());
                    self.outcome.events.push(event);
                }
                return self.fail(error);
            }
        };
        self.usage = Some(usage);
        if usage.capped {
            self.find(Reason::AvailableAboveCapacity);
        }
        if usage.overflow {
            self.find(Reason::ArithmeticOverflow);
        }
        match usage.to_free_bytes {
            None => self.state = State::Done,
            Some(_) if self.inventory.is_none() => self.state = State::Listing,
            Some(bytes) => self.make_room(bytes),
        }
    }

    /// Processes the removal of the candidate at this position.
    fn removed(&mut self, at: usize, by_age: bool, result: Result<(), RuntimeError>) {
        match result {
            Err(error) => {
                let text = error.to_string();
                self.choice.fates[at] = Fate::Failed(text.as_str().into());
                self.errors.push(text);
                if !by_age {
                    self.outcome.considered.push(at);
                }
            }
            Ok(()) => {
                self.choice.fates[at] = Fate::Removed;
                let size_bytes = self.choice.size(at, &self.records);
                if by_age {
                    self.outcome.freed_by_age = self.add(self.outcome.freed_by_age, size_bytes);
                } else {
                    let freed = self.add(self.outcome.freed.unwrap_or(0), size_bytes);
                    self.outcome.freed = Some(freed);
                    if self
                        .outcome
                        .wanted
                        .is_some_and(|wanted| self.is_enough(freed, wanted))
                    {
                        return self.room_made();
                    }
                }
            }
        }
        self.state = if by_age {
            State::Age(at + 1)
        } else {
            State::Space(at + 1)
        };
    }

    /// The sum of the freed bytes and a size: wrapping as upstream, or saturating.
    const fn add(&self, freed: i64, size_bytes: u64) -> i64 {
        match self.policy.arithmetic {
            Arithmetic::Upstream => freed.wrapping_add(size_bytes.cast_signed()),
            Arithmetic::Checked => freed.saturating_add_unsigned(size_bytes),
        }
    }

    /// Returns whether enough was freed. If everything is to be removed, a saturated sum does not end the
    /// run ([N3.46](crate::rules#n3-46), [N3.47](crate::rules#n3-47)).
    fn is_enough(&self, freed: i64, wanted: i64) -> bool {
        freed >= wanted && (wanted < i64::MAX || self.policy.arithmetic == Arithmetic::Upstream)
    }

    /// Advances to the next step that needs the environment.
    fn advance(&mut self) -> Wanted {
        loop {
            match self.state {
                State::Listing => return Wanted::Listing,
                State::Measuring => return Wanted::Measurement,
                State::Removing { .. } => return Wanted::Removal,
                State::Done => return Wanted::Nothing,
                State::Age(at) => self.age(at),
                State::Space(at) => self.space(at),
            }
        }
    }

    /// [N3.37](crate::rules#n3-37) to [N3.40](crate::rules#n3-40), for the candidate at this position.
    fn age(&mut self, at: usize) {
        let age_max = self.policy.thresholds.age_max;
        let applies = self
            .choice
            .age_applies(&self.policy, self.image_gc_began_at, self.now);
        let Some(candidate) = self.choice.candidates.get(at).filter(|_| applies) else {
            match aggregate(std::mem::take(&mut self.errors)) {
                Some(errors) => self.fail(Error::Age {
                    age_max,
                    errors: errors.into(),
                }),
                None => self.state = State::Measuring,
            }
            return;
        };
        let idle = candidate.idle(self.now);
        if idle > age_max {
            self.remove(at, true, RemovalReason::Age { idle, age_max });
        } else {
            self.state = State::Age(at + 1);
        }
    }

    /// [N3.41](crate::rules#n3-41) and [N3.42](crate::rules#n3-42), for the candidate at this position.
    fn space(&mut self, at: usize) {
        let Some(candidate) = self.choice.candidates.get(at) else {
            return self.room_made();
        };
        if self.choice.fates[at] == Fate::Removed {
            self.state = State::Space(at + 1);
            return;
        }
        let fate = if candidate.last_used.is_some_and(|used| used >= self.now) {
            Fate::UsedSince
        } else if candidate.age(self.now) < self.policy.thresholds.age_min {
            Fate::TooYoung
        } else {
            let wanted_bytes = match self.outcome.wanted.unwrap_or(0) {
                i64::MAX => i64::MAX,
                wanted => wanted.wrapping_sub(self.outcome.freed.unwrap_or(0)),
            };
            return self.remove(at, false, RemovalReason::Space { wanted_bytes });
        };
        self.choice.fates[at] = fate;
        self.outcome.considered.push(at);
        self.state = State::Space(at + 1);
    }

    /// Requests the removal of the candidate at this position.
    fn remove(&mut self, at: usize, by_age: bool, reason: RemovalReason) {
        let images = self
            .inventory
            .and_then(|inventory| inventory.images.as_ref().ok());
        let Some(images) = images else {
            // Candidates come from a listing, so there is one.
            self.state = State::Done;
            return;
        };
        let record = self.choice.candidates[at].record as usize;
        self.outcome.actions.push(Action::Remove {
            image: self.choice.take(record, images),
            runtime_handler: Arc::clone(&self.records.sorted[record].runtime_handler),
            reason,
        });
        self.state = State::Removing { at, by_age };
    }

    /// [N3.34](crate::rules#n3-34), [N3.35](crate::rules#n3-35), [N3.43](crate::rules#n3-43),
    /// [N3.46](crate::rules#n3-46) to [N3.48](crate::rules#n3-48).
    fn room_made(&mut self) {
        self.state = State::Done;
        let (wanted, freed) = (self.outcome.wanted.unwrap_or(0), self.outcome.freed.unwrap_or(0));
        if let Some(errors) = aggregate(std::mem::take(&mut self.errors)) {
            return self.fail(Error::Space {
                wanted_bytes: wanted,
                freed_bytes: freed,
                errors: errors.into(),
            });
        }
        self.outcome.hooks_run = self.policy.semantics.pull_records;
        if self.task != Task::Collect || freed >= wanted {
            return;
        }
        self.find(Reason::Shortfall {
            missing_bytes: wanted.saturating_sub(freed),
        });
        let wording = self.wording();
        let error = Error::Insufficient {
            wanted_bytes: wanted,
            freed_bytes: freed,
            wording,
        };
        let reason = event::reason::FREE_DISK_SPACE_FAILED;
        self.outcome
            .events
            .push(event::Event::warning(reason, error.to_string()));
        self.fail(error);
    }

    fn wording(&self) -> Wording {
        let version = self.policy.semantics.version;
        match self.usage {
            Some(usage) if version.has(behavior::REPORTS_DISK_USAGE) => Wording::Disk {
                usage_percent: usage.percent,
                capacity_bytes: usage.capacity_bytes,
            },
            _ if version.has(behavior::REPORTS_ATTEMPTED_BYTES) => Wording::Attempted,
            _ => Wording::Wanted,
        }
    }

    fn fail(&mut self, error: Error) {
        self.outcome.error = Some(error);
        self.state = State::Done;
    }

    fn find(&mut self, reason: Reason) {
        self.outcome.findings.push(Kept {
            object: Subject::Node,
            reason,
        });
    }

    pub(super) const fn task(&self) -> Task {
        self.task
    }

    pub(super) const fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) const fn image_gc_began_at(&self) -> Timestamp {
        self.image_gc_began_at
    }
}
