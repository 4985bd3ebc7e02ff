//! CertificateSigningRequests: releases, unread fields and deadlines.

use crate::common::{at, cache, key, reconcile, record};
use kubegc_controllers::{Cache, CsrCleaner, Decision, Wire};
use kubegc_core::{
    KubernetesVersion, Timestamp,
    record::{Body, Certificate, CertificateSigningRequest, Condition, Field, Record, Resource},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

const NOW: &str = "2026-05-03T12:00:00Z";
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

fn release(text: &str) -> CsrCleaner {
    CsrCleaner::new(text.parse().expect("a release"))
}

fn latest() -> CsrCleaner {
    CsrCleaner::new(KubernetesVersion::LATEST)
}

/// A time this many seconds and nanoseconds after the time of the tests.
fn after(seconds: i64, nanos: i64) -> Timestamp {
    Timestamp::from_nanos(at(NOW).as_nanos() + seconds * 1_000_000_000 + nanos)
}

/// A condition that was updated this many seconds ago. Its status and its transition time are not read.
fn condition(condition_type: &str, seconds_ago: i64) -> Condition {
    Condition {
        last_update_time: Some(after(-seconds_ago, 0)),
        last_transition_time: Some(Timestamp::EPOCH),
        ..Condition::new(condition_type, "False")
    }
}

/// A request that was created three days ago.
fn request(conditions: Vec<Condition>, certificate: impl Into<Field<Certificate>>) -> Record {
    let created = json!({"name": "a", "creationTimestamp": "2026-04-30T12:00:00Z"});
    let (_, mut record) = record(json!({"kind": "CertificateSigningRequest", "metadata": created}));
    *record.body_mut() = Body::CertificateSigningRequest(CertificateSigningRequest {
        conditions: conditions.into(),
        certificate: certificate.into(),
    });
    record
}

fn valid() -> Certificate {
    Certificate::NotAfter(after(30 * DAY, 0))
}

fn decide(controller: &CsrCleaner, record: &Record, now: Timestamp) -> Decision {
    let mut cache: Cache = cache(controller, &[]);
    cache.replace(Resource::CertificateSigningRequests, vec![record.clone()]);
    reconcile(controller, &cache, &key("a"), now, Wire::AsUpstream)
}

/// The code of the reason to delete the request; `None` if it is kept.
fn deleted(controller: &CsrCleaner, record: &Record, now: Timestamp) -> Option<&'static str> {
    decide(controller, record, now)
        .actions
        .first()
        .map(|action| action.reason.code())
}

#[test]
fn releases_differ() {
    let old = |condition_type| vec![condition(condition_type, 2 * DAY)];
    let failed = request(old("Failed"), Certificate::Absent);
    let empty = request(old("Approved"), Certificate::Empty);
    let malformed = request(
        old("Denied"),
        Certificate::Malformed("no certificates found".into()),
    );
    let unissued = request(old("Approved"), Certificate::Absent);
    for (text, expected) in [
        ("1.18", [false, false, false, false]),
        ("1.19", [true, false, false, false]),
        ("1.20.2", [true, false, false, false]),
        ("1.20.9", [true, false, false, false]),
        ("1.20.10", [true, false, true, false]),
        ("1.21.3", [true, false, false, false]),
        ("1.21.4", [true, false, true, false]),
        ("1.22", [true, false, true, false]),
        ("1.34", [true, false, true, false]),
        ("1.35", [true, true, true, true]),
    ] {
        let records = [&failed, &empty, &malformed, &unissued];
        let of = |record| deleted(&release(text), record, at(NOW)).is_some();
        assert_eq!(records.map(of), expected, "{text}");
    }
    // An empty certificate is issued until 1.18, but cannot be parsed.
    let mut tolerant = release("1.18");
    tolerant.skips_malformed = false;
    assert_eq!(deleted(&tolerant, &empty, at(NOW)), Some("Issued"));
    for (record, text) in [
        (
            &empty,
            "expected the certificate associated with the CSR to be PEM encoded",
        ),
        (&malformed, "no certificates found"),
    ] {
        let decision = decide(&release("1.18"), record, at(NOW));
        assert_eq!(decision.kept[0].reason.to_string(), text);
    }
}

