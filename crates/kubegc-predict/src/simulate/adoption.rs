//! Owners that may adopt an object, and orphans that an owner may adopt, by label selectors.

use kubegc_control_plane::Simulation;
use kubegc_core::{
    ObjectMeta,
    record::{Body, Record, Resource},
};

use super::end;
use crate::facts::Facts;

/// The resources whose objects are adopted, each with those of the owners.
const ADOPTED: [(Resource, Resource); 3] = [
    (Resource::ControllerRevisions, Resource::DaemonSets),
    (Resource::Pods, Resource::ReplicaSets),
    (Resource::ReplicaSets, Resource::Deployments),
];

impl Facts {
    /// The owners that may adopt an object that has lost the controller of the dump in a simulation.
    ///
    /// # Complexity
    /// O(n) for n owners of one resource in the namespace.
    pub(crate) fn adopters(&self, position: u32, simulation: &Simulation) -> Vec<u32> {
        let resource = self.resource_at(position);
        let Some((_, owners)) = ADOPTED.iter().find(|(of, _)| Some(*of) == resource) else {
            return Vec::new();
        };
        let object = self.view(position).meta();
        let (Some(now), Some(before)) = (end(simulation, self.view(position)), object.controller()) else {
            return Vec::new();
        };
        if now.controller().is_some_and(|owner| owner.uid == before.uid) {
            return Vec::new();
        }
        let owners = self.content_of(*owners, &object.namespace);
        owners
            .filter(|owner| may_select(&self.record(*owner), &object))
            .collect()
    }

    /// The orphans of a resource in the namespace of an owner, in the dump or at the end of a simulation,
    /// that its selector matches or may match.
    ///
    /// # Complexity
    /// O(c) for c objects in the namespace.
    pub(crate) fn adoptable(&self, owner: u32, resource: Resource, simulation: &Simulation) -> Vec<u32> {
        let owner = self.record(owner);
        let is_adoptable = |position: &u32| {
            self.resource_at(*position) == Some(resource) && {
                let (view, meta) = (self.view(*position), self.view(*position).meta());
                let now = end(simulation, view);
                let now = now.as_deref().unwrap_or(&meta);
                now.controller().is_none() && may_select(&owner, &meta)
            }
        };
        let content = self.content(&owner.meta.namespace).iter().copied();
        content.filter(is_adoptable).collect()
    }
}

/// Whether the selector of an owner matches an object, or was not read.
fn may_select(owner: &Record, object: &ObjectMeta) -> bool {
    let selector = match &*owner.body {
        Body::DaemonSet(set) => &set.selector,
        Body::Deployment(deployment) => &deployment.selector,
        Body::ReplicaSet(set) => &set.selector,
        _ => return true,
    };
    selector.known().is_none_or(|selector| selector.matches(object))
}
