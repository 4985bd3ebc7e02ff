//! The test world: clusters, the collector and a simulated API server, schedules of steps, and checkers.

pub(crate) mod checkers;
pub(crate) mod cluster;
pub(crate) mod executor;
pub(crate) mod oracle;
pub(crate) mod schedule;
pub(crate) mod store;
pub(crate) mod world;

use kubegc_core::KubernetesVersion;
use proptest::test_runner::{Config, RngSeed};

use self::{cluster::Cluster, oracle::Remains, world::World};

/// The settings of a property: cases from a fixed seed. A failure prints the case and the seed of its
/// schedule.
pub(crate) fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x6b75_6265_6763),
        failure_persistence: None,
        ..Config::default()
    }
}

/// The releases that behave differently.
pub(crate) const VERSIONS: [&str; 5] = ["1.13", "1.20.2", "1.28", "1.33", "1.36"];

pub(crate) fn latest() -> KubernetesVersion {
    KubernetesVersion::LATEST
}

/// The remaining objects of a cluster.
pub(crate) fn remains(cluster: &Cluster, world: &World) -> Remains {
    oracle::remains(&cluster.objects, |kind, meta| {
        let id = cluster::id(&world.server, kind);
        let stored = world.server.object(id, &meta.namespace, &meta.name)?;
        (stored.meta.uid == meta.uid).then(|| stored.meta.clone().into())
    })
}
