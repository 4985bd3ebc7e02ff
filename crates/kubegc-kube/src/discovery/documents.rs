//! The documents of aggregated and of classic discovery, reduced to the fields that describe kinds.

use kubegc_core::{Scope, Verbs, identity::join_api_version};
use serde::Deserialize;

use super::preferred::{Group, Resource, Version};

/// The kind of a document.
#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    #[serde(default)]
    pub(super) kind: String,
}

/// `APIVersions`: the versions of the core group.
#[derive(Debug, Deserialize)]
pub(super) struct ApiVersions {
    #[serde(default)]
    versions: Vec<String>,
}

impl ApiVersions {
    /// The core group, in the form of the named groups.
    pub(super) fn groups(self) -> Groups {
        let versions: Vec<GroupVersion> = self
            .versions
            .into_iter()
            .map(|version| GroupVersion { version })
            .collect();
        Groups {
            groups: vec![ApiGroup {
                name: String::new(),
                versions,
                preferred_version: None,
            }],
        }
    }
}

/// `APIGroupList`.
#[derive(Debug, Deserialize)]
pub(super) struct Groups {
    #[serde(default)]
    pub(super) groups: Vec<ApiGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

impl ApiGroup {
    /// The preferred version, by name.
    pub(super) fn preferred(&self) -> Option<String> {
        let named = self.preferred_version.as_ref().or_else(|| self.versions.first());
        named.map(|version| version.version.clone())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GroupVersion {
    #[serde(default)]
    pub(super) version: String,
}

/// `APIResourceList`.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceList {
    #[serde(default)]
    resources: Option<Vec<ClassicResource>>,
}

#[derive(Debug, Deserialize)]
struct ClassicResource {
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

impl ResourceList {
    /// The resources in order, without subresources.
    pub(super) fn resources(self) -> Vec<Resource> {
        let all = self.resources.unwrap_or_default().into_iter();
        all.filter(|resource| !resource.name.contains('/') && !resource.name.is_empty())
            .filter(|resource| !resource.kind.is_empty())
            .map(|resource| Resource {
                verbs: verbs(resource.verbs.as_deref().unwrap_or_default()),
                scope: if resource.namespaced {
                    Scope::Namespaced
                } else {
                    Scope::Cluster
                },
                name: resource.name,
                kind: resource.kind,
            })
            .collect()
    }
}

/// `APIGroupDiscoveryList`.
#[derive(Debug, Deserialize)]
pub(super) struct AggregatedGroups {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Debug, Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Option<Vec<AggregatedVersion>>,
}

#[derive(Debug, Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedVersion {
    #[serde(default)]
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Option<Vec<AggregatedResource>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

impl AggregatedGroups {
    /// The groups in order. The first version of each that is not stale is the preferred one.
    pub(super) fn groups(self) -> impl Iterator<Item = Group> {
        self.items.into_iter().map(|group| {
            let name = group.metadata.name;
            let versions: Vec<Version> = group
                .versions
                .unwrap_or_default()
                .into_iter()
                .filter(|version| !version.version.is_empty())
                .map(|version| version.read(&name))
                .collect();
            let preferred = versions.iter().find(|version| version.resources.is_ok());
            Group {
                name,
                preferred: preferred.map(|version| version.version.clone()),
                versions,
            }
        })
    }
}

impl AggregatedVersion {
    fn read(self, group: &str) -> Version {
        // The API service has become unavailable: its resources may have changed.
        let stale = self.freshness == "Stale";
        let resources = self.resources.unwrap_or_default().into_iter();
        let resources = resources.filter_map(|resource| {
            let kind = resource.response_kind?.kind;
            let scope = match resource.scope.as_str() {
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => return None,
            };
            (!kind.is_empty() && !resource.resource.is_empty()).then(|| Resource {
                verbs: verbs(resource.verbs.as_deref().unwrap_or_default()),
                name: resource.resource,
                kind,
                scope,
            })
        });
        Version {
            resources: if stale {
                let api_version = join_api_version(group, &self.version);
                Err(format!("stale GroupVersion discovery: {api_version}"))
            } else {
                Ok(resources.collect())
            },
            version: self.version,
        }
    }
}

fn verbs(names: &[String]) -> Verbs {
    let has = |verb: &str| names.iter().any(|name| name == verb);
    Verbs {
        delete: has("delete"),
        delete_collection: has("deletecollection"),
        list: has("list"),
        watch: has("watch"),
    }
}
