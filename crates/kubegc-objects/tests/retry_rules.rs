//! Changes between a read and a delete, and retries.

use std::time::Duration;

use kubegc_core::{ObjectMeta, PropagationPolicy};
use kubegc_objects::{
    Operation, Output, Reason, Request, Response, Settings,
    collector::{AttemptError, Conclusion},
};
use kubegc_sim::StoredObject;

use crate::common::{
    cluster::{CONFIG_MAP, KINDS, Kind, Object, SECRET, WIDGET, delete, id, server, version},
    schedule::{Fault, fail},
    world::World,
};

fn world(release: &str, objects: &[&Object]) -> World {
    let mut server = server(version(release), &KINDS);
    objects.iter().for_each(|object| object.insert(&mut server));
    World::new(version(release), server)
}

fn edit(world: &mut World, object: &Object, change: impl FnOnce(&mut ObjectMeta)) {
    let mut meta = object.live(&world.server).expect("it exists");
    change(&mut meta);
    let (kind, meta) = (id(&world.server, object.kind), meta);
    let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
    let response = world
        .server
        .update(kind, &namespace, &name, StoredObject::from(meta));
    assert!(response.is_success(), "{response:?}");
}

fn is_delete(request: &Request) -> bool {
    matches!(request.operation, Operation::Delete { .. })
}

/// The writes to one object, as short texts.
fn writes(world: &World, object: &Object) -> Vec<String> {
    let text = |(request, response): (&Request, &Response)| {
        let operation = match &request.operation {
            Operation::Get => "get",
            Operation::Delete { wire, .. } if wire.resource_version.is_some() => "delete with version",
            Operation::Delete { .. } => "delete",
            Operation::Patch { .. } => "patch",
            Operation::Put { .. } => "put",
        };
        let result = match response {
            Response::Applied(_) => "applied",
            Response::Conflict => "conflict",
            Response::NotFound => "not found",
            Response::UnsupportedMediaType => "unsupported media type",
            other => panic!("{other:?}"),
        };
        format!("{operation}: {result}")
    };
    let is_to_object = |(request, _): &(&Request, &Response)| request.target.uid == object.meta.uid;
    world
        .writes(0)
        .into_iter()
        .filter(is_to_object)
        .map(text)
        .collect()
}

#[test]
fn references_edited_between_read_and_delete_save_the_object_from_1_34_on() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    for (release, saved) in [
        ("1.13", false),
        ("1.28", false),
        ("1.33", false),
        ("1.34", true),
        ("1.36", true),
    ] {
        let mut world = world(release, &[&owner, &item]);
        assert!(world.run_to(is_delete));
        edit(&mut world, &item, |meta| {
            meta.owner_references = [owner.reference()].into_iter().collect()
        });
        world.settle();
        assert_eq!(item.live(&world.server).is_some(), saved, "{release}");
        let expected: &[&str] = if saved {
            &["delete with version: conflict"]
        } else {
            &["delete: applied"]
        };
        assert_eq!(writes(&world, &item), expected, "{release}");
    }
}

#[test]
fn labels_edited_between_read_and_delete_do_not_save_the_object() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let twice: &[&str] = &["delete with version: conflict", "delete: applied"];
    for (release, expected) in [
        ("1.28", &["delete: applied"][..]),
        ("1.34", twice),
        ("1.36", twice),
    ] {
        let mut world = world(release, &[&item]);
        assert!(world.run_to(is_delete));
        edit(&mut world, &item, |meta| {
            meta.labels.insert("app".into(), "shop".into());
        });
        world.settle();
        assert_eq!(writes(&world, &item), expected, "{release}");
        assert_eq!(item.live(&world.server), None, "{release}");
    }
}

