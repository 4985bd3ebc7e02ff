//! Fixes what is known of pods and of their nodes.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ObjectMeta, StoreError, Timestamp};

use super::Quarantine;
use crate::object::{Condition, Live, Taint};

/// What a pass rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// All pods of all namespaces. Where they could not be listed, nothing is planned.
    pub pods: Result<Vec<Pod>, StoreError>,
    /// All nodes, as the cache has them. Where they could not be listed, nothing is planned.
    pub nodes: Result<Vec<Node>, StoreError>,
    /// The quarantine that the last pass left; empty before the first.
    pub quarantine: Quarantine,
    /// What live reads of single nodes found.
    pub live_nodes: LiveNodes,
}

impl Facts {
    /// Complete lists, before a first pass.
    #[must_use]
    pub fn new(pods: Vec<Pod>, nodes: Vec<Node>) -> Self {
        Self {
            pods: Ok(pods),
            nodes: Ok(nodes),
            quarantine: Quarantine::default(),
            live_nodes: LiveNodes::default(),
        }
    }
}

/// What is known of missing nodes from reads right before acting.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LiveNodes {
    /// The list of nodes is as good as a read: what is not in it does not exist. For forecasts.
    AsListed,
    /// These nodes were read, by name. Others were not.
    Of(BTreeMap<Arc<str>, LiveNode>),
}

/// What a read of a single node found, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveNode {
    /// When the read was made. One from before the end of the node's quarantine proves nothing.
    pub read_at: Timestamp,
    /// What it found.
    pub answer: Live<()>,
}

impl Default for LiveNodes {
    /// Nothing was read.
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

impl LiveNodes {
    /// What is known of a node that is missing from the list, and whose quarantine ended at `ready_at`.
    pub(super) fn of_missing(&self, name: &str, ready_at: Timestamp) -> Live<()> {
        match self {
            Self::AsListed => Live::NotFound,
            Self::Of(reads) => {
                let read = reads.get(name).filter(|read| read.read_at >= ready_at);
                read.map(|read| read.answer.clone()).unwrap_or_default()
            }
        }
    }
}

/// A pod, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.nodeName`, empty where the pod has no node; `None` where it is not known.
    pub node_name: Option<Arc<str>>,
    /// The status; `None` where it is not known.
    pub status: Option<Status>,
}

impl Pod {
    /// A pod of which everything is known. Its node's name is empty where it has none.
    #[must_use]
    pub fn new(meta: ObjectMeta, node_name: &str, status: Status) -> Self {
        Self {
            meta,
            node_name: Some(node_name.into()),
            status: Some(status),
        }
    }
}

/// What matters of a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// `status.phase`: any text, also none.
    pub phase: Arc<str>,
    /// `status.reason`, such as `Evicted`.
    pub reason: Arc<str>,
    /// `status.conditions`, in stored order.
    pub conditions: Vec<Condition>,
}

impl Status {
    /// A status with this phase, without reason and conditions.
    #[must_use]
    pub fn new(phase: &str) -> Self {
        Self {
            phase: phase.into(),
            ..Self::default()
        }
    }

    /// Whether the pod counts against the threshold: everything but `Pending`, `Running` and `Unknown` does, also no phase at all (L1.3).
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        !matches!(&*self.phase, "Pending" | "Running" | "Unknown")
    }

    /// Whether the phase is one that never changes again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// Whether the kubelet evicted the pod.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        &*self.phase == "Failed" && &*self.reason == "Evicted"
    }
}

/// A node, as far as its pods depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// `status.conditions`, in stored order; `None` where they are not known.
    pub conditions: Option<Vec<Condition>>,
    /// `spec.taints`; `None` where they are not known.
    pub taints: Option<Vec<Taint>>,
}

impl Node {
    /// A node that is ready, or is not, without taints.
    #[must_use]
    pub fn new(name: &str, is_ready: bool) -> Self {
        let status = if is_ready { "True" } else { "False" };
        Self {
            name: name.into(),
            conditions: Some(vec![Condition::new("Ready", status)]),
            taints: Some(Vec::new()),
        }
    }

    /// Whether the node is ready: its first condition of that type is true; `None` where that is not known.
    #[must_use]
    pub fn is_ready(&self) -> Option<bool> {
        let conditions = self.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| &*condition.kind == "Ready");
        Some(ready.is_some_and(Condition::is_true))
    }

    /// Whether the node has a taint with this key; `None` where that is not known.
    #[must_use]
    pub fn has_taint(&self, key: &str) -> Option<bool> {
        let taints = self.taints.as_ref()?;
        Some(taints.iter().any(|taint| &*taint.key == key))
    }
}
