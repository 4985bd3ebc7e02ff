//! The results of replayed cases.

use std::collections::BTreeMap;

use crate::Failure;

/// The results of one case, of the cases of a file, or of several files.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Report {
    /// The kind of the cases; empty if there is none.
    pub kind: &'static str,
    /// Cases that match.
    pub passed: usize,
    /// Cases that do not, in the file's order.
    pub failed: Vec<FailedCase>,
    /// Notes, in the file's order.
    pub notes: Vec<String>,
    /// Of cases that consist of requests, by category: how many responses agree, of how many.
    pub requests: BTreeMap<String, (usize, usize)>,
    /// Number of terminating objects whose forecast reason is one that the recording supports.
    pub supported_reasons: usize,
    /// The other terminating objects, in the file's order, with the names of their cases.
    pub unsupported_reasons: Vec<FailedCase>,
}

/// One case that does not match its recording.
#[non_exhaustive]
#[derive(Debug)]
pub struct FailedCase {
    /// Name or id, or the line's number.
    pub name: String,
    pub failure: Failure,
}

impl Report {
    /// The report of one case that has ended, with its name in the notes.
    pub(crate) fn ended(mut self, name: String, result: Result<(), Failure>) -> Self {
        for note in &mut self.notes {
            *note = format!("{name}: {note}");
        }
        match result {
            Ok(()) => self.passed += 1,
            Err(failure) => self.failed.push(FailedCase { name, failure }),
        }
        self
    }

    /// Adds the results of further cases.
    pub fn add(&mut self, mut other: Self) {
        if self.kind.is_empty() {
            self.kind = other.kind;
        }
        self.passed += other.passed;
        self.failed.append(&mut other.failed);
        self.notes.append(&mut other.notes);
        for (category, (agree, all)) in other.requests {
            let counts = self.requests.entry(category).or_default();
            *counts = (counts.0 + agree, counts.1 + all);
        }
        self.supported_reasons += other.supported_reasons;
        self.unsupported_reasons.append(&mut other.unsupported_reasons);
    }

    /// Number of cases.
    pub const fn cases(&self) -> usize {
        self.passed + self.failed.len()
    }

    /// Number of terminating objects with a forecast reason.
    pub const fn reasons(&self) -> usize {
        self.supported_reasons + self.unsupported_reasons.len()
    }
}
