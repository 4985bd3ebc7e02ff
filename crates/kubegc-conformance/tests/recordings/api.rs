//! A changed sequence of requests does not match.

use kubegc_conformance::runner::FileReport;
use serde_json::Value;

use crate::{lines, replay_lines};

/// The result of the first case of a file after a change.
fn changed(file: &str, change: impl FnOnce(&mut Value)) -> FileReport {
    let mut case: Value = serde_json::from_str(&lines(file)[0]).expect("JSON");
    change(&mut case["requests"][0]["response"]);
    replay_lines("changed.jsonl", &case.to_string())
}

#[test]
fn a_changed_recording_fails() {
    let code = changed("api/watch.jsonl", |response| response["code"] = 299.into());
    assert_eq!((code.passed, code.failed.len()), (0, 1));
    let body = changed("api/discovery.jsonl", |response| {
        response["body"]["kind"] = "Other".into()
    });
    assert_eq!((body.passed, body.failed.len()), (0, 1));
    let same = changed("api/watch.jsonl", |_| {});
    assert_eq!((same.passed, same.failed.len()), (1, 0));
}
