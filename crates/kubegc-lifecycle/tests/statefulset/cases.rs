//! The cases of claim retention.

use kubegc_core::{OwnerReference, StoreError, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Call, Wire},
    statefulset::{Action, Facts, Retention, Settings, StatefulSet},
};

use crate::support::{claim, facts, of_pod, of_set, outcome, plan, pod, reference, release, set};

const FINE: &str = "its owners are as they should be";
const STALE: &str = "it belongs to a former set or pod";
const WARNING: &str = "web ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a \
                       manging controller, the retention policy is ignored for this claim";

#[track_caller]
fn check(facts: &Facts, calls: &[&str], kept: &[&str]) {
    check_in(&Settings::default(), facts, calls, kept);
}

#[track_caller]
fn check_in(settings: &Settings, facts: &Facts, calls: &[&str], kept: &[&str]) {
    let (got, why) = outcome(settings, facts);
    assert_eq!(got, calls);
    assert_eq!(why, kept);
}

/// What becomes of the references of `data-web-0`: `None` where they stay.
#[track_caller]
fn becomes(set: &StatefulSet, references: &[OwnerReference], expected: Option<&str>) {
    let facts = facts(set.clone(), references);
    match expected {
        Some(owners) => check(&facts, &[format!("data-web-0: {owners}").as_str()], &[]),
        None => check(&facts, &[], &[FINE]),
    }
}

#[test]
fn l_7_3_every_policy_in_range_and_scaled_down() {
    let owners = [vec![], vec![of_set()], vec![of_pod(0)], vec![of_set(), of_pod(0)]];
    for (scaled, deleted, replicas, wanted) in [
        ("Retain", "Retain", 1, ""),
        ("Retain", "Retain", 0, ""),
        ("Retain", "Delete", 1, "uid-set!"),
        ("Retain", "Delete", 0, "uid-set!"),
        ("Delete", "Retain", 1, ""),
        ("Delete", "Retain", 0, "uid-web-0!"),
        ("Delete", "Delete", 1, "uid-set!"),
        ("Delete", "Delete", 0, "uid-web-0!"),
    ] {
        for references in &owners {
            let text: Vec<String> = references.iter().map(|owner| format!("{}!", owner.uid)).collect();
            let expected = (text.join(" ") != wanted).then_some(wanted);
            becomes(&set(scaled, deleted, replicas), references, expected);
        }
    }
}

#[test]
fn t_7_1_to_5_references_follow_the_policy() {
    becomes(&set("Retain", "Retain", 1), &[of_set()], Some(""));
    becomes(&set("Retain", "Delete", 1), &[], Some("uid-set!"));
    becomes(&set("Delete", "Retain", 0), &[], Some("uid-web-0!"));
    becomes(&set("Delete", "Retain", 1), &[of_pod(0)], Some(""));
    becomes(&set("Delete", "Delete", 0), &[of_set()], Some("uid-web-0!"));
}

#[test]
fn t_7_6_what_belongs_to_a_former_pod_or_set_is_not_touched() {
    let former_pod = reference("Pod", "web-0", "uid-former", true);
    let former_set = reference("StatefulSet", "web", "uid-former", false);
    for scaled in ["Retain", "Delete"] {
        for references in [
            vec![former_pod.clone()],
            vec![of_set(), former_pod.clone()],
            vec![former_set.clone()],
            vec![former_set.clone(), of_set()],
        ] {
            let facts = facts(set(scaled, "Delete", 1), &references);
            check(&facts, &[], &[STALE]);
        }
    }
    // Only the first reference of the name decides; both go then, for the second counts as somebody else's. Ours comes back next time.
    let policy = set("Retain", "Delete", 1);
    let both = facts(policy.clone(), &[of_set(), former_set]);
    check(&both, &[WARNING, "data-web-0: "], &[]);
    let reason = |facts: &Facts| plan(&Settings::default(), facts).actions[0].reason().to_string();
    assert_eq!(
        reason(&both),
        "it names a former set or pod beside the present one"
    );
    let boss = reference("Operator", "boss", "uid-boss", true);
    let foreign = facts(policy.clone(), &[of_set(), boss]);
    assert_eq!(reason(&foreign), "somebody else controls it");
    becomes(&policy, &[], Some("uid-set!"));
}

