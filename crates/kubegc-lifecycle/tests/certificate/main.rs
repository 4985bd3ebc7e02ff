//! Certificate requests: upstream's rules one by one, on both sides of each deadline, and the laws of its plans.

mod laws;
mod pod_requests;

use std::time::Duration;

use kubegc_core::{KubernetesVersion, ObjectMeta, Planner, Preconditions, ResourceVersion, Timestamp, Uid};
use kubegc_lifecycle::{
    certificate::{Action, Certificate, Facts, Reason, Request, Rule, Settings},
    object::{Act, Call, Condition, Failure, Wire},
};

/// The time of most tests.
const NOW: i64 = 10_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn shifted(seconds: i64, nanos: i64) -> Timestamp {
    Timestamp::from_nanos(at(seconds).as_nanos() + nanos)
}

fn release(text: &str) -> Settings {
    let version: KubernetesVersion = text.parse().expect("a release in range");
    Settings::new(version)
}

/// A condition of this type, last written this many seconds ago.
fn condition(kind: &str, seconds_ago: Option<i64>) -> Condition {
    Condition {
        last_update_time: seconds_ago.map(|ago| at(NOW - ago)),
        // Never read.
        last_transition_time: Some(at(0)),
        ..Condition::new(kind, "Unknown")
    }
}

fn request(conditions: &[Condition], certificate: Certificate) -> Request {
    let mut meta = ObjectMeta::new("", "csr-7", "uid-7");
    meta.creation_timestamp = Some(at(NOW - 3 * DAY));
    Request {
        meta,
        conditions: Some(conditions.to_vec()),
        certificate,
    }
}

/// A request that nobody has decided on.
fn pending(seconds_ago: i64) -> Request {
    let mut request = request(&[], Certificate::None);
    request.meta.creation_timestamp = Some(at(NOW - seconds_ago));
    request
}

fn valid() -> Certificate {
    Certificate::NotAfter(at(NOW + 30 * DAY))
}

fn expired() -> Certificate {
    Certificate::NotAfter(at(NOW - 1))
}

fn garbage() -> Certificate {
    Certificate::Bad("no certificates found".into())
}

/// `Ok` with the rule of a deletion, `Err` with the reason to keep.
fn verdict_at(settings: &Settings, request: &Request, now: Timestamp) -> Result<Rule, Reason> {
    let facts = Facts {
        requests: vec![request.clone()],
    };
    let plan = settings.plan(&facts, now);
    match (&*plan.actions, &*plan.kept) {
        ([Action::Delete { reason, .. }], []) => {
            assert_eq!(plan.next_at, None);
            match reason {
                Reason::Due { rule, since } if *since <= now => Ok(*rule),
                other => panic!("no reason to delete: {other:?}"),
            }
        }
        ([], [kept]) => Err(kept.reason.clone()),
        other => panic!("one request, one verdict: {other:?}"),
    }
}

fn verdict(request: &Request) -> Result<Rule, Reason> {
    verdict_at(&Settings::default(), request, at(NOW))
}

/// Whether the request is deleted one nanosecond before, at and after a time.
fn around(request: &Request, seconds: i64) -> [bool; 3] {
    [-1, 0, 1].map(|nanos| verdict_at(&Settings::default(), request, shifted(seconds, nanos)).is_ok())
}

#[test]
fn t_4_1_pending_for_a_day_is_kept_and_a_nanosecond_more_is_deleted() {
    assert_eq!(around(&pending(DAY), NOW), [false, false, true]);
    let from = shifted(NOW, 1);
    let rule = Rule::Pending;
    assert_eq!(verdict(&pending(DAY)), Err(Reason::NotDue { rule, from }));
    assert_eq!(
        verdict_at(&Settings::default(), &pending(DAY), from),
        Ok(Rule::Pending)
    );
}

