//! Forecasts of small clusters: the horizon, the selected controllers, finalizers, and undetermined outcomes
//! because of missing owners, unreadable objects and incomplete namespaces.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Fate, Finding, Forecast, Missing, trace::Actor};
use serde_json::{Value, json};

use crate::{
    fixture::{JOBS, PODS, at, at_most, cluster, cluster_with_all, noon, predict, question},
    report::{job, pod},
};

fn fate<'a>(forecast: &'a Forecast, name: &str) -> Option<&'a Fate> {
    let fates = &forecast.fates;
    let found = fates.iter().find(|fate| *fate.object.name == *name);
    found.map(|found| &found.fate)
}

fn ended_pod(fixture: &mut Fixture, name: &str, created: i64, rest: Value) {
    let pod = json!({ "metadata": { "creationTimestamp": at(created) }, "spec": { "containers": [] }, "status": { "phase": "Succeeded" } });
    fixture.add("v1", "Pod", "shop", name, pod);
    fixture.change_last(rest);
}

/// Three pods have ended and two may stay. Where `others` have owners that were not dumped, these may be
/// fewer.
fn three_pods(others: usize) -> Forecast {
    let mut fixture = Fixture::default();
    let owner = owned_by("apps/v1", "ReplicaSet", "of-first");
    ended_pod(&mut fixture, "first", -9_000, owner);
    for (at, name) in ["second", "third"].into_iter().enumerate() {
        let rest = if at < others {
            owned_by("apps/v1", "ReplicaSet", &format!("of-{name}"))
        } else {
            json!({})
        };
        ended_pod(&mut fixture, name, -8_000 + at as i64, rest);
    }
    let question = question().with(at_most(2));
    predict(&cluster_with_all(&fixture, &["pods", "nodes"]), &question)
}

#[test]
fn l1_4_pods_above_a_threshold_are_undetermined_if_others_may_be_deleted_first() {
    assert!(matches!(
        fate(&three_pods(0), "first"),
        Some(Fate::Deleted { .. })
    ));
    for others in [1, 2] {
        let forecast = three_pods(others);
        let fate = fate(&forecast, "first");
        let Some(Fate::Undetermined { missing, .. }) = fate else {
            panic!("{others} others: {fate:?}");
        };
        assert!(
            matches!(&missing[..], [Missing::Owner { owner, .. }] if *owner.name == *"of-first"),
            "{missing:?}"
        );
    }
}

#[test]
fn l1_4_unknown_owners_of_owners_make_them_undetermined_too() {
    let mut fixture = Fixture::default();
    for (at, name) in ["first", "second"].into_iter().enumerate() {
        let set = owned_by("apps/v1", "Deployment", &format!("unseen-{name}"));
        fixture.add("apps/v1", "ReplicaSet", "shop", &format!("of-{name}"), set);
        let owner = owned_by("apps/v1", "ReplicaSet", &format!("of-{name}"));
        ended_pod(&mut fixture, name, -9_000 + at as i64, owner);
    }
    let question = question().with(at_most(1));
    let cluster = cluster_with_all(&fixture, &["pods", "nodes", "replicasets.apps"]);
    let forecast = predict(&cluster, &question);
    assert_eq!(fate(&forecast, "first").map(Fate::word), Some("undetermined"));
    assert_eq!(forecast.removals().count(), 0);
}

/// A terminating StatefulSet with a finalizer, two claims of it, and a third that is not its own.
fn set_with_claims(spec: &Value) -> Fixture {
    let mut fixture = Fixture::default();
    let deleting = json!({
        "metadata": {
            "finalizers": ["foregroundDeletion", "example.com/hold"],
            "deletionTimestamp": at(-5),
            "deletionGracePeriodSeconds": 0,
        },
        "spec": spec,
    });
    fixture.add("apps/v1", "StatefulSet", "shop", "db", deleting);
    if spec.is_null() {
        fixture.objects[0].as_object_mut().unwrap().remove("spec");
    }
    for name in ["data-db-0", "data-db-1", "data-web-0"] {
        let fields = json!({ "spec": {}, "status": {} });
        fixture.add("v1", "PersistentVolumeClaim", "shop", name, fields);
    }
    fixture
}

