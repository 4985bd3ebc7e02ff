//! A changed recording of a kubelet does not match, and the failure names the place.

use serde_json::{Value, json};

use crate::{line_with, lines, replay_lines};

/// The same line with another value at one place, which may be new.
fn changed(line: &str, pointer: &str, value: Value) -> String {
    let mut case: Value = serde_json::from_str(line).expect("a recording is JSON");
    let (parent, key) = pointer.rsplit_once('/').expect("a place in a case");
    match case.pointer_mut(parent).expect("the parent is in the case") {
        Value::Object(fields) => {
            let before = fields.insert(key.to_owned(), value.clone());
            assert_ne!(before, Some(value), "{pointer} changes");
        }
        Value::Array(items) => {
            let at: usize = key.parse().expect("a position");
            assert_ne!(items[at], value, "{pointer} changes");
            items[at] = value;
        }
        other => panic!("{pointer} leads into {other}"),
    }
    case.to_string()
}

/// Replays a case as recorded, and with each change: that fails, and the failure names the place.
fn assert_changes_are_detected(file: &str, id: &str, changes: &[(&str, Value, &str)]) {
    let name = format!("{id}.jsonl");
    let line = line_with(&format!("node/{file}"), &format!(r#""id":"{id}""#));
    // The name of the file does not show the kind of its cases.
    assert_eq!(replay_lines(&name, &line).passed, 1, "{id} as recorded");
    for (pointer, value, place) in changes {
        let report = replay_lines(&name, &changed(&line, pointer, value.clone()));
        let shown: Vec<_> = report
            .failed
            .iter()
            .map(|case| case.failure.to_string())
            .collect();
        assert_eq!((report.passed, shown.len()), (0, 1), "{id}: {pointer} is {value}");
        assert!(
            shown[0].contains(place),
            "{id}: {pointer} is {value}: {}",
            shown[0]
        );
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
fn every_part_of_a_container_result_is_compared() {
    assert_changes_are_detected(
        "container_gc.jsonl",
        "cgc-01777",
        &[
            ("/outcomes/0/batches/0/phase", json!("per_unit"), "batches"),
            ("/outcomes/0/batches/0/unit", json!("p/x"), "batches"),
            ("/outcomes/0/batches/1/attempts/0", json!("c000000"), "batches"),
            ("/outcomes/0/stop_attempted/0", json!("c999999"), "stop_attempted"),
            ("/outcomes/0/removed_containers", json!([]), "removed_containers"),
            (
                "/outcomes/0/sandbox_stop_attempted/0",
                json!("s"),
                "sandbox_stop_attempted",
            ),
            ("/outcomes/0/removed_sandboxes/0", json!("s"), "removed_sandboxes"),
            ("/outcomes/0/log_dir_attempts/0", json!("/"), "log_dir_attempts"),
            ("/outcomes/0/symlink_attempts/0", json!("/"), "symlink_attempts"),
            ("/outcomes/0/error", json!("list containers failed"), "error"),
            ("/policy/max_per_pod_container", json!(0), "batches"),
            ("/list_fails", json!("all"), "batches"),
        ],
    );
}

#[test]
fn unknown_fields_of_a_recording_are_refused() {
    let refused = "the case cannot be replayed";
    assert_changes_are_detected(
        "container_gc.jsonl",
        "cgc-01777",
        &[
            ("/grace", json!(1), "`grace`"),
            ("/policy/grace", json!(1), "`grace`"),
            ("/containers/0/grace", json!(1), "`grace`"),
            ("/sandboxes/0/grace", json!(1), "`grace`"),
            ("/outcomes/0/grace", json!(1), "`grace`"),
            ("/outcomes/0/batches/0/grace", json!(1), "`grace`"),
            ("/containers/0/state", json!("PAUSED"), "`PAUSED`"),
            ("/call", json!("collect"), "collect"),
            ("/outcomes", json!([]), refused),
            ("/policy/min_age", json!(-1), refused),
        ],
    );
    assert_changes_are_detected(
        "image_gc.jsonl",
        "igc-01308",
        &[
            ("/grace", json!(1), "`grace`"),
            ("/policy/grace", json!(1), "`grace`"),
            ("/rounds/0/grace", json!(1), "`grace`"),
            ("/rounds/0/images/0/grace", json!(1), "`grace`"),
            ("/outcomes/0/0/grace", json!(1), "`grace`"),
            ("/rounds/0/call", json!("collect"), "`collect`"),
            ("/semantics", json!("1.27"), "1.27"),
            ("/outcomes/0", json!([]), "0 results"),
            ("/policy/low_threshold_percent", json!(101), "refused"),
            ("/rounds/2/detect_zero", json!(true), "detect_zero"),
        ],
    );
}

#[test]
fn a_result_among_equals_is_one_that_upstream_can_reach() {
    // Five tied units are removed in any order; the plain order was not recorded.
    assert_changes_are_detected(
        "container_gc.jsonl",
        "cgc-01834",
        &[
            (
                "/outcomes/3/removed_sandboxes",
                json!([]),
                "result 4 of 6, ties broken as recorded",
            ),
            ("/outcomes/5/stop_attempted", json!([]), "result 6 of 6"),
            ("/outcomes/0/batches/0/attempts", json!([]), "batches"),
        ],
    );
    assert_changes_are_detected(
        "container_gc.jsonl",
        "cgc-00492",
        &[
            ("/tie_over_12", json!(false), "batches"),
            ("/outcomes/0/batches/0/attempts/0", json!("c999999"), "batches"),
        ],
    );
    assert_changes_are_detected(
        "image_gc.jsonl",
        "igc-00665",
        &[(
            "/outcomes/1/1/freed",
            json!(1),
            "result 2 of 2, ties broken as recorded: round 2: freed",
        )],
    );
    // A tie that the recorder broke the same way in every run has to be broken so.
    assert_changes_are_detected(
        "image_gc.jsonl",
        "igc-01668",
        &[
            ("/distinct_outcomes", json!(1), "failed"),
            ("/outcomes/3/1/usage_percent", json!(1), "usage_percent"),
        ],
    );
}

#[test]
fn every_part_of_an_image_result_is_compared() {
    assert_changes_are_detected(
        "image_gc.jsonl",
        "igc-01308",
        &[
            ("/outcomes/0/2/removed/0/0", json!("img"), "round 3: removed"),
            ("/outcomes/0/2/removed/0/1", json!("kata"), "round 3: removed"),
            ("/outcomes/0/2/removed/0/2", json!("age"), "round 3: removed"),
            ("/outcomes/0/2/failed/0/0", json!("img"), "round 3: failed"),
            (
                "/outcomes/0/2/eviction_order",
                json!([]),
                "round 3: eviction_order",
            ),
            ("/outcomes/0/2/usage_percent", json!(1), "round 3: usage_percent"),
            (
                "/outcomes/0/2/amount_to_free",
                json!(1),
                "round 3: usage_percent and amount_to_free",
            ),
            ("/outcomes/0/2/freed", json!(null), "round 3: freed"),
            ("/outcomes/0/2/error", json!(""), "round 3: error"),
            ("/outcomes/0/2/error_text", json!(""), "round 3: error_text"),
            (
                "/outcomes/0/2/events",
                json!(["FreeDiskSpaceFailed"]),
                "round 3: events",
            ),
            ("/outcomes/0/5/records/0/0", json!("img"), "round 6: records"),
            ("/outcomes/0/5/records/0/1", json!(1), "round 6: records"),
            ("/outcomes/0/5/records/0/2", json!(1), "round 6: records"),
            ("/outcomes/0/5/records/0/3", json!(1), "round 6: records"),
        ],
    );
    assert_changes_are_detected(
        "image_gc_upstream.jsonl",
        "up-igc-04",
        &[("/upstream_expect/images_left", json!(2), "images_left")],
    );
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

#[test]
fn upstreams_own_expectations_are_compared() {
    assert_changes_are_detected(
        "container_gc_upstream.jsonl",
        "up-cgc-01",
        &[("/upstream_remaining/0", json!("c999999"), "upstream_remaining")],
    );
    assert_changes_are_detected(
        "container_gc_upstream.jsonl",
        "up-sgc-04",
        &[("/upstream_remaining", json!([]), "upstream_remaining")],
    );
}
