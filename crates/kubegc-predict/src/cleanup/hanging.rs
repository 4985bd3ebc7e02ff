//! What hangs on an object beside its dependents: the pods of a node, the claims that a pod uses, and the volume of a claim.

use std::{cell::OnceCell, collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_lifecycle::{fields::Fields, object::Resource};

use super::facts::by_name;
use crate::{Cluster, cluster::DELETING};

/// Finds what would fare otherwise if an object did.
pub(super) struct Hanging<'c> {
    cluster: &'c Cluster,
    pods_of_node: OnceCell<HashMap<Arc<str>, Vec<u32>, FixedState>>,
}

impl<'c> Hanging<'c> {
    pub(super) const fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            pods_of_node: OnceCell::new(),
        }
    }

    /// What hangs on one object beside its dependents. Of claims only those that are being deleted hang on their pods.
    ///
    /// # Complexity
    /// O(log n) for each that is found, in a dump of n objects; for the first node, O(p) for p pods.
    pub(super) fn beside(&self, position: u32) -> Vec<u32> {
        let cluster = self.cluster;
        let Some(record) = cluster.snapshot.record_at(position as usize) else {
            return Vec::new();
        };
        match &record.fields {
            Fields::Node(_) => {
                let pods = self.pods_of_node.get_or_init(|| pods_of_node(cluster));
                pods.get(&record.meta.name).cloned().unwrap_or_default()
            }
            Fields::Pod(pod) => {
                let volumes = pod.volumes.iter().flatten();
                let claims = volumes.filter_map(|volume| volume.claim(&record.meta.name));
                let namespace = &record.meta.namespace;
                let resource = Resource::PersistentVolumeClaims;
                let claims = claims.filter_map(|claim| by_name(cluster, resource, namespace, &claim));
                claims
                    .filter(|claim| cluster.edges.facts[*claim as usize] & DELETING != 0)
                    .collect()
            }
            Fields::PersistentVolumeClaim(claim) => {
                let volume = by_name(cluster, Resource::PersistentVolumes, "", &claim.volume_name);
                volume.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Everything that hangs on these, and they themselves where anything does.
    pub(super) fn all(&self, positions: impl IntoIterator<Item = u32>) -> HashSet<u32, FixedState> {
        let mut found = HashSet::default();
        let mut pending: VecDeque<(u32, bool)> = positions.into_iter().map(|at| (at, true)).collect();
        while let Some((position, is_beginning)) = pending.pop_front() {
            let beside = self.beside(position);
            let dependents = self.cluster.edges.dependents(position);
            if is_beginning && beside.is_empty() && dependents.is_empty() {
                continue;
            }
            if found.insert(position) {
                let next = beside.into_iter().chain(dependents.iter().copied());
                pending.extend(next.map(|at| (at, false)));
            }
        }
        found
    }
}

fn pods_of_node(cluster: &Cluster) -> HashMap<Arc<str>, Vec<u32>, FixedState> {
    let snapshot = &cluster.snapshot;
    let mut pods = HashMap::<_, Vec<u32>, _>::default();
    for position in snapshot.positions_of_kind(Resource::Pods.group(), Resource::Pods.kind()) {
        let record = snapshot.record_at(position);
        if let Some(Fields::Pod(pod)) = record.map(|record| record.fields)
            && let Some(node) = pod.node_name
        {
            pods.entry(node).or_default().push(position as u32);
        }
    }
    pods
}