#[test]
fn t_7_7_a_foreign_controller_is_respected_and_told_of_once() {
    let foreign = || reference("Operator", "boss", "uid-boss", true);
    let policy = set("Retain", "Delete", 1);
    let with = |references: &[OwnerReference]| facts(policy.clone(), references);
    let facts = with(&[of_set(), foreign()]);
    check(&facts, &[WARNING, "data-web-0: uid-boss!"], &[]);
    check(&with(&[foreign()]), &[], &["somebody else controls it"]);
    // Never where everything is retained: our reference goes, and nobody is warned.
    let retains = set("Retain", "Retain", 1);
    becomes(&retains, &[of_set(), foreign()], Some("uid-boss!"));
    becomes(&retains, &[foreign()], None);
}

#[test]
fn l_7_7_the_warning_comes_with_any_write_for_the_pod() {
    let mut policy = set("Retain", "Delete", 1);
    policy.templates.push("logs".into());
    let boss = reference("Operator", "boss", "uid-boss", true);
    let mut facts = facts(policy, &[]);
    let claims = |facts: &mut Facts, references: &[OwnerReference]| {
        let first = claim("data-web-0", std::slice::from_ref(&boss));
        facts.claims = Ok(vec![claim("logs-web-0", references), first]);
    };
    claims(&mut facts, &[]);
    let foreign = "somebody else controls it";
    check(&facts, &[WARNING, "logs-web-0: uid-set!"], &[foreign]);
    claims(&mut facts, &[of_set()]);
    check(&facts, &[], &[foreign, FINE]);
}

#[test]
fn t_7_8_a_reference_of_ours_without_the_flag_is_written_anew() {
    let policy = set("Retain", "Delete", 1);
    let mut half = of_set();
    half.controller = Some(false);
    let plain = reference("StatefulSet", "web", "uid-set", false);
    for wrong in [half, plain] {
        becomes(&policy, &[wrong], Some("uid-set!"));
    }
    let mut not_blocking = of_set();
    not_blocking.block_owner_deletion = None;
    becomes(&policy, &[not_blocking], None);
}

#[test]
fn t_7_9_other_owners_stay_in_their_order() {
    let owner = |name: &str| reference("Backup", name, name, false);
    let policy = set("Delete", "Delete", 0);
    becomes(
        &policy,
        &[owner("b"), of_set(), owner("a")],
        Some("b a uid-web-0!"),
    );
    // The same name in another group, or of another kind, is somebody else.
    let mut namesake = of_set();
    (namesake.api_version, namesake.uid) = ("example.com/v1".into(), "uid-x".into());
    (namesake.controller, namesake.block_owner_deletion) = (None, None);
    becomes(&set("Retain", "Delete", 1), &[namesake], Some("uid-x uid-set!"));
}

#[test]
fn t_7_10_a_claim_that_waits_for_collection_blocks_its_pod() {
    let former = || reference("Pod", "web-0", "uid-former", true);
    let blocked = |scaled: &str, replicas: i32, references: &[OwnerReference]| {
        let mut facts = facts(set(scaled, "Retain", replicas), references);
        facts.pods = Ok(vec![]);
        let plan = plan(&Settings::default(), &facts);
        assert_eq!(plan.actions, []);
        let ordinals: Vec<i32> = plan
            .summary
            .blocked
            .iter()
            .map(|blocked| blocked.ordinal)
            .collect();
        (ordinals, plan.kept[0].reason.to_string())
    };
    let waits = "waits for its collection, and pod web-0 for that".to_owned();
    let idle = "its pod does not exist".to_owned();
    assert_eq!(blocked("Delete", 1, &[former()]), (vec![0], waits.clone()));
    assert_eq!(blocked("Delete", 1, &[of_set(), former()]), (vec![0], waits));
    assert_eq!(blocked("Retain", 1, &[former()]), (vec![], idle.clone()));
    assert_eq!(blocked("Delete", 0, &[former()]), (vec![], idle.clone()));
    assert_eq!(blocked("Delete", 1, &[]), (vec![], idle.clone()));
    assert_eq!(blocked("Delete", 1, &[of_set()]), (vec![], idle.clone()));
    assert_eq!(blocked("Burn", 1, &[former()]), (vec![], idle));
}

