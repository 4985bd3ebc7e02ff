//! The finalizers that protect claims and volumes in use.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{ObjectMeta, OwnerReference, Planner, StoreError, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Live, Object, Resource},
    volume::{
        Claim, FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION, Phase, Pod, Source, Volume,
        protection::{Action, Facts, LivePods, Settings},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::calls;

const REMOVED: &str = "put -kubernetes.io/pvc-protection";
const ADDED: &str = "put +kubernetes.io/pvc-protection";

/// A claim that is being deleted.
fn deleted() -> Claim {
    let mut claim = Claim::new("shop", "web-data", "uid-claim");
    claim.meta.resource_version = "7".into();
    claim.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
    claim.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    claim
}

fn owned_by(mut claim: Claim, uid: &str, controller: Option<bool>) -> Claim {
    claim.meta.owner_references.push(OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: "web".into(),
        uid: uid.into(),
        controller,
        block_owner_deletion: None,
    });
    claim
}

fn unprotected() -> Volume {
    let mut volume = Volume::new("disk", "uid-disk");
    volume.meta.resource_version = "7".into();
    volume
}

fn user() -> Pod {
    Pod::new("shop", "web", "uid-web").with(Source::Claim("web-data".into()))
}

fn facts(claim: Claim, pods: Vec<Pod>) -> Facts {
    Facts {
        claims: vec![claim],
        volumes: vec![],
        pods: Ok(pods),
        live_pods: LivePods::AsListed,
    }
}

fn outcome(facts: &Facts) -> (Vec<String>, String) {
    let plan = Settings::default().plan(facts, Timestamp::EPOCH);
    assert_eq!(
        plan.actions.len() + plan.kept.len(),
        facts.claims.len() + facts.volumes.len()
    );
    assert_eq!(plan.next_at, None);
    let kept = plan.kept.first().map(|kept| kept.reason.to_string());
    (calls(&plan.actions), kept.unwrap_or_default())
}

#[track_caller]
fn check(facts: &Facts, call: Option<&str>, kept: &str) {
    let (calls, why) = outcome(facts);
    let expected: Vec<&str> = call.into_iter().collect();
    assert_eq!(
        (calls.iter().map(String::as_str).collect(), &*why),
        (expected, kept)
    );
}

#[test]
fn t_6_1_a_claim_without_pods_goes() {
    check(&facts(deleted(), vec![]), Some(REMOVED), "");
}

#[test]
fn t_6_2_and_3_a_scheduled_pod_keeps_its_claim_whatever_its_phase() {
    for phase in ["Running", "Pending", "Succeeded", "Failed", "", "Odd"] {
        let mut pod = user();
        pod.phase = phase.into();
        check(&facts(deleted(), vec![pod.clone()]), None, "used by pod web");
        pod.meta.deletion_timestamp = Some(Timestamp::EPOCH);
        pod.meta.deletion_grace_period_seconds = Some(0);
        check(&facts(deleted(), vec![pod]), None, "used by pod web");
    }
}

#[test]
fn t_6_4_an_unscheduled_pod_does_not() {
    let mut pod = user();
    pod.node_name = Some("".into());
    check(&facts(deleted(), vec![pod]), Some(REMOVED), "");
}

#[test]
fn pods_elsewhere_and_other_claims_do_not_count() {
    let elsewhere = Pod::new("other", "web", "uid-web").with(Source::Claim("web-data".into()));
    let other = Pod::new("shop", "web", "uid-web").with(Source::Claim("data".into()));
    let none = Pod::new("shop", "web", "uid-web").with(Source::Other);
    check(&facts(deleted(), vec![elsewhere, other, none]), Some(REMOVED), "");
}

