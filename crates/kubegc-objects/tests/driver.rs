//! The driver over the store and clock traits: cascades complete, a stop loses no response, watches and lists
//! restart, and one resource that fails does not stop the others.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{join, ready};
use kubegc_core::{
    Clock, DeleteOptions, ObjectStore, Preconditions,
    PropagationPolicy::{Background, Foreground},
    RequestMatcher, StoreError, Timestamp,
    deletion::Propagation,
    metadata::FINALIZER_FOREGROUND,
    store::WatchItem,
};
use kubegc_objects::{
    Collector, Settings,
    collector::{Conclusion, WaitReason},
    driver::{Report, run},
};
use kubegc_sim::{
    FaultPlan, Faulty, SharedApiServer, SimClock,
    fault::{Fault, Rule, script::Plan},
};

use crate::common::{
    cluster::{CONFIG_MAP, KINDS, Object, SECRET, WIDGET, delete, orphaned_item, server, version},
    executor::block_on,
    store::{Store, Watches, down},
};

struct Bench {
    clock: SimClock,
    shared: SharedApiServer,
    settings: Settings,
    start: Timestamp,
}

impl Bench {
    fn new(release: &str, objects: &[&Object]) -> Self {
        let mut server = server(version(release), &KINDS);
        objects.iter().for_each(|object| object.insert(&mut server));
        let start = server.now();
        let clock = SimClock::new(start);
        let shared = SharedApiServer::with_clock(server, Arc::new(clock.clone()));
        Self {
            clock,
            shared,
            settings: Settings::new(version(release)),
            start,
        }
    }

    fn after(&self, millis: u64) -> Timestamp {
        self.start.saturating_add(Duration::from_millis(millis))
    }

    /// Runs over a store until a given time, with one action of a client at another time.
    fn run(
        &self,
        store: &impl ObjectStore,
        stop_millis: u64,
        act_millis: u64,
        act: impl FnOnce(&SharedApiServer),
    ) -> (Collector, Vec<(u64, Report)>) {
        let mut reports = Vec::new();
        let note = |report| {
            let at = self.clock.now().since(self.start).as_millis();
            reports.push((u64::try_from(at).expect("minutes"), report));
        };
        let stop = self.clock.sleep_until(self.after(stop_millis));
        let client = async {
            self.clock.sleep_until(self.after(act_millis)).await;
            act(&self.shared);
        };
        let driver = run(store, &self.clock, self.settings.clone(), stop, note);
        let (collector, ()) = block_on(&self.clock, join(driver, client));
        (collector.expect("the clock never goes backwards"), reports)
    }

    fn store(&self, watches: Watches) -> Store {
        Store::new(&self.shared, &self.clock, watches)
    }

    fn there(&self, object: &Object) -> bool {
        self.shared.with(|server| object.live(server).is_some())
    }
}

fn failing(verb: &str, resource: Option<&str>, times: u32, error: StoreError) -> FaultPlan {
    let matching = RequestMatcher::new().verb(verb);
    let mut plan = FaultPlan::default();
    plan.calls.rules.push(Rule {
        matching: match resource {
            Some(resource) => matching.resource("*", resource),
            None => matching,
        },
        skip: 0,
        times,
        fault: Fault::Refuse(error),
    });
    plan
}

fn watch_failures(reports: &[(u64, Report)]) -> Vec<u64> {
    let failed = |(at, report): &(u64, Report)| matches!(report, Report::WatchFailed { .. }).then_some(*at);
    reports.iter().filter_map(failed).collect()
}

/// When calls were performed.
fn performed(reports: &[(u64, Report)]) -> Vec<u64> {
    let performed = |(at, report): &(u64, Report)| matches!(report, Report::Performed { .. }).then_some(*at);
    reports.iter().filter_map(performed).collect()
}

fn family() -> [Object; 3] {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let middle = Object::new(WIDGET, "red", "middle").blocking(&root);
    let leaf = Object::new(SECRET, "red", "leaf").blocking(&middle);
    [root, middle, leaf]
}

