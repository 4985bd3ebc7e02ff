//! The object store over a client: decides how each operation is put into requests, and nothing else.

mod watch;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt as _, Collected};
use kube::{Client, client::Body};
use kubegc_core::{
    ApiResource, Catalog, DeleteOptions, KubernetesVersion, ObjectMeta, ObjectStore, PatchType,
    ResourceVersion, StoreError, WatchStream,
    deletion::{Deleted, Propagation},
    store::{Address, Discovered, MetaList, ObjectList},
};
use serde::Serialize;
use serde_json::Value;

use self::watch::Watch;
use crate::{
    discovery,
    request::{self, HttpRequest, JSON, check_status, open, send, unreadable},
    url::{self, Url, not_sent},
};

/// Page size of lists, as in upstream's reflectors and kubectl. API servers ignore it when they respond from
/// their watch cache.
const PAGE_OBJECTS: &str = "500";
/// Maximum number of restarts of a list because its next page was too old.
const RESTARTS_MAX: u32 = 3;
const FIELD_MANAGER: &str = "kubegc";

const META: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// An API server behind a [`kube::Client`], as a collector needs it.
///
/// Only metadata is requested, except in [`get_object`](ObjectStore::get_object),
/// [`list_objects`](ObjectStore::list_objects) and [`replace_finalizers`](ObjectStore::replace_finalizers).
/// Failures are classified by the [crate's table](crate#failures). Clones share the client.
///
/// # Assumptions
/// The client's middleware must not repeat writes: [`client`](crate::client) makes such a client.
/// `Client::try_default` repeats requests with a 429, 503 or 504 response, and a write that was performed
/// then seems refused.
#[derive(Clone)]
pub struct KubeStore {
    client: Client,
    builtin: Arc<Catalog>,
}

impl std::fmt::Debug for KubeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeStore").finish_non_exhaustive()
    }
}

impl KubeStore {
    /// A store over a client. The version determines how built-in kinds are deleted, which discovery does not
    /// contain.
    pub fn new(client: Client, version: KubernetesVersion) -> Self {
        Self {
            client,
            builtin: Arc::new(Catalog::builtin(version)),
        }
    }

    pub const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn builtin(&self) -> &Catalog {
        &self.builtin
    }

    /// The pages of a list as JSON. Each is checked to be a list.
    pub(crate) async fn raw_list(
        &self,
        resource: &ApiResource,
        whole: bool,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let url = url::collection(resource, None)?;
        let mut texts = wire::Texts::default();
        let accept = if whole { JSON } else { META_LIST };
        let read = |pages: &mut Vec<Vec<u8>>, body: &[u8]| {
            let more = wire::page(body, &mut MetaList::default(), &mut texts)?;
            pages.push(body.to_vec());
            Ok(more)
        };
        self.pages(&url, accept, Freshness::Consistent, read).await
    }

    async fn write(
        &self,
        method: Method,
        address: Address<'_>,
        subresource: Option<&str>,
        media_type: &'static str,
        body: Vec<u8>,
    ) -> Result<ObjectMeta, StoreError> {
        let url = url::object(address, subresource)?.query("fieldManager", FIELD_MANAGER);
        let request = HttpRequest::new(method, &url, META)
            .content(media_type, body)
            .about(address.name);
        // The write was performed; an unreadable response leaves its outcome unknown.
        let response = send(&self.client, request).await?;
        wire::object(&response).map_err(unreadable)
    }

    async fn read(&self, address: Address<'_>) -> Result<Bytes, StoreError> {
        let url = url::object(address, None)?;
        send(&self.client, HttpRequest::get(&url, JSON).about(address.name)).await
    }

    async fn list_meta(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        freshness: Freshness<'_>,
    ) -> Result<MetaList, StoreError> {
        let url = url::collection(resource, namespace)?;
        let mut texts = wire::Texts::default();
        let read = |list: &mut MetaList, body: &[u8]| wire::page(body, list, &mut texts);
        self.pages(&url, META_LIST, freshness, read).await
    }

