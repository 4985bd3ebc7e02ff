//! The repository's choice of recorded requests gets the recorded responses, and a changed recording
//! fails.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kubegc_conformance::runner::FileReport;
use serde_json::Value;

use crate::{assert_matches, replay_file};

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/api")
}

#[test]
fn the_server_responds_as_recorded() {
    let mut requests = 0;
    for entry in fs::read_dir(recordings()).expect("in the repository") {
        let path = entry.expect("in the repository").path();
        let report = assert_matches(&path, 1);
        requests += report.requests.values().map(|(_, all)| all).sum::<usize>();
    }
    assert!(requests > 800, "only {requests} requests");
}

/// The result of the first case of a file after a change.
fn changed(name: &str, file: &str, change: impl FnOnce(&mut Value)) -> FileReport {
    let text = fs::read_to_string(recordings().join(file)).expect("in the repository");
    let mut case: Value = serde_json::from_str(text.lines().next().expect("a case")).expect("JSON");
    change(&mut case["requests"][0]["response"]);
    let folder = std::env::temp_dir().join(format!("kubegc-api-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(file);
    fs::write(&path, case.to_string()).expect("a file");
    let report = replay_file(&path);
    fs::remove_dir_all(&folder).expect("the folder");
    report
}

#[test]
fn a_changed_recording_fails() {
    let code = changed("code", "watch.jsonl", |response| response["code"] = 299.into());
    assert_eq!((code.passed, code.failed.len()), (0, 1));
    let body = changed("body", "discovery.jsonl", |response| {
        response["body"]["kind"] = "Other".into()
    });
    assert_eq!((body.passed, body.failed.len()), (0, 1));
    let same = changed("same", "watch.jsonl", |_| {});
    assert_eq!((same.passed, same.failed.len()), (1, 0));
}
