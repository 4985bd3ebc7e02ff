//! A player of workloads for tests of operators: by rules, owners get pods and claims, and pods become ready,
//! fail, restart and are replaced.
//!
//! With [`Settings::workloads`](crate::Settings::workloads) the player acts as those parts of upstream's
//! controllers that create objects and write statuses, as scheduler and as kubelets. Steps have their names.
//! The other controllers of a [`ControlPlane`](crate::ControlPlane) delete objects, adopt, count the pods of
//! Jobs and remove finalizers. The player acts only when these have nothing to do at this time, so that a pod
//! is adopted, counted or deleted before it is replaced. A sync compares an object and its dependents with
//! what they should be, and writes what is missing.
//!
//! # Where it differs from Kubernetes
//! - A new ReplicaSet begins with all replicas; strategies, `maxSurge` and partitions have no effect. Pods of
//!   another template are deleted at once, those of an ordered StatefulSet one at a time, and none with
//!   `OnDelete`.
//! - There are no ControllerRevisions, no revision annotations, no progress deadlines and no
//!   `minReadySeconds`. A paused Deployment is rolled out. Nothing writes the status of PodDisruptionBudgets.
//! - Hashes are deterministic and change with the template; their values are not those of a real cluster.
//! - All containers of a pod start, end and restart together, 10 s after each exit. Their statuses have no
//!   state. Pods have the condition `Ready` and no IP. Init containers and readiness gates have no effect.
//! - The scheduler respects `nodeSelector`, `unschedulable` and unbound claims; the nodes take turns. Taints,
//!   affinity and scheduling gates have no effect. Pods of DaemonSets are created with their node.
//! - Claims are bound without a volume. Before 1.27 a pod that only finalizers keep retains its phase.
//! - The conditions `Available` of Deployments and `Ready` of nodes have no reason.
//! - `ordinals` of StatefulSets, and `managedBy` and `podReplacementPolicy` of Jobs have no effect.
//! - Indexed Jobs get no pods. CronJobs have no schedule. In every release the next pod of a Job is created
//!   10 s after the end of a failed pod. The delay doubles with each further failure, up to 10 minutes, until
//!   a pod succeeds. A deleted pod is replaced immediately.
//! - A refused write is tried again when an object changes. No Events are recorded.

mod owners;
mod player;

use std::{iter::successors, sync::Arc, time::Duration};

use kubegc_core::{ObjectMeta, OwnerReference, Timestamp};
use kubegc_sim::{ApiServer, StoredObject};

pub use self::player::ready_node;

/// The outcome of a pod. Durations count from the start of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodFate {
    /// It remains `Pending`: no node is found for it.
    Unschedulable,
    /// It remains `Pending` on its node: its containers are not created.
    Pending,
    /// It is `Running` and never ready.
    NotReady,
    /// It is `Running`, and ready after this time.
    Ready { after: Duration },
    /// Its containers run and are ready for this time, then exit with code 0. With restart policy `Always`
    /// they are restarted.
    Succeeds { after: Duration },
    /// Its containers run and are ready for this time, then exit with code 1. Unless the restart policy is
    /// `Never`, they are restarted.
    Fails { after: Duration },
}

/// The outcome of an unbound claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimFate {
    /// It remains `Pending`.
    Pending,
    /// It is bound this long after its creation.
    Bound { after: Duration },
}

/// The pod or claim that a rule is evaluated for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    server: &'a ApiServer,
    object: &'a StoredObject,
}

impl<'a> Subject<'a> {
    const fn new(server: &'a ApiServer, object: &'a StoredObject) -> Self {
        Self { server, object }
    }

