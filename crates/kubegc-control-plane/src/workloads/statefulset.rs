//! StatefulSets: their pods, claims, revisions and status.
//! `kubegc_controllers::{statefulset, controllerrevisions}` set the owners of claims and delete old
//! revisions.
//!
//! # Upstream
//! [`updateStatefulSet`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_control.go)
//! in `stateful_set_control.go`; names and labels in `stateful_set_utils.go`.

use std::sync::Arc;

use kubegc_core::{Behavior, ObjectMeta};
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    deployment::share,
    plan::{Kind, Plan, Verb, View, counts, int, items, pod_of, seconds, selector_of, set},
    pods::{self, Tally},
    replicaset::{BURST, replicas},
    revisions,
};

/// The label of revisions, and that of pods with the name of their revision.
const REVISION_HASH: &str = "controller.kubernetes.io/hash";
const POD_REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Pods have [`POD_INDEX`].
const HAS_INDEX: Behavior = Behavior::since(28, 0, "feature gate PodIndexLabel is beta");
/// Succeeded pods are replaced like failed ones.
const REPLACES_SUCCEEDED: Behavior = Behavior::since_about(28, "kubernetes #120398");
/// `status.availableReplicas` is written.
const HAS_AVAILABLE: Behavior = Behavior::since(22, 0, "feature gate StatefulSetMinReadySeconds exists");

struct Sync<'a> {
    view: &'a View<'a>,
    set: &'a StoredObject,
    /// By ordinal; pods with another name are ignored.
    pods: Vec<(i64, Arc<StoredObject>)>,
    start: i64,
    end: i64,
    current: Arc<StoredObject>,
    update: Arc<StoredObject>,
}

pub(super) fn sync(view: &View<'_>, set: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::StatefulSet, set);
    let is_member = |pod: &StoredObject| ordinal(&set.meta, &pod.meta).is_some();
    if set.meta.is_deleting()
        || plan.claim(view, set, Kind::Revision, |_| true)
        || plan.claim(view, set, Kind::Pod, is_member)
    {
        return plan;
    }
    let Some((update, collisions)) = revisions::present(view, &mut plan, set, REVISION_HASH) else {
        return plan;
    };
    let current = set.text_at(&["status", "currentRevision"]);
    let all = revisions::of(view, set);
    let current = all.into_iter().find(|revision| *revision.meta.name == *current);
    let mut pods: Vec<(i64, Arc<StoredObject>)> = view
        .controlled(Kind::Pod, &set.meta)
        .into_iter()
        .filter_map(|pod| Some((ordinal(&set.meta, &pod.meta)?, pod)))
        .collect();
    pods.sort_by_key(|(ordinal, _)| *ordinal);
    let start = int(set, &["spec", "ordinals", "start"]).unwrap_or(0);
    let sync = Sync {
        view,
        set,
        pods,
        start,
        end: start.saturating_add(i64::try_from(replicas(set)).unwrap_or(i64::MAX)),
        current: current.unwrap_or_else(|| Arc::clone(&update)),
        update,
    };
    sync.act(&mut plan);
    if plan.writes.is_empty() {
        sync.report(&mut plan, collisions);
    }
    plan
}

/// The ordinal in the name of a pod of a StatefulSet.
fn ordinal(set: &ObjectMeta, pod: &ObjectMeta) -> Option<i64> {
    let (name, digits) = pod.name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && *name == *set.name)
        .then(|| digits.parse().ok())
        .flatten()
}

fn revision_name(pod: &StoredObject) -> &str {
    pod.meta.labels.get(POD_REVISION).map_or("", |name| name)
}

