//! Deployments: their new ReplicaSet, its size and the status. `kubegc_controllers::deployment` implements
//! adoption, scaling down and old ReplicaSets.
//!
//! # Upstream
//! [`getNewReplicaSet`, `calculateStatus`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go)
//! in `sync.go`, `NewRSNewReplicas` in `util/deployment_util.go`, `rolloutRecreate` in `recreate.go`,
//! [`syncRolloutStatus`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/progress.go)
//! in `progress.go`.

use std::{sync::Arc, time::Duration};

use kubegc_sim::StoredObject;
use serde_json::{Map, Value, json};

use super::{
    plan::{
        Kind, Plan, Verb, View, annotation, condition, count, counts, int, items, map, reference_json,
        set_condition, time_of, with,
    },
    pods,
    replicaset::replicas,
    revisions,
};

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
];
/// The default of `spec.progressDeadlineSeconds`.
const PROGRESS_DEADLINE: i64 = 600;

struct Rollout<'a> {
    view: &'a View<'a>,
    deployment: &'a StoredObject,
    /// By age.
    sets: Vec<Arc<StoredObject>>,
    new: Option<Arc<StoredObject>>,
    replicas: usize,
    is_paused: bool,
    is_recreated: bool,
    /// The numbers of `maxSurge` and `maxUnavailable`.
    surge: usize,
    unavailable: usize,
}

pub(super) fn sync(view: &View<'_>, deployment: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Deployment, deployment);
    let rollout = Rollout::new(view, deployment);
    if !deployment.meta.is_deleting() {
        rollout.scale(&mut plan);
    }
    if plan.writes.is_empty() {
        rollout.report(&mut plan);
    }
    plan
}

/// A number of pods: a count, or a share of the replicas.
pub(super) fn share(value: Option<&Value>, default: &str, replicas: usize, rounds_up: bool) -> usize {
    let default = Value::from(default);
    match value.filter(|value| !value.is_null()).unwrap_or(&default) {
        Value::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredths = replicas.saturating_mul(percent);
            if rounds_up {
                hundredths.div_ceil(100)
            } else {
                hundredths / 100
            }
        }
        count => count
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0),
    }
}

/// The pod template without the label `pod-template-hash`.
fn template_without_hash(object: &StoredObject) -> Value {
    let mut template = map(object, &["spec", "template"]);
    let mut labels = map(object, &["spec", "template", "metadata", "labels"]);
    if let Value::Object(labels) = &mut labels {
        labels.remove(HASH_LABEL);
    }
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    template["metadata"]["labels"] = labels;
    template
}

fn revision_of(object: &StoredObject) -> i64 {
    annotation(object, REVISION).parse().unwrap_or(0)
}

impl<'a> Rollout<'a> {
    fn new(view: &'a View<'a>, deployment: &'a StoredObject) -> Self {
        let mut sets = view.controlled(Kind::ReplicaSet, &deployment.meta);
        sets.sort_by_key(|set| (set.meta.creation_timestamp, Arc::clone(&set.meta.name)));
        let template = template_without_hash(deployment);
        let new = sets
            .iter()
            .find(|set| template_without_hash(set) == template)
            .cloned();
        let replicas = replicas(deployment);
        let is_recreated = deployment.text_at(&["spec", "strategy", "type"]) == "Recreate";
        let limit = |field| deployment.at(&["spec", "strategy", "rollingUpdate", field]);
        let (mut surge, mut unavailable) = (0, 0);
        if !is_recreated {
            surge = share(limit("maxSurge"), "25%", replicas, true);
            unavailable = share(limit("maxUnavailable"), "25%", replicas, false).min(replicas);
            if surge == 0 && unavailable == 0 {
                unavailable = replicas.min(1);
            }
        }
        Self {
            view,
            deployment,
            sets,
            new,
            replicas,
            is_paused: deployment.at(&["spec", "paused"]) == Some(&true.into()),
            is_recreated,
            surge,
            unavailable,
        }
    }

