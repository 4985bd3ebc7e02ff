//! The interface of the collector: misuse, limits, monitors, waits and explanations.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kubegc_core::{ApiResource, Catalog, PropagationPolicy, Scope, Timestamp, Verbs};
use kubegc_objects::{
    Collector, Input, Output, Response, Settings, WatchEvent,
    collector::{Misuse, WaitReason},
    graph::NodeId,
};

use crate::common::{
    cluster::{CONFIG_MAP, HOLD, KINDS, Object, SECRET, delete, gone, orphaned_item, server, version},
    world::World,
};

#[test]
fn an_invalid_input_is_refused_and_changes_nothing() {
    let mut world = World::of("1.36", &[&orphaned_item()]);
    assert!(world.run_to(|_| true));
    let call = world.open_calls[0].id;
    let now = world.now;
    let before = world.collector.fingerprint();
    let earlier = Timestamp::from_nanos(now.as_nanos() - 1);
    let error = world.collector.handle(earlier, Input::Tick);
    assert_eq!(error, Err(Misuse::TimeWentBack { last: now }));
    // The monitor of a collector that has more of them.
    let mut more = World::new(version("1.36"), server(version("1.36"), &KINDS));
    let mut few = World::new(version("1.36"), server(version("1.36"), &KINDS[..2]));
    more.settle();
    few.settle();
    let monitor = *more.watches.keys().last().expect("several kinds");
    let event = WatchEvent::Init;
    let error = few.collector.handle(now, Input::Watch { monitor, event });
    assert_eq!(error, Err(Misuse::UnknownMonitor(monitor)));
    let texts = [
        Misuse::TimeWentBack { last: now },
        Misuse::UnknownMonitor(monitor),
    ];
    assert_eq!(
        texts.map(|error| error.to_string()),
        [
            "time went back to before 1970-01-01T00:16:40Z",
            "monitor 4 does not exist or was stopped",
        ]
    );
    assert_eq!(world.collector.fingerprint(), before);
    world.respond_with(Response::NotFound);
    let before = world.collector.fingerprint();
    let response = Response::NotFound;
    let error = world.collector.handle(now, Input::Response { call, response });
    assert_eq!(error, Err(Misuse::UnknownCall(call)));
    assert_eq!(
        Misuse::UnknownCall(call).to_string(),
        "call 1 was never made or is answered already"
    );
    assert_eq!(world.collector.fingerprint(), before);
}

#[test]
fn w4_calls_are_limited_by_workers_and_by_the_setting() {
    let items: Vec<Object> = (0..10)
        .map(|at| {
            let owner = Object::new(CONFIG_MAP, "red", &format!("gone{at}"));
            Object::new(SECRET, "red", &format!("item{at}")).owned_by(&owner)
        })
        .collect();
    for (workers, calls_in_flight_max, calls) in [(20, 0, 10), (4, 0, 4), (20, 3, 3)] {
        let mut world = World::of_with("1.36", &items.iter().collect::<Vec<_>>(), |settings| {
            settings.attempt_to_delete_workers = workers;
            settings.calls_in_flight_max = NonZeroU32::new(calls_in_flight_max);
        });
        assert_eq!(world.pull(), (vec![], WaitReason::Sync));
        world.deliver_all();
        let pulled = world.pull();
        assert_eq!(pulled, (vec!["VerifyItem"; calls], WaitReason::Responses));
        assert_eq!(world.collector.calls_in_flight(), calls);
        assert_eq!(world.collector.calls_made(), calls as u64);
        world.respond_with(Response::NotFound);
        // One more, of another item or of the owner of the first.
        assert_eq!(world.pull().0.len(), 1);
        while !world.open_calls.is_empty() {
            world.commit(0);
            world.respond(0);
        }
        world.settle();
        assert!(items.iter().all(|item| item.live(&world.server).is_none()));
        assert_eq!(world.collector.calls_in_flight(), 0);
    }
}

#[test]
fn both_queues_get_workers_in_turn() {
    let mut objects = Vec::new();
    for at in 0..3 {
        let owner = Object::new(CONFIG_MAP, "red", &format!("gone{at}"));
        objects.push(Object::new(SECRET, "red", &format!("item{at}")).owned_by(&owner));
        let mut owner = Object::new(CONFIG_MAP, "red", &format!("owner{at}")).with_finalizer("orphan");
        owner.meta.deletion_timestamp = Some(Timestamp::from_secs(1));
        objects.push(Object::new(SECRET, "red", &format!("dependent{at}")).owned_by(&owner));
        objects.push(owner);
    }
    for (workers, reasons) in [
        (20, ["VerifyItem", "OwnerOrphans"].repeat(3)),
        (1, vec!["VerifyItem", "OwnerOrphans", "VerifyItem", "VerifyItem"]),
    ] {
        let mut world = World::of_with("1.36", &objects.iter().collect::<Vec<_>>(), |settings| {
            settings.attempt_to_orphan_workers = workers;
        });
        world.pull();
        world.deliver_all();
        // Owners that were seen first as owners of their dependents are verified, too.
        let (pulled, why) = world.pull();
        assert_eq!((pulled, why), (reasons, WaitReason::Responses), "{workers}");
    }
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::new(api_version, kind, &plural, Scope::Namespaced)
}