#[test]
fn t_6_5_and_6_an_ephemeral_claim_is_kept_by_its_own_pod_only() {
    let own = || owned_by(deleted(), "uid-web", Some(true));
    let pod = Pod::new("shop", "web", "uid-web").with(Source::Ephemeral);
    let (used, unused) = ((None, "used by pod web"), (Some(REMOVED), ""));
    for (name, claim, is_deleting, grace, (call, kept)) in [
        ("running", own(), false, None, used),
        ("ending", own(), true, Some(30), used),
        ("ending, grace not known", own(), true, None, used),
        ("a grace of zero alone", own(), false, Some(0), used),
        ("t_6_5 shut down", own(), true, Some(0), unused),
        (
            "t_6_6 another uid",
            owned_by(deleted(), "uid-other", Some(true)),
            false,
            None,
            unused,
        ),
        (
            "an owner, no controller",
            owned_by(deleted(), "uid-web", None),
            false,
            None,
            unused,
        ),
        (
            "not the first controller",
            owned_by(
                owned_by(deleted(), "uid-other", Some(true)),
                "uid-web",
                Some(true),
            ),
            false,
            None,
            unused,
        ),
        ("no owner", deleted(), false, None, unused),
    ] {
        let mut pod = pod.clone();
        pod.meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
        pod.meta.deletion_grace_period_seconds = grace;
        let (calls, why) = outcome(&facts(claim, vec![pod]));
        let expected: Vec<&str> = call.into_iter().collect();
        assert_eq!(
            (calls.iter().map(String::as_str).collect(), &*why),
            (expected, kept),
            "{name}"
        );
    }
}

#[test]
fn t_6_7_a_living_claim_gets_the_finalizer() {
    let mut claim = deleted();
    claim.meta.deletion_timestamp = None;
    check(&facts(claim.clone(), vec![]), None, "it is protected");
    claim.meta.finalizers.clear();
    check(&facts(claim.clone(), vec![user()]), Some(ADDED), "");
    claim.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    let kept = "it is being deleted without protection";
    check(&facts(claim, vec![]), None, kept);
}

#[test]
fn t_6_8_only_the_one_finalizer_is_named_and_the_version_is_expected() {
    let mut claim = deleted();
    claim.meta.finalizers.insert(0, "example.com/a".into());
    claim.meta.finalizers.push("example.com/b".into());
    let facts = facts(claim, vec![]);
    check(&facts, Some(REMOVED), "");
    let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
    let expect = plan.actions[0].expect();
    assert_eq!(expect.uid, Some("uid-claim".into()));
    assert_eq!(expect.resource_version, Some("7".into()));
}

#[test]
fn t_6_9_both_lists_count() {
    let of = |live| LivePods::Of([("shop".into(), live)].into());
    let with = |pods, live_pods| Facts {
        pods,
        live_pods,
        ..facts(deleted(), vec![])
    };
    let unlisted = || Err(StoreError::Unlisted);
    let used = (None, "used by pod web");
    let unread = (None, "the pods of its namespace must be listed first");
    for (name, facts, (call, kept)) in [
        (
            "t_6_9 only live",
            with(Ok(vec![]), of(Live::Found(vec![user()]))),
            used,
        ),
        (
            "only listed",
            with(Ok(vec![user()]), of(Live::Found(vec![]))),
            used,
        ),
        (
            "listed, not read",
            with(Ok(vec![user()]), LivePods::default()),
            used,
        ),
        (
            "neither",
            with(Ok(vec![]), of(Live::Found(vec![]))),
            (Some(REMOVED), ""),
        ),
        (
            "the live list alone",
            with(unlisted(), of(Live::Found(vec![]))),
            (Some(REMOVED), ""),
        ),
        ("not read", with(Ok(vec![]), LivePods::default()), unread),
        ("not asked", with(Ok(vec![]), of(Live::NotAsked)), unread),
        (
            "failed",
            with(Ok(vec![]), of(Live::Failed("timeout".into()))),
            (None, "whether pods use it is not known: timeout"),
        ),
        (
            "not there",
            with(Ok(vec![]), of(Live::NotFound)),
            (None, "whether pods use it is not known: not found"),
        ),
        (
            "not listed at all",
            with(unlisted(), LivePods::AsListed),
            (
                None,
                "whether pods use it is not known: not listed: nothing is known of this object",
            ),
        ),
    ] {
        let (calls, why) = outcome(&facts);
        let expected: Vec<&str> = call.into_iter().collect();
        assert_eq!(
            (calls.iter().map(String::as_str).collect(), &*why),
            (expected, kept),
            "{name}"
        );
        let to_read = Settings::default().plan(&facts, Timestamp::EPOCH).summary.to_read;
        assert_eq!(to_read.contains("shop"), kept == unread.1, "{name}");
    }
}

