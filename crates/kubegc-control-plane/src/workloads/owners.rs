//! Owners of pods: a [sync] creates the dependents that an owner lacks, deletes pods that it does not want,
//! that have ended or that have another template, and then writes the status.

use std::sync::Arc;

use kubegc_controllers::job::{TRACKING_FINALIZER, respects_replacement_policy, tracks};
use kubegc_core::Timestamp;
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Value, json};

use super::{
    backoff::Failures,
    player::{Sync, api_version, condition, find, list, list_at, spec},
    pods::{fits, has_ended, is_active, is_ready},
};

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";

/// An owner with its dependents.
struct Owner<'a> {
    kind: &'static str,
    object: &'a StoredObject,
    template: Value,
    /// The value of a label of the dependents that have this template.
    hash: String,
    /// Its pods; the ReplicaSets of a Deployment.
    dependents: Vec<Arc<StoredObject>>,
    /// Whether the finished pods of a Job have a finalizer until `kubegc_controllers::job` has counted them.
    is_tracked: bool,
    /// Whether a Job replaces terminating pods only once they have ended.
    waits_for_end: bool,
}

/// One sync of an owner, unless its selector does not match its template: it would create pods without end.
pub(super) fn sync(cx: &mut Sync<'_>, kind: &'static str, object: &StoredObject) {
    let (meta, spec) = (&object.meta, spec(object));
    let template = spec["template"].clone();
    let mut labels = spec["selector"]["matchLabels"].as_object().into_iter().flatten();
    let is_managed = matches!(
        spec["managedBy"].as_str(),
        None | Some("kubernetes.io/job-controller")
    );
    let is_selected = labels.all(|(key, value)| template["metadata"]["labels"][key] == *value);
    if !is_managed || kind != "Job" && !is_selected {
        return;
    }
    let dependents = if kind == "Deployment" { "ReplicaSet" } else { "Pod" };
    let dependents = list(cx.server, dependents, Some(&meta.namespace)).into_iter();
    let is_own = |one: &Arc<StoredObject>| one.meta.controller().is_some_and(|owner| owner.uid == meta.uid);
    let (dependents, others): (_, Vec<_>) = dependents.partition(is_own);
    let hash = format!("{:08x}", fnv(template.to_string().as_bytes()));
    let version = cx.server.version();
    let is_marked = object.at(&["metadata", "annotations", TRACKING_FINALIZER]);
    let owner = Owner {
        kind,
        object,
        template,
        hash: if kind == "StatefulSet" {
            format!("{}-{hash}", meta.name)
        } else {
            hash
        },
        dependents,
        is_tracked: tracks(version, is_marked.is_some()),
        waits_for_end: respects_replacement_policy(version) && spec["podReplacementPolicy"] == "Failed",
    };
    let wanted = owner.wanted(cx);
    if !meta.is_deleting() {
        owner.adopt(cx, &others);
        owner.fill(cx, &wanted);
    }
    if !cx.has_written {
        owner.write_status(cx, wanted.len());
    }
}

/// The 32-bit FNV-1a hash.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(2_166_136_261, step)
}

