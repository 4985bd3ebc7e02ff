//! A Kubernetes cluster in a test: a `kube::Client` without sockets, in which deletion, finalizers and
//! garbage collection behave as in a real cluster.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{
//!     Resource,
//!     api::{Api, DeleteParams, PostParams},
//! };
//! use kubegc_testkit::Cluster;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let cluster = Cluster::builder()
//!     .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}")
//!     .build()?;
//!
//! // Your operator would run here: tokio::spawn(run(cluster.client_as("my-operator"))).
//! let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("my-operator"));
//! let owner = api.get("owner").await?;
//! let mut dependent = ConfigMap::default();
//! dependent.metadata.name = Some("dependent".to_owned());
//! dependent.metadata.owner_references = owner.controller_owner_ref(&()).map(|reference| vec![reference]);
//! let dependent = api.create(&PostParams::default(), &dependent).await?;
//!
//! api.delete("owner", &DeleteParams::foreground()).await?;
//! let settled = cluster.settle().await?;
//! cluster.assert_collected(&owner);
//! cluster.assert_collected(&dependent);
//! // A reference by `controller_owner_ref` does not block: the owner did not wait for its dependent.
//! let by_collector = settled.calls.by("garbage-collector").to_string();
//! assert!(by_collector.contains("blockOwnerDeletion is not set"), "{by_collector}");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! An expectation that is not met is explained, with the requests that led there, failed requests of the
//! operator, and what was forgotten:
//!
//! ```text
//! configmap/dependent -n default
//!   expected: deleted
//!        got: not being deleted
//!   its owner configmap/owner no longer exists
//!   its owner configmap/other exists
//!   requests:
//!     +0s client create configmaps default/dependent -> 201
//!     +0s client delete configmaps default/owner -> 200
//!   it is deleted once its owner configmap/other is deleted
//! ```
//!
//! # Features
//!
//! | To do | Use |
//! |---|---|
//! | begin with kinds, objects, a version, a time, a seed | [`Cluster::builder`] |
//! | bring Deployments, StatefulSets, DaemonSets and Jobs to life | [`Builder::workloads`], with rules for pods and claims: [`Workloads`] |
//! | lose a node, run a CronJob now | [`Cluster::lose_node`], [`create_job_from`](Cluster::create_job_from) |
//! | talk to the cluster | [`Cluster::client`], [`client_as`](Cluster::client_as), [`client_in`](Cluster::client_in) |
//! | run operators and collector until all are idle | [`Cluster::settle`]; with time passing: [`settle_within`](Cluster::settle_within) |
//! | act between two requests of the collector | [`Cluster::step`] |
//! | assert that an object is deleted, survives, or stays terminating | [`assert_collected`](Cluster::assert_collected), [`assert_survives`](Cluster::assert_survives), [`assert_stuck`](Cluster::assert_stuck); without a panic: [`fate`](Cluster::fate) |
//! | name and read objects without kube, or of another version | [`Name::of_object`], [`Cluster::get_as`] |
//! | inspect the requests and their clients | [`Cluster::audit`], a line for each request: made for snapshot tests |
//! | make requests fail, block, lose their responses; end watches | [`Cluster::faults`]; of one client: [`Rule::client`], [`Faults::draw_for`] |
//! | deny requests, also in access reviews | [`Cluster::access`] |
//! | serve logs | [`Cluster::nodes`] |
//! | play webhooks: admission, and the conversion of a definition | [`Cluster::on_admission`], [`Cluster::on_conversion`] |
//! | stop the collector in the middle, start another | [`stop_collector`](Cluster::stop_collector), [`restart_collector`](Cluster::restart_collector) |
//! | run a collector of your own | [`Builder::without_collector`], [`Cluster::server`] |
//! | use another version of kube, or any client over `tower` | [`Cluster::service`], with the feature `client` alone |
//! | use `kubectl`, or a client in another language | [`Cluster::serve`], [`serve_as`](Cluster::serve_as) with a name, [`Cluster::run`] |
//!
//! # Time
//!
//! The cluster has a clock of its own that the test advances. In a test with a paused tokio clock the two are
//! one:
//!
//! ```
//! # mod test {
//! #[tokio::test(start_paused = true)]
//! async fn pods_end() { /* … cluster.settle_within(Duration::from_secs(60)).await … */ }
//! # }
//! ```
//!
//! There requeues of controllers, timeouts of watches, grace periods and the collector's retries happen in
//! their order, in no real time, and the same way in every run. With a running clock, `settle` waits a little
//! in real time for tasks to react ([`Builder::patience`]).
//!
//! A paused clock moves timers, not the machine's time of day. An operator that waits until a time of day
//! (`SystemTime::now()`, `Timestamp::now()`, `Utc::now()`) is woken in time, sees that the time has not come,
//! and waits again. Three ways out: let it measure with `tokio::time::Instant`; give it a clock of its own,
//! in tests [`Cluster::clock`]; or run that test with an unpaused clock and [`Builder::follow_tokio_clock`],
//! where a cluster begins now.
//!
//! # Where it differs from a real cluster
//!
//! [`real`] lists the supported kinds, controllers and finalizers. The differences of the API server are
//! listed with [`http`]. Beyond them:
//!
//! | Subject | A real cluster | Here |
//! |---|---|---|
//! | When the control plane acts | always | in [`settle`](Cluster::settle), [`step`](Cluster::step) and [`run`](Cluster::run) only |
//! | Controllers | all of kube-controller-manager | those that delete objects or remove finalizers (`kubegc_controllers::default_controllers`); those that create workloads with [`Builder::workloads`], see `kubegc_control_plane::workloads` |
//! | Nodes | run pods | pods are objects; those that are being deleted end after their grace period ([`Builder::assumptions`]); with [`Builder::workloads`], pods start, become ready, fail and restart by rules; logs are closures ([`Cluster::nodes`]) |
//! | The collector's watches | are a little late, each in its own time | see every change at once; `kubegc_predict::Cluster` explores the other orders |
//! | The collector's requests | meet errors | do not: [faults](Cluster::faults) are for clients |
//! | Discovery by the collector | every 30 s | at once: a new kind is watched as soon as it is served |
//! | Admission webhooks | are called over HTTPS | are closures ([`Cluster::on_admission`]), called once the cluster is built; time limits, warnings and audit annotations have no effect, a patch of an eviction, binding or scale is refused, and match conditions with `authorizer` cannot be evaluated. `userInfo` has the name of the client; for the control plane it is `system:kube-controller-manager` |
//! | Service accounts | get `default` and the ConfigMap `kube-root-ca.crt` in each namespace from controllers, a moment later | `default` exists at once, the ConfigMap does not; up to 1.20, pods get no volume with a token |
//! | Quotas | refuse requests | there are none; types, defaults and validation of the kinds that operators use are those of the API server ([`Builder::types`]) |
//! | Users and roles | decide who may do what | rules of the test do ([`Cluster::access`]); without them every user may do everything |

