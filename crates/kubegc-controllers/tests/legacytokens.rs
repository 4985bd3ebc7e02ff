//! Unused legacy tokens of ServiceAccounts.

use std::time::Duration;

use crate::common::{at, cache, from_cache, key, line, lines, play, reconcile, reconcile_all, record};
use kubegc_controllers::{BatchPlanner, Cache, Change, Controller, LegacyTokenCleaner, Response, Wire};
use kubegc_core::{
    KubernetesVersion, Planner, StoreError, Timestamp,
    record::{Body, Field, Record, Resource},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

fn latest() -> LegacyTokenCleaner {
    LegacyTokenCleaner::new(KubernetesVersion::LATEST)
}

/// The time of most tests: a period before, it was the first of March 2025, 12:00.
fn now() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn shifted(time: Timestamp, nanos: i64) -> Timestamp {
    Timestamp::from_nanos(time.as_nanos() + nanos)
}

/// A token of the ServiceAccount `till` with these labels, created long ago.
fn token(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect();
    json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {
        "namespace": "shop", "name": name, "uid": "uid-1", "resourceVersion": "5", "labels": labels,
        "creationTimestamp": "2021-01-01T00:00:00Z",
        "annotations": {"kubernetes.io/service-account.name": "till", "kubernetes.io/service-account.uid": "uid-till"}}})
}

fn tracking(since: impl Into<Value>) -> Value {
    json!({"kind": "ConfigMap", "data": {"since": since.into()}, "metadata": {
        "namespace": "kube-system", "name": "kube-apiserver-legacy-service-account-token-tracking"}})
}

fn account(secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({"kind": "ServiceAccount", "secrets": secrets, "metadata": {"namespace": "shop", "name": "till"}})
}

/// A pod that pulls images with these Secrets.
fn pod(name: &str, secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({"kind": "Pod", "spec": {"imagePullSecrets": secrets}, "status": {"phase": "Succeeded"},
        "metadata": {"namespace": "shop", "name": name}})
}

/// An unused token that was created automatically.
fn objects() -> Vec<Value> {
    vec![
        tracking("2023-05-01"),
        token("t", &[]),
        account(&["dockercfg", "t"]),
    ]
}

fn labelled(labels: &[(&str, &str)]) -> Vec<Value> {
    let mut objects = objects();
    objects[1] = token("t", labels);
    objects
}

fn verdict_in(controller: &LegacyTokenCleaner, objects: &[Value], now: Timestamp) -> Vec<String> {
    let decision = reconcile(controller, &cache(controller, objects), "shop/t", now);
    let lines = lines(&decision, now);
    lines
        .iter()
        .map(|line| line.replace("secret/t -n shop", "t"))
        .collect()
}

fn verdict_at(objects: &[Value], now: Timestamp) -> Vec<String> {
    verdict_in(&latest(), objects, now)
}

