//! Chooses which dead containers of a node are removed, oldest first, and says why the others stay.
//!
//! Dead containers older than the minimum age form *evict units*: one for each pod uid and container name. Then, in this order: all of a unit goes
//! whose pod is gone; each unit keeps its newest, up to its limit; where the node still has more than its limit, each unit keeps an equal share of
//! it (divided in integers, at least one); where that is still too many, the oldest of the node go.
//!
//! # Guarantees
//! Never a running container. Ages count from creation, never from the end. A failed removal is not made up for by another. What the runtime is
//! not sure has ended is stopped first.
//!
//! # Complexity
//! `n` containers in `u` units: `O(n log n)` time for sorting ids' hashes and each unit, `O(n)` memory.
//!
//! # Upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `evictContainers`, alike from 1.20 to 1.36. Upstream visits units in random order; here they go by pod
//! uid and container name. A container without metadata would crash upstream; here it stays and is told.

mod listing;
mod pass;
mod plan;
mod policy;
mod reason;
mod units;

pub use pass::{Failed, Pass, Step};
pub use policy::{InvalidAge, Limits, Occasion, Policy};
pub use reason::{Action, Reason, RemovedBecause, Subject, Summary};