    pub fn name(&self) -> &'a str {
        &self.object.meta.name
    }

    pub fn meta(&self) -> &'a ObjectMeta {
        &self.object.meta
    }

    pub fn has_label(&self, key: &str, value: &str) -> bool {
        let known = self.object.meta.labels.get(key);
        known.is_some_and(|known| **known == *value)
    }

    /// Whether an owner of this kind and name controls it, directly or through others: a Deployment controls
    /// pods through a ReplicaSet, a CronJob through a Job.
    pub fn is_of(&self, kind: &str, name: &str) -> bool {
        let above = |owner: &OwnerReference| {
            let kind = self.server.catalog().mapping(&owner.api_version, &owner.kind)?;
            let owner = self.server.object(kind, &self.meta().namespace, &owner.name)?;
            owner.meta.controller().cloned()
        };
        let owners = successors(self.meta().controller().cloned(), above);
        // Built-in kinds need at most three.
        owners
            .take(8)
            .any(|owner| *owner.kind == *kind && *owner.name == *name)
    }
}

type Rule<F> = Arc<dyn Fn(&Subject<'_>) -> Option<F> + Send + Sync>;

/// Simulates the controllers that create workloads, the scheduler and the kubelets, by rules.
///
/// Without rules everything becomes ready immediately: claims are bound, pods run and are ready, the pods of
/// Jobs succeed.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use kubegc_control_plane::workloads::{PodFate, Workloads};
///
/// let workloads = Workloads::new()
///     .nodes(["a", "b"])
///     .pods(|pod| pod.is_of("Job", "backup").then_some(PodFate::Fails { after: Duration::from_secs(5) }))
///     .pods(|pod| pod.has_label("app", "db").then_some(PodFate::Ready { after: Duration::from_secs(30) }));
/// ```
#[must_use]
#[derive(Clone, Default, derive_more::Debug)]
pub struct Workloads {
    #[debug("{} rules", pods.len())]
    pods: Vec<Rule<PodFate>>,
    #[debug("{} rules", claims.len())]
    claims: Vec<Rule<ClaimFate>>,
    nodes: Vec<String>,
}

impl Workloads {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule for pods. The first rule that returns an outcome applies. It must always return the same
    /// outcome for a pod, unless its labels or owners change.
    pub fn pods(mut self, rule: impl Fn(&Subject<'_>) -> Option<PodFate> + Send + Sync + 'static) -> Self {
        self.pods.push(Arc::new(rule));
        self
    }

    /// Adds a rule for claims, as for [pods](Self::pods).
    pub fn claims(
        mut self,
        rule: impl Fn(&Subject<'_>) -> Option<ClaimFate> + Send + Sync + 'static,
    ) -> Self {
        self.claims.push(Arc::new(rule));
        self
    }

    /// Sets the names of the initial nodes of a test cluster, in addition to those among its objects.
    /// Default: one named `node` if there is no other.
    pub fn nodes<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.nodes.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// The names given to [`nodes`](Self::nodes).
    pub fn node_names(&self) -> &[String] {
        &self.nodes
    }

    fn pod(&self, pod: &Subject<'_>) -> PodFate {
        let ruled = self.pods.iter().find_map(|rule| rule(pod));
        ruled.unwrap_or_else(|| {
            let after = Duration::ZERO;
            match pod.meta().controller() {
                Some(owner) if &*owner.kind == "Job" => PodFate::Succeeds { after },
                _ => PodFate::Ready { after },
            }
        })
    }

    fn claim(&self, claim: &Subject<'_>) -> ClaimFate {
        let after = Duration::ZERO;
        let ruled = self.claims.iter().find_map(|rule| rule(claim));
        ruled.unwrap_or(ClaimFate::Bound { after })
    }
}

/// The player of workloads. In a step it syncs all objects of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Player {
    /// Without rules it does not act.
    pub(crate) rules: Option<Arc<Workloads>>,
    /// Whether no object has changed since the last step.
    pub(crate) is_settled: bool,
    /// The time when an object is due again.
    pub(crate) due: Option<Timestamp>,
    /// The last step that changed an object.
    pub(crate) cause: Option<usize>,
}
