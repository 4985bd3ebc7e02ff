//! A changed recording of the graph does not match.

use crate::{line_with, replay_lines};

#[test]
fn a_changed_recording_fails_and_names_the_place() {
    let line = line_with("graph/graph_sequences.jsonl", r#""policy":"Background""#);
    for (from, to, place) in [
        (r#""policy":"Background""#, r#""policy":"Orphan""#, "action"),
        (r#""verb":"delete""#, r#""verb":"patch""#, "action"),
        (
            r#""pending_vdel":["#,
            r#""pending_vdel":[0,"#,
            "the case cannot be replayed",
        ),
    ] {
        let report = replay_lines("changed.jsonl", &line.replacen(from, to, 1));
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
    let report = replay_lines("unknown.jsonl", "{\"a\":1}\n\nnot json\n[]\n");
    assert_eq!((report.passed, report.failed.len()), (0, 3));
    let report = replay_lines("notes.txt", "{\"kind\":\"x\",\"body\":\"\"}\n");
    assert_eq!((report.passed, report.failed.len()), (0, 0));
}
