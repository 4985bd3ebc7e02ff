//! Deletes pods from nodes with `NoExecute` taints that they do not tolerate, or no longer.
//!
//! - a pod that is not scheduled, or on a node without such a taint: it is kept.
//! - a taint that no toleration matches: the pod is deleted at once.
//! - each taint is matched by the first toleration that fits; none of these has `tolerationSeconds`: the pod
//!   is kept forever.
//! - otherwise: the pod is deleted after the least of their `tolerationSeconds`; zero and less mean at once.
//! - the time runs: from `timeAdded` of the newest of the taints, or from when they are first seen; later
//!   changes of taints or tolerations do not move it.
//! - all taints are removed, or all are tolerated forever: the deletion is cancelled.
//! - the deletion: Event `TaintManagerEviction`, a status patch that sets the condition `DisruptionTarget`,
//!   DELETE without preconditions.
//! - a pod that is being deleted: it is kept: deleting it again would change nothing.
//!
//! The API server gives most pods tolerations of 300 s for the taints `not-ready` and `unreachable` of the
//! node lifecycle controller. Upstream counts from when it observes a taint, also after its own start; taking
//! `timeAdded` is the same for a controller that ran throughout.
//!
//! Before 1.26 the condition is not set (feature gate `PodDisruptionConditions`), from 1.34 on it has
//! `observedGeneration`. Before 1.29 the node lifecycle controller does the same work.
//!
//! # Upstream
//! [`processPodOnNode`, `getMinTolerationTime`,
//! `addConditionAndDeletePod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/tainteviction/taint_eviction.go)
//! in `taint_eviction.go`; before 1.29 [`processPodOnNode` and
//! `addConditionAndDeletePod`](https://github.com/kubernetes/kubernetes/blob/v1.28.0/pkg/controller/nodelifecycle/scheduler/taint_manager.go)
//! in `taint_manager.go`.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    DeleteOptions, KubernetesVersion, PatchType,
    record::{ObjectId, Pod, Record, Resource, Taint, Toleration},
};

use crate::{
    Action, Cache, Change, Deadlines, Decision, FieldChange, Form, Index, Info, Key, Missing, OnError, Read,
    Reason, Rule, Sent,
    controller::Reads as _,
    podgc::disruption_target,
    release::{DISRUPTION_CONDITIONS, OBSERVED_GENERATION},
    rule::RuleContext,
};

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

/// The taint eviction controller.
pub static RULE: Rule = Rule {
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
    affected: Some(affected),
    decide,
    ..Rule::BASE
};

fn affected(_: KubernetesVersion, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
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

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
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
    let taints = taints.iter().filter(|taint| &*taint.effect == "NoExecute");
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
    let reason = Reason::new("ToleratedYet", "it still tolerates the taints of its node");
    let mut decision = Decision::keep(id.clone(), reason).requeue_at(at);
    decision.deadlines = Some(Deadlines::from([(DEADLINE.into(), at)]));
    Ok(decision)
}