#[test]
fn a_cascade_completes() {
    let family = family();
    for release in ["1.13", "1.20.2", "1.28", "1.36"] {
        for policy in [Background, Foreground] {
            let other = Object::new(SECRET, "red", "other");
            let bench = Bench::new(release, &[&family[0], &family[1], &family[2], &other]);
            let (collector, reports) = bench.run(&bench.shared, 40_000, 5_000, |shared| {
                shared.with(|server| delete(server, &family[0], Some(policy)));
            });
            assert!(
                family.iter().all(|object| !bench.there(object)),
                "{release} {policy}"
            );
            assert!(bench.there(&other));
            let waited = bench.shared.with(|server| {
                let objects = server.changes_since(0).map(|change| &change.event.object.meta);
                let mut middle = objects.filter(|meta| *meta.name == *family[1].meta.name);
                middle.any(|meta| meta.has_finalizer(FINALIZER_FOREGROUND))
            });
            assert_eq!(
                waited,
                policy == Foreground,
                "{release} {policy}: the delete of a dependent has the policy of its owner's deletion"
            );
            assert_eq!(performed(&reports).len() as u64, collector.calls_made());
            assert_eq!(
                collector.graph().len(),
                1,
                "{release}: a removed object leaves no node in the graph"
            );
        }
    }
}

#[test]
fn one_kind_that_cannot_be_listed_stops_the_others_up_to_1_31_only() {
    for (release, collects) in [("1.20.2", false), ("1.31", false), ("1.32", true), ("1.36", true)] {
        let family = family();
        let bench = Bench::new(release, &[&family[0], &family[1], &family[2]]);
        let store = Faulty::new(
            bench.shared.clone(),
            failing("list", Some("tenants"), u32::MAX, down()),
        );
        let (_, reports) = bench.run(&store, 60_000, 1_000, |shared| {
            shared.with(|server| delete(server, &family[0], Some(Background)));
        });
        assert_eq!(watch_failures(&reports).len(), 6, "{release}");
        assert_eq!(!bench.there(&family[2]), collects, "{release}");
        let first = performed(&reports).first().copied();
        assert_eq!(first, collects.then_some(30_000), "{release}");
    }
}

/// The reports about the initial lists, after their milliseconds.
fn sync_reports(reports: &[(u64, Report)]) -> Vec<String> {
    let text = |(at, report): &(u64, Report)| match report {
        Report::WaitingForSync(waiting) => Some(format!("{at} {waiting}")),
        Report::Started { unsynced } => {
            let names: Vec<String> = unsynced
                .iter()
                .map(|resource| resource.qualified_resource())
                .collect();
            Some(format!("{at} started without [{}]", names.join(", ")))
        }
        _ => None,
    };
    reports.iter().filter_map(text).collect()
}

#[test]
fn a_list_that_fails_is_retried_and_a_start_that_waits_for_it_is_reported() {
    // The delays double up to half a minute.
    let seconds = [0, 1, 3, 7, 15, 31, 61, 91];
    for (release, why, expected) in [
        (
            "1.20.2",
            "up to Kubernetes 1.31 nothing is collected until every resource is listed",
            &["10000 WAITING", "70000 WAITING", "121000 started without []"][..],
        ),
        (
            "1.36",
            "it starts at 1970-01-01T00:17:10Z in any case",
            &["10000 WAITING", "30000 started without [tenants.example.com]"],
        ),
    ] {
        let bench = Bench::new(release, &[]);
        let store = Faulty::new(bench.shared.clone(), failing("list", Some("tenants"), 8, down()));
        let (_, reports) = bench.run(&store, 200_000, 0, |_| {});
        assert_eq!(
            watch_failures(&reports),
            seconds.map(|at| at * 1_000),
            "{release}"
        );
        let waiting = format!(
            "garbage collection has not started: waiting for the initial list of tenants.example.com \
             (unknown outcome: the conversion webhook is down); {why}"
        );
        let expected = expected.iter().map(|line| line.replace("WAITING", &waiting));
        assert_eq!(sync_reports(&reports), expected.collect::<Vec<_>>(), "{release}");
    }
}