#[test]
fn t_7_11_ordinals_count_from_the_first() {
    for (first, replicas, ordinal, scaled_down) in [
        (5, 2, 4, true),
        (5, 2, 5, false),
        (5, 2, 6, false),
        (5, 2, 7, true),
        (0, 1, 0, false),
        (0, 1, 1, true),
        (i32::MAX, i32::MAX, 2_147_483_647, false),
        (0, -1, 0, true),
    ] {
        let mut policy = set("Delete", "Retain", replicas);
        policy.first_ordinal = Some(first);
        let facts = Facts {
            pods: Ok(vec![pod(&policy, ordinal)]),
            claims: Ok(vec![claim(&format!("data-web-{ordinal}"), &[])]),
            sets: vec![policy],
            failed_claims: [].into(),
        };
        let wanted = format!("data-web-{ordinal}: uid-web-{ordinal}!");
        if scaled_down {
            check(&facts, &[wanted.as_str()], &[]);
        } else {
            check(&facts, &[], &[FINE]);
        }
    }
}

#[test]
fn l_7_8_only_claims_of_pods_that_are_there_are_looked_at() {
    let policy = set("Delete", "Delete", 9);
    let mut facts = facts(policy.clone(), &[]);
    let strangers = [
        "data-web",
        "data-web-00",
        "data-web-+0",
        "data-web-99999999999",
        "data-web-",
        "logs-web-0",
        "web-0",
    ];
    facts.claims = Ok(strangers.map(|name| claim(name, &[])).into());
    check(&facts, &[], &["it belongs to no stateful set"; 7]);
    facts.claims = Ok(vec![claim("data-web-1", &[])]);
    check(&facts, &[], &["its pod does not exist"]);
    let mut orphan = pod(&policy, 1);
    orphan.owner_references.clear();
    facts.pods = Ok(vec![orphan]);
    check(&facts, &[], &["its pod does not exist"]);
    let mut elsewhere = claim("data-web-0", &[]);
    elsewhere.namespace = "other".into();
    facts.claims = Ok(vec![elsewhere]);
    check(&facts, &[], &["it belongs to no stateful set"]);
}

#[test]
fn what_is_not_known_keeps_the_claim() {
    let known = facts(set("Delete", "Delete", 1), &[]);
    let edited = |edit: fn(&mut Facts)| {
        let mut facts = known.clone();
        edit(&mut facts);
        facts
    };
    let unlisted = "not listed: nothing is known of this object";
    check(
        &edited(|facts| facts.pods = Err(StoreError::Unlisted)),
        &[],
        &[&format!("pods are not known: {unlisted}")],
    );
    check(
        &edited(|facts| facts.claims = Err(StoreError::Unlisted)),
        &[],
        &[&format!("claims are not known: {unlisted}")],
    );
    check(
        &edited(|facts| facts.sets[0].replicas = None),
        &[],
        &["the number of replicas of its set is not known"],
    );
    check(
        &edited(|facts| facts.sets[0].first_ordinal = None),
        &[],
        &["the first ordinal of its set is not known"],
    );
    let unknown = ["the retention policy of its set is not known"];
    check(
        &edited(|facts| facts.sets[0].when_scaled = Retention::Unknown),
        &[],
        &unknown,
    );
    check(
        &edited(|facts| facts.sets[0].when_deleted = Retention::Unknown),
        &[],
        &unknown,
    );
    // One half that nobody knows makes the other one mean nothing.
    let burns = edited(|facts| {
        facts.sets[0].when_deleted = Retention::Unknown;
        facts.sets[0].when_scaled = "Burn".into();
    });
    check(&burns, &[], &[FINE]);
    let identity = ["its uid or version, or the uid of its set or pod, is not known"];
    let edits: [fn(&mut Facts); 4] = [
        |facts| facts.sets[0].meta.uid = "".into(),
        |facts| {
            facts
                .pods
                .iter_mut()
                .flatten()
                .for_each(|pod| pod.uid = "".into())
        },
        |facts| {
            facts
                .claims
                .iter_mut()
                .flatten()
                .for_each(|claim| claim.uid = "".into())
        },
        |facts| {
            let claims = facts.claims.iter_mut().flatten();
            claims.for_each(|claim| claim.resource_version = "".into());
        },
    ];
    for edit in edits {
        check(&edited(edit), &[], &identity);
    }
    check(
        &edited(|facts| facts.sets[0].meta.deletion_timestamp = Some(Timestamp::EPOCH)),
        &[],
        &["its set is being deleted"],
    );
    let twice = edited(|facts| {
        let mut other = pod(&facts.sets[0], 0);
        other.uid = "uid-other".into();
        facts.pods = Ok(vec![pod(&facts.sets[0], 0), other]);
    });
    check(&twice, &[], &["its pod is listed twice"]);
    let twice =
        edited(|facts| facts.claims = Ok(vec![claim("data-web-0", &[]), claim("data-web-0", &[of_set()])]));
    check(&twice, &[], &["listed twice, and not alike"]);
    let twice = edited(|facts| facts.sets.push(set("Retain", "Retain", 1)));
    check(&twice, &[], &["it belongs to no stateful set"]);
    let findings = plan(&Settings::default(), &twice).findings;
    assert_eq!(findings[0].reason.to_string(), "listed twice, and not alike");
    check_in(
        &release("1.26"),
        &known,
        &[],
        &["this release does not follow the retention policy"],
    );
}