    fn old(&self) -> impl Iterator<Item = &Arc<StoredObject>> {
        let new = self.new.as_ref().map(|new| &new.meta.uid);
        self.sets.iter().filter(move |set| Some(&set.meta.uid) != new)
    }

    /// Creates the new ReplicaSet or scales it up, and updates its annotations.
    fn scale(&self, plan: &mut Plan) {
        if self.is_paused {
            // A single active ReplicaSet has the size of its Deployment.
            let mut active = self.sets.iter().filter(|set| replicas(set) > 0);
            let only = active.next().filter(|_| active.next().is_none());
            if let Some(set) = only
                .or(self.new.as_ref())
                .filter(|set| replicas(set) != self.replicas)
            {
                self.update(plan, set, self.replicas);
            }
            return;
        }
        let has_old_pods = || {
            self.old().any(|set| {
                let pods = self.view.controlled(Kind::Pod, &set.meta);
                replicas(set) > 0 || pods.iter().any(|pod| !pods::has_ended(pod))
            })
        };
        if self.is_recreated && has_old_pods() {
            return;
        }
        let present = self.new.as_ref().map_or(0, |new| replicas(new));
        let all = self
            .sets
            .iter()
            .fold(0, |all: usize, set| all.saturating_add(replicas(set)));
        let wanted = if self.is_recreated {
            self.replicas
        } else {
            let room = self.replicas.saturating_add(self.surge).saturating_sub(all);
            present.saturating_add(room).min(self.replicas).max(present)
        };
        match &self.new {
            Some(new) => self.update(plan, new, wanted),
            None => self.create(plan, wanted),
        }
    }

    /// The annotations of the new ReplicaSet, in addition to the existing ones.
    fn annotations(&self, known: Option<&Value>) -> Map<String, Value> {
        let mut all = known.and_then(Value::as_object).cloned().unwrap_or_default();
        let of_deployment = self
            .deployment
            .at(&["metadata", "annotations"])
            .and_then(Value::as_object);
        let copied = of_deployment.into_iter().flatten();
        let copied = copied.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
        all.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
        let next = self
            .old()
            .map(|set| revision_of(set))
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        let text = |all: &Map<String, Value>, key: &str| {
            all.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let before = text(&all, REVISION);
        if before.parse().unwrap_or(0) < next {
            let history = text(&all, HISTORY);
            if !before.is_empty() {
                let history = if history.is_empty() {
                    before
                } else {
                    format!("{history},{before}")
                };
                all.insert(HISTORY.to_owned(), history.into());
            }
            all.insert(REVISION.to_owned(), next.to_string().into());
        }
        all.insert(DESIRED.to_owned(), self.replicas.to_string().into());
        all.insert(
            MAX.to_owned(),
            self.replicas.saturating_add(self.surge).to_string().into(),
        );
        all
    }

    fn update(&self, plan: &mut Plan, set: &StoredObject, wanted: usize) {
        let present = replicas(set);
        let path = ["metadata", "annotations"];
        let annotations: Value = self.annotations(set.at(&path)).into();
        if present == wanted && set.at(&path) == Some(&annotations) {
            return;
        }
        let changed = with(
            &with(set, &["spec", "replicas"], wanted.into()),
            &path,
            annotations,
        );
        let direction = if wanted < present { "down" } else { "up" };
        let (reason, message) = match present == wanted {
            true => (
                "AnnotationsChanged",
                "the annotations of its Deployment have changed".to_owned(),
            ),
            false => {
                let name = &set.meta.name;
                let message = format!("Scaled {direction} replica set {name} from {present} to {wanted}");
                ("ScalingReplicaSet", message)
            }
        };
        plan.push(Kind::ReplicaSet, Verb::Update(changed), reason, message);
    }

    fn create(&self, plan: &mut Plan, wanted: usize) {
        let (deployment, meta) = (self.deployment, &self.deployment.meta);
        let mut template = template_without_hash(deployment);
        let collisions = int(deployment, &["status", "collisionCount"]).unwrap_or(0);
        let hash = revisions::hash(&template, collisions);
        let name = format!("{}-{hash}", meta.name);
        if self.view.find(Kind::ReplicaSet, &meta.namespace, &name).is_some() {
            // Another owner has a ReplicaSet of this name: the next sync uses another hash.
            let changed = with(
                deployment,
                &["status", "collisionCount"],
                collisions.saturating_add(1).into(),
            );
            let message = format!("a ReplicaSet named {name} exists");
            plan.push(Kind::Deployment, Verb::Status(changed), "Collision", message);
            return;
        }
        let add_hash = |value: &mut Value| {
            if !value.is_object() {
                *value = json!({});
            }
            value[HASH_LABEL] = hash.as_str().into();
        };
        add_hash(&mut template["metadata"]["labels"]);
        let labels = template["metadata"]["labels"].clone();
        let mut selector = map(deployment, &["spec", "selector"]);
        add_hash(&mut selector["matchLabels"]);
        let set = json!({
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": self.annotations(None),
                "ownerReferences": [reference_json(&Kind::Deployment.reference(meta))],
            },
            "spec": {
                "replicas": wanted,
                "minReadySeconds": int(deployment, &["spec", "minReadySeconds"]).unwrap_or(0),
                "selector": selector,
                "template": template,
            },
        });
        let message = format!("Scaled up replica set {name} from 0 to {wanted}");
        plan.push(Kind::ReplicaSet, Verb::Create(set), "ScalingReplicaSet", message);
    }