#[test]
fn a_discovery_that_fails_is_retried_and_a_start_that_waits_for_it_is_reported() {
    let bench = Bench::new("1.36", &[]);
    let store = Faulty::new(bench.shared.clone(), failing("discover", None, 4, down()));
    let (_, reports) = bench.run(&store, 20_000, 0, |_| {});
    let expected = [
        "10000 garbage collection has not started: API discovery has not succeeded yet",
        "15000 started without []",
    ];
    assert_eq!(sync_reports(&reports), expected);
    let failed = |(at, report): &(u64, Report)| matches!(report, Report::DiscoveryFailed(_)).then_some(*at);
    let failures: Vec<u64> = reports.iter().filter_map(failed).collect();
    assert_eq!(failures, [0, 1_000, 3_000, 7_000]);
}

#[test]
fn a_pause_for_a_new_resource_that_cannot_be_listed_is_reported() {
    let bench = Bench::new("1.20.2", &[]);
    let mut store = bench.store(Watches::Ending(0));
    // Config maps are served after a while, and cannot be listed for some time after that.
    (store.served, store.listed_from) = (20..u64::MAX, 75);
    let (_, reports) = bench.run(&store, 120_000, 0, |_| {});
    let expected = [
        "0 started without []",
        "40000 garbage collection is paused: waiting for the initial list of configmaps (unknown outcome: the \
         conversion webhook is down); up to Kubernetes 1.31 nothing is collected until every resource is listed",
        "91000 started without []",
    ];
    assert_eq!(sync_reports(&reports), expected);
}

#[test]
fn lost_responses_and_refusals_only_delay_a_cascade() {
    for seed in 0..20 {
        let family = family();
        let bench = Bench::new("1.36", &[&family[0], &family[1], &family[2]]);
        let plan = FaultPlan {
            calls: Plan {
                seed,
                faults_per_mille: 200,
                faults: vec![
                    Fault::LoseResponse,
                    Fault::of_code(429).expect("an error"),
                    Fault::of_code(500).expect("an error"),
                ],
                ..Plan::default()
            },
            duplicates_per_mille: 200,
            watch_delay_max: Duration::from_millis(50),
        };
        let store = Faulty::new(bench.shared.clone(), plan).with_clock(Arc::new(bench.clock.clone()));
        bench.run(&store, 240_000, 5_000, |shared| {
            shared.with(|server| delete(server, &family[0], Some(Foreground)));
        });
        assert!(family.iter().all(|object| !bench.there(object)), "seed {seed}");
    }
}

#[test]
fn a_stop_waits_for_the_calls_in_flight() {
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let items: Vec<Object> = (0..5)
        .map(|at| Object::new(SECRET, "red", &format!("item-{at}")).owned_by(&gone))
        .collect();
    // Each call takes a second: reads of the owner until 1 s, of the items until 2 s, deletes until 3 s.
    for stop_millis in [500, 1_500, 2_500] {
        let bench = Bench::new("1.36", &items.iter().collect::<Vec<_>>());
        let mut slow = bench.store(Watches::given([]));
        slow.latency = Duration::from_secs(1);
        let (collector, reports) = bench.run(&slow, stop_millis, 0, |_| {});
        assert_eq!(collector.calls_in_flight(), 0);
        let performed = performed(&reports).len() as u64;
        assert!(
            performed > 0 && performed == collector.calls_made(),
            "{performed} of {}",
            collector.calls_made()
        );
        let ended = bench.clock.now().since(bench.start).as_millis();
        assert!(
            ended > u128::from(stop_millis) && ended <= u128::from(stop_millis) + 1_000,
            "ended after {ended} ms"
        );
    }
}

