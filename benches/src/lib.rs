//! The inputs that benchmarks measure on, and the sizes that they take.

pub mod cascade;
pub mod dump;
pub mod nodes;
pub mod shapes;
pub mod town;

/// The sizes to measure with: the smallest only where benches are run as tests.
#[must_use]
pub fn sizes(all: &[usize]) -> Vec<usize> {
    let test = std::env::args().any(|argument| argument == "--test");
    all.iter()
        .copied()
        .take(if test { 1 } else { usize::MAX })
        .collect()
}
