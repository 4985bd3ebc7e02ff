//! Deletes terminated pods above a threshold, pods of nodes that are out of service or no longer exist, and
//! terminating pods that were never scheduled.
//!
//! One sync covers all pods, so the controller has one key.
//! The rules are [L1.1](crate::rules#l1-1) to [L1.19](crate::rules#l1-19).
//!
//! A pod whose metadata or phase was not read may be terminated, and one without a creation time, which the
//! API server always sets, has no known place in the order. Those terminated pods are deleted that are
//! above the threshold in any case; for those whose deletion depends on such pods nothing is decided.
//!
//! # Upstream
//! [`gc`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/podgc/gc_controller.go) in
//! `gc_controller.go`. The quarantine is the delaying queue `nodeQueue` there, and [`Context::deadlines`]
//! here. Upstream also reads nodes whose pods no longer exist by then.
//! Only 1.26.0 gives the condition also to orphans that have ended
//! ([#115056](https://github.com/kubernetes/kubernetes/pull/115056)); that is not modelled.
//!
//! # Complexity
//! O(n) for `n` pods, plus O(k log k) for the `k` terminated ones if they exceed the threshold.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::{controller::is_whole, prelude::*};

/// The feature gate `PodDisruptionConditions`: alpha and off from 1.25, beta and on from 1.26.
pub(crate) const DISRUPTION_CONDITIONS: Behavior =
    Behavior::since(26, 0, "feature gate PodDisruptionConditions is beta");
/// The feature gate `NodeOutOfServiceVolumeDetach`: alpha and off from 1.24, beta and on from 1.26.
pub(crate) const OUT_OF_SERVICE: Behavior =
    Behavior::since(26, 0, "feature gate NodeOutOfServiceVolumeDetach is beta");
/// The feature gate `PodObservedGenerationTracking`: alpha and off from 1.33, beta and on from 1.34.
pub(crate) const OBSERVED_GENERATION: Behavior =
    Behavior::since(34, 0, "feature gate PodObservedGenerationTracking is beta");
/// Evicted pods are deleted before other terminated pods.
const EVICTED_FIRST: Behavior = Behavior::since(27, 0, "kubernetes #116167");

/// The taint key of a node that is out of service. Value and effect are ignored.
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";

#[derive(Clone, Copy, Debug)]
pub struct PodGc {
    /// Number of terminated pods that are retained in the cluster; zero or less retains all. Upstream:
    /// `--terminated-pod-gc-threshold`, default 12500. A configuration file cannot set it to zero: that means
    /// the default there.
    pub terminated_pod_threshold: i32,
    /// Time that a node is missing before it is read live. Default: 40 s.
    pub quarantine: Duration,
    /// Whether the patch of an orphan has the condition `DisruptionTarget`. Default: since 1.26.
    pub adds_condition: bool,
    /// Whether that condition has `observedGeneration`. Default: since 1.34.
    pub observes_generation: bool,
    version: KubernetesVersion,
}