#[test]
fn t_6_10_a_bound_volume_stays() {
    let removed = "put -kubernetes.io/pv-protection";
    for (phase, call, kept) in [
        (Phase::Bound, None, "it is bound"),
        (Phase::Unknown, None, "its phase is not known"),
        (Phase::Released, Some(removed), ""),
        (Phase::Failed, Some(removed), ""),
        (Phase::from(""), Some(removed), ""),
    ] {
        let mut volume = Volume::new("disk", "uid-disk");
        volume.phase = phase;
        volume.meta.resource_version = "7".into();
        volume.meta.finalizers = vec![FINALIZER_VOLUME_PROTECTION.into()];
        volume.meta.deletion_timestamp = Some(Timestamp::EPOCH);
        let volumes = vec![volume];
        let facts = Facts {
            volumes,
            ..Facts::default()
        };
        check(&facts, call, kept);
    }
    let facts = Facts {
        volumes: vec![unprotected()],
        ..Facts::default()
    };
    check(&facts, Some("put +kubernetes.io/pv-protection"), "");
}

#[test]
fn what_does_not_run_does_nothing_and_what_is_listed_twice_stays() {
    let mut settings = Settings::default();
    (settings.claims, settings.volumes) = (false, false);
    let mut facts = facts(deleted(), vec![]);
    facts.volumes = vec![unprotected()];
    let plan = settings.plan(&facts, Timestamp::EPOCH);
    let kept: Vec<String> = plan.kept.iter().map(|kept| kept.reason.to_string()).collect();
    assert_eq!(
        (plan.actions.len(), kept),
        (0, vec!["the controller does not run".to_owned(); 2])
    );

    facts.claims = vec![deleted(), owned_by(deleted(), "uid-web", None)];
    facts.volumes.push(facts.volumes[0].clone());
    let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
    assert_eq!(plan.kept[0].reason.to_string(), "listed twice, and not alike");
    assert_eq!(
        calls(&plan.actions),
        ["put +kubernetes.io/pv-protection"],
        "alike counts once"
    );
}

#[test]
fn a_pod_of_which_too_little_was_read_keeps_the_claims_of_its_namespace() {
    type Edit = fn(&mut Pod);
    let own = |pod: &mut Pod| pod.volumes = Pod::new("", "", "").with(Source::Ephemeral).volumes;
    let other = |pod: &mut Pod| pod.volumes = Pod::new("", "", "").with(Source::Other).volumes;
    let unknown = (None, "whether pod web uses it is not known");
    let (used, gone) = ((None, "used by pod web"), (Some(REMOVED), ""));
    let cases: [(&str, Edit, _); 9] = [
        (
            "metadata only",
            |pod| (pod.node_name, pod.volumes) = (None, None),
            unknown,
        ),
        ("no volumes", |pod| pod.volumes = None, unknown),
        ("no node", |pod| pod.node_name = None, unknown),
        ("all is known", |_| {}, used),
        (
            "elsewhere",
            |pod| (pod.volumes, pod.meta.namespace) = (None, "other".into()),
            gone,
        ),
        (
            "on no node",
            |pod| (pod.node_name, pod.volumes) = (Some("".into()), None),
            gone,
        ),
        (
            "no node, no claim",
            |pod| (pod.node_name, pod.volumes) = (None, Some(vec![])),
            gone,
        ),
        (
            "no uid, no claim of its own",
            |pod| pod.meta.uid = "".into(),
            used,
        ),
        ("no uid", |pod| pod.meta.uid = "".into(), unknown),
    ];
    for (name, edit, (call, kept)) in cases {
        let mut pod = user();
        if name == "no uid" {
            own(&mut pod);
        }
        edit(&mut pod);
        check(&facts(deleted(), vec![pod.clone()]), call, kept);
        let of = |live| LivePods::Of([(Arc::from("shop"), Live::Found(live))].into());
        let live = Facts {
            live_pods: of(vec![pod.clone()]),
            ..facts(deleted(), vec![])
        };
        check(&live, call, kept);
        // Listed so, and not there any more: nobody can say whether it used the claim.
        let listed = Facts {
            live_pods: of(vec![]),
            ..facts(deleted(), vec![pod.clone()])
        };
        check(&listed, call, kept);
        if name == "metadata only" {
            let mut full = user();
            other(&mut full);
            let both = Facts {
                live_pods: of(vec![full]),
                ..facts(deleted(), vec![pod])
            };
            check(&both, Some(REMOVED), "");
        }
    }
}