    /// Writes the status, and the revision of the new ReplicaSet in an annotation.
    fn report(&self, plan: &mut Plan) {
        let deployment = self.deployment;
        let count = |set: &StoredObject, field: &str| count(set, &["status", field]);
        let sum = |field: &str| {
            let counts = self.sets.iter().map(|set| count(set, field));
            counts.fold(0, usize::saturating_add)
        };
        let updated = self.new.as_ref().map_or(0, |new| count(new, "replicas"));
        let (all, available) = (sum("replicas"), sum("availableReplicas"));
        let mut status = counts(
            &[],
            &[
                ("replicas", all),
                ("updatedReplicas", updated),
                ("readyReplicas", sum("readyReplicas")),
                ("availableReplicas", available),
                ("unavailableReplicas", all.saturating_sub(available)),
            ],
        );
        status.insert("observedGeneration".to_owned(), deployment.meta.generation.into());
        if let Some(collisions) = deployment.at(&["status", "collisionCount"]) {
            status.insert("collisionCount".to_owned(), collisions.clone());
        }
        let mut conditions = items(deployment, &["status", "conditions"]).to_vec();
        let least = self.replicas.saturating_sub(self.unavailable);
        let (is_available, reason, message) = match available >= least {
            true => (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            ),
            false => (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            ),
        };
        self.set(
            &mut conditions,
            "Available",
            is_available,
            reason,
            message.to_owned(),
        );
        if !deployment.meta.is_deleting() {
            self.progress(plan, &mut conditions, &status, (all, updated, available));
        }
        status.insert("conditions".to_owned(), conditions.into());
        let mut changed = with(deployment, &["status"], status.into());
        if let Some(new) = self
            .new
            .as_ref()
            .filter(|new| !annotation(new, REVISION).is_empty())
        {
            changed = with(
                &changed,
                &["metadata", "annotations", REVISION],
                annotation(new, REVISION).into(),
            );
        }
        if changed != *deployment {
            let message = "its status has changed";
            plan.push(Kind::Deployment, Verb::Status(changed), "StatusChanged", message);
        }
    }

