//! The repository's choice of recorded scenarios matches, and a changed recording does not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{assert_matches, replay_file};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("vectors/objects")
        .join(name)
}

#[test]
fn the_api_server_responds_as_recorded() {
    assert_matches(&recording("api-delete-semantics.jsonl"), 12);
}

#[test]
fn the_collector_writes_as_recorded() {
    assert_matches(&recording("handwritten.jsonl"), 30);
    assert_matches(&recording("random.jsonl"), 20);
}

#[test]
fn the_collector_writes_as_recorded_with_one_worker() {
    assert_matches(&recording("handwritten-1worker.jsonl"), 20);
}

#[test]
fn the_collector_writes_as_recorded_after_a_restart() {
    assert_matches(&recording("restart.jsonl"), 10);
}

#[test]
fn a_changed_recording_fails() {
    let text = fs::read_to_string(recording("handwritten.jsonl")).expect("in the repository");
    let line = text
        .lines()
        .find(|line| line.contains("delete b Background 200"))
        .expect("some dependent is deleted");
    for (from, to) in [
        // A write that the collector does not make.
        ("delete b Background 200", "delete b Orphan 200"),
        // A response that the server does not return.
        (r#""code":201"#, r#""code":409"#),
        // A body that differs from the sent one.
        (
            r#""uid":"uid:b"},"propagationPolicy""#,
            r#""uid":"uid:x"},"propagationPolicy""#,
        ),
        // A state that is not reached.
        (r#""state":{"a":{"#, r#""state":{"z":{"present":true},"a":{"#),
    ] {
        let line = line.replace(": ", ":").replace(", \"", ",\"");
        assert!(line.contains(from), "{from} is in the recording");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenario.jsonl");
        fs::write(&path, line.replace(from, to)).expect("writable");
        let report = replay_file(&path);
        assert_eq!(
            (report.passed, report.failed.len()),
            (0, 1),
            "{from} changed to {to}"
        );
    }
}
