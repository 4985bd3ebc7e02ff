//! The repository's choice of graph recordings matches, and a changed recording does not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kubegc_conformance::runner::recordings;

use crate::{assert_matches, replay_file};

fn vectors(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(folder);
    recordings(&[folder]).expect("the vectors are in the repository")
}

#[test]
fn every_graph_recording_matches() {
    let files = vectors("graph");
    assert_eq!(files.len(), 6);
    for path in files {
        assert_matches(&path, 16);
    }
}

#[test]
fn a_changed_recording_fails_and_names_the_place() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sequences = vectors("graph")
        .into_iter()
        .find(|path| path.ends_with("graph_sequences.jsonl"));
    let text = fs::read_to_string(sequences.expect("in the repository")).expect("readable");
    let line = text
        .lines()
        .find(|line| line.contains(r#""policy":"Background""#))
        .expect("some delete is recorded");
    for (from, to, place) in [
        (r#""policy":"Background""#, r#""policy":"Orphan""#, "action"),
        (r#""verb":"delete""#, r#""verb":"patch""#, "action"),
        (
            r#""pending_vdel":["#,
            r#""pending_vdel":[0,"#,
            "the case cannot be replayed",
        ),
    ] {
        let path = folder.join("changed.jsonl");
        fs::write(&path, line.replacen(from, to, 1)).expect("writable");
        let report = replay_file(&path);
        assert_eq!(
            (report.passed, report.failed.len()),
            (0, 1),
            "{from} changed to {to}"
        );
        let shown = report.failed[0].failure.to_string();
        if line.contains(r#""pending_vdel":[]"#) || place == "action" {
            assert!(shown.contains(place), "{shown}");
        }
    }
}

#[test]
fn an_invalid_line_is_a_failed_case_and_other_files_have_no_cases() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let unknown = folder.join("unknown.jsonl");
    fs::write(&unknown, "{\"a\":1}\n\nnot json\n[]\n").expect("writable");
    let report = replay_file(&unknown);
    assert_eq!((report.passed, report.failed.len()), (0, 3));
    let other = folder.join("notes.txt");
    fs::write(&other, "{\"kind\":\"x\",\"body\":\"\"}\n").expect("writable");
    let report = replay_file(&other);
    assert_eq!((report.passed, report.failed.len()), (0, 0));
}