#[test]
fn a_delete_after_an_unblock_meets_a_conflict_from_1_34_on() {
    let mut cycle = ["a", "b", "c"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let without_owners = cycle.clone();
    for at in 0..3 {
        cycle[(at + 1) % 3] = cycle[(at + 1) % 3].clone().blocking(&without_owners[at]);
    }
    let once: &[&str] = &["patch: applied", "delete: applied"];
    // At the retry the unblocked owner no longer exists, so there is nothing to unblock.
    let twice: &[&str] = &[
        "patch: applied",
        "delete with version: conflict",
        "delete with version: applied",
    ];
    for (release, expected) in [("1.20.2", once), ("1.28", once), ("1.34", twice), ("1.36", twice)] {
        let mut world = world(release, &[&cycle[0], &cycle[1], &cycle[2]]);
        world.settle();
        delete(&mut world.server, &cycle[0], Some(PropagationPolicy::Foreground));
        world.settle();
        assert!(
            cycle.iter().all(|object| object.live(&world.server).is_none()),
            "{release}"
        );
        // The last of the three owns the object that is deleted in the foreground.
        let got = writes(&world, &cycle[2]);
        assert!(
            got.starts_with(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "{release}: {got:?}"
        );
    }
}

/// A strict collector, over a cluster with a cycle of blocking owners whose first object is deleted in the
/// foreground.
fn strict_cycle(release: &str, kind: Kind) -> (World, [Object; 3]) {
    let mut cycle = ["a", "b", "c"].map(|name| Object::new(kind, "red", name));
    let without_owners = cycle.clone();
    for at in 0..3 {
        cycle[(at + 1) % 3] = cycle[(at + 1) % 3].clone().blocking(&without_owners[at]);
    }
    let mut server = server(version(release), &KINDS);
    cycle.iter().for_each(|object| object.insert(&mut server));
    let mut settings = Settings::new(version(release));
    settings.discovery_period = None;
    settings.record_conclusions = true;
    let mut world = World::with(settings, server);
    world.settle();
    delete(&mut world.server, &cycle[0], Some(PropagationPolicy::Foreground));
    (world, cycle)
}

#[test]
fn a_strict_delete_after_an_unblock_expects_the_version_in_the_response_to_the_patch() {
    for release in ["1.13", "1.20.2", "1.28", "1.34", "1.36"] {
        for kind in [CONFIG_MAP, WIDGET] {
            let (mut world, cycle) = strict_cycle(release, kind);
            world.settle();
            assert!(
                cycle.iter().all(|object| object.live(&world.server).is_none()),
                "{release} {kind:?}"
            );
            let conflicts = world
                .writes(0)
                .into_iter()
                .filter(|(_, response)| **response == Response::Conflict);
            assert_eq!(conflicts.count(), 0, "{release} {kind:?}");
            let mut ended = world.conclusions("u-c").into_iter();
            assert!(
                ended.all(|ended| !matches!(ended, Conclusion::Failed(_))),
                "{release} {kind:?}: the patch alone is no change of its owners"
            );
            // The last of the three owns the object that is deleted in the foreground. Custom resources
            // reject the first format of the patch.
            let refused = |text: &String| text != "patch: unsupported media type";
            let writes: Vec<String> = writes(&world, &cycle[2]).into_iter().filter(refused).collect();
            let expected = ["patch: applied", "delete with version: applied"];
            assert_eq!(writes[..2], expected, "{release} {kind:?}");
        }
    }
}

#[test]
fn a_strict_delete_after_an_unblock_fails_if_the_owners_changed() {
    for release in ["1.20.2", "1.36"] {
        let (mut world, cycle) = strict_cycle(release, CONFIG_MAP);
        let other = Object::new(SECRET, "red", "other");
        other.insert(&mut world.server);
        assert!(world.run_to(|request| request.reason.name() == "BreakCycle"));
        edit(&mut world, &cycle[2], |meta| {
            meta.owner_references.push(other.reference());
        });
        world.settle();
        assert!(cycle[2].live(&world.server).is_some(), "{release}");
        let writes = writes(&world, &cycle[2]);
        assert_eq!(
            writes,
            ["patch: applied", "patch: applied"],
            "{release}: the reference is unblocked, then removed"
        );
    }
}

#[test]
fn not_found_for_a_delete_is_retried_up_to_1_35() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    for (release, retried) in [
        ("1.20.2", true),
        ("1.28", true),
        ("1.33", true),
        ("1.35", true),
        ("1.36", false),
    ] {
        let mut world = world(release, &[&item]);
        assert!(world.run_to(is_delete));
        delete(&mut world.server, &item, None);
        // The watch lags: only the response shows it.
        world.commit(0);
        world.respond(0);
        let conclusions = world.conclusions("u-item");
        match conclusions.last().expect("the attempt is over") {
            Conclusion::Absent => assert!(!retried, "{release}"),
            Conclusion::Failed(AttemptError::RequestFailed {
                response: Response::NotFound,
                ..
            }) => assert!(retried, "{release}"),
            other => panic!("{release}: {other:?}"),
        }
        let graph = world.collector.graph();
        assert_eq!(
            graph.node(&item.meta.uid).is_some(),
            retried,
            "{release}: a virtual delete removes the node"
        );
        let failures = world.collector.explain(&item.meta.uid).failures;
        assert_eq!(failures, u32::from(retried), "{release}");
    }
}

#[test]
fn not_found_after_a_conflict_is_not_retried() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    for (release, expected) in [
        ("1.34", Conclusion::Deleted),
        ("1.35", Conclusion::Deleted),
        ("1.36", Conclusion::Absent),
    ] {
        let mut world = world(release, &[&item]);
        assert!(world.run_to(is_delete));
        fail(&mut world, 0, Fault::Conflict);
        world.respond(0);
        assert!(world.run_to(|request| request.reason == Reason::RecheckAfterConflict));
        delete(&mut world.server, &item, None);
        world.commit(0);
        world.respond(0);
        assert_eq!(world.conclusions("u-item").last(), Some(&&expected), "{release}");
        assert_eq!(
            world.collector.explain(&item.meta.uid).failures,
            0,
            "{release}: no retry"
        );
    }
}

