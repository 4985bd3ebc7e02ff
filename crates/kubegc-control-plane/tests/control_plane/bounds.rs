//! Simulations of controllers that write without end.

use kubegc_controllers::{
    Action, Cache, Change, Context, Controller, Decision, FieldChange, Form, Info, Key, Missing, Reason, Sent,
};
use kubegc_core::{
    PatchType,
    record::{ObjectId, Record},
};

use super::*;

static INFO: Info = Info {
    name: "endless",
    summary: "adds a finalizer, and removes it again",
    resources: &[Resource::ConfigMaps],
    ..Info::BASE
};

const FINALIZER: &str = "example.com/endless";

/// Adds a finalizer to every ConfigMap, and removes it again.
#[derive(Debug)]
struct Endless;

impl Controller for Endless {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn affected(&self, _cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        keys.push(change.key.clone());
    }

    fn decide(&self, cx: &Context<'_>, _id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let (code, change) = if record.meta.has_finalizer(FINALIZER) {
            ("Present", FieldChange::RemoveFinalizer(FINALIZER))
        } else {
            ("Absent", FieldChange::AddFinalizer(FINALIZER))
        };
        let reason = Reason::new(code, "it changes the finalizer");
        let form = Form::Patch(PatchType::Merge);
        let action = Action::new(Resource::ConfigMaps, &record.meta, reason);
        Ok(Decision::act(action.write(
            cx.wire,
            Sent::Nothing,
            form,
            "",
            vec![change],
        )))
    }
}

#[test]
fn a_simulation_without_an_end_stops_and_names_the_writer() {
    let mut fixture = Fixture::new(settings());
    for name in ["a", "b"] {
        fixture.add("ConfigMap", json!({"metadata": {"name": name}}));
    }
    let settings = Settings {
        controllers: vec![Arc::new(Endless)],
        ..settings()
    };
    let mut simulation = Simulation::new(fixture.server, settings);
    simulation.run_until_quiet();
    assert!(simulation.gave_up, "{:?}", simulation.plane.steps());
    let writes = simulation.plane.steps().len();
    assert!(writes < 6_000, "{writes}");
    let cycle = simulation.last_cycle().iter();
    let cycle: Vec<_> = cycle.map(|step| (step.actor, &*step.object.name)).collect();
    let endless = Actor::Controller("endless");
    assert!(!cycle.is_empty() && cycle.len() <= 4, "{cycle:?}");
    assert!(cycle.iter().all(|(actor, _)| *actor == endless), "{cycle:?}");
    // It has ended for good.
    simulation.run_until(Timestamp::from_secs(1_000_000));
    assert_eq!(simulation.plane.steps().len(), writes);
}
