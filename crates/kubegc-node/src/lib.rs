//! The kubelet's garbage collection as pure planners: which dead containers, sandboxes, log files and images go, which stay, and why.
//!
//! Every planner takes one [`Inventory`] of the node ([`pod_directory`]: facts of its own) and a time, and gives actions in the order in which to perform them, a
//! reason for all that stays, and what is odd about the facts.
//!
//! | planner | decides about | upstream, `pkg/kubelet/` |
//! |---|---|---|
//! | [`container::Policy`] | dead containers | `kuberuntime/kuberuntime_gc.go` `evictContainers` |
//! | [`sandbox::Policy`] | sandboxes | the same, `evictSandboxes` |
//! | [`log::Policy`] | log directories and links of containers | the same, `evictPodLogsDirectories` |
//! | [`image::Policy`] | images | `images/image_gc_manager.go` |
//! | [`pod_directory::Settings`] | directories of pods that are gone | `kubelet_volumes.go` `cleanupOrphanedPodDirs` |
//! | [`eviction`] | what a node under pressure collects before it evicts pods | `eviction/eviction_manager.go`, `eviction/helpers.go` |
//!
//! Where upstream's next step hangs on how the last one went, the decision also has a resumable face (`Pass`); the driver
//! performs passes over a [`Runtime`](kubegc_core::Runtime).
//!
//! # Guarantees
//! - **Never on missing knowledge.** What was not listed is unknown: a planner whose listing is missing plans nothing.
//! - **Never what runs, what is pinned, what is in use.**
//! - **Exact per version.** What changed between releases is named in [`semantics`] and resolves by itself.
//! - No I/O, no clock, no hidden state: image records are a value that goes in and comes out.

mod aggregate;
pub mod container;
pub mod driver;
pub mod duration;
pub mod event;
pub mod eviction;
pub mod image;
pub mod inventory;
pub mod log;
pub mod order;
pub mod pod;
pub mod pod_directory;
pub mod policy;
pub mod sandbox;
pub mod schedule;
pub mod semantics;

pub use aggregate::aggregate;
pub use driver::{Node, World};
pub use duration::GoDuration;
pub use event::{Event, EventKind, LoopHealth, LoopReport};
pub use inventory::{Inventory, Listing, Unlisted};
pub use order::Order;
pub use policy::{Policy, PolicySpec};
pub use semantics::Semantics;
