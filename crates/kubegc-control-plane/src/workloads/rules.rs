//! The rules of a test for the outcomes of pods and claims.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_core::ObjectMeta;
use kubegc_sim::{ApiServer, StoredObject};

use super::player::find;

/// The maximum number of owners that are followed from a pod: built-in kinds need at most three.
const CONTROLLERS_MAX: usize = 8;

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
    /// A volume is provisioned for it and bound to it this long after its creation.
    Bound { after: Duration },
}

/// The pod or claim that a rule is evaluated for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    server: &'a ApiServer,
    object: &'a StoredObject,
}

impl<'a> Subject<'a> {
    pub(super) const fn new(server: &'a ApiServer, object: &'a StoredObject) -> Self {
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
        let mut owner = self.object.meta.controller().cloned();
        for _ in 0..CONTROLLERS_MAX {
            let Some(controller) = owner else { return false };
            if *controller.kind == *kind && *controller.name == *name {
                return true;
            }
            let namespace = &self.object.meta.namespace;
            let object = find(self.server, &controller.kind, namespace, &controller.name);
            owner = object.and_then(|object| object.meta.controller().cloned());
        }
        false
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
#[derive(Clone, Default)]
pub struct Workloads {
    pods: Vec<Rule<PodFate>>,
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

    pub(super) fn pod(&self, pod: &Subject<'_>) -> PodFate {
        let ruled = self.pods.iter().find_map(|rule| rule(pod));
        ruled.unwrap_or_else(|| {
            let after = Duration::ZERO;
            match pod.meta().controller() {
                Some(owner) if &*owner.kind == "Job" => PodFate::Succeeds { after },
                _ => PodFate::Ready { after },
            }
        })
    }

    pub(super) fn claim(&self, claim: &Subject<'_>) -> ClaimFate {
        let after = Duration::ZERO;
        let ruled = self.claims.iter().find_map(|rule| rule(claim));
        ruled.unwrap_or(ClaimFate::Bound { after })
    }
}

impl fmt::Debug for Workloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workloads")
            .field("pod_rules", &self.pods.len())
            .field("claim_rules", &self.claims.len())
            .field("nodes", &self.nodes)
            .finish()
    }
}
