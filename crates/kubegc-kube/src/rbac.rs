//! What the API server must allow: the least rules for each use.
//!
//! | role | for |
//! |---|---|
//! | ClusterRole `kubegc-collect` | [`GarbageCollector::run`](crate::GarbageCollector::run) |
//! | ClusterRole `kubegc-dry-run` | the same with [`dry_run`](crate::GarbageCollector::dry_run) |
//! | ClusterRole `kubegc-snapshot` | [`snapshot`](crate::snapshot()) |
//! | ClusterRole `kubegc-events` | warnings, unless [`events`](crate::GarbageCollector::events) are off |
//! | Role `kubegc-leader-election` | the Lease, with the feature `leader-election` |
//!
//! API servers let every authenticated user read `/version` and discovery (`system:discovery`); the rules name it for those that do not.
//!
//! ```yaml
#![doc = include_str!("../rbac.yaml")]
//! ```

/// The rules as YAML, to be applied as they are.
pub const YAML: &str = include_str!("../rbac.yaml");
