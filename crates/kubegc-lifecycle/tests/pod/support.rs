//! Pods, nodes and plans in a few words.

use kubegc_core::{ObjectMeta, PlanOf, Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Call, Change, Live, Taint, Wire},
    pod::{Facts, LiveNode, LiveNodes, Node, Pod, Settings, Status, TAINT_OUT_OF_SERVICE},
};

pub(crate) type PodPlan = PlanOf<Settings>;

pub(crate) const START: i64 = 1_000_000;

/// So many seconds after the start.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(START + seconds)
}

pub(crate) fn release(text: &str) -> Settings {
    Settings::new(text.parse().expect("a release in range"))
}

pub(crate) fn with_threshold(threshold: i32) -> Settings {
    let mut settings = Settings::default();
    settings.terminated_threshold = threshold;
    settings
}

/// A pod in the namespace `ns`, created so many seconds before the start.
pub(crate) fn pod(name: &str, phase: &str, node: &str, age: i64) -> Pod {
    let mut meta = ObjectMeta::new("ns", name, name);
    meta.resource_version = "7".into();
    meta.creation_timestamp = Some(at(-age));
    Pod::new(meta, node, Status::new(phase))
}

pub(crate) fn terminating(mut pod: Pod) -> Pod {
    pod.meta.deletion_timestamp = Some(at(-1));
    pod
}

pub(crate) fn evicted(mut pod: Pod) -> Pod {
    if let Some(status) = &mut pod.status {
        status.phase = "Failed".into();
        status.reason = "Evicted".into();
    }
    pod
}

pub(crate) fn out_of_service(mut node: Node, effect: &str) -> Node {
    let key = TAINT_OUT_OF_SERVICE.into();
    let effect = effect.into();
    node.taints.get_or_insert_default().push(Taint { key, effect });
    node
}

/// The facts with this answer of a live read of a node, made at this time.
pub(crate) fn answered(mut facts: Facts, node: &str, answer: Live<()>, read_at: Timestamp) -> Facts {
    let read = LiveNode { read_at, answer };
    facts.live_nodes = LiveNodes::Of([(node.into(), read)].into());
    facts
}

/// The plan of a pass, whose quarantine goes back into the facts.
pub(crate) fn pass(settings: &Settings, facts: &mut Facts, now: Timestamp) -> PodPlan {
    let plan = settings.plan(facts, now);
    facts.quarantine = plan.summary.quarantine.clone();
    plan
}

/// A pass whose plan nobody carries out.
pub(crate) fn pass_by(settings: &Settings, facts: &mut Facts, now: Timestamp) {
    facts.quarantine = settings.plan(facts, now).summary.quarantine;
}

/// What upstream calls, in short.
pub(crate) fn calls(plan: &PodPlan) -> Vec<String> {
    let calls = plan
        .actions
        .iter()
        .flat_map(|action| action.calls(Wire::AsUpstream));
    calls.map(|call| in_short(&call)).collect()
}

pub(crate) fn in_short(call: &Call) -> String {
    match call {
        Call::Delete { object, options } => {
            let grace = options.grace_period_seconds.map_or(-1, |grace| grace);
            format!("delete {} grace {grace}", object.name)
        }
        Call::Change { object, changes, .. } => {
            let changes = changes.iter().map(|change| match change {
                Change::Phase(phase) => phase.to_string(),
                Change::Condition(condition) => condition.kind.to_string(),
                other => format!("{other:?}"),
            });
            format!("patch {} {}", object.name, changes.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// The names of the pods that go, in order.
pub(crate) fn gone(plan: &PodPlan) -> Vec<&str> {
    plan.actions.iter().map(|action| &*action.object().name).collect()
}

/// Why pods stay: `name: reason`.
pub(crate) fn kept(plan: &PodPlan) -> Vec<String> {
    let kept = plan.kept.iter();
    kept.map(|kept| format!("{}: {}", kept.object.name, kept.reason))
        .collect()
}
