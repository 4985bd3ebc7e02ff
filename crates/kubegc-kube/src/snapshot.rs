//! Takes a snapshot of a live cluster for predictions: lists the kinds, and records a reason for each kind
//! that is missing.

use std::num::NonZeroUsize;

use futures_util::{StreamExt as _, stream};
use kube::Client;
use kubegc_core::{ApiResource, Catalog, KubernetesVersion, ObjectStore as _, StoreError, store::Discovered};
use kubegc_objects::Settings;
use kubegc_snapshot::{Live, Snapshot};

use crate::{Error, KubeStore};

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// The Kubernetes version of the cluster; `None` requests it from the API server.
    pub version: Option<KubernetesVersion>,
    /// Maximum number of concurrent lists. Default: 8. A higher number is faster; each list holds the pages
    /// of one kind in memory.
    pub lists_at_a_time: NonZeroUsize,
    /// Resources, as group and name, that are not listed, in addition to those that the garbage collector of
    /// the version ignores (events). Default: none.
    pub left_out: Vec<(String, String)>,
    /// Whether all kinds are read with all fields, as forecasts of what controllers clean up need them.
    /// Default: no.
    pub whole: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            version: None,
            lists_at_a_time: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            left_out: Vec::new(),
            whole: false,
        }
    }
}

/// Kinds that are always read with all fields, because predictions need more than their metadata: the grace
/// period of pods, the finalizers of namespaces, the kinds of CustomResourceDefinitions.
fn is_read_whole(resource: &ApiResource) -> bool {
    matches!(
        (&*resource.group, &*resource.resource),
        ("", "pods" | "namespaces") | ("apiextensions.k8s.io", "customresourcedefinitions")
    )
}

/// Takes a snapshot: the kinds of the cluster, and the metadata of the objects of every kind that can be
/// listed, or [all fields](SnapshotOptions::whole).
///
/// # Guarantees
/// A kind is complete only if all pages of its list were read. Kinds that are forbidden, fail, cannot be
/// listed, or are left out are incomplete with the reason; kinds that are not served are not in the catalog,
/// which is incomplete as well. The cluster is not changed.
///
/// # Assumptions
/// Each list is consistent, but the lists are made at different times. An object that is created or deleted
/// meanwhile may be in one list and not in another.
///
/// # Errors
/// The version or the served kinds cannot be read.
///
/// # Complexity
/// One request for each 500 objects, and one for each kind.
pub async fn snapshot(client: &Client, options: &SnapshotOptions) -> Result<Snapshot, Error> {
    let version = match options.version {
        Some(version) => version,
        None => crate::version(client).await?,
    };
    let store = KubeStore::new(client.clone(), version);
    let discovered = store
        .discover()
        .await
        .map_err(|source| Error::Discovery { source })?;
    let Discovered { catalog, failed } = with_failed(discovered, version);
    let mut live = Live::new(version, catalog.clone());
    let settings = Settings::new(version);
    let mut wanted = Vec::new();
    for (_, resource) in catalog.iter() {
        let left_out =
            |(group, name): &(String, String)| **group == *resource.group && **name == *resource.resource;
        if failed.contains_key(&resource.api_version()) {
            live.unlisted(resource, "its group version has resources that could not be read");
        } else if settings.ignores(resource) {
            live.unlisted(resource, "the garbage collector ignores it");
        } else if options.left_out.iter().any(left_out) {
            live.unlisted(resource, "left out");
        } else if !resource.verbs.list {
            live.unlisted(resource, "it cannot be listed");
        } else if resource.preferred {
            wanted.push(resource);
        }
    }
    let lists = stream::iter(wanted.into_iter().map(|resource| {
        let list = store.raw_list(resource, options.whole || is_read_whole(resource));
        async move { (resource, list.await) }
    }));
    let mut lists = lists.buffered(options.lists_at_a_time.get());
    while let Some((resource, list)) = lists.next().await {
        match list {
            Ok(pages) => live
                .list(resource, pages.iter().map(Vec::as_slice))
                .map_err(|source| Error::Snapshot { source })?,
            Err(error) => {
                tracing::warn!(%resource, %error, "a kind could not be listed");
                live.unlisted(resource, &reason(&error));
            }
        }
    }
    live.finish().map_err(|source| Error::Snapshot { source })
}

/// Adds the built-in kinds of group versions that did not respond: they exist, but their objects are unknown.
fn with_failed(mut discovered: Discovered, version: KubernetesVersion) -> Discovered {
    let builtin = Catalog::builtin(version);
    for (_, resource) in builtin.iter() {
        if discovered.failed.contains_key(&resource.api_version()) {
            // The names are unique, because no resource of the version was discovered.
            let _added = discovered.catalog.add(resource.clone());
        }
    }
    discovered
}

fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Refused {
            code: 403, message, ..
        } => format!("forbidden: {message}"),
        StoreError::NotFound => "it is no longer served".to_owned(),
        error => error.to_string(),
    }
}