/// Passes in the result of a discovery, and returns the monitors that start and stop.
fn discovered(collector: &mut Collector, resources: &[ApiResource], failed: &[&str]) -> Vec<String> {
    let mut catalog = Catalog::new();
    for resource in resources {
        catalog.add(resource.clone()).expect("different names");
    }
    let name = |collector: &Collector, monitor| collector.monitor(monitor).map(ToString::to_string);
    let known: Vec<_> = collector
        .monitors()
        .map(|(monitor, resource, _)| (monitor, resource.to_string()))
        .collect();
    let input = Input::Catalog {
        catalog: Arc::new(catalog),
        failed: failed.iter().map(|&failed| failed.to_owned()).collect(),
    };
    collector
        .handle(Timestamp::EPOCH, input)
        .expect("the clock does not advance");
    let mut changes = Vec::new();
    loop {
        match collector.poll_output() {
            Output::Watch(monitor) => {
                changes.push(format!("+{}", name(collector, monitor).expect("it is new")));
            }
            Output::Unwatch(monitor) => {
                let (_, resource) = known.iter().find(|(id, _)| *id == monitor).expect("it was known");
                changes.push(format!("-{resource}"));
            }
            Output::Wait(_) => return changes,
            _ => {}
        }
    }
}

fn sync(collector: &mut Collector, resource: &str) {
    let found = collector
        .monitors()
        .find(|(_, known, _)| &*known.resource == resource);
    let (monitor, ..) = found.expect("it is monitored");
    for event in [WatchEvent::Init, WatchEvent::InitDone] {
        let input = Input::Watch { monitor, event };
        collector
            .handle(Timestamp::EPOCH, input)
            .expect("it is monitored");
    }
}

#[test]
fn g10_and_g11_what_can_be_listed_watched_and_deleted_is_monitored() {
    let verbs = |verbs, kind| ApiResource {
        verbs,
        ..resource("v1", kind)
    };
    let all = Verbs::ALL;
    let resources = [
        resource("v1", "Secret"),
        ApiResource {
            preferred: false,
            ..resource("v1", "Old")
        },
        verbs(Verbs { delete: false, ..all }, "Fixed"),
        verbs(Verbs { list: false, ..all }, "Hidden"),
        verbs(Verbs { watch: false, ..all }, "Silent"),
        resource("v1", "Event"),
        resource("events.k8s.io/v1", "Event"),
        resource("x.dev/v1", "Event"),
        resource("events.k8s.io/v1", "Series"),
    ];
    let mut expected = vec!["+v1/secrets", "+x.dev/v1/events", "+events.k8s.io/v1/seriess"];
    for release in ["1.25", "1.36", "1.24"] {
        if release == "1.24" {
            expected.insert(1, "+events.k8s.io/v1/events");
        }
        let mut collector = Collector::new(Settings::new(version(release)));
        assert_eq!(discovered(&mut collector, &resources, &[]), expected, "{release}");
        let count = expected.len();
        let synced = |collector: &Collector| collector.monitors().filter(|(_, _, synced)| *synced).count();
        assert_eq!((collector.monitors().count(), synced(&collector)), (count, 0));
        sync(&mut collector, "secrets");
        assert_eq!((collector.monitors().count(), synced(&collector)), (count, 1));
    }
}

#[test]
fn g12_to_g20_monitors_follow_discovery() {
    let [a, b, c] = ["A", "B", "C"].map(|kind| resource("x.dev/v1", kind));
    let newer = resource("x.dev/v2", "A");
    let mut collector = Collector::new(Settings::new(version("1.36")));
    assert_eq!(discovered(&mut collector, &[], &[]), [""; 0], "nothing is served");
    assert!(
        collector
            .not_running()
            .is_some_and(|why| !why.paused && why.starts_at.is_none())
    );
    for (resources, changes) in [
        (&[a.clone(), b.clone()][..], &["+x.dev/v1/as", "+x.dev/v1/bs"][..]),
        // G-19: the same, in another order.
        (&[b.clone(), a.clone()], &[]),
        // G-18: an empty result is ignored.
        (&[], &[]),
        (&[b.clone(), a, c.clone()], &["+x.dev/v1/cs"]),
        // G-12: another version is another monitor.
        (&[b.clone(), newer.clone(), c], &["-x.dev/v1/as", "+x.dev/v2/as"]),
        (&[newer], &["-x.dev/v1/bs", "-x.dev/v1/cs"]),
        (&[b], &["-x.dev/v2/as", "+x.dev/v1/bs"]),
    ] {
        assert_eq!(discovered(&mut collector, resources, &[]), changes);
    }
    let monitors: Vec<_> = collector
        .monitors()
        .map(|(_, resource, _)| resource.to_string())
        .collect();
    assert_eq!(monitors, ["x.dev/v1/bs"], "a stopped monitor stays stopped");
}

