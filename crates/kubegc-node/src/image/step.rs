//! What a pass over images asks for, what it is answered, and what it has come to.

use kubegc_core::{Kept, RuntimeError, Timestamp, node_facts::FileSystem};

use super::{Action, Error, Reason, Subject};
use crate::{Event, Inventory, Listing};

/// What a pass wants done.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// List images and containers, and answer with [`Answer::Listed`].
    List,
    /// Ask for the image file system, and answer with [`Answer::Measured`].
    Measure,
    /// Perform an action, and answer with [`Answer::Removed`].
    Remove(Action),
    /// All is done.
    Done,
}

/// What became of a step.
#[expect(clippy::exhaustive_enums, reason = "one answer for each step")]
#[derive(Clone, Debug)]
pub enum Answer<'a> {
    /// What was listed.
    Listed {
        /// The listings. Only those of images, containers, volumes and the sandbox image are looked at.
        inventory: &'a Inventory,
        /// When the listings had been read: what use is dated with.
        at: Timestamp,
    },
    /// The state of the file system.
    Measured(Listing<FileSystem>),
    /// The outcome of a removal.
    Removed(Result<(), RuntimeError>),
}

/// What a pass has come to so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) actions: Vec<Action>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    pub(super) freed: Option<i64>,
    pub(super) freed_by_age: i64,
    pub(super) wanted: Option<i64>,
    pub(super) error: Option<Error>,
    pub(super) events: Vec<Event>,
    /// Positions of candidates that making room looked at and left.
    pub(super) looked_at: Vec<usize>,
    pub(super) hooks_run: bool,
}

/// What a pass waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Listing,
    Measurement,
    /// The last action of the outcome.
    Removal,
    Nothing,
}
