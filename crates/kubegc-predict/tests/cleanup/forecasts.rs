//! Forecasts of small clusters: times, actors and missing data.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Fate, Forecast, Question, trace::Actor};
use serde_json::json;

use crate::fixture::{DAY, JOBS, PODS, VERSION, at, cluster, cluster_with_all, condition, noon, predict};

fn forecast(fixture: &Fixture) -> Forecast {
    predict(&cluster(fixture), &Question::new(VERSION).up_to(DAY).at(noon()))
}

/// The removed objects, with the seconds after noon and the actor.
fn removed(forecast: &Forecast) -> Vec<(String, u64, String)> {
    let collected = forecast.removals();
    collected
        .map(|removed| {
            let seconds = removed.at.since(noon()).as_secs();
            (removed.object.short(), seconds, removed.step.actor.to_string())
        })
        .collect()
}

fn row(object: &str, seconds: u64, actor: &str) -> (String, u64, String) {
    (object.to_owned(), seconds, actor.to_owned())
}

fn finished_job(fixture: &mut Fixture, name: &str, finished: i64, ttl: i64) {
    let mut job =
        json!({ "spec": { "ttlSecondsAfterFinished": ttl }, "status": condition("Complete", finished) });
    job["status"]["startTime"] = at(finished - 60).into();
    fixture.add("batch/v1", "Job", "shop", name, job);
}

fn node(fixture: &mut Fixture, name: &str) {
    let ready = json!({ "spec": { "providerID": "cloud://1" }, "status": condition("Ready", -3_600) });
    fixture.add("v1", "Node", "", name, ready);
}

fn pod(fixture: &mut Fixture, name: &str, node: &str, phase: &str, rest: serde_json::Value) {
    let spec = json!({ "spec": { "nodeName": node, "containers": [] }, "status": { "phase": phase } });
    fixture.add("v1", "Pod", "shop", name, spec);
    fixture.change_last(rest);
}

#[test]
fn an_expired_job_is_deleted_with_its_pods() {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a");
    finished_job(&mut fixture, "report", -100, 600);
    let owned = owned_by("batch/v1", "Job", "report");
    pod(&mut fixture, "report-1", "a", "Succeeded", owned);
    let forecast = forecast(&fixture);
    assert_eq!(
        removed(&forecast),
        [
            row("pod/report-1 -n shop", 500, "garbage collector"),
            row("job/report -n shop", 500, "garbage collector"),
        ]
    );
    let first = &forecast.timeline[0];
    assert_eq!(first.actor, Actor::Controller(JOBS));
    assert_eq!(
        format!("{}", first.at.as_secs()),
        "500",
        "the request is sent at that very time"
    );
    assert!(forecast.undetermined.is_empty(), "{:?}", forecast.undetermined);
}

#[test]
fn the_horizon_is_part_of_the_forecast_and_nothing_after_it_is() {
    let mut fixture = Fixture::default();
    finished_job(&mut fixture, "report", -100, 600);
    let cluster = cluster(&fixture);
    let question = Question::new(VERSION).up_to(DAY).at(noon());
    let at_the_end = predict(&cluster, &question.clone().up_to(Duration::from_secs(500)));
    assert_eq!(at_the_end.removals().count(), 1);
    let before = predict(
        &cluster,
        &question.up_to(Duration::from_secs(500) - Duration::from_nanos(1)),
    );
    assert_eq!(before.removals().count(), 0);
    assert_eq!(before.next_at, Some(Timestamp::from_secs(noon().as_secs() + 500)));
}

#[test]
fn unread_objects_are_undetermined_and_stay() {
    let mut fixture = Fixture::default();
    // Metadata only: it is unknown whether it has finished.
    fixture.add("batch/v1", "Job", "shop", "bare", json!({}));
    pod(&mut fixture, "lost", "b", "Running", json!({}));
    let cluster = cluster_with_all(&fixture, &["pods", "jobs"]);
    let forecast = predict(&cluster, &Question::new(VERSION).up_to(DAY).at(noon()));
    assert_eq!(forecast.removals().count(), 0);
    let undecided: Vec<_> = forecast
        .undetermined
        .iter()
        .map(|undecided| (undecided.controller, undecided.object.to_string()))
        .collect();
    assert!(
        undecided.contains(&(JOBS, "job.batch/bare -n shop".to_owned())),
        "{undecided:?}"
    );
    assert!(
        undecided.contains(&(PODS, "pod/lost -n shop".to_owned())),
        "{undecided:?}"
    );
}

#[test]
fn only_the_selected_controllers_run() {
    let mut fixture = Fixture::default();
    finished_job(&mut fixture, "report", -100, 0);
    let question = Question::new(VERSION).up_to(DAY).at(noon()).only(&[PODS]);
    assert_eq!(predict(&cluster(&fixture), &question).removals().count(), 0);
    let question = Question::new(VERSION).up_to(DAY).at(noon()).only(&[JOBS]);
    assert_eq!(predict(&cluster(&fixture), &question).removals().count(), 1);
}

#[test]
fn an_object_with_finalizers_is_deleted_once_not_in_every_sync() {
    let mut fixture = Fixture::default();
    pod(
        &mut fixture,
        "on-b",
        "b",
        "Running",
        json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
    );
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
