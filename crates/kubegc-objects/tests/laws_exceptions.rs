//! Documented exceptions to the laws, which upstream has as well. Each test names its rule.

use kubegc_core::{
    OwnerReference,
    PropagationPolicy::{Background, Foreground, Orphan},
};
use kubegc_objects::{
    Graph, Reason, Settings,
    collector::{AttemptError, Conclusion},
    graph::{DeletionState, Event, Observed},
    settings::{Hardening, Semantics},
};

use crate::common::{
    VERSIONS,
    cluster::{CONFIG_MAP, Cluster, EVENT, HOLD, KINDS, Object, SECRET, delete, id, server, version},
    schedule::{Fault, Schedule, fail},
    world::World,
};

fn world(release: &str, objects: &[&Object]) -> World {
    let mut server = server(version(release), &KINDS);
    objects.iter().for_each(|object| object.insert(&mut server));
    World::new(version(release), server)
}

/// Law 10 fails: the deletion of an object that blocks itself is never completed.
#[test]
fn r8_an_object_that_blocks_itself_hangs_in_the_foreground_only() {
    let bare = Object::new(CONFIG_MAP, "red", "own");
    let own = bare.clone().blocking(&bare);
    for release in VERSIONS {
        for (policy, is_removed) in [(Foreground, false), (Background, true)] {
            let mut world = world(release, &[&own]);
            world.settle();
            delete(&mut world.server, &own, Some(policy));
            world.settle();
            assert_eq!(
                own.live(&world.server).is_none(),
                is_removed,
                "{release} {policy}"
            );
            if !is_removed {
                let ended = world.conclusions("u-own");
                assert_eq!(
                    ended.last(),
                    Some(&&Conclusion::WaitsForDependents),
                    "{release}: it waits for itself"
                );
            }
        }
    }
}

