//! Tokens of service accounts.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::{Basis, Controller, Input, Mechanism, Work},
    fields::{self, Fields, Record},
    object::{
        Resource::{self, ConfigMaps, Pods, Secrets, ServiceAccounts},
        Wire,
    },
    token::legacy::{LABEL_INVALID_SINCE, SECRET_TYPE},
};

use crate::support::{BEGAN, Cluster, Run, changed, nothing_but, only, pod, record, refused, unread};

const DAY: Duration = Duration::from_secs(86_400);

/// All times are before the run begins, in January 1970, by more than a year.
fn long_ago() -> Timestamp {
    Timestamp::from_secs(-100_000_000)
}

fn token(name: &str, account: &str) -> Record {
    let fields = fields::Secret {
        secret_type: Some(SECRET_TYPE.into()),
        account_name: Some(account.into()),
        account_uid: Some("".into()),
        ..fields::Secret::default()
    };
    let mut record = record("shop", name, Fields::Secret(fields));
    record.meta.creation_timestamp = Some(long_ago());
    record
}

fn account(name: &str, secrets: &[&str]) -> Record {
    let secrets = secrets.iter().map(|name| (*name).into()).collect();
    let fields = fields::ServiceAccount {
        secrets: Some(secrets),
    };
    record("shop", name, Fields::ServiceAccount(fields))
}

fn tracking() -> Record {
    let fields = fields::ConfigMap {
        since: Some("1960-01-01".into()),
    };
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    record("kube-system", name, Fields::ConfigMap(fields))
}

fn using(name: &str, secrets: &[&str]) -> Record {
    let mut record = pod(name, &[]);
    if let Fields::Pod(fields) = &mut record.fields {
        fields.secrets = Some(secrets.iter().map(|name| (*name).into()).collect());
    }
    record
}

fn cluster() -> Cluster {
    Cluster::default()
        .with(ConfigMaps, [tracking()])
        .with(ServiceAccounts, [account("till", &["till-token"])])
        .with(Secrets, [token("till-token", "till")])
}

fn run(cluster: &Cluster) -> Run {
    Run::new(only(Mechanism::LegacyTokens), cluster)
}

/// With another object in the place of that of its name, or beside the others.
fn with(resource: Resource, record: Record) -> Cluster {
    let mut cluster = cluster();
    let records = cluster.0.entry(resource).or_default();
    records.retain(|other| other.meta.name != record.meta.name);
    records.push(record);
    cluster
}

const MARKED: &str = "till-token marked 1970-01-12";

fn is_not_known(reason: &str) -> (Vec<String>, Vec<String>) {
    nothing_but(&[&format!("Secret shop/till-token: {reason}")])
}

#[test]
fn l11_7_an_unused_token_is_marked_and_then_deleted() {
    assert_eq!(run(&cluster()).works(), [MARKED]);
    let mut marked = token("till-token", "till");
    let label = (LABEL_INVALID_SINCE.into(), "1968-05-01".into());
    marked.meta.labels.extend([label]);
    let tasks = run(&with(Secrets, marked.clone())).tasks();
    let Work::Act(planned) = &tasks[0].work else {
        panic!("calls")
    };
    let same = Basis::same(ServiceAccounts, &account("till", &[]).meta);
    assert_eq!(planned.rests_on, [same], "the account is read again first");
    assert_eq!(run(&with(Secrets, marked)).works(), ["delete till-token"]);
}

#[test]
fn the_first_pass_comes_when_all_was_told_and_the_next_a_day_later() {
    let cluster = cluster();
    let mut controller = Controller::new(only(Mechanism::LegacyTokens), Wire::Strict, BEGAN);
    let later = BEGAN.saturating_add(Duration::from_millis(200));
    for resource in controller.resources() {
        let records = cluster.0.get(&resource).cloned().unwrap_or_default();
        let records = Ok(records);
        controller.handle(later, Input::Listed { resource, records });
    }
    let mut run = Run {
        controller,
        now: later,
    };
    assert_eq!(run.works(), [MARKED]);
    run.apply(Secrets, &changed(&token("till-token", "till")));
    assert_eq!(run.controller.next_at(), Some(later.saturating_add(DAY)));
}