#[test]
fn t_4_2_to_4_every_decision_has_its_hour() {
    for (kind, certificate, rule) in [
        ("Denied", Certificate::None, Rule::Denied),
        ("Failed", Certificate::None, Rule::Failed),
        ("Approved", valid(), Rule::Issued),
        ("Approved", Certificate::Unread, Rule::Issued),
    ] {
        let decided = |ago| request(&[condition(kind, Some(ago))], certificate.clone());
        assert_eq!(around(&decided(HOUR), NOW), [false, false, true], "{kind}");
        assert!(verdict(&decided(59 * MINUTE)).is_err(), "{kind}");
        assert_eq!(verdict(&decided(61 * MINUTE)), Ok(rule));
    }
}

#[test]
fn t_4_5_approved_and_not_issued_has_no_hour() {
    let unissued = |ago| request(&[condition("Approved", Some(ago))], Certificate::None);
    assert!(verdict(&unissued(61 * MINUTE)).is_err());
    // L4.7: never, in any release.
    for text in ["1.20", "1.34", "1.35", "1.36"] {
        for ago in [0, DAY + 1, 300 * DAY] {
            let verdict = verdict_at(&release(text), &unissued(ago), at(NOW));
            assert_eq!(verdict, Err(Reason::NoRule), "{text}");
        }
    }
    // Unless it is asked for.
    let mut asked = release("1.20");
    asked.unissued_age = Some(Duration::from_secs(24 * 3_600));
    let is_deleted = |nanos| verdict_at(&asked, &unissued(DAY), shifted(NOW, nanos)) == Ok(Rule::Unissued);
    assert_eq!([-1, 0, 1].map(is_deleted), [false, false, true]);
    // With a failure beside the approval, the failure's hour counts.
    let failed = request(
        &[
            condition("Approved", Some(2 * HOUR)),
            condition("Failed", Some(61 * MINUTE)),
        ],
        Certificate::None,
    );
    assert_eq!(verdict(&failed), Ok(Rule::Failed));
}

#[test]
fn t_4_6_and_7_an_expired_certificate_takes_its_request_along() {
    let approved = |certificate| request(&[condition("Approved", Some(5 * MINUTE))], certificate);
    assert_eq!(verdict(&approved(expired())), Ok(Rule::CertificateExpired));
    let rule = Rule::Issued;
    let from = shifted(NOW + 55 * MINUTE, 1);
    assert_eq!(verdict(&approved(valid())), Err(Reason::NotDue { rule, from }));
    // Without an approval, nobody asks for the certificate.
    assert_eq!(
        verdict(&request(&[condition("Other", Some(0))], expired())),
        Err(Reason::NoRule)
    );
}

#[test]
fn t_4_8_a_condition_without_a_time_never_grows_old() {
    let approved = |certificate| request(&[condition("Approved", None)], certificate);
    let rule = Rule::CertificateExpired;
    let from = shifted(NOW + 30 * DAY, 1);
    assert_eq!(verdict(&approved(valid())), Err(Reason::NotDue { rule, from }));
    assert_eq!(verdict(&approved(Certificate::None)), Err(Reason::NoRule));
    assert_eq!(
        verdict(&request(&[condition("Denied", None)], Certificate::None)),
        Err(Reason::NoRule)
    );
    // The certificate's own date still counts.
    assert_eq!(verdict(&approved(expired())), Ok(rule));
}

#[test]
fn t_4_9_a_bad_certificate_keeps_its_request_in_old_releases_only() {
    for certificate in [
        garbage(),
        Certificate::Bad("unable to parse certificate data: x".into()),
    ] {
        for (kind, rule) in [("Approved", Rule::Issued), ("Denied", Rule::Denied)] {
            let old_one = request(&[condition(kind, Some(61 * MINUTE))], certificate.clone());
            assert_eq!(verdict(&old_one), Ok(rule));
            assert_eq!(verdict_at(&release("1.22"), &old_one, at(NOW)), Ok(rule));
            let Certificate::Bad(message) = certificate.clone() else {
                panic!("a bad one");
            };
            let expected = Err(Reason::BadCertificate { message });
            for text in ["1.13", "1.20", "1.21"] {
                assert_eq!(verdict_at(&release(text), &old_one, at(NOW)), expected, "{text}");
            }
        }
    }
    // Bad data is not an expired certificate.
    assert!(verdict(&request(&[condition("Approved", Some(5 * MINUTE))], garbage())).is_err());
}

