//! One pass: four sub-passes over one picture of pods and nodes.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_core::{Kept, Plan, PlanOf, Planner, StoreError, Timestamp};

use super::{
    Action, Facts, Mark, Node, Pod, Quarantine, Reason, Settings, Status, Summary, TAINT_OUT_OF_SERVICE,
};
use crate::object::{Condition, Live, Object, Resource, by_key, expected, in_order};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one pass.
    ///
    /// `next_at` is the next end of a quarantine of a node that pods are on, provided that the quarantine of the summary is handed in then. Where such a
    /// node left the quarantine, it is the next pass at the latest, which puts the node into quarantine again: also where its pods go, for a deletion
    /// may fail. It says nothing of [`Summary::lookups`]: these are due now.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let pods = facts.pods.as_ref().map(|pods| in_order(pods, |pod| &pod.meta));
        let (listed, nodes) = match (pods, &facts.nodes) {
            (Ok(pods), Ok(nodes)) => (pods, nodes),
            (Err(error), _) => return ended(facts, &[], error),
            (Ok(pods), Err(error)) => return ended(facts, &pods, error),
        };
        let nodes = by_key(nodes, |node| &*node.name);
        let mut kept = Vec::with_capacity(listed.len());
        let mut pods = Vec::with_capacity(listed.len());
        let mut apart = 0;
        for (pod, is_alike) in listed {
            let reason = if !is_alike {
                Reason::ListedTwice
            } else if pod.meta.uid.is_empty() {
                Reason::IdentityUnknown
            } else {
                pods.push(Placed::new(pod, &nodes));
                continue;
            };
            let may_count = !is_alike || pod.status.as_ref().is_none_or(Status::is_terminated);
            apart += usize::from(may_count);
            let object = object_of(pod);
            kept.push(Kept { object, reason });
        }
        let mut pass = Pass {
            settings: self,
            is_chosen: vec![false; pods.len()],
            is_open: vec![false; pods.len()],
            terminated: 0,
            apart,
            unread: 0,
            pods,
        };
        let mut actions = Vec::new();
        pass.take_terminated(&mut actions);
        pass.take_out_of_service(&mut actions);
        let release = pass.release(facts, now);
        pass.take_orphaned(&release.fates, now, &mut actions);
        pass.take_unscheduled(&mut actions);
        pass.keep(&release.fates, &mut kept);
        Plan {
            actions,
            kept,
            findings: Vec::new(),
            next_at: Pass::next_at(&release, now, self.period),
            summary: Summary {
                quarantine: release.quarantine,
                lookups: release.lookups,
                terminated: pass.terminated,
                error: None,
            },
        }
    }
}