#[test]
fn g22_a_synced_monitor_survives_a_failed_discovery_of_its_group_from_1_29_on() {
    let [a, b, other] = [("x.dev/v1", "A"), ("x.dev/v1", "B"), ("y.dev/v1", "C")]
        .map(|(api_version, kind)| resource(api_version, kind));
    for (release, keeps) in [("1.28", false), ("1.29", true), ("1.36", true)] {
        for (failed, is_failed) in [
            (&["x.dev/v1"][..], true),
            (&["x.dev/v2", "z.dev/v1"], false),
            (&[], false),
        ] {
            let mut collector = Collector::new(Settings::new(version(release)));
            discovered(&mut collector, &[a.clone(), b.clone(), other.clone()], &[]);
            sync(&mut collector, "as");
            let expected: &[&str] = if keeps && is_failed {
                &["-x.dev/v1/bs"]
            } else {
                &["-x.dev/v1/as", "-x.dev/v1/bs"]
            };
            let changes = discovered(&mut collector, std::slice::from_ref(&other), failed);
            assert_eq!(changes, expected, "{release} {failed:?}");
        }
    }
}

#[test]
fn a_wait_ends_at_the_next_timer() {
    let second = |at: i64| Some(Timestamp::from_secs(1_000 + at));
    for (release, starts_at) in [("1.31", None), ("1.32", second(30))] {
        for (period, discovers_at) in [(None, None), (Some(Duration::from_secs(20)), second(20))] {
            let mut world = World::of_with(release, &[&orphaned_item()], |settings| {
                settings.discovery_period = period
            });
            let wait = |world: &mut World| loop {
                if let Output::Wait(wait) = world.poll() {
                    return (wait.why, wait.until);
                }
            };
            let until = discovers_at.or(starts_at);
            assert_eq!(wait(&mut world), (WaitReason::Sync, until), "{release}");
            let not_running = world.collector.not_running().expect("no lists");
            assert_eq!((not_running.paused, not_running.starts_at), (false, starts_at));
            world.deliver_all();
            assert_eq!(world.collector.not_running(), None);
            assert_eq!(
                wait(&mut world),
                (WaitReason::Responses, discovers_at),
                "{release}"
            );
            world.respond_with(Response::Unknown);
            let retry = world.now.saturating_add(Duration::from_millis(5));
            assert_eq!(wait(&mut world), (WaitReason::Retries, Some(retry)), "{release}");
            world.tick(retry);
            world.settle_now();
            assert_eq!(wait(&mut world), (WaitReason::Events, discovers_at), "{release}");
            if let Some(at) = discovers_at {
                world.tick(at);
                assert_eq!(world.collector.poll_output(), Output::Discover);
                world.discover();
                let next = at.saturating_add(Duration::from_secs(20));
                assert_eq!(wait(&mut world), (WaitReason::Events, Some(next)), "{release}");
            }
        }
    }
}

#[test]
fn what_the_collector_knows_of_an_object_is_visible() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let blocks = Object::new(SECRET, "red", "blocks")
        .blocking(&owner)
        .with_finalizer(HOLD);
    let plain = Object::new(SECRET, "red", "plain")
        .owned_by(&owner)
        .with_finalizer(HOLD);
    let unknown = Object::new(SECRET, "red", "unknown")
        .owned_by(&gone())
        .owned_by(&owner);
    let mut world = World::of("1.36", &[&owner, &blocks, &plain, &unknown]);
    world.pull();
    world.deliver_all();
    let graph = world.collector.graph();
    let node = |object: &Object| graph.node(&object.meta.uid).expect("it is known");
    assert!(graph.is_virtual(node(&gone())) && !graph.is_virtual(node(&unknown)));
    assert!(!graph.is_being_deleted(node(&unknown)));
    assert_eq!(graph.dependents(node(&gone())), [node(&unknown)]);
    assert_eq!(graph.identity(node(&unknown)).short(), "secret/unknown -n red");
    let owners = graph.owners(node(&unknown));
    let owners: Vec<_> = owners.map(|owner| owner.name.to_string()).collect();
    assert_eq!(owners, ["gone", "owner"]);
    let retry = |world: &World, object: &Object| world.collector.retry(&object.meta.uid);
    assert_eq!(retry(&world, &gone()), None);
    // The attempt at the virtual owner fails.
    assert_eq!(world.pull().0, ["VerifyItem"]);
    world.respond_with(Response::Unknown);
    let retry_at = world.now.saturating_add(Duration::from_millis(5));
    assert_eq!(retry(&world, &gone()), Some((retry_at, 1)));
    assert_eq!(retry(&world, &Object::new(SECRET, "red", "never")), None);
    delete(&mut world.server, &owner, Some(PropagationPolicy::Foreground));
    world.deliver_all();
    let graph = world.collector.graph();
    let node = graph.node(&owner.meta.uid).expect("it exists");
    assert!(graph.is_being_deleted(node) && graph.is_deleting_dependents(node));
    let names = |nodes: Vec<NodeId>| {
        let names = nodes
            .into_iter()
            .map(|node| graph.identity(node).name.to_string());
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        names(graph.dependents(node).to_vec()),
        ["blocks", "plain", "unknown"]
    );
    assert_eq!(names(graph.blocking_dependents(node).collect()), ["blocks"]);
}