/// The delay before the retry of the only item that failed.
fn retry_delay(world: &mut World) -> Duration {
    match world.poll() {
        Output::Wait(wait) => wait.until.expect("it is retried").since(world.now),
        other => panic!("{other:?}"),
    }
}

#[test]
fn success_resets_the_delay_from_1_23_on() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").blocking(&owner);
    let verifies_owner =
        |request: &Request| request.reason == Reason::VerifyItem && &*request.target.name == "owner";
    for (release, expected) in [
        ("1.20.2", 40),
        ("1.22", 40),
        ("1.23", 5),
        ("1.28", 5),
        ("1.36", 5),
    ] {
        let mut world = world(release, &[&owner, &item]);
        world.settle();
        let block = |world: &mut World, blocks| {
            edit(world, &item, |meta| {
                meta.owner_references[0].block_owner_deletion = Some(blocks)
            });
        };
        // Making a reference non-blocking queues the owner (G-30).
        block(&mut world, false);
        for failures in 0..3 {
            assert!(world.run_to(verifies_owner));
            fail(&mut world, 0, Fault::Unknown);
            world.respond(0);
            let delay = retry_delay(&mut world);
            assert_eq!(delay, Duration::from_millis(5 << failures), "{release}");
            world.tick(world.now.saturating_add(delay));
        }
        world.settle();
        block(&mut world, true);
        world.settle();
        block(&mut world, false);
        assert!(world.run_to(verifies_owner));
        fail(&mut world, 0, Fault::Unknown);
        world.respond(0);
        assert_eq!(
            retry_delay(&mut world),
            Duration::from_millis(expected),
            "{release}"
        );
    }
}

#[test]
fn w2_a_node_waits_for_one_retry_at_a_time() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").blocking(&owner);
    let verifies_owner =
        |request: &Request| request.reason == Reason::VerifyItem && &*request.target.name == "owner";
    for release in ["1.20.2", "1.36"] {
        let mut world = world(release, &[&owner, &item]);
        world.settle();
        // Making a reference non-blocking queues the owner (G-30), which also waits for its retry.
        for _ in 0..4 {
            for blocks in [true, false] {
                edit(&mut world, &item, |meta| {
                    meta.owner_references[0].block_owner_deletion = Some(blocks)
                });
                world.deliver_all();
            }
            assert!(world.run_to(verifies_owner));
            fail(&mut world, 0, Fault::Unknown);
            world.respond(0);
        }
        assert_eq!(
            retry_delay(&mut world),
            Duration::from_millis(5),
            "{release}: the earliest"
        );
        let since = world.trace.len();
        world.settle();
        let retries = world
            .calls(since)
            .into_iter()
            .filter(|(request, _)| verifies_owner(request));
        assert_eq!(retries.count(), 1, "{release}");
    }
}

#[test]
fn the_removal_of_a_finalizer_is_tried_four_times() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let removes_finalizer = |request: &Request| request.reason == Reason::DependentsReleased;
    for release in ["1.13", "1.20.2", "1.36"] {
        for conflicts in [3, 4] {
            let mut world = world(release, &[&owner]);
            world.settle();
            delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
            let mut waits = Vec::new();
            for _ in 0..conflicts {
                assert!(world.run_to(removes_finalizer));
                let sent_at = world.now;
                fail(&mut world, 0, Fault::Conflict);
                world.respond(0);
                waits.push(retry_delay(&mut world).as_millis());
                assert_eq!(sent_at, world.now);
            }
            assert_eq!(waits[..3], [10, 50, 250], "{release}");
            if conflicts == 4 {
                assert_eq!(waits[3], 5, "the item is requeued with the delay of the queue");
                let last = world
                    .conclusions("u-owner")
                    .last()
                    .map(|conclusion| (*conclusion).clone());
                let Some(Conclusion::Failed(error @ AttemptError::TooManyConflicts { .. })) = last else {
                    panic!("{release}: {last:?}");
                };
                let text = error.to_string();
                assert!(text.starts_with("updateMaxRetries(4) has reached."), "{text}");
            }
            world.settle();
            assert_eq!(owner.live(&world.server), None, "{release}");
            assert!(
                world.conclusions("u-owner").contains(&&Conclusion::Finalized),
                "{release}"
            );
        }
    }
}
