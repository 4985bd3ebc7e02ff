//! Deletes the nodes that do not exist in the cloud any more, and taints those that are shut down there.
//!
//! Only nodes that are not ready are asked about. What the cloud answers is a fact: [`Cloud`] says for each node whether it exists and whether it is shut
//! down, or that nobody asked, or that the question failed.
//!
//! # Guarantees
//! - No node goes unless the cloud said that it does not exist. A question that failed, that was not asked or that the cloud has no answer for keeps it.
//! - A node without a uid is left as it is: nothing would guard the next one of its name.
//! - A node that is ready is never asked about; neither is a young one that nobody has initialized yet.
//! - Taints, workloads and a cordon do not protect a node that does not exist (L8.6); its pods follow through [`pod`](crate::pod).
//!
//! # Assumptions
//! Somebody runs this: in clusters without a cloud provider nothing deletes nodes (L8.7). A node goes as soon as it is deleted; one that finalizers hold is
//! chosen again, as upstream does.
//!
//! # Complexity
//! `n` nodes: `O(n log n)` time, `O(n)` memory.
//!
//! # Upstream
//! `k8s.io/cloud-provider`, `controllers/nodelifecycle/node_lifecycle_controller.go`. Nodes come there in the order of the cache, here by name. Upstream
//! writes taints after a read of its own and tries again after a conflict; here the version of the facts is expected, and a conflict asks for a new plan.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::{node::{Cloud, Facts, Node, Settings}, object::{Act, Wire}};
//!
//! let mut node = Node::new(ObjectMeta::new("", "node-a", "uid-1"), false, "aws:///i-1");
//! let now = Timestamp::from_secs(1_000);
//! let plan = Settings::default().plan(&Facts::new(vec![node.clone()]), now);
//! assert_eq!(plan.kept[0].reason.to_string(), "nobody asked the cloud whether it exists");
//!
//! node.exists = Cloud::No;
//! let plan = Settings::default().plan(&Facts::new(vec![node]), now);
//! // An event, then the deletion.
//! assert_eq!(plan.actions[0].calls(Wire::AsUpstream).len(), 2);
//! ```

mod action;
mod facts;
mod plan;
mod reason;
mod settings;

pub use action::Action;
pub use facts::{Cloud, Facts, Node};
pub use reason::{Reason, Summary};
pub use settings::Settings;

/// The taint of a node that is shut down in the cloud. Its effect is [`EFFECT`].
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The taint of a node that no cloud provider has looked at yet. Its effect is [`EFFECT`].
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The effect of both taints. With another one they are other taints.
pub const EFFECT: &str = "NoSchedule";