#[test]
fn l_7_9_claims_of_pods_that_are_scaled_away_come_first() {
    let policy = set("Delete", "Delete", 1);
    let facts = Facts {
        pods: Ok((0..3).map(|ordinal| pod(&policy, ordinal)).collect()),
        claims: Ok((0..3).map(|n| claim(&format!("data-web-{n}"), &[])).collect()),
        sets: vec![policy],
        failed_claims: [].into(),
    };
    let calls = [
        "data-web-1: uid-web-1!",
        "data-web-2: uid-web-2!",
        "data-web-0: uid-set!",
    ];
    check(&facts, &calls, &[]);
}

#[test]
fn l_7_11_an_unknown_policy_retains() {
    for (scaled, deleted) in [("Burn", "Delete"), ("Delete", "Burn"), ("", "Delete")] {
        let policy = set(scaled, deleted, 0);
        becomes(&policy, &[of_set()], Some(""));
        let foreign = reference("Operator", "boss", "uid-boss", true);
        becomes(&policy, &[of_pod(0), foreign], Some("uid-boss!"));
        let plan = plan(&Settings::default(), &facts(policy, &[]));
        assert_eq!(plan.findings.len(), 1);
        assert!(plan.findings[0].reason.to_string().contains("counts as Retain"));
    }
}

#[test]
fn l_7_12_before_about_1_31_references_are_plain_and_known_by_uid() {
    let old = release("1.30");
    let plain = |kind, name, uid| reference(kind, name, uid, false);
    let foreign = || reference("Operator", "boss", "uid-boss", true);
    let former = || plain("StatefulSet", "web", "uid-former");
    for (scaled, deleted, replicas, references, expected) in [
        ("Retain", "Delete", 1, vec![], Some("uid-set")),
        (
            "Retain",
            "Delete",
            1,
            vec![plain("StatefulSet", "web", "uid-set")],
            None,
        ),
        ("Retain", "Delete", 1, vec![of_set()], None),
        ("Retain", "Delete", 1, vec![foreign()], Some("uid-boss! uid-set")),
        ("Retain", "Delete", 1, vec![former()], Some("uid-former uid-set")),
        (
            "Retain",
            "Retain",
            1,
            vec![former(), of_set()],
            Some("uid-former"),
        ),
        (
            "Delete",
            "Delete",
            0,
            vec![of_set(), foreign()],
            Some("uid-boss! uid-web-0"),
        ),
        ("Retain", "Delete", 1, vec![of_set(), of_pod(0)], Some("uid-set!")),
        ("Retain", "Delete", 1, vec![plain("Odd", "x", "uid-set")], None),
    ] {
        let facts = facts(set(scaled, deleted, replicas), &references);
        match expected {
            Some(owners) => check_in(&old, &facts, &[format!("data-web-0: {owners}").as_str()], &[]),
            None => check_in(&old, &facts, &[], &[FINE]),
        }
    }
}