#[test]
fn unread_fields_make_the_outcome_unknown() {
    let unread = |conditions: Field<Vec<Condition>>, certificate: Field<Certificate>| {
        let mut record = request(vec![], Certificate::Absent);
        *record.body_mut() = Body::CertificateSigningRequest(CertificateSigningRequest {
            conditions,
            certificate,
        });
        record
    };
    let old = |condition_type| Field::Known(vec![condition(condition_type, 2 * DAY)]);
    let mut timeless = request(vec![], Certificate::Absent);
    timeless.meta.creation_timestamp = None;
    let mut no_body = request(vec![], valid());
    *no_body.body_mut() = Body::Unread;
    let mut no_metadata = no_body.clone();
    no_metadata.has_whole_meta = false;
    for (controller, record, expected) in [
        (
            latest(),
            unread(old("Approved"), Field::Unread),
            "status.certificate could not be read",
        ),
        (
            release("1.20"),
            unread(old("Denied"), Field::Unread),
            "status.certificate could not be read",
        ),
        (
            latest(),
            unread(Field::Unread, valid().into()),
            "status.conditions could not be read",
        ),
        (latest(), timeless, "metadata.creationTimestamp could not be read"),
        (latest(), no_body, "only its metadata was read"),
        (latest(), no_metadata, "its metadata could not be read in full"),
    ] {
        let found = decide(&controller, &record, at(NOW)).unknown.remove(0);
        assert_eq!(found.reason.message_about(&found.object), expected);
    }
}

fn any_request() -> impl Strategy<Value = Record> {
    let times = || {
        select(vec![
            0,
            5,
            HOUR - 1,
            HOUR,
            HOUR + 1,
            DAY - 1,
            DAY,
            DAY + 1,
            3 * DAY,
        ])
    };
    let types = select(vec!["Approved", "Denied", "Failed", "Other"]);
    let certificate = prop_oneof![
        Just(Field::Unread),
        Just(Certificate::Absent.into()),
        Just(Certificate::Empty.into()),
        Just(Certificate::Malformed("no certificates found".into()).into()),
        times().prop_map(|ago| Certificate::NotAfter(after(DAY - ago, 0)).into()),
    ];
    let condition = (types, times(), any::<bool>()).prop_map(|(condition_type, ago, is_timed)| {
        let mut condition = condition(condition_type, ago);
        condition.last_update_time.take_if(|_| !is_timed);
        condition
    });
    (vec(condition, 0..3), certificate, times()).prop_map(|(conditions, certificate, ago)| {
        let mut record = request(conditions, certificate);
        record.meta.creation_timestamp = Some(after(-ago, 0));
        record
    })
}

fn body(record: &mut Record) -> &mut CertificateSigningRequest {
    match record.body_mut() {
        Body::CertificateSigningRequest(body) => body,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// The outcome is the same until the requeue, and a deletion from then on.
    #[test]
    fn a_requeue_is_the_first_time_of_a_deletion(record in any_request(), text in select(vec!["1.18", "1.20.2", "1.22", "1.36"])) {
        let controller = release(text);
        let decision = decide(&controller, &record, at(NOW));
        match decision.requeue_at {
            Some(due) => {
                let before = Timestamp::from_nanos(due.as_nanos() - 1);
                prop_assert_eq!(deleted(&controller, &record, before), None);
                prop_assert!(deleted(&controller, &record, due).is_some());
            }
            None => {
                let is_deleted = !decision.actions.is_empty();
                prop_assert_eq!(deleted(&controller, &record, after(1_000 * DAY, 0)).is_some(), is_deleted);
            }
        }
    }

    /// Facts that are read later never contradict a deletion.
    #[test]
    fn an_unread_field_causes_no_deletion(record in any_request(), text in select(vec!["1.18", "1.20.2", "1.22", "1.36"])) {
        let controller = release(text);
        for hide in [0, 1] {
            let mut hidden = record.clone();
            match hide {
                0 => body(&mut hidden).certificate = Field::Unread,
                _ => body(&mut hidden).conditions = Field::Unread,
            }
            if deleted(&controller, &hidden, at(NOW)).is_some() {
                prop_assert!(deleted(&controller, &record, at(NOW)).is_some());
            }
        }
    }
}
