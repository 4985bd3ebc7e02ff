//! Reads recordings, replays their cases on two threads, and reports in the file's order.

use std::{
    io::{self, BufRead as _},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use serde_json::{Map, Value};

use crate::{
    Failure, Report, api, controllers, graph, node, objects, predict,
    recording::{Case, Source, open},
};

/// Replays a case and compares it with the recording.
type Replay = fn(&Case<'_>, &mut Report) -> Result<(), Failure>;

/// The kinds of cases, with keys that every case of the kind has. The first kind that fits counts.
static KINDS: [(&str, &[&str], Replay); 12] = [
    ("Controller", &["mechanism", "case"], controllers::replay),
    ("Requests", &["requests", "managedFields"], api::replay),
    ("Forecast", &["before", "intent", "fates"], predict::replay),
    ("Scenario", &["steps", "outcomes"], objects::replay),
    ("CompactScenario", &["outcomes", "name"], objects::replay_compact),
    ("GraphSequence", &["steps", "ids"], graph::replay_sequence),
    (
        "ConflictingData",
        &["steps", "semantics"],
        graph::replay_conflicting,
    ),
    ("Patch", &["kind", "body"], graph::replay_patch),
    ("ImageGc", &["rounds", "outcomes"], node::replay_images),
    ("ContainerGc", &["call", "outcomes"], node::replay_containers),
    ("ImageGcPolicy", &["high_threshold_percent"], node::replay_policy),
    ("SignalReclaim", &["signal"], node::replay_signal),
];

/// Replays one file, which may be compressed (`.jsonl.xz`): all cases, or the one with this name or id, with
/// notes about its steps.
///
/// # Errors
/// The file cannot be read. Its content is never an error: a line that is not a case is a failed case.
pub fn replay(path: &Path, only: Option<&str>) -> io::Result<Report> {
    let source = Source::new(path);
    let lines = Mutex::new(open(path)?.split(b'\n').enumerate());
    let next = || -> io::Result<Option<(usize, Vec<u8>)>> {
        // No thread panics while it holds the lock.
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.next().map(|(at, line)| Ok((at, line?))).transpose()
    };
    let work = || -> io::Result<Vec<(usize, Report)>> {
        let mut done = Vec::new();
        while let Some((at, line)) = next()? {
            let text = String::from_utf8_lossy(&line);
            if let Some(source) = source.as_ref().filter(|_| !text.trim().is_empty()) {
                done.extend(replay_line(source, at, &text, only).map(|report| (at, report)));
            }
        }
        Ok(done)
    };
    let mut cases = thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut cases = work()?;
        // Panics of cases are caught; a panic elsewhere is a bug and is passed on.
        cases.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        io::Result::Ok(cases)
    })?;
    cases.sort_by_key(|(at, _)| *at);
    let mut report = Report::default();
    for (_, case) in cases {
        report.add(case);
    }
    Ok(report)
}

/// Replays one line; `None` where it is not selected.
fn replay_line(source: &Source, at: usize, line: &str, only: Option<&str>) -> Option<Report> {
    let mut report = Report::default();
    let number = format!("line {}", at + 1);
    let keys = match serde_json::from_str::<Map<String, Value>>(line) {
        Ok(keys) => keys,
        Err(problem) => return Some(report.ended(number, Err(Failure::unreadable(problem)))),
    };
    let mut names = ["name", "id", "case"].iter();
    let name = names.find_map(|key| keys.get(*key)?.as_str().map(str::to_owned));
    let name = name.unwrap_or(number);
    if only.is_some_and(|only| only != name) {
        return None;
    }
    let mut kinds = KINDS.iter();
    let kind = kinds.find(|(_, known, _)| known.iter().all(|key| keys.contains_key(*key)));
    let Some((kind, _, replay)) = kind else {
        let unknown = Failure::unreadable("the kind of the case is unknown");
        return Some(report.ended(name, Err(unknown)));
    };
    report.kind = kind;
    let case = Case {
        name: name.clone(),
        json: Value::Object(keys),
        source,
        is_detailed: only.is_some(),
    };
    let result = catch_unwind(AssertUnwindSafe(|| replay(&case, &mut report)));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no message");
        Err(Failure::unreadable(format!("panicked: {text}")))
    });
    Some(report.ended(name, result))
}
