//! Laws 2, 3, 4 and 8: when the collector may write, the preconditions of deletes, and the limits of
//! concurrency. They hold for every cluster, every release and all faults.

use kubegc_objects::{Settings, settings::Hardening};
use proptest::{prelude::*, strategy::ValueTree};

use crate::common::{
    VERSIONS, checkers,
    cluster::{
        CONFIG_MAP, Features, Object, SECRET, TENANT, catalog, ill_formed, server, version, well_formed,
    },
    config,
    schedule::{FAULTS_AND_FALSE_404, Schedule},
    world::{Seen, World},
};

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn laws_2_3_4_and_8_hold_for_any_cluster_and_any_fault(
        cluster in ill_formed(), seed: u64, release in 0..VERSIONS.len(), workers in 1..4u32, one_call: bool,
    ) {
        let version = version(VERSIONS[release]);
        let mut settings = Settings::new(version).as_upstream();
        (settings.discovery_period, settings.record_conclusions) = (None, true);
        (settings.attempt_to_delete_workers, settings.attempt_to_orphan_workers) = (workers, workers);
        settings.calls_in_flight_max = one_call.then_some(std::num::NonZeroU32::MIN);
        let mut world = World::with(settings, cluster.server(version));
        let mut schedule = Schedule::new(seed).with_faults(&FAULTS_AND_FALSE_404, 20).give_up_early();
        (schedule.restarts_left, schedule.relists_left) = (1, 2);
        schedule.client_writes.clone_from(&cluster.client_writes);
        schedule.run(&mut world, &cluster);
        checkers::starts_in_time(&world);
        checkers::deletes_follow_reads(&world);
        checkers::works_one_at_a_time(&world);
        checkers::uncertain_deletes_are_read_again(&world);
    }

    #[test]
    fn law_3_strict_deletes_expect_the_version_that_was_read(cluster in well_formed(Features::ALL), seed: u64, release in 0..VERSIONS.len()) {
        let version = version(VERSIONS[release]);
        let mut settings = Settings::new(version);
        settings.discovery_period = None;
        prop_assert_eq!(settings.hardening, Hardening::Strict);
        let mut world = World::with(settings, cluster.server(version));
        let mut schedule = Schedule::new(seed).with_faults(&FAULTS_AND_FALSE_404, 10).give_up_early();
        schedule.client_writes.clone_from(&cluster.client_writes);
        schedule.run(&mut world, &cluster);
        for (request, _) in world.writes(0) {
            if let kubegc_objects::Operation::Delete { wire, .. } = &request.operation {
                prop_assert_eq!(wire, &request.expect);
                prop_assert!(wire.uid.is_some() && wire.resource_version.is_some());
            }
        }
    }
}

#[test]
fn generated_runs_contain_deletes_conflicts_and_orphaned_dependents() {
    let (mut deletes, mut conflicts, mut orphaned) = (0, 0, 0);
    let mut runner = proptest::test_runner::TestRunner::new(config(1));
    for seed in 0..150 {
        let cluster = ill_formed()
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        let mut world = World::new(version("1.36"), cluster.server(version("1.36")));
        let mut schedule = Schedule::new(seed)
            .with_faults(&FAULTS_AND_FALSE_404, 20)
            .give_up_early();
        schedule.client_writes.clone_from(&cluster.client_writes);
        schedule.run(&mut world, &cluster);
        deletes += checkers::deletes_follow_reads(&world);
        for (request, _) in world.calls(0) {
            conflicts += usize::from(request.reason.name() == "RecheckAfterConflict");
            orphaned += usize::from(request.reason.name() == "OwnerOrphans");
        }
    }
    assert!(
        deletes > 20 && conflicts > 0 && orphaned > 0,
        "{deletes} deletes, {conflicts} conflicts, {orphaned} orphaned"
    );
}

/// G-20: up to 1.31 a new kind pauses the workers until it is listed; running attempts continue (G-23).
#[test]
fn law_2_workers_pause_while_a_new_kind_syncs() {
    for (release, pauses) in [("1.20.2", true), ("1.31", true), ("1.32", false), ("1.36", false)] {
        let gone = Object::new(CONFIG_MAP, "red", "gone");
        let items = ["a", "b"].map(|name| Object::new(SECRET, "red", name).owned_by(&gone));
        let mut server = server(version(release), &[CONFIG_MAP, SECRET]);
        items.iter().for_each(|item| item.insert(&mut server));
        let mut settings = Settings::new(version(release)).as_upstream();
        (settings.discovery_period, settings.record_conclusions) = (None, true);
        settings.attempt_to_delete_workers = 1;
        let mut world = World::with(settings, server);
        assert!(
            world.run_to(|request| &*request.target.name == "a" || &*request.target.name == "b"),
            "{release}"
        );
        let tenants = catalog(&[TENANT]);
        let (_, tenant) = tenants.iter().next().expect("one kind");
        world.server.register(tenant.clone()).expect("a new kind");
        world.discover();
        let since = world.trace.len();
        while !matches!(world.poll(), kubegc_objects::Output::Wait(_)) || !world.open_calls.is_empty() {
            while !world.open_calls.is_empty() {
                world.commit(0);
                world.respond(0);
            }
        }
        let begun = world.trace[since..].iter().filter(|(_, seen)| {
            matches!(seen, Seen::Pulled(call) if call.request.reason == kubegc_objects::Reason::VerifyItem)
        });
        assert_eq!(
            begun.count() == 0,
            pauses,
            "{release}: begun while the new kind syncs"
        );
        let left = items
            .iter()
            .filter(|item| item.live(&world.server).is_some())
            .count();
        assert_eq!(
            left,
            usize::from(pauses),
            "{release}: the attempt in progress continues, the other waits"
        );
        world.settle();
        assert!(
            items.iter().all(|item| item.live(&world.server).is_none()),
            "{release}"
        );
        checkers::starts_in_time(&world);
    }
}
