//! A recording of a whole control plane is shown with its forecast, and any recorded run matches.

use std::{fs, path::Path};

use kubegc_conformance::replay;
use serde_json::{Value, json};

const A: &str = "00000000-0000-4000-8000-00000000000a";

fn config_map(uid: &str, name: &str, owners: &[(&str, &str)], finalizers: &[&str]) -> Value {
    let owner = |&(uid, name): &(&str, &str)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "namespace": "n", "name": name, "uid": uid, "resourceVersion": "1", "finalizers": finalizers,
        "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owners,
    }})
}

/// The deletion of `a`, which owns `held` (held by a finalizer), `shared` (which another object owns as
/// well), and two objects with one id, of which `x-1` has another owner.
fn case() -> Value {
    let [keep, held, shared, x1, x2] =
        ["b", "c", "d", "e", "f"].map(|digit| format!("00000000-0000-4000-8000-00000000000{digit}"));
    let uids = [A, &keep, &held, &shared, &x1, &x2];
    let names = ["a", "keep", "held", "shared", "x-*", "x-*"];
    let changes = [
        json!({"fate": "deleted"}),
        json!({"fate": "unchanged"}),
        json!({"fate": "terminating", "finalizers": ["example.com/hold"]}),
        json!({"fate": "present", "released": ["/ConfigMap/$P/a"]}),
        json!({"fate": "unchanged"}),
        json!({"fate": "deleted"}),
    ];
    let mut fates: Vec<Value> = changes.into();
    for ((fate, uid), name) in fates.iter_mut().zip(uids).zip(names) {
        fate["uid"] = uid.into();
        fate["id"] = format!("/ConfigMap/$P/{name}").into();
    }
    let counted = fates.iter().filter(|fate| fate["fate"] != "unchanged");
    let counted = counted.cloned().map(|mut fate| {
        fate["count"] = 1.into();
        fate
    });
    json!({
        "id": "r1", "kubernetes": "1.20.2", "category": "random", "title": "", "prefix": "n",
        "at": "2026-01-01T00:01:00Z", "quiet": true, "observed_s": 9.0, "after": [], "writes": [],
        "before": [
            config_map(A, "a", &[], &[]),
            config_map(&keep, "keep", &[], &[]),
            config_map(&held, "held", &[(A, "a")], &["example.com/hold"]),
            config_map(&shared, "shared", &[(A, "a"), (&keep, "keep")], &[]),
            config_map(&x1, "x-1", &[(&keep, "keep")], &[]),
            config_map(&x2, "x-2", &[(A, "a")], &[]),
        ],
        "intent": [{
            "verb": "delete", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "a",
            "options": {"propagationPolicy": "Background"}, "atSeconds": 0.0, "code": 200,
        }],
        "repeat_outcomes": [{"count": 3, "changes": counted.collect::<Vec<_>>()}],
        "fates": fates,
    })
}

/// Replays a case with other values at some places. Returns the failure and the notes.
fn replayed(name: &str, changes: &[(&str, Value)], only: Option<&str>) -> (Option<String>, Vec<String>) {
    let mut case = case();
    for (pointer, value) in changes {
        let place = case.pointer_mut(pointer).expect("a place in the case");
        assert_ne!(place, value, "{pointer} changes");
        *place = value.clone();
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
    fs::write(&path, case.to_string()).expect("writable");
    let report = replay(&path, only).expect("readable");
    assert_eq!(report.cases(), 1);
    let failure = report.failed.first().map(|case| case.failure.to_string());
    (failure, report.notes)
}

#[test]
fn a_recording_matches_and_is_shown_next_to_the_forecast() {
    let (failure, notes) = replayed("predict-true", &[], None);
    assert_eq!((failure, notes.len()), (None, 0));
    let (failure, notes) = replayed("predict-shown", &[], Some("r1"));
    assert_eq!((failure, notes.len()), (None, 1));
    assert!(
        notes[0].contains("predicted garbage collector") && notes[0].contains("held"),
        "{}",
        notes[0]
    );
}

#[test]
fn the_outcome_of_another_run_matches_with_other_names_and_codes() {
    // The first run is another one: `a` stays.
    let other = json!([{
        "fate": "terminating", "id": "/ConfigMap/$P/held", "finalizers": ["example.com/hold"], "count": 1,
    }]);
    let both = json!([{"count": 1, "changes": other}, case()["repeat_outcomes"][0]]);
    let changes = [
        ("/fates/0/fate", json!("unchanged")),
        ("/fates/3/fate", json!("unchanged")),
        ("/fates/5/fate", json!("unchanged")),
        ("/repeat_outcomes", both),
        ("/intent/0/code", json!(404)),
    ];
    let (failure, _) = replayed("predict-other-run", &changes, None);
    assert_eq!(failure, None);
    // Of two objects with one id the other one is deleted.
    let changes = [
        ("/fates/4/fate", json!("deleted")),
        ("/fates/5/fate", json!("unchanged")),
    ];
    let (failure, _) = replayed("predict-same-id", &changes, None);
    assert_eq!(failure, None);
    // There the recorded status codes count.
    let changes = [changes.to_vec(), vec![("/intent/0/code", json!(404))]].concat();
    let (failure, _) = replayed("predict-same-id-code", &changes, None);
    assert!(failure.is_some_and(|failure| failure.contains("other status codes than recorded")));
}
