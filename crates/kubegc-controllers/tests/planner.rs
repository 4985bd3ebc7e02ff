//! Wrapped planners, plans as text, and their execution.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use crate::common::{at, cache};
use futures_util::FutureExt as _;
use kubegc_controllers::{
    Action, BatchPlanner, Cache, Decision, End, Missing, Reason, TtlAfterFinished,
    driver::{NothingOutside, Performer, Resources, execute},
    protected_by_label,
};
use kubegc_core::{
    Catalog, KubernetesVersion, ObjectMeta, Planner, StoreError, Timestamp, Withheld,
    record::{ObjectId, Resource},
};
use kubegc_sim::{ApiServer, Manifest, SharedApiServer};
use kubegc_snapshot::JsonDocuments;
use proptest::prelude::*;
use serde_json::{Value, json};

const LABEL: &str = "example.com/keep";
const NOON: &str = "2026-03-01T12:00:00Z";

/// A Job that finished a minute before noon.
fn job(name: &str, ttl: i32, is_protected: bool) -> Value {
    let complete =
        json!({"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T11:59:00Z"});
    json!({"kind": "Job", "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"),
        "creationTimestamp": "2026-03-01T11:00:00Z", "labels": {LABEL: is_protected.to_string()}},
        "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [complete]}})
}

fn planner() -> BatchPlanner {
    BatchPlanner::new(TtlAfterFinished::new(KubernetesVersion::LATEST))
}

fn facts(jobs: &[Value]) -> Cache {
    cache(&TtlAfterFinished::new(KubernetesVersion::LATEST), jobs)
}

fn objects<'a>(ids: impl IntoIterator<Item = &'a ObjectId>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.name.to_string()).collect()
}

#[test]
fn a_decision_that_only_keeps_objects_is_empty() {
    let meta = ObjectMeta::new("shop", "report", "u1");
    let object = ObjectId::new(Resource::Jobs, &meta);
    let reason = || Reason::new("TooYoung", "it is too young");
    let missing = Missing::Field {
        object: object.clone(),
        field: "spec.a",
    };
    for (decision, is_empty) in [
        (Decision::default(), true),
        (Decision::keep(object.clone(), reason()), true),
        (Decision::default().requeue_at(Timestamp::EPOCH), false),
        (Decision::unknown(object, missing), false),
        (Decision::act(Action::new(Resource::Jobs, &meta, reason())), false),
    ] {
        assert_eq!(decision.is_empty(), is_empty, "{decision:?}");
    }
}

/// An API server that has these Jobs.
fn server(jobs: &[Value]) -> SharedApiServer {
    let version = KubernetesVersion::LATEST;
    let mut server = ApiServer::new(version, Catalog::builtin(version));
    let kind = server
        .catalog()
        .mapping("batch/v1", "Job")
        .expect("always served");
    for job in jobs {
        let mut job = job.clone();
        job.as_object_mut().expect("an object").remove("kind");
        let job = Manifest::read(job).expect("a Job");
        server.insert(kind, job.object).expect("a new Job");
    }
    SharedApiServer::new(server)
}