impl PodGc {
    /// Upstream's defaults in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            terminated_pod_threshold: 12_500,
            quarantine: Duration::from_secs(40),
            adds_condition: version.has(DISRUPTION_CONDITIONS),
            observes_generation: version.has(OBSERVED_GENERATION),
            version,
        }
    }

    /// Whether pods that have not ended are patched to phase Failed first.
    const fn marks_failed(&self) -> bool {
        self.version.has(DISRUPTION_CONDITIONS)
    }

    /// The number of terminated pods that are retained; `None` if all are.
    fn threshold(&self) -> Option<usize> {
        usize::try_from(self.terminated_pod_threshold)
            .ok()
            .filter(|threshold| *threshold > 0)
    }

    fn place<'a>(&self, record: &'a Record) -> Result<Place<'a>, Missing> {
        let pod = pod_of(record)?;
        let object = record.id(Resource::Pods);
        let is_failed = **object.read(&pod.phase, "status.phase")? == *"Failed";
        let is_evicted = self.version.has(EVICTED_FIRST)
            && is_failed
            && **object.read(&pod.reason, "status.reason")? == *"Evicted";
        let created = record.meta.creation_timestamp;
        let created = created.ok_or_else(|| Missing::field(&object, "metadata.creationTimestamp"))?;
        Ok((!is_evicted, created, &record.meta.name, &record.meta.namespace))
    }

    /// The terminated pods that are above the threshold whatever the unknown ones are, and those that may be.
    ///
    /// A pod that may be terminated raises the number of pods above the threshold by one at most, and moves
    /// no pod back by more than one position.
    fn terminated(&self, pods: &[&Record]) -> Terminated {
        let mut terminated = Terminated::default();
        let Some(threshold) = self.threshold() else {
            return terminated;
        };
        let mut line = Vec::new();
        let mut unread = Vec::new();
        for (at, record) in pods.iter().enumerate() {
            if may_be_terminated(record) {
                match self.place(record) {
                    Ok(place) => line.push((place, at)),
                    Err(missing) => unread.push((at, missing)),
                }
            }
        }
        terminated.count = line.len();
        terminated.count_max = line.len() + unread.len();
        let sure = line.len().saturating_sub(threshold);
        let excess_max = terminated.count_max.saturating_sub(threshold);
        let open = excess_max.min(line.len());
        if open < line.len() {
            line.select_nth_unstable(open);
        }
        line.truncate(open);
        line.sort_unstable();
        let (chosen, open) = line.split_at(sure);
        terminated.chosen = chosen.iter().map(|(_, at)| *at).collect();
        if let Some((_, missing)) = unread.first() {
            terminated.open = open.iter().map(|(_, at)| (*at, missing.clone())).collect();
        }
        terminated
            .open
            .extend(unread.into_iter().filter(|_| excess_max > 0));
        terminated
    }

    /// Returns whether a sync may delete the pod, or cannot decide about it. One that the last sync has
    /// counted among the terminated pods raises their number no more. `node` finds a node by its name.
    fn concerns<'a>(
        &self,
        record: &Record,
        was_counted: bool,
        node: impl FnOnce(&Arc<str>) -> Option<&'a Record>,
    ) -> bool {
        let (true, Some(pod)) = (is_read(record), record.pod()) else {
            return true;
        };
        let is_counted = !was_counted && self.threshold().is_some() && may_be_terminated(record);
        let is_deleting = record.meta.is_deleting();
        let place = pod.node_name.known().filter(|name| !name.is_empty());
        let Some(node_name) = place else {
            return is_counted || is_deleting;
        };
        let is_out =
            |node| is_deleting && self.version.has(OUT_OF_SERVICE) && is_out_of_service(node) != Ok(false);
        is_counted || node(node_name).is_none_or(is_out)
    }

    /// Returns whether the pod was deleted without grace and only finalizers hold it: nothing that a sync
    /// does changes it.
    fn is_settled(&self, record: &Record, pod: &Pod) -> bool {
        let is_forced = record.meta.is_deleting() && record.meta.deletion_grace_period_seconds == Some(0);
        is_forced && (!self.marks_failed() || pod.has_final_phase() == Some(true))
    }
}

/// The condition `DisruptionTarget` of a pod that is deleted, with a reason and a message. One that was
/// already true keeps the time of its last transition.
pub(crate) fn disruption_target(
    now: Timestamp,
    conditions: &[Condition],
    [reason, message]: [&str; 2],
) -> Condition {
    let condition = Condition::new("DisruptionTarget", "True");
    let mut known = conditions.iter();
    let before = known.find(|known| known.condition_type == condition.condition_type);
    let before = before.filter(|known| known.is_true());
    Condition {
        reason: reason.into(),
        message: message.into(),
        last_transition_time: before.map_or(Some(now), |known| known.last_transition_time),
        ..condition
    }
}

/// The fields of a pod on which anything can be decided.
fn pod_of(record: &Record) -> Result<&Pod, Missing> {
    let object = || record.id(Resource::Pods);
    match record.pod() {
        _ if !is_whole(record) => Err(Missing::Metadata { object: object() }),
        None => Err(Missing::Object { object: object() }),
        Some(pod) => Ok(pod),
    }
}

fn is_terminated(phase: &str) -> bool {
    !matches!(phase, "Pending" | "Running" | "Unknown")
}

fn may_be_terminated(record: &Record) -> bool {
    let phase = record.pod().and_then(|pod| pod.phase.known());
    phase.is_none_or(|phase| is_terminated(phase))
}

/// Returns whether all fields of the pod were read that may decide.
fn is_read(record: &Record) -> bool {
    pod_of(record).is_ok_and(|pod| {
        !(pod.node_name.is_unread()
            || pod.phase.is_unread()
            || pod.reason.is_unread()
            || pod.conditions.is_unread())
    })
}

/// Returns whether terminating pods on the node are deleted.
fn is_out_of_service(record: &Record) -> Result<bool, Missing> {
    let (object, node) = read_as(Resource::Nodes, record, Record::node)?;
    let missing = |field| Err(Missing::field(&object, field));
    match (node.is_ready(), node.has_taint(OUT_OF_SERVICE_TAINT)) {
        (Some(true), _) | (_, Some(false)) => Ok(false),
        (Some(false), Some(true)) => Ok(true),
        (None, _) => missing("status.conditions"),
        (_, None) => missing("spec.taints"),
    }
}

