//! Controllers of Nodes: taints by the condition `Ready`, the eviction of pods by taints, and the nodes of a
//! cloud provider.

use kubegc_core::record::{Node, Taint, Toleration};

use crate::{
    Cloud, Request,
    podgc::{DISRUPTION_CONDITIONS, OBSERVED_GENERATION, disruption_target},
    prelude::*,
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
static NOT_READY_NODES: Index = Index::new(Resource::Nodes, |record, keys| {
    if record.node().is_some_and(|node| node.is_ready() == Some(false)) {
        keys.push(Key::cluster(""));
    }
});

/// The part of the node lifecycle controller that adds the taints `not-ready` and `unreachable` with effect
/// `NoExecute` to Nodes by their condition `Ready`, and removes them.
///
/// - `Ready` is `True`: both taints are removed.
/// - `False`: the taint `node.kubernetes.io/not-ready`; `Unknown`: the taint
///   `node.kubernetes.io/unreachable`. The other of the two is removed with the same write.
/// - no condition `Ready`: the kubelet has not reported yet, and nothing is done.
/// - a Node that has neither taint gets it in the sync after the one in which the condition changed: 5 s
///   later.
/// - no Node is ready: the whole cluster is disrupted, and nothing is tainted. Nodes with the label
///   `node.kubernetes.io/exclude-disruption` do not count.
///
/// The pods of a Node with such a taint are then deleted by the [taint eviction controller](TAINT_EVICTION).
///
/// Not modelled: the condition itself, which upstream sets to `Unknown` when neither the status nor the Lease
/// of a Node was renewed for `--node-monitor-grace-period` (40 s; 50 s from 1.32 on), because no kubelet
/// renews Leases in a simulation; the taints with effect `NoSchedule`; that Nodes are tainted one after the
/// other, 10 s apart by default, and more slowly or not at all in a zone in which most Nodes are not ready.
///
/// # Upstream
/// [`processTaintBaseEviction`, `doNoExecuteTaintingPass`,
/// `handleDisruption`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/nodelifecycle/node_lifecycle_controller.go)
/// in `node_lifecycle_controller.go`. The same in all releases.
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

static LIFECYCLE: Info = Info {
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
        &LIFECYCLE
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
        let tainted = |key: &str| {
            let wanted = Taint::new(key, NO_EXECUTE);
            taints.iter().find(move |taint| taint.matches(&wanted))
        };
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
                let message = "its condition Ready has just changed";
                return Ok(id.keep("NotReadyYet", message)?.requeue_at(due));
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

/// The key under which the time of the deletion is stored.
const DEADLINE: &str = "eviction";

static PODS_BY_NODE: Index = Index::new(Resource::Pods, |record, keys| {
    let node = record.pod().and_then(|pod| pod.node_name.known());
    let node = node.filter(|node| !node.is_empty());
    keys.extend(node.map(|node| Key::cluster(Arc::clone(node))));
});

fn evict(
    cx: &RuleContext<'_>,
    id: &ObjectId,
    record: &Record,
    pod: &Pod,
    reason: Reason,
) -> Result<Decision, Missing> {
    let message = format!("Marking for deletion Pod {}/{}", id.namespace, id.name);
    let object = Read::Unchanged {
        object: id.clone(),
        resource_version: kubegc_core::ResourceVersion::default(),
    };
    let mut action = Action::new(Resource::Pods, &record.meta, reason)
        .after_reading(object)
        .event(false, "TaintManagerEviction", message)
        .on_error(OnError::Report);
    if cx.has(DISRUPTION_CONDITIONS) {
        let conditions = id.read(&pod.conditions, "status.conditions")?;
        let message = "Taint manager: deleting due to NoExecute taint";
        let mut condition = disruption_target(cx.now, conditions, ["DeletionByTaintManager", message]);
        if cx.has(OBSERVED_GENERATION) {
            condition.observed_generation = record.meta.generation;
        }
        let mut known = conditions.iter();
        let known = known.find(|known| known.condition_type == condition.condition_type);
        if known != Some(&condition) {
            let patch = Form::Patch(PatchType::Strategic);
            let changes = vec![FieldChange::Condition(condition)];
            action = action.write(cx.wire, Sent::Uid, patch, "status", changes);
        }
    }
    let options = DeleteOptions::default();
    Ok(action.delete(cx.wire, Sent::Nothing, options).into())
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let matches_effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let matches_key = toleration.key.is_empty() || toleration.key == taint.key;
    matches_effect
        && matches_key
        && match &*toleration.operator {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

/// The taint eviction controller. It deletes pods from nodes with `NoExecute` taints that they do not
/// tolerate, or no longer.
///
/// - a pod that is not scheduled, or on a node without such a taint: it is kept.
/// - a taint that no toleration matches: the pod is deleted at once.
/// - each taint is matched by the first toleration that fits; none of these has `tolerationSeconds`: the pod
///   is kept forever.
/// - otherwise: the pod is deleted after the least of their `tolerationSeconds`; zero and less mean at once.
/// - the time runs: from `timeAdded` of the newest of the taints, or from when they are first seen; later
///   changes of taints or tolerations do not move it.
/// - all taints are removed, or all are tolerated forever: the deletion is cancelled.
/// - the deletion: Event `TaintManagerEviction`, a status patch that sets the condition `DisruptionTarget`,
///   DELETE without preconditions.
/// - a pod that is being deleted: it is kept: deleting it again would change nothing.
///
/// The API server gives most pods tolerations of 300 s for the taints `not-ready` and `unreachable` of the
/// node lifecycle controller. Upstream counts from when it observes a taint, also after its own start; taking
/// `timeAdded` is the same for a controller that ran throughout.
///
/// Before 1.26 the condition is not set (feature gate `PodDisruptionConditions`), from 1.34 on it has
/// `observedGeneration`. Before 1.29 the node lifecycle controller does the same work.
///
/// # Upstream
/// [`processPodOnNode`, `getMinTolerationTime`,
/// `addConditionAndDeletePod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/tainteviction/taint_eviction.go)
/// in `taint_eviction.go`; before 1.29 [`processPodOnNode` and
/// `addConditionAndDeletePod`](https://github.com/kubernetes/kubernetes/blob/v1.28.0/pkg/controller/nodelifecycle/scheduler/taint_manager.go)
/// in `taint_manager.go`.
pub static TAINT_EVICTION: Rule = Rule {
    info: Info {
        name: "taint-eviction-controller",
        summary: "deletes pods that do not tolerate the NoExecute taints of their node",
        resources: &[Resource::Pods, Resource::Nodes],
        indexes: &[&PODS_BY_NODE],
        permissions: &[
            (Resource::Pods, "", &["delete"]),
            (Resource::Pods, "status", &["patch"]),
        ],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/tainteviction/taint_eviction.go",
        ..Info::BASE
    },
    affected: Some(affected_pods),
    decide: decide_eviction,
    ..Rule::BASE
};

fn affected_pods(_: KubernetesVersion, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
    match change.resource {
        Resource::Pods => keys.push(change.key.clone()),
        Resource::Nodes => {
            let taints =
                |record: Option<&Record>| record.and_then(Record::node).map(|node| node.taints.clone());
            if taints(change.old) == taints(change.new) && change.old.is_some() == change.new.is_some() {
                return;
            }
            keys.extend(cache.indexed(&PODS_BY_NODE, change.key));
        }
        _ => {}
    }
}

fn decide_eviction(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let keep = |code, message| cx.keep_without_deadline(id, code, message);
    if record.meta.is_deleting() {
        return keep("Terminating", "it is being deleted");
    }
    let pod = id.body(record, Record::pod)?;
    let node_name = id.read(&pod.node_name, "spec.nodeName")?;
    if node_name.is_empty() {
        return keep("NotScheduled", "it is not scheduled");
    }
    let key = Key::cluster(Arc::clone(node_name));
    let Some(node) = cx.cache.find(Resource::Nodes, &key)? else {
        return keep("NoNode", "its node does not exist");
    };
    let node_id = node.id(Resource::Nodes);
    let taints = node_id.read(&node_id.body(node, Record::node)?.taints, "spec.taints")?;
    let taints = taints.iter().filter(|taint| &*taint.effect == NO_EXECUTE);
    let taints: Vec<&Taint> = taints.collect();
    if taints.is_empty() {
        return keep("NoTaint", "its node has no NoExecute taint");
    }
    let tolerations = id.read(&pod.tolerations, "spec.tolerations")?;
    let mut least: Option<i64> = None;
    for taint in &taints {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            let message = format!("it does not tolerate the taint {} of its node", taint.key);
            return evict(cx, id, record, pod, Reason::new("TaintNotTolerated", message));
        };
        least = least.into_iter().chain(toleration.toleration_seconds).min();
    }
    let Some(seconds) = least else {
        let message = "it tolerates the taints of its node without a time limit";
        return keep("Tolerated", message);
    };
    let tolerated = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let seen_at = taints.iter().filter_map(|taint| taint.time_added).max();
    let computed = seen_at.unwrap_or(cx.now).checked_add(tolerated);
    let Some(at) = cx.deadlines.get(DEADLINE).copied().or(computed) else {
        let message = "it tolerates the taints of its node until after the year 2262";
        return keep("Tolerated", message);
    };
    if at <= cx.now {
        let message = format!("it tolerated the taints of its node for {seconds}s");
        return evict(cx, id, record, pod, Reason::new("TolerationEnded", message));
    }
    let message = "it still tolerates the taints of its node";
    Ok(id.keep("ToleratedYet", message)?.deadline(DEADLINE, at))
}

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

const TAINT_ATTEMPTS: u32 = 5;

/// The cloud node lifecycle controller. It deletes nodes that no longer exist in the cloud, and taints those
/// that are shut down there.
///
/// The rules are [L8.1](crate::rules#l8-1) to [L8.6](crate::rules#l8-6).
///
/// [`Request::QueryCloud`] queries the cloud provider. A taint is written as upstream does it: the node
/// is read, patched, and read again after a conflict, up to five times.
///
/// # Upstream
/// [`MonitorNodes`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go),
/// and [`AddOrUpdateTaintOnNode` and
/// `RemoveTaintOffNode`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cloud-provider/node/helpers/taints.go).
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
        let failed = || ("DeletingNodeFailed", format!("Failed deleting node {name}: "));
        action.failure_event = self.version.has(FAILURE_HAS_EVENT).then(failed);
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

/// The node may have changed by the time of the response, so the next reconcile decides.
async fn query_cloud(work: Arc<(ObjectId, Arc<str>)>, port: Port) -> End {
    let (node, provider_id) = (*work).clone();
    let response = port.request(Request::QueryCloud { node, provider_id }).await;
    response.map_or_else(|_| Missing::not_queried(&work.0).into(), End::Cloud)
}

static CLOUD_LIFECYCLE: Info = Info {
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
        &CLOUD_LIFECYCLE
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
            let provider_id = id.read(&node.provider_id, "spec.providerID")?;
            if !cx.queries_cloud {
                return Err(Missing::not_queried(id));
            }
            let work = (id.clone(), Arc::clone(provider_id));
            return Ok(Steps::of(id, work, query_cloud).into());
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
