//! Kubernetes garbage collection as pure planners: facts, policy and time in; actions with reasons out.
//!
//! This crate holds no logic. It re-exports the parts, each of which can be used alone, and the [`guide`].
//!
//! | module | contents |
//! |---|---|
//! | [`core`] | identity, metadata, deletion options, kinds, versions, the traits of stores, runtimes and clocks |
//! | [`objects`] | owner-reference collection: the graph, the classifier, attempts, patches, the collector |
//! | [`node`] | the kubelet's collection: dead containers, sandboxes, logs, images, reclaim under pressure |
//! | [`controllers`] | the other controllers that delete objects or remove finalizers: one `reconcile` each, a batch planner, a manager, a driver |
//! | [`snapshot`] | readers of dumps: objects, and completeness |
//! | [`sim`] | an API server and a container runtime in memory |
//! | [`control_plane`] | a simulated control plane: the collector, all controllers, kubelets over the API server in memory |
//! | [`predict`] | forecasts of deletes, of a node's removals and of a cluster's clean-up, with reasons |

pub use kubegc_control_plane as control_plane;
pub use kubegc_controllers as controllers;
pub use kubegc_core as core;
pub use kubegc_node as node;
pub use kubegc_objects as objects;
pub use kubegc_predict as predict;
pub use kubegc_sim as sim;
pub use kubegc_snapshot as snapshot;

pub mod guide;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