#[test]
fn what_was_not_read_is_undecided() {
    for (resource, record, reason) in [
        (
            Secrets,
            unread(&token("till-token", "till")),
            "its type is not known",
        ),
        (
            ServiceAccounts,
            unread(&account("till", &[])),
            "the secrets of its service account till are not known",
        ),
        (
            ConfigMaps,
            unread(&tracking()),
            "since when uses are tracked is not known",
        ),
        (
            Pods,
            unread(&using("web", &[])),
            "what pod web mentions is not known",
        ),
    ] {
        assert_eq!(
            run(&with(resource, record)).outcome(),
            is_not_known(reason),
            "{resource:?}"
        );
    }
}

#[test]
fn what_was_not_listed_is_undecided() {
    let why = refused();
    for (resource, reason) in [
        (Secrets, format!("the secrets are not known: {why}")),
        (ServiceAccounts, format!("service accounts are not known: {why}")),
        (ConfigMaps, "since when uses are tracked is not known".into()),
        (Pods, format!("pods are not known: {why}")),
    ] {
        let mut run = run(&cluster());
        run.unlist(resource);
        assert_eq!(run.outcome(), is_not_known(&reason));
    }
}

#[test]
fn others_than_tokens_cost_nothing() {
    let ordinary = (0..1_000).map(|number| {
        let mut secret = token(&format!("ordinary-{number}"), "till");
        if let Fields::Secret(fields) = &mut secret.fields {
            fields.secret_type = Some("Opaque".into());
        }
        secret
    });
    let ordinary: Vec<Record> = ordinary.collect();
    let cluster = Cluster::default().with(Secrets, ordinary.clone());
    let mut run = run(&cluster);
    // Not even a pass is due for them.
    assert!(run.is_quiet());
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.apply(Secrets, &changed(&ordinary[0]));
    run.apply(ServiceAccounts, &account("till", &["ordinary-0"]));
    run.apply(Pods, &using("web", &["ordinary-0"]));
    run.apply(ConfigMaps, &tracking());
    run.unlist(Pods);
    assert!(run.is_quiet());
}

#[test]
fn a_change_counts_at_the_next_pass() {
    let mut run = run(&with(Pods, using("web", &["till-token"])));
    assert_eq!(run.outcome(), nothing_but(&[]));
    assert!(run.is_quiet());
    let began = run.now;
    run.now = began.saturating_add(Duration::from_secs(1));
    for pod in [
        using("cart", &["other"]),
        using("xena", &["till-token"]),
        using("xena", &[]),
    ] {
        run.apply(Pods, &pod);
        assert!(run.is_quiet(), "another one still mentions it");
    }
    run.gone(Pods, &using("web", &["till-token"]));
    let next = began.saturating_add(DAY);
    assert_eq!(run.controller.next_at(), Some(next));
    run.now = next;
    assert_eq!(run.works(), ["till-token marked 1970-01-13"]);
}

#[test]
fn each_thing_that_could_speak_for_a_token_makes_it_due() {
    let changes: [(Resource, Record); 6] = [
        (Secrets, changed(&token("till-token", "till"))),
        (ServiceAccounts, account("till", &[])),
        (ConfigMaps, changed(&tracking())),
        (Pods, using("web", &["till-token"])),
        (Pods, unread(&using("web", &[]))),
        (Pods, using("api", &["other", "till-token"])),
    ];
    for (resource, record) in changes {
        let mut young = token("till-token", "till");
        young.meta.deletion_timestamp = Some(Timestamp::EPOCH);
        let mut run = run(&with(Secrets, young));
        assert_eq!(run.outcome(), nothing_but(&[]));
        assert!(run.is_quiet());
        run.apply(resource, &record);
        let next = run.now.saturating_add(DAY);
        assert_eq!(run.controller.next_at(), Some(next), "{record:?}");
    }
}

#[test]
fn a_token_that_grows_old_is_due_in_the_pass_after() {
    let mut young = token("till-token", "till");
    let year = 365 * DAY;
    let begun = BEGAN;
    // A year old one hour after the run began.
    let created = begun
        .saturating_add(Duration::from_secs(3_600))
        .saturating_sub(year);
    young.meta.creation_timestamp = Some(created);
    let mut run = run(&with(Secrets, young));
    assert_eq!(run.outcome(), nothing_but(&[]));
    let next = begun.saturating_add(DAY);
    assert_eq!(run.controller.next_at(), Some(next));
    run.now = next;
    assert_eq!(run.works(), ["till-token marked 1970-01-13"]);
}
