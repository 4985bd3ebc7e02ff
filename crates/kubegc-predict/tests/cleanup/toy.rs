//! A custom controller is one file and one registration, and is then part of a forecast.

use std::time::Duration;

use kubegc_controllers::{Action, Context, Controller, Decision, Info, Missing, OnError, Reason, Sent};
use kubegc_core::{
    DeleteOptions,
    record::{ObjectId, Record, Resource},
};
use kubegc_fixtures::Fixture;
use kubegc_predict::Question;
use serde_json::json;

use crate::fixture::{DAY, VERSION, at, cluster, noon, predict};

/// Deletes ConfigMaps named `scratch` two hours after their creation.
#[derive(Debug)]
struct Scratch;

static INFO: Info = Info {
    name: "scratch-controller",
    summary: "deletes ConfigMaps named scratch after two hours",
    resources: &[Resource::ConfigMaps],
    permissions: &[(Resource::ConfigMaps, "", &["delete"])],
    ..Info::BASE
};

impl Controller for Scratch {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let created = record.meta.creation_timestamp;
        let Some(created) = created.filter(|_| &*id.name == "scratch") else {
            let reason = Reason::new("NotScratch", "it is not named scratch");
            return Ok(Decision::keep(id.clone(), reason));
        };
        let due = created.saturating_add(Duration::from_secs(7_200));
        if due > cx.now {
            let reason = Reason::new("Young", "it is younger than two hours");
            return Ok(Decision::keep(id.clone(), reason).requeue_at(due));
        }
        let reason = Reason::new("Old", "it is two hours old");
        let action = Action::new(Resource::ConfigMaps, &record.meta, reason);
        let action = action.delete(cx.wire, Sent::Uid, DeleteOptions::default());
        Ok(Decision::act(action.on_error(OnError::RetryUnlessNotFound)))
    }
}

#[test]
fn a_custom_controller_is_part_of_a_forecast() {
    let mut fixture = Fixture::default();
    for name in ["scratch", "settings"] {
        let fields = json!({ "metadata": { "creationTimestamp": at(0) } });
        fixture.add("v1", "ConfigMap", "shop", name, fields);
    }
    let removed = |question: &Question| -> Vec<(String, u64, String)> {
        let forecast = predict(&cluster(&fixture), &question.clone().at(noon()));
        let collected = forecast.removals();
        collected
            .map(|removed| {
                let seconds = removed.at.since(noon()).as_secs();
                (removed.object.short(), seconds, removed.step.actor.to_string())
            })
            .collect()
    };
    let question = Question::new(VERSION).up_to(DAY);
    assert_eq!(removed(&question), []);
    let expected = (
        "configmap/scratch -n shop".to_owned(),
        7_200,
        "scratch-controller".to_owned(),
    );
    assert_eq!(removed(&question.with(Scratch)), [expected]);
}
