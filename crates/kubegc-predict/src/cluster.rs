//! A cluster of which questions are asked.

use std::sync::OnceLock;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_core::KubernetesVersion;
use kubegc_snapshot::Snapshot;

use crate::{
    Assumptions, BrokenExtension, Closure, Diagnosis, Forecast, Intent, ObjectName, PredictError, Question,
    Target, closure,
    explore::{self, Bounds, Exploration},
    facts::Facts,
    judge::{evidence, nothing_selected},
    simulate::{Run, Simulated},
};

/// The dump of a cluster, from which forecasts are computed.
///
/// Building it costs one pass over the objects. A forecast afterwards costs what its cascade costs.
///
/// # Examples
/// ```
/// use kubegc_core::{DeleteOptions, KubernetesVersion};
/// use kubegc_predict::{Assumptions, Cluster, Intent};
/// use kubegc_snapshot::Reader;
///
/// let version = KubernetesVersion::LATEST;
/// let mut reader = Reader::new(version).complete("all");
/// reader.read("dump.yaml", &b"
/// apiVersion: v1
/// kind: ConfigMap
/// metadata: {namespace: shop, name: owner, uid: u1}
/// ---
/// apiVersion: v1
/// kind: Secret
/// metadata: {namespace: shop, name: key, uid: u2, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]}
/// "[..])?;
/// let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// assert!(cluster.pending().timeline.is_empty(), "nothing happens without a delete");
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// assert_eq!(cluster.predict(&[delete])?.counts()["deleted"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    pub(crate) facts: Facts,
    pending: OnceLock<Forecast>,
    removed_anyway: OnceLock<HashSet<u32, FixedState>>,
}

impl Cluster {
    /// Builds the cluster.
    ///
    /// # Complexity
    /// O(n + r) for n objects with r references, and [`pending`](Self::pending) if an object has waited for a
    /// controller for minutes.
    pub fn new(version: KubernetesVersion, snapshot: Snapshot, assumptions: Assumptions) -> Self {
        let mut facts = Facts::of(version, snapshot, assumptions);
        facts.add_silent(evidence::external(&facts));
        let mut cluster = Self {
            facts,
            pending: OnceLock::new(),
            removed_anyway: OnceLock::new(),
        };
        if evidence::may_show_controllers(&cluster.facts) {
            let silent = evidence::controllers(&cluster.facts, cluster.pending());
            if !silent.is_empty() {
                cluster.facts.add_silent(silent);
                cluster.facts.set_controllers();
                cluster.pending = OnceLock::new();
            }
        }
        cluster
    }

    /// The version of the cluster.
    pub const fn version(&self) -> KubernetesVersion {
        self.facts.version
    }

    /// The data of the dump.
    pub fn snapshot(&self) -> &Snapshot {
        &self.facts.snapshot
    }

    pub fn assumptions(&self) -> &Assumptions {
        &self.facts.assumptions
    }