/// A pass that does nothing, because a list is missing (L1.1).
fn ended(facts: &Facts, pods: &[(&Pod, bool)], error: &StoreError) -> PlanOf<Settings> {
    let kept = pods.iter().map(|(pod, _)| Kept {
        object: object_of(pod),
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

fn object_of(pod: &Pod) -> Object {
    Object::new(Resource::Pods, &pod.meta)
}

/// Nodes by name. One that was listed twice and not alike is there, and nothing more is known of it.
type Nodes<'a> = BTreeMap<&'a str, Option<&'a Node>>;

/// A pod and where it is.
#[derive(Clone, Copy)]
struct Placed<'a> {
    pod: &'a Pod,
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    /// Nobody knows.
    Unknown,
    /// On no node.
    Nowhere,
    /// On a node that is listed, and what is known of that.
    On(&'a Arc<str>, Option<&'a Node>),
    /// On a node that is not listed.
    Missing(&'a Arc<str>),
}

impl<'a> Placed<'a> {
    fn new(pod: &'a Pod, nodes: &Nodes<'a>) -> Self {
        let place = match &pod.node_name {
            None => Place::Unknown,
            Some(name) if name.is_empty() => Place::Nowhere,
            Some(name) => match nodes.get(&**name) {
                Some(&node) => Place::On(name, node),
                None => Place::Missing(name),
            },
        };
        Self { pod, place }
    }

    /// The name of the pod's node, where there is no such node.
    const fn missing(&self) -> Option<&'a Arc<str>> {
        match self.place {
            Place::Missing(name) => Some(name),
            _ => None,
        }
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
    /// Of every node that is missing under a pod.
    fates: BTreeMap<Arc<str>, Fate>,
    quarantine: Quarantine,
    lookups: Vec<Arc<str>>,
}

struct Pass<'a> {
    settings: &'a Settings,
    /// In order.
    pods: Vec<Placed<'a>>,
    /// Whether each of the pods goes.
    is_chosen: Vec<bool>,
    /// Whether it hangs on what was not read which of the terminated pods are first in line, and each of the pods may be or not.
    is_open: Vec<bool>,
    terminated: usize,
    /// How many more pods there are that cannot be told apart and may be terminated.
    apart: usize,
    /// How many pods were not read far enough to find their place in line.
    unread: usize,
}

impl Pass<'_> {
    /// L1.3 to L1.7. Those go that are among the first in line whatever is read later of the others.
    ///
    /// Pods of unknown phase can only raise the count, by no more than they push back anybody. A pod of unknown age may stand anywhere in its class, and
    /// those of known age behind it or not.
    fn take_terminated(&mut self, actions: &mut Vec<Action>) {
        let is_terminated = |pod: &Pod| pod.status.as_ref().is_some_and(Status::is_terminated);
        let line: Vec<usize> = (0..self.pods.len())
            .filter(|&at| is_terminated(self.pods[at].pod))
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
        let of_unknown_phase = self.pods.iter().filter(|placed| placed.pod.status.is_none());
        let of_unknown_phase = of_unknown_phase.count() + self.apart;
        let excess = line.len().saturating_sub(may_stay);
        let excess_max = (line.len() + of_unknown_phase).saturating_sub(may_stay);
        if excess_max == 0 {
            return;
        }
        let (evicted, others): (Vec<usize>, Vec<usize>) = line.into_iter().partition(|&at| self.is_early(at));
        let mut goes = Vec::new();
        let mut start = 0;
        self.unread = of_unknown_phase;
        for class in [evicted, others] {
            let end = start + class.len();
            let (mut timed, timeless): (Vec<usize>, Vec<usize>) = class
                .into_iter()
                .partition(|&at| self.pods[at].pod.meta.creation_timestamp.is_some());
            self.unread += timeless.len();
            // From the first place that each may have to the last.
            let sure = excess.saturating_sub(start + timeless.len()).min(timed.len());
            let open = excess_max.saturating_sub(start).min(timed.len());
            self.first(&mut timed, open);
            self.first(&mut timed[..open], sure);
            goes.extend_from_slice(&timed[..sure]);
            let mut may_go = timed[sure..open].to_vec();
            if end <= excess {
                goes.extend(timeless);
            } else if start < excess_max {
                may_go.extend(timeless);
            }
            for at in may_go {
                self.is_open[at] = true;
            }
            start = end;
        }
        goes.sort_unstable_by(|&a, &b| self.compare(a, b));
        for at in goes {
            self.choose(at, &reason, None, actions);
        }
    }

    /// Brings so many of the first in line to the front.
    fn first(&self, line: &mut [usize], count: usize) {
        if count < line.len() {
            line.select_nth_unstable_by(count, |&a, &b| self.compare(a, b));
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
        let is_in_line = |placed: &Placed<'_>| {
            let Place::On(_, Some(node)) = placed.place else {
                return false;
            };
            placed.pod.meta.is_deleting() && is_out(node)
        };
        let mut line: Vec<usize> = (0..self.pods.len())
            .filter(|&at| is_in_line(&self.pods[at]))
            .collect();
        line.sort_unstable_by(|&a, &b| self.compare(a, b));
        for at in line {
            if let Place::On(name, _) = self.pods[at].place {
                let node = Arc::clone(name);
                self.choose(at, &Reason::OutOfService { node }, None, actions);
            }
        }
    }

    /// L1.10 and L1.11.
    fn release(&self, facts: &Facts, now: Timestamp) -> Release {
        let missing: BTreeSet<&Arc<str>> = self.pods.iter().filter_map(Placed::missing).collect();
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
            let has_pods = missing.contains(&name);
            let fate = if ready_at > now {
                Fate::Waits(ready_at)
            } else if !has_pods {
                // It is back, or nobody asks for it any more.
                continue;
            } else {
                match facts.live_nodes.of_missing(&name, ready_at) {
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
            if has_pods {
                release.fates.insert(name, fate);
            }
        }
        release
    }

    /// L1.12.
    fn take_orphaned(&mut self, fates: &BTreeMap<Arc<str>, Fate>, now: Timestamp, actions: &mut Vec<Action>) {
        for at in 0..self.pods.len() {
            let Some(name) = self.pods[at].missing() else {
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
            let Placed { pod, place } = self.pods[at];
            if pod.meta.is_deleting() && matches!(place, Place::Nowhere) {
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
        let pod = self.pods[at].pod;
        if self.is_chosen[at] {
            return;
        }
        let unfinished = match &pod.status {
            _ if !self.settings.marks_failed => None,
            None => return,
            Some(status) => Some(status).filter(|status| !status.is_final()),
        };
        let orphaned_at = orphaned_at.filter(|_| self.settings.tells_disruption);
        actions.push(Action::Delete {
            object: object_of(pod),
            expect: expected(&pod.meta),
            mark: unfinished.map(|status| Mark {
                condition: orphaned_at.map(|now| disruption(status, now)),
            }),
            reason: reason.clone(),
        });
        self.is_chosen[at] = true;
    }

    /// Whether a pod goes before all that were not evicted.
    fn is_early(&self, at: usize) -> bool {
        let status = self.pods[at].pod.status.as_ref();
        self.settings.evicted_go_first && status.is_some_and(Status::is_evicted)
    }

    /// L1.5, with namespace and uid behind the name: the pods are in the order of namespace, name and uid.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let evicted_first = self.is_early(b).cmp(&self.is_early(a));
        let (first, second) = (&self.pods[a].pod.meta, &self.pods[b].pod.meta);
        evicted_first
            .then_with(|| first.creation_timestamp.cmp(&second.creation_timestamp))
            .then_with(|| first.name.cmp(&second.name))
            .then(a.cmp(&b))
    }

    fn keep(&self, fates: &BTreeMap<Arc<str>, Fate>, kept: &mut Vec<Kept<Object, Reason>>) {
        let stays = (0..self.pods.len()).filter(|&at| !self.is_chosen[at]);
        kept.extend(stays.map(|at| Kept {
            object: object_of(self.pods[at].pod),
            reason: self.why_kept(at, fates),
        }));
    }

    fn next_at(release: &Release, now: Timestamp, period: Duration) -> Option<Timestamp> {
        let of_node = release.fates.values().filter_map(|fate| match fate {
            Fate::Waits(until) => Some(*until),
            // Asked for now.
            Fate::NotLookedUp => None,
            Fate::Found | Fate::LookupFailed(_) | Fate::Gone => Some(now.saturating_add(period)),
        });
        of_node.min()
    }

    fn why_kept(&self, at: usize, fates: &BTreeMap<Arc<str>, Fate>) -> Reason {
        let placed = self.pods[at];
        let pod = placed.pod;
        if self.is_open[at] {
            return Reason::PlaceInLineUnknown {
                terminated: self.terminated,
                unread: self.unread,
                threshold: self.settings.terminated_threshold,
            };
        }
        let because_of_node = match placed.place {
            Place::Unknown => Some(Reason::NodeNameUnknown),
            Place::On(name, node) if pod.meta.is_deleting() => self.why_left(Arc::clone(name), node),
            Place::Missing(name) => {
                let node = Arc::clone(name);
                match fates.get(name) {
                    Some(Fate::Waits(until)) => Some(Reason::InQuarantine { node, until: *until }),
                    Some(Fate::NotLookedUp) => Some(Reason::NodeNotLookedUp { node }),
                    Some(Fate::Found) => Some(Reason::NodeFound { node }),
                    Some(Fate::LookupFailed(message)) => Some(Reason::NodeLookupFailed {
                        node,
                        message: Arc::clone(message),
                    }),
                    Some(Fate::Gone) | None => None,
                }
            }
            Place::Nowhere | Place::On(..) => None,
        };
        because_of_node.unwrap_or_else(|| self.why_counted(pod))
    }

    /// Why a terminating pod is left to its node; `None` where only the pod's status is missing.
    fn why_left(&self, node: Arc<str>, of: Option<&Node>) -> Option<Reason> {
        if !self.settings.looks_at_out_of_service {
            return Some(Reason::LeftToNode { node });
        }
        let is_ready = of.and_then(Node::is_ready);
        let is_tainted = of.and_then(|of| of.has_taint(TAINT_OUT_OF_SERVICE));
        match (is_ready, is_tainted) {
            (Some(true), _) => Some(Reason::NodeReady { node }),
            (_, Some(false)) => Some(Reason::NodeNotOutOfService { node }),
            (None, _) | (_, None) => Some(Reason::NodeStateUnknown { node }),
            (Some(false), Some(true)) => None,
        }
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
