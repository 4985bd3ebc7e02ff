//! Deletes the pods that nobody else will end: terminated ones over a threshold, those of nodes that are gone or out of service, and terminating ones that
//! never had a node.
//!
//! One pass looks at one picture of pods and nodes in four sub-passes, in this order:
//!
//! | sub-pass | takes |
//! |---|---|
//! | terminated | as many terminated pods as there are over the threshold, evicted and oldest first |
//! | out of service | terminating pods on nodes that are not ready and carry the taint [`TAINT_OUT_OF_SERVICE`] |
//! | orphaned | pods whose node is gone: missing for the whole quarantine, and then missing from a live read |
//! | unscheduled | terminating pods without a node |
//!
//! Each pod that goes is first marked as failed, unless its phase is final already; where that fails, it is not deleted.
//!
//! # Guarantees
//! - A pod that several sub-passes choose is planned once, with the reason of the first (L1.2). Upstream asks twice, and the second answer is usually
//!   "not found".
//! - No pod goes for the absence of a node unless a live read has proved it, made when the quarantine was over: a node that was not looked up since holds
//!   its pods.
//! - The quarantine is a value: it goes in with the [`Facts`] and comes out with the [`Summary`].
//! - A pod without a uid stays and is not counted: nothing would guard the next pod of its name.
//! - A pod whose status is not known is never taken for terminated. Where pods are marked it is not deleted at all: whether it needs the mark is not known.
//! - A pod without a creation time was not read in full, for the API server always sets it: it has no known place in line. Of the terminated pods only those
//!   go that are over the threshold wherever such pods stand, and however many of those of unknown status are terminated.
//!
//! # Assumptions
//! A pod goes as soon as it is deleted without grace. One that finalizers hold is chosen again in the next pass, as upstream does.
//!
//! # Complexity
//! `n` pods and `m` nodes: `O(n log n + n log m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! `pkg/controller/podgc/gc_controller.go`. Differences between releases are fields of [`Settings`]. Deviations: pods are planned once (above); upstream
//! deletes the pods of the first two sub-passes concurrently and the others in the order of its cache, here they are in a total order; and a node that has
//! served its quarantine but was not looked up waits for the answer instead of being asked for on the spot, unless no pod is on it any more: then it leaves
//! the quarantine without a question. A zero creation time, which upstream counts as the oldest, is not read here.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::{object::{Act, Live, Wire}, pod::{Facts, LiveNode, LiveNodes, Pod, Settings, Status}};
//!
//! let settings = Settings::default();
//! let pod = Pod::new(ObjectMeta::new("shop", "web-0", "uid-1"), "node-a", Status::new("Running"));
//! let mut facts = Facts::new(vec![pod], Vec::new());
//!
//! // The node is not there: its pods are left alone for 40 s.
//! let first_seen = Timestamp::from_secs(1_000);
//! let plan = settings.plan(&facts, first_seen);
//! assert!(plan.actions.is_empty());
//! assert_eq!(plan.kept[0].reason.to_string(), "node node-a is missing; in quarantine until 1970-01-01T00:17:20Z");
//! assert_eq!(plan.next_at, Some(first_seen.saturating_add(Duration::from_secs(40))));
//!
//! // Then a live read decides.
//! facts.quarantine = plan.summary.quarantine;
//! let read = LiveNode { read_at: Timestamp::from_secs(1_040), answer: Live::NotFound };
//! facts.live_nodes = LiveNodes::Of([("node-a".into(), read)].into());
//! let plan = settings.plan(&facts, Timestamp::from_secs(1_040));
//! assert_eq!(plan.actions[0].object().to_string(), "Pod shop/web-0");
//! assert_eq!(plan.actions[0].calls(Wire::AsUpstream).len(), 2);
//! ```

mod action;
mod facts;
mod plan;
mod quarantine;
mod reason;
mod settings;

pub use action::{Action, Count, Mark, Tally};
pub use facts::{Facts, LiveNode, LiveNodes, Node, Pod, Status};
pub use quarantine::Quarantine;
pub use reason::{Reason, Summary};
pub use settings::Settings;

/// The taint key that says that a node is out of service. Its value and effect mean nothing here.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
