//! Owners of pods: the dependents that an owner should have, compared with those that it has.
//!
//! | owner | dependents, by slot | the rest, by `kubegc-controllers` |
//! |---|---|---|
//! | Deployment | the ReplicaSet of the present template, with all replicas | scales other ReplicaSets down |
//! | ReplicaSet | pods, as many as `replicas` | deletes surplus pods |
//! | StatefulSet | a pod and its claims for each ordinal | |
//! | DaemonSet | a pod for each node that fits | |
//! | Job | active pods, as many as `parallelism` and `completions` want | ends the Job |
//!
//! A [sync] creates what empty slots need, deletes pods that fill no slot, replaces pods that have ended or
//! have another template, and then writes the status.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_controllers::{JobTracking, job::TRACKING_FINALIZER};
use kubegc_core::{Behavior, ObjectMeta};
use kubegc_sim::{Manifest, StoredObject, label_selector};
use serde_json::{Value, json};

use super::{
    model::{KINDS, Plan, View, condition, conditions, find, items, number, put, with},
    pods::{fits, has_ended, is_active, is_ready},
};

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";
/// Pods of Jobs have labels with the prefix of the group, and pods of StatefulSets one with their index.
const MORE_LABELS: Behavior = Behavior::since(28, 0, "kubernetes #114930, feature gate PodIndexLabel");
const INDEX: [&str; 3] = [
    "metadata",
    "annotations",
    "batch.kubernetes.io/job-completion-index",
];

/// An owner with its dependents.
struct Owner<'a> {
    view: &'a View<'a>,
    kind: &'static str,
    object: &'a StoredObject,
    dependents: Vec<Arc<StoredObject>>,
    /// The pods below it that have not ended.
    pods: Vec<Arc<StoredObject>>,
    /// The value of the label by which pods of the present template are known.
    hash: String,
}

/// One sync of an owner.
pub(super) fn sync(view: &View<'_>, kind: &'static str, object: &StoredObject, plan: &mut Plan) {
    let manager = object.text_at(&["spec", "managedBy"]);
    if matches!(manager, "" | "kubernetes.io/job-controller")
        && let Some(owner) = Owner::new(view, kind, object, plan)
    {
        let wanted = owner.wanted();
        if plan.writes.is_empty() && !object.meta.is_deleting() {
            owner.fill(&wanted, plan);
        }
        if plan.writes.is_empty() {
            plan.status(kind, object, owner.status(wanted.len()));
        }
    }
}

/// The 32-bit FNV-1a hash.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(2_166_136_261, step)
}

