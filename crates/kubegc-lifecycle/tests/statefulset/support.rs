//! Sets, pods, claims and their references in a few words.

use kubegc_core::{ObjectMeta, OwnerReference, PlanOf, Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Call, Change, Wire},
    statefulset::{Facts, Retention, Settings, StatefulSet},
};

pub(crate) fn release(text: &str) -> Settings {
    Settings::new(text.parse().expect("a release in range"))
}

/// The set `shop/web` with one template, `data`.
pub(crate) fn set(when_scaled: &str, when_deleted: &str, replicas: i32) -> StatefulSet {
    let mut set = StatefulSet::new("shop", "web", "uid-set", replicas);
    set.when_scaled = Retention::from(when_scaled);
    set.when_deleted = Retention::from(when_deleted);
    set.templates = vec!["data".into()];
    set
}

pub(crate) fn pod(set: &StatefulSet, ordinal: u32) -> ObjectMeta {
    let name = format!("{}-{ordinal}", set.meta.name);
    let mut pod = ObjectMeta::new("shop", &name, &format!("uid-{name}"));
    pod.owner_references.push(set.controller_reference());
    pod
}

pub(crate) fn claim(name: &str, references: &[OwnerReference]) -> ObjectMeta {
    let mut claim = ObjectMeta::new("shop", name, &format!("uid-{name}"));
    claim.resource_version = "7".into();
    claim.owner_references = references.iter().cloned().collect();
    claim
}

/// A reference of kind `StatefulSet`, `Pod` or anything else, as a controller or a plain one.
pub(crate) fn reference(kind: &str, name: &str, uid: &str, is_controller: bool) -> OwnerReference {
    let api_version = match kind {
        "StatefulSet" => "apps/v1",
        "Pod" => "v1",
        _ => "example.com/v1",
    };
    let flag = is_controller.then_some(true);
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: flag,
        block_owner_deletion: flag,
    }
}

pub(crate) fn of_set() -> OwnerReference {
    reference("StatefulSet", "web", "uid-set", true)
}

pub(crate) fn of_pod(ordinal: u32) -> OwnerReference {
    reference(
        "Pod",
        &format!("web-{ordinal}"),
        &format!("uid-web-{ordinal}"),
        true,
    )
}

/// A set, the pods of these ordinals, and the claim `data-web-0` with these references.
pub(crate) fn facts(set: StatefulSet, references: &[OwnerReference]) -> Facts {
    let pods = vec![pod(&set, 0)];
    Facts {
        sets: vec![set],
        pods: Ok(pods),
        claims: Ok(vec![claim("data-web-0", references)]),
        failed_claims: [].into(),
    }
}

pub(crate) fn plan(settings: &Settings, facts: &Facts) -> PlanOf<Settings> {
    settings.plan(facts, Timestamp::EPOCH)
}

/// The calls of a plan in short, and why claims stay as they are.
pub(crate) fn outcome(settings: &Settings, facts: &Facts) -> (Vec<String>, Vec<String>) {
    let plan = plan(settings, facts);
    let calls = plan
        .actions
        .iter()
        .flat_map(|action| action.calls(Wire::AsUpstream));
    let kept = plan.kept.iter().map(|kept| kept.reason.to_string());
    (calls.map(|call| in_short(&call)).collect(), kept.collect())
}

fn in_short(call: &Call) -> String {
    match call {
        Call::Change { object, changes, .. } => match &changes[..] {
            [Change::OwnerReferences(references)] => {
                let uids: Vec<String> = references.iter().map(owner).collect();
                format!("{}: {}", object.name, uids.join(" "))
            }
            other => format!("{other:?}"),
        },
        Call::Event {
            object,
            reason,
            message,
            ..
        } => format!("{} {reason} {message}", object.name),
        other => format!("{other:?}"),
    }
}

fn owner(reference: &OwnerReference) -> String {
    let mark = match (reference.controller, reference.block_owner_deletion) {
        (Some(true), Some(true)) => "!",
        (None, None) => "",
        _ => "?",
    };
    format!("{}{mark}", reference.uid)
}
