//! Reading of a large dump, compared with serde_json with `IgnoredAny` on the same bytes.

use std::io::BufReader;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::snapshot::{Reader, Snapshot};
use kubegc_benches::{dump::Dump, sizes};

const BUFFER_BYTES: usize = 1 << 18;

fn read(objects: usize) -> Snapshot {
    let mut reader = Reader::new("1.36".parse().expect("a version"));
    reader
        .read(
            "dump.json",
            BufReader::with_capacity(BUFFER_BYTES, Dump::new(objects)),
        )
        .expect("a dump");
    reader.finish().expect("a snapshot")
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot/read");
    group.sample_size(10);
    for size in sizes(&[1_000, 100_000]) {
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("metadata", size), |bencher| {
            bencher.iter(|| assert_eq!(read(size).len(), size));
        });
        group.bench_function(BenchmarkId::new("serde_json_ignored_any", size), |bencher| {
            bencher.iter(|| {
                let dump = BufReader::with_capacity(BUFFER_BYTES, Dump::new(size));
                let _ignored: serde::de::IgnoredAny = serde_json::from_reader(dump).expect("JSON");
            });
        });
        group.bench_function(BenchmarkId::new("generator", size), |bencher| {
            bencher.iter(|| std::io::copy(&mut Dump::new(size), &mut std::io::sink()).expect("bytes"));
        });
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
