//! Expired bootstrap tokens.

use crate::common::{at, cache, line, lines, play, reconcile, reconcile_all, record};
use kubegc_controllers::{BatchPlanner, Cache, Controller, Response, TokenCleaner, Wire};
use kubegc_core::{
    KubernetesVersion, Planner, StoreError, Timestamp,
    record::{Body, Field, Record, Resource, Secret},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

const NAME: &str = "bootstrap-token-abcdef";

fn controller() -> TokenCleaner {
    TokenCleaner::new(KubernetesVersion::LATEST)
}

fn now() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn token(name: &str) -> Value {
    json!({"kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"namespace": "kube-system", "name": name, "uid": "uid-1"}})
}

/// A token with this expiration; the API has it in base64.
fn expiring(name: &str, expiration: &str) -> Record {
    let (_, mut record) = record(token(name));
    if let Body::Secret(secret) = record.body_mut() {
        secret.expiration = Field::Known(expiration.into());
    }
    record
}

fn cache_of(records: Vec<Record>) -> Cache {
    let mut cache = cache(&controller(), &[]);
    cache.replace(Resource::Secrets, records);
    cache
}

/// The decision about a token with this expiration.
fn verdict(expiration: &str) -> Vec<String> {
    let cache = cache_of(vec![expiring(NAME, expiration)]);
    let decision = reconcile(&controller(), &cache, &format!("kube-system/{NAME}"), now());
    let lines = lines(&decision, now());
    lines
        .iter()
        .map(|line| line.replace(" secret/bootstrap-token-abcdef -n kube-system", ""))
        .collect()
}

#[test]
fn l12_2_a_token_expires_when_no_time_remains() {
    for text in [
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00+01:00",
        "2026-03-01T11:59:59.999999999Z",
        "1600-01-01T00:00:00Z",
        "tomorrow",
        " ",
        "2030-01-01",
        "2030-02-30T00:00:00Z",
    ] {
        assert_eq!(verdict(text), ["delete uid=uid-1"], "{text}");
    }
    for (text, seconds) in [
        ("2026-03-01T12:00:01Z", "1"),
        ("2026-03-01T12:00:00.000000001Z", "0.000000001"),
        ("2026-03-01T14:00:01,5+02:00", "1.5"),
        ("2126-02-05T12:00:00Z", "3153600000"),
    ] {
        assert_eq!(
            verdict(text),
            ["keep: NotExpired".to_owned(), format!("requeue {seconds}")],
            "{text}"
        );
    }
    assert_eq!(verdict(""), ["keep: NoExpiration"]);
    assert_eq!(verdict("9999-12-31T23:59:59Z"), ["keep: NeverExpires"]);
    let (_, silent) = record(token(NAME));
    let decided = reconcile_all(&controller(), &cache_of(vec![silent]), now());
    assert_eq!(
        decided,
        [format!("keep secret/{NAME} -n kube-system: NoExpiration")]
    );
}

#[test]
fn l12_1_and_l12_4_only_bootstrap_tokens_of_kube_system_count_with_any_name() {
    let mut elsewhere = expiring("elsewhere", "soon");
    elsewhere.meta.namespace = "default".into();
    let mut terminating = expiring("terminating", "soon");
    terminating.meta.deletion_timestamp = Some(now());
    let edited = |name: &str, edit: fn(&mut Secret)| {
        let mut record = expiring(name, "soon");
        if let Body::Secret(secret) = record.body_mut() {
            edit(secret);
        }
        record
    };
    let opaque = edited("opaque", |secret| {
        secret.secret_type = Field::Known("Opaque".into())
    });
    let typeless = edited("typeless", |secret| secret.secret_type = Field::Unread);
    let unread = edited("unread", |secret| secret.expiration = Field::Unread);
    let mut without_uid = expiring("without-uid", "soon");
    without_uid.meta.uid = "".into();
    let metadata_only = Record::metadata_only(expiring("metadata-only", "soon").meta);
    let any = expiring("whatever", "soon");
    let all = vec![
        elsewhere.clone(),
        terminating,
        opaque,
        typeless,
        unread,
        without_uid,
        metadata_only,
        any,
    ];
    let expected = [
        "unknown secret/metadata-only -n kube-system: secret/metadata-only -n kube-system: only its metadata was read",
        "keep secret/opaque -n kube-system: NotBootstrapToken",
        "keep secret/terminating -n kube-system: Terminating",
        "unknown secret/typeless -n kube-system: secret/typeless -n kube-system: type could not be read",
        "unknown secret/unread -n kube-system: secret/unread -n kube-system: data.expiration could not be read",
        "delete secret/whatever -n kube-system uid=uid-1",
        "unknown secret/without-uid -n kube-system: secret/without-uid -n kube-system: its metadata could not be \
         read in full",
    ];
    let cache = cache_of(all);
    assert_eq!(reconcile_all(&controller(), &cache, now()), expected);
    let decision = reconcile(&controller(), &cache, "default/elsewhere", now());
    assert_eq!(
        lines(&decision, now()),
        ["keep secret/elsewhere -n default: OtherNamespace"]
    );
    let mut off = controller();
    off.is_enabled = false;
    let cache = cache_of(vec![expiring("a", "soon")]);
    assert_eq!(
        reconcile_all(&off, &cache, now()),
        ["keep secret/a -n kube-system: Disabled"]
    );
    // Secrets of other namespaces do not affect any key.
    for (record, is_affected) in [(elsewhere, false), (expiring("a", "soon"), true)] {
        let change = kubegc_controllers::Change {
            resource: Resource::Secrets,
            key: &kubegc_controllers::Key::from(&record.meta),
            old: None,
            new: Some(&record),
        };
        let mut keys = Vec::new();
        controller().affected(&cache, &change, &mut keys);
        assert_eq!(!keys.is_empty(), is_affected);
    }
}

#[test]
fn l12_3_errors_are_not_retried() {
    let cache = cache_of(vec![expiring(NAME, "soon")]);
    let decision = reconcile(&controller(), &cache, &format!("kube-system/{NAME}"), now());
    let message = || "no".to_owned();
    for (error, end) in [
        (StoreError::NotFound, "done"),
        (StoreError::Conflict { message: message() }, "done"),
        (
            StoreError::Unknown { message: message() },
            "failed, retried=false: unknown outcome: no",
        ),
    ] {
        let steps = decision.actions[0].clone().into_steps(true);
        let lines = play(&steps, |_| Response::Failed(error.clone()));
        assert_eq!(lines[1..], [end], "{error}");
    }
    let plan = BatchPlanner::new(controller()).plan(&cache, now());
    let strict = format!("delete secret/{NAME} -n kube-system uid=uid-1 rv=1");
    assert_eq!(line(&plan.actions[0].requests[0]), strict);
}

fn tokens() -> impl Strategy<Value = Vec<Record>> {
    let text = prop_oneof![
        6 => (0..40_u8).prop_map(|second| format!("2026-03-01T12:00:{second:02}Z")),
        1 => Just(String::new()),
        1 => Just("soon".to_owned()),
    ];
    vec((text, 0..8_u8), 0..8).prop_map(|tokens| {
        let record = |(at, (text, odds)): (usize, (String, u8))| {
            let mut record = expiring(&format!("token-{at}"), &text);
            match record.body_mut() {
                Body::Secret(secret) if odds == 0 => secret.secret_type = Field::Known("Opaque".into()),
                Body::Secret(secret) if odds == 1 => secret.expiration = Field::Unread,
                _ => {}
            }
            record
        };
        tokens.into_iter().enumerate().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn laws(tokens in tokens(), seconds in -1..45_i64, nanos in -1..2_i64) {
        let planner = BatchPlanner::new(controller()).wire(Wire::AsUpstream);
        let now = Timestamp::from_nanos(now().as_nanos() + seconds * 1_000_000_000 + nanos);
        let cache = cache_of(tokens.clone());
        let plan = planner.plan(&cache, now);
        prop_assert_eq!(plan.actions.len() + plan.kept.len(), tokens.len());

        let mut turned = tokens.clone();
        turned.reverse();
        prop_assert_eq!(planner.plan(&cache_of(turned), now), plan.clone());

        let mut after = tokens;
        after.retain(|token| !plan.actions.iter().any(|action| action.object.name == token.meta.name));
        prop_assert_eq!(planner.plan(&cache_of(after), now).actions, []);

        // The plan changes at its next time, and not before.
        let verdicts = |now| {
            let plan = planner.plan(&cache, now);
            (plan.actions.len(), plan.next_at)
        };
        if let Some(next_at) = plan.next_at {
            let before = Timestamp::from_nanos(next_at.as_nanos() - 1);
            prop_assert_eq!(verdicts(before), (plan.actions.len(), plan.next_at));
            prop_assert_ne!(verdicts(next_at), (plan.actions.len(), plan.next_at));
        }
    }
}
