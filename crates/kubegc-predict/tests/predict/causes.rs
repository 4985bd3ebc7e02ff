//! The causes that keep objects in deletion, each in a small dump.

use kubegc_fixtures::check_transcript;
use kubegc_predict::{Assumptions, Diagnosis, document::AnswerStatus};

use crate::common;

/// The first line of an input is the release and the kinds that are complete. The dump follows.
fn diagnosis(input: &str) -> Diagnosis {
    let (first, dump) = input.split_once('\n').expect("a dump");
    let mut words = first.split(' ');
    let release = words.next().unwrap_or_default();
    let complete: Vec<&str> = words.collect();
    // A text without a final line break may be cut off.
    let dump = format!("{dump}\n");
    common::of_dump(release, &dump, &complete, Assumptions::default()).doctor()
}

#[test]
fn each_cause_has_its_evidence_and_repair() {
    check_transcript("tests/predict/causes.txt", |input| {
        let text = diagnosis(input).to_text(8);
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    });
}

/// ConfigMaps with the finalizer of an operator, and the newest time of the dump.
fn held(count: usize, newest: &str) -> Diagnosis {
    let mut input = format!(
        "1.36 all\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: clock, namespace: shop, uid: c, \
         creationTimestamp: \"2026-01-02T{newest}Z\"}}\n"
    );
    for number in 0..count {
        input.push_str(&format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: held-{number}, namespace: shop, uid: h{number}, \
             deletionTimestamp: \"2026-01-02T00:00:00Z\", finalizers: [example.org/hold]}}\n"
        ));
    }
    diagnosis(&input)
}

/// Without anything newer in the dump, nobody knows how long ago the deletion began.
#[test]
fn a_deletion_that_began_a_moment_ago_is_no_problem() {
    for (newest, is_recent, status) in [
        ("00:00:00", false, AnswerStatus::Problem),
        ("00:00:01", true, AnswerStatus::Ok),
        ("00:00:59", true, AnswerStatus::Ok),
        ("00:01:00", false, AnswerStatus::Problem),
    ] {
        let diagnosis = held(1, newest);
        assert_eq!(diagnosis.causes[0].is_recent, is_recent, "{newest}");
        assert_eq!(diagnosis.terminating[0].is_stuck, !is_recent, "{newest}");
        assert_eq!(diagnosis.status(), status, "{newest}");
    }
}

#[test]
fn objects_with_one_cause_are_below_one_entry() {
    let diagnosis = held(5, "10:00:00");
    assert_eq!(diagnosis.causes.len(), 1);
    let cause = &diagnosis.causes[0];
    assert_eq!((cause.blocks.len(), cause.fixes.len()), (5, 3));
    assert!(
        cause.fixes[2].risk.ends_with("; 2 more objects need the same"),
        "{:?}",
        cause.fixes
    );
    let log = diagnosis.to_sarif();
    let results = log["runs"][0]["results"].as_array().expect("a list");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["ruleId"], "OperatorFinalizer");
    let document = diagnosis.to_json();
    assert_eq!(document["causes"][0]["cause"], "OperatorFinalizer");
    let finalizer = &document["terminating"][0]["foreignFinalizers"][0]["name"];
    assert_eq!(finalizer, "example.org/hold");
    assert_eq!(document["causes"][0]["blocks"][4]["object"]["name"], "held-4");
}

/// Nothing is in deletion, and the ReplicaSet lacks pods.
#[test]
fn what_refuses_the_requests_of_controllers_is_in_the_document() {
    let message = "pods \\\"web-\\\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
    let diagnosis = diagnosis(&format!(
        "1.36 all\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web, namespace: shop, uid: r1}}\n\
         status: {{replicas: 4, conditions: [{{type: ReplicaFailure, status: \"True\", message: \"{message}\"}}]}}\n"
    ));
    assert_eq!(diagnosis.status(), AnswerStatus::Problem);
    let document = diagnosis.to_json();
    let cause = &document["causes"][0];
    assert_eq!(cause["cause"], "QuotaExceeded");
    assert_eq!(cause["proof"], "seen");
    assert_eq!(cause["blocks"][0]["refusedRequest"], "creation of pods");
    assert_eq!(cause["blocks"][0]["object"]["name"], "web");
    let command = "kubectl get resourcequota compute -n shop -o yaml";
    assert_eq!(cause["fixes"][0]["command"], command);
}
