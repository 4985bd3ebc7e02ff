//! A cleanup forecast as JSON, one stable form for programs.

use std::collections::BTreeMap;

use kubegc_controllers::Cloud;
use kubegc_core::ObjectRef;
use serde_json::{Value, json};

use super::{
    CleanupForecast,
    because::because,
    story::{End, Subject, events},
};
use crate::Actor;

impl CleanupForecast {
    /// The forecast as a JSON value. Times are RFC 3339.
    ///
    /// - `began`, `until`, `nextAt` (null where nothing is due by itself any more);
    /// - `summary`: how many objects of each kind go for certain, by `apiVersion/kind`;
    /// - `events`: what happens, in order of time, each with `at`, `actor`, `controller` (null for other actors), `message`, its `object`, what
    ///   becomes of it (`end`: `gone`, `held` or `changed`), `goneAt`, and `with`: the objects that go because of it, with the same. An object that goes is in one event, once. Where
    ///   `certain` is false, the fates of its objects are undecided, and this happens to them if all owners that are not known exist and nothing that was
    ///   not read matters;
    /// - `undecided`: by controller and object, with a `message`; what hangs on such objects, on unknown owners or on pods of which nobody knows when they end is
    ///   undecided in `forecast.fates`;
    /// - `forecast`: all fates, every write, warnings and findings, as of any [`Forecast`](crate::Forecast);
    /// - `frame`: what is taken for granted: `horizonSeconds`; `controllers`, those that run; `storageIsDeleted`; and `cloud`, by node.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut summary: BTreeMap<String, usize> = BTreeMap::new();
        for gone in self.collected() {
            let ObjectRef {
                api_version, kind, ..
            } = gone.object;
            *summary.entry(format!("{api_version}/{kind}")).or_default() += 1;
        }
        let events = events(self).into_iter().map(|event| {
            let mut value = subject_json(&event.subject);
            value["at"] = event.at.to_string().into();
            value["actor"] = event.step.actor.to_string().into();
            value["controller"] = match event.step.actor {
                Actor::Controller(name) => name.into(),
                _ => Value::Null,
            };
            value["message"] = because(&event.step.why, event.subject.object).into();
            value["certain"] = event.is_certain.into();
            value["with"] = event.followers.iter().map(subject_json).collect();
            value
        });
        let running = self.frame.controllers.iter();
        json!({
            "began": self.began.to_string(),
            "until": self.until.to_string(),
            "nextAt": self.next_at.map(|at| at.to_string()),
            "summary": summary,
            "events": events.collect::<Vec<_>>(),
            "undecided": self.undecided.iter().map(|one| json!({
                "controller": one.controller,
                "kind": one.object.resource.kind(),
                "namespace": one.object.namespace,
                "name": one.object.name,
                "uid": one.object.uid,
                "message": one.missing.to_string(),
            })).collect::<Vec<_>>(),
            "forecast": self.forecast.to_json(),
            "frame": {
                "horizonSeconds": self.frame.horizon.as_secs_f64(),
                "controllers": running.map(|controller| controller.info().name).collect::<Vec<_>>(),
                "storageIsDeleted": self.forecast.assumptions.storage_is_deleted,
                "cloud": self.forecast.assumptions.cloud.iter().map(|(node, instance)| json!({
                    "node": node,
                    "exists": cloud_json(&instance.exists),
                    "isShutdown": cloud_json(&instance.is_shutdown),
                })).collect::<Vec<_>>(),
            },
        })
    }
}

fn subject_json(subject: &Subject<'_>) -> Value {
    let (end, gone_at) = match subject.end {
        End::Gone(at) => ("gone", Some(at.to_string())),
        End::Held => ("held", None),
        End::Changed => ("changed", None),
    };
    json!({ "object": subject.object, "end": end, "goneAt": gone_at })
}

/// An answer of the cloud; null where there is none.
fn cloud_json(answer: &Cloud) -> Value {
    match answer {
        Cloud::Yes => true.into(),
        Cloud::No => false.into(),
        Cloud::NotImplemented | Cloud::Failed(_) => Value::Null,
    }
}
