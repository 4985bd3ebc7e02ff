//! Inputs of the benchmarks.

use std::io::{BufReader, Read};

use kubegc::{
    predict::{Assumptions, Cluster},
    snapshot::Reader,
};

pub mod arrays;
pub mod cascade;
pub mod cleanup_fixture;
pub mod collector;
pub mod dump;
pub mod nodes;
pub mod shapes;

/// The cluster of a complete dump.
///
/// # Panics
/// If the dump cannot be read.
pub fn cluster(dump: impl Read) -> Cluster {
    let version = "1.36".parse().expect("a version");
    let mut reader = Reader::new(version).complete("all");
    reader
        .read("dump.json", BufReader::with_capacity(1 << 18, dump))
        .expect("a dump");
    let snapshot = reader.finish().expect("a snapshot");
    Cluster::new(version, snapshot, Assumptions::default())
}

/// The sizes to measure. With `--test`, only the smallest.
pub fn sizes(all: &[usize]) -> Vec<usize> {
    let test = std::env::args().any(|argument| argument == "--test");
    all.iter()
        .copied()
        .take(if test { 1 } else { usize::MAX })
        .collect()
}
