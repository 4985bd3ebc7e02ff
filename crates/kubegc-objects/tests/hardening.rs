//! Strict mode against upstream's behavior, and informers that miss deletions.

use std::sync::Arc;

use kubegc_core::PropagationPolicy::{Background, Foreground};
use kubegc_objects::{
    Operation, Output, Reason, Request, Response, WatchEvent,
    collector::{AttemptError, Conclusion},
    settings::Hardening,
};

use crate::common::{
    cluster::{CONFIG_MAP, Kind, NODE, Object, SECRET, TENANT, WIDGET, delete, id},
    world::World,
};

fn world(release: &str, hardening: Hardening, objects: &[&Object]) -> World {
    let mut world = World::of_with(release, objects, |settings| settings.hardening = hardening);
    world.settle();
    world
}

/// The successful writes to one object.
fn writes(world: &World, object: &Object) -> Vec<&'static str> {
    let text = |(request, response): (&Request, &Response)| match &request.operation {
        _ if *response == Response::Conflict => "conflict",
        Operation::Delete { wire, .. } if wire.resource_version.is_some() => "delete with version",
        Operation::Delete { .. } => "delete",
        _ => "patch",
    };
    let is_counted = |(request, response): &(&Request, &Response)| {
        // Custom resources reject the first format of a patch.
        request.target.uid == object.meta.uid && **response != Response::UnsupportedMediaType
    };
    let writes = world.writes(0).into_iter().filter(is_counted);
    writes.map(text).collect()
}

/// A strict collector, over a cluster with a cycle of blocking owners whose first object is deleted in the
/// foreground. The last of the three owns it.
fn strict_cycle(release: &str, kind: Kind) -> (World, [Object; 3]) {
    let bare = ["a", "b", "c"].map(|name| Object::new(kind, "red", name));
    let cycle = [0, 1, 2].map(|at: usize| bare[at].clone().blocking(&bare[(at + 2) % 3]));
    let mut world = world(release, Hardening::Strict, &[&cycle[0], &cycle[1], &cycle[2]]);
    delete(&mut world.server, &cycle[0], Some(Foreground));
    (world, cycle)
}

#[test]
fn a_strict_delete_after_an_unblock_expects_the_version_in_the_response_to_the_patch() {
    for release in ["1.13", "1.20.2", "1.36"] {
        for kind in [CONFIG_MAP, WIDGET] {
            let (mut world, cycle) = strict_cycle(release, kind);
            world.settle();
            assert!(
                cycle.iter().all(|object| object.live(&world.server).is_none()),
                "{release} {kind:?}"
            );
            let first = &writes(&world, &cycle[2])[..2];
            assert_eq!(first, ["patch", "delete with version"], "{release} {kind:?}");
            let mut ended = world.conclusions("u-c").into_iter();
            assert!(
                ended.all(|ended| !matches!(ended, Conclusion::Failed(_))),
                "{release} {kind:?}: the patch alone is no change of its owners"
            );
        }
    }
}

#[test]
fn a_strict_delete_after_an_unblock_fails_if_the_owners_changed() {
    let (mut world, cycle) = strict_cycle("1.36", CONFIG_MAP);
    let other = Object::new(SECRET, "red", "other");
    other.insert(&mut world.server);
    assert!(world.run_to(|request| request.reason.name() == "BreakCycle"));
    world.edit(&cycle[2], |meta| meta.owner_references.push(other.reference()));
    world.settle();
    assert!(cycle[2].live(&world.server).is_some());
    // The reference is unblocked, then removed.
    assert_eq!(writes(&world, &cycle[2]), ["patch", "patch"]);
}

/// Objects are created, and the dependent of a cluster-scoped object is observed first, so that the graph
/// guesses a namespace for it.
fn guess(world: &mut World, created: &[&Object], leaf: &Object) {
    created.iter().for_each(|object| object.insert(&mut world.server));
    leaf.insert(&mut world.server);
    let secrets = world.monitor_of(id(&world.server, SECRET));
    world.watched(secrets, WatchEvent::Apply(Arc::new(leaf.meta.clone())));
}

