//! Planner for dead containers, oldest first.
//!
//! Dead containers that reached the minimum age form *evict units*: one for each pod uid and container name
//! ([N2.10](crate::rules#n2-10) to [N2.12](crate::rules#n2-12)). The limits apply in this order. All
//! containers of a unit are removed if the remains of its pod can be removed. Each unit keeps its newest, up
//! to its limit. If the node still has more than its limit, each unit keeps an equal share of it (integer
//! division, at least one). If that is still too many, the oldest containers of the node are removed.
//!
//! # Guarantees
//! A running container is never removed. Ages count from creation, never from the end. A failed removal is
//! not compensated by another one. A container in the state unknown is stopped first.
//!
//! # Complexity
//! `n` containers in `u` units: `O(n log n)` time for sorting ids' hashes and each unit, `O(n)` memory.
//!
//! # Upstream
//! [`pkg/kubelet/kuberuntime/kuberuntime_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go),
//! `evictContainers`, equal from 1.20 to 1.36. Upstream processes units in random order; here they are
//! ordered by pod uid and container name. A container without metadata would crash upstream; here it is kept
//! and reported.

mod listing;
mod run;
mod plan;
mod policy;
mod reason;
mod units;

pub use run::{Failed, Run, Step};
pub use policy::{InvalidAge, Limits, Mode, Policy};
pub use reason::{Action, Reason, RemovalReason, Subject, Summary};
