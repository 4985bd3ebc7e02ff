//! kube-rs adapter: the object store over a client, the collector and the controllers against an API server,
//! and snapshots of live clusters.
//!
//! This crate decides nothing about garbage: [`kubegc_objects`] and [`kubegc_controllers`] decide, and
//! [`KubeStore`] sends the requests.
//!
//! | item | does |
//! |---|---|
//! | [`KubeStore`] | the API server as [`kubegc_core::ObjectStore`], by metadata only |
//! | [`GarbageCollector`] | the collector for a live API server |
//! | [`ControllerManager`] | a selection of the [controllers](#controllers) for a live API server |
//! | [`snapshot`](snapshot()) | the objects of a cluster, for predictions, with the completeness of each kind |
//! | [`TokioClock`] | tokio's time as [`kubegc_core::Clock`] |
//! | [`rbac`] | the least rules that the API server must grant |
//! | [`metrics`] | the metrics that are recorded |
//!
//! # Failures
//!
//! Responses are mapped to [`kubegc_core::StoreError`]:
//!
//! | response | class | was the write performed? |
//! |---|---|---|
//! | 404 with a `Status` that names the object; any 404 at a collection | `NotFound` | no |
//! | any other 404 at an object: a proxy's, or of a version that is no longer served. It does not prove absence | `Refused` | no |
//! | 409 (conflicts, failed preconditions, names that exist) | `Conflict` | no |
//! | 410, or an `ERROR` event with that code or the reason `Expired`; 504 with the cause `ResourceVersionTooLarge` | `Expired` | no |
//! | 415 | `UnsupportedMediaType` | no |
//! | 422 | `Invalid` | no |
//! | 400, 401, 403, 405, 429 and every other 4xx | `Refused`, with `Retry-After` or `details.retryAfterSeconds` | no |
//! | 408, 5xx, redirects | `Unknown` | perhaps |
//! | no response: the connection broke, or 60 s passed | `Unknown` | perhaps |
//! | a success that cannot be read | `Unknown` | perhaps |
//! | not sent: an object of a namespaced kind without a namespace, or the reverse | `NotFound` | no |
//! | not sent: a name that cannot be part of a path, such as the empty one | `Refused` | no |
//!
//! # Features
//!
//! - `rustls-tls`: https clusters, with rustls and ring.
//! - `leader-election`: `leader_election` of `GarbageCollector` and `ControllerManager`, by a Lease.
//!
//! The program chooses the version of the API types with a feature of `k8s-openapi`, as kube requires. This
//! crate does not depend on the choice.
//!
//! # Upstream
//!
//! The collector sends upstream's requests; bodies of PATCH and DELETE are upstream's byte for byte with
//! [`Hardening::AsUpstream`](kubegc_objects::settings::Hardening). The differences:
//!
//! - **Preconditions.** By default ([`Hardening::Strict`](kubegc_objects::settings::Hardening)) every DELETE
//!   expects the uid and the resourceVersion that the decision was made on. Upstream expects the uid only;
//!   from 1.34 on it expects the resourceVersion as well, though not when it repeats a DELETE after a
//!   conflict. By default a DELETE that follows the collector's own patch expects the version that the patch
//!   returned, where upstream's expects the version read before and meets a conflict. By default a finalizer
//!   is removed only from the object with the expected uid.
//! - **Headers and parameters.** `User-Agent: kubegc/VERSION`; `fieldManager=kubegc` on PATCH and PUT, where
//!   upstream leaves it to the API server, which takes it from the user agent; `Content-Type:
//!   application/json` on DELETE, where upstream sends none.
//! - **Encoding.** Metadata, lists and discovery are read as JSON. Upstream reads protobuf, which is smaller.
//! - **Lists.** As with upstream's reflector, the API server serves the list before a watch from its watch
//!   cache: the first one with `limit=500&resourceVersion=0`, later ones with the version of the last event
//!   and without a limit, and as a consistent list if the server does not have that version. A list whose
//!   next page has expired is restarted up to three times; upstream reads it again without pages. Initial
//!   lists are never streamed through a watch (`sendInitialEvents`), as newer releases can do. Lists for
//!   [snapshots](snapshot()) are consistent and read in pages. A response may have up to 1 GiB.
//! - **Rate.** Upstream's client keeps to 20 requests a second. Here the requests in flight are bounded
//!   ([`GarbageCollector::calls_in_flight_max`]).
//!
//! # Controllers
//!
//! [`ControllerManager`] runs controllers of [`kubegc_controllers`] by upstream's names, and controllers of
//! the program's own, which implement [`Controller`](kubegc_controllers::Controller). It shares with
//! [`GarbageCollector`] the wait for the API server, leader election, the publication of Events and the
//! metrics. [`rbac::for_controllers`] renders the roles that a choice needs.
//!
//! Differences from kube-controller-manager, in addition to those above and those of each controller's model
//! (`not_covered.md` of `kubegc-controllers`):
//!
//! | | kube-controller-manager | [`ControllerManager`] |
//! |---|---|---|
//! | writes | PUT for most updates, PATCH for some | reads the object, then PATCH with uid and resourceVersion; PUT only to `finalize` of namespaces |
//! | preconditions | as each controller has them | all, unless [`Wire::AsUpstream`](kubegc_controllers::Wire::AsUpstream) is chosen |
//! | workers | per controller, such as 5 or 10 | 5 tasks at a time for all controllers together ([`workers`](ControllerManager::workers)) |
//! | lists | from the watch cache, in pages only if needed | consistent, in pages of 500 |
//! | a resource that cannot be listed | controllers that read it wait | the same fact is unknown, and only what depends on it is not done |
//! | identity | one ServiceAccount per controller (`--use-service-account-credentials`) | that of the client |
//! | lost leadership | the process exits | tasks in flight are finished, others do not begin; everything is listed again when it is regained |
//! | Events | similar ones are aggregated, equal ones counted | each is published, up to 25 in a row per object and one in five minutes then |
//! | cloud provider, volume plugins | built in, or of the CSI driver | [`outside`](ControllerManager::outside); without it, objects that need their response are kept |
//! | flags of controllers | `--terminated-pod-gc-threshold` and others | upstream's defaults; other values with [`controller`](ControllerManager::controller) |