impl Sync<'_> {
    /// Whether a pod is running and has been ready for long enough.
    fn is_available(&self, pod: &StoredObject) -> bool {
        let at = pods::available_at(pod, seconds(self.set, "minReadySeconds"));
        pods::phase(pod) == "Running" && at.is_some_and(|at| at <= self.view.now)
    }

    /// Whether pods are created and deleted one after the other.
    fn is_ordered(&self) -> bool {
        self.set.text_at(&["spec", "podManagementPolicy"]) != "Parallel"
    }

    fn find(&self, ordinal: i64) -> Option<&Arc<StoredObject>> {
        let found = self.pods.iter().find(|(known, _)| *known == ordinal);
        found.map(|(_, pod)| pod)
    }

    fn act(&self, plan: &mut Plan) {
        let is_ordered = self.is_ordered();
        let replaces_succeeded = self.view.version().has(REPLACES_SUCCEEDED);
        let mut must_wait = false;
        for ordinal in self.start..self.end {
            match self.find(ordinal) {
                None => {
                    self.create(plan, ordinal);
                    if is_ordered || plan.writes.len() >= BURST {
                        return;
                    }
                }
                Some(pod) => {
                    let phase = pods::phase(pod);
                    if phase == "Failed" || phase == "Succeeded" && replaces_succeeded {
                        if !pod.meta.is_deleting() {
                            let message = format!("pod/{} has ended and is created again", pod.meta.name);
                            plan.delete(pod, message);
                        }
                        must_wait = true;
                    }
                    let is_available = !pod.meta.is_deleting() && self.is_available(pod);
                    if is_ordered && (must_wait || !is_available) {
                        return;
                    }
                }
            }
        }
        if must_wait {
            return;
        }
        let is_condemned = |ordinal: i64| !(self.start..self.end).contains(&ordinal);
        let mut condemned = self
            .pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| is_condemned(*ordinal));
        if is_ordered {
            if let Some((_, pod)) = condemned.next() {
                let first_unhealthy = self.pods.iter().find(|(_, pod)| !self.is_available(pod));
                let is_first_unhealthy =
                    first_unhealthy.is_none_or(|(_, first)| first.meta.uid == pod.meta.uid);
                if !pod.meta.is_deleting() && (is_first_unhealthy || self.is_available(pod)) {
                    self.scale_down(plan, pod);
                }
                return;
            }
        } else {
            for (_, pod) in condemned.filter(|(_, pod)| !pod.meta.is_deleting()) {
                self.scale_down(plan, pod);
            }
        }
        if plan.writes.is_empty() {
            self.roll(plan);
        }
    }

    fn scale_down(&self, plan: &mut Plan, pod: &StoredObject) {
        let message = format!("statefulset/{} is scaled down", self.set.meta.name);
        plan.delete(pod, message);
    }

    /// Deletes pods of other revisions, from the highest ordinal down, within the number of pods that may be
    /// unavailable.
    fn roll(&self, plan: &mut Plan) {
        let strategy = self.set.text_at(&["spec", "updateStrategy", "type"]);
        if strategy == "OnDelete" {
            return;
        }
        let limit = self
            .set
            .at(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
        let mut left = share(limit, "", replicas(self.set), true).max(1);
        for ordinal in (self.start.saturating_add(self.partition())..self.end).rev() {
            let Some(pod) = self.find(ordinal) else { return };
            let is_old = revision_name(pod) != &*self.update.meta.name;
            if is_old && !pod.meta.is_deleting() {
                let message = format!("it is not of revision {}", self.update.meta.name);
                plan.delete(pod, message);
            } else if !pod.meta.is_deleting() && self.is_available(pod) {
                continue;
            }
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }

    fn partition(&self) -> i64 {
        int(
            self.set,
            &["spec", "updateStrategy", "rollingUpdate", "partition"],
        )
        .unwrap_or(0)
    }

    /// Creates the missing claims of a pod, then the pod, unless a claim of an earlier pod still exists.
    fn create(&self, plan: &mut Plan, ordinal: i64) {
        let set_meta = &self.set.meta;
        let name = format!("{}-{ordinal}", set_meta.name);
        let keeps_claims = {
            let policy = ["spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"];
            matches!(self.set.text_at(&policy), "" | "Retain")
        };
        let is_of_earlier_pod = |claim: &StoredObject| {
            let mut owners = claim.meta.owner_references.iter();
            !keeps_claims && owners.any(|owner| &*owner.kind == "Pod" && *owner.name == *name)
        };
        let templates = items(self.set, &["spec", "volumeClaimTemplates"]);
        let claim_name = |template: &Value| {
            let template = template["metadata"]["name"].as_str().unwrap_or_default();
            format!("{template}-{name}")
        };
        let (mut missing, mut is_blocked) = (Vec::new(), false);
        for template in templates {
            match self
                .view
                .find(Kind::Claim, &set_meta.namespace, &claim_name(template))
            {
                None => missing.push(template),
                Some(claim) => is_blocked |= claim.meta.is_deleting() || is_of_earlier_pod(&claim),
            }
        }
        if is_blocked {
            return;
        }
        for template in missing {
            let mut labels = template["metadata"]["labels"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let selector = selector_of(self.set).match_labels;
            labels.extend(
                selector
                    .iter()
                    .map(|(key, value)| (key.to_string(), Value::from(&**value))),
            );
            let metadata = json!({"name": claim_name(template), "labels": labels});
            let mut claim = json!({"metadata": metadata, "spec": template["spec"]});
            if let Some(annotations) = template["metadata"].get("annotations") {
                claim["metadata"]["annotations"] = annotations.clone();
            }
            let message = format!("pod/{name} needs it");
            plan.push(Kind::Claim, Verb::Create(claim), "SuccessfulCreate", message);
        }
        let is_rolled = self.set.text_at(&["spec", "updateStrategy", "type"]) != "OnDelete";
        let is_current = is_rolled && ordinal < self.start.saturating_add(self.partition());
        let revision = if is_current { &self.current } else { &self.update };
        let template = revisions::template_of(revision);
        let mut pod = pod_of(&template, Kind::StatefulSet, set_meta, Some(&name));
        set(&mut pod, "labels", POD_REVISION, &revision.meta.name);
        set(&mut pod, "labels", POD_NAME, &name);
        if self.view.version().has(HAS_INDEX) {
            set(&mut pod, "labels", POD_INDEX, &ordinal.to_string());
        }
        pod["spec"]["hostname"] = name.as_str().into();
        pod["spec"]["subdomain"] = self.set.text_at(&["spec", "serviceName"]).into();
        let mut volumes: Vec<Value> = templates
            .iter()
            .map(|template| {
                let claim = json!({"claimName": claim_name(template), "readOnly": false});
                json!({"name": template["metadata"]["name"], "persistentVolumeClaim": claim})
            })
            .collect();
        let others = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let others = others.filter(|other| volumes.iter().all(|volume| volume["name"] != other["name"]));
        let others: Vec<Value> = others.cloned().collect();
        volumes.extend(others);
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = volumes.into();
        }
        let message = format!("statefulset/{} has no pod of ordinal {ordinal}", set_meta.name);
        plan.push(Kind::Pod, Verb::Create(pod), "SuccessfulCreate", message);
    }

    fn report(&self, plan: &mut Plan, collisions: i64) {
        let all = self.pods.iter().map(|(_, pod)| &**pod);
        let running = all.clone().filter(|pod| pods::phase(pod) == "Running");
        let tally = Tally::of(running, seconds(self.set, "minReadySeconds"), self.view.now);
        plan.due_at(tally.due);
        let count_of = |revision: &StoredObject| {
            let pods = all.clone().filter(|pod| !pod.meta.is_deleting());
            pods.filter(|pod| revision_name(pod) == &*revision.meta.name)
                .count()
        };
        let updated = count_of(&self.update);
        let is_complete = updated == self.pods.len()
            && tally.ready == self.pods.len()
            && self.set.text_at(&["spec", "updateStrategy", "type"]) != "OnDelete";
        let current = if is_complete { &self.update } else { &self.current };
        let mut status = counts(
            &["replicas"],
            &[
                ("replicas", self.pods.len()),
                ("readyReplicas", tally.ready),
                ("currentReplicas", count_of(current)),
                ("updatedReplicas", updated),
            ],
        );
        if self.view.version().has(HAS_AVAILABLE) {
            status.insert("availableReplicas".to_owned(), tally.available.into());
        }
        for (field, value) in [
            ("observedGeneration", self.set.meta.generation.into()),
            ("currentRevision", Value::from(&*current.meta.name)),
            ("updateRevision", (&*self.update.meta.name).into()),
            ("collisionCount", collisions.into()),
        ] {
            status.insert(field.to_owned(), value);
        }
        plan.status(self.set, status.into());
    }
}
