//! Attempts whose requests get responses that the recordings lack, and their retries.

use std::{sync::Arc, time::Duration};

use kubegc_core::{PatchType, PropagationPolicy};
use kubegc_objects::{
    Operation, Output, Reason, Request, Response,
    collector::{AttemptError, Conclusion, WaitReason},
    settings::Hardening,
};

use crate::common::{
    cluster::{CONFIG_MAP, HOLD, Object, SECRET, WIDGET, delete, orphaned_item},
    schedule::{Fault, fail},
    world::World,
};

/// The operation and the response with which the last attempt at an object failed.
fn failure(world: &World, uid: &str) -> (&'static str, Response) {
    match world.conclusions(uid).last() {
        Some(Conclusion::Failed(AttemptError::RequestFailed {
            operation, response, ..
        })) => (operation, response.clone()),
        other => panic!("{other:?}"),
    }
}

/// The failures after which an object is retried.
fn failures(world: &World, uid: &str) -> u32 {
    world
        .collector
        .retry(&uid.into())
        .map_or(0, |(_, failures)| failures)
}

#[test]
fn failed_requests_end_an_attempt_with_an_error_and_most_are_retried() {
    for response in [
        Response::Unknown,
        Response::Refused { retry_after: None },
        Response::Unlisted,
    ] {
        for (reason, operation) in [
            ("VerifyItem", "read"),
            ("LookUpOwner", "read"),
            ("NoOwnerLeft", "deleted"),
        ] {
            // With a cache of no owners each owner is looked up.
            let mut world = World::of_with("1.36", &[&orphaned_item()], |settings| {
                settings.absent_owners_max = 0
            });
            let fits = |name: &str| name == "item" || reason == "LookUpOwner";
            assert!(world.run_to(|request| request.reason.name() == reason && fits(&request.target.name)));
            world.respond_with(response.clone());
            assert_eq!(failure(&world, "u-item"), (operation, response.clone()));
            let retries = u32::from(response != Response::Unlisted);
            assert_eq!(failures(&world, "u-item"), retries, "{reason} {response:?}");
        }
    }
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = orphaned_item().owned_by(&owner);
    let mut world = World::of("1.36", &[&owner, &item]);
    assert!(world.run_to(|request| request.reason.name() == "SomeOwnersAbsent"));
    world.respond_with(Response::Invalid);
    assert_eq!(failure(&world, "u-item"), ("patched", Response::Invalid));
    world.settle();
    let live = item.live(&world.server).expect("one owner exists");
    assert_eq!(live.owner_references.to_vec(), [owner.reference()]);
}

/// Runs to the read after a conflict of the first delete.
fn recheck(release: &str, hardening: Hardening) -> World {
    let mut world = World::of_with(release, &[&orphaned_item()], |settings| {
        settings.hardening = hardening
    });
    assert!(world.run_to(|request| request.reason.name() == "NoOwnerLeft"));
    world.respond_with(Response::Conflict);
    assert!(world.run_to(|request| request.reason == Reason::RecheckAfterConflict));
    world
}

#[test]
fn a12_the_second_delete_can_fail_as_well() {
    use Hardening::{AsUpstream, Strict};
    for (release, hardening, response, fails) in [
        ("1.35", AsUpstream, Response::NotFound, true),
        ("1.36", Strict, Response::NotFound, false),
        ("1.36", Strict, Response::Conflict, true),
        ("1.36", Strict, Response::Applied(None), false),
    ] {
        let mut world = recheck(release, hardening);
        // Another version of the object, with the same owners.
        let mut now = orphaned_item().live(&world.server).expect("it exists");
        now.resource_version = "77".into();
        world.respond_with(Response::Found(Arc::new(now)));
        assert!(world.run_to(|request| request.reason.name() == "NoOwnerLeft"));
        let request = world.open_calls[0].request.clone();
        assert_eq!(request.expect.resource_version, Some("77".into()));
        let Operation::Delete { wire, propagation } = request.operation else {
            panic!("{request:?}");
        };
        assert_eq!(propagation, PropagationPolicy::Background);
        let is_strict = hardening == Strict;
        let sent = (wire.uid, wire.resource_version);
        assert_eq!(sent, (Some("u-item".into()), is_strict.then(|| "77".into())));
        world.respond_with(response.clone());
        if fails {
            assert_eq!(failure(&world, "u-item"), ("deleted", response), "{release}");
        } else {
            let ended = match response {
                Response::NotFound => Conclusion::Absent,
                _ => Conclusion::Deleted,
            };
            assert_eq!(world.conclusions("u-item").last(), Some(&&ended));
        }
    }
}

#[test]
fn not_found_after_a_conflict_is_not_retried() {
    for (release, expected) in [
        ("1.34", Conclusion::Deleted),
        ("1.35", Conclusion::Deleted),
        ("1.36", Conclusion::Absent),
    ] {
        let mut world = recheck(release, Hardening::AsUpstream);
        world.respond_with(Response::NotFound);
        assert_eq!(world.conclusions("u-item").last(), Some(&&expected), "{release}");
        assert_eq!(failures(&world, "u-item"), 0, "{release}");
    }
}