/// The position of a terminated pod in the order of deletion: evicted ones first, then by creation, name and
/// namespace. Upstream does not compare namespaces.
type Place<'a> = (bool, Timestamp, &'a Arc<str>, &'a Arc<str>);

#[derive(Debug, Default)]
struct Terminated {
    count: usize,
    /// Their possible number.
    count_max: usize,
    /// Positions of those that are above the threshold, in the order of deletion.
    chosen: Vec<usize>,
    /// Those that may be above it, by position, each with the missing fact that decides.
    open: BTreeMap<usize, Missing>,
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    at: usize,
    record: &'a Record,
    pod: &'a Pod,
}

struct Sync<'a> {
    settings: &'a PodGc,
    cx: &'a Context<'a>,
    terminated: Terminated,
    /// Whether the pod of each position is deleted.
    is_chosen: Vec<bool>,
    decision: Decision,
}

impl<'a> Sync<'a> {
    fn run(settings: &'a PodGc, cx: &'a Context<'a>) -> Decision {
        let nodes = cx.cache.records(Resource::Nodes);
        let nodes: HashMap<&str, &Record, FixedState> = nodes.map(|node| (&*node.meta.name, node)).collect();
        // Most pods are kept, and without their reasons this is all that a sync reads of them.
        let node = |name: &Arc<str>| nodes.get(&**name).copied();
        let pods = cx.cache.records(Resource::Pods);
        let pods: Vec<&Record> = pods
            .filter(|record| cx.notes_kept || settings.concerns(record, false, node))
            .collect();
        if let Err(missing) = cx.cache.require_all(INFO.resources) {
            // Neither other pods nor other nodes matter to a pod that runs on a known node.
            let mut decision = Decision::default();
            for record in pods.into_iter().filter(|pod| settings.concerns(pod, false, node)) {
                decision.add_unknown(record.id(Resource::Pods), missing.clone());
            }
            return decision;
        }
        let mut sync = Self {
            settings,
            cx,
            terminated: settings.terminated(&pods),
            is_chosen: vec![false; pods.len()],
            decision: Decision::default(),
        };
        let message = format!(
            "{} pods have terminated, {} are retained, and it is among the first to be deleted",
            sync.terminated.count, settings.terminated_pod_threshold
        );
        for at in std::mem::take(&mut sync.terminated.chosen) {
            let record = pods[at];
            if let Ok(pod) = pod_of(record) {
                let reason = Reason::new("Terminated", message.clone());
                let action = sync.delete(Candidate { at, record, pod }, reason, false);
                sync.decision.actions.extend(action);
            }
        }
        let mut orphans: BTreeMap<&Arc<str>, Vec<Candidate<'a>>> = BTreeMap::new();
        for (at, &record) in pods.iter().enumerate() {
            match pod_of(record) {
                Ok(pod) => {
                    let candidate = Candidate { at, record, pod };
                    if let Some(node_name) = sync.judge(candidate, &nodes) {
                        orphans.entry(node_name).or_default().push(candidate);
                    }
                }
                Err(missing) => sync.decision.add_unknown(record.id(Resource::Pods), missing),
            }
        }
        sync.judge_orphans(&orphans);
        sync.decision
    }

