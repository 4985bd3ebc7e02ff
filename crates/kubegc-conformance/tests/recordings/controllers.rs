//! A changed recording of a controller does not match.

use serde_json::{Value, json};

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

#[test]
fn a_changed_recording_fails_and_shows_the_difference() {
    let nothing = || json!({});
    for (case, pointer, value, place) in [
        // Requests: other options, preconditions, verbs, order and number.
        (
            "ttl_after_finished_120-0036",
            "/actions/1/options/propagationPolicy",
            json!("Background"),
            "actions",
        ),
        (
            "ttl_after_finished_120-0036",
            "/actions/1/options/preconditions/uid",
            json!("u2"),
            "the recorder's server",
        ),
        (
            "ttl_after_finished_120-0036",
            "/actions/1/options/preconditions",
            json!({ "resourceVersion": "10" }),
            "actions",
        ),
        ("ttl_after_finished_120-0036", "/actions/1", nothing(), "actions"),
        (
            "ttl_after_finished_120-0036",
            "/actions/1/name",
            json!("other"),
            "the recorder's server",
        ),
        (
            "pod_gc_latest-0011",
            "/ticks/0/actions/1/options/gracePeriodSeconds",
            json!(1),
            "tick 0: actions",
        ),
        (
            "pod_gc_latest-0011",
            "/ticks/0/actions/1/verb",
            json!("get"),
            "tick 0: actions",
        ),
        (
            "pod_gc_latest-0011",
            "/ticks/0/now",
            json!("2026-06-01T12:00:00"),
            "cannot be replayed",
        ),
        // Patches and bodies, by the resulting object.
        (
            "pod_gc_latest-0011",
            "/ticks/0/actions/0/patch",
            json!(r#"{"metadata":{"uid":"uid-a-x"},"status":{"phase":"Succeeded"}}"#),
            "tick 0: actions",
        ),
        (
            "pod_gc_latest-0011",
            "/ticks/0/actions/0/patch",
            json!(r#"{"status":{"phase":"Failed"}}"#),
            "tick 0: actions",
        ),
        (
            "pod_gc_latest-0011",
            "/ticks/0/actions/0/subresource",
            json!(""),
            "tick 0: actions",
        ),
        (
            "statefulset_pvc_latest-0133",
            "/actions/0/body/metadata/ownerReferences/0/controller",
            json!(false),
            "actions",
        ),
        (
            "statefulset_pvc_latest-0133",
            "/actions/0/body/metadata/finalizers",
            json!([]),
            "actions",
        ),
        (
            "pv_reclaim_latest-0143",
            "/syncs/0/actions/3/body/spec/claimRef/uid",
            json!("u1"),
            "sync 0: actions",
        ),
        (
            "namespace_deletion_latest-0095",
            "/steps/0/actions/7/body/status/conditions/3/reason",
            json!("SomeResourcesRemain"),
            "step 0: actions",
        ),
        // Events, calls of plugins, and responses of the cloud provider.
        (
            "cronjob_history_latest-0050",
            "/actions/1/event/message",
            json!("Deleted job b"),
            "actions",
        ),
        ("cronjob_history_latest-0050", "/actions/1", nothing(), "actions"),
        (
            "cronjob_history_latest-0050",
            "/status_update_needed",
            json!(false),
            "actions",
        ),
        (
            "pv_reclaim_latest-0143",
            "/syncs/0/actions/1/plugin",
            json!("delete"),
            "sync 0: actions",
        ),
        (
            "cloud_nodes_latest-0002",
            "/actions/1/event/reason",
            json!("Deleting"),
            "actions",
        ),
        (
            "cloud_nodes_latest-0002",
            "/cloud/n/exists",
            json!(true),
            "actions",
        ),
        // Times, errors and results.
        (
            "ttl_after_finished_120-0034",
            "/requeued",
            json!([{ "after_ns": 2 }]),
            "requeues",
        ),
        ("ttl_after_finished_120-0034", "/requeued", json!([]), "requeues"),
        (
            "ttl_after_finished_120-0098",
            "/error",
            json!("injected"),
            "error",
        ),
        (
            "ttl_after_finished_120-0098",
            "/retried_with_backoff",
            json!(false),
            "retried",
        ),
        ("csr_cleaner_120-0275", "/errors", nothing(), "error of a"),
        (
            "legacy_tokens_latest-0185",
            "/passes/0/logged_errors",
            json!([]),
            "pass 0: logged errors",
        ),
        (
            "statefulset_pvc_latest-0133",
            "/claims_match",
            json!(true),
            "claims_match",
        ),
        (
            "statefulset_pvc_latest-0133",
            "/pod_claim_is_stale",
            json!(true),
            "pod_claim_is_stale",
        ),
        (
            "namespace_deletion_latest-0095",
            "/steps/0/remaining_estimate",
            json!(15),
            "step 0: requeues",
        ),
        (
            "namespace_deletion_latest-0038",
            "/steps/0/errors",
            json!(["other"]),
            "step 0: errors",
        ),
        // The responses of the server, and the requests.
        (
            "ttl_after_finished_120-0036",
            "/actions/1/code",
            json!(404),
            "the recorder's server",
        ),
        (
            "ttl_after_finished_120-0036",
            "/actions/0/answer/spec",
            nothing(),
            "the recorder's server",
        ),
        (
            "ttl_after_finished_120-0036",
            "/mechanism",
            json!("other"),
            "cannot be replayed",
        ),
    ] {
        let failures = changed(case, pointer, &value);
        assert_eq!(failures.len(), 1, "{case}: {pointer} is {value}");
        assert!(
            failures[0].contains(place),
            "{case}: {pointer} is {value}: {failures:?}"
        );
    }
}
