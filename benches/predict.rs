//! Questions about a large cluster.
//!
//! The closure of a delete, forecasts of one small delete, of a namespace and of a chain of owners, and a
//! race on one thread and on all. Times of the race are per state.

use std::{num::NonZeroUsize, thread};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::{
    core::{DeleteOptions, PropagationPolicy},
    predict::{Intent, explore::Bounds},
};
use kubegc_benches::{arrays::Arrays, cascade::Cascade, cluster, dump::Dump, sizes};

fn questions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("predict");
    group.sample_size(10);
    for size in sizes(&[1_000, 100_000, 1_000_000]) {
        let cluster = cluster(Dump::new(size));
        let arrays = Arrays::of(&cluster);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("closure", size), |bencher| {
            bencher.iter(|| assert_eq!(cluster.closure_of(&arrays.roots).removed.len(), size));
        });
        group.bench_function(BenchmarkId::new("breadth_first_search", size), |bencher| {
            bencher.iter(|| assert_eq!(arrays.search(), size));
        });
        group.throughput(Throughput::Elements(1));
        let small = delete("team-007/Deployment/app-000007", PropagationPolicy::Foreground);
        group.bench_function(BenchmarkId::new("one_deployment", size), |bencher| {
            bencher.iter(|| cluster.predict(&small).expect("a forecast").fates.len());
        });
    }
    group.finish();
}

fn delete(name: &str, policy: PropagationPolicy) -> [Intent; 1] {
    [Intent::delete(
        name.parse().expect("a name"),
        DeleteOptions::policy(policy),
    )]
}

fn cascades(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cascade");
    group.sample_size(10);
    for (name, target, is_chain, all) in [
        ("namespace", "Namespace/x", false, &[1_000, 100_000][..]),
        ("chain", "x/ConfigMap/c-0", true, &[1_000, 100_000, 1_000_000][..]),
    ] {
        for size in sizes(all) {
            let cluster = cluster(Cascade::new(size, is_chain));
            let intents = delete(target, PropagationPolicy::Background);
            group.throughput(Throughput::Elements(size as u64));
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter(|| assert!(cluster.predict(&intents).expect("a forecast").fates.len() >= size));
            });
        }
    }
    group.finish();
}

/// Two deletes of the first of four objects, each of which owns the next.
fn races(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("explore");
    group.sample_size(10);
    let cluster = cluster(Cascade::new(4, true));
    let [first] = delete("x/ConfigMap/c-0", PropagationPolicy::Foreground);
    let [second] = delete("x/ConfigMap/c-0", PropagationPolicy::Orphan);
    let intents = [first, second];
    let all = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for threads in [NonZeroUsize::MIN, all] {
        let bounds = Bounds {
            seeds: 0,
            threads,
            ..Bounds::default()
        };
        let explore = || {
            cluster
                .explore(&intents, bounds)
                .expect("the object exists")
                .states
        };
        group.throughput(Throughput::Elements(explore() as u64));
        group.bench_function(BenchmarkId::new("every order", threads), |bencher| {
            bencher.iter(explore)
        });
    }
    group.finish();
}

criterion_group!(benches, questions, cascades, races);
criterion_main!(benches);
