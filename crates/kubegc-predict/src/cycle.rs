//! Cycles in directed graphs.

/// The cycles of a graph, given the successors of each node: the largest groups of nodes of which each can
/// reach every other one, without single nodes that have no edge to themselves.
///
/// # Complexity
/// O(n + e) for n nodes and e edges, and the sorting of each group.
pub(crate) fn cycles(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // Kosaraju's algorithm, with stacks instead of recursion.
    let mut finished = Vec::with_capacity(successors.len());
    let mut seen = vec![false; successors.len()];
    for start in 0..successors.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut path = vec![(start, 0_usize)];
        while let Some((node, next)) = path.last_mut() {
            match successors[*node].get(*next) {
                Some(&to) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        path.push((to, 0));
                    }
                }
                None => {
                    finished.push(*node);
                    path.pop();
                }
            }
        }
    }
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, to) in successors.iter().enumerate() {
        to.iter().for_each(|&to| predecessors[to].push(from));
    }
    let mut cycles = Vec::new();
    for &start in finished.iter().rev() {
        let (mut group, mut pending) = (Vec::new(), vec![start]);
        while let Some(node) = pending.pop() {
            if std::mem::replace(&mut seen[node], false) {
                group.push(node);
                pending.extend(&predecessors[node]);
            }
        }
        if group.len() > 1 || group.iter().any(|node| successors[*node].contains(node)) {
            group.sort_unstable();
            cycles.push(group);
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_is_found_once() {
        let cycles_of = |edges: &[(usize, usize)]| {
            let mut successors = vec![Vec::new(); 6];
            edges.iter().for_each(|&(from, to)| successors[from].push(to));
            let mut found = cycles(&successors);
            found.sort_unstable();
            found
        };
        assert_eq!(cycles_of(&[(0, 1), (1, 2), (0, 2)]), [[0; 0]; 0]);
        assert_eq!(cycles_of(&[(4, 4), (4, 5)]), [[4]]);
        let two = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2), (4, 5)];
        assert_eq!(cycles_of(&two), [vec![0, 1], vec![2, 3, 4]]);
    }
}