    /// The condition `Progressing`.
    fn progress(
        &self,
        plan: &mut Plan,
        conditions: &mut Vec<Value>,
        status: &Map<String, Value>,
        (all, updated, available): (usize, usize, usize),
    ) {
        let known = condition(conditions, "Progressing").cloned();
        let known_reason = known
            .as_ref()
            .and_then(|known| known["reason"].as_str())
            .unwrap_or_default();
        if self.is_paused {
            let message = "Deployment is paused".to_owned();
            self.set(conditions, "Progressing", "Unknown", "DeploymentPaused", message);
            return;
        }
        if known_reason == "DeploymentPaused" {
            let message = "Deployment is resumed".to_owned();
            self.set(conditions, "Progressing", "Unknown", "DeploymentResumed", message);
            return;
        }
        if known_reason == "NewReplicaSetAvailable" && all == updated {
            return;
        }
        let subject = match &self.new {
            Some(new) => format!("ReplicaSet \"{}\"", new.meta.name),
            None => format!("Deployment \"{}\"", self.deployment.meta.name),
        };
        let now = |field: &str| {
            let count = status.get(field).and_then(Value::as_u64).unwrap_or(0);
            usize::try_from(count).unwrap_or(0)
        };
        let before = |field: &str| count(self.deployment, &["status", field]);
        let grows = |field: &str| now(field) > before(field);
        let old = |of: &dyn Fn(&str) -> usize| of("replicas").saturating_sub(of("updatedReplicas"));
        let is_progress = grows("updatedReplicas")
            || grows("readyReplicas")
            || grows("availableReplicas")
            || old(&now) < old(&before);
        if [all, updated, available] == [self.replicas; 3] && self.new.is_some() {
            let message = format!("{subject} has successfully progressed.");
            self.set(
                conditions,
                "Progressing",
                "True",
                "NewReplicaSetAvailable",
                message,
            );
        } else if is_progress {
            // Upstream records the time of any progress.
            let now = self.view.time();
            let (why, update) = (
                ("ReplicaSetUpdated", format!("{subject} is progressing.")),
                ("lastUpdateTime", now.clone()),
            );
            set_condition(conditions, &now, ("Progressing", "True"), why, Some(update));
        } else if let (None, Some(new)) = (&known, &self.new) {
            let (reason, verb) = match new.meta.creation_timestamp < self.deployment.meta.creation_timestamp {
                true => ("FoundNewReplicaSet", "Found"),
                false => ("NewReplicaSetCreated", "Created"),
            };
            let message = format!("{verb} new replica set \"{}\"", new.meta.name);
            self.set(conditions, "Progressing", "True", reason, message);
        }
        let Some(known) = condition(conditions, "Progressing") else {
            return;
        };
        if !matches!(
            known["reason"].as_str(),
            Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded")
        ) {
            let limit =
                int(self.deployment, &["spec", "progressDeadlineSeconds"]).unwrap_or(PROGRESS_DEADLINE);
            let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
            let deadline = time_of(&known["lastUpdateTime"]).map(|at| at.saturating_add(limit));
            if deadline.is_some_and(|deadline| deadline < self.view.now) {
                let message = format!("{subject} has timed out progressing.");
                self.set(
                    conditions,
                    "Progressing",
                    "False",
                    "ProgressDeadlineExceeded",
                    message,
                );
            } else {
                // Upstream adds one second because of rounding.
                plan.due_at(deadline.map(|deadline| deadline.saturating_add(Duration::from_secs(1))));
            }
        }
    }

    /// Upstream's `SetDeploymentCondition`: a condition with the same status and reason does not change.
    fn set(&self, conditions: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: String) {
        let known = condition(conditions, kind);
        if known.is_none_or(|known| known["status"] != status || known["reason"] != reason) {
            let now = self.view.time();
            let update = Some(("lastUpdateTime", now.clone()));
            set_condition(conditions, &now, (kind, status), (reason, message), update);
        }
    }
}
