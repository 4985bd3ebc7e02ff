//! Tokens of service accounts: upstream's checks in their order, and the dates to the nanosecond.

use std::time::Duration;

use kubegc_core::{
    KubernetesVersion, ObjectMeta, PatchType, Planner, Preconditions, ResourceVersion, StoreError, Timestamp,
    Uid, time::Date,
};
use kubegc_lifecycle::{
    object::{Act, Call, Change, Failure, Form, Wire},
    token::legacy::{
        Action, Facts, LABEL_INVALID_SINCE, LABEL_LAST_USED, Pod, Policy, Reason, SECRET_TYPE, Secret,
        ServiceAccount, Tracking,
    },
};

use crate::{date, shifted};

/// The time of most tests: a period of a year ago it was the first of March, 12:00.
pub(crate) fn now() -> Timestamp {
    date("2026-03-01T12:00:00Z")
}

fn day(text: &str) -> Date {
    Date::parse(text).expect("a date")
}

/// A token that was made for its account long ago, and that nobody has used since.
pub(crate) fn token() -> Secret {
    let mut meta = ObjectMeta::new("shop", "till-token-x", "uid-1");
    meta.creation_timestamp = Some(date("2021-01-01T00:00:00Z"));
    meta.resource_version = ResourceVersion::new("5");
    Secret {
        meta,
        secret_type: Some(SECRET_TYPE.into()),
        account_name: Some("till".into()),
        account_uid: Some("uid-2".into()),
    }
}

pub(crate) fn facts_of(secret: Secret) -> Facts {
    Facts {
        tracking: Tracking::Since("2023-05-01".into()),
        secrets: vec![secret],
        accounts: Ok(vec![ServiceAccount {
            meta: ObjectMeta::new("shop", "till", "uid-2"),
            secrets: Some(vec!["till-dockercfg".into(), "till-token-x".into()]),
        }]),
        pods: Ok(Vec::new()),
    }
}

fn facts() -> Facts {
    facts_of(token())
}

fn labelled(labels: &[(&str, &str)]) -> Facts {
    let mut secret = token();
    for (key, value) in labels {
        secret.meta.labels.insert((*key).into(), (*value).into());
    }
    facts_of(secret)
}

fn pod(name: &str, secrets: &[&str]) -> Pod {
    Pod {
        meta: ObjectMeta::new("shop", name, name),
        secrets: Some(secrets.iter().map(|secret| (*secret).into()).collect()),
    }
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Mark(Date),
    Delete(Date),
    Keep(Reason),
}

fn verdict_at(facts: &Facts, now: Timestamp) -> Verdict {
    let plan = Policy::default().plan(facts, now);
    match (&*plan.actions, &*plan.kept) {
        ([Action::Mark { date, reason, .. }], []) => {
            assert!(matches!(reason, Reason::Unused { .. }), "{reason}");
            Verdict::Mark(*date)
        }
        ([Action::Delete { reason, .. }], []) => match reason {
            Reason::Invalid { since } => Verdict::Delete(*since),
            other => panic!("no reason to delete: {other}"),
        },
        ([], [kept]) => Verdict::Keep(kept.reason.clone()),
        other => panic!("one secret, one verdict: {other:?}"),
    }
}

fn verdict(facts: &Facts) -> Verdict {
    verdict_at(facts, now())
}

fn today() -> Verdict {
    Verdict::Mark(day("2026-03-01"))
}

#[test]
fn t_11_1_tracking_must_be_a_period_old() {
    let mut facts = facts();
    facts.tracking = Tracking::Since("2026-02-19".into());
    let since = day("2026-02-19");
    let from = Some(date("2027-02-20T00:00:00Z"));
    let reason = Reason::TrackedTooShortly { since, from };
    assert_eq!(verdict(&facts), Verdict::Keep(reason.clone()));
    let plan = Policy::default().plan(&facts, now());
    assert_eq!(plan.next_at, from);
    assert_eq!(plan.summary.skipped, Some(reason));

    // It is said even where there is no token to say it of.
    let no_secrets = Facts {
        secrets: Vec::new(),
        ..facts.clone()
    };
    let plan = Policy::default().plan(&no_secrets, now());
    assert_eq!(plan.next_at, from);
    assert!(plan.summary.skipped.is_some());

    // The day itself does not count: it is over at midnight.
    facts.tracking = Tracking::Since("2025-02-28".into());
    let midnight = date("2026-03-01T00:00:00Z");
    assert!(matches!(
        verdict_at(&facts, shifted(midnight, -1)),
        Verdict::Keep(_)
    ));
    assert_eq!(verdict_at(&facts, midnight), today());
}

