//! Laws 1, 5 and 6: the same inputs give the same outputs, polling again returns the same wait, and the end
//! of a wait has an effect.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_objects::{Input, Output};
use proptest::prelude::*;

use crate::common::{
    VERSIONS,
    cluster::{CONFIG_MAP, Cluster, KINDS, Object, SECRET, ill_formed, server, version},
    config,
    schedule::{FAULTS_AND_FALSE_404, Schedule},
    world::World,
};

fn any_schedule(seed: u64, cluster: &Cluster) -> Schedule {
    let mut schedule = Schedule::new(seed)
        .with_faults(&FAULTS_AND_FALSE_404, 10)
        .give_up_early();
    (schedule.relists_left, schedule.client_writes) = (2, cluster.client_writes.clone());
    schedule
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn law_1_same_inputs_give_same_outputs(cluster in ill_formed(), seed: u64, release in 0..VERSIONS.len(), fork in 0..200usize) {
        let version = version(VERSIONS[release]);
        let mut world = World::new(version, cluster.server(version));
        let mut schedule = any_schedule(seed, &cluster);
        for _ in 0..fork {
            schedule.step(&mut world, &cluster);
        }
        let (mut clone, mut clone_schedule) = (world.clone(), schedule.clone());
        prop_assert_eq!(world.collector.fingerprint(), clone.collector.fingerprint());
        schedule.run(&mut world, &cluster);
        clone_schedule.run(&mut clone, &cluster);
        prop_assert_eq!(&world.trace, &clone.trace, "a clone continued differently");

        let mut again = World::new(version, cluster.server(version));
        let mut schedule = any_schedule(seed, &cluster);
        for _ in 0..fork {
            schedule.step(&mut again, &cluster);
        }
        schedule.run(&mut again, &cluster);
        prop_assert_eq!(&world.trace, &again.trace, "a second run was different");
        prop_assert_eq!(world.collector.fingerprint(), again.collector.fingerprint());
    }

    #[test]
    fn laws_5_and_6_waiting_repeats_itself_and_its_end_changes_something(
        cluster in ill_formed(), seed: u64, release in 0..VERSIONS.len(),
    ) {
        let version = version(VERSIONS[release]);
        let mut world = World::new(version, cluster.server(version));
        let mut schedule = any_schedule(seed, &cluster);
        let (mut waits, mut ticks) = (0, 0);
        for _ in 0..600 {
            let went_on = schedule.step(&mut world, &cluster);
            let Some(wait) = world.waiting else { continue };
            waits += 1;
            let mut idle = world.collector.clone();
            prop_assert_eq!(idle.poll_output(), Output::Wait(wait));
            let Some(until) = wait.until else {
                if went_on { continue } else { break }
            };
            prop_assert!(until > world.now, "a wait that is over");
            let before = Timestamp::from_nanos(until.as_nanos() - 1);
            idle.handle(before, Input::Tick).expect("time increases");
            prop_assert_eq!(idle.poll_output(), Output::Wait(wait), "a tick before its time changed something");
            idle.handle(until, Input::Tick).expect("time increases");
            if let Output::Wait(next) = idle.poll_output() {
                prop_assert!(next.until.is_none_or(|next| next > until), "no progress: {:?}, then {:?}", wait, next);
            }
            if !went_on {
                ticks += 1;
                world.tick(until);
            }
        }
        prop_assert!(waits > 0);
        prop_assume!(ticks < 600);
    }
}

/// Equal states at different times have equal fingerprints: times count relative to now.
#[test]
fn law_1_a_fingerprint_does_not_depend_on_the_date() {
    let mut reference = Object::new(CONFIG_MAP, "red", "owner").reference();
    reference.api_version = "example.com/v9".into();
    let item = Object::new(SECRET, "red", "item").with(reference);
    let waiting = |start_secs, tick_nanos| {
        let mut server = server(version("1.36"), &KINDS);
        server.set_now(Timestamp::from_secs(start_secs));
        item.insert(&mut server);
        let mut world = World::new(version("1.36"), server);
        world.settle_now();
        world.tick(world.now.saturating_add(Duration::from_nanos(tick_nanos)));
        world.settle_now();
        world.collector.fingerprint()
    };
    assert_eq!(waiting(2_000, 0), waiting(5_000, 0));
    assert_eq!(waiting(2_000, 7), waiting(5_000, 7));
    assert_ne!(waiting(2_000, 0), waiting(2_000, 7), "the retry is nearer");
}