#[test]
fn what_has_no_uid_or_version_is_not_written() {
    type Edit = fn(&mut ObjectMeta);
    let edits: [Edit; 2] = [
        |meta| meta.uid = "".into(),
        |meta| meta.resource_version = "".into(),
    ];
    for edit in edits {
        let kept = "its uid or version is not known";
        let mut claim = deleted();
        edit(&mut claim.meta);
        check(&facts(claim.clone(), vec![]), None, kept);
        claim.meta.deletion_timestamp = None;
        check(&facts(claim.clone(), vec![]), None, "it is protected");
        claim.meta.finalizers.clear();
        check(&facts(claim, vec![]), None, kept);
    }
}

fn generated() -> impl Strategy<Value = Facts> {
    let claims = vec((any::<bool>(), any::<bool>(), 0..4_u8), 0..6);
    let pods = || vec((0..8_u8, 0..3_u8, 0..8_u8, any::<bool>()), 0..6);
    (claims, pods(), pods(), select(vec![0_u8, 1, 2, 3]), any::<bool>()).prop_map(
        |(claims, listed, live, reads, is_listed)| {
            let claims = claims
                .into_iter()
                .enumerate()
                .map(|(index, (is_deleting, protected, owner))| {
                    let mut claim = Claim::new("shop", &format!("pod-{index}-data"), &format!("uid-{index}"));
                    claim.meta.resource_version = "7".into();
                    claim.meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
                    if protected {
                        claim.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
                    }
                    owned_by(claim, &format!("uid-pod-{owner}"), Some(true))
                });
            let pod = |(index, kind, read, is_shut_down): (u8, u8, u8, bool)| {
                let source = match kind {
                    0 => Source::Claim(format!("pod-{index}-data").into()),
                    1 => Source::Ephemeral,
                    _ => Source::Other,
                };
                let mut pod =
                    Pod::new("shop", &format!("pod-{index}"), &format!("uid-pod-{index}")).with(source);
                match read {
                    0 | 1 => pod.node_name = Some("".into()),
                    2 if kind == 0 => pod.node_name = None,
                    3 if kind == 1 => pod.volumes = None,
                    _ => {}
                }
                pod.meta.deletion_timestamp = is_shut_down.then_some(Timestamp::EPOCH);
                pod.meta.deletion_grace_period_seconds = is_shut_down.then_some(0);
                pod
            };
            let live = live.into_iter().map(pod).collect();
            Facts {
                claims: claims.collect(),
                volumes: Vec::new(),
                pods: if is_listed {
                    Ok(listed.into_iter().map(pod).collect())
                } else {
                    Err(StoreError::Unlisted)
                },
                live_pods: match reads {
                    0 => LivePods::AsListed,
                    1 => LivePods::default(),
                    _ => LivePods::Of([("shop".into(), Live::Found(live))].into()),
                },
            }
        },
    )
}

