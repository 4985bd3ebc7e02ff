//! Replays what was recorded of the owner graph and its two workers.

mod calls;
mod conflicting;
mod format;
mod items;
mod machine;
mod patches;
mod sequence;

use kubegc_core::{ApiResource, Catalog, Scope};

use crate::{Failure, recording::release};

pub(crate) use self::{
    conflicting::replay as replay_conflicting, patches::replay as replay_patch,
    sequence::replay as replay_sequence,
};

/// The kinds that the recorded REST mapper knew.
fn catalog() -> Result<Catalog, Failure> {
    use Scope::{Cluster, Namespaced};
    let mut catalog = Catalog::new();
    for (api_version, kind, resource, scope) in [
        ("v1", "Pod", "pods", Namespaced),
        ("v1", "ConfigMap", "configmaps", Namespaced),
        ("v1", "Secret", "secrets", Namespaced),
        ("v1", "Node", "nodes", Cluster),
        ("apps/v1", "Deployment", "deployments", Namespaced),
        ("apps/v1", "ReplicaSet", "replicasets", Namespaced),
        ("rbac.authorization.k8s.io/v1", "Role", "roles", Namespaced),
        ("rbac.authorization.k8s.io/v1beta1", "Role", "roles", Namespaced),
        ("example.com/v1", "Widget", "widgets", Namespaced),
        ("example.com/v1", "ClusterWidget", "clusterwidgets", Cluster),
    ] {
        let resource = ApiResource::new(api_version, kind, resource, scope);
        let resource = if api_version == "example.com/v1" {
            resource.custom()
        } else {
            resource
        };
        catalog.add(resource).map_err(Failure::unreadable)?;
    }
    Ok(catalog)
}
