//! Chooses which pod sandboxes of a node are removed, and says why the others stay.
//!
//! A sandbox is *active* while it is ready or any container, dead or alive, stands in it. Of a pod that is gone every inactive sandbox goes; of
//! any other pod the newest stays, active or not, and older inactive ones go.
//!
//! # Guarantees
//! Never an active sandbox. Neither ages nor limits count, nor whether all sources of pods are ready. The listing of containers must be taken after
//! dead containers were removed: what was not removed keeps its sandbox.
//!
//! # Complexity
//! `n` sandboxes and `m` containers: `O((n + m) log (n + m))` time.
//!
//! # Upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `evictSandboxes`, alike from 1.20 to 1.36.

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
    container::Occasion,
    pod::{PodGone, content_gone, runtime_gone},
};

/// Chooses sandboxes to remove. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    semantics: Semantics,
    occasion: Occasion,
    order: Order,
}

impl Policy {
    /// The policy of the periodic loop.
    #[must_use]
    pub const fn new(semantics: Semantics) -> Self {
        Self {
            semantics,
            occasion: Occasion::Periodic,
            order: Order::Total,
        }
    }

    /// The same policy for another occasion.
    #[must_use]
    pub const fn on(mut self, occasion: Occasion) -> Self {
        self.occasion = occasion;
        self
    }

    /// The same policy with another order among equals.
    #[must_use]
    pub const fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }
}

/// What an executor does for a sandbox plan.
#[expect(
    clippy::exhaustive_enums,
    reason = "a new action must break executors at compile time"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Stop a sandbox, and where that works, remove it.
    Remove {
        /// The sandbox.
        sandbox: Arc<Sandbox>,
        /// Why.
        reason: RemovedBecause,
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

/// Why a sandbox goes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedBecause {
    /// Its pod is gone, and nothing stands in it.
    PodGone(PodGone),
    /// Its pod has a newer one, and nothing stands in it.
    Superseded,
}

/// What a sandbox plan speaks of.
#[expect(clippy::exhaustive_enums, reason = "one sandbox, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One sandbox.
    Sandbox(Arc<Sandbox>),
    /// The node as a whole.
    Node,
}

/// Why a sandbox stays, or what is odd about the facts.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is ready.
    Ready,
    /// Containers stand in it, dead or alive.
    HasContainers {
        /// How many.
        containers: u32,
    },
    /// It is the newest of a pod that is not gone.
    Newest,
    /// It names no pod.
    NoPod,
    /// The runtime gave no id, so nothing can be asked of it.
    NoId,
    /// Its id stands in the listing more than once, with equal contents; counted once.
    Repeated,
    /// Its id stands in the listing more than once, with different contents; not touched.
    Contradiction,
    /// There is no listing of sandboxes or containers.
    Unlisted(Box<str>),
}

impl Planner for Policy {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = ();

    fn plan(&self, inventory: &Inventory, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        let (containers, sandboxes) = match (&inventory.containers, &inventory.sandboxes) {
            (Ok(containers), Ok(sandboxes)) => (containers, sandboxes),
            (Err(why), _) | (_, Err(why)) => {
                let reason = Reason::Unlisted(why.to_string().into());
                plan.findings.push(Kept {
                    object: Subject::Node,
                    reason,
                });
                return plan;
            }
        };
        let mut within: BTreeMap<&str, u32> = BTreeMap::new();
        for container in containers {
            *within.entry(&container.sandbox_id).or_default() += 1;
        }
        for group in self.groups(sandboxes, &mut plan).into_values() {
            self.group(inventory, &within, &group, &mut plan);
        }
        plan
    }
}

