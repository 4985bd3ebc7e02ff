//! One pass: four sub-passes over one picture of pods and nodes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{Kept, Plan, PlanOf, Planner, StoreError, Timestamp};

use super::{
    Action, Facts, Mark, Node, Pod, Quarantine, Reason, Settings, Status, Summary, TAINT_OUT_OF_SERVICE,
};
use crate::object::{Condition, Live, Object, Resource, by_identity, expected};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one pass.
    ///
    /// `next_at` is the next end of a quarantine, provided that the quarantine of the summary is handed in then. Where a node left the
    /// quarantine and pods of it stay, it is the next pass at the latest, which puts the node into quarantine again. It says nothing of [`Summary::lookups`]: these are due now.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let pods = facts
            .pods
            .as_ref()
            .map(|pods| by_identity(Resource::Pods, pods, |pod| &pod.meta));
        let (listed, nodes) = match (pods, &facts.nodes) {
            (Ok(pods), Ok(nodes)) => (pods, nodes),
            (Err(error), _) => return ended(facts, BTreeMap::new(), error),
            (Ok(pods), Err(error)) => return ended(facts, pods, error),
        };
        let mut kept = Vec::new();
        let (mut objects, mut pods) = (Vec::with_capacity(listed.len()), Vec::with_capacity(listed.len()));
        for (object, pod) in listed {
            if let Some(pod) = pod {
                objects.push(object);
                pods.push(pod);
            } else {
                let reason = Reason::ListedTwice;
                kept.push(Kept { object, reason });
            }
        }
        let mut pass = Pass {
            settings: self,
            chosen: vec![None; pods.len()],
            terminated: 0,
            objects,
            pods,
            nodes: by_name(nodes),
        };
        let mut actions = Vec::new();
        pass.take_terminated(&mut actions);
        pass.take_out_of_service(&mut actions);
        let release = pass.release(facts, now);
        pass.take_orphaned(&release.fates, now, &mut actions);
        pass.take_unscheduled(&mut actions);
        kept.extend(pass.kept(&release.fates));
        Plan {
            actions,
            kept,
            findings: Vec::new(),
            next_at: pass.next_at(&release, now),
            summary: Summary {
                quarantine: release.quarantine,
                lookups: release.lookups,
                terminated: pass.terminated,
                error: None,
            },
        }
    }
}

/// Nodes by name. One that was listed twice and not alike is there, and nothing more is known of it.
fn by_name(nodes: &[Node]) -> BTreeMap<&str, Option<&Node>> {
    let mut all = BTreeMap::new();
    for node in nodes {
        let seen = all.entry(&*node.name).or_insert(Some(node));
        if *seen != Some(node) {
            *seen = None;
        }
    }
    all
}

/// A pass that does nothing, because a list is missing (L1.1).
fn ended(facts: &Facts, pods: BTreeMap<Object, Option<&Pod>>, error: &StoreError) -> PlanOf<Settings> {
    let kept = pods.into_keys().map(|object| Kept {
        object,
        reason: Reason::NodesNotListed,
    });
    Plan {
        kept: kept.collect(),
        summary: Summary {
            quarantine: facts.quarantine.clone(),
            error: Some(error.clone()),
            ..Summary::default()
        },
        ..Plan::default()
    }
}

/// What is known of a node that is missing.
enum Fate {
    Waits(Timestamp),
    NotLookedUp,
    Found,
    LookupFailed(Arc<str>),
    Gone,
}

/// What becomes of the quarantine in one pass.
struct Release {
    /// Of every node that waits, was looked up or has to be.
    fates: BTreeMap<Arc<str>, Fate>,
    quarantine: Quarantine,
    lookups: Vec<Arc<str>>,
}

struct Pass<'a> {
    settings: &'a Settings,
    /// What each of the pods is, in order.
    objects: Vec<Object>,
    pods: Vec<&'a Pod>,
    nodes: BTreeMap<&'a str, Option<&'a Node>>,
    /// The reason for which each pod goes.
    chosen: Vec<Option<Reason>>,
    terminated: usize,
}

impl<'a> Pass<'a> {
    /// L1.3 to L1.7. Pods of unknown phase can only raise the count, so those that are known to be over the threshold are so in any case.
    fn take_terminated(&mut self, actions: &mut Vec<Action>) {
        let is_terminated = |pod: &Pod| pod.status.as_ref().is_some_and(Status::is_terminated);
        let line: Vec<usize> = (0..self.pods.len())
            .filter(|&at| is_terminated(self.pods[at]))
            .collect();
        self.terminated = line.len();
        let threshold = self.settings.terminated_threshold;
        let Some(may_stay) = usize::try_from(threshold).ok().filter(|&count| count > 0) else {
            return;
        };
        let reason = Reason::Terminated {
            terminated: line.len(),
            threshold,
        };
        let excess = line.len().saturating_sub(may_stay);
        for at in self.in_line(line).into_iter().take(excess) {
            self.choose(at, &reason, None, actions);
        }
    }

