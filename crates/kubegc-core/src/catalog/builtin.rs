//! The kinds that each release serves, where they were served before, and how their objects are deleted.

use super::{ApiResource, DefaultDeletion, Scope};
use crate::KubernetesVersion;

/// The resources of one release.
pub(super) fn resources(_version: KubernetesVersion) -> Vec<ApiResource> {
    let mut all = vec![
        ApiResource::new("v1", "Pod", "pods", Scope::Namespaced),
        ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced),
        ApiResource::new("v1", "Secret", "secrets", Scope::Namespaced),
        ApiResource::new("v1", "ServiceAccount", "serviceaccounts", Scope::Namespaced),
        ApiResource::new(
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            Scope::Namespaced,
        ),
        ApiResource::new("v1", "Event", "events", Scope::Namespaced),
        ApiResource::new("v1", "Node", "nodes", Scope::Cluster),
        ApiResource::new("v1", "Namespace", "namespaces", Scope::Cluster),
        ApiResource::new("apps/v1", "Deployment", "deployments", Scope::Namespaced),
        ApiResource::new("apps/v1", "ReplicaSet", "replicasets", Scope::Namespaced),
        ApiResource::new("batch/v1", "Job", "jobs", Scope::Namespaced),
        ApiResource::new("networking.k8s.io/v1", "Ingress", "ingresses", Scope::Namespaced),
        ApiResource::new(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "clusterroles",
            Scope::Cluster,
        ),
        ApiResource::new(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            Scope::Cluster,
        ),
    ];
    for resource in &mut all {
        match &*resource.kind {
            "ReplicationController" | "Job" => resource.default_deletion = DefaultDeletion::Orphan,
            "Event" => resource.default_deletion = DefaultDeletion::Unsupported,
            "Pod" | "ServiceAccount" | "Namespace" => resource.delete_returns_object = true,
            _ => {}
        }
    }
    all
}
