//! Ingest of a cluster into the owner graph, and queueing of the dependents of a deleted owner.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::core::{KubernetesVersion, ObjectMeta};
use kubegc_benches::{
    shapes::{CONFIG_MAP, Kind, Random, cluster, fan_out},
    sizes,
};
use kubegc_objects::{
    Graph,
    graph::{Effect, Event, GraphKind, Observed},
    replay::WorkQueue,
};

fn release() -> KubernetesVersion {
    "1.20.2".parse().expect("a version")
}

/// Applies all events. Effects are dropped unless there is a queue.
fn ingest(
    graph: &mut Graph,
    events: &[(GraphKind, Arc<ObjectMeta>)],
    queue: Option<&mut WorkQueue>,
) -> usize {
    let mut effects = Vec::new();
    let mut queue = queue;
    let mut queued = 0;
    for (kind, meta) in events {
        graph.apply(
            &Event::Applied {
                object: Observed::of(*kind, meta),
                old: None,
            },
            &mut effects,
        );
        queued += effects.len();
        match &mut queue {
            None => effects.clear(),
            Some(queue) => {
                for effect in effects.drain(..) {
                    if let Effect::AttemptToDelete(node) = effect
                        && !queue.add(node)
                    {
                        graph.release(node);
                    }
                }
            }
        }
    }
    queued
}

fn resolve(graph: &mut Graph, objects: &[(Kind, Arc<ObjectMeta>)]) -> Vec<(GraphKind, Arc<ObjectMeta>)> {
    objects
        .iter()
        .map(|((version, kind), meta)| (graph.kind(version, kind), Arc::clone(meta)))
        .collect()
}

fn graph_ingest(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph/ingest");
    group.sample_size(10);
    for size in sizes(&[10_000, 100_000, 1_000_000]) {
        let mut objects = cluster(size);
        for (order, with_queue) in [
            ("owners_first", false),
            ("owners_first_queued", true),
            ("shuffled", false),
        ] {
            if order == "shuffled" {
                Random::new(3).shuffle(&mut objects);
            }
            group.throughput(Throughput::Elements(size as u64));
            group.bench_function(BenchmarkId::new(order, size), |bencher| {
                bencher.iter_batched(
                    || {
                        let mut graph = Graph::new(release());
                        let events = resolve(&mut graph, &objects);
                        (graph, events, WorkQueue::default())
                    },
                    |(mut graph, events, mut queue)| {
                        let queue_to = with_queue.then_some(&mut queue);
                        ingest(&mut graph, &events, queue_to);
                        (graph, events, queue)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn cascade(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph/cascade");
    group.sample_size(10);
    for size in sizes(&[1_000, 100_000]) {
        let (root, dependents) = fan_out(size);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("queued", size), |bencher| {
            bencher.iter_batched(
                || {
                    let mut graph = Graph::new(release());
                    let kind = graph.kind(CONFIG_MAP.0, CONFIG_MAP.1);
                    let events: Vec<_> = std::iter::once(&root)
                        .chain(&dependents)
                        .map(|meta| (kind, Arc::clone(meta)))
                        .collect();
                    ingest(&mut graph, &events, None);
                    (graph, kind, WorkQueue::default())
                },
                |(mut graph, kind, mut queue)| {
                    let mut effects = Vec::new();
                    graph.apply(
                        &Event::Deleted {
                            object: Observed::of(kind, &root),
                        },
                        &mut effects,
                    );
                    for effect in effects {
                        if let Effect::AttemptToDelete(node) = effect
                            && !queue.add(node)
                        {
                            graph.release(node);
                        }
                    }
                    (graph, queue)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, graph_ingest, cascade);
criterion_main!(benches);
