//! Chooses which pod directories of a node are removed because no pod claims them any more, and says why the others stay.
//!
//! A directory `<root>/pods/<uid>` is *orphaned* where no source of pods knows its uid and the runtime runs nothing of it. What may still be a volume is
//! only ever removed empty, directory by directory. Up to about 1.20 a directory with anything left of a volume stays for good.
//!
//! # Guarantees
//! - A directory whose pod is known, or of which something runs, is never touched, whatever else was told. Nor is one with a volume that is or may be mounted.
//! - Unknown is never absent: where the pods, what runs, the mounts, the volumes or the entries were not read, the directory stays.
//! - Nothing is removed with what is below it, except on one file system, and never a `volumes` directory that may hold a file (since about 1.21).
//! - No path leads out of the directory that it is told of: names such as `..`, and volumes that lie elsewhere, keep the directory.
//!
//! # Assumptions
//! Whoever performs a removal follows no links and never enters a mount point; see [`Means`].
//!
//! # Complexity
//! `n` directories with `m` paths and entries in all: `O((n + m) log (n + m))` time, `O(n + m)` memory.
//!
//! # Upstream
//! `pkg/kubelet/kubelet_volumes.go`, `cleanupOrphanedPodDirs`, a part of housekeeping, every [`PERIOD`]. Differences between releases are fields of
//! [`Settings`]. Deviations: directories go in the order of their names, and so do volumes and entries. A directory of which a part could not be read stays as it
//! is; upstream first removes the volumes that it could read. What is gone before its turn counts as removed; upstream's rmdir fails then. Patch releases
//! 1.21.0 to 1.21.3 removed the whole directory as one tree after its volumes, which lost records of volumes (kubernetes #101911): that is not imitated.
//! Entries of the pods directory that are no directories are not looked at.
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
//!     "remove 4f1c/etc-hosts with all below it",
//!     "rmdir 4f1c",
//! ]);
//!
//! // As long as something of the pod runs, the directory stays.
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