/// Whether a generated pod was read as far as it matters, restated plainly.
fn is_full(pod: &Pod) -> bool {
    match (pod.node_name.as_deref(), &pod.volumes) {
        (Some(""), _) | (Some(_), Some(_)) => true,
        (None, Some(volumes)) => volumes.iter().all(|volume| volume.source == Source::Other),
        (_, None) => false,
    }
}

/// Whether a pod uses a claim, restated plainly.
fn uses(pod: &Pod, claim: &ObjectMeta) -> bool {
    let mut volumes = pod.volumes.iter().flatten();
    let by_name = volumes.any(|volume| volume.source == Source::Claim(claim.name.clone()));
    let own = pod.volumes.iter().flatten().any(|volume| {
        volume.source == Source::Ephemeral && *claim.name == format!("{}-{}", pod.meta.name, volume.name)
    });
    let owner = claim
        .owner_references
        .iter()
        .any(|owner| owner.uid == pod.meta.uid);
    let is_scheduled = pod.node_name.as_deref().is_some_and(|node| !node.is_empty());
    is_scheduled && (by_name || (own && owner && pod.meta.deletion_timestamp.is_none()))
}

proptest! {
    #[test]
    fn order_means_nothing_and_each_claim_comes_once(facts in generated()) {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let acted = plan.actions.iter().map(Act::object);
        let all: Vec<&Object> = acted.chain(plan.kept.iter().map(|kept| &kept.object)).collect();
        let each: BTreeSet<&Object> = all.iter().copied().collect();
        prop_assert_eq!((all.len(), each.len()), (facts.claims.len(), facts.claims.len()));
        let mut shuffled = facts.clone();
        shuffled.claims.reverse();
        if let Ok(pods) = &mut shuffled.pods {
            pods.reverse();
        }
        prop_assert_eq!(plan, Settings::default().plan(&shuffled, Timestamp::from_secs(9)));
    }

    #[test]
    fn what_is_removed_is_used_by_no_pod_that_is_known(facts in generated()) {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let live = match &facts.live_pods {
            LivePods::Of(namespaces) => match namespaces.get("shop") {
                Some(Live::Found(pods)) => Some(pods.as_slice()),
                _ => None,
            },
            LivePods::AsListed => facts.pods.as_ref().ok().map(Vec::as_slice),
        };
        let listed = facts.pods.as_ref().map(Vec::as_slice).unwrap_or_default();
        for claim in &facts.claims {
            let object = Object::new(Resource::PersistentVolumeClaims, &claim.meta);
            let is_removed = plan.actions.iter().any(|action| matches!(action, Action::RemoveFinalizer { object: other, .. } if *other == object));
            let is_candidate = claim.meta.is_deleting() && claim.meta.has_finalizer(FINALIZER_CLAIM_PROTECTION);
            let unused = live.is_some_and(|live| {
                let is_known = |pod: &&Pod| is_full(pod) || live.iter().any(|other| other.meta.uid == pod.meta.uid && is_full(other));
                let all_known = listed.iter().all(|pod| is_known(&pod)) && live.iter().all(is_full);
                all_known && !listed.iter().chain(live).any(|pod| uses(pod, &claim.meta))
            });
            prop_assert_eq!(is_removed, is_candidate && unused);
        }
    }

    #[test]
    fn a_second_plan_is_empty(facts in generated()) {
        let mut facts = facts;
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        for action in &plan.actions {
            for claim in facts.claims.iter_mut().filter(|claim| claim.meta.uid == action.object().uid) {
                match action {
                    Action::AddFinalizer { .. } => claim.meta.finalizers.push(FINALIZER_CLAIM_PROTECTION.into()),
                    Action::RemoveFinalizer { .. } => claim.meta.finalizers.clear(),
                }
            }
        }
        prop_assert_eq!(Settings::default().plan(&facts, Timestamp::EPOCH).actions, vec![]);
    }
}
