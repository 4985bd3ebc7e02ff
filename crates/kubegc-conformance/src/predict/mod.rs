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

use crate::{Failure, Report, recording};

pub(crate) fn replay(recorded: &recording::Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let case: format::Case = recorded.read()?;
    let prediction =
        question::forecast(&case).map_err(|problem| Failure::list("there is no forecast", &[problem]))?;
    if recorded.is_detailed {
        // The recorded writes and the forecast's timeline.
        report.notes.push(side_by_side::text(&case, &prediction));
    }
    reasons::compare(&recorded.name, &case, &prediction, report);
    grade::grade(&case, &prediction)
}
