//! Discovery: the served kinds, the preferred version of each resource, and the group versions that could not
//! be discovered.
//!
//! # Upstream
//! [`ServerGroupsAndResources` and
//! `ServerPreferredResources`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/discovery/discovery_client.go).

mod documents;
mod preferred;

use futures_util::{StreamExt as _, future::try_join, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, APIResourceList};
use kube::Client;
use kubegc_core::{Catalog, StoreError, identity::join_api_version, store::Discovered};
use serde::de::DeserializeOwned;

use self::{
    documents::AggregatedGroups,
    preferred::{Group, Version},
};
use crate::{
    request::{HttpRequest, JSON, send, unreadable},
    url::Url,
};

/// The media type that requests aggregated discovery; servers before 1.26 respond in the classic form.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// Number of concurrent requests for group versions, in the classic form.
const GROUPS_AT_A_TIME: usize = 10;

/// The served kinds.
///
/// # Errors
/// Neither form of discovery returned a list of groups.
pub(crate) async fn discover(client: &Client, builtin: &Catalog) -> Result<Discovered, StoreError> {
    let (core, named) = try_join(root(client, "/api"), root(client, "/apis")).await?;
    if matches!((&core, &named), (Root::Absent, Root::Absent)) {
        return Err(unreadable("neither /api nor /apis is served to this client"));
    }
    let mut groups = Vec::new();
    for root in [core, named] {
        match root {
            Root::Aggregated(list) => groups.extend(list.groups()),
            Root::Classic(list) => groups.extend(classic(client, list).await),
            Root::Absent => {}
        }
    }
    Ok(preferred::catalog(groups, builtin))
}

enum Root {
    Aggregated(AggregatedGroups),
    Classic(Vec<APIGroup>),
    /// 404 or 403: the path is not served to this client; the other path may be.
    Absent,
}

async fn root(client: &Client, path: &str) -> Result<Root, StoreError> {
    let url = Url::path(path);
    let body = match send(client, HttpRequest::get(&url, AGGREGATED)).await {
        Ok(body) => body,
        // Older servers do not know this media type, and some refuse it instead of ignoring it.
        Err(StoreError::Refused { code: 406, .. } | StoreError::UnsupportedMediaType) => {
            send(client, HttpRequest::get(&url, JSON)).await?
        }
        Err(StoreError::NotFound | StoreError::Refused { code: 403, .. }) => return Ok(Root::Absent),
        Err(error) => return Err(error),
    };
    let kind: documents::Kind = read(&body)?;
    Ok(match kind.kind.as_str() {
        "APIGroupDiscoveryList" => Root::Aggregated(read(&body)?),
        "APIGroupList" => Root::Classic(read::<APIGroupList>(&body)?.groups),
        "APIVersions" => Root::Classic(vec![documents::core_group(read(&body)?)]),
        other => {
            let problem = format!("{path} returned the unexpected kind {other:?}");
            return Err(unreadable(problem));
        }
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(unreadable)
}

async fn classic(client: &Client, list: Vec<APIGroup>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut versions = Vec::new();
    for group in list {
        let named = group
            .preferred_version
            .as_ref()
            .or_else(|| group.versions.first());
        let preferred = named.map(|version| version.version.clone());
        let served = group.versions.into_iter().map(|served| served.version);
        let served = served.filter(|version| !version.is_empty());
        versions.extend(served.map(|version| (groups.len(), group.name.clone(), version)));
        groups.push(Group {
            name: group.name,
            preferred,
            versions: Vec::new(),
        });
    }
    let responses = stream::iter(versions.into_iter().map(|(at, group, version)| async move {
        let api_version = join_api_version(&group, &version);
        let root = if group.is_empty() { "api" } else { "apis" };
        let url = Url::path(&format!("/{root}/{api_version}"));
        let response = send(client, HttpRequest::get(&url, JSON)).await;
        let resources = response.and_then(|body| read::<APIResourceList>(&body));
        if let Err(error) = &resources {
            tracing::warn!(api_version, %error, "a group version has resources that cannot be read");
        }
        let resources = resources
            .map(|list| documents::resources(list, &api_version))
            .map_err(|error| match error {
                StoreError::Unknown { message } | StoreError::Refused { message, .. } => message,
                other => other.to_string(),
            });
        (at, Version { version, resources })
    }));
    // In order: the first version can be the preferred one.
    let mut responses = responses.buffered(GROUPS_AT_A_TIME);
    while let Some((at, version)) = responses.next().await {
        groups[at].versions.push(version);
    }
    groups
}