#[test]
fn t_4_10_any_condition_silences_the_rule_for_pending() {
    for kind in ["Approved", "Denied", "Failed", "Example"] {
        let decided = request(&[condition(kind, None)], Certificate::None);
        assert_eq!(verdict(&decided), Err(Reason::NoRule), "{kind}");
    }
}

#[test]
fn t_4_11_a_certificate_is_good_until_its_last_instant_is_over() {
    let last = request(
        &[condition("Approved", Some(5 * MINUTE))],
        Certificate::NotAfter(at(NOW)),
    );
    assert_eq!(around(&last, NOW), [false, false, true]);
}

#[test]
fn t_4_12_the_caller_hands_in_the_first_certificate_and_no_other_counts() {
    // Of two blocks the facts hold the first: its date decides, even where another would have expired.
    let first_valid = request(&[condition("Approved", Some(5 * MINUTE))], valid());
    assert!(verdict(&first_valid).is_err());
}

#[test]
fn the_rule_that_came_true_first_is_told_and_keeps_being_told() {
    let both = request(
        &[
            condition("Denied", Some(2 * HOUR)),
            condition("Approved", Some(3 * HOUR)),
        ],
        valid(),
    );
    assert_eq!(verdict(&both), Ok(Rule::Issued));
    let later = request(
        &[
            condition("Denied", Some(2 * HOUR)),
            condition("Approved", Some(90 * MINUTE)),
        ],
        valid(),
    );
    assert_eq!(verdict(&later), Ok(Rule::Denied));
    assert_eq!(
        verdict_at(&Settings::default(), &later, at(NOW + DAY)),
        Ok(Rule::Denied)
    );
    // Of several conditions of a type, the oldest decides.
    let twice = request(
        &[condition("Denied", Some(0)), condition("Denied", Some(2 * HOUR))],
        Certificate::None,
    );
    assert_eq!(verdict(&twice), Ok(Rule::Denied));
}

#[test]
fn releases_differ_as_told() {
    let failed = request(&[condition("Failed", Some(61 * MINUTE))], Certificate::None);
    assert_eq!(
        verdict_at(&release("1.18"), &failed, at(NOW)),
        Err(Reason::NoRule)
    );
    assert_eq!(verdict_at(&release("1.19"), &failed, at(NOW)), Ok(Rule::Failed));

    let empty = request(&[condition("Approved", Some(61 * MINUTE))], Certificate::Empty);
    let message = "expected the certificate associated with the CSR to be PEM encoded".into();
    assert_eq!(
        verdict_at(&release("1.18"), &empty, at(NOW)),
        Err(Reason::BadCertificate { message })
    );
    assert_eq!(verdict_at(&release("1.19"), &empty, at(NOW)), Err(Reason::NoRule));
    let mut tolerant = release("1.18");
    tolerant.bad_certificate_keeps = false;
    assert_eq!(verdict_at(&tolerant, &empty, at(NOW)), Ok(Rule::Issued));
}

#[test]
fn what_is_not_known_decides_nothing() {
    let not_known = |field| Err(Reason::NotKnown { field });
    let mut blank = request(&[], valid());
    blank.conditions = None;
    assert_eq!(verdict(&blank), not_known("status.conditions"));
    let mut ageless = pending(DAY);
    ageless.meta.creation_timestamp = None;
    assert_eq!(verdict(&ageless), not_known("metadata.creationTimestamp"));

    // What has no uid could be another of its name by now.
    let mut nameless = pending(2 * DAY);
    assert_eq!(verdict(&nameless), Ok(Rule::Pending));
    nameless.meta.uid = Uid::new("");
    assert_eq!(verdict(&nameless), not_known("metadata.uid"));

    let approved = |certificate| request(&[condition("Approved", Some(61 * MINUTE))], certificate);
    let certificate = not_known("status.certificate");
    assert_eq!(verdict(&approved(Certificate::Unknown)), certificate);
    // Where a certificate decides nothing, it need not be known; where it might be bad, it must.
    let denied = request(&[condition("Denied", Some(61 * MINUTE))], Certificate::Unknown);
    assert_eq!(verdict(&denied), Ok(Rule::Denied));
    assert_eq!(verdict_at(&release("1.20"), &denied, at(NOW)), certificate);
    assert_eq!(
        verdict_at(&release("1.20"), &approved(Certificate::Unread), at(NOW)),
        certificate
    );
    // It may have expired before its hour is over.
    let young = request(&[condition("Approved", Some(0))], Certificate::Unread);
    assert_eq!(verdict(&young), certificate);
    let facts = Facts {
        requests: vec![young],
    };
    let plan = Settings::default().plan(&facts, at(NOW));
    assert_eq!(plan.next_at, Some(shifted(NOW + HOUR, 1)));
}