#[test]
fn a_watch_that_ended_resumes_at_the_last_version_without_a_relist() {
    let gone = Object::new(SECRET, "red", "gone");
    let items: Vec<Object> = (0..4)
        .map(|at| Object::new(CONFIG_MAP, "red", &format!("item-{at}")).owned_by(&gone))
        .collect();
    let bench = Bench::new("1.36", &items.iter().collect::<Vec<_>>());
    let store = bench.store(Watches::Ending(2));
    bench.run(&store, 20_000, 5_000, |_| {});
    let notes = store.notes();
    let lists = notes.iter().filter(|(_, text)| text.starts_with("list")).count();
    assert_eq!(lists, 1, "{notes:?}");
    let versions: Vec<u64> = notes
        .iter()
        .filter_map(|(_, text)| text.strip_prefix("watch ")?.parse().ok())
        .collect();
    // Four deletes come as two watches of two items, and a third watch waits.
    assert_eq!(versions.len(), 3, "{notes:?}");
    assert!(versions.is_sorted_by(|one, next| one < next), "{notes:?}");
    assert!(items.iter().all(|item| !bench.there(item)));
}

#[test]
fn the_first_list_may_be_old_and_a_relist_is_not_older_than_the_last_version() {
    let gone = Object::new(SECRET, "red", "gone");
    let item = Object::new(CONFIG_MAP, "red", "item").owned_by(&gone);
    let bench = Bench::new("1.36", &[&item]);
    // The first watch delivers the deletion and ends. The second one is too old.
    let mut plan = failing("watch", Some("configmaps"), 1, StoreError::Expired);
    plan.calls.rules[0].skip = 1;
    let store = Faulty::new(bench.store(Watches::Ending(1)), plan);
    let (_, reports) = bench.run(&store, 20_000, 5_000, |_| {});
    assert!(watch_failures(&reports).is_empty());
    let versions: Vec<String> = store
        .store()
        .notes()
        .into_iter()
        .filter_map(|(_, text)| Some(text.strip_prefix("watch ")?.to_owned()))
        .collect();
    let at_least = store.store().at_least.lock().expect("one thread").clone();
    assert_eq!(at_least.len(), 2, "{at_least:?}");
    assert_eq!(at_least[0], "", "any version");
    assert!(
        !at_least[1].is_empty() && at_least[1] != versions[0],
        "{at_least:?} {versions:?}"
    );
}

#[test]
fn a_watch_that_delivers_nothing_is_opened_again_once_a_second() {
    let bench = Bench::new("1.36", &[]);
    let store = bench.store(Watches::Ending(0));
    bench.run(&store, 3_500, 0, |_| {});
    let notes = store.notes();
    let expected: Vec<(u64, String)> = [
        (0, "list"),
        (0, "watch"),
        (1_000, "watch"),
        (2_000, "watch"),
        (3_000, "watch"),
    ]
    .into_iter()
    .zip(std::iter::repeat(notes[1].1.trim_start_matches("watch ")))
    .map(|((at, what), version)| (at, format!("{what} {version}")))
    .collect();
    assert_eq!(notes, expected);
}

#[test]
fn a_watch_that_cannot_be_opened_is_retried_at_its_version_with_delays_that_double() {
    let bench = Bench::new("1.36", &[]);
    let store = bench.store(Watches::Broken);
    let (_, reports) = bench.run(&store, 80_000, 0, |_| {});
    let seconds = [0, 1, 3, 7, 15, 31, 61];
    assert_eq!(watch_failures(&reports), seconds.map(|at| at * 1_000));
    let lists = store
        .notes()
        .iter()
        .filter(|(_, text)| text.starts_with("list"))
        .count();
    assert_eq!(lists, 1);
}

#[test]
fn a_watch_that_expires_again_at_once_relists_with_a_delay() {
    let bench = Bench::new("1.36", &[]);
    let store = Faulty::new(
        bench.shared.clone(),
        failing("watch", Some("configmaps"), u32::MAX, StoreError::Expired),
    );
    bench.run(&store, 80_000, 0, |_| {});
    // At 0 s twice, then after 2, 4, 8, 16 and 30 s.
    assert_eq!(store.injected(), 8 - 1);
}

#[test]
fn a_resource_that_is_no_longer_served_is_no_longer_watched() {
    let bench = Bench::new("1.36", &[]);
    let mut store = bench.store(Watches::given([]));
    store.served = 0..20;
    let mut dropped = None;
    // A second after discovery reported it.
    bench.run(&store, 32_000, 31_000, |_| {
        dropped = Some(store.dropped.load(Ordering::SeqCst));
    });
    assert_eq!(dropped, Some(1));
}