#[test]
fn a9_a_guessed_namespace_deletes_a_cluster_scoped_object_unless_strict() {
    for (hardening, stays) in [(Hardening::AsUpstream, false), (Hardening::Strict, true)] {
        let mut world = world("1.36", hardening, &[]);
        let owner = Object::new(CONFIG_MAP, "blue", "owner");
        let middle = Object::new(NODE, "", "middle").owned_by(&owner);
        let leaf = Object::new(SECRET, "red", "leaf").owned_by(&middle);
        guess(&mut world, &[&owner, &middle], &leaf);
        // The attempt at the guessed node starts before its object is observed.
        assert!(matches!(world.poll(), Output::Call(_)));
        world.settle();
        let live = [&middle, &leaf].map(|object| object.live(&world.server).is_some());
        assert_eq!(live, [stays; 2], "{hardening:?}");
    }
}

/// The item is a cluster-scoped custom resource.
#[test]
fn p6_the_read_before_a_merge_patch_uses_the_guessed_namespace_unless_strict() {
    for (hardening, is_found) in [(Hardening::AsUpstream, false), (Hardening::Strict, true)] {
        let owner = Object::new(NODE, "", "owner");
        let item = Object::new(TENANT, "", "item")
            .owned_by(&Object::new(NODE, "", "gone"))
            .owned_by(&owner);
        let leaf = Object::new(SECRET, "red", "leaf").owned_by(&item);
        let mut world = world("1.36", hardening, &[&owner]);
        guess(&mut world, &[&item], &leaf);
        // The attempt at the guessed node starts before its object is observed.
        let mut reads = Vec::new();
        while let Output::Call(call) = world.poll() {
            let target = &call.request.target;
            if call.request.reason == Reason::ReadBeforePatch {
                reads.push(target.namespace.to_string());
                if !target.namespace.is_empty() {
                    world.respond_with(Response::NotFound);
                    continue;
                }
            }
            world.commit(0);
            world.respond(0);
        }
        // No monitor has the item yet: a live read.
        assert_eq!(reads, [if is_found { "" } else { "red" }]);
        let live = item.live(&world.server).expect("an owner exists");
        assert_eq!(live.owner_references.len() == 1, is_found, "{hardening:?}");
        let ended = world.conclusions("u-item")[0];
        let not_found = |ended: &Conclusion| match ended {
            Conclusion::Failed(AttemptError::RequestFailed { response, .. }) => {
                *response == Response::NotFound
            }
            _ => false,
        };
        assert!(not_found(ended) != is_found, "{ended:?}");
    }
}

#[test]
fn e4_an_object_that_was_replaced_between_two_lists_is_deleted_only_if_strict() {
    for (hardening, stays) in [(Hardening::AsUpstream, true), (Hardening::Strict, false)] {
        let owner = Object::new(CONFIG_MAP, "red", "owner");
        let dependent = Object::new(SECRET, "red", "dependent").owned_by(&owner);
        for is_watched in [true, false] {
            let mut world = world("1.36", hardening, &[&owner, &dependent]);
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

/// An informer that does not have an object drops its deletion: the missing owner stays a virtual node.
#[test]
fn the_deletion_of_an_unknown_object_changes_nothing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let mut world = World::of(
        "1.36",
        &[&Object::new(SECRET, "red", "dependent").owned_by(&owner)],
    );
    world.pull();
    world.deliver_all();
    let before = world.collector.fingerprint();
    let monitor = world.monitor_of(id(&world.server, CONFIG_MAP));
    world.watched(monitor, WatchEvent::Delete(Arc::new(owner.meta.clone())));
    assert_eq!(world.collector.fingerprint(), before);
    world.watched(monitor, WatchEvent::Apply(Arc::new(owner.meta.clone())));
    assert_ne!(world.collector.fingerprint(), before, "a listed object does");
}

/// Kubernetes #65200: up to 1.19 the order of lists decides whether dependents in another namespace are
/// deleted, and those in the owner's own.
#[test]
fn up_to_1_19_dependents_in_two_namespaces_share_an_end() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let foreign = Object::new(SECRET, "blue", "foreign").owned_by(&owner);
    let own = Object::new(SECRET, "red", "own").owned_by(&owner);
    for (release, first, stay) in [
        ("1.13", SECRET, false),
        ("1.13", CONFIG_MAP, true),
        ("1.19", SECRET, false),
    ] {
        let mut world = World::of(release, &[&owner, &foreign, &own]);
        world.pull();
        let monitor = world.monitor_of(id(&world.server, first));
        world.list(monitor);
        world.settle();
        let live = [&foreign, &own].map(|object| object.live(&world.server).is_some());
        assert_eq!(live, [stay; 2], "{release}, {first:?} first");
        assert!(owner.live(&world.server).is_some());
    }
}
