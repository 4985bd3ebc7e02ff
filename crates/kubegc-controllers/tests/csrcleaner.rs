//! CertificateSigningRequests: releases and unread fields.

use crate::common::{at, cache, key, reconcile, record};
use kubegc_controllers::{Cache, CsrCleaner, Decision, Wire};
use kubegc_core::{
    KubernetesVersion, Timestamp,
    record::{Body, Certificate, CertificateSigningRequest, Condition, Field, Record, Resource},
};
use serde_json::json;

const NOW: &str = "2026-05-03T12:00:00Z";
const DAY: i64 = 86_400;

fn release(text: &str) -> CsrCleaner {
    CsrCleaner::new(text.parse().expect("a release"))
}

fn latest() -> CsrCleaner {
    CsrCleaner::new(KubernetesVersion::LATEST)
}

/// A time this many seconds after the time of the tests.
fn after(seconds: i64) -> Timestamp {
    Timestamp::from_secs(at(NOW).as_secs() + seconds)
}

/// A condition that was updated this many seconds ago. Its status and its transition time are not read.
fn condition(condition_type: &str, seconds_ago: i64) -> Condition {
    Condition {
        last_update_time: Some(after(-seconds_ago)),
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
    let unread = |condition_type| request(vec![condition(condition_type, 2 * DAY)], Field::Unread);
    let mut timeless = request(vec![], Certificate::Absent);
    timeless.meta.creation_timestamp = None;
    for (controller, record, expected) in [
        (
            latest(),
            unread("Approved"),
            "status.certificate could not be read",
        ),
        (
            release("1.20"),
            unread("Denied"),
            "status.certificate could not be read",
        ),
        (latest(), timeless, "metadata.creationTimestamp could not be read"),
    ] {
        let found = decide(&controller, &record, at(NOW)).unknown.remove(0);
        assert_eq!(found.reason.message_about(&found.object), expected);
    }
}