#[test]
fn a_run_that_is_already_stopped_starts_nothing() {
    let item = orphaned_item();
    let bench = Bench::new("1.36", &[&item]);
    let store = bench.store(Watches::Ending(0));
    let driver = run(&store, &bench.clock, bench.settings.clone(), ready(()), |_| {});
    let collector = block_on(&bench.clock, driver).expect("the clock never goes backwards");
    assert_eq!((collector.calls_made(), store.notes()), (0, Vec::new()));
}

#[test]
fn attempts_and_waits_are_reported() {
    let item = orphaned_item();
    let mut bench = Bench::new("1.36", &[&item]);
    bench.settings.record_conclusions = true;
    let (_, reports) = bench.run(&bench.shared, 10_000, 0, |_| {});
    let deleted = reports.iter().any(|(_, report)| {
        matches!(report, Report::Concluded { object, conclusion: Conclusion::Deleted } if &*object.name == "item")
    });
    assert!(deleted, "{reports:?}");
    let waits: Vec<WaitReason> = reports
        .iter()
        .filter_map(|(_, report)| match report {
            Report::Waiting(wait) => Some(wait.why),
            _ => None,
        })
        .collect();
    assert_eq!(waits.first(), Some(&WaitReason::Sync));
    assert_eq!(waits.last(), Some(&WaitReason::Events));
}

#[test]
fn a_delete_has_its_propagation_and_its_preconditions() {
    let item = orphaned_item();
    let bench = Bench::new("1.36", &[&item]);
    let store = bench.store(Watches::given([]));
    let read_at = bench
        .shared
        .with(|server| item.live(server).expect("it exists").resource_version);
    bench.run(&store, 5_000, 0, |_| {});
    let options = DeleteOptions {
        propagation: Some(Propagation::Policy(Background)),
        preconditions: Preconditions {
            uid: Some("u-item".into()),
            resource_version: Some(read_at),
        },
        ..DeleteOptions::default()
    };
    let deletes = store.deletes.into_inner().expect("one thread");
    assert_eq!(deletes, [("item".to_owned(), options)]);
}

#[test]
fn a_watch_continues_at_bookmarks_and_lists_again_when_its_resource_was_not_found() {
    let bench = Bench::new("1.36", &[]);
    let watches = [
        vec![Ok(WatchItem::Bookmark("500".into()))],
        vec![Ok(WatchItem::Bookmark("".into())), Err(StoreError::NotFound)],
        vec![Err(down())],
    ];
    let mut store = bench.store(Watches::given(watches));
    store.list_version = Some("7".into());
    let (_, reports) = bench.run(&store, 9_000, 0, |_| {});
    let notes: Vec<String> = store.notes().into_iter().map(|(_, text)| text).collect();
    let expected = ["list 7", "watch 7", "watch 500", "list 7", "watch 7", "watch 7"];
    assert_eq!(notes, expected);
    let failures: Vec<_> = reports
        .into_iter()
        .filter_map(|(at, report)| match report {
            Report::WatchFailed { error, failures, .. } => Some((at, error, failures)),
            _ => None,
        })
        .collect();
    assert_eq!(failures, [(0, StoreError::NotFound, 1), (1_000, down(), 2)]);
}

/// So many that the driver looks for inputs in between.
#[test]
fn g27_each_warning_is_reported_at_once() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let mut objects: Vec<Object> = (0..600)
        .map(|at| Object::new(SECRET, "blue", &format!("item{at}")).owned_by(&owner))
        .collect();
    objects.push(owner);
    let bench = Bench::new("1.36", &objects.iter().collect::<Vec<_>>());
    let (_, reports) = bench.run(&bench.shared, 9_000, 0, |_| {});
    let mut warned = BTreeSet::new();
    for (at, report) in &reports {
        if let Report::Warning(warning) = report {
            assert_eq!(*at, 0);
            assert_eq!(&*warning.reference.name, "owner");
            warned.insert(warning.dependent.name.clone());
        }
    }
    assert_eq!(warned.len(), 600);
}
