//! Faults between a caller and its store.

use std::{
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use kubegc_core::{
    DeleteOptions, ObjectStore, RequestMatcher, ResourceVersion, StoreError, Timestamp,
    store::{Address, WatchItem},
};
use kubegc_sim::{
    FaultPlan, Faulty, SharedApiServer, SimClock,
    fault::{Fault, Rule, script::Plan},
};

use crate::store::{insert, now, poll_next, resource, shared};

fn deletes() -> RequestMatcher {
    RequestMatcher::new().verb("delete")
}

fn plan(calls: Plan<RequestMatcher, Fault>) -> FaultPlan {
    FaultPlan {
        calls,
        ..FaultPlan::default()
    }
}

fn faulty(plan: FaultPlan) -> (SharedApiServer, Faulty<SharedApiServer>) {
    let store = shared();
    for name in ["a", "b"] {
        insert(&store, &resource("v1", "Secret"), name, &[]);
    }
    (store.clone(), Faulty::new(store, plan))
}

#[test]
fn codes_become_the_errors_that_they_are_on_the_wire() {
    for (code, expected) in [
        (404, "not found"),
        (409, "conflict: injected 409"),
        (410, "resource version not available"),
        (415, "unsupported media type"),
        (422, "invalid: injected 422"),
        (429, "refused with 429: injected 429"),
        (500, "unknown outcome: injected 500"),
    ] {
        let Some(Fault::Refuse(error)) = Fault::of_code(code) else {
            panic!("{code} is an error");
        };
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(Fault::of_code(200), None);
}

#[test]
fn a_refused_call_is_not_performed_and_one_with_a_lost_response_is() {
    let secrets = resource("v1", "Secret");
    let rules = vec![
        Rule {
            matching: deletes().name("a"),
            skip: 0,
            times: 1,
            fault: Fault::LoseResponse,
        },
        Rule {
            matching: deletes().resource("", "secrets"),
            skip: 1,
            times: 2,
            fault: Fault::Refuse(StoreError::UnsupportedMediaType),
        },
    ];
    let (store, faulty) = faulty(plan(Plan {
        rules,
        ..Plan::default()
    }));
    let delete = |name| {
        let address = Address {
            resource: &secrets,
            namespace: "ns",
            name,
        };
        now(faulty.delete(address, &DeleteOptions::default())).map(|_| ())
    };
    let left = || now(store.list(&secrets, None)).unwrap().items.len();
    assert!(matches!(delete("a"), Err(StoreError::Unknown { .. })));
    assert_eq!(left(), 1, "performed in spite of the error");
    // The first rule did not reach the second: its count begins here.
    assert_eq!(delete("a"), Err(StoreError::NotFound));
    assert_eq!(delete("b"), Err(StoreError::UnsupportedMediaType));
    assert_eq!(delete("b"), Err(StoreError::UnsupportedMediaType));
    assert_eq!(left(), 1);
    assert_eq!(delete("b"), Ok(()));
    assert_eq!((left(), faulty.injected()), (0, 3));
}

#[test]
fn a_plan_draws_faults_from_its_seed() {
    let secrets = resource("v1", "Secret");
    let outcomes = |seed| {
        let (_, faulty) = faulty(plan(Plan {
            seed,
            faults_per_mille: 300,
            faults: Fault::of_code(500).into_iter().collect(),
            ..Plan::default()
        }));
        let calls = (0..100).map(|_| now(faulty.list(&secrets, None)).is_ok());
        calls.collect::<Vec<bool>>()
    };
    assert_ne!(outcomes(1), outcomes(2));
}

/// The events that a watch from the beginning delivers without waiting.
fn delivered(store: &Faulty<SharedApiServer>) -> Vec<String> {
    let secrets = resource("v1", "Secret");
    let mut watch = now(store.watch(&secrets, &ResourceVersion::new("1"))).unwrap();
    let mut seen = Vec::new();
    while let Poll::Ready(Some(Ok(item))) = poll_next(&mut watch, Waker::noop()) {
        seen.push(match item {
            WatchItem::Applied(meta) => format!("+{} {}", meta.name, meta.resource_version),
            WatchItem::Deleted(meta) => format!("-{}", meta.name),
            WatchItem::Bookmark(_) => "=".to_owned(),
        });
    }
    seen
}

#[test]
fn watches_repeat_but_never_reorder() {
    let secrets = resource("v1", "Secret");
    let run = |plan| {
        let (store, faulty) = faulty(plan);
        for finalizers in [r#"["x.dev/a"]"#, r#"["x.dev/b"]"#] {
            let address = Address {
                resource: &secrets,
                namespace: "ns",
                name: "b",
            };
            let body = format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
            now(store.patch(address, kubegc_core::PatchType::Merge, body.as_bytes())).unwrap();
        }
        delivered(&faulty)
    };
    assert_eq!(run(FaultPlan::default()), ["+a 2", "+b 3", "+b 4", "+b 5"]);
    let twice = FaultPlan {
        duplicates_per_mille: 1000,
        ..FaultPlan::default()
    };
    let expected = ["+a 2", "+a 2", "+b 3", "+b 3", "+b 4", "+b 4", "+b 5", "+b 5"];
    assert_eq!(run(twice), expected);
}

#[test]
fn a_delayed_change_is_delivered_at_its_time() {
    let clock = SimClock::new(Timestamp::from_secs(1));
    let (_, faulty) = faulty(FaultPlan {
        watch_delay_max: Duration::from_secs(10),
        ..plan(Plan {
            seed: 3,
            ..Plan::default()
        })
    });
    let faulty = faulty.with_clock(Arc::new(clock.clone()));
    let secrets = resource("v1", "Secret");
    let mut watch = now(faulty.watch(&secrets, &ResourceVersion::new("1"))).unwrap();
    assert!(poll_next(&mut watch, Waker::noop()).is_pending());
    clock.advance(Duration::from_secs(10));
    for name in ["a", "b"] {
        let Poll::Ready(Some(Ok(WatchItem::Applied(meta)))) = poll_next(&mut watch, Waker::noop()) else {
            panic!("due by now");
        };
        assert_eq!(&*meta.name, name);
    }
}
