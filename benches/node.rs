//! Plans of dead containers and images of a node. Times are per item of the listing.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::{
    core::Planner,
    node::{
        GoDuration, Semantics,
        container::{self, Limits},
        image::{self, Task, Thresholds},
    },
};
use kubegc_benches::{
    nodes::{NOW, containers, images},
    sizes,
};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

fn dead_containers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("node/containers");
    for count in sizes(&SIZES) {
        let inventory = containers(count);
        group.throughput(Throughput::Elements(count as u64));
        let all_phases = Limits {
            age_min: GoDuration::from_secs(60),
            per_unit_max: Some(3),
            node_max: u32::try_from(count / 20).ok(),
        };
        for (name, limits) in [("defaults", Limits::default()), ("all phases", all_phases)] {
            let policy =
                container::EvictUnits::new(limits, Semantics::default()).expect("an age of zero or more");
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter_with_large_drop(|| policy.plan(&inventory, NOW));
            });
        }
    }
}

fn unused_images(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("node/images");
    let policy =
        image::FreeSpace::new(Thresholds::default(), Semantics::default()).expect("upstream's defaults");
    for count in sizes(&SIZES) {
        let inventory = images(count, policy);
        group.throughput(Throughput::Elements(count as u64));
        for (name, task) in [
            ("to the low threshold", Task::Collect),
            ("all unused", Task::DeleteUnused),
        ] {
            let policy = image::FreeSpace { task, ..policy };
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter_with_large_drop(|| policy.plan(&inventory, NOW));
            });
        }
    }
}

criterion_group!(benches, dead_containers, unused_images);
criterion_main!(benches);
