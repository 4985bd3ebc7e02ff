//! A simulated control plane of Kubernetes: predicts every write that follows the deletion of an object.
//!
//! | actor | code |
//! |---|---|
//! | the garbage collector | `kubegc-objects`, as it is |
//! | all other controllers that delete objects or remove finalizers | `kubegc-controllers`, as they are |
//! | kubelets | end pods after their grace period |
//! | the API server's own controllers | delete the custom resources of a terminating CustomResourceDefinition |
//! | the cloud controller manager, CSI sidecars | [`Assumptions`]; remove the [finalizers] that they own |
//! | controllers that create workloads, the scheduler, running pods | [`workloads`], if a test enables them |
//!
//! All actors write to one simulated API server ([`kubegc_sim::ApiServer`]) with one clock. Every write is a
//! [`Step`] with its actor, response, effects and reason. [`ControlPlane`] works step by step, and other
//! clients may write in between; [`Simulation`] runs over time.

mod aggregation;
mod assumptions;
mod calls;
pub mod finalizers;
mod outside;
mod perform;
mod plane;
mod reconcile;
mod refusals;
mod simulation;
mod trace;
pub mod workloads;

pub use aggregation::{AggregatedApi, no_service};
pub use assumptions::{Assumptions, CONTROLLER_MANAGER, Instance};
pub use kubegc_sim::RefusedBy;
pub use outside::kubelet_runs;
pub use perform::Requests;
pub use plane::{ControlPlane, Idle, Settings, StepResult};
pub use reconcile::{add_cloud_responses, list_resource};
pub use refusals::Refusals;
pub use simulation::{QUIET, Simulation};
pub use trace::{Act, Actor, Change, Outcome, Refusal, Step, Trace, Why, object_ref};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
