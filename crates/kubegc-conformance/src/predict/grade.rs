//! Compares a forecast with the recorded outcomes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    format::{Case, End, RecordedIntent, RepeatOutcome},
    question::Prediction,
};
use crate::Failure;

/// Maximum number of objects in a message.
const SHOWN_OBJECTS: usize = 8;

/// The number of objects by id and outcome.
type Counts<'a> = BTreeMap<(&'a str, End), usize>;

/// The part of an outcome that is compared.
type Part = fn(&End) -> End;

/// Compares outcomes, then finalizers of terminating objects, then status codes.
///
/// The outcomes match when each object has its own of the first run, or when as many objects of each id have
/// each outcome as in any run. Only the first run has status codes: they are compared where it is the one
/// that matches.
pub(super) fn grade(case: &Case, prediction: &Prediction) -> Result<(), Failure> {
    let comparison = Comparison {
        case,
        predicted: &prediction.ends,
        ids: case.ids(),
        recorded: case.recorded(),
        unchanged: case.unchanged(),
    };
    if comparison.matching_run(End::without_finalizers).is_none() {
        let differences = comparison.differences(End::without_finalizers);
        return Err(Failure::list("no run has these outcomes", &differences));
    }
    let Some(run) = comparison.matching_run(End::clone) else {
        let differences = comparison.differences(End::clone);
        return Err(Failure::list("no run has these finalizers", &differences));
    };
    let codes: Vec<String> = case
        .intent
        .iter()
        .zip(&prediction.codes)
        .enumerate()
        .filter(|&(at, (intent, &code))| {
            run == 0 && code != Some(intent.code) && !is_race(case, at, intent, code)
        })
        .map(|(_, (intent, &code))| {
            format!(
                "{intent}: predicted {}, recorded {}",
                code_text(code),
                intent.code
            )
        })
        .collect();
    if codes.is_empty() {
        Ok(())
    } else {
        Err(Failure::list("other status codes than recorded", &codes))
    }
}

/// A status code as text; `none` if there is none.
pub(super) fn code_text(code: Option<u16>) -> String {
    code.map_or_else(|| "none".to_owned(), |code| code.to_string())
}

/// Whether a controller deletes the object of the dump at the time of this intent: either one may be first.
fn is_race(case: &Case, at: usize, intent: &RecordedIntent, code: Option<u16>) -> bool {
    let is_object = |object: &&Value| {
        let metadata = &object["metadata"];
        object["kind"] == *intent.kind
            && metadata["namespace"].as_str().unwrap_or_default() == intent.namespace
            && metadata["name"].as_str() == intent.name.as_deref()
    };
    let codes = [Some(intent.code), code];
    at > 0
        && codes.contains(&Some(404))
        && codes.contains(&Some(200))
        && case.before.iter().any(|object| is_object(&object))
}

/// A prediction and the recorded outcomes.
struct Comparison<'a> {
    case: &'a Case,
    predicted: &'a BTreeMap<String, End>,
    ids: BTreeMap<&'a str, &'a str>,
    recorded: BTreeMap<String, End>,
    unchanged: BTreeMap<String, End>,
}

impl Comparison<'_> {
    /// The position of the first run whose outcomes are the predicted ones.
    fn matching_run(&self, part: Part) -> Option<usize> {
        let recorded = self.recorded.iter().map(|(uid, end)| (uid, part(end)));
        if recorded.eq(self.predicted.iter().map(|(uid, end)| (uid, part(end)))) {
            return Some(0);
        }
        let predicted = counts(&self.ids, self.predicted, part);
        let runs = &self.case.repeat_outcomes;
        runs.iter()
            .position(|run| of_run(&self.ids, &self.unchanged, run, part) == predicted)
    }

    /// The objects whose outcome differs from that of the first run.
    fn differences(&self, part: Part) -> Vec<String> {
        let mut lines = Vec::new();
        for (uid, end) in self.predicted {
            let (predicted, recorded) = (part(end), self.recorded.get(uid).map(part));
            if recorded.as_ref() != Some(&predicted) {
                let id = self.ids.get(&**uid).copied().unwrap_or(uid);
                let recorded = recorded.map_or_else(|| "nothing".to_owned(), |end| end.to_string());
                lines.push(format!("{id}: predicted {predicted}, recorded {recorded}"));
            }
        }
        let more = lines.len().saturating_sub(SHOWN_OBJECTS);
        lines.sort();
        lines.truncate(SHOWN_OBJECTS);
        lines.extend((more > 0).then(|| format!("and {more} more")));
        lines
    }
}

fn counts<'a>(ids: &BTreeMap<&str, &'a str>, ends: &BTreeMap<String, End>, part: Part) -> Counts<'a> {
    let mut counts = Counts::new();
    for (uid, end) in ends {
        let id = ids.get(&**uid).copied().unwrap_or_default();
        *counts.entry((id, part(end))).or_default() += 1;
    }
    counts
}

/// The outcomes of one run. Of several objects with one id the recording does not say which ones are
/// unchanged: those that were terminating before are taken to be.
fn of_run<'a>(
    ids: &BTreeMap<&'a str, &'a str>,
    unchanged: &BTreeMap<String, End>,
    outcome: &'a RepeatOutcome,
    part: Part,
) -> Counts<'a> {
    let mut rest: BTreeMap<&str, Vec<&End>> = BTreeMap::new();
    for (uid, end) in unchanged {
        let id = ids.get(&**uid).copied().unwrap_or_default();
        rest.entry(id).or_default().push(end);
    }
    let mut counts = Counts::new();
    for counted in &outcome.changes {
        let (Some(end), Some(rest)) = (counted.end(), rest.get_mut(&*counted.id)) else {
            continue;
        };
        // Terminating ones sort first and are kept.
        rest.sort();
        rest.truncate(rest.len().saturating_sub(counted.count));
        *counts.entry((&counted.id, part(&end))).or_default() += counted.count;
    }
    for (id, ends) in rest {
        for end in ends {
            *counts.entry((id, part(end))).or_default() += 1;
        }
    }
    counts
}
