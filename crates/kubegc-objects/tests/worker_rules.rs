//! Scenarios whose outcome depends on the release, and restarts of a collector.

use std::sync::Arc;

use kubegc_core::PropagationPolicy::{Background, Foreground};
use kubegc_objects::{Output, Settings, WatchEvent, settings::Hardening};

use crate::common::{
    VERSIONS,
    cluster::{CONFIG_MAP, HOLD, KINDS, Kind, NODE, Object, SECRET, WIDGET, delete, id, server, version},
    world::World,
};

fn world(release: &str, objects: &[&Object]) -> World {
    let mut server = server(version(release), &KINDS);
    objects.iter().for_each(|object| object.insert(&mut server));
    World::new(version(release), server)
}

/// Lists one kind first, then the others.
fn list_first(world: &mut World, first: Kind) {
    while !matches!(world.poll(), Output::Wait(_)) {}
    let monitor = world.monitor_of(id(&world.server, first));
    world.list(monitor);
    world.deliver_all();
}

#[test]
fn an_invalid_dependent_does_not_protect_a_valid_one_from_1_20_3_on() {
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let invalid = Object::new(NODE, "", "invalid").owned_by(&gone);
    let valid = Object::new(SECRET, "red", "valid").owned_by(&gone);
    for (release, collected) in [
        ("1.20.2", false),
        ("1.20.3", true),
        ("1.28", true),
        ("1.36", true),
    ] {
        let mut world = world(release, &[&invalid, &valid]);
        list_first(&mut world, NODE);
        world.settle();
        assert!(invalid.live(&world.server).is_some(), "{release}");
        assert_eq!(valid.live(&world.server).is_none(), collected, "{release}");
    }
}

/// An informer that does not have an object drops its deletion: the missing owner stays a virtual node.
#[test]
fn the_deletion_of_an_unknown_object_changes_nothing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let dependent = Object::new(SECRET, "red", "dependent").owned_by(&owner);
    let mut world = world("1.36", &[&dependent]);
    list_first(&mut world, SECRET);
    let before = world.collector.fingerprint();
    let monitor = world.monitor_of(id(&world.server, CONFIG_MAP));
    world.watched(monitor, WatchEvent::Delete(Arc::new(owner.meta.clone())));
    assert_eq!(world.collector.fingerprint(), before);
    world.watched(monitor, WatchEvent::Apply(Arc::new(owner.meta.clone())));
    assert_ne!(world.collector.fingerprint(), before, "a listed object does");
}

fn world_with(hardening: Hardening, objects: &[&Object]) -> World {
    let mut server = server(version("1.36"), &KINDS);
    objects.iter().for_each(|object| object.insert(&mut server));
    let mut settings = Settings::new(version("1.36"));
    settings.hardening = hardening;
    let mut world = World::with(settings, server);
    world.settle();
    world
}

/// The dependent of a cluster-scoped object is observed first, so that the graph guesses a namespace for it.
#[test]
fn a9_a_guessed_namespace_deletes_a_cluster_scoped_object_unless_strict() {
    for (hardening, stays) in [(Hardening::AsUpstream, false), (Hardening::Strict, true)] {
        let mut world = world_with(hardening, &[]);
        let owner = Object::new(CONFIG_MAP, "blue", "owner");
        let middle = Object::new(NODE, "", "middle").owned_by(&owner);
        let leaf = Object::new(SECRET, "red", "leaf").owned_by(&middle);
        for object in [&owner, &middle, &leaf] {
            object.insert(&mut world.server);
        }
        let secrets = world.monitor_of(id(&world.server, SECRET));
        world.watched(secrets, WatchEvent::Apply(Arc::new(leaf.meta.clone())));
        // The attempt at the guessed node starts before its object is observed.
        assert!(matches!(world.poll(), Output::Call(_)));
        world.settle();
        let live = [&middle, &leaf].map(|object| object.live(&world.server).is_some());
        assert_eq!(live, [stays; 2], "{hardening:?}");
    }
}

#[test]
fn e4_an_object_that_was_replaced_between_two_lists_is_deleted_only_if_strict() {
    for (hardening, stays) in [(Hardening::AsUpstream, true), (Hardening::Strict, false)] {
        let owner = Object::new(CONFIG_MAP, "red", "owner");
        let dependent = Object::new(SECRET, "red", "dependent").owned_by(&owner);
        for is_watched in [true, false] {
            let mut world = world_with(hardening, &[&owner, &dependent]);
            delete(&mut world.server, &owner, Some(Background));
            let mut replacement = owner.clone();
            replacement.meta.uid = "u-again".into();
            replacement.insert(&mut world.server);
            let monitor = world.monitor_of(id(&world.server, CONFIG_MAP));
            if is_watched {
                world.watched(monitor, WatchEvent::Apply(Arc::new(replacement.meta.clone())));
            }
            world.list(monitor);
            world.settle();
            let live = dependent.live(&world.server).is_some();
            assert_eq!(live, stays, "{hardening:?}, watched: {is_watched}");
        }
    }
}