/// The pod template, without the label that a Deployment adds.
fn template_of(object: &StoredObject) -> Value {
    let mut template = spec(object)["template"].clone();
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

/// A number of dependents. Larger ones than a test can have do not count.
fn number(value: &Value) -> Option<usize> {
    const MAX: i64 = 100_000;
    usize::try_from(value.as_i64()?.clamp(0, MAX)).ok()
}

/// Sets the fields of an object that another one has.
fn merge(target: &mut Value, fields: Value) {
    match (target, fields) {
        (Value::Object(target), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, fields) => *target = fields,
    }
}

impl Owner<'_> {
    /// Adopts pods that have no controller. `kubegc-controllers` adopts those of ReplicaSets.
    fn adopt(&self, cx: &mut Sync<'_>, others: &[Arc<StoredObject>]) {
        let selector = label_selector(&spec(self.object)["selector"]).unwrap_or_default();
        for pod in others {
            let is_free = pod.meta.controller().is_none() && is_active(pod) && self.kind != "Deployment";
            if is_free && !selector.is_empty() && selector.matches(&pod.meta) {
                let owned = json!({"metadata": {"ownerReferences": [self.reference()]}});
                cx.update("Pod", pod, owned);
            }
        }
    }

    /// Whether a dependent has the present template. `kubegc-controllers` replaces pods of ReplicaSets and
    /// Jobs.
    fn is_updated(&self, dependent: &StoredObject) -> bool {
        let hash = dependent.meta.labels.get(REVISION_HASH);
        match self.kind {
            "Deployment" => template_of(dependent) == template_of(self.object),
            "ReplicaSet" | "Job" => true,
            _ => hash.is_some_and(|hash| **hash == *self.hash),
        }
    }

    fn replicas(&self) -> usize {
        number(&spec(self.object)["replicas"]).unwrap_or(1)
    }

    /// The slots that should be filled, in order: names of pods or nodes, or empty.
    fn wanted(&self, cx: &Sync<'_>) -> Vec<String> {
        match self.kind {
            "Deployment" => vec![String::new()],
            "StatefulSet" => {
                let start = number(&spec(self.object)["ordinals"]["start"]).unwrap_or(0);
                let ordinals = start..start + self.replicas();
                ordinals
                    .map(|ordinal| format!("{}-{ordinal}", self.object.meta.name))
                    .collect()
            }
            "DaemonSet" => {
                let nodes = list(cx.server, "Node", None).into_iter();
                let suitable = nodes.filter(|node| fits(&self.template["spec"], node));
                suitable.map(|node| node.meta.name.to_string()).collect()
            }
            "Job" => vec![String::new(); self.active_of_job()],
            _ => vec![String::new(); self.replicas()],
        }
    }

    /// Whether a Job has ended or is about to end.
    fn is_ending(&self) -> bool {
        let mut ends = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].iter();
        ends.any(|end| condition(self.object, end) == "True")
    }

    /// When a Job creates its next pod, if failures delay it.
    fn next_pod(&self, cx: &mut Sync<'_>) -> Option<Timestamp> {
        let (now, version, uid) = (cx.now, cx.server.version(), &self.object.meta.uid);
        let failures = cx.failures().filter(|_| self.kind == "Job")?;
        if self.is_ending() {
            failures.remove(uid);
            return None;
        }
        let pods = self.dependents.iter().map(|pod| &**pod);
        let is_over = |pod: &&StoredObject| has_ended(pod) || pod.meta.is_deleting() && !self.waits_for_end;
        let new = || Failures::new(self.object);
        let known = failures.entry(uid.clone()).or_insert_with(new);
        known.update(self.object, &pods.filter(is_over).collect::<Vec<_>>(), now);
        known.due(version).filter(|due| *due > now)
    }

    /// The number of active pods that a Job should have.
    fn active_of_job(&self) -> usize {
        let spec = spec(self.object);
        if spec["suspend"] == true || self.is_ending() {
            return 0;
        }
        let (parallelism, succeeded) = (number(&spec["parallelism"]), self.ended("Succeeded"));
        // The API server defaults both to 1 if both are absent. Without completions, one success is enough.
        let completions = number(&spec["completions"]).or(parallelism.is_none().then_some(1));
        let max = if succeeded == 0 { usize::MAX } else { 0 };
        let open = completions.map_or(max, |completions| completions.saturating_sub(succeeded));
        open.min(parallelism.unwrap_or(1))
    }

    /// The number of pods that have ended in a phase.
    fn ended(&self, phase: &str) -> usize {
        let pods = self.dependents.iter();
        pods.filter(|pod| pod.text_at(&["status", "phase"]) == phase)
            .count()
    }

    /// The slot that a dependent fills; `None` if it fills none.
    fn slot(&self, dependent: &Arc<StoredObject>) -> Option<String> {
        match self.kind {
            "Deployment" => self.is_updated(dependent).then(String::new),
            "StatefulSet" => Some(dependent.meta.name.to_string()),
            "DaemonSet" => Some(dependent.text_at(&["spec", "nodeName"]).to_owned()),
            _ => is_active(dependent).then(String::new),
        }
    }

    /// Creates what empty slots need, and deletes pods that fill no wanted slot, that have ended or that have
    /// another template.
    fn fill(&self, cx: &mut Sync<'_>, wanted: &[String]) {
        let spec = spec(self.object);
        let is_ordered = self.kind == "StatefulSet" && spec["podManagementPolicy"] != "Parallel";
        let replaces = spec["updateStrategy"]["type"] != "OnDelete";
        let due = self.next_pod(cx);
        let is_terminating = |pod: &&Arc<StoredObject>| pod.meta.is_deleting() && !has_ended(pod);
        let mut terminating = self.dependents.iter().filter(is_terminating).count();
        let mut rest = self.dependents.clone();
        for slot in wanted {
            let at = rest.iter().position(|one| self.slot(one).as_ref() == Some(slot));
            let found = at.map(|at| rest.remove(at));
            match &found {
                None if self.waits_for_end && terminating > 0 => terminating -= 1,
                None => match due {
                    Some(due) => cx.wait_until(due),
                    None => self.create(cx, slot),
                },
                Some(set) if self.kind == "Deployment" => {
                    if set.at(&["spec", "replicas"]).and_then(number) != Some(self.replicas()) {
                        cx.update("ReplicaSet", set, json!({"spec": {"replicas": self.replicas()}}));
                    }
                }
                Some(pod) if has_ended(pod) || replaces && !self.is_updated(pod) => cx.delete(pod),
                Some(_) => {}
            }
            if is_ordered && (cx.has_written || !found.is_some_and(|pod| is_ready(&pod))) {
                return;
            }
        }
        rest.retain(|one| self.kind != "Deployment" && self.slot(one).is_some());
        for pod in rest.iter().rev().take(if is_ordered { 1 } else { usize::MAX }) {
            cx.delete(pod);
        }
    }

    /// A controller reference to the owner.
    fn reference(&self) -> Value {
        json!({
            "apiVersion": api_version(self.kind), "kind": self.kind,
            "name": &*self.object.meta.name, "uid": self.object.meta.uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    fn create(&self, cx: &mut Sync<'_>, slot: &str) {
        let (meta, spec, hash) = (&self.object.meta, spec(self.object), &self.hash);
        let metadata = &self.template["metadata"];
        let own = match self.kind {
            "Deployment" => return self.create_set(cx),
            "StatefulSet" => {
                let Some(volumes) = self.volumes(cx, slot) else {
                    return;
                };
                json!({
                    "metadata": {"name": slot, "generateName": null, "labels": {
                        REVISION_HASH: hash, "statefulset.kubernetes.io/pod-name": slot,
                        "apps.kubernetes.io/pod-index": slot.rsplit('-').next(),
                    }},
                    "spec": {"hostname": slot, "subdomain": spec["serviceName"], "volumes": volumes},
                })
            }
            "DaemonSet" => json!({
                "metadata": {"labels": {REVISION_HASH: hash}}, "spec": {"nodeName": slot},
            }),
            "Job" => json!({"metadata": {"labels": {
                "batch.kubernetes.io/controller-uid": meta.uid.to_string(),
                "batch.kubernetes.io/job-name": &*meta.name,
            }}}),
            _ => json!({}),
        };
        let mut pod = json!({
            "metadata": {
                "generateName": format!("{}-", meta.name), "ownerReferences": [self.reference()],
                "labels": metadata["labels"], "annotations": metadata["annotations"],
                "finalizers": metadata["finalizers"],
            },
            "spec": self.template["spec"],
        });
        merge(&mut pod, own);
        if self.kind == "Job" && self.is_tracked {
            pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
        }
        cx.create("Pod", &meta.namespace, pod);
    }

    /// Creates the ReplicaSet of a Deployment.
    fn create_set(&self, cx: &mut Sync<'_>) {
        let (meta, hash) = (&self.object.meta, json!({TEMPLATE_HASH: self.hash}));
        let (mut template, mut selector) = (self.template.clone(), spec(self.object)["selector"].clone());
        merge(&mut template, json!({"metadata": {"labels": hash}}));
        merge(&mut selector, json!({"matchLabels": hash}));
        let set = json!({
            "metadata": {
                "name": format!("{}-{}", meta.name, self.hash), "ownerReferences": [self.reference()],
                "labels": template["metadata"]["labels"],
            },
            "spec": {"replicas": self.replicas(), "selector": selector, "template": template},
        });
        cx.create("ReplicaSet", &meta.namespace, set);
    }

    /// Creates the missing claims of a pod. Returns its volumes; `None` if a claim is being deleted.
    fn volumes(&self, cx: &mut Sync<'_>, pod: &str) -> Option<Vec<Value>> {
        let (namespace, spec) = (&self.object.meta.namespace, spec(self.object));
        let mut volumes = list_at(&self.template["spec"], "volumes").to_vec();
        for template in list_at(spec, "volumeClaimTemplates") {
            let volume = template["metadata"]["name"].as_str().unwrap_or_default();
            let name = format!("{volume}-{pod}");
            match find(cx.server, "PersistentVolumeClaim", namespace, &name) {
                Some(claim) if claim.meta.is_deleting() => return None,
                Some(_) => {}
                None => {
                    let mut claim = template.clone();
                    let labels = &spec["selector"]["matchLabels"];
                    merge(&mut claim, json!({"metadata": {"name": name, "labels": labels}}));
                    cx.create("PersistentVolumeClaim", namespace, claim);
                }
            }
            volumes.retain(|other| other["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
        Some(volumes)
    }

    fn write_status(&self, cx: &mut Sync<'_>, wanted: usize) {
        let (object, hash, replicas) = (self.object, &self.hash, self.replicas());
        // A Deployment counts what the status of its ReplicaSets counts.
        let count = |field: &str, is_pod: fn(&StoredObject) -> bool, one: &StoredObject| match self.kind {
            "Deployment" => one.at(&["status", field]).and_then(number).unwrap_or(0),
            _ => is_pod(one).into(),
        };
        let dependents = || self.dependents.iter();
        let all: usize = dependents().map(|one| count("replicas", is_active, one)).sum();
        let ready: usize = dependents()
            .map(|one| count("readyReplicas", is_ready, one))
            .sum();
        let updated = dependents().filter(|one| self.is_updated(one));
        let updated: usize = updated.map(|one| count("replicas", is_active, one)).sum();
        let mut conditions = Vec::new();
        let mut status = json!({"replicas": all, "readyReplicas": ready, "availableReplicas": ready});
        let own = match self.kind {
            "Deployment" => {
                conditions.push(match ready >= replicas {
                    true => ("Available", "True", "MinimumReplicasAvailable"),
                    false => ("Available", "False", "MinimumReplicasUnavailable"),
                });
                conditions.push(match [all, ready, updated] == [replicas; 3] {
                    true => ("Progressing", "True", "NewReplicaSetAvailable"),
                    false => ("Progressing", "True", "ReplicaSetUpdated"),
                });
                json!({"updatedReplicas": updated, "unavailableReplicas": replicas.max(all) - ready})
            }
            "StatefulSet" => json!({
                "replicas": self.dependents.len(), "updatedReplicas": updated, "currentReplicas": updated,
                "currentRevision": hash, "updateRevision": hash,
            }),
            "DaemonSet" => {
                status = json!({
                    "desiredNumberScheduled": wanted, "currentNumberScheduled": all.min(wanted),
                    "numberMisscheduled": all.saturating_sub(wanted), "updatedNumberScheduled": updated,
                    "numberReady": ready, "numberAvailable": ready,
                    "numberUnavailable": wanted.saturating_sub(ready),
                });
                json!({})
            }
            "Job" => return cx.status(self.kind, object, self.status_of_job(cx, all, ready), &[]),
            _ => json!({"fullyLabeledReplicas": all}),
        };
        merge(&mut status, own);
        status["observedGeneration"] = object.meta.generation.into();
        cx.status(self.kind, object, status, &conditions);
    }

    /// The fields that `kubegc_controllers::job` does not write.
    fn status_of_job(&self, cx: &Sync<'_>, active: usize, ready: usize) -> Value {
        let mut status = json!({"active": active, "ready": ready});
        let is_complete = condition(self.object, "Complete") == "True";
        for (field, is_set) in [("startTime", true), ("completionTime", is_complete)] {
            if is_set && self.object.at(&["status", field]).is_none() {
                status[field] = cx.time();
            }
        }
        if !self.is_tracked {
            status["succeeded"] = self.ended("Succeeded").into();
            status["failed"] = self.ended("Failed").into();
        }
        status
    }
}