    /// L1.8 and L1.9.
    fn take_out_of_service(&mut self, actions: &mut Vec<Action>) {
        if !self.settings.looks_at_out_of_service {
            return;
        }
        let is_out = |node: &Node| {
            node.is_ready() == Some(false) && node.has_taint(TAINT_OUT_OF_SERVICE) == Some(true)
        };
        let line = (0..self.pods.len()).filter(|&at| {
            let pod = self.pods[at];
            pod.meta.is_deleting() && self.node(pod).flatten().is_some_and(is_out)
        });
        for at in self.in_line(line.collect()) {
            if let Some(node) = self.pods[at].node_name.clone() {
                self.choose(at, &Reason::OutOfService { node }, None, actions);
            }
        }
    }

    /// L1.10 and L1.11.
    fn release(&self, facts: &Facts, now: Timestamp) -> Release {
        let missing: BTreeSet<&Arc<str>> = self.pods.iter().filter_map(|pod| self.missing(pod)).collect();
        let mut waiting = facts.quarantine.clone();
        for &name in &missing {
            waiting.add(name, now.saturating_add(self.settings.quarantine));
        }
        let mut release = Release {
            fates: BTreeMap::new(),
            quarantine: Quarantine::default(),
            lookups: Vec::new(),
        };
        for (name, ready_at) in waiting.ready_at {
            let fate = if ready_at > now {
                Fate::Waits(ready_at)
            } else if self.nodes.contains_key(&*name) {
                continue;
            } else {
                match facts.live_nodes.of_missing(&name) {
                    Live::NotAsked => Fate::NotLookedUp,
                    Live::Found(()) => Fate::Found,
                    Live::Failed(message) => Fate::LookupFailed(message),
                    Live::NotFound => Fate::Gone,
                }
            };
            match fate {
                Fate::Waits(_) | Fate::NotLookedUp => {
                    if matches!(fate, Fate::NotLookedUp) {
                        release.lookups.push(Arc::clone(&name));
                    }
                    release.quarantine.add(&name, ready_at);
                }
                Fate::Found | Fate::LookupFailed(_) | Fate::Gone => {}
            }
            release.fates.insert(name, fate);
        }
        release
    }

    /// L1.12.
    fn take_orphaned(&mut self, fates: &BTreeMap<Arc<str>, Fate>, now: Timestamp, actions: &mut Vec<Action>) {
        for at in 0..self.pods.len() {
            let Some(name) = self.missing(self.pods[at]) else {
                continue;
            };
            if let Some(Fate::Gone) = fates.get(name) {
                let node = Arc::clone(name);
                self.choose(at, &Reason::Orphaned { node }, Some(now), actions);
            }
        }
    }

    /// L1.14.
    fn take_unscheduled(&mut self, actions: &mut Vec<Action>) {
        for at in 0..self.pods.len() {
            let pod = self.pods[at];
            if pod.meta.is_deleting() && pod.node_name.as_deref() == Some("") {
                self.choose(at, &Reason::Unscheduled, None, actions);
            }
        }
    }

    /// Plans the deletion of a pod, unless an earlier sub-pass did or its mark is not known. Orphans are told at which time.
    fn choose(
        &mut self,
        at: usize,
        reason: &Reason,
        orphaned_at: Option<Timestamp>,
        actions: &mut Vec<Action>,
    ) {
        let pod = self.pods[at];
        if self.chosen[at].is_some() {
            return;
        }
        let unfinished = match &pod.status {
            _ if !self.settings.marks_failed => None,
            None => return,
            Some(status) => Some(status).filter(|status| !status.is_final()),
        };
        let orphaned_at = orphaned_at.filter(|_| self.settings.tells_disruption);
        actions.push(Action::Delete {
            object: self.objects[at].clone(),
            expect: expected(&pod.meta),
            mark: unfinished.map(|status| Mark {
                condition: orphaned_at.map(|now| disruption(status, now)),
            }),
            reason: reason.clone(),
        });
        self.chosen[at] = Some(reason.clone());
    }

    /// L1.5, with namespace and uid behind the name.
    fn in_line(&self, mut line: Vec<usize>) -> Vec<usize> {
        let evicted_go_first = self.settings.evicted_go_first;
        line.sort_by_cached_key(|&at| {
            let Pod { meta, status, .. } = self.pods[at];
            let is_evicted = evicted_go_first && status.as_ref().is_some_and(Status::is_evicted);
            // The pods are in the order of namespace, name and uid.
            (
                Reverse(is_evicted),
                meta.creation_timestamp,
                Arc::clone(&meta.name),
                at,
            )
        });
        line
    }

