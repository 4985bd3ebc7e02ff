//! kube-rs adapter: the object store over a client, the collector beside an API server, snapshots of live clusters.
//!
//! Nothing is decided here about garbage: [`kubegc_objects`] decides, [`KubeStore`] asks.
//!
//! | item | does |
//! |---|---|
//! | [`KubeStore`] | the API server as [`kubegc_core::ObjectStore`], by metadata only |
//! | [`GarbageCollector`] | the collector beside a live API server, in earnest or as a dry run |
//! | [`snapshot`](snapshot()) | what a cluster holds, for predictions, with completeness known kind by kind |
//! | [`TokioClock`] | tokio's time as [`kubegc_core::Clock`] |
//! | [`rbac`] | the least rules that the API server must grant |
//! | [`metrics`] | the figures that are told |
//!
//! # Failures
//!
//! What an answer means to a collector is [`kubegc_core::StoreError`]:
//!
//! | answer | class | was the write carried out? |
//! |---|---|---|
//! | 404 with a `Status` that names the object; any 404 at a collection | `NotFound` | no |
//! | any other 404 at an object: a proxy's, or of a version that is no longer served. It proves no absence | `Refused` | no |
//! | 409 (conflicts, failed preconditions, names that exist) | `Conflict` | no |
//! | 410, or an `ERROR` event with that code or the reason `Expired` | `Expired` | no |
//! | 415 | `UnsupportedMediaType` | no |
//! | 422 | `Invalid` | no |
//! | 400, 401, 403, 405, 429 and every other 4xx | `Refused`, with `Retry-After` or `details.retryAfterSeconds` | no |
//! | 408, 5xx, redirects | `Unknown` | perhaps |
//! | no answer: the connection broke, or 60 s passed | `Unknown` | perhaps |
//! | a success that cannot be read | `Unknown` | perhaps |
//! | not sent: an object of a namespaced kind without a namespace, or the reverse | `NotFound` | no |
//! | not sent: a name that is no part of a path, such as the empty one | `Refused` | no |
//!
//! A list whose next page expires is begun anew up to three times.
//!
//! # Features
//!
//! - `rustls-tls`: https clusters, with rustls and ring.
//! - `leader-election`: `GarbageCollector::leader_election`, by a Lease.
//!
//! The program chooses the version of the API types with a feature of `k8s-openapi`, as kube asks for; nothing here depends on it.
//!
//! # Upstream
//!
//! Requests are upstream's, byte for byte in the bodies of patches and field by field in `DeleteOptions`. Different are: the `User-Agent`, and `fieldManager=kubegc` on
//! writes, where upstream's is taken from its user agent; discovery and metadata in JSON, not protobuf; `limit=500` on lists. Upstream's client keeps to 20 calls a second; here the calls
//! in flight are bounded ([`GarbageCollector::calls_in_flight_max`]).

mod collect;
mod discovery;
mod dry_run;
mod error;
mod events;
#[cfg(feature = "leader-election")]
mod leader;
pub mod metrics;
pub mod rbac;
mod snapshot;
mod store;

pub use collect::{GarbageCollector, Summary};
pub use dry_run::{DryRunReport, NotFollowed, Terminating, Write};
pub use error::Error;
pub use kubegc_tokio::TokioClock;
#[cfg(feature = "leader-election")]
pub use leader::LeaderElection;
pub use snapshot::{SnapshotOptions, snapshot};
pub use store::KubeStore;

use kube::Client;
use kubegc_core::KubernetesVersion;

/// A client for the cluster that the environment or the kubeconfig points to, as [`KubeStore`] needs it: it repeats no request by itself.
///
/// `Client::try_default` repeats what was answered 429, 503 or 504, writes too. A write that was carried out and answered 504 is then refused at its second
/// try, and looks as if it had never happened.
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

/// The version that the API server says it has.
///
/// # Errors
/// The API server does not answer, or with a version that kubegc does not know.
pub async fn version(client: &Client) -> Result<KubernetesVersion, Error> {
    use store::{
        JSON,
        http::{Ask, send},
        unreadable,
        url::Url,
    };
    let url = Url::path("/version");
    let answer = send(client, Ask::get(&url, JSON)).await;
    let info = answer.and_then(|body| {
        serde_json::from_slice::<k8s_openapi::apimachinery::pkg::version::Info>(&body).map_err(unreadable)
    });
    let info = info.map_err(|source| Error::Version { source })?;
    info.git_version.parse().map_err(|source| Error::UnknownVersion {
        version: info.git_version,
        source,
    })
}
