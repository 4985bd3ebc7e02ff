//! Replays recordings of a whole control plane: a dump, the deletions, and the outcome of every object of the
//! dump.
//!
//! A case passes when the forecast has a recorded outcome for every object, the recorded finalizers where the
//! object is terminating, and every intent its recorded status code. The reasons that the forecast gives for
//! terminating objects are a second grade: they are counted, and no case fails because of them.

mod format;
mod grade;
mod question;
mod reasons;
mod side_by_side;

use self::format::Case;
use crate::{Failure, runner::CaseReport};

/// Replays one case. `is_detailed` adds the recorded writes and the forecast's timeline as a note.
pub(crate) fn replay(line: &str, is_detailed: bool) -> CaseReport {
    let case: Case = match serde_json::from_str(line) {
        Ok(case) => case,
        Err(problem) => return Err(Failure::unreadable(problem)).into(),
    };
    let prediction = question::forecast(&case);
    let notes = match &prediction {
        Ok(prediction) if is_detailed => vec![side_by_side::text(&case, prediction)],
        _ => Vec::new(),
    };
    let reasons = match &prediction {
        Ok(prediction) => reasons::compare(&case, prediction),
        Err(_) => (0, Vec::new()),
    };
    let result = prediction
        .map_err(|problem| Failure::list("there is no forecast", &[problem]))
        .and_then(|prediction| grade::grade(&case, &prediction));
    CaseReport {
        notes,
        reasons,
        ..result.into()
    }
}
