//! Selects the preferred version of each resource, and adds properties of built-in kinds that discovery
//! lacks.
//!
//! # Upstream
//! [`ServerPreferredResources`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/discovery/discovery_client.go):
//! the first version that has the resource, or the group's preferred one if that has it.

use std::collections::BTreeMap;

use kubegc_core::{ApiResource, Catalog, identity::join_api_version, store::Discovered};

/// One group, from either form of discovery.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) preferred: Option<String>,
    /// In the server's order.
    pub(super) versions: Vec<Version>,
}

pub(super) struct Version {
    pub(super) version: String,
    pub(super) resources: Result<Vec<ApiResource>, String>,
}

pub(super) fn catalog(groups: Vec<Group>, builtin: &Catalog) -> Discovered {
    let mut discovered = Discovered::default();
    for group in &groups {
        let mut preferred: BTreeMap<&str, &str> = BTreeMap::new();
        for version in &group.versions {
            let resources = match &version.resources {
                Ok(resources) => resources,
                Err(error) => {
                    let api_version = join_api_version(&group.name, &version.version);
                    discovered.failed.insert(api_version, error.clone());
                    continue;
                }
            };
            let is_preferred = group.preferred.as_deref() == Some(&version.version);
            for resource in resources {
                let preferred_version = preferred.entry(&resource.resource).or_insert(&version.version);
                if is_preferred {
                    *preferred_version = &version.version;
                }
            }
        }
        for version in &group.versions {
            // If two resources of a version have the same kind, the one that can be collected is added first.
            let mut resources: Vec<&ApiResource> = version.resources.iter().flatten().collect();
            resources.sort_by_key(|resource| !resource.verbs.collectable());
            for resource in resources {
                let mut entry = resource.clone();
                entry.preferred = preferred.get(&*resource.resource) == Some(&&*version.version);
                complete(&mut entry, builtin);
                if let Err(error) = discovered.catalog.add(entry) {
                    tracing::debug!(%error, "a resource is skipped");
                }
            }
        }
    }
    discovered
}

/// Sets the properties that discovery lacks.
fn complete(entry: &mut ApiResource, builtin: &Catalog) {
    match builtin.by_resource(&entry.group, &entry.version, &entry.resource) {
        Some(known) => {
            entry.default_deletion = builtin[known].default_deletion;
            entry.delete_returns_object = builtin[known].delete_returns_object;
        }
        // Groups of the API server itself have no custom kinds; metrics are served by the metrics server.
        None => {
            let is_builtin = builtin.iter().any(|(_, known)| known.group == entry.group);
            entry.custom = !is_builtin && !entry.group.ends_with("metrics.k8s.io");
        }
    }
}