/// The token is labelled with this day, until midnight.
fn label(day: &str, hours: i32) -> Vec<String> {
    let change = format!(r#"[Label {{ key: "{INVALID_SINCE}", value: "{day}" }}]"#);
    vec![
        format!("patch t uid=uid-1 {change}"),
        format!("requeue {}", hours * 3_600),
    ]
}

fn today() -> Vec<String> {
    label("2026-03-01", 12)
}

const DELETED: [&str; 1] = ["delete t rv=5"];

/// The token is kept until this time.
#[track_caller]
fn kept_until(objects: &[Value], now: Timestamp, code: &str, end: &str) {
    let end = at(end);
    let requeue = format!("requeue {}", end.since(now).as_secs_f64());
    assert_eq!(verdict_at(objects, now), [format!("keep t: {code}"), requeue]);
    let before = verdict_at(objects, shifted(end, -1));
    assert_eq!(before[0], format!("keep t: {code}"));
    let after = verdict_at(objects, end);
    assert!(
        after[0].starts_with("patch") || after[0].starts_with("delete"),
        "{after:?}"
    );
}

#[test]
fn l11_1_and_l11_2_uses_must_be_tracked_for_a_period() {
    let with = |tracking: Value| {
        let mut objects = objects();
        objects[0] = tracking;
        objects
    };
    kept_until(
        &with(tracking("2026-02-19")),
        now(),
        "TrackedTooShortly",
        "2027-02-20T00:00:00Z",
    );
    let midnight = at("2026-03-01T00:00:00Z");
    kept_until(
        &with(tracking("2025-02-28")),
        shifted(midnight, -1),
        "TrackedTooShortly",
        "2026-03-01T00:00:00Z",
    );
    for text in ["", "2023-02-30", "2023-5-1", "2023-05-01T00:00:00Z", "x"] {
        assert_eq!(
            verdict_at(&with(tracking(text)), now()),
            ["keep t: InvalidTracking"],
            "{text}"
        );
    }
    assert_eq!(
        verdict_at(&with(tracking(Value::Null)), now()),
        ["keep t: NotTracked"]
    );
    assert_eq!(verdict_at(&objects()[1..], now()), ["keep t: NotTracked"]);
    assert_eq!(verdict_at(&with(tracking("0001-01-01")), now()), today());
    let end = Timestamp::from_nanos(i64::MAX);
    assert_eq!(
        verdict_at(&with(tracking("9999-12-31")), end),
        ["keep t: TrackedTooShortly"]
    );
}

#[test]
fn l11_3_age_use_and_deletion_protect() {
    let with = |edit: fn(&mut Value)| {
        let mut objects = labelled(&[(INVALID_SINCE, "2024-01-01")]);
        edit(&mut objects[1]);
        objects
    };
    // Strictly older than a period; without a time it is as old as can be.
    let young = with(|secret| secret["metadata"]["creationTimestamp"] = "2025-03-01T12:00:00Z".into());
    assert_eq!(
        verdict_at(&young, now()),
        ["keep t: Young", "requeue 0.000000001"]
    );
    assert_eq!(verdict_at(&young, shifted(now(), 1)), DELETED);
    let ageless = with(|secret| secret["metadata"]["creationTimestamp"] = Value::Null);
    assert_eq!(verdict_at(&ageless, now()), DELETED);
    let terminating = with(|secret| secret["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    assert_eq!(verdict_at(&terminating, now()), ["keep t: Terminating"]);
    let opaque = with(|secret| secret["type"] = "Opaque".into());
    assert_eq!(verdict_at(&opaque, now()), ["keep t: NotServiceAccountToken"]);

    let used = |text| labelled(&[(LAST_USED, text), (INVALID_SINCE, "2024-01-01")]);
    kept_until(&used("2026-02-28"), now(), "Used", "2027-03-01T00:00:00Z");
    kept_until(&used("2025-03-01"), now(), "Used", "2026-03-02T00:00:00Z");
    assert_eq!(verdict_at(&used("2025-02-28"), now()), DELETED);
    for text in ["", "yesterday", "2025-02-29", "2025-2-28"] {
        assert_eq!(
            verdict_at(&used(text), now()),
            ["keep t: InvalidLastUse"],
            "{text}"
        );
    }
}

#[test]
fn l11_4_only_tokens_that_their_service_account_lists_are_deleted() {
    let with = |edit: fn(&mut Vec<Value>)| {
        let mut objects = objects();
        edit(&mut objects);
        verdict_at(&objects, now())
    };
    let keep = ["keep t: NotCreatedAutomatically"];
    let annotate = |objects: &mut Vec<Value>, key: &str, value: &str| {
        objects[1]["metadata"]["annotations"][format!("kubernetes.io/service-account.{key}")] = value.into();
    };
    assert_eq!(with(|objects| objects[2] = account(&["dockercfg"])), keep);
    assert_eq!(
        with(|objects| objects[2]["metadata"]["uid"] = "uid-3".into()),
        keep
    );
    assert_eq!(
        with(|objects| objects[2]["metadata"]["namespace"] = "bar".into()),
        keep
    );
    assert_eq!(with(|objects| drop(objects.pop())), keep);
    let mut unnamed = objects();
    annotate(&mut unnamed, "name", "");
    assert_eq!(verdict_at(&unnamed, now()), keep);
    let mut any_uid = objects();
    annotate(&mut any_uid, "uid", "");
    assert_eq!(verdict_at(&any_uid, now()), today());
    // One that another ServiceAccount lists, too.
    let mut other = account(&["t"]);
    other["metadata"]["name"] = "a".into();
    any_uid.push(other);
    assert_eq!(verdict_at(&any_uid, now()), today());
    any_uid[2] = account(&[]);
    assert_eq!(verdict_at(&any_uid, now()), keep);
}

#[test]
fn l11_5_a_pod_that_references_it_protects_it() {
    let with = |pod: Value| {
        let mut objects = objects();
        objects.push(pod);
        verdict_at(&objects, now())
    };
    assert_eq!(with(pod("p", &["other", "t"])), ["keep t: UsedByPod"]);
    assert_eq!(with(pod("p", &["other"])), today());
    let mut elsewhere = pod("p", &["t"]);
    elsewhere["metadata"]["namespace"] = "bar".into();
    assert_eq!(with(elsewhere), today());
}

#[test]
fn l11_6_to_l11_8_two_periods_pass_from_the_last_use_to_the_deletion() {
    assert_eq!(verdict_at(&objects(), now()), today());
    for text in ["", "soon", "2025-02-29"] {
        assert_eq!(
            verdict_at(&labelled(&[(INVALID_SINCE, text)]), now()),
            today(),
            "{text}"
        );
    }
    kept_until(
        &labelled(&[(INVALID_SINCE, "2025-03-01")]),
        now(),
        "LabelledInvalid",
        "2026-03-02T00:00:00Z",
    );
    assert_eq!(
        verdict_at(&labelled(&[(INVALID_SINCE, "2025-02-28")]), now()),
        DELETED
    );
    // 2024 has a leap day, so that 365 days from the second of January end on its first.
    let used = (LAST_USED, "2024-01-01");
    kept_until(
        &labelled(&[used]),
        at("2024-06-01T00:00:00Z"),
        "Used",
        "2025-01-01T00:00:00Z",
    );
    assert_eq!(
        verdict_at(&labelled(&[used]), at("2025-01-01T00:00:00Z")),
        label("2025-01-01", 24)
    );
    let marked = labelled(&[used, (INVALID_SINCE, "2025-01-01")]);
    kept_until(
        &marked,
        at("2025-01-01T00:00:00Z"),
        "LabelledInvalid",
        "2026-01-02T00:00:00Z",
    );
    // A use makes the label void.
    let used_again = labelled(&[(LAST_USED, "2025-12-31"), (INVALID_SINCE, "2025-01-01")]);
    assert_eq!(
        verdict_at(&used_again, at("2026-01-02T00:00:00Z"))[0],
        "keep t: Used"
    );
}

#[test]
fn l11_7_writes_follow_a_read_of_the_tracking_and_are_not_retried() {
    let get = "get configmap/kube-apiserver-legacy-service-account-token-tracking -n kube-system";
    let message = || "no".to_owned();
    for (objects, of_missing, of_conflict) in [
        (
            objects(),
            "failed, retried=false: not found",
            "failed, retried=false: conflict: no",
        ),
        (labelled(&[(INVALID_SINCE, "2024-01-01")]), "done", "done"),
    ] {
        let cache = cache(&latest(), &objects);
        let steps = reconcile(&latest(), &cache, "shop/t", now()).actions[0]
            .clone()
            .into_steps(true);
        let lines = play(&steps, from_cache(&cache));
        assert_eq!((&*lines[0], &*lines[2]), (get, "done"));
        for (error, end) in [
            (StoreError::NotFound, of_missing),
            (StoreError::Conflict { message: message() }, of_conflict),
            (
                StoreError::Unknown { message: message() },
                "failed, retried=false: unknown outcome: no",
            ),
        ] {
            let mut respond = from_cache(&cache);
            let lines = play(&steps, |request| match request.is_write() {
                true => Response::Failed(error.clone()),
                false => respond(request),
            });
            assert_eq!(lines[2], end);
        }
        let lines = play(&steps, |_| Response::Failed(StoreError::NotFound));
        assert_eq!(lines, [get, "stale: 1 reads differ"]);
        let unknown = StoreError::Unknown { message: message() };
        let lines = play(&steps, |_| Response::Failed(unknown.clone()));
        assert_eq!(lines, [get, "failed, retried=false: unknown outcome: no"]);
        let plan = BatchPlanner::new(latest()).plan(&cache, now());
        assert!(
            line(&plan.actions[0].requests[0]).contains(" uid=uid-1 rv=5"),
            "strict writes carry both"
        );
    }
}

#[test]
fn unknown_facts_keep_the_token() {
    let controller = latest();
    let all = || with_pod(labelled(&[(INVALID_SINCE, "2024-01-01")]));
    fn with_pod(mut objects: Vec<Value>) -> Vec<Value> {
        objects.push(pod("p", &[]));
        objects
    }
    assert_eq!(verdict_at(&all(), now()), DELETED);
    for (resource, name, object) in [
        (Resource::Secrets, "shop/t", "t: t"),
        (
            Resource::ServiceAccounts,
            "shop/till",
            "t: serviceaccount/till -n shop",
        ),
        (
            Resource::ConfigMaps,
            "kube-system/kube-apiserver-legacy-service-account-token-tracking",
            "t: configmap/kube-apiserver-legacy-service-account-token-tracking -n kube-system",
        ),
        (Resource::Pods, "shop/p", "t: pod/p -n shop"),
    ] {
        let mut cache = cache(&controller, &all());
        let key = key(name);
        let known = cache.get(resource, &key).cloned().expect("an object");
        cache.put(resource, &key, Some(Record::metadata_only(known.meta)));
        let lines = lines(&reconcile(&controller, &cache, "shop/t", now()), now());
        let reason = if resource == Resource::Pods {
            "its references to Secrets could not be read"
        } else {
            "only its metadata was read"
        };
        let lines: Vec<String> = lines
            .iter()
            .map(|line| line.replace("secret/t -n shop", "t"))
            .collect();
        assert_eq!(lines, [format!("unknown {object}: {reason}")]);
    }
    // Unknown facts of other namespaces do not matter.
    let mut elsewhere = cache(&controller, &all());
    let (_, mut stranger) = record(pod("q", &[]));
    stranger.meta.namespace = "bar".into();
    elsewhere.put(
        Resource::Pods,
        &key("bar/q"),
        Some(Record::unreadable(stranger.meta)),
    );
    assert_eq!(
        reconcile(&controller, &elsewhere, "shop/t", now()).actions.len(),
        1
    );
    // Lists: known objects suffice, unknown ones may exist.
    for (resource, name) in [
        (Resource::ServiceAccounts, "shop/till"),
        (Resource::Pods, "shop/p"),
        (
            Resource::ConfigMaps,
            "kube-system/kube-apiserver-legacy-service-account-token-tracking",
        ),
    ] {
        let mut cache = cache(&controller, &all());
        cache.set_listed(resource, Err(StoreError::Unlisted));
        cache.put(resource, &key(name), None);
        let decision = reconcile(&controller, &cache, "shop/t", now());
        assert_eq!(decision.unknown[0].reason.code(), "ListMissing", "{resource:?}");
        assert_eq!(decision.actions.len(), 0);
    }
    // Fields of the Secret, and those that a write must contain.
    type Edit = (fn(&mut Record), &'static str);
    let edits: [Edit; 5] = [
        (
            |record| edit(record, |secret| secret.secret_type = Field::Unread),
            "type could not be read",
        ),
        (
            |record| edit(record, |secret| secret.service_account_name = Field::Unread),
            "annotation kubernetes.io/service-account.name could not be read",
        ),
        (
            |record| edit(record, |secret| secret.service_account_uid = Field::Unread),
            "annotation kubernetes.io/service-account.uid could not be read",
        ),
        (
            |record| record.meta.uid = "".into(),
            "its metadata could not be read in full",
        ),
        (
            |record| record.meta.resource_version = "".into(),
            "metadata.resourceVersion could not be read",
        ),
    ];
    fn edit(record: &mut Record, edit: fn(&mut kubegc_core::record::Secret)) {
        if let Body::Secret(secret) = record.body_mut() {
            edit(secret);
        }
    }
    for (edit, expected) in edits {
        let mut cache = cache(&controller, &all());
        let mut record = cache
            .get(Resource::Secrets, &key("shop/t"))
            .cloned()
            .expect("a token");
        edit(&mut record);
        cache.put(Resource::Secrets, &key("shop/t"), Some(record));
        let lines = lines(&reconcile(&controller, &cache, "shop/t", now()), now());
        assert_eq!(
            lines,
            [format!("unknown secret/t -n shop: secret/t -n shop: {expected}")]
        );
    }
}

#[test]
fn only_tokens_are_keys_and_only_their_facts_affect_them() {
    let controller = latest();
    let mut objects = objects();
    let mut opaque = token("opaque", &[]);
    opaque["type"] = "Opaque".into();
    objects.push(opaque.clone());
    let cache = cache(&controller, &objects);
    assert_eq!(
        reconcile_all(&controller, &cache, now()).len(),
        2,
        "one patch and its requeue"
    );
    let affected = |old: Option<Value>, new: Option<Value>| {
        let (old, new) = (old.map(record), new.map(record));
        let (resource, any) = new.as_ref().or(old.as_ref()).expect("an object");
        let change = Change {
            resource: *resource,
            key: &kubegc_controllers::Key::from(&any.meta),
            old: old.as_ref().map(|(_, record)| record),
            new: new.as_ref().map(|(_, record)| record),
        };
        let mut keys = Vec::new();
        controller.affected(&cache, &change, &mut keys);
        keys.dedup();
        keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let token_only = ["shop/t"];
    let none: [&str; 0] = [];
    let mut stranger = tracking("2020-01-01");
    stranger["metadata"]["name"] = "other".into();
    assert_eq!(affected(None, Some(token("t", &[]))), token_only);
    assert_eq!(affected(None, Some(opaque)), none);
    assert_eq!(affected(Some(account(&["t"])), Some(account(&[]))), token_only);
    assert_eq!(affected(None, Some(tracking("2020-01-01"))), token_only);
    assert_eq!(affected(None, Some(stranger)), none);
    assert_eq!(affected(None, Some(pod("p", &["t"]))), token_only);
    assert_eq!(affected(Some(pod("p", &["t"])), None), token_only);
    assert_eq!(affected(Some(pod("p", &["t"])), Some(pod("p", &["t"]))), none);
    assert_eq!(affected(None, Some(pod("p", &["opaque", "other"]))), none);
    let mut hidden = pod("p", &[]);
    hidden["spec"] = "hidden".into();
    assert_eq!(affected(Some(pod("p", &[])), Some(hidden)), token_only);
    assert_eq!(controller.timing().period, Some(Duration::from_secs(86_400)));
}

#[test]
fn the_cleaner_runs_since_1_29_with_a_period_of_8760_h() {
    for (release, is_on) in [("1.24", false), ("1.28", false), ("1.29", true), ("1.36", true)] {
        let controller = LegacyTokenCleaner::new(release.parse().expect("a release in range"));
        let expected = if is_on {
            today()
        } else {
            vec!["keep t: Disabled".to_owned()]
        };
        assert_eq!(verdict_in(&controller, &objects(), now()), expected, "{release}");
        assert_eq!(
            verdict_in(&controller.with_enabled(true), &objects(), now()),
            today()
        );
    }
    let quick = latest()
        .with_clean_up_period(Duration::from_nanos(1))
        .expect("some time");
    assert_eq!(verdict_in(&quick, &objects(), now()), today());
    let patient = latest().with_clean_up_period(Duration::MAX).expect("some time");
    assert_eq!(
        verdict_in(&patient, &objects(), now()),
        ["keep t: TrackedTooShortly"]
    );
}

const DAYS: &[&str] = &[
    "2026-01-01",
    "2026-01-02",
    "2026-01-03",
    "2026-01-04",
    "2026-01-05",
    "garbage",
];

/// Two days, so that all deadlines lie close together.
fn short() -> LegacyTokenCleaner {
    let two_days = Duration::from_secs(48 * 3_600);
    latest().with_clean_up_period(two_days).expect("some time")
}

fn world() -> impl Strategy<Value = Vec<Value>> {
    let day = || option::of(select(DAYS));
    let one = (0..12_u8, select(vec!["till", "b", ""]), day(), day(), 0..8_u32);
    let names = || vec(0..8_u8, 0..8);
    (select(DAYS), vec(one, 0..8), names(), names()).prop_map(|(since, secrets, listed, used)| {
        let names = |numbers: &[u8]| {
            numbers
                .iter()
                .map(|number| format!("token-{number}"))
                .collect::<Vec<_>>()
        };
        let texts = |names: &[String]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let mut account = account(&[]);
        account["secrets"] = texts(&names(&listed)).into();
        let mut pod = pod("p", &[]);
        pod["spec"]["imagePullSecrets"] = texts(&names(used.get(..2).unwrap_or_default())).into();
        let mut objects = vec![tracking(since), account, pod];
        for (number, (odds, account, used, invalid, created)) in secrets.into_iter().enumerate() {
            let days = [(LAST_USED, used), (INVALID_SINCE, invalid)];
            let labels: Vec<_> = days
                .iter()
                .filter_map(|(key, day)| Some((*key, (*day)?)))
                .collect();
            let mut secret = token(&format!("token-{number}"), &labels);
            let created = at("2025-12-31T06:00:00Z").saturating_add(Duration::from_secs(21_600) * created);
            secret["metadata"]["creationTimestamp"] = created.to_string().into();
            secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] = account.into();
            match odds {
                0 => secret["type"] = "Opaque".into(),
                1 => secret["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
                2 => secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = "uid-x".into(),
                _ => {}
            }
            objects.push(secret);
        }
        objects
    })
}

/// Upstream's action on one Secret, with its strings: `Some(false)` labels it, `Some(true)` deletes it.
fn naive(objects: &[Value], secret: &Value, now: Timestamp) -> Option<bool> {
    let midnight = |day: &str| Timestamp::parse(&format!("{day}T00:00:00Z")).ok();
    let day = Duration::from_secs(24 * 3_600);
    if now < midnight(objects[0]["data"]["since"].as_str()?)?.saturating_add(3 * day) {
        return None;
    }
    let cut = now.saturating_sub(2 * day);
    let cut_day = cut.to_string()[..10].to_owned();
    let metadata = &secret["metadata"];
    let created = metadata["creationTimestamp"].as_str().map(at)?;
    if secret["type"] == "Opaque" || created >= cut || !metadata["deletionTimestamp"].is_null() {
        return None;
    }
    let label = |key: &str| metadata["labels"][key].as_str();
    if label(LAST_USED).is_some_and(|used| midnight(used).is_none() || *used >= *cut_day) {
        return None;
    }
    let annotations = &metadata["annotations"];
    if annotations["kubernetes.io/service-account.name"] != "till"
        || annotations["kubernetes.io/service-account.uid"] != "uid-till"
    {
        return None;
    }
    let lists = |names: &Value| {
        names
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name["name"] == metadata["name"]))
    };
    if !lists(&objects[1]["secrets"]) || lists(&objects[2]["spec"]["imagePullSecrets"]) {
        return None;
    }
    match label(INVALID_SINCE) {
        Some(since) if midnight(since).is_some() => (*since < *cut_day).then_some(true),
        _ => Some(false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn laws(objects in world(), days in 0..10_i64, hours in select(vec![0, 6]), nanos in -1..2_i64) {
        let begin = at("2026-01-01T00:00:00Z");
        let now = shifted(begin, (days * 24 + hours) * 3_600_000_000_000 + nanos);
        let planner = BatchPlanner::new(short()).wire(Wire::AsUpstream);
        let cache_of = |objects: &[Value]| cache(&short(), objects);
        let cache = cache_of(&objects);
        let plan = planner.plan(&cache, now);
        for secret in &objects[3..] {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let action = plan.actions.iter().find(|action| *action.object.name == *name);
            let done = action.map(kubegc_controllers::Action::is_deletion);
            prop_assert_eq!(done, naive(&objects, secret, now), "{}", name);
        }

        let mut turned = objects.clone();
        turned.reverse();
        prop_assert_eq!(planner.plan(&cache_of(&turned), now), plan.clone());

        let mut after = cache.clone();
        for action in &plan.actions {
            let key = key(&format!("shop/{}", action.object.name));
            let labelled = action.requests.iter().find_map(|request| match request {
                kubegc_controllers::Request::Write(write) => {
                    let mut record = cache.get(Resource::Secrets, &key)?.clone();
                    write.changes.iter().for_each(|change| change.apply(&mut record));
                    Some(record)
                }
                _ => None,
            });
            after.put(Resource::Secrets, &key, labelled);
        }
        prop_assert_eq!(planner.plan(&after, now).actions, []);

        // The plan changes at its next time, and not before.
        if let Some(next_at) = plan.next_at {
            prop_assert!(next_at > now);
            prop_assert_eq!(&planner.plan(&cache, shifted(next_at, -1)).actions, &plan.actions);
            prop_assert_ne!(planner.plan(&cache, next_at), plan);
        } else {
            prop_assert_eq!(planner.plan(&cache, Timestamp::from_nanos(i64::MAX)).actions, plan.actions);
        }
        let nothing: &mut dyn FnMut(Resource, &str) -> Cache = &mut |resource, name| {
            let mut less = cache.clone();
            less.set_listed(resource, Err(StoreError::Unlisted));
            less.put(resource, &key(name), None);
            less
        };
        for (resource, name) in [(Resource::Pods, "shop/p"), (Resource::ServiceAccounts, "shop/till")] {
            prop_assert_eq!(planner.plan(&nothing(resource, name), now).actions, []);
        }
    }
}