#[test]
fn l11_1_without_a_date_of_tracking_the_pass_is_skipped() {
    let bad = |text: &str| {
        (
            Tracking::Since(text.into()),
            Reason::TrackingDateBad { text: text.into() },
        )
    };
    for (tracking, reason) in [
        (Tracking::Unknown, Reason::TrackingNotKnown),
        (Tracking::Missing, Reason::NotTracked),
        (Tracking::NoDate, Reason::TrackingWithoutDate),
        bad(""),
        bad("2023-02-30"),
        bad("2023-5-1"),
        bad("2023-05-01T00:00:00Z"),
    ] {
        let mut facts = facts();
        facts.tracking = tracking;
        assert_eq!(verdict(&facts), Verdict::Keep(reason.clone()));
        let plan = Policy::default().plan(&facts, now());
        assert_eq!((plan.next_at, plan.summary.skipped), (None, Some(reason)));
    }
    // Dates out of reach are dates.
    let mut facts = facts();
    facts.tracking = Tracking::Since("0001-01-01".into());
    assert_eq!(verdict(&facts), today());
    facts.tracking = Tracking::Since("9999-12-31".into());
    let end = Timestamp::from_nanos(i64::MAX);
    assert!(matches!(
        verdict_at(&facts, end),
        Verdict::Keep(Reason::TrackedTooShortly { from: None, .. })
    ));
}

#[test]
fn t_11_2_what_nobody_used_is_marked_with_the_day() {
    assert_eq!(verdict(&facts()), today());
    let plan = Policy::default().plan(&facts(), now());
    // Tomorrow the mark would be another.
    let midnight = date("2026-03-02T00:00:00Z");
    assert_eq!(plan.next_at, Some(midnight));
    assert_eq!(verdict_at(&facts(), shifted(midnight, -1)), today());
    assert_eq!(verdict_at(&facts(), midnight), Verdict::Mark(day("2026-03-02")));

    let uid = Preconditions::uid(Uid::new("uid-1"));
    let both = Preconditions {
        resource_version: Some(ResourceVersion::new("5")),
        ..uid.clone()
    };
    for (wire, expected) in [(Wire::AsUpstream, uid), (Wire::Strict, both)] {
        let calls = plan.actions[0].calls(wire);
        let [
            Call::Change {
                object,
                subresource,
                form,
                expect,
                changes,
            },
        ] = &*calls
        else {
            panic!("one call: {calls:?}");
        };
        assert_eq!(object.to_string(), "Secret shop/till-token-x");
        assert_eq!(
            (*subresource, *form, expect),
            ("", Form::Patch(PatchType::Merge), &expected)
        );
        let value = "2026-03-01".to_owned();
        let key = "kubernetes.io/legacy-token-invalid-since";
        assert_eq!(*changes, [Change::Label { key, value }]);
    }
}

#[test]
fn t_11_3_a_mark_waits_until_its_day_is_over_for_a_period() {
    // A period before now it is the first of March 2025.
    let kept = labelled(&[(LABEL_INVALID_SINCE, "2025-03-01")]);
    let since = day("2025-03-01");
    let from = Some(date("2026-03-02T00:00:00Z"));
    assert_eq!(
        verdict(&kept),
        Verdict::Keep(Reason::MarkedLately { since, from })
    );
    let midnight = date("2026-03-02T00:00:00Z");
    assert!(matches!(
        verdict_at(&kept, shifted(midnight, -1)),
        Verdict::Keep(_)
    ));
    assert_eq!(verdict_at(&kept, midnight), Verdict::Delete(since));

    let old = labelled(&[(LABEL_INVALID_SINCE, "2025-02-28")]);
    assert_eq!(verdict(&old), Verdict::Delete(day("2025-02-28")));
    let plan = Policy::default().plan(&old, now());
    assert_eq!(plan.next_at, None);
    let version = Preconditions {
        uid: None,
        resource_version: Some(ResourceVersion::new("5")),
    };
    let both = Preconditions {
        uid: Some(Uid::new("uid-1")),
        ..version.clone()
    };
    for (wire, expected) in [(Wire::AsUpstream, version), (Wire::Strict, both)] {
        let calls = plan.actions[0].calls(wire);
        let [Call::Delete { options, .. }] = &*calls else {
            panic!("one call: {calls:?}");
        };
        assert_eq!(options.preconditions, expected);
        assert_eq!((options.propagation, options.grace_period_seconds), (None, None));
    }
}