    /// The parts over one pod and its node. Returns the name of the node if it is missing.
    fn judge(
        &mut self,
        candidate: Candidate<'a>,
        nodes: &HashMap<&str, &Record, FixedState>,
    ) -> Option<&'a Arc<str>> {
        let Candidate { record, pod, .. } = candidate;
        let Some(node_name) = pod.node_name.known() else {
            let missing = Missing::field(&record.id(Resource::Pods), "spec.nodeName");
            self.leave(candidate, missing);
            return None;
        };
        let node = nodes.get(&**node_name);
        if node.is_none() && !node_name.is_empty() {
            return Some(node_name);
        }
        if !record.meta.is_deleting() {
            self.retain(candidate);
            return None;
        }
        let node = node.map(|node| match self.settings.version.has(OUT_OF_SERVICE) {
            true => is_out_of_service(node),
            false => Ok(false),
        });
        let reason = match node {
            None => {
                let message = "it is being deleted, and was never scheduled to a node";
                Reason::new("Unscheduled", message)
            }
            Some(Ok(true)) => {
                let message = format!("it is being deleted, and its node {node_name} is out of service");
                Reason::new("OutOfService", message)
            }
            Some(Ok(false)) => {
                let message = "it is being deleted by the kubelet of its node, which is not out of service";
                self.keep(candidate, Reason::new("LeftToKubelet", message));
                return None;
            }
            Some(Err(missing)) => {
                self.leave(candidate, missing);
                return None;
            }
        };
        let action = self.delete(candidate, reason, false);
        self.decision.actions.extend(action);
        None
    }

    /// The part over pods whose nodes are missing, by node.
    fn judge_orphans(&mut self, orphans: &BTreeMap<&'a Arc<str>, Vec<Candidate<'a>>>) {
        let now = self.cx.now;
        let is_ready = |ready_at: &Timestamp| *ready_at <= now;
        let deadlines = self.cx.deadlines.clone().into_iter();
        let (ready, mut waiting): (Deadlines, Deadlines) = deadlines.partition(|(_, at)| is_ready(at));
        let ready_at = now.saturating_add(self.settings.quarantine);
        let mut missing_nodes = Vec::new();
        for (&name, candidates) in orphans {
            // Upstream adds the name again before it takes the ready ones.
            let until = if is_ready(&ready_at) {
                ready_at
            } else {
                *waiting
                    .entry(Arc::clone(name))
                    .and_modify(|at| *at = ready_at.min(*at))
                    .or_insert(ready_at)
            };
            if !ready.contains_key(name) && !is_ready(&until) {
                let message = format!("its node {name} is missing, and is read again after {until}");
                let reason = Reason::new("Quarantined", message);
                for candidate in candidates {
                    self.keep(*candidate, reason.clone());
                }
                continue;
            }
            let reason = Reason::new("Orphaned", format!("its node {name} no longer exists"));
            let delete = |candidate: &Candidate<'a>| self.delete(*candidate, reason.clone(), true);
            let actions: Vec<Action> = candidates.iter().filter_map(delete).collect();
            missing_nodes.push((Arc::clone(name), actions));
        }
        // Pods that only finalizers keep are deleted again by every sync, but need none.
        let is_settled = |pod: &Candidate<'_>| self.settings.is_settled(pod.record, pod.pod);
        let is_needed = |name: &Arc<str>| {
            let pods = orphans.get(name);
            pods.is_none_or(|pods| !pods.iter().all(is_settled))
        };
        let needed = waiting.iter().filter(|(name, _)| is_needed(name));
        self.decision.requeue_at = needed.map(|(_, at)| *at).min();
        self.decision.deadlines = Some(waiting);
        missing_nodes.retain(|(_, actions)| !actions.is_empty());
        if let Some(first) = missing_nodes.first().and_then(|(_, actions)| actions.first()) {
            let object = first.object.clone();
            self.decision.steps = Some(Steps::of(&object, missing_nodes, delete_orphans));
        }
    }

    /// The deletion of a pod, unless a fact is missing that it needs. `orphaned` says whether its node no
    /// longer exists.
    fn delete(&mut self, candidate: Candidate<'_>, reason: Reason, orphaned: bool) -> Option<Action> {
        match self.try_delete(candidate, reason, orphaned) {
            Ok(action) => {
                self.is_chosen[candidate.at] = true;
                Some(action)
            }
            Err(missing) => {
                self.leave(candidate, missing);
                None
            }
        }
    }

    fn try_delete(
        &self,
        Candidate { record, pod, .. }: Candidate<'_>,
        reason: Reason,
        orphaned: bool,
    ) -> Result<Action, Missing> {
        let Self { settings, cx, .. } = self;
        let mut action = Action::new(Resource::Pods, &record.meta, reason).on_error(OnError::Report);
        if settings.marks_failed() {
            let id = record.id(Resource::Pods);
            id.read(&pod.phase, "status.phase")?;
            if pod.has_final_phase() == Some(false) {
                let mut changes = vec![FieldChange::Phase("Failed".into())];
                if orphaned && settings.adds_condition {
                    let conditions = id.read(&pod.conditions, "status.conditions")?;
                    let texts = ["DeletionByPodGC", "PodGC: node no longer exists"];
                    let mut condition = disruption_target(cx.now, conditions, texts);
                    if settings.observes_generation {
                        condition.observed_generation = record.meta.generation;
                    }
                    changes.push(FieldChange::Condition(condition));
                }
                let patch = Form::Patch(PatchType::Strategic);
                action = action.write(cx.wire, Sent::Uid, patch, "status", changes);
            }
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        Ok(action.delete(cx.wire, Sent::Nothing, options))
    }

    /// Marks a pod as undetermined, unless another part deletes it.
    fn leave(&mut self, candidate: Candidate<'_>, missing: Missing) {
        if !self.is_chosen[candidate.at] {
            let object = candidate.record.id(Resource::Pods);
            self.decision.add_unknown(object, missing);
        }
    }

    /// Keeps the pod, unless the number of terminated pods requires its deletion.
    fn keep(&mut self, candidate: Candidate<'_>, reason: Reason) {
        if self.is_chosen[candidate.at] {
            return;
        }
        let object = || candidate.record.id(Resource::Pods);
        match self.terminated.open.get(&candidate.at) {
            Some(missing) => self.decision.add_unknown(object(), missing.clone()),
            None if self.cx.notes_kept => self.decision.add_kept(object(), reason),
            None => {}
        }
    }

    /// The same, if there is no other reason.
    fn retain(&mut self, candidate: Candidate<'_>) {
        let phase = candidate.pod.phase.known();
        let (code, message) = match self.settings.threshold() {
            _ if phase.is_some_and(|phase| !is_terminated(phase)) => {
                ("NotTerminated", "it has not terminated")
            }
            None => ("NoThreshold", "any number of terminated pods is retained"),
            Some(threshold) if self.terminated.count_max <= threshold => {
                ("BelowThreshold", "no more pods have terminated than are retained")
            }
            Some(_) => (
                "OthersFirst",
                "enough other terminated pods are deleted before it",
            ),
        };
        self.keep(candidate, Reason::new(code, message));
    }
}