impl Policy {
    /// The sandboxes of each pod, the newest first, or in the order of the listing where all are looked at alike. Those that cannot be told apart are
    /// no part of any group: they stay.
    fn groups<'a>(
        &self,
        sandboxes: &'a [Arc<Sandbox>],
        plan: &mut PlanOf<Self>,
    ) -> BTreeMap<&'a Uid, Vec<&'a Arc<Sandbox>>> {
        let mut listed: Vec<&Arc<Sandbox>> = sandboxes.iter().collect();
        if self.order == Order::Total {
            listed.sort_by(|a, b| everything(a).cmp(&everything(b)));
        }
        let mut first: BTreeMap<&str, &Arc<Sandbox>> = BTreeMap::new();
        let mut contested: BTreeSet<&str> = BTreeSet::new();
        for &sandbox in &listed {
            if **first.entry(&sandbox.id).or_insert(sandbox) != *sandbox {
                contested.insert(&sandbox.id);
            }
        }
        let mut groups: BTreeMap<&Uid, Vec<&Arc<Sandbox>>> = BTreeMap::new();
        for sandbox in listed {
            let doubt = if contested.contains(&*sandbox.id) {
                Some(Reason::Contradiction)
            } else if first.remove(&*sandbox.id).is_none() {
                plan.findings.push(about(sandbox, Reason::Repeated));
                continue;
            } else {
                sandbox.id.is_empty().then_some(Reason::NoId)
            };
            if let Some(doubt) = doubt {
                plan.findings.push(about(sandbox, doubt.clone()));
                plan.kept.push(about(sandbox, doubt));
                continue;
            }
            if sandbox.pod.uid.is_empty() {
                plan.findings.push(about(sandbox, Reason::NoPod));
            }
            groups.entry(&sandbox.pod.uid).or_default().push(sandbox);
        }
        groups
    }

    /// N2.33 to N2.36, for one pod.
    fn group(
        &self,
        inventory: &Inventory,
        within: &BTreeMap<&str, u32>,
        group: &[&Arc<Sandbox>],
        plan: &mut PlanOf<Self>,
    ) {
        let Some(first) = group.first() else { return };
        let (pods, uid) = (&inventory.pods, &first.pod.uid);
        let gone = content_gone(pods, uid, &self.semantics).or_else(|| match self.occasion {
            Occasion::Periodic => None,
            Occasion::Forced => runtime_gone(pods, uid, &self.semantics),
        });
        let mut group = group.to_vec();
        if gone.is_none() {
            group.sort_by_key(|sandbox| Reverse(sandbox.created_at));
        }
        let spared = usize::from(gone.is_none());
        for (at, &sandbox) in group.iter().enumerate().rev() {
            let containers = within.get(&*sandbox.id).copied().unwrap_or(0);
            let reason = match (at < spared, sandbox.state, containers) {
                (true, _, _) => Reason::Newest,
                (false, SandboxState::Ready, _) => Reason::Ready,
                (false, SandboxState::NotReady, 1..) => Reason::HasContainers { containers },
                (false, SandboxState::NotReady, 0) => {
                    plan.actions.push(Action::Remove {
                        sandbox: Arc::clone(sandbox),
                        reason: gone.map_or(RemovedBecause::Superseded, RemovedBecause::PodGone),
                    });
                    continue;
                }
            };
            plan.kept.push(about(sandbox, reason));
        }
    }
}

/// All that is said of a sandbox, in the order in which they are looked at: the newest first, then by id.
fn everything(sandbox: &Sandbox) -> impl Ord + '_ {
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

impl RemovedBecause {
    /// The reason's name, as an Event would have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodGone(_) => "PodGone",
            Self::Superseded => "Superseded",
        }
    }
}

impl fmt::Display for RemovedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGone(gone) => write!(f, "its pod is {}, and nothing stands in it", gone.as_str()),
            Self::Superseded => f.write_str("its pod has a newer one, and nothing stands in it"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::HasContainers { containers } => write!(f, "{containers} containers stand in it"),
            Self::Newest => f.write_str("the newest of its pod"),
            Self::NoPod => f.write_str("its metadata names no pod"),
            Self::NoId => f.write_str("the runtime gave no id"),
            Self::Repeated => f.write_str("listed more than once, alike"),
            Self::Contradiction => f.write_str("listed more than once, differently"),
            Self::Unlisted(why) => write!(f, "the sandboxes are unknown: {why}"),
        }
    }
}
