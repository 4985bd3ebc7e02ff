//! Deletes in a cluster with a ValidatingAdmissionPolicy.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Assumptions, Fate, Forecast, Intent, Missing};
use serde_json::json;

use crate::common;

/// ConfigMap `p` owns ConfigMap `a` and Secret `s`; a policy validates requests for ConfigMaps.
fn objects(operation: &str, expression: &str, action: &str) -> Fixture {
    let mut fixture = Fixture::default();
    let fields = json!({ "metadata": { "labels": { "team": "a" } } });
    fixture.add("v1", "Namespace", "", "lab", fields);
    fixture.add("v1", "ConfigMap", "lab", "p", json!({}));
    fixture.add("v1", "ConfigMap", "lab", "a", owned_by("v1", "ConfigMap", "p"));
    fixture.add("v1", "Secret", "lab", "s", owned_by("v1", "ConfigMap", "p"));
    let group = "admissionregistration.k8s.io/v1";
    let rule = json!({ "operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] });
    let policy = json!({ "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [rule], "matchPolicy": "Equivalent" },
        "validations": [{ "expression": expression }],
    } });
    fixture.add(group, "ValidatingAdmissionPolicy", "", "guard", policy);
    let binding = json!({ "spec": {
        "policyName": "guard",
        "matchResources": { "namespaceSelector": { "matchLabels": { "team": "a" } } },
        "validationActions": [action],
    } });
    fixture.add(group, "ValidatingAdmissionPolicyBinding", "", "guard", binding);
    fixture
}

fn deleted(release: &str, fixture: &Fixture, policy: PropagationPolicy) -> Forecast {
    let cluster = common::of_release(release, &fixture.objects, &["all"], Assumptions::default());
    let name = "lab/ConfigMap/p".parse().expect("three parts");
    let delete = Intent::delete(name, DeleteOptions::policy(policy));
    cluster.predict(&[delete]).expect("it is in the dump")
}

fn fate<'f>(forecast: &'f Forecast, name: &str) -> Option<&'f Fate> {
    let mut fates = forecast.fates.iter();
    let found = fates.find(|fate| *fate.object.name == *name);
    found.map(|found| &found.fate)
}

/// The fate, or the possible ones.
fn word(forecast: &Forecast, name: &str) -> String {
    match fate(forecast, name) {
        Some(Fate::Undetermined { outcomes, .. }) => format!("({outcomes})"),
        fate => fate.map_or("kept", Fate::word).to_owned(),
    }
}

/// A row: release, operation, action and expression of the policy; the propagation policy; the fates of `p`,
/// `a` and `s`.
const CASES: &str = "\
1.36.0 DELETE Deny false | Background | kept kept kept
1.36.0 DELETE Warn false | Background | deleted deleted deleted
1.29.0 DELETE Deny false | Background | deleted deleted deleted
1.36.0 DELETE Deny oldObject.data.keep!='true' | Background | (deleted, or kept) (deleted, or kept) (deleted, or kept)
1.36.0 DELETE Warn oldObject.data.keep!='true' | Background | deleted deleted deleted
1.36.0 UPDATE Deny false | Orphan | terminating kept released
1.36.0 UPDATE Deny object.data.keep!='true' | Orphan | (deleted, or terminating) (released, or kept) released
";

#[test]
fn what_a_policy_may_refuse_is_undetermined() {
    for row in CASES.lines() {
        let parts: Vec<&str> = row.split('|').map(str::trim).collect();
        let [policy, propagation, expected] = parts[..] else {
            panic!("{row}")
        };
        let [release, operation, action, expression] = policy.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let propagation = match propagation {
            "Orphan" => PropagationPolicy::Orphan,
            _ => PropagationPolicy::Background,
        };
        let forecast = deleted(release, &objects(operation, expression, action), propagation);
        let words = ["p", "a", "s"].map(|name| word(&forecast, name));
        assert_eq!(words.join(" "), expected, "{row}");
        if let Some(Fate::Undetermined { missing, .. }) = fate(&forecast, "p") {
            let policy = Missing::Policy {
                policy: "guard".into(),
                expression: expression.into(),
            };
            assert_eq!(missing[..], [policy], "{row}");
        }
    }
}
