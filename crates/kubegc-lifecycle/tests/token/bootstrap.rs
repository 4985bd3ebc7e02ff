//! Bootstrap tokens.

use std::collections::BTreeSet;

use kubegc_core::{ObjectMeta, Planner, Preconditions, ResourceVersion, StoreError, Timestamp, Uid};
use kubegc_lifecycle::{
    object::{Act, Call, Failure, Wire},
    token::bootstrap::{Action, Expiration, Facts, NAMESPACE, Reason, SECRET_TYPE, Secret, Settings},
};
use proptest::{collection::vec, prelude::*};

use crate::{date, shifted};

fn now() -> Timestamp {
    date("2026-03-01T12:00:00Z")
}

fn token(expiration: &str) -> Secret {
    Secret {
        meta: ObjectMeta::new(NAMESPACE, "bootstrap-token-abcdef", "uid-1"),
        secret_type: Some(SECRET_TYPE.into()),
        expiration: Expiration::Text(expiration.into()),
    }
}

#[test]
fn a_token_without_a_uid_stays() {
    for text in ["2026-03-01T11:00:00Z", "soon"] {
        let mut secret = token(text);
        assert!(verdict(secret.clone()).0.is_ok(), "{text}");
        secret.meta.uid = Uid::new("");
        let field = "metadata.uid";
        assert_eq!(verdict(secret).0, Err(Reason::NotKnown { field }), "{text}");
    }
}

#[test]
fn a_name_that_is_listed_with_two_uids_stays() {
    let old = token("2026-03-01T11:00:00Z");
    let mut new = old.clone();
    new.meta.uid = Uid::new("uid-2");
    let facts = Facts {
        secrets: vec![new, old],
    };
    let plan = Settings::default().plan(&facts, now());
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 2));
    assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));
}

/// `Ok` with the reason to delete, `Err` with the reason to keep; and when to look again.
fn verdict(secret: Secret) -> (Result<Reason, Reason>, Option<Timestamp>) {
    let facts = Facts {
        secrets: vec![secret],
    };
    let plan = Settings::default().plan(&facts, now());
    let verdict = match (&*plan.actions, &*plan.kept) {
        ([Action::Delete { reason, .. }], []) => Ok(reason.clone()),
        ([], [kept]) => Err(kept.reason.clone()),
        other => panic!("one secret, one verdict: {other:?}"),
    };
    (verdict, plan.next_at)
}

#[test]
fn t_12_1_to_3_expiry_is_inclusive() {
    let until = date("2026-03-01T12:00:01Z");
    assert_eq!(
        verdict(token("2026-03-01T12:00:01Z")),
        (Err(Reason::NotExpired { until }), Some(until))
    );
    let until = shifted(now(), 1);
    assert_eq!(
        verdict(token("2026-03-01T12:00:00.000000001Z")),
        (Err(Reason::NotExpired { until }), Some(until))
    );
    for text in [
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00+01:00",
        "2026-03-01T11:59:59.999999999Z",
        "1600-01-01T00:00:00Z",
    ] {
        let (verdict, next_at) = verdict(token(text));
        assert!(matches!(verdict, Ok(Reason::Expired { .. })), "{text}");
        assert_eq!(next_at, None);
    }
}

#[test]
fn t_12_2_the_uid_is_expected() {
    let mut secret = token("2026-03-01T12:00:00Z");
    secret.meta.resource_version = ResourceVersion::new("4");
    let plan = |secret: &Secret| {
        let secrets = vec![secret.clone()];
        Settings::default().plan(&Facts { secrets }, now())
    };
    let uid = Preconditions::uid(Uid::new("uid-1"));
    let both = Preconditions {
        resource_version: Some(ResourceVersion::new("4")),
        ..uid.clone()
    };
    for (wire, expected) in [(Wire::AsUpstream, uid), (Wire::Strict, both)] {
        let calls = plan(&secret).actions[0].calls(wire);
        let [Call::Delete { object, options }] = &*calls else {
            panic!("one call: {calls:?}");
        };
        assert_eq!(object.to_string(), "Secret kube-system/bootstrap-token-abcdef");
        assert_eq!(options.preconditions, expected);
        assert_eq!((options.propagation, options.grace_period_seconds), (None, None));
    }
}

