//! Texts of reports about undetermined and terminating objects, disabled controllers and unusual names.

use std::{collections::BTreeSet, time::Duration};

use kubegc_core::ObjectRef;
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Assumptions, Detail, Fate, Finding, Forecast, Instance, Missing, Outcomes};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    fixture::{
        VERSION, at, at_most, bare_name, cluster, cluster_under, cluster_with_all, predict, question,
        without_instances,
    },
    report::{events_of, fixture, forecast, job, node, part, pod, without_namespaces},
};

fn text(forecast: &Forecast) -> String {
    forecast.to_text(Detail::everything())
}

#[track_caller]
fn assert_text(text: &str, reported: &[&str], not_told: &[&str]) {
    for expected in reported {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    for other in not_told {
        assert!(!text.contains(other), "{other:?} in\n{text}");
    }
}

#[test]
fn objects_with_unknown_owners_are_listed_after_undetermined_ones() {
    // Whether the third pod is deleted with its owner decides whether there are too many.
    let mut fixture = Fixture::default();
    node(&mut fixture, "a", true);
    let owned = owned_by("apps/v1", "ReplicaSet", "web");
    pod(&mut fixture, "with-owner", "a", "Succeeded", owned);
    for (name, created) in [("old", -100_000), ("young", -60)] {
        let fields = json!({ "metadata": { "creationTimestamp": at(created) } });
        pod(&mut fixture, name, "a", "Succeeded", fields);
    }
    let cluster = cluster_with_all(&fixture, &["pods", "nodes"]);
    let question = question().with(at_most(2));
    let forecast = predict(&cluster, &question);
    assert_eq!(forecast.removals().count(), 0);
    let text = text(&forecast);
    assert!(
        text.starts_with("2026-05-01 12:00:00 UTC to 2026-05-02 12:00:00 UTC (24h): 2 undetermined"),
        "{text}"
    );
    let (above, below) = text
        .split_once("\nEvents if ")
        .unwrap_or_else(|| panic!("{text}"));
    assert!(!above.contains("pods have ended"), "{text}");
    assert_text(below, &["pod/old -n shop: "], &[]);
    let value = forecast.to_json();
    assert_eq!(value["removals"], json!({}));
    let events = value["events"].as_array().unwrap();
    assert!(
        !events.is_empty() && events.iter().all(|event| event["certain"] == false),
        "{events:#?}"
    );
}

#[test]
fn names_cannot_forge_lines() {
    let odd = "a\n2026-05-01 FAKE\u{1b}[31m\u{202e}";
    let mut fixture = Fixture::default();
    job(&mut fixture, &format!("ended-{odd}"), -100, 600);
    job(&mut fixture, &format!("open-{odd}"), -100, 600);
    fixture.change_last(json!({ "spec": { "ttlSecondsAfterFinished": "soon" } }));
    let held = json!({ "metadata": { "finalizers": [odd], "deletionTimestamp": at(-60), "deletionGracePeriodSeconds": 0 } });
    pod(&mut fixture, &format!("held-{odd}"), "a", "Running", held);
    let owned = owned_by("v1", "Pod", odd);
    fixture.add("v1", "ConfigMap", "shop", &format!("owned-{odd}"), owned.clone());
    let group = "rbac.authorization.k8s.io/v1";
    fixture.add(group, "ClusterRole", "", &format!("role-{odd}"), owned);
    let assumptions = Assumptions {
        acting: [(format!("other-{odd}").into(), true)].into(),
        cloud: [(format!("node-{odd}").into(), Instance::default())].into(),
        ..Assumptions::default()
    };
    let cluster = cluster_under(&fixture, VERSION, &["all"], assumptions);
    let text = text(&predict(&cluster, &question()));
    let shown = "a\\n2026-05-01 FAKE\\u{1b}[31m\\u{202e}";
    for name in ["ended", "open", "held", "owned", "role", "other", "node"] {
        let name = format!("{name}-{}", shown.split(' ').next().unwrap_or_default());
        assert_text(&text, &[&name], &[]);
    }
    let is_control = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!text.contains(is_control), "{text:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("2026-05-01 FAKE")),
        "{text}"
    );
}

