//! What holds for all sets and claims: order means nothing, one plan is enough, and the references of others stay.

use std::collections::BTreeSet;

use kubegc_core::{ObjectMeta, OwnerReference, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Object, Resource},
    statefulset::{Action, Facts, Settings},
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::{claim, of_pod, of_set, plan, pod, reference, release, set};

fn references() -> impl Strategy<Value = Vec<OwnerReference>> {
    let plain = reference("StatefulSet", "web", "uid-set", false);
    vec(
        select(vec![
            of_set(),
            plain,
            of_pod(0),
            of_pod(1),
            reference("Pod", "web-0", "uid-former", true),
            reference("Pod", "web-3", "uid-former", true),
            reference("StatefulSet", "web", "uid-former", true),
            reference("Operator", "boss", "uid-boss", true),
            reference("Backup", "vault", "uid-vault", false),
            reference("Odd", "x", "uid-set", false),
        ]),
        0..4,
    )
}

fn generated() -> impl Strategy<Value = Facts> {
    let policies = || select(vec!["Retain", "Delete", "Burn"]);
    let claims = vec((references(), any::<bool>()), 10);
    (
        policies(),
        policies(),
        (0..4_i32, 0..2_i32, 0..9_u8),
        vec(any::<bool>(), 4),
        claims,
    )
        .prop_map(|(scaled, deleted, (replicas, first, ending), pods, claims)| {
            let mut policy = set(scaled, deleted, replicas);
            policy.first_ordinal = Some(first);
            policy.templates.push("logs".into());
            policy.meta.deletion_timestamp = (ending == 0).then_some(Timestamp::EPOCH);
            let pods = (0..4).zip(pods).filter(|(_, is_there)| *is_there);
            let pods = pods.map(|(ordinal, _)| pod(&policy, ordinal)).collect();
            let claims = claims
                .into_iter()
                .enumerate()
                .filter(|(_, (_, is_there))| *is_there);
            let claims = claims.map(|(index, (references, _))| {
                let template = ["data", "logs"][index % 2];
                claim(&format!("{template}-web-{}", index / 2), &references)
            });
            Facts {
                claims: Ok(claims.collect()),
                pods: Ok(pods),
                sets: vec![policy],
                failed_claims: [].into(),
            }
        })
}

fn settings() -> impl Strategy<Value = Settings> {
    select(vec!["1.26", "1.30", "1.31", "1.36"]).prop_map(release)
}

fn claims(facts: &Facts) -> &[ObjectMeta] {
    facts.claims.as_deref().unwrap_or_default()
}

/// The claims after the plan is carried out.
fn carried_out(mut facts: Facts, settings: &Settings) -> Facts {
    for action in &plan(settings, &facts).actions {
        let Action::SetOwners {
            object, references, ..
        } = action
        else {
            continue;
        };
        for claim in facts.claims.iter_mut().flatten() {
            if claim.uid == object.uid {
                claim.owner_references = references.iter().cloned().collect();
            }
        }
    }
    facts
}

proptest! {
    #[test]
    fn order_means_nothing(facts in generated(), settings in settings()) {
        let mut shuffled = facts.clone();
        if let Ok(claims) = &mut shuffled.claims {
            claims.reverse();
        }
        if let Ok(pods) = &mut shuffled.pods {
            pods.reverse();
        }
        prop_assert_eq!(plan(&settings, &facts), plan(&settings, &shuffled));
    }

    #[test]
    fn every_claim_is_written_or_kept_once(facts in generated(), settings in settings()) {
        let plan = plan(&settings, &facts);
        let written = plan.actions.iter().filter(|action| matches!(action, Action::SetOwners { .. }));
        let all: Vec<&Object> = written.map(Act::object).chain(plan.kept.iter().map(|kept| &kept.object)).collect();
        let each: BTreeSet<&Object> = all.iter().copied().collect();
        let count = claims(&facts).len();
        prop_assert_eq!((all.len(), each.len()), (count, count));
        prop_assert_eq!(plan.next_at, None);
    }

    #[test]
    fn a_second_plan_is_empty(facts in generated(), settings in settings()) {
        let names_former = |claim: &ObjectMeta| claim.owner_references.iter().any(|owner| owner.uid == *"uid-former");
        // A claim that names its set or pod and a former one loses both, and gets ours back with the second plan.
        let odd: Vec<_> = claims(&facts).iter().filter(|claim| names_former(claim)).map(|claim| claim.uid.clone()).collect();
        let after = carried_out(facts, &settings);
        let second = plan(&settings, &after).actions;
        let is_expected = |action: &Action| matches!(action, Action::Warn { .. }) || odd.contains(&action.object().uid);
        prop_assert!(second.iter().all(is_expected));
        prop_assert!(!odd.is_empty() || second.is_empty());
        let after = carried_out(after, &settings);
        prop_assert_eq!(plan(&settings, &after).actions, vec![]);
    }

    #[test]
    fn the_references_of_others_stay_in_order(facts in generated(), settings in settings()) {
        let is_other = |reference: &&OwnerReference| matches!(&*reference.kind, "Operator" | "Backup");
        for action in &plan(&settings, &facts).actions {
            let Action::SetOwners { object, references, .. } = action else { continue };
            let claim = claims(&facts).iter().find(|claim| claim.uid == object.uid).expect("a claim of the facts");
            prop_assert!(references.iter().filter(is_other).eq(claim.owner_references.iter().filter(is_other)));
            prop_assert!(references[..] != claim.owner_references[..]);
            let pod_name = claim.name.split_once('-').map_or("", |(_, pod)| pod);
            let pods = facts.pods.as_deref().unwrap_or_default();
            prop_assert!(pods.iter().any(|pod| *pod.name == *pod_name), "{} has no pod", pod_name);
        }
    }

    #[test]
    fn only_absent_pods_are_blocked(facts in generated(), settings in settings()) {
        let plan = plan(&settings, &facts);
        for blocked in &plan.summary.blocked {
            let name = format!("web-{}", blocked.ordinal);
            let pods = facts.pods.as_deref().unwrap_or_default();
            prop_assert!(pods.iter().all(|pod| *pod.name != *name));
            prop_assert!(plan.kept.iter().any(|kept| kept.object == blocked.claim));
            prop_assert_eq!(&blocked.set, &Object::new(Resource::StatefulSets, &facts.sets[0].meta));
        }
    }
}
