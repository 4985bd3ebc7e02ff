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

use self::{format::Case, grade::code_text, question::Prediction};
use crate::{Failure, Report, recording};

pub(crate) fn replay(recorded: &recording::Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let case: Case = recorded.read()?;
    let prediction =
        question::forecast(&case).map_err(|problem| Failure::list("there is no forecast", &[problem]))?;
    if recorded.is_detailed {
        report.notes.push(side_by_side(&case, &prediction));
    }
    reasons::compare(&recorded.name, &case, &prediction, report);
    grade::grade(&case, &prediction)
}

/// The intents with their status codes, and the recorded writes and the forecast's timeline in the order of
/// their times.
fn side_by_side(case: &Case, prediction: &Prediction) -> String {
    let retried = if case.quiet {
        ""
    } else {
        " while a controller retried"
    };
    let mut out = format!(
        "{}\nat {}, read after {} s{retried}\n",
        case.title, case.at, case.observed_s
    );
    for (intent, code) in case.intent.iter().zip(&prediction.codes) {
        out += &format!(
            "{:8.3} {intent}: predicted {}, recorded {}\n",
            intent.at_seconds,
            code_text(*code),
            intent.code
        );
    }
    let recorded = case
        .writes
        .iter()
        .map(|write| (write.at_seconds, "recorded", write.to_string()));
    let predicted = prediction.timeline.iter().map(|step| {
        let text = format!("{} {} {}: {step}", step.actor, step.act, step.code);
        (step.at.as_secs_f64(), "predicted", text)
    });
    let mut lines: Vec<_> = recorded.chain(predicted).collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, side, line) in lines {
        out += &format!("{at:8.3} {side:9} {line}\n");
    }
    out
}
