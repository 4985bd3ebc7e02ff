//! Planner for pod directories that no pod uses any more.
//!
//! A directory `<root>/pods/<uid>` is *orphaned* if no source of pods knows its uid and the runtime runs
//! nothing of it. A path that may still be a volume is only ever removed empty, directory by directory. Up to
//! about 1.20 a directory with remains of a volume is kept forever.
//!
//! # Guarantees
//! - A directory of a known or running pod is never touched, whatever the other facts are. Nor is one with a
//!   volume that is or may be mounted.
//! - Unknown is not absent: if the pods, the running pods, the mounts, the volumes or the entries were not
//!   read, the directory is kept.
//! - Nothing is removed with its content, except on one file system, and never a `volumes` directory that may
//!   contain a file (since about 1.21).
//! - No path leads out of its directory: names such as `..`, and volumes in other places, keep the directory.
//!
//! # Assumptions
//! The executor of a removal follows no links and never enters a mount point; see [`Means`].
//!
//! # Complexity
//! `n` directories with `m` paths and entries in all: `O((n + m) log (n + m))` time, `O(n + m)` memory.
//!
//! # Upstream
//! [`pkg/kubelet/kubelet_volumes.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet_volumes.go),
//! `cleanupOrphanedPodDirs`, a part of housekeeping, every [`PERIOD`]. Differences between releases are
//! fields of [`Settings`]. Deviations: directories, volumes and entries are ordered by name. A directory with
//! an unread part is kept; upstream first removes the volumes that it could read. A path that no longer
//! exists counts as removed; upstream's rmdir fails then. Patch releases 1.21.0 to 1.21.3 removed the whole
//! directory as one tree after its volumes, which lost records of volumes (kubernetes #101911): that is not
//! imitated. Entries of the pods directory that are not directories are ignored.
//!
//! # Examples
//! ```
//! use kubegc_core::{Planner, Timestamp, node_facts::Pods};
//! use kubegc_node::pod_directory::{Directory, Facts, Settings};
//!
//! let mut orphan = Directory::empty("4f1c");
//! orphan.volume_paths = Ok(vec!["volumes/kubernetes.io~empty-dir/cache".into()]);
//! orphan.entries = Ok(vec!["etc-hosts".into(), "volumes".into()]);
//! let facts = Facts {
//!     directories: Ok(vec![orphan]),
//!     pods: Pods { sources_ready: true, ..Pods::default() },
//!     running: Ok([].into()),
//! };
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! let removals: Vec<String> = plan.actions[0].removals().map(ToString::to_string).collect();
//! assert_eq!(removals, [
//!     "rmdir 4f1c/volumes/kubernetes.io~empty-dir/cache",
//!     "rmdir 4f1c/volumes and the directories below it",
//!     "remove 4f1c/etc-hosts with its content",
//!     "rmdir 4f1c",
//! ]);
//!
//! // While something of the pod runs, the directory is kept.
//! let facts = Facts { running: Ok(["4f1c".into()].into()), ..facts };
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert!(plan.actions.is_empty());
//! assert_eq!(plan.kept[0].reason.to_string(), "the runtime still runs its pod");
//! ```

mod action;
mod facts;
mod outcome;
mod pass;
mod path;
mod plan;
mod reason;
mod settings;

pub use action::{Action, Expect, Means, Removal, RemovedBecause};
pub use facts::{Directory, Facts};
pub use outcome::{Failure, Outcome};
pub use pass::{Answer, Pass, Step};
pub use reason::{Error, Gauges, Reason, Subject, Summary};
pub use settings::{PERIOD, Settings};