#[test]
fn l4_8_upstream_expects_nothing_and_we_do() {
    let mut denied = request(&[condition("Denied", Some(2 * HOUR))], Certificate::None);
    denied.meta.resource_version = ResourceVersion::new("9");
    let facts = Facts {
        requests: vec![denied.clone()],
    };
    let plan = Settings::default().plan(&facts, at(NOW));
    let strict = Preconditions {
        uid: Some(Uid::new("uid-7")),
        resource_version: Some(ResourceVersion::new("9")),
    };
    assert_eq!(*plan.actions[0].expect(), strict);
    for (wire, expected) in [
        (Wire::AsUpstream, Preconditions::default()),
        (Wire::Strict, strict),
    ] {
        let calls = plan.actions[0].calls(wire);
        let [Call::Delete { object, options }] = &*calls else {
            panic!("one call: {calls:?}");
        };
        assert_eq!(object.to_string(), "CertificateSigningRequest csr-7");
        assert_eq!(options.preconditions, expected);
        assert_eq!((options.propagation, options.grace_period_seconds), (None, None));
    }
    let error = kubegc_core::StoreError::NotFound;
    assert_eq!(Action::failure(&error), Failure::Told);
    assert_eq!(
        plan.actions[0].told_failed("forbidden"),
        "unable to delete CSR \"csr-7\": forbidden"
    );

    denied.meta.deletion_timestamp = Some(at(NOW));
    assert_eq!(verdict(&denied), Err(Reason::Deleting));
}

#[test]
fn the_ends_of_time_break_nothing() {
    let (begin, end) = (Timestamp::from_nanos(i64::MIN), Timestamp::from_nanos(i64::MAX));
    let settings = Settings::default();
    let mut late = condition("Denied", None);
    late.last_update_time = Some(end);
    let late = request(&[late], Certificate::None);
    assert_eq!(verdict_at(&settings, &late, end), Err(Reason::NoRule));
    let mut early = condition("Denied", None);
    early.last_update_time = Some(begin);
    let early = request(&[early], Certificate::None);
    assert!(verdict_at(&settings, &early, begin).is_err());
    assert_eq!(verdict_at(&settings, &early, at(0)), Ok(Rule::Denied));
    // What expires after the end of time does not expire at it.
    let eternal = request(&[condition("Approved", None)], Certificate::NotAfter(end));
    assert_eq!(verdict_at(&settings, &eternal, end), Err(Reason::NoRule));
    // Clocks that differ only delay.
    assert_eq!(around(&pending(-HOUR), NOW + HOUR + DAY), [false, false, true]);
}

#[test]
fn reasons_are_told_in_words() {
    let since = at(0);
    for (reason, text) in [
        (
            Reason::Due {
                rule: Rule::Denied,
                since,
            },
            "it is denied, and its time was over at 1970-01-01T00:00:00Z",
        ),
        (
            Reason::NotDue {
                rule: Rule::Unissued,
                from: since,
            },
            "it is approved and was not issued, and stays until 1970-01-01T00:00:00Z",
        ),
        (Reason::NoRule, "no rule applies to it"),
        (Reason::Deleting, "is being deleted"),
        (
            Reason::BadCertificate {
                message: "no certificates found".into(),
            },
            "no certificates found",
        ),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