mod collect;
mod controllers;
mod discovery;
mod error;
mod events;
#[cfg(feature = "leader-election")]
mod leader;
pub mod metrics;
pub mod rbac;
mod request;
mod retry;
mod snapshot;
mod store;
mod terms;
mod url;

pub use collect::{GarbageCollector, Summary};
pub use controllers::{ControllerManager, ControllersSummary};
pub use error::Error;
pub use kubegc_tokio::TokioClock;
#[cfg(feature = "leader-election")]
pub use leader::LeaderElection;
pub use snapshot::{SnapshotOptions, snapshot};
pub use store::KubeStore;

use kube::Client;
use kubegc_core::KubernetesVersion;

use request::{HttpRequest, JSON, send, unreadable};
use url::Url;

/// A client for the cluster that the environment or the kubeconfig points to, as [`KubeStore`] needs it: it
/// repeats no request by itself.
///
/// `Client::try_default` repeats requests with a 429, 503 or 504 response, including writes. If a write was
/// performed and its response was 504, the second attempt is refused. That is indistinguishable from a write
/// that never happened.
///
/// # Errors
/// No cluster is configured, or its configuration cannot be used.
pub async fn client() -> Result<Client, Error> {
    let mut config = kube::Config::infer()
        .await
        .map_err(|error| Error::Configuration {
            message: error.to_string(),
        })?;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Error::Configuration {
        message: error.to_string(),
    })
}

/// The version that the API server reports. A version that is newer than those that kubegc knows is accepted,
/// with a warning in the log.
///
/// # Errors
/// The API server does not respond, or reports a version that kubegc does not know.
pub async fn version(client: &Client) -> Result<KubernetesVersion, Error> {
    let url = Url::path("/version");
    let response = send(client, HttpRequest::get(&url, JSON)).await;
    let info = response.and_then(|body| {
        serde_json::from_slice::<k8s_openapi::apimachinery::pkg::version::Info>(&body).map_err(unreadable)
    });
    let info = info.map_err(|source| Error::Version { source })?;
    let read = info.git_version.parse::<KubernetesVersion>();
    let version = read.map_err(|source| Error::UnknownVersion {
        version: info.git_version,
        source,
    })?;
    if let Some(warning) = version.warning() {
        tracing::warn!("{warning}");
    }
    Ok(version)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
