//! A changed recording of a controller does not match.

use serde_json::Value;

use crate::{failures, line_with, replay_lines};

/// Replays the case of this name with another value at one place, which may be new. Returns the failures.
fn changed(case: &str, pointer: &str, value: &Value) -> Vec<String> {
    let (file, _) = case
        .rsplit_once('-')
        .expect("a name has the file's name and a number");
    let line = line_with(
        &format!("controllers/{file}.jsonl"),
        &format!(r#""case":"{case}""#),
    );
    let mut case: Value = serde_json::from_str(&line).expect("a recording is JSON");
    let before = case.clone();
    let (parent, key) = pointer.rsplit_once('/').expect("a place in a case");
    let place = match case.pointer_mut(parent).expect("the parent is in the case") {
        Value::Object(fields) => fields.entry(key).or_insert(Value::Null),
        Value::Array(items) => &mut items[key.parse::<usize>().expect("a position")],
        other => panic!("{pointer} is in {other}"),
    };
    place.clone_from(value);
    assert_ne!(case, before, "{pointer} changes");
    failures(&replay_lines("changed.jsonl", &case.to_string()))
}

/// A case, a place in it, another value, and the part of the failure that names the difference.
const CHANGES: &str = include_str!("controllers.txt");

#[test]
fn a_changed_recording_fails_and_shows_the_difference() {
    for row in CHANGES
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        let (change, place) = row.split_once(" => ").expect("a place");
        let [case, pointer, value] = change.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let value = serde_json::from_str(value).expect("JSON");
        let failures = changed(case, pointer, &value);
        assert_eq!(failures.len(), 1, "{row}");
        assert!(failures[0].contains(place), "{row}: {failures:?}");
    }
}