#[test]
fn l11_7_what_failures_mean() {
    let message = String::new;
    let gone = StoreError::NotFound;
    let changed = StoreError::Conflict { message: message() };
    let lost = StoreError::Unknown { message: message() };
    let mark = &Policy::default().plan(&facts(), now()).actions[0];
    let old = labelled(&[(LABEL_INVALID_SINCE, "2024-01-01")]);
    let delete = &Policy::default().plan(&old, now()).actions[0];
    for (error, of_mark, of_delete) in [
        (gone, Failure::Told, Failure::Ignored),
        (changed, Failure::Told, Failure::Ignored),
        (lost, Failure::Told, Failure::Told),
    ] {
        assert_eq!(
            (mark.failure(&error), delete.failure(&error)),
            (of_mark, of_delete)
        );
    }
}

#[test]
fn t_11_4_and_5_a_use_protects_and_so_does_nonsense() {
    let used = |text| labelled(&[(LABEL_LAST_USED, text), (LABEL_INVALID_SINCE, "2024-01-01")]);
    let last_used = day("2026-02-28");
    let from = Some(date("2027-03-01T00:00:00Z"));
    assert_eq!(
        verdict(&used("2026-02-28")),
        Verdict::Keep(Reason::UsedLately { last_used, from })
    );
    // The date of a period ago is inclusive.
    assert!(matches!(
        verdict(&used("2025-03-01")),
        Verdict::Keep(Reason::UsedLately { .. })
    ));
    assert_eq!(verdict(&used("2025-02-28")), Verdict::Delete(day("2024-01-01")));
    for text in ["", "yesterday", "2025-02-29", "2025-2-28"] {
        let reason = Reason::LastUseBad { text: text.into() };
        assert_eq!(verdict(&used(text)), Verdict::Keep(reason));
    }
}

#[test]
fn t_11_6_a_mark_that_is_no_date_is_made_anew() {
    for text in ["", "soon", "2025-02-29"] {
        assert_eq!(verdict(&labelled(&[(LABEL_INVALID_SINCE, text)])), today());
    }
}

#[test]
fn t_11_7_a_pod_that_mentions_it_protects_it() {
    let mut facts = facts();
    // Whether the pod still runs is not even asked.
    facts.pods = Ok(vec![
        pod("z", &["other", "till-token-x"]),
        pod("b", &["till-token-x"]),
    ]);
    let reason = Reason::InUse { pod: "b".into() };
    assert_eq!(verdict(&facts), Verdict::Keep(reason));
    // Pods of other namespaces mean their own secrets.
    let mut elsewhere = pod("z", &["till-token-x"]);
    elsewhere.meta.namespace = "bar".into();
    facts.pods = Ok(vec![elsewhere.clone(), pod("b", &["other"])]);
    assert_eq!(verdict(&facts), today());

    // What is not known may mention it.
    facts.pods = Err(StoreError::Unlisted);
    assert!(matches!(
        verdict(&facts),
        Verdict::Keep(Reason::PodsNotListed { .. })
    ));
    elsewhere.secrets = None;
    facts.pods = Ok(vec![elsewhere.clone()]);
    assert_eq!(verdict(&facts), today());
    elsewhere.meta.namespace = "shop".into();
    facts.pods = Ok(vec![elsewhere]);
    let pod = "z".into();
    assert_eq!(verdict(&facts), Verdict::Keep(Reason::PodNotKnown { pod }));
}

