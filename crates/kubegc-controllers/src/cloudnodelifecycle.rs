//! Deletes nodes that no longer exist in the cloud, and taints those that are shut down there.
//!
//! The rules are [L8.1](crate::rules#l8-1) to [L8.6](crate::rules#l8-6).
//!
//! [`Decision::cloud_query`] queries the cloud provider. A taint is written as upstream does it: the node
//! is read, patched, and read again after a conflict, up to five times.
//!
//! # Upstream
//! [`MonitorNodes`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go),
//! and [`AddOrUpdateTaintOnNode` and
//! `RemoveTaintOffNode`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cloud-provider/node/helpers/taints.go).

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion, StoreError,
    record::{ObjectId, Record, Resource, Taint},
};

use crate::{
    Action, Cloud, CloudQuery, Context, Controller, Decision, End, FailureEvent, FieldChange, Info, Missing,
    OnError, Reason, Sent, Steps, Timing, Wire, Write, controller::Reads as _, sequence::Port,
};

/// The reason of the Event is `DeletingNode`, and the sentence its message. Before, the sentence is the
/// reason.
const EVENT_HAS_REASON: Behavior = Behavior::since(21, 0, "kubernetes #96680");
/// A patch of the taints carries the resourceVersion.
const TAINTS_ARE_GUARDED: Behavior = Behavior::since(26, 0, "kubernetes #113136");
/// A failed deletion is recorded as an Event.
const FAILURE_HAS_EVENT: Behavior = Behavior::since(31, 0, "kubernetes #123834");

/// The taint key of a node that is shut down in the cloud. The effect is `NoSchedule`.
const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The taint key of a node that no cloud provider has initialized. The effect is `NoSchedule`.
const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Maximum number of attempts to write a taint.
const TAINT_ATTEMPTS: u32 = 5;

/// The cloud node lifecycle controller.
#[derive(Clone, Copy, Debug)]
pub struct CloudNodeLifecycle {
    /// The age up to which a node without `spec.providerID` and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized` is kept. Default: zero, as upstream.
    pub uninitialized_grace: Duration,
    version: KubernetesVersion,
}

impl CloudNodeLifecycle {
    /// Upstream's behavior in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            uninitialized_grace: Duration::ZERO,
            version,
        }
    }

    fn delete(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Decision {
        let name = &id.name;
        let sentence = format!("Deleting node {name} because it does not exist in the cloud provider");
        let reason = Reason::new("NotInCloud", "it does not exist in the cloud");
        let action = Action::new(Resource::Nodes, &record.meta, reason);
        let action = match self.version.has(EVENT_HAS_REASON) {
            true => action.event(false, "DeletingNode", sentence),
            false => action.event(false, &sentence, format!("Node {name} event: DeletingNode")),
        };
        let mut action = action
            .delete(cx.wire, Sent::Nothing, DeleteOptions::default())
            .on_error(OnError::Report)
            .error_prefix(format!("unable to delete node {name:?}: "));
        action.failure_event = self.version.has(FAILURE_HAS_EVENT).then(|| FailureEvent {
            object: id.clone(),
            reason: "DeletingNodeFailed",
            message_prefix: format!("Failed deleting node {name}: "),
        });
        Decision::act(action)
    }

    fn write_taint(&self, wire: Wire, id: &ObjectId, change: FieldChange, reason: Reason) -> Decision {
        let taint = TaintWrite {
            node: id.clone(),
            change,
            reason,
            wire,
            sent: match self.version.has(TAINTS_ARE_GUARDED) {
                true => Sent::ResourceVersion,
                false => Sent::Nothing,
            },
        };
        Steps::of(id, taint, write_taint).into()
    }
}

fn no_schedule(key: &str) -> Taint {
    Taint::new(key, "NoSchedule")
}

#[derive(Debug)]
struct TaintWrite {
    node: ObjectId,
    change: FieldChange,
    reason: Reason,
    wire: Wire,
    sent: Sent,
}

