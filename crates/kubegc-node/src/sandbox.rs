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
    fmt,
    sync::Arc,
};

use kubegc_core::{
    Kept, Plan, PlanOf, PlannedAction, Planner, Timestamp, Uid,
    node_facts::{Sandbox, SandboxState},
};

use crate::{
    Inventory, Order, Semantics,
    container::Mode,
    pod::{RemovableState, content_removable, runtime_removable},
};

/// Planner for sandboxes ([N2.30](crate::rules#n2-30) to [N2.38](crate::rules#n2-38)). See the
/// [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvictSandboxes {
    semantics: Semantics,
    mode: Mode,
    order: Order,
}

impl EvictSandboxes {
    /// Creates a planner with [`Mode::Periodic`].
    #[must_use]
    pub const fn new(semantics: Semantics) -> Self {
        Self {
            semantics,
            mode: Mode::Periodic,
            order: Order::Total,
        }
    }

    /// Sets the mode.
    #[must_use]
    pub const fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the order among entries with equal sort keys.
    #[must_use]
    pub const fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }
}

/// An action of a sandbox plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Action {
    /// Stop a sandbox, and remove it if that succeeds ([N2.37](crate::rules#n2-37)).
    Remove {
        sandbox: Arc<Sandbox>,
        #[cfg_attr(feature = "serde", serde(flatten))]
        reason: RemovalReason,
    },
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        let Self::Remove { sandbox, .. } = self;
        Subject::Sandbox(Arc::clone(sandbox))
    }

    fn is_deletion(&self) -> bool {
        true
    }
}

/// The reason why a sandbox is removed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// The state of its pod allows its removal, and no container belongs to it.
    PodEnded(RemovableState),
    /// Its pod has a newer sandbox, and no container belongs to it.
    Superseded,
}

/// The subject of an entry in a sandbox plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Subject {
    Sandbox(Arc<Sandbox>),
    /// The node as a whole.
    Node,
}

/// The reason why a sandbox is kept, or a finding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Ready,
    /// Containers belong to it, running or dead.
    HasContainers {
        /// The number of containers.
        containers: u32,
    },
    /// It is the newest sandbox of its pod.
    Newest,
    /// Its metadata has no pod uid.
    NoPod,
    /// The runtime returned no id, so it cannot be removed.
    NoId,
    /// Its id is listed more than once, with equal contents. It counts once.
    Repeated,
    /// Its id is listed more than once, with different contents. It is not removed.
    Contradiction,
    /// The listing of sandboxes or of containers is missing.
    Unlisted(Box<str>),
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
                plan.findings.push(Kept {
                    object: Subject::Node,
                    reason,
                });
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
                plan.findings.push(about(sandbox, Reason::Repeated));
                continue;
            } else {
                sandbox.id.is_empty().then_some(Reason::NoId)
            };
            if let Some(problem) = problem {
                plan.findings.push(about(sandbox, problem.clone()));
                plan.kept.push(about(sandbox, problem));
                continue;
            }
            if sandbox.pod.uid.is_empty() {
                plan.findings.push(about(sandbox, Reason::NoPod));
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
        let state = content_removable(pods, uid, &self.semantics).or_else(|| match self.mode {
            Mode::Periodic => None,
            Mode::Forced => runtime_removable(pods, uid, &self.semantics),
        });
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
                    plan.actions.push(Action::Remove {
                        sandbox: Arc::clone(sandbox),
                        reason: state.map_or(RemovalReason::Superseded, RemovalReason::PodEnded),
                    });
                    continue;
                }
            };
            plan.kept.push(about(sandbox, reason));
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

fn about(sandbox: &Arc<Sandbox>, reason: Reason) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Sandbox(Arc::clone(sandbox)),
        reason,
    }
}

impl RemovalReason {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodEnded(_) => "PodEnded",
            Self::Superseded => "Superseded",
        }
    }
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodEnded(state) => write!(f, "its pod is {}, and it has no containers", state.as_str()),
            Self::Superseded => f.write_str("its pod has a newer sandbox, and it has no containers"),
        }
    }
}

impl Reason {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::HasContainers { .. } => "HasContainers",
            Self::Newest => "Newest",
            Self::NoPod => "NoPod",
            Self::NoId => "NoId",
            Self::Repeated => "Repeated",
            Self::Contradiction => "Contradiction",
            Self::Unlisted(_) => "Unlisted",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::HasContainers { containers } => write!(f, "{containers} containers belong to it"),
            Self::Newest => f.write_str("it is the newest sandbox of its pod"),
            Self::NoPod => f.write_str("its metadata has no pod uid"),
            Self::NoId => f.write_str("the runtime returned no id"),
            Self::Repeated => f.write_str("listed more than once with equal contents"),
            Self::Contradiction => f.write_str("listed more than once with different contents"),
            Self::Unlisted(error) => write!(f, "the sandboxes are unknown: {error}"),
        }
    }
}

serialize_reason!(RemovalReason, Reason);

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Remove { sandbox, reason } = self;
        write!(f, "remove sandbox {} of {}: {reason}", sandbox.id, sandbox.pod)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox(sandbox) => write!(f, "sandbox {} of {}", sandbox.id, sandbox.pod),
            Self::Node => f.write_str("node"),
        }
    }
}
