//! Kubelets, the scheduler and the volume controller by the rules of a test.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    Timestamp,
    record::Resource::{Nodes, PersistentVolumeClaims, PersistentVolumes, Pods},
};
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    ClaimFate, PodFate, Subject, Workloads,
    player::{Sync, list},
};

/// The driver and provisioner of provisioned volumes.
pub(crate) const DRIVER: &str = "csi.example.com";
/// The time between the exit of a container and its restart.
const RESTART: Duration = Duration::from_secs(10);

pub(super) fn has_ended(pod: &StoredObject) -> bool {
    matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed")
}

pub(super) fn is_active(pod: &StoredObject) -> bool {
    !has_ended(pod) && !pod.meta.is_deleting()
}

/// Whether a pod is active and ready.
pub(super) fn is_ready(pod: &StoredObject) -> bool {
    is_active(pod) && pod.condition("Ready")["status"] == "True"
}

/// The 32-bit FNV-1a hash.
pub(super) fn fnv(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    text.bytes().fold(2_166_136_261, step)
}

/// A Node whose kubelet reports that it is ready, as JSON.
pub fn ready_node(name: &str, now: Timestamp) -> Value {
    let now = now.truncate_to_secs().to_string();
    let ready =
        json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [ready], "addresses": [{"type": "Hostname", "address": name}]},
    })
}

/// Whether pods with this spec may run on a node, by its labels.
pub(super) fn fits(spec: &Value, node: &StoredObject) -> bool {
    let mut labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let has = |key: &str, value: &Value| node.meta.labels.get(key).is_some_and(|known| *value == **known);
    !node.meta.is_deleting() && labels.all(|(key, value)| has(key, value))
}