#![cfg_attr(
    not(feature = "client"),
    allow(dead_code, unused_imports, reason = "the HTTP layer alone has no clients")
)]

#[cfg(feature = "client")]
mod assert;
#[cfg(feature = "client")]
mod audit;
#[cfg(feature = "client")]
mod body;
#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "client")]
mod cluster;
#[cfg(feature = "client")]
mod fate;
#[cfg(feature = "client")]
mod fault;
pub mod http;
#[doc = include_str!("real.md")]
pub mod real {}
#[cfg(feature = "loopback")]
mod loopback;
#[cfg(feature = "client")]
mod nodes;
#[cfg(feature = "client")]
mod service;

#[cfg(feature = "client")]
pub use self::{
    audit::{Audit, Entry},
    body::ResponseBody,
    clock::ClusterClock,
    cluster::{Access, BuildError, Builder, Cluster, Faults, Name, NotSettled, Rest, Running, Settled},
    fate::{Fate, ObjectState, Owner, OwnerState},
    fault::{Fault, Rule},
    nodes::{Log, NodeError, Nodes},
    service::ClusterService,
};
#[doc(no_inline)]
#[cfg(feature = "client")]
pub use kubegc_control_plane::{
    Assumptions, Refusal, RefusedBy, Step,
    workloads::{ClaimFate, PodFate, Subject, Workloads},
};
#[doc(no_inline)]
pub use kubegc_core::{Clock, KubernetesVersion, ObjectRef, RequestMatcher, Timestamp};
pub use kubegc_sim::{Admission, SharedApiServer};
#[cfg(feature = "loopback")]
pub use loopback::Loopback;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
