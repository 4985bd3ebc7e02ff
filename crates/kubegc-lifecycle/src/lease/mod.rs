//! Says which node leases the owner-reference collector takes: those whose node is gone.
//!
//! No controller cleans up leases. The kubelet makes its node the owner of its lease, and the owner-reference collector takes a lease without an owner left,
//! as it takes any object. This module plans for node leases as that collector does, from nodes that were looked up.
//!
//! # Guarantees
//! - A lease goes only where each of its owners is known to be gone or to wait for its dependents. A node that was not looked up, a lookup that failed, or an
//!   owner that is no node keeps it, and none of its references is touched.
//! - A lease, a reference or a node without a uid decides nothing: the lease is kept as it is.
//! - A lease without owners stays forever, and so does one that has expired: expiry means nothing here (L9.4, L9.5).
//! - A node that was created anew under its name is another node: the lease of the old one goes, and the kubelet makes a new one (L9.3).
//!
//! # Assumptions
//! The leases are as a live read finds them, and nothing depends on a lease. A lease that is being deleted is left alone; the finalizers of the collector on
//! it are the business of `kubegc-objects`.
//!
//! Leases beyond [`Settings::namespace`] are kept without a look: identity leases of API servers have a collector of their own (L9.6), and whatever else there
//! is belongs to the owner-reference collector at large.
//!
//! # Complexity
//! `n` leases with `r` references in all and `m` nodes: `O(n log n + r log m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! `pkg/controller/garbagecollector/garbagecollector.go`, which comes across leases in no fixed order, here by name. The wrong owners that the kubelet never
//! writes are treated alike: *all* references with the uid of an absent owner are removed.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::lease::{Facts, Nodes, Settings, owner_of};
//!
//! let node = ObjectMeta::new("", "node-a", "uid-of-node");
//! let mut lease = ObjectMeta::new("kube-node-lease", "node-a", "uid-of-lease");
//! lease.owner_references.push(owner_of(&node));
//!
//! let mut facts = Facts { leases: Ok(vec![lease]), nodes: Nodes::All(vec![node]) };
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert_eq!(plan.kept[0].reason.to_string(), "owned by node node-a, which is there");
//!
//! facts.nodes = Nodes::All(Vec::new());
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert_eq!(plan.actions[0].reason().to_string(), "owned by node node-a, which does not exist");
//! ```

mod action;
mod facts;
mod plan;
mod reason;
mod settings;

pub use action::Action;
pub use facts::{Facts, Nodes, owner_of};
pub use reason::{Owner, OwnerState, Reason, Summary};
pub use settings::Settings;
