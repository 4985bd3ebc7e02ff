//! What hangs on an object beside its dependents: the pods of a node, the claims that a pod uses, those of a stateful set, and the volume of a claim.

use std::{cell::OnceCell, collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_core::identity::split_api_version;
use kubegc_lifecycle::{
    fields::{Fields, Record},
    object::Resource,
};

use super::facts::by_name;
use crate::{
    Cluster,
    doubt::{Beside, Tie},
};

/// Finds what would fare otherwise if an object did.
pub(super) struct Hanging<'c> {
    cluster: &'c Cluster,
    pods_of_node: OnceCell<Groups<Arc<str>>>,
    claims_of_namespace: OnceCell<Groups<Arc<str>>>,
    /// By namespace and name of the claim.
    volumes_of_claim: OnceCell<Groups<(Arc<str>, Arc<str>)>>,
}

/// Positions by what they belong to.
type Groups<K> = HashMap<K, Vec<u32>, FixedState>;

impl<'c> Hanging<'c> {
    pub(super) const fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            pods_of_node: OnceCell::new(),
            claims_of_namespace: OnceCell::new(),
            volumes_of_claim: OnceCell::new(),
        }
    }

    /// What hangs on one object beside its dependents.
    ///
    /// # Complexity
    /// O(log n) for each that is found, in a dump of n objects; O(p) for the first node, claim or set, with p pods, volumes or claims, and for each set
    /// O(q) for q claims in its namespace.
    pub(super) fn beside(&self, position: u32) -> Vec<Beside> {
        let cluster = self.cluster;
        let view = cluster.snapshot.view(position as usize);
        let resource = view.and_then(|view| {
            let (group, _) = split_api_version(view.api_version());
            Resource::of_kind(group, view.kind())
        });
        let Some(record) = cluster.snapshot.record_at(position as usize) else {
            return Vec::new();
        };
        let tied = |positions: Option<&Vec<u32>>, tie: Tie| {
            let positions = positions.into_iter().flatten();
            let beside = positions.map(|&position| Beside { position, tie });
            beside.collect()
        };
        match resource {
            Some(Resource::Nodes) => {
                let pods = self.pods_of_node.get_or_init(|| {
                    grouped(cluster, Resource::Pods, |pod| match &pod.fields {
                        Fields::Pod(fields) => fields.node_name.clone(),
                        _ => None,
                    })
                });
                tied(pods.get(&record.meta.name), Tie::Follows)
            }
            Some(Resource::Pods) => self.claims_of_pod(&record),
            Some(Resource::PersistentVolumeClaims) => {
                let volumes = self.volumes_of_claim.get_or_init(|| {
                    grouped(cluster, Resource::PersistentVolumes, |volume| {
                        match &volume.fields {
                            Fields::PersistentVolume(fields) => fields
                                .claim_ref
                                .claim()
                                .map(|claim| (Arc::clone(&claim.namespace), Arc::clone(&claim.name))),
                            _ => None,
                        }
                    })
                });
                let claim = (Arc::clone(&record.meta.namespace), Arc::clone(&record.meta.name));
                tied(volumes.get(&claim), Tie::Follows)
            }
            Some(Resource::StatefulSets) => self.claims_of_set(position, &record),
            _ => Vec::new(),
        }
    }

    fn claims_of_pod(&self, pod: &Record) -> Vec<Beside> {
        let Fields::Pod(fields) = &pod.fields else {
            return Vec::new();
        };
        let volumes = fields.volumes.iter().flatten();
        let names = volumes.filter_map(|volume| volume.claim(&pod.meta.name));
        let namespace = &pod.meta.namespace;
        let claims = names
            .filter_map(|name| by_name(self.cluster, Resource::PersistentVolumeClaims, namespace, &name));
        let tie = Tie::Waits;
        claims.map(|position| Beside { position, tie }).collect()
    }

    /// The claims whose names end like those of a set, whatever its templates: they go with it, or with its pod of their number.
    fn claims_of_set(&self, set: u32, record: &Record) -> Vec<Beside> {
        let cluster = self.cluster;
        let meta = &record.meta;
        let claims = self.claims_of_namespace.get_or_init(|| {
            grouped(cluster, Resource::PersistentVolumeClaims, |claim| {
                Some(Arc::clone(&claim.meta.namespace))
            })
        });
        let mut beside = Vec::new();
        for &position in claims.get(&meta.namespace).into_iter().flatten() {
            let Some(claim) = cluster.snapshot.view(position as usize) else {
                continue;
            };
            let Some((template_and_set, ordinal)) = claim.name().rsplit_once('-') else {
                continue;
            };
            let rest = template_and_set.strip_suffix(&*meta.name);
            if rest.is_some_and(|rest| rest.ends_with('-')) {
                let pod = format!("{}-{ordinal}", meta.name);
                let pod = by_name(cluster, Resource::Pods, &meta.namespace, &pod);
                beside.extend([Some(set), pod].into_iter().flatten().map(|other| Beside {
                    position,
                    tie: Tie::FollowsOther(other),
                }));
            }
        }
        beside
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
                let beside = beside.into_iter().map(|beside| beside.position);
                let next = beside.chain(dependents.iter().copied());
                pending.extend(next.map(|at| (at, false)));
            }
        }
        found
    }
}

/// The objects of a resource by what they belong to.
fn grouped<K: std::hash::Hash + Eq>(
    cluster: &Cluster,
    resource: Resource,
    key: impl Fn(&Record) -> Option<K>,
) -> Groups<K> {
    let snapshot = &cluster.snapshot;
    let mut groups = Groups::default();
    for position in snapshot.positions_of_kind(resource.group(), resource.kind()) {
        if let Some(key) = snapshot.record_at(position).and_then(|record| key(&record)) {
            groups.entry(key).or_default().push(position as u32);
        }
    }
    groups
}