/// Reads missing nodes, and deletes the pods of those that no longer exist. The errors of one do not stop the
/// others.
async fn delete_orphans(missing_nodes: Arc<Vec<(Arc<str>, Vec<Action>)>>, port: Port) -> End {
    let mut errors: Vec<(String, StoreError)> = Vec::new();
    for (name, actions) in &*missing_nodes {
        match port.get(Resource::Nodes, Key::cluster(Arc::clone(name))).await {
            Err(StoreError::NotFound) => {}
            Ok(_) => continue,
            Err(error) => {
                errors.push((format!("node/{name}"), error));
                continue;
            }
        }
        for action in actions {
            if let Err(error) = action.send(&port).await {
                errors.push((action.object.to_string(), error));
            }
        }
    }
    let others = match errors.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more errors", count - 1),
    };
    match errors.into_iter().next() {
        Some((object, error)) => End::failed_with(format!("{object}: {error}{others}"), error, false),
        None => End::Done,
    }
}

static INFO: Info = Info {
    name: "pod-garbage-collector-controller",
    summary: "deletes terminated pods above a threshold, and pods whose nodes are lost or out of service",
    resources: &[Resource::Pods, Resource::Nodes],
    timing: Timing::every(Duration::from_secs(20)),
    permissions: &[
        (Resource::Pods, "", &["delete"]),
        (Resource::Pods, "status", &["patch"]),
    ],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/podgc/gc_controller.go",
    ..Info::BASE
};

impl Controller for PodGc {
    fn info(&self) -> &'static Info {
        &INFO
    }

    /// A sync is needed only if a change can make it delete a pod, or makes known what was not.
    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        let was_unread = change.old.is_some_and(|old| !is_read(old));
        let is_listed = || cache.require_all(INFO.resources).is_ok();
        let is_affected = match (change.resource, change.new) {
            (Resource::Pods, new) => {
                let was_counted = change.old.is_some_and(may_be_terminated);
                let node = |name: &Arc<str>| cache.get(Resource::Nodes, &Key::cluster(Arc::clone(name)));
                let is_another = new.map(|new| &new.meta.uid) != change.old.map(|old| &old.meta.uid);
                // While a list is incomplete, nothing is decided about most of the pods that matter.
                (is_another && !is_listed())
                    || was_unread
                    || new.is_some_and(|new| self.concerns(new, was_counted, node))
            }
            (Resource::Nodes, None) => true,
            // Its pods are no longer undecided.
            (Resource::Nodes, Some(_)) if change.old.is_none() && !is_listed() => true,
            (Resource::Nodes, Some(new)) => {
                let (old, new) = (change.old.map(is_out_of_service), is_out_of_service(new));
                let was_unknown = matches!(old, Some(Err(_)));
                self.version.has(OUT_OF_SERVICE)
                    && old.as_ref() != Some(&new)
                    && (new != Ok(false) || was_unknown)
            }
            _ => false,
        };
        if is_affected {
            self.keys(cache, keys);
        }
    }

    fn keys(&self, _cache: &Cache, keys: &mut Vec<Key>) {
        keys.push(Key::cluster(""));
    }

    fn reconcile(&self, cx: &Context<'_>, _key: &Key) -> Decision {
        Sync::run(self, cx)
    }
}