/// a cycle of two is resolved.
#[test]
fn r9_a_blocking_cycle_of_two_is_resolved() {
    let bare = ["a", "b"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let (a, b) = (
        bare[0].clone().blocking(&bare[1]),
        bare[1].clone().blocking(&bare[0]),
    );
    for release in VERSIONS {
        let mut world = world(release, &[&a, &b]);
        world.settle();
        delete(&mut world.server, &a, Some(Foreground));
        world.settle();
        assert_eq!(
            (a.live(&world.server), b.live(&world.server)),
            (None, None),
            "{release}"
        );
    }
}

/// Law 10 fails: calls continue forever, with growing delays.
#[test]
fn w8_a_virtual_node_of_an_unwatched_kind_is_verified_repeatedly() {
    let owner = Object::new(EVENT, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    for release in VERSIONS {
        let mut world = world(release, &[&owner, &item]);
        let mut waits = Vec::new();
        let mut wait = world.settle_now();
        for _ in 0..22 {
            let until = wait.until.expect("it is retried");
            waits.push(until.since(world.now).as_millis());
            world.tick(until);
            wait = world.settle_now();
        }
        assert!(
            waits.is_sorted() && waits[0] == 5 && waits[21] == 1_000_000,
            "{release}: {waits:?}"
        );
        assert_eq!(world.conclusions("u-owner").len(), 23, "{release}");
        assert!(
            world
                .conclusions("u-owner")
                .iter()
                .all(|&ended| *ended == Conclusion::NoOwners),
            "{release}"
        );
        assert!(
            item.live(&world.server).is_some() && world.writes(0).is_empty(),
            "{release}"
        );
    }
}

/// Law 10 fails: an owner of an unknown kind keeps the object's other owners from being resolved.
#[test]
fn r2_an_unmappable_owner_is_retried_forever() {
    let mut unknown = Object::new(CONFIG_MAP, "red", "unknown").reference();
    unknown.api_version = "example.com/v9".into();
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let item = Object::new(SECRET, "red", "item").with(unknown).owned_by(&gone);
    for release in VERSIONS {
        let mut world = world(release, &[&item]);
        // Verified when the other owner is found absent.
        assert!(world.settle().until.is_some(), "{release}");
        assert!(
            item.live(&world.server).is_some() && world.writes(0).is_empty(),
            "{release}"
        );
        let failed =
            |ended: &&&Conclusion| matches!(ended, Conclusion::Failed(AttemptError::NoMapping { .. }));
        assert!(
            world.conclusions("u-item").iter().filter(failed).count() > 5,
            "{release}"
        );
    }
}

/// Law 10 fails: a deletion whose start was missed is never driven.
#[test]
fn a_coalesced_first_update_never_starts_the_wait_for_dependents() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").blocking(&owner);
    let foreground = DeletionState {
        deleting: true,
        orphan: false,
        foreground: true,
    };
    for release in VERSIONS {
        let mut graph = Graph::new(Semantics::of(version(release)));
        let mut effects = Vec::new();
        for object in [&owner, &item] {
            let kind = graph.kind(object.kind.api_version, object.kind.kind);
            graph.apply(
                &Event::Applied {
                    object: Observed::of(kind, &object.meta),
                    old: None,
                },
                &mut effects,
            );
        }
        effects.clear();
        let kind = graph.kind("v1", "ConfigMap");
        let object = Observed {
            deletion: foreground,
            ..Observed::of(kind, &owner.meta)
        };
        graph.apply(
            &Event::Applied {
                object,
                old: Some(foreground),
            },
            &mut effects,
        );
        let node = graph.node(&owner.meta.uid).expect("observed");
        assert!(
            graph.is_being_deleted(node) && !graph.is_deleting_dependents(node),
            "{release}"
        );
        assert!(effects.is_empty(), "{release}: no object is processed");
    }
}

/// Law 10 fails: two references with one uid, one right and one wrong, are both removed, and the object is
/// never deleted.
#[test]
fn p10_a_double_reference_loses_both() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let wrong = OwnerReference {
        name: "other".into(),
        ..owner.reference()
    };
    for release in VERSIONS {
        let item = Object::new(SECRET, "red", "item")
            .owned_by(&owner)
            .with(wrong.clone());
        let mut world = world(release, &[&owner, &item]);
        world.settle();
        // Up to 1.19 wrong coordinates alone do not queue the dependent, not even after a restart. An absent
        // second owner does.
        let left = item
            .live(&world.server)
            .expect("never deleted")
            .owner_references
            .len();
        assert_eq!(left, if release == "1.13" { 2 } else { 0 }, "{release}");
        delete(&mut world.server, &owner, Some(Background));
        world.settle();
        assert_eq!(
            item.live(&world.server).is_some(),
            release != "1.13",
            "{release}: it stays for good"
        );
    }
}

/// An object that reuses the name loses its finalizer, except in strict mode.
#[test]
fn f4_a_reused_name_loses_its_finalizer_upstream() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let mut successor = Object::new(CONFIG_MAP, "red", "owner")
        .with_finalizer("orphan")
        .with_finalizer(HOLD);
    successor.meta.uid = "u-successor".into();
    for release in VERSIONS {
        for (hardening, loses) in [(Hardening::AsUpstream, true), (Hardening::Strict, false)] {
            let mut server = server(version(release), &KINDS);
            owner.insert(&mut server);
            let mut settings = Settings::new(version(release));
            (settings.discovery_period, settings.hardening) = (None, hardening);
            let mut world = World::with(settings, server);
            world.settle();
            delete(&mut world.server, &owner, Some(Orphan));
            assert!(world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer));
            // Another client removes the owner's finalizer, and the name is reused.
            let mut meta = owner.live(&world.server).expect("its finalizer keeps it");
            meta.finalizers.clear();
            let kind = id(&world.server, CONFIG_MAP);
            assert!(
                world
                    .server
                    .update(kind, "red", "owner", meta.into())
                    .is_success()
            );
            let created = world.server.create_with_uid(
                kind,
                "red",
                successor.meta.clone().into(),
                "u-successor".into(),
            );
            assert!(created.is_success(), "{created:?}");
            world.settle();
            let left = successor.live(&world.server).expect("it is not being deleted");
            assert_eq!(left.has_finalizer("orphan"), !loses, "{release} {hardening:?}");
            assert!(left.has_finalizer(HOLD));
        }
    }
}

