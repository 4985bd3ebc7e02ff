//! A fingerprint covers what the next outputs depend on, and nothing else.

use std::{collections::BTreeSet, time::Duration};

use kubegc_core::{
    ObjectRef,
    PropagationPolicy::{Foreground, Orphan},
};
use kubegc_objects::{Output, Response, collector::FingerprintOptions};

use crate::common::{
    cluster::{CONFIG_MAP, Object, SECRET, delete},
    world::World,
};

/// The fingerprint without the versions of objects, of the attempts that matter.
fn fingerprint(world: &World, matters: &dyn Fn(&ObjectRef) -> bool) -> u128 {
    world.collector.fingerprint_with(FingerprintOptions {
        seen: &|_, _, _| {},
        may_exist: &|_| true,
        matters,
    })
}

#[test]
fn each_step_of_attempts_has_its_own_fingerprint() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let bare = ["x", "y", "z"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let objects = [
        owner.clone(),
        Object::new(SECRET, "red", "released")
            .owned_by(&gone)
            .owned_by(&owner),
        Object::new(SECRET, "red", "deleted").owned_by(&gone),
        bare[0].clone().blocking(&bare[2]),
        bare[1].clone().blocking(&bare[0]),
        bare[2].clone().blocking(&bare[1]),
    ];
    let mut world = World::of_with("1.36", &objects.iter().collect::<Vec<_>>(), |settings| {
        settings.attempt_to_delete_workers = 1;
    });
    let mut seen = BTreeSet::new();
    let mut note = |world: &World, step: &str| {
        let fingerprint = world.collector.fingerprint();
        assert!(fingerprint >> 64 != 0 && fingerprint as u64 != 0);
        assert_eq!(world.collector.clone().fingerprint(), fingerprint);
        assert!(seen.insert(fingerprint), "{step} changes nothing");
    };
    note(&world, "the start");
    let mut run = |world: &mut World| {
        loop {
            let output = world.poll();
            if let Output::Call(call) = &output {
                note(world, &format!("the call for {}", call.request.reason));
                world.commit(0);
                world.respond(0);
                note(world, &format!("the response for {}", call.request.reason));
            }
            let fresh: Vec<_> = world.with_pending_events().collect();
            for &monitor in &fresh {
                world.deliver(monitor);
                note(world, "an event");
            }
            if matches!(output, Output::Wait(_)) && fresh.is_empty() {
                return;
            }
        }
    };
    run(&mut world);
    // A cycle in the foreground, and an owner that orphans.
    delete(&mut world.server, &objects[3], Some(Foreground));
    run(&mut world);
    delete(&mut world.server, &owner, Some(Orphan));
    run(&mut world);
    let left: Vec<_> = objects
        .iter()
        .filter(|object| object.live(&world.server).is_some())
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(seen.len() > 40, "{}", seen.len());
}

#[test]
fn the_order_of_absent_owners_counts_while_their_cache_is_full() {
    for (capacity, is_same) in [(2, false), (3, true)] {
        let fingerprints = [["a", "b"], ["b", "a"]].map(|order| {
            let owners = ["a", "b"].map(|name| Object::new(CONFIG_MAP, "red", name));
            let items = ["a", "b"].map(|name| {
                let owner = Object::new(CONFIG_MAP, "red", name);
                Object::new(SECRET, "red", &format!("of-{name}")).owned_by(&owner)
            });
            let mut world = World::of_with(
                "1.36",
                &[&owners[0], &owners[1], &items[0], &items[1]],
                |settings| {
                    settings.absent_owners_max = capacity;
                },
            );
            world.settle();
            for name in order {
                delete(&mut world.server, &Object::new(CONFIG_MAP, "red", name), None);
                world.settle();
            }
            world.collector.fingerprint()
        });
        assert_eq!(fingerprints[0] == fingerprints[1], is_same, "{capacity}");
    }
}

