//! What hangs on an object beside its dependents: the pods of a node, the claims that a pod uses, the volume of a claim, a namespace and its content; and
//! which claims a stateful set may give away.

use std::{cell::OnceCell, collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_controllers::NamespaceController;
use kubegc_core::{
    identity::split_api_version,
    record::{Record, Resource},
};
use kubegc_snapshot::ObjectView;

use super::facts::by_name;
use crate::{
    Cluster,
    cluster::DELETING,
    doubt::{Beside, Tie},
};

/// Finds what would fare otherwise if an object did.
pub(super) struct Hanging<'c> {
    cluster: &'c Cluster,
    pods_of_node: OnceCell<Groups<Arc<str>>>,
    claims_of_namespace: OnceCell<Groups<Arc<str>>>,
    /// By namespace and name of the claim.
    volumes_of_claim: OnceCell<Groups<(Arc<str>, Arc<str>)>>,
    content_of_namespace: OnceCell<Groups<Arc<str>>>,
    /// Whether namespaces are emptied of pods before anything else.
    pods_go_first: bool,
}

/// Positions by what they belong to.
type Groups<K> = HashMap<K, Vec<u32>, FixedState>;

impl<'c> Hanging<'c> {
    pub(super) fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            pods_of_node: OnceCell::new(),
            claims_of_namespace: OnceCell::new(),
            volumes_of_claim: OnceCell::new(),
            content_of_namespace: OnceCell::new(),
            pods_go_first: NamespaceController::new(cluster.version).deletes_pods_first,
        }
    }

    /// What hangs on one object beside its dependents.
    ///
    /// # Complexity
    /// O(log n) for each that is found, in a dump of n objects; O(p) for the first node or claim, with p pods or volumes, and O(n) for the first pod in a
    /// namespace that is being deleted.
    pub(super) fn beside(&self, position: u32) -> Vec<Beside> {
        let cluster = self.cluster;
        let Some(view) = cluster.snapshot.view(position as usize) else {
            return Vec::new();
        };
        let mut beside = match resource_of(view) {
            Some(Resource::Nodes) => {
                let pods = self.pods_of_node.get_or_init(|| {
                    grouped(cluster, Resource::Pods, |pod| {
                        pod.pod()?.node_name.known().cloned()
                    })
                });
                tied(pods.get(view.name()), Tie::Follows)
            }
            Some(Resource::Pods) => self.claims_of_pod(position),
            Some(Resource::PersistentVolumeClaims) => {
                let volumes = self.volumes_of_claim.get_or_init(|| {
                    grouped(cluster, Resource::PersistentVolumes, |volume| {
                        let claim = volume.persistent_volume()?.claim_ref.known()?.as_ref()?;
                        Some((Arc::clone(&claim.namespace), Arc::clone(&claim.name)))
                    })
                });
                let claim = (Arc::clone(view.namespace()), Arc::clone(view.name()));
                tied(volumes.get(&claim), Tie::Follows)
            }
            _ => Vec::new(),
        };
        self.add_namespace(view, &mut beside);
        beside
    }

    /// A namespace that is being deleted waits for what is in it, and, where pods go first, the rest of it waits for its pods.
    fn add_namespace(&self, of: ObjectView<'_>, beside: &mut Vec<Beside>) {
        let cluster = self.cluster;
        let Some(namespace) = by_name(cluster, Resource::Namespaces, "", of.namespace()) else {
            return;
        };
        let tie = Tie::Waits;
        beside.push(Beside {
            position: namespace,
            tie,
        });
        let is_deleting = cluster.edges.facts[namespace as usize] & DELETING != 0;
        if resource_of(of) == Some(Resource::Pods) && is_deleting && self.pods_go_first {
            let content = self.content_of_namespace.get_or_init(|| {
                let mut content = Groups::default();
                for (position, view) in cluster.snapshot.views().enumerate() {
                    let of_namespace: &mut Vec<u32> =
                        content.entry(Arc::clone(view.namespace())).or_default();
                    of_namespace.push(position as u32);
                }
                content
            });
            let rest = tied(content.get(of.namespace()), tie).into_iter();
            let is_pod = |at: u32| {
                let view = cluster.snapshot.view(at as usize);
                view.and_then(resource_of) == Some(Resource::Pods)
            };
            beside.extend(rest.filter(|rest| !is_pod(rest.position)));
        }
    }

    fn claims_of_pod(&self, position: u32) -> Vec<Beside> {
        let Some(pod) = self.cluster.snapshot.record_at(position as usize) else {
            return Vec::new();
        };
        let volumes = pod.pod().and_then(|fields| fields.volumes.known());
        let volumes = volumes.into_iter().flatten();
        let names = volumes.filter_map(|volume| volume.claim_name(&pod.meta.name));
        let namespace = &pod.meta.namespace;
        let claims = names
            .filter_map(|name| by_name(self.cluster, Resource::PersistentVolumeClaims, namespace, &name));
        let tie = Tie::Waits;
        claims.map(|position| Beside { position, tie }).collect()
    }

    /// The claims whose names end like those of a stateful set, whatever its templates, each with the pod of its number. They go with the set or with that
    /// pod, if the set gave them away.
    pub(super) fn claims_of_set(&self, set: u32) -> Vec<(u32, Option<u32>)> {
        let cluster = self.cluster;
        let view = cluster.snapshot.view(set as usize);
        let Some(set) = view.filter(|view| resource_of(*view) == Some(Resource::StatefulSets)) else {
            return Vec::new();
        };
        let claims = self.claims_of_namespace.get_or_init(|| {
            grouped(cluster, Resource::PersistentVolumeClaims, |claim| {
                Some(Arc::clone(&claim.meta.namespace))
            })
        });
        let mut found = Vec::new();
        for &position in claims.get(set.namespace()).into_iter().flatten() {
            let claim = cluster.snapshot.view(position as usize);
            let name = claim.and_then(|claim| claim.name().rsplit_once('-'));
            let Some((template_and_set, ordinal)) = name else {
                continue;
            };
            let template = template_and_set.strip_suffix(&**set.name());
            if template.is_some_and(|template| template.ends_with('-')) {
                let pod = format!("{}-{ordinal}", set.name());
                found.push((position, by_name(cluster, Resource::Pods, set.namespace(), &pod)));
            }
        }
        found
    }

    /// Everything that hangs on these, and they themselves where anything does.
    pub(super) fn all(&self, positions: impl IntoIterator<Item = u32>) -> HashSet<u32, FixedState> {
        let mut found = HashSet::default();
        let mut pending: VecDeque<(u32, bool)> = positions.into_iter().map(|at| (at, true)).collect();
        while let Some((position, is_beginning)) = pending.pop_front() {
            let facts = &self.cluster.edges.facts;
            let mut next: Vec<u32> = self.cluster.edges.dependents(position).to_vec();
            // What is not being deleted yet is in reach of what deletes it.
            let beside = self.beside(position).into_iter().filter(|beside| {
                beside.tie == Tie::Follows || facts[beside.position as usize] & DELETING != 0
            });
            next.extend(beside.map(|beside| beside.position));
            next.extend(self.claims_of_set(position).into_iter().map(|(claim, _)| claim));
            if is_beginning && next.is_empty() {
                continue;
            }
            if found.insert(position) {
                pending.extend(next.into_iter().map(|at| (at, false)));
            }
        }
        found
    }
}

fn tied(positions: Option<&Vec<u32>>, tie: Tie) -> Vec<Beside> {
    let positions = positions.into_iter().flatten();
    positions.map(|&position| Beside { position, tie }).collect()
}

fn resource_of(view: ObjectView<'_>) -> Option<Resource> {
    let (group, _) = split_api_version(view.api_version());
    Resource::of_kind(group, view.kind())
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
