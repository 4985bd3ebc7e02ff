//! The result of reading a node's documents.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::node_facts::ContainerStatus;
use kubegc_node::{Inventory, PolicySpec};

use super::{NodeFinding, NodeProblem, NodeStats, RuntimeUsage};

/// One node as its documents show it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// The facts on which planners decide. A part in no document is
    /// [`Missing`](kubegc_node::Unlisted::NotRequested); an unreliable part is
    /// [`Failed`](kubegc_node::Unlisted::Failed), with the reason.
    pub inventory: Inventory,
    /// The kubelet's settings; `None` if neither configuration nor flags were given, or if a kubelet
    /// would refuse them.
    pub policy: Option<PolicySpec>,
    pub stats: Option<NodeStats>,
    pub usage: Option<RuntimeUsage>,
    /// The containers that were inspected one by one, by id.
    pub statuses: BTreeMap<Arc<str>, ContainerStatus>,
    /// The findings, in a fixed order; of each problem the first
    /// [`FINDINGS_LISTED_MAX`](crate::FINDINGS_LISTED_MAX).
    pub findings: Vec<NodeFinding>,
    pub finding_counts: BTreeMap<NodeProblem, u64>,
}