#[test]
fn what_cannot_be_put_right_is_left_alone() {
    let odd = reference("Odd", "x", "uid-set", false);
    let facts = facts(set("Retain", "Retain", 1), &[odd]);
    let kept = "a reference under another name has the uid of its set or pod";
    check(&facts, &[], &[kept]);
}

#[test]
fn two_sets_do_not_fight_for_a_claim() {
    let mut first = StatefulSet::new("shop", "a-b", "uid-ab", 1);
    first.templates = vec!["x".into()];
    first.when_deleted = "Delete".into();
    let mut second = StatefulSet::new("shop", "b", "uid-b", 1);
    second.templates = vec!["x-a".into()];
    second.when_deleted = "Delete".into();
    let facts = Facts {
        pods: Ok(vec![pod(&first, 0), pod(&second, 0)]),
        claims: Ok(vec![claim("x-a-b-0", &[])]),
        sets: vec![second, first],
        failed_claims: [].into(),
    };
    check(&facts, &["x-a-b-0: uid-ab!"], &[]);
    let findings = plan(&Settings::default(), &facts).findings;
    assert_eq!(
        findings[0].reason.to_string(),
        "StatefulSet shop/b has a template for it, too"
    );
}

#[test]
fn a_write_expects_uid_and_version() {
    let facts = facts(set("Retain", "Delete", 1), &[]);
    let plan = plan(&Settings::default(), &facts);
    let [action @ Action::SetOwners { reason, .. }] = &plan.actions[..] else {
        panic!("one write: {plan:?}")
    };
    assert_eq!(
        reason.to_string(),
        "its owners do not fit the policy of StatefulSet shop/web for pod web-0"
    );
    for wire in [Wire::AsUpstream, Wire::Strict] {
        let calls = action.calls(wire);
        let [Call::Change { expect, .. }] = &calls[..] else {
            panic!("one call: {calls:?}")
        };
        assert_eq!(expect.uid, Some("uid-data-web-0".into()));
        assert_eq!(expect.resource_version, Some("7".into()));
    }
}

#[test]
fn l_7_8_a_read_that_failed_is_no_absence_and_holds_all_claims_of_the_pod() {
    let mut policy = set("Retain", "Delete", 2);
    policy.templates.push("logs".into());
    let told =
        "Could not retrieve claim data-web-0 not found for web-0 when checking PVC deletion policy: timeout";
    let mut facts = Facts {
        pods: Ok(vec![pod(&policy, 0), pod(&policy, 1)]),
        claims: Ok(vec![claim("logs-web-0", &[]), claim("logs-web-1", &[])]),
        sets: vec![policy],
        failed_claims: [].into(),
    };
    let fails = |name: &str| [(("shop".into(), name.into()), "timeout".into())].into();
    // Absent: the others are put right.
    let second = "logs-web-1: uid-set!";
    check(&facts, &["logs-web-0: uid-set!", second], &[]);
    facts.failed_claims = fails("data-web-0");
    check(&facts, &[second], &[told; 2]);
    let names = |facts: &Facts| {
        let kept = plan(&Settings::default(), facts).kept;
        kept.iter()
            .map(|kept| kept.object.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&facts), ["data-web-0", "logs-web-0"]);
    // Listed as well: told once.
    facts.claims = Ok(vec![claim("data-web-0", &[])]);
    check(&facts, &[], &[told]);
    // Nobody would have read these.
    facts.claims = Ok(vec![]);
    facts.failed_claims = fails("other-web-0");
    check(&facts, &[], &["it belongs to no stateful set"]);
    facts.failed_claims = fails("data-web-2");
    check(&facts, &[], &["its pod does not exist"]);
}
