//! A changed recording of a controller does not match.

use crate::{changed, failures, line_with, replay_lines};

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
        let (file, _) = case.rsplit_once('-').expect("the name of a file and a number");
        let line = line_with(
            &format!("controllers/{file}.jsonl"),
            &format!(r#""case":"{case}""#),
        );
        let value = serde_json::from_str(value).expect("JSON");
        let failures = failures(&replay_lines("changed.jsonl", &changed(&line, pointer, value)));
        assert_eq!(failures.len(), 1, "{row}");
        assert!(failures[0].contains(place), "{row}: {failures:?}");
    }
}