    /// The pod's node, and what is known of it.
    fn node(&self, pod: &Pod) -> Option<Option<&'a Node>> {
        self.nodes.get(pod.node_name.as_deref()?).copied()
    }

    /// The name of the pod's node, where there is no such node.
    fn missing<'p>(&self, pod: &'p Pod) -> Option<&'p Arc<str>> {
        let name = pod.node_name.as_ref()?;
        (!name.is_empty() && !self.nodes.contains_key(&**name)).then_some(name)
    }

    fn kept(&self, fates: &BTreeMap<Arc<str>, Fate>) -> Vec<Kept<Object, Reason>> {
        let left = (0..self.pods.len()).filter(|&at| self.chosen[at].is_none());
        left.map(|at| Kept {
            object: self.objects[at].clone(),
            reason: self.why_kept(self.pods[at], fates),
        })
        .collect()
    }

    fn next_at(&self, release: &Release, now: Timestamp) -> Option<Timestamp> {
        let has_left = |pod: &&Pod| {
            let fate = self.missing(pod).and_then(|name| release.fates.get(name));
            matches!(fate, Some(Fate::Found | Fate::LookupFailed(_) | Fate::Gone))
        };
        let mut left = self.pods.iter().zip(&self.chosen);
        let is_spared = left.any(|(pod, chosen)| chosen.is_none() && has_left(pod));
        let next_pass = is_spared.then(|| now.saturating_add(self.settings.period));
        let ends = release.quarantine.next_after(now);
        ends.into_iter().chain(next_pass).min()
    }

    fn why_kept(&self, pod: &Pod, fates: &BTreeMap<Arc<str>, Fate>) -> Reason {
        let Some(name) = &pod.node_name else {
            return Reason::NodeNameUnknown;
        };
        let node = Arc::clone(name);
        let on_node = match (self.node(pod), fates.get(name)) {
            (Some(of), _) if pod.meta.is_deleting() => {
                if self.settings.looks_at_out_of_service {
                    let is_ready = of.and_then(Node::is_ready);
                    let is_tainted = of.and_then(|of| of.has_taint(TAINT_OUT_OF_SERVICE));
                    match (is_ready, is_tainted) {
                        (Some(true), _) => Some(Reason::NodeReady { node }),
                        (_, Some(false)) => Some(Reason::NodeNotOutOfService { node }),
                        (None, _) | (_, None) => Some(Reason::NodeStateUnknown { node }),
                        // Only the pod's status is missing.
                        (Some(false), Some(true)) => None,
                    }
                } else {
                    Some(Reason::LeftToNode { node })
                }
            }
            (None, Some(Fate::Waits(until))) => Some(Reason::InQuarantine { node, until: *until }),
            (None, Some(Fate::NotLookedUp)) => Some(Reason::NodeNotLookedUp { node }),
            (None, Some(Fate::Found)) => Some(Reason::NodeFound { node }),
            (None, Some(Fate::LookupFailed(message))) => Some(Reason::NodeLookupFailed {
                node,
                message: Arc::clone(message),
            }),
            _ => None,
        };
        on_node.unwrap_or_else(|| self.why_counted(pod))
    }

    fn why_counted(&self, pod: &Pod) -> Reason {
        let terminated = self.terminated;
        let threshold = self.settings.terminated_threshold;
        let may_stay = usize::try_from(threshold).unwrap_or(0);
        match &pod.status {
            None => Reason::StatusUnknown,
            Some(status) if !status.is_terminated() => Reason::Alive,
            Some(_) if may_stay == 0 => Reason::NoThreshold,
            Some(_) if terminated <= may_stay => Reason::UnderThreshold {
                terminated,
                threshold,
            },
            Some(_) => Reason::OthersGoFirst {
                terminated,
                threshold,
            },
        }
    }
}

/// L1.16: what orphans are told. The time of the last transition stays where the condition was true before.
fn disruption(status: &Status, now: Timestamp) -> Condition {
    const KIND: &str = "DisruptionTarget";
    let before = status
        .conditions
        .iter()
        .find(|condition| &*condition.kind == KIND);
    let since = before.filter(|condition| condition.is_true());
    Condition {
        reason: "DeletionByPodGC".into(),
        message: "PodGC: node no longer exists".into(),
        last_transition_time: since.map_or(Some(now), |condition| condition.last_transition_time),
        ..Condition::new(KIND, "True")
    }
}
