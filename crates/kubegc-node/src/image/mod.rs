//! Planner for images: unused images are removed, the least recently used first.
//!
//! A run lists images and containers and updates the [`Records`] with the first detection and the last use of
//! each image. Images that are neither in use nor pinned are candidates, sorted by last use, then by first
//! detection. Candidates that are unused for longer than the maximum age are removed. If the disk usage
//! reaches the high threshold, candidates that reached the minimum age are removed until the sum of their
//! sizes reaches the amount above the low threshold.
//!
//! # Guarantees
//! A pinned image, and the image of a container in any state, is never removed. Nothing is removed if the
//! images, the containers or the disk usage are unknown. Records are a value: the
//! [`Inventory`](crate::Inventory) contains the old ones, the [`Summary`] the new ones.
//!
//! Up to 1.28 images are listed only if the usage reaches the high threshold. Below it a plan contains no
//! images.
//!
//! # Assumptions
//! Sizes are those of the listing ([N3.44](crate::rules#n3-44)). Removing an image frees less than its size
//! if it shares layers, and the runtime can free the space after it responds.
//!
//! # Complexity
//! `n` images and `m` containers: `O(n log n + m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! [`image_gc_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go).
//! [`semantics`](crate::semantics) lists the differences between releases. Images with the same last use and
//! first detection have a random order upstream; here they are sorted by key. Upstream ignores a container
//! without an image; here the run fails.

mod candidates;
mod detect;
mod error;
mod plan;
mod policy;
mod reason;
mod records;
mod run;
mod usage;

pub use error::Error;
pub use policy::{Arithmetic, FreeSpace, InvalidThresholds, Task, Thresholds};
pub use reason::{Action, Hook, Reason, RemovalReason, Summary};
pub use records::{Record, Records};
pub use run::{Response, Run, Step};

pub use crate::Subject;