/// Laws 7 and 10 fail: any 404 counts as absence, also that of a server that temporarily does not serve the
/// kind.
#[test]
fn a_404_for_an_existing_owner_deletes_the_dependent() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    for release in VERSIONS {
        let item = Object::new(SECRET, "red", "item")
            .owned_by(&owner)
            .owned_by(&gone);
        let mut world = world(release, &[&owner, &item]);
        let looks_up = |request: &kubegc_objects::Request| {
            request.reason == Reason::LookUpOwner && &*request.target.name == "owner"
        };
        assert!(world.run_to(looks_up), "{release}");
        fail(&mut world, 0, Fault::NotFound);
        world.respond(0);
        world.settle();
        assert!(owner.live(&world.server).is_some());
        assert_eq!(item.live(&world.server), None, "{release}");
    }
}

/// Law 7 fails: a dependent that is observed too late to be orphaned is deleted.
#[test]
fn a_dependent_observed_after_the_orphaning_is_deleted() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    for release in VERSIONS {
        let [early, late] = ["early", "late"].map(|name| Object::new(SECRET, "red", name).owned_by(&owner));
        let mut world = world(release, &[&owner, &early]);
        world.settle();
        delete(&mut world.server, &owner, Some(Orphan));
        assert!(
            world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer),
            "{release}"
        );
        let kind = id(&world.server, SECRET);
        let created =
            world
                .server
                .create_with_uid(kind, "red", late.meta.clone().into(), late.meta.uid.clone());
        assert!(created.is_success(), "{created:?}");
        world.settle();
        assert!(early.live(&world.server).is_some(), "{release}");
        assert_eq!(late.live(&world.server), None, "{release}");
    }
}

/// Law 7 fails: an owner that lost the collector's finalizer and has another one is solid for a dependent
/// that did not block it and is not verified yet.
#[test]
fn r4_a_nonblocking_dependent_of_a_foreground_owner_with_a_finalizer_depends_on_timing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner").with_finalizer(HOLD);
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut world = world("1.36", &[&owner, &item]);
        delete(&mut world.server, &owner, Some(Foreground));
        Schedule::new(seed).run(&mut world, &no_operations());
        let left = owner.live(&world.server).expect("held");
        assert!(!left.has_finalizer("foregroundDeletion"));
        ends.insert(item.live(&world.server).is_some());
    }
    assert_eq!(ends.len(), 2, "{ends:?}");
}

/// Law 10 fails: while dependents refer to an absent owner under two names, both names are looked up
/// alternately, ten times a second.
#[test]
fn g35_contradicting_references_of_a_kept_object_are_looked_up_alternately_forever() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let twin = OwnerReference {
        name: "twin".into(),
        ..owner.reference()
    };
    let item = Object::new(SECRET, "red", "item")
        .owned_by(&owner)
        .with(twin)
        .with_finalizer(HOLD);
    for release in ["1.20.2", "1.28", "1.36"] {
        let mut world = world(release, &[&item]);
        delete(&mut world.server, &item, Some(Background));
        let began = world.now;
        world.settle();
        let lookups = world.calls(0).len() as u64;
        let seconds = world.now.since(began).as_secs();
        assert!(
            lookups > 9 * seconds && seconds > 100,
            "{release}: {lookups} in {seconds} s"
        );
        assert!(world.writes(0).is_empty());
    }
}

fn no_operations() -> Cluster {
    Cluster {
        objects: Vec::new(),
        client_writes: Vec::new(),
    }
}

/// Law 7 fails if an owner in the middle of a cascade has the finalizer `orphan`: the order of attempts
/// decides.
#[test]
fn r7_an_orphaning_object_inside_a_cascade_makes_the_outcome_depend_on_timing() {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let middle = Object::new(CONFIG_MAP, "red", "middle")
        .owned_by(&root)
        .with_finalizer("orphan");
    let item = Object::new(SECRET, "red", "item")
        .owned_by(&root)
        .owned_by(&middle);
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut world = world("1.36", &[&root, &middle, &item]);
        delete(&mut world.server, &root, Some(Background));
        Schedule::new(seed).run(&mut world, &no_operations());
        assert_eq!(middle.live(&world.server), None);
        ends.insert(item.live(&world.server).is_some());
    }
    assert_eq!(ends.len(), 2, "{ends:?}");
}
