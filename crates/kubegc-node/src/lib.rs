//! The kubelet's garbage collection as pure planners: which dead containers, sandboxes, log files and images
//! are removed, which are kept, and why.
//!
//! Each planner takes one [`Inventory`] of the node and a time. It returns actions in the order in which to
//! perform them, a reason for everything that is kept, and findings about inconsistent facts. The rules are
//! listed, with links to upstream, in [`rules`]. The directories of pods that no longer exist
//! ([`cleanupOrphanedPodDirs`][volumes]) are not covered: no dump and no runtime lists them.
//!
//! | planner | subject | upstream |
//! |---|---|---|
//! | [`container::EvictUnits`] | dead containers | [`evictContainers`][gc] |
//! | [`sandbox::EvictSandboxes`] | sandboxes | [`evictSandboxes`][gc] |
//! | [`log::EvictLogs`] | pod log directories and links to container logs | [`evictPodLogsDirectories`][gc] |
//! | [`image::FreeSpace`] | images | [`image_gc_manager.go`][images] |
//! | [`eviction`] | resources that are reclaimed before pods are evicted | [`reclaimNodeLevelResources`][eviction-manager] |
//!
//! [gc]: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go
//! [images]: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go
//! [volumes]: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet_volumes.go
//! [eviction-manager]: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go
//!
//! Each removal of an image depends on the result of the last one, so that planner also has a state machine
//! ([`image::Run`]) that takes the result of each step. The [`driver`] performs plans and steps over a
//! [`Runtime`](kubegc_core::Runtime).
//!
//! # Guarantees
//! - **No action on missing facts.** A planner whose listing is missing plans nothing.
//! - **No running container, ready sandbox, pinned image or image in use is removed.**
//! - **Exact per version.** [`semantics`] lists each difference between releases.
//! - No I/O, no clock, no hidden state: the caller passes the image records in, and each plan returns the new
//!   ones.

#[macro_use]
mod text;

mod aggregate;
mod bytes;
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
pub mod policy;
#[doc = include_str!("../RULES.md")]
pub mod rules {}
pub mod sandbox;
pub mod semantics;
mod subject;

pub use aggregate::aggregate;
pub use bytes::Bytes;
pub use driver::{Environment, Node};
pub use duration::GoDuration;
pub use event::{Event, EventKind};
pub use inventory::{Inventory, Listing, Unlisted};
pub use order::Order;
pub use policy::{Policy, PolicySpec};
pub use semantics::Semantics;
pub use subject::Subject;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