/// The pod template, without the label that a Deployment adds.
fn template_of(object: &StoredObject) -> Value {
    let mut template = object.at(&["spec", "template"]).cloned().unwrap_or_default();
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

fn is_controlled_by(object: &StoredObject, owner: &StoredObject) -> bool {
    let controller = object.meta.controller();
    controller.is_some_and(|controller| controller.uid == owner.meta.uid)
}

/// A number as upstream stores most of them: without 0.
fn shown(count: usize) -> Value {
    if count == 0 { Value::Null } else { count.into() }
}

impl<'a> Owner<'a> {
    /// Reads an owner, and plans the adoption of pods. `None` if its selector does not match its template: it
    /// would create and release pods without end.
    fn new(
        view: &'a View<'a>,
        kind: &'static str,
        object: &'a StoredObject,
        plan: &mut Plan,
    ) -> Option<Self> {
        let template = template_of(object);
        let mut hash = format!("{:08x}", fnv(template.to_string().as_bytes()));
        if kind == "StatefulSet" {
            hash = format!("{}-{hash}", object.meta.name);
        }
        let namespace = Some(&*object.meta.namespace);
        let (dependents, pods) = (Vec::new(), view.list("Pod", namespace));
        let mut owner = Self {
            view,
            kind,
            object,
            dependents,
            pods,
            hash,
        };
        let selector = object.at(&["spec", "selector"]).and_then(label_selector);
        let selector = selector.filter(|selector| !selector.is_empty());
        let is_selected =
            |meta: &ObjectMeta| selector.as_ref().is_some_and(|selector| selector.matches(meta));
        let sample = Manifest::read(owner.pod("")).ok()?.object.meta;
        if kind != "Job" && !is_selected(&sample) {
            return None;
        }
        if kind == "Deployment" {
            owner.dependents = view.list("ReplicaSet", namespace);
            owner.dependents.retain(|set| is_controlled_by(set, object));
            let mut sets = owner.dependents.iter();
            if let Some(set) = sets.find(|set| template_of(set) == template) {
                let hash = set.meta.labels.get(TEMPLATE_HASH);
                owner.hash = hash.map_or_else(String::new, ToString::to_string);
            }
            let sets = &owner.dependents;
            let is_below = |pod: &StoredObject| sets.iter().any(|set| is_controlled_by(pod, set));
            owner.pods.retain(|pod| is_below(pod));
        } else {
            let adopts = !object.meta.is_deleting();
            let is_free = |pod: &StoredObject| pod.meta.controller().is_none() && is_active(pod);
            for pod in &owner.pods {
                if adopts && is_free(pod) && is_selected(&pod.meta) {
                    let mut adopted = StoredObject::clone(pod);
                    let references = &mut adopted.meta.owner_references;
                    references.extend(sample.owner_references.iter().cloned());
                    plan.update("Pod", "", adopted);
                }
            }
            owner.pods.retain(|pod| is_controlled_by(pod, object));
            owner.dependents.clone_from(&owner.pods);
        }
        owner.pods.retain(|pod| !has_ended(pod));
        Some(owner)
    }

    /// Whether a pod has the present template. `kubegc-controllers` replaces those of ReplicaSets and Jobs.
    fn is_updated(&self, pod: &StoredObject) -> bool {
        let hash = match self.kind {
            "Deployment" => pod.meta.labels.get(TEMPLATE_HASH),
            "ReplicaSet" | "Job" => return true,
            _ => pod.meta.labels.get(REVISION_HASH),
        };
        hash.is_some_and(|hash| **hash == *self.hash)
    }

    fn replicas(&self) -> usize {
        number(self.object, "replicas").unwrap_or(1)
    }

    /// The slots that should be filled, in order.
    fn wanted(&self) -> Vec<String> {
        let object = self.object;
        match self.kind {
            // Old pods of a Deployment that recreates its pods end before new ones are created.
            "Deployment" if object.text_at(&["spec", "strategy", "type"]) == "Recreate" => {
                let has_old_pods = self.pods.iter().any(|pod| !self.is_updated(pod));
                vec![String::new(); usize::from(!has_old_pods)]
            }
            "Deployment" => vec![String::new()],
            "StatefulSet" => {
                let start = object.at(&["spec", "ordinals", "start"]);
                let start = start.and_then(Value::as_u64).unwrap_or(0);
                let ordinals = (start..u64::MAX).take(self.replicas());
                let name = |ordinal| format!("{}-{ordinal}", object.meta.name);
                ordinals.map(name).collect()
            }
            "DaemonSet" => {
                let spec = object.at(&["spec", "template", "spec"]).unwrap_or(&Value::Null);
                let nodes = self.view.list("Node", None).into_iter();
                let suitable = nodes.filter(|node| fits(spec, node));
                suitable.map(|node| node.meta.name.to_string()).collect()
            }
            "Job" => self.wanted_of_job(),
            _ => vec![String::new(); self.replicas()],
        }
    }

    /// The slots of the active pods of a Job, and of those to be created.
    fn wanted_of_job(&self) -> Vec<String> {
        let job = self.object;
        let mut ends = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].iter();
        let is_started = job.at(&["status", "startTime"]).is_some();
        if !is_started || self.is_suspended() || ends.any(|end| condition(job, end) == "True") {
            return Vec::new();
        }
        let parallelism = number(job, "parallelism");
        // The API server defaults both to 1 if both are absent.
        let completions = number(job, "completions").or(parallelism.is_none().then_some(1));
        let done = self.ended("Succeeded");
        let open = match completions {
            None => usize::from(done.is_empty()).saturating_mul(usize::MAX),
            Some(completions) => completions.saturating_sub(done.len()),
        };
        let open = open.min(parallelism.unwrap_or(1));
        if job.text_at(&["spec", "completionMode"]) != "Indexed" {
            return vec![String::new(); open];
        }
        let done: Vec<&str> = done.iter().map(|pod| pod.text_at(&INDEX)).collect();
        let indexes = (0..completions.unwrap_or(0)).map(|index| index.to_string());
        let open_indexes = indexes.filter(|index| !done.contains(&index.as_str()));
        open_indexes.take(open).collect()
    }

    fn is_suspended(&self) -> bool {
        self.object.at(&["spec", "suspend"]) == Some(&true.into())
    }

    /// The pods that have ended in a phase.
    fn ended(&self, phase: &str) -> Vec<&Arc<StoredObject>> {
        let pods = self.dependents.iter();
        pods.filter(|pod| pod.text_at(&["status", "phase"]) == phase)
            .collect()
    }

    /// The slot that a dependent fills; `None` if it fills none.
    fn slot(&self, dependent: &StoredObject) -> Option<String> {
        match self.kind {
            "Deployment" => (template_of(dependent) == template_of(self.object)).then(String::new),
            "StatefulSet" => Some(dependent.meta.name.to_string()),
            "DaemonSet" => Some(dependent.text_at(&["spec", "nodeName"]).to_owned()),
            _ => is_active(dependent).then(|| dependent.text_at(&INDEX).to_owned()),
        }
    }

    /// Creates what empty slots need, deletes what fills no wanted slot, and replaces outdated pods one at a
    /// time.
    fn fill(&self, wanted: &[String], plan: &mut Plan) {
        let mut present: BTreeMap<String, Vec<&Arc<StoredObject>>> = BTreeMap::new();
        for dependent in &self.dependents {
            if let Some(slot) = self.slot(dependent) {
                present.entry(slot).or_default().push(dependent);
            }
        }
        let policy = self.object.text_at(&["spec", "podManagementPolicy"]);
        let is_ordered = self.kind == "StatefulSet" && policy != "Parallel";
        // Whether all pods of the present template are ready, and the pod that is replaced next.
        let (mut is_settled, mut outdated) = (true, None);
        for slot in wanted {
            let found = present.get_mut(slot).and_then(Vec::pop);
            match found {
                None => self.create(slot, plan),
                Some(set) if self.kind == "Deployment" => self.scale(set, plan),
                Some(pod) if has_ended(pod) => plan.delete(pod),
                Some(_) => {}
            }
            let is_ready = found.is_some_and(|pod| is_ready(pod));
            if is_ordered && !is_ready {
                return;
            }
            match found.filter(|pod| is_active(pod) && !self.is_updated(pod)) {
                None => is_settled &= is_ready,
                // Pods that are not ready come first.
                found if !is_ready || outdated.is_none() => outdated = found,
                Some(_) => {}
            }
        }
        if self.kind == "Deployment" {
            return;
        }
        for pod in present.into_values().flatten().rev() {
            plan.delete(pod);
            if is_ordered {
                return;
            }
        }
        let strategy = self.object.text_at(&["spec", "updateStrategy", "type"]);
        if is_settled && strategy != "OnDelete" && plan.writes.is_empty() {
            outdated.iter().for_each(|pod| plan.delete(pod));
        }
    }

    /// Gives the ReplicaSet of a Deployment its number of replicas.
    fn scale(&self, set: &StoredObject, plan: &mut Plan) {
        if number(set, "replicas") != Some(self.replicas()) {
            let scaled = with(set, "spec", &["replicas"], self.replicas().into());
            plan.update("ReplicaSet", "", scaled);
        }
    }

    /// A controller reference to the owner.
    fn reference(&self) -> Value {
        let row = KINDS.iter().find(|row| row.0 == self.kind);
        json!({
            "apiVersion": row.map_or("", |row| row.1), "kind": self.kind,
            "name": &*self.object.meta.name, "uid": self.object.meta.uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// A pod of the template, with this name or else one that the server generates.
    fn pod(&self, name: &str) -> Value {
        let template = self.object.at(&["spec", "template"]).unwrap_or(&Value::Null);
        let mut metadata = match name {
            "" => json!({"generateName": format!("{}-", self.object.meta.name)}),
            name => json!({"name": name}),
        };
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = template["metadata"].get(field) {
                metadata[field] = value.clone();
            }
        }
        metadata["ownerReferences"] = json!([self.reference()]);
        let spec = template["spec"].as_object().cloned().unwrap_or_default();
        json!({"metadata": metadata, "spec": spec})
    }

    /// Creates the dependent of a slot.
    fn create(&self, slot: &str, plan: &mut Plan) {
        let name = &self.object.meta.name;
        let mut pod = self.pod(if self.kind == "StatefulSet" { slot } else { "" });
        let has_more = self.view.server.version().has(MORE_LABELS);
        let mut set = |path: &[&str], value: &str| put(&mut pod, path, value.into());
        match self.kind {
            "Deployment" => return self.create_replica_set(plan),
            "StatefulSet" => {
                set(&["metadata", "labels", REVISION_HASH], &self.hash);
                set(
                    &["metadata", "labels", "statefulset.kubernetes.io/pod-name"],
                    slot,
                );
                if let Some((_, index)) = slot.rsplit_once('-').filter(|_| has_more) {
                    set(&["metadata", "labels", "apps.kubernetes.io/pod-index"], index);
                }
                set(&["spec", "hostname"], slot);
                set(
                    &["spec", "subdomain"],
                    self.object.text_at(&["spec", "serviceName"]),
                );
                if !self.claim(slot, &mut pod, plan) {
                    return;
                }
            }
            "DaemonSet" => {
                set(&["metadata", "labels", REVISION_HASH], &self.hash);
                set(&["spec", "nodeName"], slot);
                let tolerations = pod["spec"]["tolerations"].as_array().cloned();
                let lost = ["not-ready", "unreachable"].map(|taint| {
                    let key = format!("node.kubernetes.io/{taint}");
                    json!({"key": key, "operator": "Exists", "effect": "NoExecute"})
                });
                let tolerations = tolerations.into_iter().flatten().chain(lost).collect();
                put(&mut pod, &["spec", "tolerations"], tolerations);
            }
            "Job" => {
                if has_more {
                    let uid = self.object.meta.uid.to_string();
                    set(
                        &["metadata", "labels", "batch.kubernetes.io/controller-uid"],
                        &uid,
                    );
                    set(&["metadata", "labels", "batch.kubernetes.io/job-name"], name);
                }
                if !slot.is_empty() {
                    set(&INDEX, slot);
                    set(&["metadata", "generateName"], &format!("{name}-{slot}-"));
                }
                if self.is_tracked() {
                    put(&mut pod, &["metadata", "finalizers"], json!([TRACKING_FINALIZER]));
                }
            }
            _ => {}
        }
        plan.create("Pod", &self.object.meta.namespace, pod);
    }

    fn create_replica_set(&self, plan: &mut Plan) {
        let hash = self.hash.as_str();
        let mut template = template_of(self.object);
        put(&mut template, &["metadata", "labels", TEMPLATE_HASH], hash.into());
        let mut selector = self.object.at(&["spec", "selector"]).cloned().unwrap_or_default();
        put(&mut selector, &["matchLabels", TEMPLATE_HASH], hash.into());
        let metadata = json!({
            "name": format!("{}-{hash}", self.object.meta.name),
            "labels": template["metadata"]["labels"],
            "ownerReferences": [self.reference()],
        });
        let spec = json!({"replicas": self.replicas(), "selector": selector, "template": template});
        let set = json!({"metadata": metadata, "spec": spec});
        plan.create("ReplicaSet", &self.object.meta.namespace, set);
    }

    /// Creates the missing claims of a pod, and adds their volumes to it. Returns whether the pod can be
    /// created: no claim is being deleted.
    fn claim(&self, pod_name: &str, pod: &mut Value, plan: &mut Plan) -> bool {
        let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        for template in items(self.object, &["spec", "volumeClaimTemplates"]) {
            let volume = template["metadata"]["name"].as_str().unwrap_or_default();
            let name = format!("{volume}-{pod_name}");
            let namespace = &self.object.meta.namespace;
            match find(self.view.server, "PersistentVolumeClaim", namespace, &name) {
                Some(claim) if claim.meta.is_deleting() => return false,
                Some(_) => {}
                None => {
                    let mut claim = template.clone();
                    put(&mut claim, &["metadata", "name"], name.as_str().into());
                    let labels = self.object.at(&["spec", "selector", "matchLabels"]);
                    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
                        put(&mut claim, &["metadata", "labels", key], value.clone());
                    }
                    plan.create("PersistentVolumeClaim", namespace, claim);
                }
            }
            volumes.retain(|other| other["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
        put(pod, &["spec", "volumes"], volumes.into());
        true
    }

    /// Whether the status of a Job counts its finished pods.
    fn is_tracked(&self) -> bool {
        let tracking = JobTracking::new(self.view.server.version());
        let annotations = self.object.at(&["metadata", "annotations", TRACKING_FINALIZER]);
        tracking.is_tracking && (tracking.is_tracking_all || annotations.is_some())
    }

    /// The fields of the status.
    fn status(&self, wanted: usize) -> Value {
        let object = self.object;
        let pods: Vec<_> = self.pods.iter().filter(|pod| is_active(pod)).collect();
        let all = pods.len();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let updated = pods.iter().filter(|pod| self.is_updated(pod)).count();
        let mut status = match self.kind {
            "Deployment" => {
                let wanted = self.replicas();
                let availability = match ready >= wanted {
                    true => ("Available", "True", "MinimumReplicasAvailable"),
                    false => ("Available", "False", "MinimumReplicasUnavailable"),
                };
                let progress = match [all, ready, updated] == [wanted; 3] {
                    true => ("Progressing", "True", "NewReplicaSetAvailable"),
                    false => ("Progressing", "True", "ReplicaSetUpdated"),
                };
                json!({
                    "replicas": shown(all), "updatedReplicas": shown(updated),
                    "readyReplicas": shown(ready), "availableReplicas": shown(ready),
                    "unavailableReplicas": shown(wanted.max(all) - ready),
                    "conditions": conditions(object, &self.view.time(), &[availability, progress]),
                })
            }
            "StatefulSet" => json!({
                "replicas": self.dependents.len(), "updatedReplicas": shown(updated),
                "readyReplicas": shown(ready), "availableReplicas": ready,
                "currentReplicas": shown(updated), "currentRevision": self.hash, "updateRevision": self.hash,
            }),
            "DaemonSet" => json!({
                "desiredNumberScheduled": wanted, "currentNumberScheduled": all.min(wanted),
                "numberMisscheduled": all.saturating_sub(wanted), "updatedNumberScheduled": shown(updated),
                "numberReady": ready, "numberAvailable": shown(ready),
                "numberUnavailable": shown(wanted.saturating_sub(ready)),
            }),
            "Job" => return self.status_of_job(all, ready),
            _ => json!({
                "replicas": all, "fullyLabeledReplicas": shown(all),
                "readyReplicas": shown(ready), "availableReplicas": shown(ready),
            }),
        };
        status["observedGeneration"] = object.meta.generation.into();
        status
    }

    /// The fields that `kubegc_controllers::job` does not write.
    fn status_of_job(&self, active: usize, ready: usize) -> Value {
        let mut status = json!({"active": shown(active), "ready": ready});
        for (field, is_set) in [
            ("startTime", !self.is_suspended()),
            ("completionTime", condition(self.object, "Complete") == "True"),
        ] {
            let known = self.object.at(&["status", field]).cloned();
            let time = known.unwrap_or_else(|| self.view.time());
            status[field] = if is_set { time } else { Value::Null };
        }
        if !self.is_tracked() {
            status["succeeded"] = shown(self.ended("Succeeded").len());
            status["failed"] = shown(self.ended("Failed").len());
        }
        status
    }
}