async fn write_taint(write: Arc<TaintWrite>, port: Port) -> Result<End, End> {
    let node = &write.node;
    let mut conflict = None;
    for _ in 0..TAINT_ATTEMPTS {
        let found = port.reread(node).await.map_err(End::reported)?;
        if found.meta.uid != node.uid {
            return Err(End::stale(node, found));
        }
        let taints = found.node().and_then(|node| node.taints.known());
        let taints = taints.ok_or_else(|| Missing::field(node, "spec.taints"))?;
        let is_done = match &write.change {
            FieldChange::AddTaint(taint) => taints.contains(taint),
            FieldChange::RemoveTaint(taint) => !taints.iter().any(|known| known.matches(taint)),
            _ => true,
        };
        if is_done {
            return Ok(End::Done);
        }
        port.set_reason(write.reason.clone());
        let precondition = write.wire.preconditions(&found.meta, write.sent);
        let request = Write::patch(node, precondition, write.change.clone());
        match port.write(request).await {
            Ok(_) => return Ok(End::Done),
            Err(error @ StoreError::Conflict { .. }) => conflict = Some(error),
            Err(error) => return Err(End::reported(error)),
        }
    }
    Ok(conflict.map_or(End::Done, End::reported))
}

static INFO: Info = Info {
    name: "cloud-node-lifecycle-controller",
    summary: "deletes nodes that no longer exist in the cloud, and taints those that are shut down there",
    resources: &[Resource::Nodes],
    timing: Timing::every(Duration::from_secs(5)),
    permissions: &[(Resource::Nodes, "", &["delete", "patch"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go",
    ..Info::BASE
};

impl Controller for CloudNodeLifecycle {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let shutdown = no_schedule(SHUTDOWN_TAINT);
        let node = id.body(record, Record::node)?;
        id.read(&node.conditions, "status.conditions")?;
        let has_taint = |key| {
            let taint = no_schedule(key);
            let taints = id.read(&node.taints, "spec.taints")?;
            Ok(taints.iter().any(|known| known.matches(&taint)))
        };
        if node.is_ready() == Some(true) {
            if !has_taint(SHUTDOWN_TAINT)? {
                return id.keep("Ready", "it is ready");
            }
            let reason = Reason::new("ReadyAgain", "it is ready, and still has the shutdown taint");
            return Ok(self.write_taint(cx.wire, id, FieldChange::RemoveTaint(shutdown), reason));
        }
        if !self.uninitialized_grace.is_zero() {
            let has_provider_id = !id.read(&node.provider_id, "spec.providerID")?.is_empty();
            if !has_provider_id && has_taint(UNINITIALIZED_TAINT)? {
                let created = record.meta.creation_timestamp;
                let created = created.ok_or_else(|| Missing::field(id, "metadata.creationTimestamp"))?;
                let until = created.saturating_add(self.uninitialized_grace);
                if cx.now < until {
                    let message =
                        "no cloud provider has initialized it yet, and it is younger than the grace period";
                    return Ok(id.keep("Uninitialized", message)?.requeue_at(until));
                }
            }
        }
        let Some(response) = cx.cloud.filter(|response| response.node_uid == id.uid) else {
            let provider_id = Arc::clone(id.read(&node.provider_id, "spec.providerID")?);
            let node = id.clone();
            return Ok(Decision {
                cloud_query: Some(CloudQuery { node, provider_id }),
                ..Decision::default()
            });
        };
        let failed = |question: &str, message: &str| Missing::Outside {
            question: format!("whether {id} {question} in the cloud").into(),
            message: message.into(),
        };
        match &response.exists {
            Cloud::No => return Ok(self.delete(cx, id, record)),
            Cloud::Yes => {}
            Cloud::NotImplemented => return Err(failed("exists", "not implemented")),
            Cloud::Failed(message) => return Err(failed("exists", message)),
        }
        match &response.is_shut_down {
            Cloud::Yes if has_taint(SHUTDOWN_TAINT)? => {
                let message = "it is shut down in the cloud, and has the shutdown taint";
                id.keep("AlreadyTainted", message)
            }
            Cloud::Yes => {
                let reason = Reason::new("ShutDown", "it is shut down in the cloud");
                Ok(self.write_taint(cx.wire, id, FieldChange::AddTaint(shutdown), reason))
            }
            Cloud::No | Cloud::NotImplemented => {
                id.keep("Running", "it exists in the cloud, and is not shut down")
            }
            Cloud::Failed(message) => Err(failed("is shut down", message)),
        }
    }
}