    /// The extensions of the API server that cannot be reached, as far as the dump shows it: APIs of other
    /// servers, and webhooks that requests and conversions depend on.
    ///
    /// # Examples
    /// ```
    /// # use kubegc_core::KubernetesVersion;
    /// # use kubegc_predict::{Assumptions, Cluster, Extension};
    /// # let version = KubernetesVersion::LATEST;
    /// # let mut reader = kubegc_snapshot::Reader::new(version).complete("services");
    /// # reader.read("dump.yaml", &b"
    /// # apiVersion: apiregistration.k8s.io/v1
    /// # kind: APIService
    /// # metadata: {name: v1beta1.metrics.k8s.io, uid: u1}
    /// # spec: {group: metrics.k8s.io, version: v1beta1, service: {namespace: kube-system, name: metrics-server}}
    /// # "[..])?;
    /// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
    /// // The dump has an APIService whose Service does not exist.
    /// let broken = &cluster.broken_extensions()[0];
    /// assert_eq!(&*broken.failure, "service kube-system/metrics-server does not exist");
    /// assert!(matches!(&broken.extension, Extension::Api { api_version, .. } if api_version == "metrics.k8s.io/v1beta1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broken_extensions(&self) -> &[BrokenExtension] {
        &self.facts.broken_extensions
    }

    /// The forecast without any intent, until nothing changes any more.
    ///
    /// # Complexity
    /// That of the simulation, the first time.
    pub fn pending(&self) -> &Forecast {
        self.pending
            .get_or_init(|| Run::of(&self.facts, Vec::new()).everything())
    }

    /// Predicts the effects of deletes that are sent one after another, until nothing changes any more.
    ///
    /// # Errors
    /// An intent names a kind that is not known or ambiguous, or an object that is not in the dump.
    ///
    /// # Complexity
    /// O(c log c) for c objects in the cascade and their owners.
    pub fn predict(&self, intents: &[Intent]) -> Result<Forecast, PredictError> {
        for intent in intents {
            if let Target::Object(name) = &intent.target {
                self.position(name)?;
            }
        }
        if intents.is_empty() {
            return Ok(self.pending().clone());
        }
        let run = Run::of_intents(&self.facts, intents)?;
        Ok(self.forecast_of(&run, intents))
    }

    /// Computes the forecast of a question.
    ///
    /// The API server responds with 404 to an intent on an object that certainly does not exist
    /// ([`Finding::Refused`](crate::Finding::Refused)). The other intents proceed.
    ///
    /// # Errors
    /// An intent names a kind that is not known or ambiguous, or an object that is not in the dump and may
    /// exist.
    ///
    /// # Complexity
    /// As [`predict`](Self::predict); O(n log n) for n objects in the dump if the forecast covers everything.
    pub fn forecast(&self, question: &Question) -> Result<Forecast, PredictError> {
        let run = Run {
            controllers: self.facts.with_storage(&question.controllers),
            began: question.now,
            horizon: question.horizon,
            ..Run::of_intents(&self.facts, &question.intents)?
        };
        if question.everything || question.intents.is_empty() {
            return Ok(run.everything());
        }
        Ok(self.forecast_of(&run, &question.intents))
    }

    /// The forecast of a run, with a finding if its intents select no objects.
    fn forecast_of(&self, run: &Run<'_>, intents: &[Intent]) -> Forecast {
        let mut forecast = run.forecast();
        if run.deletes.is_empty() {
            forecast.findings.push(nothing_selected(&self.facts, intents));
        }
        forecast
    }

    /// Tries many orders of the effects of several deletes. The client sends them one after another, without
    /// waiting for anything.
    ///
    /// Owners that are not in the dump are assumed to exist.
    ///
    /// # Errors
    /// An intent names an unknown or ambiguous kind, or an object that is not in the dump.
    ///
    /// # Complexity
    /// O(b s) for b states or choices within the bounds and s objects in scope, divided among the threads.
    pub fn explore(&self, intents: &[Intent], bounds: Bounds) -> Result<Exploration, PredictError> {
        let run = Run::of_intents(&self.facts, intents)?;
        // The scope of all objects that one schedule affects.
        let Simulated { scope, .. } = run.simulate(run.deletes.iter().filter_map(|delete| delete.position));
        Ok(explore::explore(&run, &scope, bounds))
    }

    /// Finds the objects that no longer exist in the steady state.
    ///
    /// # Assumptions
    /// The roots are deleted in the background, pods end, finalizers stay, nothing fails.
    ///
    /// # Errors
    /// A root is not in the dump.
    ///
    /// # Complexity
    /// O(n) bytes of scratch for n objects in the dump, O(g + e) time for g objects reached over e
    /// references.
    pub fn closure(&self, roots: &[Target]) -> Result<Closure, PredictError> {
        let mut positions = Vec::new();
        for root in roots {
            positions.extend(self.facts.resolve(root)?);
        }
        Ok(self.closure_of(&positions))
    }

    /// The same for positions in the dump. Positions that do not exist are ignored.
    pub fn closure_of(&self, roots: &[u32]) -> Closure {
        let removed = || closure::removed_anyway(&self.facts);
        let removed = self.removed_anyway.get_or_init(removed);
        Closure::of(&self.facts, removed, roots)
    }

    /// Finds the causes that keep objects in deletion, and wrong owner references, with their repairs.
    ///
    /// # Complexity
    /// O(n + r) for n objects and r references, the number of objects that each cause blocks, and
    /// [`pending`](Self::pending) the first time.
    pub fn doctor(&self) -> Diagnosis {
        Diagnosis::of(&self.facts, self.pending())
    }

    /// The position of an object.
    ///
    /// # Errors
    /// The kind is unknown or ambiguous, or there is no such object.
    pub fn position(&self, name: &ObjectName) -> Result<u32, PredictError> {
        self.facts.position(name)
    }

    /// Checks that the webhooks, APIs, finalizers and components that assumptions name exist.
    ///
    /// # Errors
    /// The first name that does not.
    pub fn check_assumptions(&self) -> Result<(), PredictError> {
        self.facts.check_assumptions()
    }
}
