//! Breadth-first search over plain arrays.

use std::collections::VecDeque;

use kubegc::predict::Cluster;

/// Owners and dependents as plain arrays: the lower limit for any search.
#[derive(Debug)]
pub struct Arrays {
    starts: Vec<u32>,
    dependents: Vec<u32>,
    /// Objects without owners.
    pub roots: Vec<u32>,
}

impl Arrays {
    /// The arrays of a cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let snapshot = cluster.snapshot();
        let positions: std::collections::BTreeMap<_, u32> = snapshot
            .objects()
            .enumerate()
            .map(|(at, object)| (object.uid().clone(), at as u32))
            .collect();
        let mut by_owner: Vec<Vec<u32>> = vec![Vec::new(); snapshot.len()];
        let mut roots = Vec::new();
        for (at, object) in snapshot.objects().enumerate() {
            let owners = object.owner_references();
            if owners.len() == 0 {
                roots.push(at as u32);
            }
            for owner in owners {
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

    /// The number of objects that a breadth-first search from the roots reaches.
    pub fn search(&self) -> usize {
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