fn with_performer<T>(store: &SharedApiServer, run: impl AsyncFnOnce(&Performer<'_>) -> T) -> T {
    let documents = JsonDocuments::default();
    let discovered = kubegc_core::store::Discovered::from(Catalog::builtin(KubernetesVersion::LATEST));
    let performer = Performer {
        store,
        documents: &documents,
        outside: &NothingOutside,
        resources: &Resources::new(&discovered),
    };
    let mut run = pin!(run(&performer));
    loop {
        if let Some(result) = run.as_mut().now_or_never() {
            return result;
        }
    }
}

#[test]
fn a_plan_is_text_and_carries_the_reasons_of_wrappers() {
    let jobs = [
        job("a", 30, true),
        job("b", 30, false),
        job("c", 30, false),
        job("d", 90, false),
    ];
    let planner = planner().protect(protected_by_label(LABEL)).limit_deletions(1);
    let plan = planner.plan(&facts(&jobs), at(NOON));
    let expected = "\
actions (1):
  delete job.batch/b -n shop: it finished 1m ago, and spec.ttlSecondsAfterFinished is 30
kept (3):
  it is protected (1): job.batch/a -n shop
  its time to live ends in 30s (1): job.batch/d -n shop
  the plan has reached its limit of deletions, which is 1 (1): job.batch/c -n shop
the next change is due at 2026-03-01T12:00:30Z
";
    assert_eq!(plan.to_string(), expected);
}

#[test]
fn a_missing_fact_is_grouped_without_the_name_of_the_object() {
    let unread = ["a", "b"].map(|name| {
        let mut job = job(name, 30, false);
        job["status"]["conditions"] = json!("hidden");
        job
    });
    let plan = planner().plan(&facts(&unread), at(NOON)).to_string();
    let line =
        "cannot decide: status.conditions could not be read (2): job.batch/a -n shop, job.batch/b -n shop";
    assert!(plan.contains(line), "{plan}");
}

#[test]
fn an_object_that_is_not_in_the_cache_is_protected() {
    let cache = facts(&[job("a", 30, false)]);
    let mut id = planner().plan(&cache, at(NOON)).actions[0].object.clone();
    assert!(!protected_by_label(LABEL)(&cache, &id));
    id.uid = "another".into();
    assert!(protected_by_label(LABEL)(&cache, &id));
    id.resource = Resource::Pods;
    assert!(protected_by_label(LABEL)(&cache, &id));
}

#[test]
fn a_dry_run_sends_nothing_and_an_error_does_not_stop_other_objects() {
    let jobs = [job("a", 30, false), job("b", 30, false)];
    let store = server(&jobs[1..]);
    // Any version is valid: the cache numbers versions differently from the server.
    let mut actions = planner()
        .wire(kubegc_controllers::Wire::AsUpstream)
        .plan(&facts(&jobs), at(NOON))
        .actions;
    for action in &mut actions {
        action.reads.clear();
    }
    // A second action on the Job that does not exist, and one on the object that it is part of.
    let mut again = actions[0].clone();
    actions[0].part_of = Some(Box::new(again.object.clone()));
    again.part_of = None;
    actions.insert(1, again);

    let is_there = |name| {
        store.with(|server| {
            let kind = server
                .catalog()
                .mapping("batch/v1", "Job")
                .expect("always served");
            server
                .object(kind, "shop", name)
                .is_some_and(|job| !job.meta.is_deleting())
        })
    };
    let dry = with_performer(&store, async |performer| {
        execute(actions.clone(), performer, true).await
    });
    assert!(is_there("b"));
    assert_eq!(
        dry[2].to_string(),
        "delete job.batch/b -n shop: it finished 1m ago, and spec.ttlSecondsAfterFinished is 30 (dry run)"
    );
    assert!(dry.iter().all(|executed| executed.requests.len() == 1));

    let done = with_performer(&store, async |performer| execute(actions, performer, false).await);
    assert!(!is_there("b"));
    let ends: Vec<_> = done.iter().map(|executed| executed.end.clone()).collect();
    assert!(
        matches!(
            &ends[0],
            Some(End::Failed {
                error: StoreError::NotFound,
                ..
            })
        ),
        "{ends:?}"
    );
    assert!(matches!(&ends[1], Some(End::Kept(reason)) if reason.code() == "EarlierActionNotDone"));
    assert_eq!(ends[2], Some(End::Done));
    let sent: Vec<_> = done.iter().map(|executed| executed.requests.len()).collect();
    assert_eq!(sent, [1, 0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn wrappers_keep_the_guarantees(
        jobs in proptest::collection::vec((0_i32..120, any::<bool>(), any::<bool>()), 0..12),
        deletions_max in 0_usize..5,
    ) {
        let named: Vec<_> = jobs.iter().enumerate().map(|(at, job)| (format!("job-{at}"), *job)).collect();
        let values: Vec<_> = named.iter().map(|(name, (ttl, is_protected, _))| job(name, *ttl, *is_protected)).collect();
        let approved: Arc<BTreeSet<&str>> =
            Arc::new(named.iter().filter(|(_, job)| job.2).map(|(name, _)| name.as_str()).collect());
        let now: Timestamp = at(NOON);
        let wrapped = planner()
            .protect(protected_by_label(LABEL))
            .require_approval(move |id| approved.contains(&*id.name))
            .limit_deletions(deletions_max);

        let plan = wrapped.plan(&facts(&values), now);
        // Deterministic, whatever the order.
        let backwards: Vec<_> = values.iter().rev().cloned().collect();
        prop_assert_eq!(&wrapped.plan(&facts(&backwards), now), &plan);
        // No action on a protected or unapproved object, never more than the limit, in the order of the inner
        // plan.
        prop_assert!(plan.actions.len() <= deletions_max);
        let inner = planner().plan(&facts(&values), now);
        let may_go = |name: &str| named.iter().any(|(known, job)| known == name && !job.1 && job.2);
        let expected = inner.actions.iter().filter(|action| may_go(&action.object.name));
        let expected: Vec<_> = expected.take(deletions_max).cloned().collect();
        prop_assert_eq!(&plan.actions, &expected);
        // Every object is explained once.
        let mut explained = objects(plan.actions.iter().map(|action| &action.object));
        explained.extend(objects(plan.kept.iter().map(|kept| &kept.object)));
        prop_assert_eq!(explained.len(), named.len());
        prop_assert_eq!(plan.actions.len() + plan.kept.len(), named.len());
        // After any prefix, planning again continues up to the limit, and ends without actions.
        let mut left = values;
        let mut deleted = BTreeSet::new();
        for _ in 0..=named.len() {
            let plan = wrapped.plan(&facts(&left), now);
            let Some(first) = plan.actions.first() else { break };
            prop_assert!(deleted.insert(first.object.name.to_string()));
            left.retain(|job| job["metadata"]["name"] != *first.object.name);
        }
        prop_assert!(wrapped.plan(&facts(&left), now).actions.is_empty());
        let all = inner.actions.iter().map(|action| &action.object).filter(|id| may_go(&id.name));
        prop_assert_eq!(deleted, if deletions_max == 0 { BTreeSet::new() } else { objects(all) });
        let is_wrapped = |reason: &Withheld<_>| matches!(reason, Withheld::LimitReached { .. } | Withheld::Planner(_));
        prop_assert!(plan.kept.iter().all(|kept| is_wrapped(&kept.reason)));
    }
}
