//! Chooses which images of a node are removed, least recently used first, and says why the others stay.
//!
//! A pass lists images and containers and brings the [`Records`] up to date: when each image was first seen, when last in use. Images neither in
//! use nor pinned are candidates, ordered by last use, then by first detection. Those unused for longer than the maximum age go. Where the disk is
//! as full as the high threshold, candidates old enough go until the listed sizes add up to what the low threshold asks for.
//!
//! # Guarantees
//! Never an image that any container, dead or alive, was made from; never a pinned one; nothing at all where images, containers or the disk are
//! unknown. Records are a value: they go in with the [`Inventory`](crate::Inventory) and come out with the [`Summary`].
//!
//! Up to 1.28 images are listed only where the disk is too full: below the threshold such a plan tells of no image.
//!
//! # Assumptions
//! Sizes are those of the listing. Images that share layers free less than their sizes, and a runtime may free later than it answers.
//!
//! # Complexity
//! `n` images and `m` containers: `O(n log n + m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! `pkg/kubelet/images/image_gc_manager.go`. Differences between releases are in [`semantics`](crate::semantics). Among images of equal use and
//! detection upstream's order is random; here they go by key. Where a container names no image upstream takes it to use none; here the pass fails.

mod choice;
mod detect;
mod error;
mod pass;
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
pub use pass::Pass;
pub use policy::{Arithmetic, InvalidThresholds, Policy, Thresholds};
pub use pull_record::{Pruning, PullRecord, PullRecordKept};
pub use reason::{Action, Hook, Reason, RemovedBecause, Subject, Summary};
pub use records::{Record, Records};
pub use step::{Answer, Step};
pub use task::Task;