#[test]
fn the_queue_that_is_next_counts_while_both_have_items() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let other = Object::new(CONFIG_MAP, "red", "other");
    let item = Object::new(SECRET, "red", "item").blocking(&owner);
    let unblock = |world: &mut World, is_blocking| {
        world.edit(&item, |meta| {
            meta.owner_references[0].block_owner_deletion = Some(is_blocking)
        });
        world.deliver_all();
    };
    // The owner is verified whenever it is unblocked: the queue of the next worker changes each time.
    let after = |verifications| {
        let mut world = World::of("1.36", &[&owner, &other, &item]);
        world.settle();
        for _ in 0..verifications {
            unblock(&mut world, false);
            world.settle();
            unblock(&mut world, true);
        }
        world
    };
    let (one, two) = (after(1), after(2));
    for (deletes, orphans) in [(false, false), (true, false), (false, true), (true, true)] {
        let [one, two] = [&one, &two].map(|world| {
            let mut world = world.clone();
            if deletes {
                unblock(&mut world, false);
            }
            if orphans {
                delete(&mut world.server, &other, Some(Orphan));
                world.deliver_all();
            }
            fingerprint(&world, &|_| true)
        });
        assert_eq!(one == two, !(deletes && orphans), "{deletes} {orphans}");
    }
}

/// Two retries at one time: that of an item, and that of an owner that orphans.
fn two_retries(in_order: bool) -> World {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let dependent = Object::new(SECRET, "red", "dependent").owned_by(&owner);
    let mut world = World::of("1.36", &[&owner, &dependent]);
    world.settle();
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    world.create(&item);
    delete(&mut world.server, &owner, Some(Orphan));
    world.deliver_all();
    world.pull();
    assert_eq!(world.open_calls.len(), 2);
    for _ in 0..2 {
        let at = if in_order { 0 } else { world.open_calls.len() - 1 };
        let call = world.open_calls.remove(at);
        world.pass_response(call.id, Response::Unknown);
        world.pull();
    }
    world
}

#[test]
fn the_order_of_responses_and_of_retries_of_both_queues_does_not_count() {
    assert_eq!(
        two_retries(true).collector.fingerprint(),
        two_retries(false).collector.fingerprint()
    );
}

#[test]
fn a_lens_removes_attempts_that_do_not_matter() {
    let mut world = two_retries(true);
    let mut later = world.clone();
    later.tick(later.now.saturating_add(Duration::from_millis(1)));
    // Without the retry of the owner that orphans, which always counts.
    let owner_only = |object: &ObjectRef| &*object.name == "owner";
    assert_ne!(fingerprint(&world, &|_| true), fingerprint(&later, &|_| true));
    assert_ne!(fingerprint(&world, &owner_only), fingerprint(&later, &owner_only));
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let item = Object::new(SECRET, "red", "item").owned_by(&gone);
    let mut base = World::of("1.36", &[]);
    base.settle_now();
    // A single retry that does not matter, at two times.
    base.create(&item);
    base.deliver_all();
    base.pull();
    base.respond_with(Response::Unknown);
    let mut later = base.clone();
    later.tick(later.now.saturating_add(Duration::from_millis(1)));
    assert_eq!(fingerprint(&base, &|_| false), fingerprint(&later, &|_| false));
    assert_ne!(fingerprint(&base, &|_| true), fingerprint(&later, &|_| true));
    // An item in the queue, and one that is queued while its attempt runs.
    let mut queued = base.clone();
    queued.tick(queued.now.saturating_add(Duration::from_millis(5)));
    let mut empty = queued.clone();
    assert_ne!(fingerprint(&queued, &|_| true), fingerprint(&queued, &|_| false));
    empty.pull();
    assert_ne!(fingerprint(&queued, &|_| true), fingerprint(&empty, &|_| true));
    // Whether an absent owner may exist.
    world.settle();
    let options = |may_exist| FingerprintOptions {
        seen: &|_, _, _| {},
        may_exist,
        matters: &|_| true,
    };
    let with = world.collector.fingerprint_with(options(&|_| true));
    let without = world.collector.fingerprint_with(options(&|_| false));
    assert_ne!(with, without);
}
