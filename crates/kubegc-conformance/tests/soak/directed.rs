//! One fault at a time, with the same checker; and the checker itself, which must report wrong writes.

use std::time::Duration;

use kubegc_core::KubernetesVersion;
use kubegc_objects::Settings;
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    VERSIONS,
    checker::{COLLECTOR, Checker},
    operator::{HOLD, Operator, send, url},
    run::{Collecting, cluster, settle},
    version_named,
    world::{KINDS, Key},
};

/// The propagation policies.
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];
/// The number of dependents of an owner.
const DEPENDENTS: usize = 50;

fn key(resource: &str, name: &str) -> Key {
    let kind = KINDS.iter().position(|kind| *kind.resource == *resource);
    let kind = kind.expect("a kind of the soak");
    let namespace = if KINDS[kind].is_namespaced() { "blue" } else { "" };
    Key {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// A cluster with a client and a checker.
struct Fixture {
    cluster: Cluster,
    operator: Operator,
    checker: Checker,
}

impl Fixture {
    fn new(version: KubernetesVersion) -> Self {
        let cluster = cluster(version);
        let operator = Operator::new(&cluster, 0);
        let checker = Checker::new(&cluster);
        Self {
            cluster,
            operator,
            checker,
        }
    }

    async fn create(&mut self, key: &Key, owners: &[&Key]) {
        let owners = owners.iter().map(|owner| {
            let uid = self.operator.uid(owner).expect("owners are created first");
            Operator::reference(owner, &uid, Some(true))
        });
        let owners = owners.collect();
        self.operator.create_as(key, owners, false).await;
    }

    /// An owner, its dependents of two kinds, and a dependent of each of these.
    async fn cascade(&mut self) -> Key {
        let owner = key("clusters", "owner");
        self.create(&owner, &[]).await;
        for at in 0..DEPENDENTS {
            let middle = key(
                if at % 2 == 0 { "secrets" } else { "widgets" },
                &format!("middle-{at}"),
            );
            self.create(&middle, &[&owner]).await;
            self.create(&key("configmaps", &format!("leaf-{at}")), &[&middle])
                .await;
        }
        owner
    }

    fn left(&mut self) -> usize {
        self.checker.catch_up(&self.cluster);
        self.checker.world.objects.len()
    }

    /// The number of remaining objects of the cascade once the collector is idle. Fails if the checker found
    /// a problem.
    async fn remaining_once_idle(&mut self, what: &str) -> usize {
        settle(&self.cluster, &mut self.checker).await;
        assert_eq!(self.checker.wrong, Vec::<String>::new(), "{what}");
        assert_eq!(self.checker.world.left_undone(), Vec::<String>::new(), "{what}");
        // Built-in objects are not part of it.
        self.checker
            .world
            .objects
            .keys()
            .filter(|key| {
                ["owner", "middle", "leaf"]
                    .iter()
                    .any(|part| key.name.starts_with(part))
            })
            .count()
    }

    /// A cluster of the newest release with an owner and its dependent of a kind.
    async fn with_dependent(resource: &str) -> (Self, Key, Key) {
        let mut fixture = Self::new(KubernetesVersion::LATEST);
        let (owner, dependent) = (key("configmaps", "owner"), key(resource, "dependent"));
        fixture.create(&owner, &[]).await;
        fixture.create(&dependent, &[&owner]).await;
        (fixture, owner, dependent)
    }

    /// Sends one request with the collector's name. Returns the problems that the checker has found so far.
    async fn send_as_collector(
        &mut self,
        method: http::Method,
        key: &Key,
        content_type: &str,
        body: Value,
    ) -> Vec<String> {
        let client = self.cluster.client_as(COLLECTOR);
        let (code, answer) = send(&client, method, &url(key), content_type, &body).await;
        assert!((200..300).contains(&code), "{code} {answer}");
        self.checker.catch_up(&self.cluster);
        self.checker.wrong.clone()
    }
}

/// Plays in each release with each of some policies. In the end the cascade must be deleted or, with the
/// policy `Orphan`, its owner.
async fn with_policies(policies: &[&str], play: impl AsyncFn(&mut Fixture, &str) -> Vec<Collecting>) {
    for version in VERSIONS {
        for policy in policies {
            let what = format!("{version} {policy}");
            let mut fixture = Fixture::new(version_named(version));
            let collecting = play(&mut fixture, policy).await;
            let left = fixture.remaining_once_idle(&what).await;
            let expected = if *policy == "Orphan" { 2 * DEPENDENTS } else { 0 };
            assert_eq!(left, expected, "{what}");
            for one in collecting {
                one.end().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_stops_collection_before_1_32_and_delays_it_after() {
    for (version, collects) in [
        ("1.20.15", false),
        ("1.28.0", false),
        ("1.34.0", true),
        ("latest", true),
    ] {
        let mut fixture = Fixture::new(version_named(version));
        let owner = fixture.cascade().await;
        let all = fixture.left();
        let rule = Rule::new(Fault::status(500))
            .on(Verb::List)
            .resource("replicasets");
        fixture.cluster.faults().add(rule.client(COLLECTOR).always());
        let collecting = Collecting::start(&fixture.cluster);
        fixture.operator.delete_with(&owner, Some("Background")).await;
        sleep(Duration::from_secs(29)).await;
        assert_eq!(fixture.left(), all - 1, "{version}: no deletion before 30 s");
        sleep(Duration::from_secs(600)).await;
        let left = fixture.left();
        assert_eq!(
            left,
            if collects {
                all - 2 * DEPENDENTS - 1
            } else {
                all - 1
            },
            "{version}"
        );
        fixture.cluster.faults().clear();
        assert_eq!(
            fixture.remaining_once_idle(version).await,
            0,
            "{version}: once it can be listed again"
        );
        assert!(collecting.end().await.unsynced.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_lost_in_the_middle_of_a_cascade_loses_nothing() {
    with_policies(&POLICIES, async |fixture, policy| {
        let owner = fixture.cascade().await;
        let first = Collecting::start(&fixture.cluster);
        sleep(Duration::from_secs(5)).await;
        for verb in [Verb::Delete, Verb::Patch] {
            let slow = Rule::new(Fault::Delay(Duration::from_secs(1))).on(verb);
            fixture.cluster.faults().add(slow.client(COLLECTOR).always());
        }
        fixture.operator.delete_with(&owner, Some(policy)).await;
        sleep(Duration::from_millis(1_500)).await;
        let writes = || fixture.cluster.audit().by(COLLECTOR).writes().len();
        first.lead(false);
        // Requests in flight are completed.
        sleep(Duration::from_secs(2)).await;
        let begun = writes();
        sleep(Duration::from_secs(60)).await;
        let version = fixture.cluster.version();
        assert!(
            begun > 0 && begun < DEPENDENTS,
            "{version} {policy}: {begun} are in the middle"
        );
        assert_eq!(
            writes(),
            begun,
            "{version} {policy}: the former leader writes nothing"
        );
        // Another process takes over.
        vec![first, Collecting::start(&fixture.cluster)]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lost_responses_to_all_writes_lose_nothing() {
    with_policies(&POLICIES, async |fixture, policy| {
        let owner = fixture.cascade().await;
        let collecting = Collecting::start(&fixture.cluster);
        sleep(Duration::from_secs(5)).await;
        let lost = Rule::new(Fault::LoseResponse).on_writes().client(COLLECTOR);
        fixture.cluster.faults().add(lost.always());
        fixture.operator.delete_with(&owner, Some(policy)).await;
        sleep(Duration::from_secs(60)).await;
        assert!(fixture.cluster.faults().injected() > 0, "{policy}");
        fixture.cluster.faults().clear();
        vec![collecting]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_all_expire_at_once_lose_nothing() {
    with_policies(&POLICIES[..2], async |fixture, policy| {
        let expired = Rule::new(Fault::ExpireWatch { after_events: 0 }).client(COLLECTOR);
        fixture.cluster.faults().add(expired.always());
        let collecting = Collecting::start(&fixture.cluster);
        sleep(Duration::from_secs(5)).await;
        let owner = fixture.cascade().await;
        fixture.checker.catch_up(&fixture.cluster);
        sleep(Duration::from_secs(5)).await;
        fixture.operator.delete_with(&owner, Some(policy)).await;
        fixture.checker.catch_up(&fixture.cluster);
        // Its events can no longer be watched, only listed.
        fixture.cluster.server().with(|server| {
            let now = server.revision();
            server.prune_events(now);
        });
        sleep(Duration::from_secs(5)).await;
        fixture.cluster.faults().clear();
        vec![collecting]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b_15_an_owner_added_between_read_and_deletion_is_ignored_only_as_upstream_before_1_34() {
    let (strict, upstream) = (false, true);
    let cases = [
        ("1.20.15", upstream, true),
        ("1.28.0", upstream, true),
        ("1.34.0", upstream, false),
        ("1.20.15", strict, false),
        ("1.28.0", strict, false),
        ("latest", strict, false),
    ];
    for (version, as_upstream, is_ignored) in cases {
        let mut fixture = Fixture::new(version_named(version));
        let [owner, other, dependent] = [
            ("configmaps", "owner"),
            ("secrets", "other"),
            ("widgets", "dependent"),
        ]
        .map(|(kind, name)| key(kind, name));
        fixture.create(&owner, &[]).await;
        fixture.create(&other, &[]).await;
        fixture.create(&dependent, &[&owner]).await;
        let mut settings = Settings::new(fixture.cluster.version());
        if as_upstream {
            settings = settings.as_upstream();
        }
        let collecting = Collecting::start_with(&fixture.cluster, settings);
        sleep(Duration::from_secs(5)).await;
        let slow = Rule::new(Fault::Delay(Duration::from_secs(2))).on(Verb::Delete);
        fixture.cluster.faults().add(slow.client(COLLECTOR).always());
        fixture.operator.delete_with(&owner, Some("Background")).await;
        sleep(Duration::from_secs(1)).await;
        let uid = fixture.operator.uid(&other).expect("it was created");
        let owners = vec![Operator::reference(&other, &uid, None)];
        fixture.operator.set_owners(&dependent, owners).await;
        settle(&fixture.cluster, &mut fixture.checker).await;
        let wrong = &fixture.checker.wrong;
        assert_eq!(!wrong.is_empty(), is_ignored, "{version}: {wrong:?}");
        assert_eq!(
            fixture.operator.uid(&dependent).is_none(),
            is_ignored,
            "{version}"
        );
        collecting.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_soak_is_the_same_each_time() {
    for seed in [2, 3] {
        let first = crate::run::play(crate::version_of(seed), seed).await;
        let second = crate::run::play(crate::version_of(seed), seed).await;
        assert_eq!(first.done, second.done, "seed {seed}");
        assert!(first == second, "seed {seed}: the requests differ");
        assert!(first.problems.is_empty(), "seed {seed}: {:?}", first.problems);
    }
}

#[tokio::test(start_paused = true)]
async fn the_checker_reports_a_wrong_deletion() {
    let json = "application/json";
    let (mut fixture, owner, dependent) = Fixture::with_dependent("widgets").await;
    // First with an owner that exists, then with one that is terminating and waits for a finalizer.
    for (before, policy) in [None, Some("Background")].into_iter().enumerate() {
        if let Some(policy) = policy {
            let held = json!({ "finalizers": [HOLD] });
            fixture.operator.merge(&owner, held).await;
            fixture.operator.delete_with(&owner, Some(policy)).await;
            fixture.create(&dependent, &[&owner]).await;
        }
        let sent = fixture.send_as_collector(http::Method::DELETE, &dependent, json, json!({}));
        let wrong = sent.await;
        assert_eq!(wrong.len(), before + 1, "{wrong:?}");
        assert!(wrong[before].contains("whose owner ConfigMap owner is Solid"));
    }
    // Without owners, nothing is garbage.
    let orphan = json!({"propagationPolicy": "Orphan"});
    let sent = fixture.send_as_collector(http::Method::DELETE, &owner, json, orphan);
    let wrong = sent.await;
    assert!(wrong[2].contains("has no owners"), "{wrong:?}");
}

#[tokio::test(start_paused = true)]
async fn the_checker_accepts_a_correct_deletion() {
    let (mut fixture, owner, dependent) = Fixture::with_dependent("widgets").await;
    fixture.operator.delete_with(&owner, Some("Background")).await;
    // The owner's name is used again; its uid is not.
    fixture.create(&owner, &[]).await;
    let sent = fixture.send_as_collector(http::Method::DELETE, &dependent, "application/json", json!({}));
    assert_eq!(sent.await, Vec::<String>::new());
    assert_eq!(fixture.checker.deletions, 1);
}

/// The attempt at it ends without a retry, and no later event causes another one, as with upstream.
#[tokio::test(start_paused = true)]
async fn an_object_that_named_an_invalid_owner_stays_after_the_reference_is_removed() {
    for version in VERSIONS {
        let mut fixture = Fixture::new(version_named(version));
        let (invalid, absent) = (key("configmaps", "owner"), key("clusters", "absent"));
        let dependent = key("clusterroles", "leaf");
        fixture.create(&invalid, &[]).await;
        let invalid = Operator::reference(
            &invalid,
            &fixture.operator.uid(&invalid).expect("it exists"),
            None,
        );
        let absent = Operator::reference(&absent, "absent", None);
        let collecting = Collecting::start(&fixture.cluster);
        sleep(Duration::from_secs(5)).await;
        let owners = vec![invalid, absent.clone()];
        fixture.operator.create_as(&dependent, owners, false).await;
        sleep(Duration::from_secs(5)).await;
        fixture.operator.set_owners(&dependent, vec![absent]).await;
        assert_eq!(fixture.remaining_once_idle(version).await, 2, "{version}");
        collecting.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_checker_reports_a_wrong_release_and_other_edits() {
    let merge = "application/merge-patch+json";
    let patches = [
        (
            json!({"ownerReferences": null}),
            "removed the solid owner ConfigMap owner",
        ),
        (json!({"finalizers": null}), "touched a finalizer"),
        (json!({"labels": {"a": "b"}}), "touched labels"),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}]}),
            "added an owner",
        ),
    ];
    for (metadata, problem) in patches {
        let (mut fixture, _, dependent) = Fixture::with_dependent("secrets").await;
        let held = json!({ "finalizers": [HOLD] });
        fixture.operator.merge(&dependent, held).await;
        let patch = json!({ "metadata": metadata });
        let sent = fixture.send_as_collector(http::Method::PATCH, &dependent, merge, patch);
        let wrong = sent.await;
        let first = wrong.first().map_or("", String::as_str);
        assert!(first.contains(problem), "{problem}: {wrong:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_checker_reports_uncollected_garbage() {
    for (policy, problem) in [
        ("Background", "widgets blue/dependent: is not collected"),
        ("Foreground", "configmaps blue/owner: waits for dependents"),
        (
            "Orphan",
            "configmaps blue/owner: dependents are still not released",
        ),
    ] {
        let (mut fixture, owner, dependent) = Fixture::with_dependent("widgets").await;
        fixture.checker.catch_up(&fixture.cluster);
        assert_eq!(fixture.checker.world.left_undone(), Vec::<String>::new());
        if policy == "Foreground" {
            fixture.operator.set_owners(&dependent, Vec::new()).await;
        }
        fixture.operator.delete_with(&owner, Some(policy)).await;
        settle(&fixture.cluster, &mut fixture.checker).await;
        let undone = fixture.checker.world.left_undone();
        assert!(
            undone.len() == 1 && undone[0].starts_with(problem),
            "{policy}: {undone:?}"
        );
    }
}
