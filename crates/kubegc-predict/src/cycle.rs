//! Cycles in directed graphs.

use petgraph::{algo::kosaraju_scc, graph::DiGraph};

/// The cycles of a graph with these edges between numbered nodes: the largest groups of nodes of which each
/// can reach every other one, without single nodes that have no edge to themselves.
///
/// # Complexity
/// O(n + e) for the largest number n of a node and e edges, and the sorting of each group.
pub(crate) fn cycles(edges: impl IntoIterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let edges = edges.into_iter().map(|(from, to)| (from as u32, to as u32));
    let graph = DiGraph::<(), ()>::from_edges(edges);
    let mut cycles = kosaraju_scc(&graph);
    cycles.retain(|group| group.len() > 1 || graph.contains_edge(group[0], group[0]));
    let cycles = cycles.into_iter().map(|mut group| {
        group.sort_unstable();
        group.into_iter().map(|node| node.index()).collect()
    });
    cycles.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_is_found_once() {
        let cycles_of = |edges: &[(usize, usize)]| {
            let mut found = cycles(edges.iter().copied());
            found.sort_unstable();
            found
        };
        assert_eq!(cycles_of(&[(0, 1), (1, 2), (0, 2)]), [[0; 0]; 0]);
        assert_eq!(cycles_of(&[(4, 4), (4, 5)]), [[4]]);
        let two = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2), (4, 5)];
        assert_eq!(cycles_of(&two), [vec![0, 1], vec![2, 3, 4]]);
    }
}