#[test]
fn t_11_8_and_9_only_what_was_made_for_the_account_goes() {
    let account = || "till".into();
    let with = |change: fn(&mut ServiceAccount)| {
        let mut facts = facts();
        facts.accounts.iter_mut().flatten().for_each(change);
        verdict(&facts)
    };
    let by_hand = with(|account| account.secrets = Some(vec!["till-dockercfg".into()]));
    assert_eq!(by_hand, Verdict::Keep(Reason::MadeByHand { account: account() }));
    let unknown = with(|account| account.secrets = None);
    assert_eq!(
        unknown,
        Verdict::Keep(Reason::AccountNotKnown { account: account() })
    );
    let replaced = with(|account| account.meta.uid = Uid::new("uid-3"));
    assert_eq!(
        replaced,
        Verdict::Keep(Reason::AccountReplaced { account: account() })
    );
    let elsewhere = with(|account| account.meta.namespace = "bar".into());
    assert_eq!(
        elsewhere,
        Verdict::Keep(Reason::AccountGone { account: account() })
    );

    let mut twice = facts();
    if let Ok(accounts) = &mut twice.accounts {
        accounts.push(accounts[0].clone());
        assert_eq!(verdict(&twice), today());
    }
    if let Ok(accounts) = &mut twice.accounts {
        accounts[1].meta.uid = Uid::new("uid-3");
    }
    assert_eq!(
        verdict(&twice),
        Verdict::Keep(Reason::AccountListedTwice { account: account() })
    );
    twice.accounts = Err(StoreError::Unlisted);
    assert!(matches!(
        verdict(&twice),
        Verdict::Keep(Reason::AccountsNotListed { .. })
    ));
}

#[test]
fn l11_4_the_annotations_lead_to_the_account() {
    let with = |name: Option<&str>, uid: Option<&str>| {
        let mut secret = token();
        secret.account_name = name.map(Into::into);
        secret.account_uid = uid.map(Into::into);
        verdict(&facts_of(secret))
    };
    let not_known = |field| Verdict::Keep(Reason::NotKnown { field });
    assert_eq!(with(Some("till"), Some("")), today());
    assert_eq!(with(Some(""), Some("uid-2")), Verdict::Keep(Reason::NoAccount));
    assert_eq!(
        with(None, Some("uid-2")),
        not_known("annotation kubernetes.io/service-account.name")
    );
    assert_eq!(
        with(Some("till"), None),
        not_known("annotation kubernetes.io/service-account.uid")
    );
}

#[test]
fn t_11_10_age_is_strict() {
    let mut secret = token();
    let created = date("2025-03-01T12:00:00Z");
    secret.meta.creation_timestamp = Some(created);
    let facts = facts_of(secret);
    let from = Some(shifted(now(), 1));
    assert_eq!(verdict(&facts), Verdict::Keep(Reason::TooYoung { from }));
    assert_eq!(Policy::default().plan(&facts, now()).next_at, from);
    assert_eq!(verdict_at(&facts, shifted(now(), 1)), today());
}

#[test]
fn t_11_11_and_the_other_checks_on_the_secret() {
    let with = |change: fn(&mut Secret)| {
        let mut secret = token();
        change(&mut secret);
        verdict(&facts_of(secret))
    };
    let opaque = with(|secret| secret.secret_type = Some("Opaque".into()));
    assert_eq!(opaque, Verdict::Keep(Reason::OtherType));
    let deleting = with(|secret| secret.meta.deletion_timestamp = Some(Timestamp::EPOCH));
    assert_eq!(deleting, Verdict::Keep(Reason::Deleting));
    let typeless = with(|secret| secret.secret_type = None);
    assert_eq!(typeless, Verdict::Keep(Reason::NotKnown { field: "type" }));
    let ageless = with(|secret| secret.meta.creation_timestamp = None);
    let field = "metadata.creationTimestamp";
    assert_eq!(ageless, Verdict::Keep(Reason::NotKnown { field }));

    let mut twice = facts();
    let mut other = token();
    other.meta.resource_version = ResourceVersion::new("6");
    twice.secrets.push(other);
    assert_eq!(verdict(&twice), Verdict::Keep(Reason::ListedTwice));
}

#[test]
fn a_name_that_is_listed_with_two_uids_stays() {
    let mut both = labelled(&[(LABEL_INVALID_SINCE, "2024-01-01")]);
    assert!(matches!(verdict(&both), Verdict::Delete(_)));
    let mut other = token();
    other.meta.uid = Uid::new("uid-9");
    both.secrets.push(other);
    let plan = Policy::default().plan(&both, now());
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 2));
    assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));
}

#[test]
fn what_no_call_could_expect_keeps_a_token() {
    let invalid = &[(LABEL_INVALID_SINCE, "2024-01-01")][..];
    let not_known = |field| Verdict::Keep(Reason::NotKnown { field });
    for labels in [invalid, &[]] {
        let mut facts = labelled(labels);
        facts.secrets[0].meta.uid = Uid::new("");
        assert_eq!(verdict(&facts), not_known("metadata.uid"));
    }
    // Upstream's deletion expects the version alone, its mark the uid.
    let without_version = |labels| {
        let mut facts = labelled(labels);
        facts.secrets[0].meta.resource_version = ResourceVersion::default();
        verdict(&facts)
    };
    assert_eq!(without_version(invalid), not_known("metadata.resourceVersion"));
    assert_eq!(without_version(&[]), today());
}

