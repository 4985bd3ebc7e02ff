//! A changed scenario does not match.

use crate::{line_with, replay_lines};

#[test]
fn a_changed_recording_fails() {
    let line = line_with("objects/handwritten.jsonl", "delete b Background 200");
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
        let report = replay_lines("scenario.jsonl", &line.replace(from, to));
        assert_eq!(
            (report.passed, report.failed.len()),
            (0, 1),
            "{from} changed to {to}"
        );
    }
}
