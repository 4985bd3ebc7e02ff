//! The candidates for removal: their selection and their order.

use kubegc_core::{Kept, Timestamp};

use super::{
    FreeSpace, Reason, Records, Subject,
    detect::{ImageState, Listed},
};
use crate::{GoDuration, Order};

/// An unused, unpinned image, with the times of its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) last_used: Option<Timestamp>,
    pub(super) first_detected: Option<Timestamp>,
    /// The index of its record, in the order of keys.
    pub(super) record: usize,
}

impl Candidate {
    /// The time since its last use; the longest duration if it was never used.
    pub(super) fn idle(&self, now: Timestamp) -> GoDuration {
        self.last_used
            .map_or(GoDuration::MAX, |used| GoDuration::between(used, now))
    }

    /// The time since its first detection; the longest duration if it is infinitely old.
    pub(super) fn age(&self, now: Timestamp) -> GoDuration {
        self.first_detected
            .map_or(GoDuration::MAX, |detected| GoDuration::between(detected, now))
    }
}

/// [N3.17](crate::rules#n3-17) to [N3.20](crate::rules#n3-20): images that are neither in use nor pinned,
/// sorted by last use, then by first detection.
pub(super) fn candidates(policy: &FreeSpace, records: &Records, listed: &[Listed]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = records
        .iter()
        .enumerate()
        .filter(|&(at, _)| listed[at].state == ImageState::NotConsidered)
        .map(|(at, record)| Candidate {
            last_used: record.last_used,
            first_detected: record.first_detected,
            record: at,
        })
        .collect();
    candidates.sort_unstable_by_key(|candidate| {
        let tie = match policy.order {
            Order::Total => candidate.record,
            Order::Listing => listed[candidate.record].first_at,
        };
        // Infinitely old, or never used, comes first.
        (candidate.last_used, candidate.first_detected, tie)
    });
    candidates
}

/// Findings about the images and their records.
pub(super) fn findings(records: &Records, listed: &[Listed], now: Timestamp) -> Vec<Kept<Subject, Reason>> {
    let mut findings = Vec::new();
    for (record, listed) in records.iter().zip(listed) {
        let mut add = |reason| {
            findings.push(Subject::from(&listed.image).because(reason));
        };
        if i64::try_from(record.size_bytes).is_err() {
            add(Reason::SizeOverflow);
        }
        let last_used = record
            .last_used
            .filter(|_| listed.state != ImageState::Kept(Reason::InUse));
        if record.first_detected.max(last_used).is_some_and(|at| at > now) {
            add(Reason::InFuture);
        }
        if !listed.has_id {
            add(Reason::InvalidId);
        }
    }
    findings
}