impl Sync<'_> {
    /// Writes whether the kubelet of a node reports.
    pub(super) fn set_runs(&mut self, runs: bool) {
        let ready = match runs {
            true => ("Ready", "True", "KubeletReady"),
            false => ("Ready", "Unknown", "NodeStatusUnknown"),
        };
        self.status(json!({}), &[ready]);
    }

    /// One sync of a pod: by the scheduler if it has no node, else by the kubelet of its node.
    pub(super) fn pod(&mut self, rules: &Workloads) {
        let (pod, node) = (self.object, self.object.text_at(&["spec", "nodeName"]));
        let fate = rules.pod(&Subject::new(self.server, pod));
        if node.is_empty() {
            if fate != PodFate::Unschedulable && is_active(pod) {
                self.schedule();
            }
        } else if let Some(node) = self.find(Nodes, node).filter(|_| !has_ended(pod)) {
            if node.condition("Ready")["status"] != "True" {
                self.status(json!({}), &[("Ready", "False", "")]);
            } else if !pod.meta.is_deleting() {
                self.run(fate);
            } else if pod.meta.deletion_grace_period_seconds == Some(0) {
                // Only finalizers keep it.
                self.status(json!({"phase": "Failed"}), &[("Ready", "False", "")]);
            }
        }
    }

    /// Binds a pod to the suitable node with the fewest pods, once its claims are bound.
    fn schedule(&mut self) {
        let volumes = self.object.list_at(&["spec", "volumes"]).iter();
        let claims = volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
        for claim in claims.filter_map(Value::as_str) {
            let claim = self.find(PersistentVolumeClaims, claim);
            if claim.is_none_or(|claim| claim.field("status")["phase"] != "Bound") {
                return;
            }
        }
        let mut pods = list(self.server, Pods, None);
        pods.retain(|pod| is_active(pod));
        let mut nodes = list(self.server, Nodes, None);
        nodes.retain(|node| fits(self.spec, node) && node.field("spec")["unschedulable"] != true);
        nodes.retain(|node| node.condition("Ready")["status"] == "True");
        let count = |node: &Arc<StoredObject>| {
            let on_node = pods
                .iter()
                .filter(|pod| pod.field("spec")["nodeName"] == *node.meta.name);
            on_node.count()
        };
        if let Some(node) = nodes.iter().min_by_key(|node| count(node)) {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": &*node.meta.name});
            self.actor = "default-scheduler";
            self.update(Pods, self.object, json!({"target": target}));
        }
    }

    /// Writes the status of a pod on its node, by its fate and the time since its start.
    fn run(&mut self, fate: PodFate) {
        let (pod, now) = (self.object, self.server.now());
        let started = pod.text_at(&["status", "startTime"]);
        if started.is_empty() && matches!(fate, PodFate::Pending | PodFate::Unschedulable) {
            let conditions = [
                ("PodScheduled", "True", ""),
                ("Ready", "False", "ContainersNotReady"),
            ];
            return self.status(json!({"phase": "Pending"}), &conditions);
        }
        let start = Timestamp::parse(started).unwrap_or_else(|_| now.truncate_to_secs());
        // The time of the change after a start of the containers, and the exit code that it has.
        let (after, exit) = match fate {
            PodFate::Ready { after } => (after, None),
            PodFate::Succeeds { after } => (after, Some(0)),
            PodFate::Fails { after } => (after, Some(1)),
            _ => (Duration::MAX, None),
        };
        let restarts = match (self.spec["restartPolicy"].as_str(), exit) {
            (Some("Never"), _) | (Some("OnFailure"), Some(0)) | (_, None) => false,
            _ => true,
        };
        // The time between two starts.
        let round = if restarts {
            after.saturating_add(RESTART)
        } else {
            Duration::MAX
        };
        let rounds = now.since(start).as_nanos() / round.as_nanos();
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        let begin = start.saturating_add(round.saturating_mul(rounds));
        let has_changed = now >= begin.saturating_add(after);
        let next = if has_changed { round } else { after };
        if next < Duration::MAX {
            self.wait_until(begin.saturating_add(next));
        }
        let is_ready = has_changed == exit.is_none();
        let (phase, state) = match exit.filter(|_| has_changed) {
            None => ("Running", json!({"running": {"startedAt": start.to_string()}})),
            Some(_) if restarts => ("Running", json!({"waiting": {"reason": "CrashLoopBackOff"}})),
            Some(code) => {
                let end = start.saturating_add(after).to_string();
                let ended = json!({"terminated": {"exitCode": code, "finishedAt": end}});
                (if code == 0 { "Succeeded" } else { "Failed" }, ended)
            }
        };
        let known = &pod.field("status")["containerStatuses"][0]["restartCount"];
        let count = known.as_u64().unwrap_or(0).max(rounds.into());
        let containers = pod.list_at(&["spec", "containers"]).iter().map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready,
                "restartCount": count, "state": state,
            })
        });
        let [a, b, c, _] = fnv(&pod.meta.uid.to_string()).to_be_bytes();
        let status = json!({
            "phase": phase, "startTime": start.to_string(), "podIP": format!("10.{a}.{b}.{c}"),
            "containerStatuses": containers.collect::<Vec<_>>(),
        });
        let ready = if is_ready { "True" } else { "False" };
        let conditions = [
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", ready),
            ("Ready", ready),
        ];
        self.status(status, &conditions.map(|(of_type, status)| (of_type, status, "")));
    }

    /// One sync of a claim: a volume is provisioned and named in the claim, then the claim is bound.
    pub(super) fn claim(&mut self, rules: &Workloads) {
        let (claim, meta, spec, now) = (self.object, &self.object.meta, self.spec, self.server.now());
        let ClaimFate::Bound { after } = rules.claim(&Subject::new(self.server, claim)) else {
            return;
        };
        let at = meta.creation_timestamp.unwrap_or(now).saturating_add(after);
        if meta.is_deleting() || !matches!(claim.text_at(&["status", "phase"]), "" | "Pending") {
            return;
        }
        if at > now {
            return self.wait_until(at);
        }
        let capacity = &spec["resources"]["requests"];
        match spec["volumeName"].as_str().unwrap_or_default() {
            "" => {
                let name = format!("pvc-{}", meta.uid);
                let of_claim = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": meta.uid.to_string(),
                    "namespace": &*meta.namespace, "name": &*meta.name,
                });
                let volume = json!({
                    "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
                    "spec": {
                        "capacity": capacity, "accessModes": spec["accessModes"], "claimRef": of_claim,
                        "csi": {"driver": DRIVER, "volumeHandle": name},
                        "persistentVolumeReclaimPolicy": "Delete",
                        "storageClassName": spec["storageClassName"],
                    },
                });
                self.create(PersistentVolumes, volume);
                self.update(self.resource, claim, json!({"spec": {"volumeName": name}}));
            }
            name if self.find(PersistentVolumes, name).is_some() => {
                let status =
                    json!({"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity});
                self.status(status, &[]);
            }
            _ => {}
        }
    }
}
