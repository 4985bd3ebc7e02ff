//! Adds the taints `not-ready` and `unreachable` with effect `NoExecute` to Nodes by their condition `Ready`,
//! and removes them.
//!
//! - `Ready` is `True`: both taints are removed.
//! - `False`: the taint `node.kubernetes.io/not-ready`; `Unknown`: the taint
//!   `node.kubernetes.io/unreachable`. The other of the two is removed with the same write.
//! - no condition `Ready`: the kubelet has not reported yet, and nothing is done.
//! - a Node that has neither taint gets it in the sync after the one in which the condition changed: 5 s
//!   later.
//! - no Node is ready: the whole cluster is disrupted, and nothing is tainted. Nodes with the label
//!   `node.kubernetes.io/exclude-disruption` do not count.
//!
//! The pods of a Node with such a taint are then deleted by the taint eviction controller.
//!
//! Not modelled: the condition itself, which upstream sets to `Unknown` when neither the status nor the Lease
//! of a Node was renewed for `--node-monitor-grace-period` (40 s; 50 s from 1.32 on), because no kubelet
//! renews Leases in a simulation; the taints with effect `NoSchedule`; that Nodes are tainted one after the
//! other, 10 s apart by default, and more slowly or not at all in a zone in which most Nodes are not ready.
//!
//! # Upstream
//! [`processTaintBaseEviction`, `doNoExecuteTaintingPass`,
//! `handleDisruption`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/nodelifecycle/node_lifecycle_controller.go)
//! in `node_lifecycle_controller.go`. The same in all releases.

use std::time::Duration;

use kubegc_core::{
    KubernetesVersion, PatchType,
    record::{Condition, Field, Node, ObjectId, Record, Resource, Taint},
};

use crate::{
    Action, Cache, Change, Context, Controller, Decision, FieldChange, Form, Index, Info, Key, MayChange,
    Missing, OnError, Reason, Sent, controller::Reads as _,
};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NO_EXECUTE: &str = "NoExecute";
const LABEL_EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The period of `--node-monitor-period`.
const PERIOD: Duration = Duration::from_secs(5);

/// Ready nodes that count, and nodes whose readiness is unknown.
static READY: Index = Index::new(Resource::Nodes, |record, keys| {
    if !record.meta.labels.contains_key(LABEL_EXCLUDED)
        && record.node().is_none_or(|node| node.is_ready() != Some(false))
    {
        keys.push(Key::cluster(""));
    }
});
/// Nodes that are not ready.
static NOT_READY_NODES: Index = Index::new(Resource::Nodes, |record, keys| {
    if record.node().is_some_and(|node| node.is_ready() == Some(false)) {
        keys.push(Key::cluster(""));
    }
});

/// The part of the node lifecycle controller that adds and removes `NoExecute` taints.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct NodeLifecycle {
    /// Whether nothing is tainted while no Node is ready. Default: yes. Off if the Nodes that are known
    /// are only some of the cluster.
    pub stops_without_ready_nodes: bool,
}

impl NodeLifecycle {
    /// Upstream's behavior, the same in all releases.
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self {
            stops_without_ready_nodes: true,
        }
    }
}

fn is_taint(taint: &Taint, key: &str) -> bool {
    *taint.key == *key && &*taint.effect == NO_EXECUTE
}

/// Returns whether a node that counts is ready.
fn some_node_is_ready(cx: &Context<'_>) -> Result<bool, Missing> {
    let nodes = cx.cache.indexed_records(&READY, &Key::cluster(""));
    let is_ready = |node: &&Record| node.node().and_then(Node::is_ready) == Some(true);
    if nodes.iter().any(is_ready) {
        return Ok(true);
    }
    if let Some(node) = nodes.first() {
        let id = node.id(Resource::Nodes);
        id.read(&Field::<Condition>::Unread, "status.conditions")?;
    }
    cx.cache.require(Resource::Nodes)?;
    Ok(false)
}

static INFO: Info = Info {
    name: "node-lifecycle-controller",
    summary: "taints Nodes that are not ready, so that their pods are evicted",
    resources: &[Resource::Nodes],
    indexes: &[&READY, &NOT_READY_NODES],
    permissions: &[(Resource::Nodes, "", &["patch"])],
    may_change: &[MayChange::BoundPods],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/nodelifecycle/node_lifecycle_controller.go",
    ..Info::BASE
};

impl Controller for NodeLifecycle {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        if change.resource != Resource::Nodes {
            return;
        }
        keys.push(change.key.clone());
        let counts = |record: Option<&Record>| record.is_some_and(|record| !READY.keys_of(record).is_empty());
        // The first Node that becomes ready ends a disruption of the whole cluster.
        if counts(change.new) && !counts(change.old) {
            keys.extend(cache.indexed(&NOT_READY_NODES, &Key::cluster("")));
        }
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let node = id.body(record, Record::node)?;
        let conditions = id.read(&node.conditions, "status.conditions")?;
        let ready = conditions
            .iter()
            .find(|condition| &*condition.condition_type == "Ready");
        let Some(ready) = ready else {
            return id.keep("NotReported", "its kubelet has not reported yet");
        };
        let taints = id.read(&node.taints, "spec.taints")?;
        let tainted = |key: &str| taints.iter().find(|taint| is_taint(taint, key));
        let (wanted, other) = match &*ready.status {
            "True" => (None, [NOT_READY, UNREACHABLE]),
            "False" => (Some(NOT_READY), [UNREACHABLE; 2]),
            "Unknown" => (Some(UNREACHABLE), [NOT_READY; 2]),
            _ => {
                return id.keep(
                    "UnknownStatus",
                    "its condition Ready has no status that Kubernetes has",
                );
            }
        };
        let mut removed: Vec<Taint> = other.iter().filter_map(|key| tainted(key)).cloned().collect();
        removed.dedup();
        let added = wanted.filter(|key| tainted(key).is_none());
        if added.is_none() && removed.is_empty() {
            return id.keep(
                "TaintedAlready",
                "its NoExecute taints are those of its condition Ready",
            );
        }
        if added.is_some() && removed.is_empty() {
            if self.stops_without_ready_nodes && !some_node_is_ready(cx)? {
                return id.keep("FullDisruption", "no node of the cluster is ready");
            }
            let due = ready.last_transition_time.map(|at| at.saturating_add(PERIOD));
            if let Some(due) = due.filter(|due| *due > cx.now) {
                let reason = Reason::new("NotReadyYet", "its condition Ready has just changed");
                return Ok(Decision::keep(id.clone(), reason).requeue_at(due));
            }
        }
        let mut changes: Vec<FieldChange> = removed.into_iter().map(FieldChange::RemoveTaint).collect();
        changes.extend(added.map(|key| {
            FieldChange::AddTaint(Taint {
                time_added: Some(cx.now),
                ..Taint::new(key, NO_EXECUTE)
            })
        }));
        let reason = Reason::new("ReadyChanged", format!("its condition Ready is {}", ready.status));
        let form = Form::Patch(PatchType::Strategic);
        let action = Action::new(Resource::Nodes, &record.meta, reason)
            .write(cx.wire, Sent::Nothing, form, "", changes)
            .on_error(OnError::Report);
        Ok(action.into())
    }
}
