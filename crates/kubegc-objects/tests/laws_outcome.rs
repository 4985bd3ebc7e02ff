//! Laws 7, 9 and 10: on well-formed clusters the outcome does not depend on timing, on restarts of the
//! collector, or on temporary faults.
//!
//! The outcome is the set of remaining objects, which of them are terminating, and the owners of the others.
//! The references of a terminating object depend on timing upstream too: it is not verified again.

use proptest::{prelude::*, strategy::ValueTree};

use crate::common::{
    cluster::{ClientWrite, Cluster, Features, well_formed},
    config, latest,
    oracle::{Remains, fixpoint, remains},
    schedule::{FAULTS, RunEnd, Schedule},
    world::World,
};

/// Features that can be combined with a unique outcome; see the exceptions in `laws_exceptions`.
pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    use kubegc_core::PropagationPolicy::{Background, Foreground};
    let free = well_formed(Features::ALL).prop_map(|mut cluster| {
        // Cycles, several owners and finalizers together: background deletion only.
        let [ClientWrite::Delete(_, policy)] = cluster.client_writes.as_mut_slice() else {
            return cluster;
        };
        if *policy == Some(Foreground) {
            *policy = Some(Background);
        }
        cluster
    });
    let foreground = Features {
        cycles: false,
        finalizers: false,
        several_owners: true,
        non_blocking: true,
    };
    let with_finalizers = Features {
        cycles: false,
        finalizers: true,
        several_owners: false,
        non_blocking: false,
    };
    prop_oneof![free, well_formed(foreground), well_formed(with_finalizers)]
}

/// The cluster after its deletion, with a collector that started before or starts now.
fn world(cluster: &Cluster, began_before: bool) -> World {
    let mut world = World::new(latest(), cluster.server(latest()));
    if began_before {
        world.settle();
    }
    for write in &cluster.client_writes {
        cluster.perform(&mut world.server, write);
    }
    world
}

pub(crate) fn calm(cluster: &Cluster) -> Remains {
    let mut world = world(cluster, true);
    assert_eq!(world.settle().until, None, "something is retried forever");
    remains(&cluster.objects, &world.server)
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn law_7_timing_does_not_change_the_outcome(cluster in cluster(), seed: u64, began_before: bool) {
        let mut world = world(&cluster, began_before);
        let end = Schedule::new(seed).run(&mut world, &cluster);
        prop_assert_eq!(end, RunEnd::Quiet);
        prop_assert_eq!(remains(&cluster.objects, &world.server), calm(&cluster));
    }

    #[test]
    fn law_9_a_restart_at_any_point_does_not_change_the_outcome(cluster in cluster(), seed: u64, began_before: bool) {
        let mut world = world(&cluster, began_before);
        let mut schedule = Schedule::new(seed);
        (schedule.restarts_left, schedule.relists_left) = (3, 2);
        prop_assert_eq!(schedule.run(&mut world, &cluster), RunEnd::Quiet);
        prop_assert_eq!(remains(&cluster.objects, &world.server), calm(&cluster));
    }

    #[test]
    fn law_10_faults_that_stop_leave_nothing_behind(cluster in cluster(), seed: u64, began_before: bool) {
        let mut world = world(&cluster, began_before);
        let mut schedule = Schedule::new(seed).with_faults(FAULTS, 30);
        prop_assert_eq!(schedule.run(&mut world, &cluster), RunEnd::Quiet, "calls continue forever");
        let end = remains(&cluster.objects, &world.server);
        prop_assert_eq!(&end, &calm(&cluster));
        // No remaining object is garbage.
        let left: Vec<_> = cluster.objects.iter().filter_map(|object| {
            let meta = object.live(&world.server).filter(|meta| !meta.is_deleting())?;
            Some(crate::common::cluster::Object { kind: object.kind, meta })
        }).collect();
        for object in &left {
            let owned = object.meta.owner_references.is_empty();
            let solid = object.meta.owner_references.iter().any(|reference| end.contains_key(&reference.uid.to_string()));
            prop_assert!(owned || solid, "garbage is left: {:?}", object.meta);
        }
    }

    #[test]
    fn law_10_calls_are_bounded(cluster in cluster(), seed: u64, began_before: bool) {
        let mut world = world(&cluster, began_before);
        let mut schedule = Schedule::new(seed).with_faults(FAULTS, 10);
        schedule.run(&mut world, &cluster);
        let edges: usize = cluster.objects.iter().map(|object| 1 + object.meta.owner_references.len()).sum();
        // Each object is verified when an owner is removed or waits, when a dependent is removed, and once
        // per fault.
        let bound = 40 * edges as u64 * cluster.objects.len() as u64 + 200;
        prop_assert!(world.collector.calls_made() <= bound, "{} calls", world.collector.calls_made());
    }

    #[test]
    fn background_deletion_ends_as_the_oracle_predicts(cluster in well_formed(Features::ALL), seed: u64, began_before: bool) {
        let mut cluster = cluster;
        let ClientWrite::Delete(target, policy) = &mut cluster.client_writes[0] else { return Ok(()) };
        *policy = Some(kubegc_core::PropagationPolicy::Background);
        let expected = fixpoint(&cluster.objects, *target);
        let mut world = world(&cluster, began_before);
        Schedule::new(seed).run(&mut world, &cluster);
        prop_assert_eq!(remains(&cluster.objects, &world.server), expected);
    }
}

/// The generator covers the cases that the laws are about.
#[test]
fn the_generator_draws_cascades_of_every_kind() {
    let mut runner = proptest::test_runner::TestRunner::new(config(1));
    let (mut deep, mut waiting, mut kept_by_another) = (0, 0, 0);
    for _ in 0..300 {
        let cluster = cluster()
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        let end = calm(&cluster);
        deep += usize::from(end.len() + 3 <= cluster.objects.len());
        waiting += usize::from(
            end.values()
                .any(|remnant| *remnant == crate::common::oracle::Remnant::Held),
        );
        kept_by_another += usize::from(world_writes(&cluster, "SomeOwnersAbsent"));
    }
    assert!(
        deep > 10 && waiting > 10 && kept_by_another > 5,
        "{deep} cascades, {waiting} waiting, {kept_by_another} kept by another owner"
    );
}

fn world_writes(cluster: &Cluster, reason: &str) -> bool {
    let mut world = world(cluster, true);
    world.settle();
    world
        .writes(0)
        .iter()
        .any(|(request, _)| request.reason.name() == reason)
}