    /// Reads a list page by page, from the beginning if the next page is too old.
    async fn pages<T: Default>(
        &self,
        url: &Url,
        accept: &str,
        freshness: Freshness<'_>,
        mut read: impl FnMut(&mut T, &[u8]) -> Result<Option<String>, String>,
    ) -> Result<T, StoreError> {
        let mut list = T::default();
        let mut restarts = 0;
        let mut token: Option<String> = None;
        loop {
            let next = match &token {
                Some(token) => url.clone().query("limit", PAGE_OBJECTS).query("continue", token),
                None => freshness.first_page(url.clone()),
            };
            match send(&self.client, HttpRequest::get(&next, accept)).await {
                Ok(response) => match read(&mut list, &response).map_err(unreadable)? {
                    Some(more) if token.as_ref() == Some(&more) => {
                        return Err(unreadable("the list repeats an earlier continue token"));
                    }
                    Some(more) => token = Some(more),
                    None => return Ok(list),
                },
                // The next page is of a state that the server no longer has.
                Err(StoreError::Expired) if token.is_some() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    (list, token) = (T::default(), None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a watch. Returns the body of the response, and the requested duration of the watch in seconds.
    async fn open_watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
        accept: &str,
    ) -> Result<(Body, u64), StoreError> {
        let seconds = watch::seconds(&resource.resource);
        let mut url = url::collection(resource, None)?
            .query("watch", "true")
            .query("timeoutSeconds", &seconds.to_string())
            .query("allowWatchBookmarks", "true");
        if !since.is_empty() {
            url = url.query("resourceVersion", since.as_str());
        }
        let opening = open(&self.client, HttpRequest::get(&url, accept), true);
        let response = tokio::time::timeout(request::TIMEOUT, opening).await;
        let response = response.unwrap_or_else(|_| {
            Err(StoreError::Unknown {
                message: "the watch was not opened in time".to_owned(),
            })
        })?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok((body, seconds));
        }
        let said = tokio::time::timeout(request::TIMEOUT, body.collect()).await;
        let said = said.ok().and_then(Result::ok).map(Collected::to_bytes);
        match check_status(parts.status, &parts.headers, &said.unwrap_or_default()) {
            Err(error) => Err(error),
            Ok(()) => Err(unreadable("the watch was refused with a success")),
        }
    }
}

/// The required freshness of a list.
///
/// # Upstream
/// `relistResourceVersion` and `list` in [`reflector.go`, 1.36](
/// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/tools/cache/reflector.go).
#[derive(Clone, Copy)]
enum Freshness<'a> {
    /// As new as the request: read from etcd, or from a watch cache that has caught up with it.
    Consistent,
    /// Of this version or newer, of any version if it is empty: read from the watch cache.
    AtLeast(&'a ResourceVersion),
}

impl Freshness<'_> {
    /// The URL of the first page. Later pages show the same state as the first.
    fn first_page(self, url: Url) -> Url {
        match self {
            Self::Consistent => url.query("limit", PAGE_OBJECTS),
            Self::AtLeast(version) if version.is_empty() => {
                url.query("limit", PAGE_OBJECTS).query("resourceVersion", "0")
            }
            // With a limit, API servers would read exactly this version from etcd.
            Self::AtLeast(version) => url.query("resourceVersion", version.as_str()),
        }
    }
}

/// The body of a DELETE, with upstream's fields in upstream's order and upstream's line break at the end.
///
/// # Upstream
/// `DeleteOptions` and `Preconditions` in [`types.go` of meta/v1](
/// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteBody<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<PreconditionsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PreconditionsBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

fn delete_body(options: &DeleteOptions) -> Result<Vec<u8>, StoreError> {
    let uid = options.preconditions.uid.as_ref().map(ToString::to_string);
    let resource_version = options
        .preconditions
        .resource_version
        .as_ref()
        .map(ResourceVersion::as_str);
    let (propagation_policy, orphan_dependents) = match options.propagation {
        Some(Propagation::Policy(policy)) => (Some(policy.as_str()), None),
        Some(Propagation::OrphanDependents(orphan)) => (None, Some(orphan)),
        None => (None, None),
    };
    let body = DeleteBody {
        kind: "DeleteOptions",
        api_version: "v1",
        grace_period_seconds: options.grace_period_seconds,
        preconditions: (uid.is_some() || resource_version.is_some()).then_some(PreconditionsBody {
            uid,
            resource_version,
        }),
        orphan_dependents,
        propagation_policy,
        dry_run: options.dry_run.then_some(["All"]),
    };
    let mut json = serde_json::to_vec(&body)
        .map_err(|error| not_sent(format!("DeleteOptions cannot be written as JSON: {error}")))?;
    json.push(b'\n');
    Ok(json)
}

/// Whether the object in the response of a DELETE no longer exists.
///
/// The response to a completed deletion is a status or, for some kinds, the object as it was. The response to
/// an incomplete one is the object with its deletion marks. Namespaces are marked without a grace period, and
/// stay.
fn deleted(meta: ObjectMeta) -> Deleted {
    let over =
        meta.finalizers.is_empty() && (!meta.is_deleting() || meta.deletion_grace_period_seconds == Some(0));
    if over {
        Deleted::Removed
    } else {
        Deleted::Terminating(Box::new(meta))
    }
}

#[async_trait]
impl ObjectStore for KubeStore {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        discovery::discover(&self.client, &self.builtin).await
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        let url = url::object(address, None)?;
        let response = send(&self.client, HttpRequest::get(&url, META).about(address.name)).await?;
        let meta = wire::object(&response).map_err(unreadable)?;
        if *meta.name != *address.name || *meta.namespace != *address.namespace {
            return Err(unreadable(format_args!(
                "it is about {}/{}",
                meta.namespace, meta.name
            )));
        }
        Ok(meta)
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.list_meta(resource, namespace, Freshness::Consistent).await
    }

