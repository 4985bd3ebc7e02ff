//! The documents of aggregated and of classic discovery, reduced to the fields that describe kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIResourceList, APIVersions, GroupVersionForDiscovery,
};
use kubegc_core::{ApiResource, Scope, Verbs, identity::join_api_version};
use serde::Deserialize;

use super::preferred::{Group, Version};

#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    #[serde(default)]
    pub(super) kind: String,
}

pub(super) fn core_group(served: APIVersions) -> APIGroup {
    let versions = served.versions.into_iter();
    let versions = versions.map(|version| GroupVersionForDiscovery {
        group_version: version.clone(),
        version,
    });
    APIGroup {
        versions: versions.collect(),
        ..APIGroup::default()
    }
}

/// The resources of a group version in order, without subresources.
pub(super) fn resources(list: APIResourceList, api_version: &str) -> Vec<ApiResource> {
    let all = list.resources.into_iter();
    let all = all.filter(|resource| !resource.name.contains('/'));
    all.filter_map(|found| {
        let scope = match found.namespaced {
            true => Scope::Namespaced,
            false => Scope::Cluster,
        };
        resource(api_version, &found.kind, &found.name, scope, &found.verbs)
    })
    .collect()
}

/// `None` without a name or a kind.
fn resource(
    api_version: &str,
    kind: &str,
    name: &str,
    scope: Scope,
    verbs: &[String],
) -> Option<ApiResource> {
    let has = |verb: &str| verbs.iter().any(|name| name == verb);
    let mut resource = ApiResource::new(api_version, kind, name, scope);
    resource.verbs = Verbs {
        delete: has("delete"),
        delete_collection: has("deletecollection"),
        list: has("list"),
        watch: has("watch"),
    };
    (!kind.is_empty() && !name.is_empty()).then_some(resource)
}

#[derive(Debug, Deserialize)]
pub(super) struct AggregatedGroups {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AggregatedGroup {
    metadata: GroupName,
    versions: Option<Vec<AggregatedVersion>>,
}

#[derive(Debug, Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AggregatedVersion {
    version: String,
    freshness: String,
    resources: Option<Vec<AggregatedResource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregatedResource {
    resource: String,
    response_kind: Option<Kind>,
    scope: String,
    verbs: Option<Vec<String>>,
}

impl AggregatedGroups {
    /// The groups in order. The first version of each that is not stale is the preferred one.
    pub(super) fn groups(self) -> impl Iterator<Item = Group> {
        self.items.into_iter().map(|group| {
            let name = group.metadata.name;
            let versions = group.versions.unwrap_or_default().into_iter();
            let versions = versions.filter(|version| !version.version.is_empty());
            let versions: Vec<Version> = versions.map(|version| version.read(&name)).collect();
            let preferred = versions.iter().find(|version| version.resources.is_ok());
            Group {
                preferred: preferred.map(|version| version.version.clone()),
                name,
                versions,
            }
        })
    }
}

impl AggregatedVersion {
    fn read(self, group: &str) -> Version {
        let api_version = join_api_version(group, &self.version);
        // The API service has become unavailable: its resources may have changed.
        let is_stale = self.freshness == "Stale";
        let resources = self.resources.unwrap_or_default().into_iter();
        let resources = resources.filter_map(|found| {
            let scope = match found.scope.as_str() {
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => return None,
            };
            let (kind, verbs) = (found.response_kind?.kind, found.verbs.unwrap_or_default());
            resource(&api_version, &kind, &found.resource, scope, &verbs)
        });
        Version {
            resources: match is_stale {
                true => Err(format!("stale GroupVersion discovery: {api_version}")),
                false => Ok(resources.collect()),
            },
            version: self.version,
        }
    }
}
