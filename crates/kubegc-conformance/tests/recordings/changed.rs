//! A changed recording does not match, and the failure names the place.

use serde_json::Value;

use crate::{failures, line_with, replay_lines};

/// Cases of recordings. Each line is a place, another value, and a part of the failure, or of the difference
/// between a forecast's reason and the recording.
const CHANGES: &str = include_str!("changed.txt");

/// The same line with another value at one place, which may be new.
fn changed(line: &str, pointer: &str, value: &Value) -> String {
    let mut case: Value = serde_json::from_str(line).expect("a recording is JSON");
    let before = case.clone();
    let (parent, key) = pointer.rsplit_once('/').expect("a place in a case");
    let place = match case.pointer_mut(parent).expect("the parent is in the case") {
        Value::Object(fields) => fields.entry(key).or_insert(Value::Null),
        Value::Array(items) => &mut items[key.parse::<usize>().expect("a position")],
        other => panic!("{pointer} is in {other}"),
    };
    place.clone_from(value);
    assert_ne!(case, before, "{pointer} changes");
    case.to_string()
}

#[test]
fn a_changed_recording_fails_and_shows_the_difference() {
    for group in CHANGES.split("\n\n") {
        let mut rows = group.lines().filter(|row| !row.starts_with('#'));
        let head = rows.next().and_then(|head| head.split_once(' '));
        let (file, case) = head.expect("a file and a case");
        let line = line_with(file, &format!("\"{case}\""));
        let recorded = replay_lines("changed.jsonl", &line);
        assert_eq!(recorded.passed, 1, "{case} as recorded");
        assert_eq!(failures(&recorded).len(), 0, "{case} as recorded");
        for row in rows {
            let (change, place) = row.split_once(" => ").expect("a place");
            let (pointer, value) = change.split_once(' ').expect("a value");
            let value = serde_json::from_str(value).expect("JSON");
            let shown = failures(&replay_lines("changed.jsonl", &changed(&line, pointer, &value)));
            assert!(
                shown.iter().any(|shown| shown.contains(place)),
                "{case}: {row}: {shown:?}"
            );
        }
    }
}

#[test]
fn single_functions_are_compared() {
    let policy = r#"{"high_threshold_percent":1,"low_threshold_percent":2,"error":"low"}"#;
    let signal = r#"{"semantics":"1.29+","signal":"memory.available","in_map":true,"functions":[]}"#;
    let other = r#"{"semantics":"1.28","signal":"memory.free","in_map":false,"functions":[]}"#;
    let report = replay_lines("answers.jsonl", &[policy, signal, other].join("\n"));
    let shown = failures(&report);
    assert_eq!((report.passed, shown.len()), (0, 3));
    for (shown, text) in shown.iter().zip(["can not be higher", "in_map", "memory.free"]) {
        assert!(shown.contains(text), "{shown}");
    }
}

#[test]
fn an_invalid_line_is_a_failed_case_and_other_files_have_no_cases() {
    let report = replay_lines("unknown.jsonl", "{\"a\":1}\n\nnot json\n[]\n");
    assert_eq!((report.passed, report.failed.len()), (0, 3));
    let report = replay_lines("notes.txt", "{\"kind\":\"x\",\"body\":\"\"}\n");
    assert_eq!((report.passed, report.failed.len()), (0, 0));
}
