//! Planner for images, least recently used first.
//!
//! A run lists images and containers and updates the [`Records`] with the first detection and the last use
//! of each image. Images that are neither in use nor pinned are candidates, ordered by last use, then by
//! first detection. Those that are unused for longer than the maximum age are removed. If the disk usage
//! reaches the high threshold, candidates that reached the minimum age are removed until their listed sizes
//! add up to the amount above the low threshold.
//!
//! # Guarantees
//! An image of any container, dead or alive, is never removed, nor a pinned one. Nothing is removed if
//! images, containers or the disk are unknown. Records are a value: they are in the
//! [`Inventory`](crate::Inventory) and returned in the [`Summary`].
//!
//! Up to 1.28 images are listed only if the disk is too full: below the threshold such a plan reports no
//! image.
//!
//! # Assumptions
//! Sizes are those of the listing ([N3.44](crate::rules#n3-44)). Images that share layers free less than
//! their sizes, and a runtime can free space later than it responds.
//!
//! # Complexity
//! `n` images and `m` containers: `O(n log n + m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! [`image_gc_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go).
//! Differences between releases are in
//! [`semantics`](crate::semantics). Among images of equal use and detection upstream's order is random; here
//! they are ordered by key. Upstream ignores a container that names no image; here the run fails.

mod choice;
mod detect;
mod error;
mod run;
mod plan;
mod policy;
mod pull_record;
mod reason;
mod records;
mod step;
mod task;
mod usage;

pub use choice::Candidate;
pub use error::{Error, Wording};
pub use run::Run;
pub use policy::{Arithmetic, InvalidThresholds, Policy, Thresholds};
pub use pull_record::{Pruning, PullRecord, PullRecordKept};
pub use reason::{Action, Hook, Reason, RemovalReason, Subject, Summary};
pub use records::{Record, Records};
pub use step::{Response, Step};
pub use task::Task;
