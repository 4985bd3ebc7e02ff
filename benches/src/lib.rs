//! Inputs of the benchmarks.

pub mod cascade;
pub mod cleanup_fixture;
pub mod dump;
pub mod nodes;
pub mod shapes;

/// The sizes to measure. With `--test`, only the smallest.
#[must_use]
pub fn sizes(all: &[usize]) -> Vec<usize> {
    let test = std::env::args().any(|argument| argument == "--test");
    all.iter()
        .copied()
        .take(if test { 1 } else { usize::MAX })
        .collect()
}
