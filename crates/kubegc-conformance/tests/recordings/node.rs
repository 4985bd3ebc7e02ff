//! A changed recording of a kubelet does not match, and the failure names the place.

use crate::{changed, failures, line_with, lines, replay_lines};

/// Cases of recordings; each line is a place, another value, and the part of the failure that names the
/// place.
const CHANGES: &str = include_str!("node.txt");

#[test]
fn a_changed_recording_fails_and_shows_the_difference() {
    for group in CHANGES.split("\n\n") {
        let mut rows = group.lines().filter(|row| !row.starts_with('#'));
        let head = rows.next().and_then(|head| head.split_once(' '));
        let (file, id) = head.expect("a file and a case");
        let name = format!("{id}.jsonl");
        let line = line_with(&format!("node/{file}"), &format!(r#""id":"{id}""#));
        // The name of the file does not show the kind of its cases.
        assert_eq!(replay_lines(&name, &line).passed, 1, "{id} as recorded");
        for row in rows {
            let (change, place) = row.split_once(" => ").expect("a place");
            let (pointer, value) = change.split_once(' ').expect("a value");
            let value = serde_json::from_str(value).expect("JSON");
            let report = replay_lines(&name, &changed(&line, pointer, value));
            let shown = failures(&report);
            assert_eq!((report.passed, shown.len()), (0, 1), "{id}: {row}");
            assert!(shown[0].contains(place), "{id}: {row}: {shown:?}");
        }
    }
}

#[test]
fn the_kind_of_a_case_follows_from_its_content() {
    for file in [
        "container_gc",
        "image_gc",
        "image_gc_128",
        "image_gc_policy",
        "signal_reclaim",
    ] {
        let lines = lines(&format!("node/{file}.jsonl"));
        let report = replay_lines("unnamed.jsonl", &lines.join("\n"));
        assert_eq!(report.kind, "by content");
        assert_eq!((report.passed, report.failed.len()), (lines.len(), 0), "{file}");
    }
}

#[test]
fn single_functions_are_compared() {
    let policy = r#"{"high_threshold_percent":1,"low_threshold_percent":2,"error":"low"}"#;
    let signal = r#"{"semantics":"1.29+","signal":"memory.available","in_map":true,"functions":[]}"#;
    let other = r#"{"semantics":"1.28","signal":"memory.free","in_map":false,"functions":[]}"#;
    let report = replay_lines("answers.jsonl", &[policy, signal, other].join("\n"));
    let shown: Vec<_> = report
        .failed
        .iter()
        .map(|case| case.failure.to_string())
        .collect();
    assert_eq!((report.passed, shown.len()), (0, 3));
    for (shown, text) in shown
        .iter()
        .zip(["can not be higher", "no entry: []", "memory.free"])
    {
        assert!(shown.contains(text), "{shown}");
    }
}