#[test]
fn l11_8_two_periods_pass_from_the_last_use_to_the_end() {
    let mut secret = token();
    let label = |secret: &mut Secret, key: &str, value: &str| {
        secret.meta.labels.insert(key.into(), value.into());
    };
    label(&mut secret, LABEL_LAST_USED, "2024-01-01");
    // 2024 has a leap day, so that 365 days from the second of January end on its first.
    let marked_at = date("2025-01-01T00:00:00Z");
    let mut facts = facts_of(secret.clone());
    let plan = Policy::default().plan(&facts, date("2024-06-01T00:00:00Z"));
    assert_eq!(plan.next_at, Some(marked_at));
    assert_eq!(verdict_at(&facts, marked_at), Verdict::Mark(day("2025-01-01")));
    label(&mut secret, LABEL_INVALID_SINCE, "2025-01-01");
    facts.secrets = vec![secret.clone()];
    let deleted_at = date("2026-01-02T00:00:00Z");
    assert_eq!(
        Policy::default().plan(&facts, marked_at).next_at,
        Some(deleted_at)
    );
    assert_eq!(verdict_at(&facts, deleted_at), Verdict::Delete(day("2025-01-01")));
    // Somebody used it again: the mark means nothing.
    label(&mut secret, LABEL_LAST_USED, "2025-12-31");
    facts.secrets = vec![secret];
    assert!(matches!(
        verdict_at(&facts, deleted_at),
        Verdict::Keep(Reason::UsedLately { .. })
    ));
}

#[test]
fn policies_begin_with_their_release_and_refuse_no_time() {
    for (release, runs) in [("1.24", false), ("1.28", false), ("1.29", true), ("1.36", true)] {
        let version: KubernetesVersion = release.parse().expect("a release in range");
        let policy = Policy::new(version);
        assert_eq!(policy.is_enabled(), runs, "{release}");
        assert_eq!(policy.clean_up_period(), Duration::from_secs(8_760 * 3_600));
        let plan = policy.plan(&facts(), now());
        assert_eq!(plan.actions.len(), usize::from(runs));
        assert_eq!(plan.summary.skipped, (!runs).then_some(Reason::Disabled));
        assert_eq!(policy.with_enabled(true).plan(&facts(), now()).actions.len(), 1);
    }
    let error = Policy::default().with_clean_up_period(Duration::ZERO);
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("invalid CleanUpPeriod: 0s".to_owned())
    );
    let day = Duration::from_secs(24 * 3_600);
    let quick = Policy::default().with_clean_up_period(Duration::from_nanos(1));
    let quick = quick.expect("a nanosecond is time");
    assert_eq!(quick.plan(&facts(), now()).actions.len(), 1);
    let patient = Policy::default().with_clean_up_period(Duration::MAX);
    let plan = patient.expect("it ends").plan(&facts(), now());
    assert_eq!((plan.actions.len(), plan.next_at), (0, None));
    // A pass a day.
    let pass = Policy::default().pass_at(now(), shifted(now(), 1));
    assert_eq!(pass, now().saturating_add(day));
}

#[test]
fn reasons_are_told_in_words() {
    for (reason, text) in [
        (
            Reason::Unused {
                last_used: Some(day("2024-01-01")),
            },
            "was last used on 2024-01-01",
        ),
        (
            Reason::Unused { last_used: None },
            "was never used since uses are tracked",
        ),
        (
            Reason::Invalid {
                since: day("2024-01-01"),
            },
            "is invalid since 2024-01-01",
        ),
        (
            Reason::TooYoung {
                from: Some(Timestamp::EPOCH),
            },
            "is too young until 1970-01-01T00:00:00Z",
        ),
        (
            Reason::AccountsNotListed {
                message: StoreError::Unlisted.to_string().into(),
            },
            "service accounts are not known: not listed: nothing is known of this object",
        ),
        (Reason::InUse { pod: "till-0".into() }, "pod till-0 mentions it"),
        (
            Reason::MadeByHand {
                account: "till".into(),
            },
            "its service account till does not list it: it was made by hand",
        ),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
