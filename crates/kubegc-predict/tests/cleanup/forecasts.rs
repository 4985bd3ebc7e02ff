//! Forecasts of small clusters: the horizon, the selected controllers, and objects with finalizers.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_fixtures::Fixture;
use kubegc_predict::{Fate, Forecast, Question, trace::Actor};
use serde_json::json;

use crate::{
    fixture::{DAY, JOBS, PODS, VERSION, cluster, noon, predict},
    report::{job, pod},
};

fn forecast(fixture: &Fixture) -> Forecast {
    predict(&cluster(fixture), &Question::new(VERSION).up_to(DAY).at(noon()))
}

#[test]
fn the_horizon_is_part_of_the_forecast_and_nothing_after_it_is() {
    let mut fixture = Fixture::default();
    job(&mut fixture, "report", -100, 600);
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
fn only_the_selected_controllers_run() {
    let mut fixture = Fixture::default();
    job(&mut fixture, "report", -100, 0);
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