#[test]
fn t_12_4_to_6_nothing_said_is_never_and_nonsense_is_past() {
    let mut silent = token("");
    assert_eq!(verdict(silent.clone()), (Err(Reason::NeverExpires), None));
    silent.expiration = Expiration::Absent;
    assert_eq!(verdict(silent.clone()), (Err(Reason::NeverExpires), None));
    let eternal = token("9999-12-31T23:59:59Z");
    assert_eq!(verdict(eternal), (Err(Reason::NeverExpires), None));
    for text in ["tomorrow", " ", "2030-01-01", "2030-02-30T00:00:00Z"] {
        let reason = Reason::ExpiryUnreadable { text: text.into() };
        assert_eq!(verdict(token(text)), (Ok(reason), None));
    }
    // What nobody has read is not empty.
    silent.expiration = Expiration::Unknown;
    let field = "data.expiration";
    assert_eq!(verdict(silent), (Err(Reason::NotKnown { field }), None));
}

#[test]
fn t_12_7_and_8_other_secrets_are_none_of_its_business() {
    let past = token("2020-01-01T00:00:00Z");
    let with = |change: fn(&mut Secret)| {
        let mut secret = past.clone();
        change(&mut secret);
        verdict(secret).0
    };
    let opaque = with(|secret| secret.secret_type = Some("Opaque".into()));
    assert_eq!(opaque, Err(Reason::OtherType));
    let elsewhere = with(|secret| secret.meta.namespace = "default".into());
    assert_eq!(elsewhere, Err(Reason::OtherNamespace));
    let unknown = with(|secret| secret.secret_type = None);
    assert_eq!(unknown, Err(Reason::NotKnown { field: "type" }));
    let deleting = with(|secret| secret.meta.deletion_timestamp = Some(Timestamp::EPOCH));
    assert_eq!(deleting, Err(Reason::Deleting));
    // L12.4: the name plays no part.
    let named = with(|secret| secret.meta.name = "whatever".into());
    assert!(named.is_ok());

    let secrets = vec![past];
    let mut off = Settings::default();
    off.enabled = false;
    let plan = off.plan(&Facts { secrets }, now());
    assert!(plan.actions.is_empty());
    assert_eq!(plan.kept[0].reason, Reason::Disabled);
}

#[test]
fn t_12_9_and_10_no_failure_is_tried_again() {
    let message = String::new;
    for (error, failure) in [
        (StoreError::NotFound, Failure::Ignored),
        (StoreError::Conflict { message: message() }, Failure::Ignored),
        (StoreError::Unknown { message: message() }, Failure::Told),
        (
            StoreError::Refused {
                code: 403,
                message: message(),
                retry_after: None,
            },
            Failure::Told,
        ),
    ] {
        assert_eq!(Action::failure(&error), failure, "{error}");
    }
}

fn secret() -> impl Strategy<Value = Secret> {
    let text = prop_oneof![
        6 => (0..40_u8).prop_map(|second| format!("2026-03-01T12:00:{second:02}Z")),
        1 => Just(String::new()),
        1 => Just("soon".to_owned()),
    ];
    (0..6_u8, 0..8_u8, text).prop_map(|(name, odds, text)| {
        let mut secret = token(&text);
        secret.meta.name = name.to_string().into();
        if odds == 0 {
            secret.secret_type = Some("Opaque".into());
        }
        if odds == 1 {
            secret.expiration = Expiration::Unknown;
        }
        secret
    })
}

proptest! {
    #[test]
    fn laws(secrets in vec(secret(), 0..8), seconds in -1..45_i64, nanos in -1..2_i64) {
        let settings = Settings::default();
        let facts = Facts { secrets };
        let now = shifted(now(), seconds * 1_000_000_000 + nanos);
        let plan = settings.plan(&facts, now);

        let mut turned = facts.clone();
        turned.secrets.reverse();
        prop_assert_eq!(settings.plan(&turned, now), plan.clone());

        let names: BTreeSet<_> = facts.secrets.iter().map(|secret| secret.meta.name.clone()).collect();
        let deleted = plan.actions.iter().map(|action| action.object().name.clone());
        let told: Vec<_> = deleted.chain(plan.kept.iter().map(|kept| kept.object.name.clone())).collect();
        prop_assert_eq!(told.len(), names.len());
        prop_assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), names);

        let mut after = facts.clone();
        after.secrets.retain(|secret| !plan.actions.iter().any(|one| one.object().name == secret.meta.name));
        prop_assert_eq!(settings.plan(&after, now).actions, []);

        if let Some(next_at) = plan.next_at {
            prop_assert_eq!(settings.plan(&facts, shifted(next_at, -1)), plan.clone());
            prop_assert_ne!(settings.plan(&facts, next_at), plan);
        } else {
            prop_assert_eq!(settings.plan(&facts, Timestamp::from_nanos(i64::MAX)), plan);
        }
    }
}
