//! Discovery: the served kinds, the preferred version of each resource, and the group versions that could not
//! be discovered.
//!
//! # Upstream
//! [`ServerGroupsAndResources` and
//! `ServerPreferredResources`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/discovery/discovery_client.go).

mod documents;
mod preferred;

use futures_util::{StreamExt as _, future::try_join, stream};
use kube::Client;
use kubegc_core::{Catalog, StoreError, identity::join_api_version, store::Discovered};
use serde::de::DeserializeOwned;

use self::{
    documents::{AggregatedGroups, ApiVersions, Groups, ResourceList},
    preferred::{Group, Version},
};
use crate::store::{
    JSON,
    http::{HttpRequest, send},
    unreadable,
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
    Classic(Groups),
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
    match kind.kind.as_str() {
        "APIGroupDiscoveryList" => read(&body).map(Root::Aggregated),
        "APIGroupList" => read(&body).map(Root::Classic),
        "APIVersions" => read::<ApiVersions>(&body).map(|versions| Root::Classic(versions.groups())),
        other => Err(unreadable(format_args!(
            "{path} returned the unexpected kind {other:?}"
        ))),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(unreadable)
}

/// Requests the resources of each group version.
async fn classic(client: &Client, list: Groups) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut versions = Vec::new();
    for group in list.groups {
        for version in &group.versions {
            versions.push((group.name.clone(), version.version.clone(), group.preferred()));
        }
    }
    let versions = versions.into_iter().filter(|(_, version, _)| !version.is_empty());
    let responses = stream::iter(versions.map(|(group, version, preferred)| async move {
        let path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let response = send(client, HttpRequest::get(&Url::path(&path), JSON)).await;
        let resources = response.and_then(|body| read::<ResourceList>(&body));
        if let Err(error) = &resources {
            let api_version = join_api_version(&group, &version);
            tracing::warn!(api_version, %error, "a group version has resources that cannot be read");
        }
        let resources = resources
            .map(ResourceList::resources)
            .map_err(|error| match error {
                StoreError::Unknown { message } | StoreError::Refused { message, .. } => message,
                other => other.to_string(),
            });
        (group, Version { version, resources }, preferred)
    }));
    // In order: the first version can be the preferred one.
    let mut responses = responses.buffered(GROUPS_AT_A_TIME);
    while let Some((name, version, preferred)) = responses.next().await {
        match groups.last_mut() {
            Some(group) if group.name == name => group.versions.push(version),
            _ => groups.push(Group {
                name,
                preferred,
                versions: vec![version],
            }),
        }
    }
    groups
}