#[test]
fn disabled_controllers_are_named() {
    let cluster = cluster(&Fixture::default());
    let mut only = question().up_to(Duration::from_secs(3_600));
    only = only.only(&[
        "certificatesigningrequest-cleaner-controller",
        "persistentvolume-binder-controller",
    ]);
    let forecast = predict(&cluster, &only);
    let text = text(&forecast).replace("\n    ", " ");
    let reported = [
        "  - only the garbage collector and these controllers run: certificatesigningrequest-cleaner-controller,",
        " persistentvolume-binder-controller",
    ];
    assert_text(&text, &reported, &["cronjob-controller", "external-provisioner"]);
    let json = forecast.to_json();
    assert_eq!(json["began"], "2026-05-01T12:00:00Z");
    assert_eq!(json["until"], "2026-05-01T13:00:00Z");
    let running = [
        "certificatesigningrequest-cleaner-controller",
        "persistentvolume-binder-controller",
    ];
    assert_eq!(json["controllers"], json!(running));
}

#[test]
fn responses_of_the_cloud_about_nodes_that_were_not_dumped_are_found() {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a", true);
    let cluster = cluster_under(&fixture, VERSION, &["all"], without_instances(&["a", "typo"]));
    let node = "typo".into();
    let forecast = predict(&cluster, &question());
    assert_eq!(forecast.findings, [Finding::NodeNotDumped { node }]);
    let text = text(&forecast);
    assert_text(
        &text,
        &["  - the cloud provider was queried about these nodes: a, typo\n"],
        &[],
    );
}

/// Every object that an event of the JSON names, with whether the event is certain, and how it ends.
fn subjects(value: &Value) -> Vec<(String, bool, String)> {
    let mut subjects = Vec::new();
    for event in value["events"].as_array().unwrap() {
        let certain = event["certain"].as_bool().unwrap();
        for subject in std::iter::once(event).chain(event["with"].as_array().unwrap()) {
            let object: ObjectRef = serde_json::from_value(subject["object"].clone()).unwrap();
            let end = subject["end"].as_str().unwrap().to_owned();
            subjects.push((object.short(), certain, end));
        }
    }
    subjects
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whichever fates are undecided: those objects are not counted, and not listed among what is certain.
    #[test]
    fn undetermined_objects_are_never_listed_as_certain(parts in prop::collection::vec(part(), 1..10), chosen in any::<u64>()) {
        let mut forecast = forecast(&fixture(&parts));
        let before: BTreeSet<String> = forecast.removals().map(|removed| removed.object.short()).collect();
        let mut undecided = BTreeSet::new();
        for (at, fate) in forecast.fates.iter_mut().enumerate() {
            if chosen >> (at % 64) & 1 == 1 {
                let missing = Missing::Flawed { object: ObjectRef::clone(&fate.object) };
                fate.fate = Fate::Undetermined {
                    outcomes: Outcomes::from(&fate.fate),
                    missing: vec![missing],
                };
                undecided.insert(fate.object.short());
            }
        }
        let collected: BTreeSet<String> = forecast.removals().map(|removed| removed.object.short()).collect();
        prop_assert_eq!(&collected, &(&before - &undecided));
        let value = forecast.to_json();
        let counted: u64 = value["removals"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        prop_assert_eq!(counted, collected.len() as u64);
        let subjects = subjects(&value);
        for (name, certain, _) in &subjects {
            prop_assert_eq!(*certain, !undecided.contains(name), "{}", name);
        }
        let removed: Vec<&String> = subjects.iter().filter(|(.., end)| end == "removed").map(|(name, ..)| name).collect();
        prop_assert_eq!(removed.len(), before.len());
        prop_assert_eq!(removed.into_iter().cloned().collect::<BTreeSet<_>>(), before);
        let text = text(&forecast);
        let timeline = events_of(&text);
        for name in &undecided {
            let name = bare_name(name);
            let timeline = without_namespaces(timeline);
            let words = timeline.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            // The namespace of objects removed with it is named all the same.
            let place = format!("{name}/");
            prop_assert!(timeline.contains(&place) || !words.into_iter().any(|word| word == name), "{} in\n{}", name, text);
        }
    }
}
