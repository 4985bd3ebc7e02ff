//! Matches dependents with the identity of an owner, and finds the alternative to an absent identity
//! ([G-33](crate::rules#g-33) to [G-35](crate::rules#g-35)).
//!
//! Dependents can describe one owner differently, with another kind or namespace. If a lookup shows that one
//! description is wrong, only dependents that share it lose their owner. For the others the graph continues
//! with the next description.

use kubegc_core::{ObjectRef, OwnerReference};

use super::{
    Graph, NodeId,
    names::Namespace,
    record::{Coordinates, Reference},
};

impl Graph {
    /// Partitions dependents by whether their references name exactly this identity
    /// ([G-33](crate::rules#g-33)). A dependent can be in both parts or in neither.
    ///
    /// # Upstream
    /// `partitionDependents` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2.
    pub(super) fn partition(
        &self,
        dependents: &[NodeId],
        coordinates: Coordinates,
        namespace: Namespace,
    ) -> (Vec<NodeId>, Vec<NodeId>) {
        let (mut matching, mut other) = (Vec::new(), Vec::new());
        for &dependent in dependents {
            let own_namespace = self.records[dependent.0].namespace;
            if namespace != Namespace::NONE && own_namespace != namespace {
                other.push(dependent);
                continue;
            }
            let same_uid =
                |reference: &&Reference| self.records.same_uid(reference.coordinates(), coordinates);
            let mut references = self.references(dependent.0).iter().filter(same_uid);
            let agrees = |reference: &Reference| reference.coordinates() == coordinates;
            if references.clone().any(agrees) {
                matching.push(dependent);
            }
            if !references.all(agrees) {
                other.push(dependent);
            }
        }
        (matching, other)
    }

    /// The next identity under which these dependents know the absent owner ([G-35](crate::rules#g-35)), in
    /// the order of [G-34](crate::rules#g-34) with wrap-around.
    ///
    /// # Upstream
    /// `getAlternateOwnerIdentity` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2.
    pub(super) fn alternate_identity(&self, dependents: &[NodeId], absent: &ObjectRef) -> Option<ObjectRef> {
        let absent_is_cluster_scoped = absent.namespace.is_empty();
        let mut first: Option<ObjectRef> = None;
        let mut first_after: Option<ObjectRef> = None;
        for &dependent in dependents {
            let namespace = self.namespaces.name(self.records[dependent.0].namespace);
            for reference in self
                .owners(dependent)
                .filter(|reference| reference.uid == absent.uid)
            {
                if names(&reference, absent) && (absent_is_cluster_scoped || *namespace == absent.namespace) {
                    continue;
                }
                let same_kind = reference.api_version == absent.api_version && reference.kind == absent.kind;
                // The kind is known to be cluster-scoped.
                let is_cluster_scoped = absent_is_cluster_scoped && same_kind;
                let candidate = reference.object_ref(match is_cluster_scoped {
                    true => "".into(),
                    false => namespace.clone(),
                });
                if candidate == *absent {
                    continue;
                }
                if candidate > *absent && first_after.as_ref().is_none_or(|known| candidate < *known) {
                    first_after = Some(candidate.clone());
                }
                if first.as_ref().is_none_or(|known| candidate < *known) {
                    first = Some(candidate);
                }
            }
        }
        first_after.or(first)
    }
}

/// Whether the reference has exactly the coordinates of the identity.
fn names(reference: &OwnerReference, identity: &ObjectRef) -> bool {
    reference.uid == identity.uid
        && reference.name == identity.name
        && reference.kind == identity.kind
        && reference.api_version == identity.api_version
}
