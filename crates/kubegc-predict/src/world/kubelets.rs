//! Which pods have a kubelet that ends them when their grace period is over, and of which pods that is not known.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_controllers::{Documents as _, podgc::OUT_OF_SERVICE_TAINT};
use kubegc_core::{
    KindId,
    record::{Record, Resource},
};
use kubegc_sim::{ApiServer, EventType, StoredObject};
use kubegc_snapshot::JsonDocuments;
use serde_json::Value;

use crate::Cluster;

/// The nodes, and whether their kubelets do anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubelets {
    /// Whether the kubelet of each node answers; `None` where too little of the node was read.
    answers: HashMap<Arc<str>, Option<bool>, FixedState>,
    /// Whether a node that is not here does not exist.
    are_all: bool,
}

impl Kubelets {
    /// Those of the nodes on a server.
    pub(crate) fn on(server: &ApiServer) -> Self {
        let mut kubelets = Self {
            are_all: true,
            ..Self::default()
        };
        if let Some(nodes) = server.catalog().mapping("v1", "Node") {
            for node in server.objects(nodes, None) {
                kubelets.notice(server, nodes, EventType::Added, &node);
            }
        }
        kubelets
    }

    /// Those of the nodes in a dump. Where it does not hold all nodes, one that is not there may exist, and its kubelet may answer.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let snapshot = &cluster.snapshot;
        let (group, kind) = (Resource::Nodes.group(), Resource::Nodes.kind());
        let nodes = snapshot.positions_of_kind(group, kind);
        let nodes = nodes.filter_map(|position| snapshot.record_at(position));
        Self {
            answers: nodes
                .map(|node| (Arc::clone(&node.meta.name), answers(&node)))
                .collect(),
            are_all: snapshot.completeness.of(group, kind).is_complete(),
        }
    }

    /// Follows a change of an object on a server. Those that are no nodes are passed over.
    pub(crate) fn notice(
        &mut self,
        server: &ApiServer,
        kind: KindId,
        event_type: EventType,
        object: &StoredObject,
    ) {
        let resource = &server.catalog()[kind];
        if !resource.group.is_empty() || *resource.kind != *Resource::Nodes.kind() {
            return;
        }
        let answers = if event_type == EventType::Deleted {
            Some(false)
        } else {
            let document = object.to_json(resource).to_string();
            let read = JsonDocuments::default().read(Resource::Nodes, document.as_bytes());
            read.ok().and_then(|node| answers(&node))
        };
        self.answers.insert(Arc::clone(&object.meta.name), answers);
    }

    /// Whether a pod that is being deleted is ended by its kubelet. One of which that is not known is taken to be.
    pub(crate) fn end(&self, pod: &StoredObject) -> bool {
        match pod.at(&["spec"]).and_then(Value::as_object) {
            None => true,
            Some(spec) => match spec.get("nodeName") {
                None => false,
                Some(Value::String(node)) => self.of_node(node).unwrap_or(true),
                Some(_) => true,
            },
        }
    }

    /// Whether the kubelet of the node of a name does anything; `None` where that is not known.
    fn of_node(&self, node: &str) -> Option<bool> {
        let unlisted = self.are_all.then_some(false);
        self.answers.get(node).copied().unwrap_or(unlisted)
    }

    /// What is missing to say when a pod of the dump ends once it is deleted, and by whom.
    ///
    /// A pod that has run to its end and one without a node go at once when they are deleted. Others have their grace period, and their kubelet ends them; so
    /// it does with those that were given one before they ran to their end.
    pub(crate) fn unknown_end(&self, pod: &Record, pods_end: bool) -> Option<String> {
        let Some(fields) = pod.pod() else {
            return Some("its node is not known".to_owned());
        };
        let is_deleting = pod.meta.is_deleting();
        if is_deleting && pod.meta.deletion_grace_period_seconds == Some(0) {
            // Only finalizers hold it.
            return None;
        }
        let has_final_phase = fields.has_final_phase();
        if has_final_phase == Some(true) && !is_deleting {
            return None;
        }
        match fields.node_name.known() {
            None => Some("its node is not known".to_owned()),
            Some(node) if node.is_empty() => None,
            Some(node) if pods_end && self.of_node(node).is_none() => {
                Some(format!("whether the kubelet of node {node} works is not known"))
            }
            Some(_) if has_final_phase.is_none() && !is_deleting => {
                Some("whether it has finished is not known".to_owned())
            }
            Some(_) => None,
        }
    }
}

/// Whether the kubelet of a node does anything: it reports, and nobody said that the node is out of service. `None` where too little of the node was read.
fn answers(node: &Record) -> Option<bool> {
    let node = node.node()?;
    let mut conditions = node.conditions.known()?.iter();
    let ready = conditions.find(|condition| *condition.condition_type == *"Ready");
    match ready.map(|ready| &*ready.status) {
        Some("Unknown") => Some(false),
        Some("True") => Some(true),
        Some(_) | None => node.has_taint(OUT_OF_SERVICE_TAINT).map(|is_tainted| !is_tainted),
    }
}