    async fn list_for_watch(
        &self,
        resource: &ApiResource,
        at_least: &ResourceVersion,
    ) -> Result<MetaList, StoreError> {
        let cached = Freshness::AtLeast(at_least);
        match self.list_meta(resource, None, cached).await {
            // The server no longer has the version, or does not have it yet.
            Err(StoreError::Expired) => self.list(resource, None).await,
            listed => listed,
        }
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        let (body, seconds) = self.open_watch(resource, since, META).await?;
        Ok(Box::new(Watch::new(body, seconds, wire::meta_of)))
    }

    async fn watch_objects(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
        let (body, seconds) = self.open_watch(resource, since, JSON).await?;
        Ok(Box::new(Watch::new(body, seconds, wire::document_of)))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let url = url::object(address, None)?;
        let request = HttpRequest::new(Method::DELETE, &url, META)
            .content(JSON, delete_body(options)?)
            .about(address.name);
        let response = send(&self.client, request).await?;
        let status: Value = serde_json::from_slice(&response).map_err(unreadable)?;
        if status["kind"] == "Status" {
            return Ok(Deleted::Removed);
        }
        wire::object(&response).map(deleted).map_err(unreadable)
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        let (media_type, body) = (format.content_type(), body.to_vec());
        self.write(Method::PATCH, address, None, media_type, body).await
    }

    async fn replace_finalizers(
        &self,
        address: Address<'_>,
        read_at: &ResourceVersion,
        finalizers: &[Arc<str>],
    ) -> Result<ObjectMeta, StoreError> {
        let whole = self.read(address).await?;
        let mut whole: Value = serde_json::from_slice(&whole).map_err(unreadable)?;
        let Some(meta) = whole.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(unreadable("the object has no metadata"));
        };
        // The server compares the version: what changed since it was read is not overwritten.
        meta.insert("resourceVersion".to_owned(), read_at.as_str().into());
        if finalizers.is_empty() {
            meta.remove("finalizers");
        } else {
            let finalizers: Vec<&str> = finalizers.iter().map(|finalizer| &**finalizer).collect();
            meta.insert("finalizers".to_owned(), finalizers.into());
        }
        let whole = whole.to_string().into_bytes();
        self.write(Method::PUT, address, None, JSON, whole).await
    }

    async fn get_object(&self, address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        Ok(self.read(address).await?.to_vec())
    }

    async fn list_objects(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<ObjectList, StoreError> {
        let url = url::collection(resource, namespace)?;
        let api_version = resource.api_version();
        let read = |objects: &mut ObjectList, body: &[u8]| {
            let mut list: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
            if !list["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) {
                return Err("the response is not a list".to_owned());
            }
            let more = list["metadata"]["continue"].as_str();
            let more = more.filter(|token| !token.is_empty()).map(str::to_owned);
            let version = list["metadata"]["resourceVersion"].as_str();
            objects.resource_version = ResourceVersion::new(version.unwrap_or_default());
            if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
                for mut item in items {
                    let object = item.as_object_mut();
                    let object = object.ok_or("an item of the list is not an object")?;
                    // Items of typed lists have no apiVersion and kind.
                    object
                        .entry("apiVersion")
                        .or_insert_with(|| api_version.as_str().into());
                    object.entry("kind").or_insert_with(|| (&*resource.kind).into());
                    objects.items.push(item.to_string().into_bytes());
                }
            }
            Ok(more)
        };
        self.pages(&url, JSON, Freshness::Consistent, read).await
    }

    async fn patch_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        let (media_type, body) = (format.content_type(), body.to_vec());
        self.write(Method::PATCH, address, Some(subresource), media_type, body)
            .await
    }

    async fn replace_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.write(Method::PUT, address, Some(subresource), JSON, body.to_vec())
            .await
    }

    async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: &str,
        options: &DeleteOptions,
    ) -> Result<(), StoreError> {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        if resource.is_namespaced() != namespace.is_some() {
            return Err(StoreError::NotFound);
        }
        let url = url::collection(resource, namespace)?;
        let body = delete_body(options)?;
        let request = HttpRequest::new(Method::DELETE, &url, META_LIST).content(JSON, body);
        send(&self.client, request).await.map(drop)
    }
}