/// Kubernetes #65200: up to 1.19 the list order decides whether the dependents in the owner's own namespace
/// are deleted.
#[test]
fn dependents_in_two_namespaces_are_deleted_as_in_the_release() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let foreign = Object::new(SECRET, "blue", "foreign").owned_by(&owner);
    let own = Object::new(SECRET, "red", "own").owned_by(&owner);
    for (release, first, foreign_stays, own_stays, warnings) in [
        ("1.13", SECRET, false, false, 0),
        ("1.13", CONFIG_MAP, true, true, 0),
        ("1.19", SECRET, false, false, 0),
        ("1.20.2", SECRET, false, true, 1),
        ("1.20.2", CONFIG_MAP, false, true, 1),
        ("1.36", SECRET, false, true, 1),
        ("1.36", CONFIG_MAP, false, true, 1),
    ] {
        let mut world = world(release, &[&owner, &foreign, &own]);
        list_first(&mut world, first);
        world.settle();
        let stays = (
            foreign.live(&world.server).is_some(),
            own.live(&world.server).is_some(),
        );
        assert_eq!(stays, (foreign_stays, own_stays), "{release}, {first:?} first");
        assert!(owner.live(&world.server).is_some());
        let texts: Vec<String> = world.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), warnings, "{release}");
        for text in texts {
            assert_eq!(
                text,
                "ownerRef [v1/ConfigMap, namespace: blue, name: owner, uid: u-owner] does not exist in namespace \"blue\""
            );
        }
    }
}

#[test]
fn a_restarted_collector_continues_a_foreground_deletion() {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let middle = Object::new(WIDGET, "red", "middle").blocking(&root);
    let leaf = Object::new(SECRET, "red", "leaf").blocking(&middle);
    for release in VERSIONS {
        // After each number of calls, until the cascade completes before the restart.
        for calls in 0.. {
            let mut world = world(release, &[&root, &middle, &leaf]);
            world.settle();
            delete(&mut world.server, &root, Some(Foreground));
            let mut left = calls;
            while left > 0 && world.run_to(|_| true) {
                world.commit(0);
                world.respond(0);
                left -= 1;
            }
            world.restart();
            world.settle();
            for object in [&root, &middle, &leaf] {
                assert_eq!(object.live(&world.server), None, "{release} after {calls} calls");
            }
            if left > 0 {
                assert!(calls > 5, "a cascade of three takes more calls");
                break;
            }
        }
    }
}

/// a foreground owner waits for its blocking dependents only, and everything is deleted in the end.
#[test]
fn a_dependent_that_does_not_block_may_outlive_its_owner() {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let item = Object::new(SECRET, "red", "item")
        .owned_by(&root)
        .with_finalizer(HOLD);
    let mut world = world("1.36", &[&root, &item]);
    world.settle();
    delete(&mut world.server, &root, Some(Foreground));
    world.settle();
    assert_eq!(root.live(&world.server), None);
    assert!(item.live(&world.server).is_some_and(|meta| meta.is_deleting()));
}

#[test]
fn a_blocking_dependent_with_a_finalizer_blocks_its_owner_without_a_poll() {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let item = Object::new(SECRET, "red", "item")
        .blocking(&root)
        .with_finalizer(HOLD);
    let mut world = world("1.36", &[&root, &item]);
    world.settle();
    delete(&mut world.server, &root, Some(Foreground));
    assert_eq!(world.settle().until, None, "no retry is scheduled");
    assert!(root.live(&world.server).is_some_and(|meta| meta.is_deleting()));
    let mut meta = item.live(&world.server).expect("its finalizer keeps it");
    meta.finalizers.clear();
    let kind = id(&world.server, SECRET);
    world.server.update(kind, "red", "item", meta.into());
    world.settle();
    assert_eq!((root.live(&world.server), item.live(&world.server)), (None, None));
}

/// an owner with another finalizer that is deleted in the background still counts for its dependents.
#[test]
fn an_owner_waiting_for_another_finalizer_is_solid() {
    let owner = Object::new(CONFIG_MAP, "red", "owner").with_finalizer(HOLD);
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    for release in VERSIONS {
        let mut world = world(release, &[&owner, &item]);
        world.settle();
        delete(&mut world.server, &owner, Some(Background));
        world.settle();
        assert!(
            item.live(&world.server).is_some_and(|meta| !meta.is_deleting()),
            "{release}"
        );
    }
}
