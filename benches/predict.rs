//! Questions about a large cluster.
//!
//! The closure of a delete, forecasts of one small delete, of a namespace and of a chain of owners, and a race
//! on one thread and on all. Times of the race are per state.

use std::{collections::VecDeque, num::NonZeroUsize, thread};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::{
    core::{DeleteOptions, PropagationPolicy},
    predict::{Cluster, Intent, explore::Bounds},
};
use kubegc_benches::{cascade::Cascade, cluster, dump::Dump, sizes};

/// Owners and dependents as plain arrays: the lower limit for any search.
struct Arrays {
    starts: Vec<u32>,
    dependents: Vec<u32>,
    roots: Vec<u32>,
}

impl Arrays {
    fn of(cluster: &Cluster) -> Self {
        let snapshot = cluster.snapshot();
        let positions: std::collections::BTreeMap<_, u32> = snapshot
            .objects()
            .enumerate()
            .map(|(at, object)| (object.meta.uid.clone(), at as u32))
            .collect();
        let mut by_owner: Vec<Vec<u32>> = vec![Vec::new(); snapshot.len()];
        let mut roots = Vec::new();
        for (at, object) in snapshot.objects().enumerate() {
            if object.meta.owner_references.is_empty() {
                roots.push(at as u32);
            }
            for owner in &object.meta.owner_references {
                by_owner[positions[&owner.uid] as usize].push(at as u32);
            }
        }
        let mut arrays = Self {
            starts: vec![0],
            dependents: Vec::new(),
            roots,
        };
        for dependents in by_owner {
            arrays.dependents.extend(dependents);
            arrays.starts.push(arrays.dependents.len() as u32);
        }
        arrays
    }

    fn search(&self) -> usize {
        let mut seen = vec![false; self.starts.len() - 1];
        let mut pending: VecDeque<u32> = self.roots.iter().copied().collect();
        let mut reached = 0;
        while let Some(at) = pending.pop_front() {
            if std::mem::replace(&mut seen[at as usize], true) {
                continue;
            }
            reached += 1;
            let range = self.starts[at as usize] as usize..self.starts[at as usize + 1] as usize;
            pending.extend(&self.dependents[range]);
        }
        reached
    }
}

fn questions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("predict");
    group.sample_size(10);
    for size in sizes(&[1_000, 100_000, 1_000_000]) {
        let cluster = cluster(Dump::new(size));
        let arrays = Arrays::of(&cluster);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("closure", size), |bencher| {
            bencher.iter(|| assert_eq!(cluster.closure_of(&arrays.roots).gone.len(), size));
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
    for (name, reduces) in [("every order", false), ("reduced", true)] {
        for threads in [NonZeroUsize::MIN, all] {
            let bounds = Bounds {
                seeds: 0,
                reduces,
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
            group.bench_function(BenchmarkId::new(name, threads), |bencher| bencher.iter(explore));
        }
    }
    group.finish();
}

criterion_group!(benches, questions, cascades, races);
criterion_main!(benches);
