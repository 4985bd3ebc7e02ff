//! Volumes, claims and calls in a few words.

use kubegc_core::{PlanOf, Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Call, Change, Reads, Wire},
    volume::{
        Annotations, Claim, ClaimRef, FINALIZER_IN_TREE, FINALIZER_VOLUME_PROTECTION, Holder, Migration,
        Phase, Policy, Volume,
        reclaim::{Facts, Plugin, Settings},
    },
};

pub(crate) const IN_TREE: &str = "kubernetes.io/aws-ebs";
pub(crate) const DRIVER: &str = "ebs.csi.aws.com";

pub(crate) fn release(text: &str) -> Settings {
    Settings::new(text.parse().expect("a release in range"))
}

/// A bound volume that a plugin within Kubernetes provisioned for the claim `shop/data`, as it looks after its first sync.
pub(crate) fn dynamic(policy: Policy) -> Volume {
    let mut volume = Volume::new("disk", "uid-disk");
    volume.meta.resource_version = "7".into();
    volume.meta.finalizers = vec![FINALIZER_VOLUME_PROTECTION.into()];
    if policy == Policy::Delete {
        volume.meta.finalizers.push(FINALIZER_IN_TREE.into());
    }
    volume.policy = policy;
    note(&mut volume).provisioned_by = Some(IN_TREE.into());
    note(&mut volume).is_bound_by_controller = true;
    volume.migration = Migration::Off;
    bound(volume)
}

/// A bound volume that a person made for the claim `shop/data`.
pub(crate) fn made_by_hand(policy: Policy) -> Volume {
    let mut volume = Volume::new("disk", "uid-disk");
    volume.meta.resource_version = "7".into();
    volume.policy = policy;
    bound(volume)
}

fn bound(mut volume: Volume) -> Volume {
    volume.phase = Phase::Bound;
    volume.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", "uid-data"));
    volume
}

/// The annotations of a volume, to be changed.
pub(crate) fn note(volume: &mut Volume) -> &mut Annotations {
    volume.annotations.get_or_insert_default()
}

pub(crate) fn in_phase(mut volume: Volume, phase: Phase) -> Volume {
    volume.phase = phase;
    volume
}

pub(crate) fn claim() -> Claim {
    Claim::new("shop", "data", "uid-data")
}

/// Facts in which everything is known, and lists are as good as reads.
pub(crate) fn facts(volume: Volume, claims: Vec<Claim>) -> Facts {
    let mut facts = Facts::new(vec![volume], claims, Vec::new());
    facts.read_volumes = Reads::AsListed;
    facts.read_claims = Reads::AsListed;
    facts.plugins.insert("disk".into(), Plugin::Known);
    facts
}

pub(crate) fn plan(settings: &Settings, facts: &Facts) -> PlanOf<Settings> {
    settings.plan(facts, Timestamp::EPOCH)
}

/// The calls of a plan, and why its only volume stays.
pub(crate) fn outcome(settings: &Settings, facts: &Facts) -> (Vec<String>, String) {
    let plan = plan(settings, facts);
    let kept = plan.kept.first();
    (
        calls(&plan.actions),
        kept.map(|kept| kept.reason.to_string()).unwrap_or_default(),
    )
}

pub(crate) fn calls<A: Act>(actions: &[A]) -> Vec<String> {
    let calls = actions.iter().flat_map(|action| action.calls(Wire::AsUpstream));
    calls.map(|call| in_short(&call)).collect()
}

pub(crate) fn in_short(call: &Call) -> String {
    match call {
        Call::Delete { object, .. } => format!("delete {}", object.name),
        Call::Change {
            subresource, changes, ..
        } => {
            let changes: Vec<String> = changes.iter().map(change).collect();
            format!("put{subresource} {}", changes.join(" "))
        }
        Call::Event {
            is_warning,
            reason,
            message,
            ..
        } => {
            let kind = if *is_warning { "Warning" } else { "Normal" };
            format!("{kind} {reason} {message}")
        }
        Call::Outside { operation, .. } => format!("{operation:?}"),
    }
}

fn change(change: &Change) -> String {
    match change {
        Change::Phase(phase) => phase.to_string(),
        Change::Message(message) => format!("{message:?}"),
        Change::AddFinalizer(name) => format!("+{name}"),
        Change::RemoveFinalizer(name) => format!("-{name}"),
        Change::Annotation { key, value } => format!("{key}={value}"),
        Change::RemoveAnnotation(key) => format!("-{key}"),
        other => format!("{other:?}"),
    }
}