#[test]
fn o2_and_o3_dependents_that_cannot_be_patched_keep_the_owner() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let dependents = ["a", "b", "c"].map(|name| Object::new(WIDGET, "red", name).owned_by(&owner));
    let mut world = World::of("1.36", &[&owner, &dependents[0], &dependents[1], &dependents[2]]);
    world.settle();
    delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
    world.deliver_all();
    // Three calls at a time.
    assert_eq!(world.pull(), (vec!["OwnerOrphans"; 3], WaitReason::Responses));
    world.respond_with(Response::Unknown);
    // A dependent that no longer exists is no failure.
    world.respond_with(Response::NotFound);
    // The patch is repeated in the other format.
    world.respond_with(Response::UnsupportedMediaType);
    assert_eq!(world.pull().0, ["OwnerOrphans"]);
    world.respond_with(Response::Refused { retry_after: None });
    assert_eq!(world.pull().0, [""; 0], "the finalizer stays");
    let Some(Conclusion::Failed(AttemptError::Orphaning {
        dependents: count,
        failed,
        first,
        owner: named,
    })) = world.conclusions("u-owner").last().copied()
    else {
        panic!("{:?}", world.conclusions("u-owner"));
    };
    assert_eq!((*count, *failed), (3, 2));
    assert_eq!(named.short(), "configmap/owner -n red");
    let AttemptError::RequestFailed {
        operation, response, ..
    } = &**first
    else {
        panic!("{first:?}");
    };
    assert_eq!((*operation, response), ("patched", &Response::Unknown));
}

#[test]
fn f1_a_finalizer_is_removed_from_what_was_read() {
    let owner = Object::new(CONFIG_MAP, "red", "owner").with_finalizer(HOLD);
    for release in ["1.13", "1.36"] {
        let mut world = World::of(release, &[&owner]);
        world.settle();
        delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
        assert!(world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer));
        world.respond_with(Response::Unknown);
        world.pull();
        let Some(Conclusion::Failed(AttemptError::CannotFinalize { response, .. })) =
            world.conclusions("u-owner").last().copied()
        else {
            panic!("{release}: {:?}", world.conclusions("u-owner"));
        };
        assert_eq!(response, &Response::Unknown);
        assert!(world.run_to(|request| request.reason == Reason::DependentsReleased));
        let live = owner.live(&world.server).expect("its finalizer keeps it");
        let request = world.open_calls[0].request.clone();
        assert_eq!(
            request.expect.resource_version.as_ref(),
            Some(&live.resource_version)
        );
        match &request.operation {
            Operation::Put { read_at, finalizers } => {
                let written = (read_at, &**finalizers);
                assert_eq!(written, (&live.resource_version, &[HOLD.into()][..]));
            }
            operation => assert!(matches!(
                operation,
                Operation::Patch {
                    format: PatchType::Merge,
                    ..
                }
            )),
        }
        let is_put = matches!(request.operation, Operation::Put { .. });
        assert_eq!(is_put, release == "1.13");
        world.respond_with(Response::Refused { retry_after: None });
        world.pull();
        assert_eq!(failure(&world, "u-owner").0, "patched");
        world.settle();
        let live = owner.live(&world.server).expect("its finalizer keeps it");
        assert_eq!(live.finalizers, [HOLD.into()], "{release}");
    }
}

/// The delay before the retry of the only item that failed.
fn retry_delay(world: &mut World) -> Duration {
    match world.poll() {
        Output::Wait(wait) => wait.until.expect("it is retried").since(world.now),
        other => panic!("{other:?}"),
    }
}

/// An owner and its dependent. When the dependent stops blocking its owner, the owner is queued (G-30).
fn blocked(release: &str) -> (World, impl Fn(&mut World, bool)) {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").blocking(&owner);
    let mut world = World::of(release, &[&owner, &item]);
    world.settle();
    let block = move |world: &mut World, blocks| {
        world.edit(&item, |meta| {
            meta.owner_references[0].block_owner_deletion = Some(blocks)
        });
    };
    (world, block)
}

fn verifies_owner(request: &Request) -> bool {
    request.reason == Reason::VerifyItem && &*request.target.name == "owner"
}

#[test]
fn success_resets_the_delay_from_1_24_on() {
    for (release, expected) in [("1.23", 40), ("1.24", 5)] {
        let (mut world, block) = blocked(release);
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
        let delay = retry_delay(&mut world);
        assert_eq!(delay, Duration::from_millis(expected), "{release}");
    }
}

#[test]
fn the_removal_of_a_finalizer_is_tried_four_times() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    for conflicts in [3, 4] {
        let mut world = World::of("1.36", &[&owner]);
        world.settle();
        delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
        let mut waits = Vec::new();
        for _ in 0..conflicts {
            assert!(world.run_to(|request| request.reason == Reason::DependentsReleased));
            fail(&mut world, 0, Fault::Conflict);
            world.respond(0);
            waits.push(retry_delay(&mut world).as_millis());
        }
        // After the last try the item is queued again, with the delay of the queue.
        assert_eq!(waits, [10, 50, 250, 5][..conflicts]);
        let failed = world
            .conclusions("u-owner")
            .into_iter()
            .any(|ended| matches!(ended, Conclusion::Failed(AttemptError::TooManyConflicts { .. })));
        assert_eq!(failed, conflicts == 4);
        world.settle();
        assert_eq!(owner.live(&world.server), None);
        assert!(world.conclusions("u-owner").contains(&&Conclusion::Finalized));
    }
}
