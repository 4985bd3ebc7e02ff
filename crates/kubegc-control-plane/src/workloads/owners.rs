//! Owners of pods: a sync creates the dependents that an owner lacks, deletes pods that it does not want,
//! that have ended or that have another template, and then writes the status.

use std::{sync::Arc, time::Duration};

use json_patch::merge;
use kubegc_controllers::job::{TRACKING_FINALIZER, tracks};
use kubegc_core::{Timestamp, backoff::doubled, record::Resource::*};
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Value, json};

use super::player::{Sync, fits, has_ended, is_active, is_ready, list};
use crate::Act;

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";
/// The delay of the next pod of a Job after the first failure, and the longest.
const BACKOFF: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

/// The pod template, without the label that a Deployment adds.
fn template_of(object: &StoredObject) -> Value {
    let mut template = object.field("spec")["template"].clone();
    let unhashed = json!({"metadata": {"labels": {TEMPLATE_HASH: null}}});
    merge(&mut template, &unhashed);
    template
}

/// A number of dependents. Larger ones than a test can have do not count.
fn number(value: &Value) -> Option<usize> {
    usize::try_from(value.as_i64()?.clamp(0, 100_000)).ok()
}

impl Sync<'_> {
    /// One sync of an owner. One that does not select its own pods would create pods without end.
    pub(super) fn owner(&mut self) {
        let (meta, spec, selector) = (&self.object.meta, self.spec, &self.spec["selector"]);
        let labels = &spec["template"]["metadata"]["labels"];
        let mut selected = selector["matchLabels"].as_object().into_iter().flatten();
        let is_selected = self.resource == Jobs || selected.all(|(key, value)| labels[key] == *value);
        if !is_selected {
            return;
        }
        let is_deployment = self.resource == Deployments;
        let dependents = if is_deployment { ReplicaSets } else { Pods };
        let dependents = list(self.server, dependents, Some(&meta.namespace)).into_iter();
        let is_own = |one: &Arc<StoredObject>| one.meta.controller().is_some_and(|by| by.uid == meta.uid);
        let (own, mut others): (_, Vec<_>) = dependents.partition(is_own);
        self.dependents = own;
        let wanted = self.wanted();
        if !meta.is_deleting() {
            // `kubegc-controllers` adopts the dependents of Deployments and ReplicaSets.
            let selector = label_selector(selector).unwrap_or_default();
            others.retain(|pod| !is_deployment && is_active(pod) && pod.meta.controller().is_none());
            others.retain(|pod| !selector.is_empty() && selector.matches(&pod.meta));
            for pod in others {
                let owned = json!({"metadata": {"ownerReferences": [self.reference()]}});
                self.write(Act::Update, Pods, &pod.meta, owned);
            }
            self.fill(&wanted);
        }
        if !self.has_written {
            self.owner_status(wanted.len());
        }
    }

    fn replicas(&self) -> usize {
        number(&self.spec["replicas"]).unwrap_or(1)
    }

    /// The value of a label of the dependents that have the present template.
    fn hash(&self) -> String {
        // FNV-1a.
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
        let template = self.spec["template"].to_string();
        let hash = template.bytes().fold(2_166_136_261, step);
        match self.resource {
            StatefulSets => format!("{}-{hash:08x}", self.object.meta.name),
            _ => format!("{hash:08x}"),
        }
    }

    fn reference(&self) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.resource.group()), "kind": self.resource.kind(),
            "name": &*self.object.meta.name, "uid": self.object.meta.uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// Whether a dependent has the present template. `kubegc-controllers` replaces pods of ReplicaSets and
    /// Jobs.
    fn is_updated(&self, dependent: &StoredObject) -> bool {
        let hash = dependent.meta.labels.get(REVISION_HASH);
        match self.resource {
            Deployments => template_of(dependent) == template_of(self.object),
            ReplicaSets | Jobs => true,
            _ => hash.is_some_and(|hash| **hash == *self.hash()),
        }
    }

    /// The slots that should be filled, in order: names of pods or nodes, or empty. Each with the fields of
    /// its pod that the template lacks.
    fn wanted(&self) -> Vec<(String, Value)> {
        let (meta, spec, hash) = (&self.object.meta, self.spec, self.hash());
        match self.resource {
            StatefulSets => {
                let pod = |ordinal: usize| {
                    let name = format!("{}-{ordinal}", meta.name);
                    let labels = json!({
                        REVISION_HASH: hash, "statefulset.kubernetes.io/pod-name": name,
                        "apps.kubernetes.io/pod-index": ordinal.to_string(),
                    });
                    let own = json!({
                        "metadata": {"name": name, "generateName": null, "labels": labels},
                        "spec": {"hostname": name, "subdomain": spec["serviceName"]},
                    });
                    (name, own)
                };
                (0..self.replicas()).map(pod).collect()
            }
            DaemonSets => {
                let mut nodes = list(self.server, Nodes, None);
                nodes.retain(|node| fits(&spec["template"]["spec"], node));
                let names = nodes.iter().map(|node| node.meta.name.to_string());
                let labels = json!({REVISION_HASH: hash});
                let own = |name: &String| json!({"metadata": {"labels": labels}, "spec": {"nodeName": name}});
                names.map(|name| (name.clone(), own(&name))).collect()
            }
            Jobs => {
                let mut own = json!({"metadata": {"labels": {
                    "batch.kubernetes.io/controller-uid": meta.uid.to_string(),
                    "batch.kubernetes.io/job-name": &*meta.name,
                }}});
                if self.is_tracked() {
                    own["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
                }
                vec![(String::new(), own); self.active_of_job()]
            }
            Deployments => vec![(String::new(), json!({}))],
            _ => vec![(String::new(), json!({})); self.replicas()],
        }
    }

    /// Whether the pods of a Job have a finalizer until `kubegc_controllers::job` has counted them.
    fn is_tracked(&self) -> bool {
        let is_marked = self.object.at(&["metadata", "annotations", TRACKING_FINALIZER]);
        tracks(self.server.version(), is_marked.is_some())
    }

    /// The number of active pods that a Job should have.
    fn active_of_job(&self) -> usize {
        let mut ends = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].iter();
        if self.spec["suspend"] == true || ends.any(|end| self.object.condition(end)["status"] == "True") {
            return 0;
        }
        let succeeded = self.ends("Succeeded").len();
        // Without completions, one success is enough.
        let max = if succeeded == 0 { usize::MAX } else { 0 };
        let open = number(&self.spec["completions"]).map_or(max, |wanted| wanted.saturating_sub(succeeded));
        open.min(number(&self.spec["parallelism"]).unwrap_or(1))
    }

    /// When the pods in a final phase have ended: since then they are not ready.
    fn ends(&self, phase: &str) -> Vec<Timestamp> {
        let pods = self.dependents.iter();
        let ended = pods.filter(|pod| pod.field("status")["phase"] == phase);
        let ends = ended.map(|pod| pod.condition("Ready")["lastTransitionTime"].as_str());
        let ends = ends.map(|end| Timestamp::parse(end.unwrap_or_default()).unwrap_or_default());
        ends.collect()
    }

    /// When a Job creates its next pod: the delay doubles with each failure since the last success.
    fn next_pod(&self) -> Option<Timestamp> {
        let (success, mut failures) = (self.ends("Succeeded").into_iter().max(), self.ends("Failed"));
        failures.retain(|end| self.resource == Jobs && Some(*end) > success);
        let delay = doubled(BACKOFF, u32::try_from(failures.len()).ok()?.checked_sub(1)?);
        Some(failures.into_iter().max()?.saturating_add(delay))
    }

    /// The slot that a dependent fills; `None` if it fills none.
    fn slot(&self, dependent: &Arc<StoredObject>) -> Option<String> {
        match self.resource {
            Deployments => self.is_updated(dependent).then(String::new),
            StatefulSets => Some(dependent.meta.name.to_string()),
            DaemonSets => Some(dependent.text_at(&["spec", "nodeName"]).to_owned()),
            _ => is_active(dependent).then(String::new),
        }
    }

    /// Creates what empty slots need, and deletes pods that fill no wanted slot, that have ended or that have
    /// another template.
    fn fill(&mut self, wanted: &[(String, Value)]) {
        let (is_deployment, replicas) = (self.resource == Deployments, self.replicas());
        let is_ordered = self.resource == StatefulSets && self.spec["podManagementPolicy"] != "Parallel";
        let replaces = self.spec["updateStrategy"]["type"] != "OnDelete";
        let due = self.next_pod().filter(|due| *due > self.server.now());
        let mut rest = self.dependents.clone();
        for (slot, own) in wanted {
            let at = rest.iter().position(|one| self.slot(one).as_ref() == Some(slot));
            let found = at.map(|at| rest.remove(at));
            match (&found, due) {
                (None, Some(due)) => self.wait_until(due),
                (None, None) if is_deployment => self.create_set(),
                (None, None) => self.create_pod(slot, own),
                (Some(set), _) if is_deployment && set.field("spec")["replicas"] != replicas => {
                    let scaled = json!({"spec": {"replicas": replicas}});
                    self.write(Act::Update, ReplicaSets, &set.meta, scaled);
                }
                (Some(pod), _) if has_ended(pod) || replaces && !self.is_updated(pod) => self.delete(pod),
                _ => {}
            }
            if is_ordered && (self.has_written || !found.is_some_and(|pod| is_ready(&pod))) {
                return;
            }
        }
        rest.retain(|one| !is_deployment && self.slot(one).is_some());
        for pod in rest.iter().rev().take(if is_ordered { 1 } else { usize::MAX }) {
            self.delete(pod);
        }
    }

    fn create_pod(&mut self, slot: &str, own: &Value) {
        let template = &self.spec["template"];
        let Some(volumes) = self.volumes(slot) else {
            return;
        };
        let metadata = &template["metadata"];
        let mut pod = json!({
            "metadata": {
                "generateName": format!("{}-", self.object.meta.name), "ownerReferences": [self.reference()],
                "labels": metadata["labels"], "annotations": metadata["annotations"],
                "finalizers": metadata["finalizers"],
            },
            "spec": template["spec"],
        });
        merge(&mut pod, own);
        merge(&mut pod, &json!({"spec": {"volumes": volumes}}));
        self.create(Pods, pod);
    }

    fn create_set(&mut self) {
        let (hash, labels) = (self.hash(), json!({TEMPLATE_HASH: self.hash()}));
        let mut spec = json!({"selector": self.spec["selector"], "template": self.spec["template"]});
        let own = json!({
            "replicas": self.replicas(), "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}},
        });
        merge(&mut spec, &own);
        let metadata = json!({
            "name": format!("{}-{hash}", self.object.meta.name), "ownerReferences": [self.reference()],
            "labels": spec["template"]["metadata"]["labels"],
        });
        self.create(ReplicaSets, json!({"metadata": metadata, "spec": spec}));
    }

    /// Creates the missing claims of a pod. Returns its volumes; `None` if a claim is being deleted.
    fn volumes(&mut self, pod: &str) -> Option<Vec<Value>> {
        let volumes = &self.spec["template"]["spec"]["volumes"];
        let mut volumes = volumes.as_array().cloned().unwrap_or_default();
        for template in self.object.list_at(&["spec", "volumeClaimTemplates"]) {
            let volume = template["metadata"]["name"].as_str().unwrap_or_default();
            let name = format!("{volume}-{pod}");
            match self.find(PersistentVolumeClaims, &name) {
                Some(claim) if claim.meta.is_deleting() => return None,
                Some(_) => {}
                None => {
                    let mut claim = template.clone();
                    let labels = &self.spec["selector"]["matchLabels"];
                    merge(&mut claim, &json!({"metadata": {"name": name, "labels": labels}}));
                    self.create(PersistentVolumeClaims, claim);
                }
            }
            volumes.retain(|other| other["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
        Some(volumes)
    }

    fn owner_status(&mut self, wanted: usize) {
        let (hash, replicas) = (self.hash(), self.replicas());
        let [mut all, mut ready, mut updated] = [0; 3];
        for one in &self.dependents {
            // A Deployment counts what the status of its ReplicaSets counts.
            let count = |field: &str, is_counted: bool| match self.resource {
                Deployments => number(&one.field("status")[field]).unwrap_or(0),
                _ => is_counted.into(),
            };
            let active = count("replicas", is_active(one));
            all += active;
            ready += count("readyReplicas", is_ready(one));
            updated += if self.is_updated(one) { active } else { 0 };
        }
        let generation = self.object.meta.generation;
        let mut status = match self.resource {
            Jobs => json!({"active": all, "ready": ready}),
            DaemonSets => json!({"observedGeneration": generation}),
            _ => json!({
                "replicas": all, "readyReplicas": ready, "availableReplicas": ready,
                "observedGeneration": generation,
            }),
        };
        let own = match self.resource {
            Deployments => {
                json!({"updatedReplicas": updated, "unavailableReplicas": replicas.max(all) - ready})
            }
            StatefulSets => json!({
                "replicas": self.dependents.len(), "updatedReplicas": updated, "currentReplicas": updated,
                "currentRevision": hash, "updateRevision": hash,
            }),
            DaemonSets => json!({
                "desiredNumberScheduled": wanted, "currentNumberScheduled": all.min(wanted),
                "updatedNumberScheduled": updated, "numberReady": ready, "numberAvailable": ready,
                "numberMisscheduled": 0, "numberUnavailable": wanted.saturating_sub(ready),
            }),
            // `kubegc_controllers::job` writes the other fields, and counts the pods that it tracks.
            Jobs if self.is_tracked() => json!({}),
            Jobs => json!({"succeeded": self.ends("Succeeded").len(), "failed": self.ends("Failed").len()}),
            _ => json!({"fullyLabeledReplicas": all}),
        };
        merge(&mut status, &own);
        let available = if ready >= replicas { "True" } else { "False" };
        let progress = match [all, ready, updated] == [replicas; 3] {
            true => "NewReplicaSetAvailable",
            false => "ReplicaSetUpdated",
        };
        let mut conditions = vec![("Available", available, ""), ("Progressing", "True", progress)];
        conditions.retain(|_| self.resource == Deployments);
        if self.resource == Jobs && self.object.field("status")["startTime"].is_null() {
            status["startTime"] = self.server.now().truncate_to_secs().to_string().into();
        }
        self.status(status, &conditions);
    }
}
