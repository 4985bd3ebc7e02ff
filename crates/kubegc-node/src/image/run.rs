//! Step-by-step execution of an image run: list images, measure the file system, remove one image after the
//! other.

use std::sync::Arc;

use kubegc_core::{PlanOf, RuntimeError, Timestamp, node_facts::FileSystem};

use super::{
    Action, Arithmetic, Error, FreeSpace, Reason, Record, Records, RemovalReason, Subject, Task,
    candidates::{Candidate, candidates, findings as image_findings},
    detect::{ImageState, Listed, detect},
    usage::{Usage, usage},
};
use crate::{Event, GoDuration, Inventory, Listing, aggregate, semantics::behavior};

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// List images and containers, then pass [`Response::Listed`] to the run.
    List,
    /// Measure the image file system, then pass [`Response::Measured`] to the run.
    Measure,
    /// Perform an action, then pass [`Response::Removed`] to the run.
    Remove(Action),
    /// The run is complete.
    Done,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Response<'a> {
    Listed {
        /// The listings. Only images, containers, volumes and the sandbox image are used.
        inventory: &'a Inventory,
        /// The time after the listings were read. It becomes the last use of images in use.
        at: Timestamp,
    },
    /// The capacity and the available bytes of the file system.
    Measured(Listing<FileSystem>),
    Removed(Result<(), RuntimeError>),
}

/// The state machine of one image run ([N6.1](crate::rules#n6-1)).
///
/// # Guarantees
/// If all steps succeed with the facts of one inventory, it performs the actions of the plan of
/// [`FreeSpace`] in order.
#[derive(Clone, Debug)]
pub struct Run {
    pub(super) policy: FreeSpace,
    /// The start of the run: upstream's `freeTime`.
    pub(super) now: Timestamp,
    pub(super) image_gc_began_at: Timestamp,
    /// Whether new records have no time of first detection, in every version.
    zero_detection_time: bool,
    state: State,
    pub(super) records: Records,
    has_listed: bool,
    /// The listed image of each record.
    pub(super) listed: Vec<Listed>,
    /// In the order of removal.
    pub(super) candidates: Vec<Candidate>,
    /// The errors of removals in the current step, by age or for space.
    errors: Vec<String>,
    pub(super) usage: Option<Usage>,
    /// The bytes to free.
    wanted: Option<i64>,
    /// Indexes of the records of images that the space step considered and kept.
    pub(super) considered: Vec<usize>,
    pub(super) hooks_run: bool,
    /// The unfinished plan.
    pub(super) plan: PlanOf<FreeSpace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listing,
    /// The age step is at the candidate with this index.
    Age(usize),
    Measuring,
    /// The space step is at the candidate with this index.
    Space(usize),
    /// The removal of the candidate with this index was requested.
    Removing {
        at: usize,
        by_age: bool,
    },
    Done,
}

impl Run {
    /// Creates a run. `image_gc_began_at`: the start of image collection on this node.
    pub fn new(policy: FreeSpace, records: Records, image_gc_began_at: Timestamp, now: Timestamp) -> Self {
        let measures_first =
            policy.task == Task::Collect && !policy.semantics.version.has(behavior::MAXIMUM_AGE);
        Self {
            policy,
            now,
            image_gc_began_at,
            zero_detection_time: false,
            state: if measures_first {
                State::Measuring
            } else {
                State::Listing
            },
            records,
            has_listed: false,
            listed: Vec::new(),
            candidates: Vec::new(),
            errors: Vec::new(),
            usage: None,
            wanted: None,
            considered: Vec::new(),
            hooks_run: false,
            plan: PlanOf::<FreeSpace>::default(),
        }
    }

    /// Gives new records no time of first detection: the images are infinitely old, and the minimum age does
    /// not protect them ([N3.14](crate::rules#n3-14)).
    ///
    /// # Upstream
    /// [`detectImages`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/kubelet/images/image_gc_manager.go)
    /// with the zero time, as in the first detection of kubelets up to 1.28.
    #[must_use]
    pub const fn with_zero_detection_time(mut self) -> Self {
        self.zero_detection_time = true;
        self
    }

