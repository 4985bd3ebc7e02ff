//! Planner for dead containers, oldest first.
//!
//! A container is *dead* if it is not running. Dead containers that reached the minimum age form *evict
//! units*: one for each pod uid and container name ([N2.10](crate::rules#n2-10) to
//! [N2.12](crate::rules#n2-12)). These rules apply in this order:
//! 1. If the [state](crate::pod::RemovableState) of the pod allows it, all containers of the unit are
//!    removed.
//! 2. Each unit keeps its newest containers, up to the limit of each unit.
//! 3. If the node exceeds its limit, each unit keeps an equal share of it (integer division, at least one).
//! 4. If that is still too many, the oldest containers of the node are removed.
//!
//! # Guarantees
//! A running container is never removed. The age of a container is the time since its creation, not since its
//! exit. After a failed removal no other container is removed instead. A container in the state unknown is
//! stopped before it is removed.
//!
//! # Complexity
//! `n` containers: `O(n log n)` time for sorting each unit, `O(n)` memory.
//!
//! # Upstream
//! [`pkg/kubelet/kuberuntime/kuberuntime_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go),
//! `evictContainers`, equal from 1.20 to 1.36. Upstream processes units in random order; here they are
//! ordered by pod uid and container name. Upstream panics on a container without metadata; here it is kept
//! and reported.

mod listing;
mod plan;
mod policy;
mod reason;

pub use policy::{EvictUnits, InvalidAge, Limits, Mode};
pub use reason::{Action, Reason, RemovalReason, Summary};

pub use crate::Subject;
