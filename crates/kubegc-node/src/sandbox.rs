//! Planner for pod sandboxes.
//!
//! A sandbox is *active* if it is ready, or if a container in any state belongs to it. If the
//! [state](crate::pod::RemovableState) of the pod allows it, all its inactive sandboxes are removed.
//! Otherwise the newest sandbox is kept, active or not, and older inactive ones are removed.
//!
//! # Guarantees
//! An active sandbox is never removed.
//!
//! # Assumptions
//! The listing of containers was read after dead containers were removed: a container in the listing keeps
//! its sandbox. Ages, limits, and whether all pod sources are ready have no effect.
//!
//! # Complexity
//! `n` sandboxes and `m` containers: `O((n + m) log (n + m))` time.
//!
//! # Upstream
//! [`pkg/kubelet/kuberuntime/kuberuntime_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go),
//! `evictSandboxes`, equal from 1.20 to 1.36.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Plan, PlanOf, PlannedAction, Planner, Timestamp, Uid,
    node_facts::{Sandbox, SandboxState},
};

use crate::{
    Inventory, Order, Semantics, Subject,
    container::Mode,
    pod::{RemovableState, removable},
};

/// Planner for sandboxes ([N2.30](crate::rules#n2-30) to [N2.38](crate::rules#n2-38)). See the
/// [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvictSandboxes {
    /// The version and its feature gates.
    pub semantics: Semantics,
    pub mode: Mode,
    /// The order among entries with equal sort keys.
    pub order: Order,
}

/// An action of a sandbox plan: stop a sandbox, and remove it if that succeeds
/// ([N2.37](crate::rules#n2-37)).
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("remove sandbox {} of {}: {reason}", sandbox.id, sandbox.pod)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename = "remove", rename_all = "camelCase")
)]
pub struct Action {
    pub sandbox: Arc<Sandbox>,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: RemovalReason,
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        (&self.sandbox).into()
    }
}

kubegc_core::reasons! {
    #[derive(Copy)]
    pub enum RemovalReason {
        PodEnded(state: RemovableState) = "its pod is {state}, and it has no containers";
        Superseded = "its pod has a newer sandbox, and it has no containers";
    }

    /// The reason why a sandbox is kept, or a finding.
    pub enum Reason {
        Ready = "ready";
        /// Containers belong to it, running or dead.
        HasContainers { containers: u32 } = "{containers} containers belong to it";
        Newest = "it is the newest sandbox of its pod";
        NoPod = "its metadata has no pod uid";
        /// It cannot be removed.
        NoId = "the runtime returned no id";
        /// It counts once.
        Repeated = "listed more than once with equal contents";
        /// It is not removed.
        Contradiction = "listed more than once with different contents";
        /// The listing of sandboxes or of containers is missing.
        Unlisted(error: Box<str>) = "the sandboxes are unknown: {error}";
    }
}

impl Planner for EvictSandboxes {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = ();

    fn plan(&self, inventory: &Inventory, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        let (containers, sandboxes) = match (&inventory.containers, &inventory.sandboxes) {
            (Ok(containers), Ok(sandboxes)) => (containers, sandboxes),
            (Err(error), _) | (_, Err(error)) => {
                let reason = Reason::Unlisted(error.to_string().into());
                plan.findings.push(Subject::Node.because(reason));
                return plan;
            }
        };
        let mut container_counts: BTreeMap<&str, u32> = BTreeMap::new();
        for container in containers {
            *container_counts.entry(&container.sandbox_id).or_default() += 1;
        }
        for group in self.groups(sandboxes, &mut plan).into_values() {
            self.plan_pod(inventory, &container_counts, &group, &mut plan);
        }
        plan
    }
}

impl EvictSandboxes {
    /// The sandboxes of each pod, the newest first, or in the order of the listing. Sandboxes without id, or
    /// with contradicting entries, are in no group and are kept.
    fn groups<'a>(
        &self,
        sandboxes: &'a [Arc<Sandbox>],
        plan: &mut PlanOf<Self>,
    ) -> BTreeMap<&'a Uid, Vec<&'a Arc<Sandbox>>> {
        let mut listed: Vec<&Arc<Sandbox>> = sandboxes.iter().collect();
        if self.order == Order::Total {
            listed.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        }
        let mut first: BTreeMap<&str, &Arc<Sandbox>> = BTreeMap::new();
        let mut contradicting: BTreeSet<&str> = BTreeSet::new();
        for &sandbox in &listed {
            if **first.entry(&sandbox.id).or_insert(sandbox) != *sandbox {
                contradicting.insert(&sandbox.id);
            }
        }
        let mut groups: BTreeMap<&Uid, Vec<&Arc<Sandbox>>> = BTreeMap::new();
        for sandbox in listed {
            let problem = if contradicting.contains(&*sandbox.id) {
                Some(Reason::Contradiction)
            } else if first.remove(&*sandbox.id).is_none() {
                plan.findings
                    .push(Subject::from(sandbox).because(Reason::Repeated));
                continue;
            } else {
                sandbox.id.is_empty().then_some(Reason::NoId)
            };
            if let Some(problem) = problem {
                plan.findings
                    .push(Subject::from(sandbox).because(problem.clone()));
                plan.kept.push(Subject::from(sandbox).because(problem));
                continue;
            }
            if sandbox.pod.uid.is_empty() {
                plan.findings.push(Subject::from(sandbox).because(Reason::NoPod));
            }
            groups.entry(&sandbox.pod.uid).or_default().push(sandbox);
        }
        groups
    }

    /// Plans the sandboxes of one pod ([N2.33](crate::rules#n2-33) to [N2.36](crate::rules#n2-36)).
    fn plan_pod(
        &self,
        inventory: &Inventory,
        container_counts: &BTreeMap<&str, u32>,
        group: &[&Arc<Sandbox>],
        plan: &mut PlanOf<Self>,
    ) {
        let Some(first) = group.first() else { return };
        let (pods, uid) = (&inventory.pods, &first.pod.uid);
        let state = removable(pods, uid, self.mode, &self.semantics);
        let mut group = group.to_vec();
        if state.is_none() {
            group.sort_by_key(|sandbox| Reverse(sandbox.created_at));
        }
        let always_kept = usize::from(state.is_none());
        for (at, &sandbox) in group.iter().enumerate().rev() {
            let containers = container_counts.get(&*sandbox.id).copied().unwrap_or(0);
            let reason = match (at < always_kept, sandbox.state, containers) {
                (true, _, _) => Reason::Newest,
                (false, SandboxState::Ready, _) => Reason::Ready,
                (false, SandboxState::NotReady, 1..) => Reason::HasContainers { containers },
                (false, SandboxState::NotReady, 0) => {
                    plan.actions.push(Action {
                        sandbox: Arc::clone(sandbox),
                        reason: state.map_or(RemovalReason::Superseded, RemovalReason::PodEnded),
                    });
                    continue;
                }
            };
            plan.kept.push(Subject::from(sandbox).because(reason));
        }
    }
}

/// All fields of a sandbox, as a sort key: the newest first, then by id.
fn sort_key(sandbox: &Sandbox) -> impl Ord + '_ {
    (
        Reverse(sandbox.created_at),
        (&sandbox.id, sandbox.state),
        (&sandbox.pod, sandbox.attempt, &sandbox.labels),
    )
}
