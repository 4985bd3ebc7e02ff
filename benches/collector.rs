//! A complete cascade.
//!
//! An owner is deleted. Each of its dependents is read, classified and deleted, and its delete event is
//! processed.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::objects::WatchEvent;
use kubegc_benches::{
    collector::{collect, collector, watch},
    shapes::fan_out,
    sizes,
};

fn cascade(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collector/cascade");
    group.sample_size(10);
    for size in sizes(&[1_000, 100_000]) {
        let (root, dependents) = fan_out(size);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("to_the_end", size), |bencher| {
            bencher.iter_batched(
                || collector(&root, &dependents),
                |(mut collector, monitor)| {
                    let event = WatchEvent::Delete(Arc::clone(&root));
                    watch(&mut collector, monitor, event);
                    assert_eq!(collect(&mut collector, monitor, &dependents), dependents.len());
                    collector
                },
                BatchSize::PerIteration,
            );
        });
        group.bench_function(BenchmarkId::new("ingest", size), |bencher| {
            bencher.iter_batched(|| (), |()| collector(&root, &dependents), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, cascade);
criterion_main!(benches);
