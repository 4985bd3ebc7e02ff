//! Documented exceptions to the laws, which upstream has as well. Each test names its rule.

use std::collections::BTreeSet;

use kubegc_core::{
    OwnerReference,
    PropagationPolicy::{self, Background, Foreground, Orphan},
};
use kubegc_objects::{Reason, Request, collector::Conclusion, settings::Hardening};

use crate::common::{
    VERSIONS,
    cluster::{CONFIG_MAP, Cluster, EVENT, HOLD, Object, SECRET, delete},
    schedule::{Fault, Schedule, fail},
    world::World,
};

/// Law 10 fails: calls continue forever, with growing delays.
#[test]
fn w8_a_virtual_node_of_an_unwatched_kind_is_verified_repeatedly() {
    let owner = Object::new(EVENT, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    for release in VERSIONS {
        let mut world = World::of(release, &[&owner, &item]);
        let mut waits = Vec::new();
        let mut wait = world.settle_now();
        for _ in 0..22 {
            let until = wait.until.expect("it is retried");
            waits.push(until.since(world.now).as_millis());
            world.tick(until);
            wait = world.settle_now();
        }
        assert!(waits.is_sorted(), "{release}: {waits:?}");
        let some = [0, 1, 17, 18, 21].map(|at: usize| waits[at]);
        assert_eq!(some, [5, 10, 655_360, 1_000_000, 1_000_000], "{release}");
        assert_eq!(
            world.conclusions("u-owner"),
            [&Conclusion::NoOwners; 23],
            "{release}"
        );
        assert!(item.live(&world.server).is_some() && world.writes(0).is_empty());
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
    for release in ["1.13", "1.36"] {
        for (hardening, loses) in [(Hardening::AsUpstream, true), (Hardening::Strict, false)] {
            let mut world = World::of_with(release, &[&owner], |settings| settings.hardening = hardening);
            world.settle();
            delete(&mut world.server, &owner, Some(Orphan));
            assert!(world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer));
            // Another client removes the owner's finalizer, and the name is reused.
            world.edit(&owner, |meta| meta.finalizers.clear());
            world.create(&successor);
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
    let item = Object::new(SECRET, "red", "item")
        .owned_by(&owner)
        .owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let looks_up =
        |request: &Request| request.reason == Reason::LookUpOwner && &*request.target.name == "owner";
    for release in VERSIONS {
        let mut world = World::of(release, &[&owner, &item]);
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
    let [early, late] = ["early", "late"].map(|name| Object::new(SECRET, "red", name).owned_by(&owner));
    for release in VERSIONS {
        let mut world = World::of(release, &[&owner, &early]);
        world.settle();
        delete(&mut world.server, &owner, Some(Orphan));
        assert!(world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer));
        world.create(&late);
        world.settle();
        assert!(early.live(&world.server).is_some(), "{release}");
        assert_eq!(late.live(&world.server), None, "{release}");
    }
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
    let mut world = World::of("1.36", &[&item]);
    delete(&mut world.server, &item, Some(Background));
    let began = world.now;
    world.settle();
    let lookups = world.calls(0).len() as u64;
    let seconds = world.now.since(began).as_secs();
    assert!(lookups > 9 * seconds && seconds > 100, "{lookups} in {seconds} s");
    assert!(world.writes(0).is_empty());
}

/// Deletes the first object under many schedules: whether the last one remains.
fn ends(objects: &[&Object], policy: PropagationPolicy) -> BTreeSet<bool> {
    let none = Cluster {
        objects: Vec::new(),
        client_writes: Vec::new(),
    };
    let end = |seed| {
        let mut world = World::of("1.36", objects);
        delete(&mut world.server, objects[0], Some(policy));
        Schedule::new(seed).run(&mut world, &none);
        objects[objects.len() - 1].live(&world.server).is_some()
    };
    (0..400).map(end).collect()
}

/// Law 7 fails: an owner that lost the collector's finalizer and has another one is solid for a dependent
/// that did not block it and is not verified yet.
#[test]
fn r4_a_nonblocking_dependent_of_a_foreground_owner_with_a_finalizer_depends_on_timing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner").with_finalizer(HOLD);
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    assert_eq!(ends(&[&owner, &item], Foreground).len(), 2);
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
    assert_eq!(ends(&[&root, &middle, &item], Background).len(), 2);
}
