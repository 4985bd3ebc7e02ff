//! Webhook configurations.

use kubegc_core::{LabelRequirement, LabelSelector, RequestMatcher, Scope, admission::Webhook};
use kubegc_snapshot::{Details, Problem, Snapshot};
use serde_json::{Value, json};

fn object(api_version: &str, kind: &str, fields: Value) -> Snapshot {
    let object = kubegc_fixtures::object(api_version, kind, "", "a", fields);
    crate::common::read("f", object.to_string().as_bytes()).expect("an object")
}

fn details(snapshot: &Snapshot) -> Option<Details> {
    let object = snapshot.object(0).expect("one object");
    object.details().cloned()
}

fn webhooks(version: &str, webhooks: Value) -> (Vec<Webhook>, Vec<(Problem, String)>) {
    let api_version = format!("admissionregistration.k8s.io/{version}");
    let snapshot = object(
        &api_version,
        "ValidatingWebhookConfiguration",
        json!({ "webhooks": webhooks }),
    );
    let Some(Details::Webhooks(webhooks)) = details(&snapshot) else {
        panic!("{:?}", details(&snapshot));
    };
    let findings = snapshot.findings.iter();
    let findings = findings.map(|finding| (finding.problem, finding.to_string()));
    (webhooks, findings.collect())
}

#[test]
fn webhooks_are_read() {
    let requirement = |key: &str, is_wanted, values: Option<&[&str]>| LabelRequirement {
        key: key.into(),
        is_wanted,
        values: values.map(|values| values.iter().map(|value| (*value).into()).collect()),
    };
    let whole = json!([{
        "name": "w.example.com", "failurePolicy": "Fail", "matchPolicy": "Exact", "matchConditions": [],
        "clientConfig": { "service": { "namespace": "hooks", "name": "w", "path": "/" }, "caBundle": "AA==" },
        "rules": [{
            "operations": ["DELETE", "UPDATE"], "apiGroups": ["", "apps"], "apiVersions": ["*"],
            "resources": ["pods/*"], "scope": "Namespaced",
        }],
        "namespaceSelector": { "matchLabels": { "team": "a" } },
        "objectSelector": { "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["x", "y"] },
            { "key": "b", "operator": "NotIn", "values": ["x"] },
            { "key": "c", "operator": "Exists" },
            { "key": "d", "operator": "DoesNotExist" },
        ] },
    }]);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
    let lists = [texts(&["", "apps"]), texts(&["*"]), texts(&["pods/*"])];
    let rule = RequestMatcher::of_webhook(texts(&["DELETE", "UPDATE"]), lists, Some(Scope::Namespaced));
    let expected = Webhook {
        name: "w.example.com".into(),
        service: Some(("hooks".into(), "w".into())),
        refuses_on_failure: true,
        matches_equivalent: false,
        rules: vec![rule.unwrap()],
        namespace_selector: LabelSelector {
            match_labels: [("team".into(), "a".into())].into(),
            ..LabelSelector::default()
        },
        object_selector: LabelSelector {
            match_expressions: vec![
                requirement("a", true, Some(&["x", "y"])),
                requirement("b", false, Some(&["x"])),
                requirement("c", true, None),
                requirement("d", false, None),
            ],
            ..LabelSelector::default()
        },
    };
    assert_eq!(webhooks("v1", whole), (vec![expected], vec![]));
}

#[test]
fn defaults_depend_on_the_version() {
    for (version, is_v1) in [("v1", true), ("v1beta1", false)] {
        let (found, _) = webhooks(version, json!([{ "name": "w" }]));
        let policies = (found[0].refuses_on_failure, found[0].matches_equivalent);
        assert_eq!(policies, (is_v1, is_v1), "{version}");
    }
}

#[test]
fn a_webhook_that_cannot_be_read_is_a_finding_and_the_others_are_kept() {
    for (bad, path) in [
        (json!({ "rules": "none" }), "webhooks[0].rules"),
        (
            json!({ "rules": [{ "scope": "Some" }] }),
            "webhooks[0].rules[0].scope",
        ),
        (
            json!({ "matchConditions": [{ "name": "c" }] }),
            "webhooks[0].matchConditions",
        ),
        (
            json!({ "objectSelector": { "matchExpressions": [{ "key": "a", "operator": "Gt" }] } }),
            "webhooks[0].objectSelector.matchExpressions[0].operator",
        ),
        (
            json!({ "clientConfig": { "service": [] } }),
            "webhooks[0].clientConfig.service",
        ),
    ] {
        let (found, findings) = webhooks("v1", json!([bad, { "name": "good" }]));
        assert_eq!(found.len(), 1, "{bad}");
        assert_eq!(*found[0].name, *"good");
        let [(Problem::BadField, text)] = &findings[..] else {
            panic!("{bad}: {findings:?}");
        };
        assert!(text.contains(path), "{text}");
    }
    let configuration = "MutatingWebhookConfiguration";
    let stripped = object("admissionregistration.k8s.io/v1", configuration, json!({}));
    assert_eq!(details(&stripped), None);
}
