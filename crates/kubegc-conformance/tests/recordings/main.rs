//! The repository's choice of recordings matches, and changed recordings do not.

mod api;
mod controllers;
mod graph;
mod node;
mod objects;
mod predict;

use std::path::Path;

use kubegc_conformance::runner::{FileReport, Options, replay};

fn replay_file(path: &Path) -> FileReport {
    replay(path, &Options::default()).expect("the vectors can be read")
}

/// Replays a file that has at least this many cases, all of which match.
fn assert_matches(path: &Path, cases_min: usize) -> FileReport {
    let report = replay_file(path);
    let failed = failures(&report);
    assert!(failed.is_empty(), "{}: {}", path.display(), failed.join("\n"));
    assert!(
        report.passed >= cases_min,
        "{} has {} cases",
        path.display(),
        report.passed
    );
    report
}

/// The names of failed cases, with their failures.
fn failures(report: &FileReport) -> Vec<String> {
    let failed = report.failed.iter();
    failed
        .map(|case| format!("{}\n{}", case.name, case.failure))
        .collect()
}