    /// Processes the response to the last step and returns the next step. With `None`, or the response to
    /// another step, nothing changes and the last step is returned again.
    pub fn next(&mut self, response: Option<Response<'_>>) -> Step {
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

    /// The records of the candidates in the order of removal; `None` before images are listed.
    pub fn candidates(&self) -> Option<impl Iterator<Item = &Record>> {
        let candidates = self.candidates.iter();
        let records = candidates.map(|candidate| &self.records.sorted[candidate.record]);
        self.has_listed.then_some(records)
    }

    /// Processes a listing ([N3.17](crate::rules#n3-17) to [N3.19](crate::rules#n3-19)).
    fn listed(&mut self, inventory: &Inventory, at: Timestamp) {
        let is_zero_time = self.policy.task == Task::Detect
            && !self.records.detected
            && !self
                .policy
                .semantics
                .version
                .has(behavior::FIRST_DETECTION_IS_NOW);
        let first_detected = (!is_zero_time && !self.zero_detection_time).then_some(self.now);
        let findings = &mut self.plan.findings;
        match detect(
            &self.policy,
            &self.records,
            inventory,
            first_detected,
            at,
            findings,
        ) {
            Err(error) => {
                if let Error::UseUnknown(container) = &error {
                    self.plan
                        .findings
                        .push(Subject::from(container).because(Reason::UseUnknown));
                }
                self.fail(error);
            }
            Ok(detected) => {
                self.has_listed = true;
                self.candidates = candidates(&self.policy, &detected.records, &detected.listed);
                findings.extend(image_findings(&detected.records, &detected.listed, self.now));
                self.records = detected.records;
                self.listed = detected.listed;
                self.start();
            }
        }
    }

    /// Starts the removals after a successful listing.
    fn start(&mut self) {
        match self.policy.task {
            Task::Detect => {
                self.records.detected = true;
                self.state = State::Done;
                return;
            }
            Task::DeleteUnused => self.free_space(i64::MAX),
            Task::Free { bytes } => self.free_space(bytes),
            Task::Collect => match self.usage {
                // Up to 1.28 the file system was measured first.
                Some(usage) => self.free_space(usage.to_free_bytes.unwrap_or(0)),
                None => self.state = State::Age(0),
            },
        }
        let is_invalid = |listed: &&Listed| listed.state == ImageState::Kept(Reason::InvalidId);
        for _ in self.listed.iter().filter(is_invalid) {
            // Upstream does not fill in the verb.
            let reason = "ImageID is not valid, skipping, ImageID: %v";
            self.plan.summary.events.push(Event::warning(reason, ""));
        }
    }

    fn free_space(&mut self, bytes: i64) {
        self.wanted = Some(bytes);
        self.plan.summary.freed_bytes = Some(0);
        self.state = State::Space(0);
    }

    /// Processes a measurement ([N3.30](crate::rules#n3-30) to [N3.33](crate::rules#n3-33)).
    fn measured(&mut self, measured: Listing<FileSystem>) {
        let usage = match measured {
            Err(error) => Err(Error::FileSystem(error)),
            Ok(file_system) => usage(&self.policy, &file_system).ok_or(Error::InvalidCapacity),
        };
        let usage = match usage {
            Ok(usage) => usage,
            Err(error) => {
                if error == Error::InvalidCapacity {
                    let event = Event::warning("InvalidDiskCapacity", error.to_string());
                    self.plan.summary.events.push(event);
                }
                return self.fail(error);
            }
        };
        self.usage = Some(usage);
        self.plan.summary.usage_percent = Some(usage.percent);
        self.plan.summary.to_free_bytes = usage.to_free_bytes;
        if usage.capped {
            self.add_finding(Reason::AvailableAboveCapacity);
        }
        if usage.overflow {
            self.add_finding(Reason::ArithmeticOverflow);
        }
        match usage.to_free_bytes {
            None => self.state = State::Done,
            Some(_) if !self.has_listed => self.state = State::Listing,
            Some(bytes) => self.free_space(bytes),
        }
    }

    /// Processes the result of the removal of the candidate with this index.
    fn removed(&mut self, at: usize, by_age: bool, result: Result<(), RuntimeError>) {
        let record = self.candidates[at].record;
        match result {
            Err(error) => {
                let text = error.to_string();
                self.listed[record].state = ImageState::Kept(Reason::RemovalFailed(text.as_str().into()));
                self.errors.push(text);
                self.considered.push(record);
            }
            Ok(()) => {
                self.listed[record].state = ImageState::Removed;
                let size_bytes = self.records.sorted[record].size_bytes;
                if by_age {
                    self.plan.summary.freed_by_age_bytes =
                        self.add(self.plan.summary.freed_by_age_bytes, size_bytes);
                } else {
                    let freed = self.add(self.plan.summary.freed_bytes.unwrap_or(0), size_bytes);
                    self.plan.summary.freed_bytes = Some(freed);
                    if self.wanted.is_some_and(|wanted| self.is_enough(freed, wanted)) {
                        return self.space_freed();
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

    /// Adds a size to the freed bytes: wrapping as upstream, or saturating.
    const fn add(&self, freed: i64, size_bytes: u64) -> i64 {
        match self.policy.arithmetic {
            Arithmetic::Upstream => freed.wrapping_add(size_bytes.cast_signed()),
            Arithmetic::Checked => freed.saturating_add_unsigned(size_bytes),
        }
    }

    /// Returns whether enough was freed. If all unused images are removed, a saturated sum does not end the
    /// run ([N3.46](crate::rules#n3-46), [N3.47](crate::rules#n3-47)).
    fn is_enough(&self, freed: i64, wanted: i64) -> bool {
        freed >= wanted && (wanted < i64::MAX || self.policy.arithmetic == Arithmetic::Upstream)
    }

    /// Advances to the next state that needs input.
    fn advance(&mut self) -> Step {
        loop {
            match self.state {
                State::Listing => return Step::List,
                State::Measuring => return Step::Measure,
                State::Removing { .. } => {
                    let requested = self.plan.actions.last();
                    return requested.map_or(Step::Done, |action| Step::Remove(action.clone()));
                }
                State::Done => return Step::Done,
                State::Age(at) => self.age(at),
                State::Space(at) => self.space(at),
            }
        }
    }

    /// The age step for the candidate with this index ([N3.37](crate::rules#n3-37) to
    /// [N3.40](crate::rules#n3-40)).
    fn age(&mut self, at: usize) {
        let age_max = self.policy.thresholds.age_max;
        let applies =
            age_max != GoDuration::ZERO && GoDuration::between(self.image_gc_began_at, self.now) > age_max;
        let Some(candidate) = self.candidates.get(at).filter(|_| applies) else {
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

    /// The space step for the candidate with this index ([N3.41](crate::rules#n3-41) and
    /// [N3.42](crate::rules#n3-42)).
    fn space(&mut self, at: usize) {
        let Some(candidate) = self.candidates.get(at) else {
            return self.space_freed();
        };
        if self.listed[candidate.record].state == ImageState::Removed {
            self.state = State::Space(at + 1);
            return;
        }
        let (age, age_min) = (candidate.age(self.now), self.policy.thresholds.age_min);
        let reason = if candidate.last_used.is_some_and(|used| used >= self.now) {
            Reason::UsedSince
        } else if age < age_min {
            Reason::TooYoung { age, age_min }
        } else {
            let wanted_bytes = match self.wanted.unwrap_or(0) {
                i64::MAX => i64::MAX,
                wanted => wanted.wrapping_sub(self.plan.summary.freed_bytes.unwrap_or(0)),
            };
            return self.remove(at, false, RemovalReason::Space { wanted_bytes });
        };
        self.considered.push(candidate.record);
        self.listed[candidate.record].state = ImageState::Kept(reason);
        self.state = State::Space(at + 1);
    }

    /// Requests the removal of the candidate with this index.
    fn remove(&mut self, at: usize, by_age: bool, reason: RemovalReason) {
        let record = self.candidates[at].record;
        self.plan.actions.push(Action {
            image: Arc::clone(&self.listed[record].image),
            runtime_handler: Arc::clone(&self.records.sorted[record].runtime_handler),
            reason,
        });
        self.state = State::Removing { at, by_age };
    }

    /// Ends the space step ([N3.34](crate::rules#n3-34), [N3.35](crate::rules#n3-35),
    /// [N3.43](crate::rules#n3-43), [N3.46](crate::rules#n3-46) to [N3.48](crate::rules#n3-48)).
    fn space_freed(&mut self) {
        self.state = State::Done;
        let (wanted, freed) = (
            self.wanted.unwrap_or(0),
            self.plan.summary.freed_bytes.unwrap_or(0),
        );
        if let Some(errors) = aggregate(std::mem::take(&mut self.errors)) {
            return self.fail(Error::Space {
                wanted_bytes: wanted,
                freed_bytes: freed,
                errors: errors.into(),
            });
        }
        self.hooks_run = self.policy.semantics.pull_records;
        if self.policy.task != Task::Collect || freed >= wanted {
            return;
        }
        self.add_finding(Reason::Shortfall {
            missing_bytes: wanted.saturating_sub(freed),
        });
        let version = self.policy.semantics.version;
        let error = Error::insufficient(version, self.usage, wanted, freed);
        let event = Event::warning("FreeDiskSpaceFailed", error.to_string());
        self.plan.summary.events.push(event);
        self.fail(error);
    }

    fn fail(&mut self, error: Error) {
        if let Error::ListImages(_) | Error::ListPods(_) | Error::ImageVolumes(_) | Error::FileSystem(_) =
            error
        {
            self.add_finding(Reason::RunFailed(Box::new(error.clone())));
        }
        self.plan.summary.error = Some(error);
        self.state = State::Done;
    }

    fn add_finding(&mut self, reason: Reason) {
        self.plan.findings.push(Subject::Node.because(reason));
    }
}