#[test]
fn a_terminating_set_that_was_not_read_keeps_its_claims() {
    let mut fixture = set_with_claims(&Value::Null);
    let forecast = predict(&cluster(&fixture), &question());
    let words = |forecast: &Forecast| {
        ["data-db-0", "data-db-1", "data-web-0"].map(|name| fate(forecast, name).map(Fate::word))
    };
    assert_eq!(words(&forecast), [Some("kept"); 3]);
    assert!(forecast.undetermined.is_empty(), "{:?}", forecast.undetermined);
    // A StatefulSet that stays keeps its claims.
    fixture.objects[0]["metadata"] =
        json!({ "name": "db", "namespace": "shop", "uid": "db", "resourceVersion": "1" });
    let forecast = predict(&cluster(&fixture), &question());
    assert_eq!(forecast.undetermined.len(), 1);
    assert_eq!(words(&forecast), [Some("kept"); 3]);
}

#[test]
fn claims_that_may_belong_to_an_undumped_set_are_a_finding() {
    let retained = json!({ "replicas": 0, "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] });
    let fixture = set_with_claims(&retained);
    let of_sets = |kinds: &[&str]| {
        let forecast = predict(&cluster_with_all(&fixture, kinds), &question());
        let findings = forecast.findings.into_iter();
        let texts = findings.filter(|finding| matches!(finding, Finding::UnseenSets { .. }));
        texts.map(|finding| finding.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of_sets(&["all"]), [""; 0]);
    // Two are of the set that is there.
    let reported = "the list of statefulsets is not complete: claims named like those of a StatefulSet (1) may be deleted with it, and their volumes with them";
    assert_eq!(of_sets(&["pods", "persistentvolumeclaims"]), [reported]);
}

#[test]
fn a_node_that_was_not_dumped_may_have_a_kubelet_or_not() {
    let mut fixture = Fixture::default();
    let overdue = json!({
        "metadata": { "deletionTimestamp": at(-60), "deletionGracePeriodSeconds": 30 },
        "spec": { "nodeName": "unseen", "containers": [] },
        "status": { "phase": "Running" },
    });
    fixture.add("v1", "Pod", "shop", "somewhere", overdue);
    let cluster = cluster_with_all(&fixture, &["pods"]);
    let forecast = predict(&cluster, &question());
    assert_eq!(forecast.removals().count(), 0);
    assert_eq!(forecast.to_json()["removals"], json!({}));
    assert_eq!(forecast.timeline[0].actor.to_string(), "kubelet");
    let Fate::Undetermined { missing, .. } = &forecast.fates[0].fate else {
        panic!("whether its kubelet runs is not known")
    };
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert!(
        missing.contains(
            &"when pod/somewhere -n shop ends: whether the kubelet of node unseen runs is not known"
                .to_owned()
        ),
        "{missing:?}"
    );
}

fn forecast(fixture: &Fixture) -> Forecast {
    predict(&cluster(fixture), &question())
}

#[test]
fn the_horizon_is_part_of_the_forecast_and_nothing_after_it_is() {
    let mut fixture = Fixture::default();
    job(&mut fixture, "report", -100, 600);
    let cluster = cluster(&fixture);
    let question = question();
    let at_the_end = predict(&cluster, &question.clone().up_to(Duration::from_secs(500)));
    assert_eq!(at_the_end.removals().count(), 1);
    let before_its_end = question.up_to(Duration::from_secs(500) - Duration::from_nanos(1));
    let before = predict(&cluster, &before_its_end);
    assert_eq!(before.removals().count(), 0);
    assert_eq!(before.next_at, Some(Timestamp::from_secs(noon().as_secs() + 500)));
}

#[test]
fn only_the_selected_controllers_run() {
    let mut fixture = Fixture::default();
    job(&mut fixture, "report", -100, 0);
    for (name, removals) in [(PODS, 0), (JOBS, 1)] {
        let forecast = predict(&cluster(&fixture), &question().only(&[name]));
        assert_eq!(forecast.removals().count(), removals, "{name}");
    }
}

#[test]
fn an_object_with_finalizers_is_deleted_once_not_in_every_sync() {
    let mut fixture = Fixture::default();
    let fields = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    pod(&mut fixture, "on-b", "b", "Running", fields);
    let forecast = forecast(&fixture);
    let requested = forecast
        .timeline
        .iter()
        .filter(|step| step.actor == Actor::Controller(PODS));
    // The mark, and the deletion.
    assert_eq!(requested.count(), 2, "{:#?}", forecast.timeline);
    let fate = &forecast.fates[0].fate;
    assert!(
        matches!(fate, Fate::Terminating { waits_for } if waits_for[0].finalizer() == Some("example.com/hold")),
        "{fate:?}"
    );
}
