//! Which pods have a kubelet that ends them when their grace period is over.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::KindId;
use kubegc_lifecycle::{object::Resource, pod::TAINT_OUT_OF_SERVICE};
use kubegc_sim::{ApiServer, EventType, StoredObject};
use serde_json::Value;

use crate::{Cluster, simulation};

/// The nodes, and whether their kubelets do anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubelets {
    /// Whether the kubelet of each node answers.
    answers: HashMap<Arc<str>, bool, FixedState>,
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
                kubelets.notice(EventType::Added, &node);
            }
        }
        kubelets
    }

    /// Those of the nodes in a dump. Where it does not hold all nodes, one that is not there may exist, and its kubelet may answer.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let snapshot = &cluster.snapshot;
        let (group, kind) = (Resource::Nodes.group(), Resource::Nodes.kind());
        let mut kubelets = Self {
            are_all: snapshot.completeness.of(group, kind).is_complete(),
            ..Self::default()
        };
        let nodes = snapshot.positions_of_kind(group, kind);
        for node in nodes.filter_map(|position| snapshot.object(position)) {
            let stored = StoredObject {
                body: simulation::body(&node),
                meta: node.meta,
            };
            kubelets.notice(EventType::Added, &stored);
        }
        kubelets
    }

    /// Follows a change of a node.
    pub(crate) fn notice(&mut self, event_type: EventType, node: &StoredObject) {
        let name = &node.meta.name;
        let answers = event_type != EventType::Deleted && answers(node);
        self.answers.insert(Arc::clone(name), answers);
    }

    /// Whether a pod that is being deleted is ended by its kubelet. One of which nobody knows where it runs is taken to be.
    pub(crate) fn end(&self, pod: &StoredObject) -> bool {
        match pod.at(&["spec"]).and_then(Value::as_object) {
            None => true,
            Some(spec) => match spec.get("nodeName") {
                None => false,
                Some(Value::String(node)) => {
                    let answers = self.answers.get(node.as_str()).copied();
                    answers.unwrap_or(!self.are_all)
                }
                Some(_) => true,
            },
        }
    }
}

/// Whether the kubelet of a node does anything: it reports, and nobody said that the node is out of service.
fn answers(node: &StoredObject) -> bool {
    let conditions = node.at(&["status", "conditions"]).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let ready = ready.and_then(|ready| ready["status"].as_str());
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_array);
    let mut taints = taints.into_iter().flatten();
    let is_out_of_service = taints.any(|taint| taint["key"] == TAINT_OUT_OF_SERVICE);
    match ready {
        Some("Unknown") => false,
        Some("True") => true,
        Some(_) | None => !is_out_of_service,
    }
}

/// Whether this kind is that of nodes.
pub(crate) fn are_nodes(server: &ApiServer, kind: KindId) -> bool {
    let resource = &server.catalog()[kind];
    resource.group.is_empty() && *resource.kind == *Resource::Nodes.kind()
}
