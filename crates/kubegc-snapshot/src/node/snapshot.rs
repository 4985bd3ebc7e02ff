//! What a node's documents came to.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::node_facts::ContainerStatus;
use kubegc_node::{Inventory, PolicySpec};

use super::{NodeFinding, NodeProblem, NodeStats, RuntimeUsage};

/// One node as its documents show it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// The facts that planners decide by. What no document told is [`NotAsked`](kubegc_node::Unlisted::NotAsked); what was told and cannot be
    /// trusted is [`Failed`](kubegc_node::Unlisted::Failed), with the reason.
    pub inventory: Inventory,
    /// The kubelet's settings; `None` where neither configuration nor flags were given, or where a kubelet would refuse them.
    pub policy: Option<PolicySpec>,
    /// What the kubelet measured; `None` where not told.
    pub stats: Option<NodeStats>,
    /// What the runtime uses; `None` where not told.
    pub usage: Option<RuntimeUsage>,
    /// The containers that were asked for one by one, by id.
    pub statuses: BTreeMap<Arc<str>, ContainerStatus>,
    /// What was odd, in a fixed order; of each problem the first [`FINDINGS_LISTED_MAX`](crate::FINDINGS_LISTED_MAX).
    pub findings: Vec<NodeFinding>,
    /// How many findings there are of each problem.
    pub finding_counts: BTreeMap<NodeProblem, u64>,
}
