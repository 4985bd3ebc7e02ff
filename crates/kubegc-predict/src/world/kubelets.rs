//! Which pods have a kubelet that ends them when their grace period is over.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::KindId;
use kubegc_lifecycle::{
    driver::Documents as _,
    fields::{self, Fields, Record},
    object::Resource,
    pod::TAINT_OUT_OF_SERVICE,
};
use kubegc_sim::{ApiServer, EventType, StoredObject};
use kubegc_snapshot::JsonDocuments;
use serde_json::Value;

use crate::Cluster;

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
        let answers = event_type != EventType::Deleted && {
            let document = object.to_json(resource).to_string();
            let read = JsonDocuments::default().read(Resource::Nodes, document.as_bytes());
            read.map_or(true, |node| answers(&node))
        };
        self.answers.insert(Arc::clone(&object.meta.name), answers);
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

/// Whether the kubelet of a node does anything: it reports, and nobody said that the node is out of service. Of a node that was not read it is taken to be so.
fn answers(node: &Record) -> bool {
    let Fields::Node(fields::Node {
        conditions, taints, ..
    }) = &node.fields
    else {
        return true;
    };
    let mut conditions = conditions.iter().flatten();
    let ready = conditions.find(|condition| *condition.kind == *"Ready");
    let mut taints = taints.iter().flatten();
    let is_out_of_service = taints.any(|taint| *taint.key == *TAINT_OUT_OF_SERVICE);
    match ready.map(|ready| &*ready.status) {
        Some("Unknown") => false,
        Some("True") => true,
        Some(_) | None => !is_out_of_service,
    }
}
