//! The candidates for removal: their selection, their order and their states.

use std::sync::Arc;

use kubegc_core::{Kept, Timestamp, node_facts::Image};

use super::{Policy, Reason, Records, Subject, detect::Listed};
use crate::{GoDuration, Inventory, Order};

/// An unused, unpinned image.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The time of the last detection that found it in use; `None`: never.
    pub last_used: Option<Timestamp>,
    /// The time of its first detection; `None`: infinitely old.
    pub first_detected: Option<Timestamp>,
    /// The index of its record, in the order of keys.
    pub record: u32,
}

impl Candidate {
    /// The time since its last use; the longest duration if it was never used.
    #[must_use]
    pub fn idle(&self, now: Timestamp) -> GoDuration {
        self.last_used
            .map_or(GoDuration::MAX, |used| GoDuration::between(used, now))
    }

    /// The time since its first detection; the longest duration if it is infinitely old.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> GoDuration {
        self.first_detected
            .map_or(GoDuration::MAX, |detected| GoDuration::between(detected, now))
    }
}

/// The state of a candidate in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CandidateState {
    /// It was not considered.
    NotConsidered,
    Removed,
    Failed(Box<str>),
    TooYoung,
    UsedSince,
}

/// The candidates of a run and their states.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// The data of each record in the listing.
    pub(super) listed: Vec<Listed>,
    shared: Vec<Option<Arc<Image>>>,
    /// In the order of removal.
    pub(super) candidates: Vec<Candidate>,
    /// The state of each candidate.
    pub(super) states: Vec<CandidateState>,
    invalid: u32,
}

impl Candidates {
    /// [N3.17](crate::rules#n3-17) to [N3.20](crate::rules#n3-20): images that are neither in use nor pinned,
    /// sorted by last use, then by first detection.
    pub(super) fn new(
        policy: &Policy,
        records: &Records,
        listed: Vec<Listed>,
        shared: Vec<Option<Arc<Image>>>,
    ) -> Self {
        let mut invalid = 0;
        // A small sort key: last use, first detection, index of the record.
        let mut order: Vec<(i64, i64, u32)> = Vec::with_capacity(listed.len());
        for (at, (record, listed)) in (0..).zip(records.sorted.iter().zip(&listed)) {
            if listed.in_use || record.pinned {
                continue;
            }
            if policy.semantics.per_runtime_handler && !listed.has_id {
                invalid += 1;
                continue;
            }
            order.push((nanos(record.last_used), nanos(record.first_detected), at));
        }
        // Many entries have equal times, because there are few detections. A stable sort is faster for such
        // entries, and keeps their order.
        if policy.order == Order::Listing {
            order.sort_by_key(|&(.., at)| listed[at as usize].first_at);
        }
        order.sort_by_key(|&(last_used, first_detected, _)| (last_used, first_detected));
        let candidate = |&(.., at): &(i64, i64, u32)| {
            let record = &records.sorted[at as usize];
            Candidate {
                last_used: record.last_used,
                first_detected: record.first_detected,
                record: at,
            }
        };
        let candidates: Vec<Candidate> = order.iter().map(candidate).collect();
        Self {
            states: vec![CandidateState::NotConsidered; candidates.len()],
            listed,
            shared,
            candidates,
            invalid,
        }
    }

    /// The image of a record, for a report.
    pub(super) fn take(&mut self, record: usize, images: &[Arc<Image>]) -> Arc<Image> {
        let at = self.listed[record].at as usize;
        self.shared[record]
            .take()
            .unwrap_or_else(|| Arc::clone(&images[at]))
    }

    /// The number of records that were skipped because their key has no image id.
    pub(super) const fn invalid(&self) -> u32 {
        self.invalid
    }

    /// [N3.38](crate::rules#n3-38), [N3.39](crate::rules#n3-39): whether the maximum age applies in this run.
    pub(super) fn age_applies(&self, policy: &Policy, image_gc_began_at: Timestamp, now: Timestamp) -> bool {
        let age_max = policy.thresholds.age_max;
        age_max != GoDuration::ZERO && GoDuration::between(image_gc_began_at, now) > age_max
    }

    /// The size of a candidate in bytes.
    pub(super) fn size(&self, at: usize, records: &Records) -> u64 {
        records.sorted[self.candidates[at].record as usize].size_bytes
    }

    /// Findings about the images and their records.
    pub(super) fn findings(
        &self,
        inventory: &Inventory,
        records: &Records,
        now: Timestamp,
    ) -> Vec<Kept<Subject, Reason>> {
        let Ok(images) = &inventory.images else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        for (record, listed) in records.sorted.iter().zip(&self.listed) {
            let mut add = |reason| {
                findings.push(Kept {
                    object: Subject::Image(Arc::clone(&images[listed.at as usize])),
                    reason,
                });
            };
            if i64::try_from(record.size_bytes).is_err() {
                add(Reason::SizeOverflow);
            }
            let last_used = record.last_used.filter(|_| !listed.in_use);
            if record.first_detected.max(last_used).is_some_and(|at| at > now) {
                add(Reason::InFuture);
            }
            if !listed.has_id {
                add(Reason::InvalidId);
            }
        }
        findings
    }
}

/// A time as a sort key. Infinitely old, or never, is the earliest possible time.
fn nanos(at: Option<Timestamp>) -> i64 {
    at.map_or(i64::MIN, Timestamp::as_nanos)
}
