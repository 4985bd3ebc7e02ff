//! A cluster of which questions are asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::AggregatedApi;
use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_sim::{ApiServer, Settings};
use kubegc_snapshot::Snapshot;

use crate::{
    Assumptions, BrokenExtension, Forecast, Intent, PredictError, Question, Target, evidence,
    explore::{self, Bounds, Exploration},
    facts::{Edges, Indexes, Silent, nothing_selected},
    run::{self, Run, Simulated},
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
    pub(crate) version: KubernetesVersion,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) edges: Edges,
    pub(crate) indexes: Indexes,
    pub(crate) assumptions: Arc<Assumptions>,
    pub(crate) newest_time: OnceLock<Timestamp>,
    pub(crate) removed_anyway: OnceLock<HashSet<u32, FixedState>>,
    /// The controllers of this version, with the storage that is assumed.
    pub(crate) controllers: Vec<Arc<dyn Controller>>,
    /// A server of this version without objects, to be cloned.
    pub(crate) empty_server: ApiServer,
    /// Whether the dump has webhooks or policies, which may refuse requests.
    pub(crate) has_reviewers: bool,
    /// The APIs that other servers serve, by name of their APIService.
    pub(crate) aggregated_apis: BTreeMap<Arc<str>, AggregatedApi>,
    pub(crate) broken_extensions: Vec<BrokenExtension>,
    pub(crate) silent: Vec<Silent>,
    pending: OnceLock<Forecast>,
}

impl Cluster {
    /// Builds the cluster.
    ///
    /// # Complexity
    /// O(n + r) for n objects with r references, and [`pending`](Self::pending) if an object has waited for a
    /// controller for minutes.
    pub fn new(version: KubernetesVersion, snapshot: Snapshot, assumptions: Assumptions) -> Self {
        let settings = Settings {
            namespaces_must_exist: false,
            quota_controller: true,
            ..Settings::default()
        };
        let mut cluster = Self {
            version,
            edges: Edges::of(&snapshot),
            indexes: Indexes::default(),
            assumptions: Arc::new(assumptions),
            newest_time: OnceLock::new(),
            removed_anyway: OnceLock::new(),
            controllers: default_controllers(version),
            empty_server: ApiServer::new(version, snapshot.catalog.clone()).with_settings(settings),
            has_reviewers: false,
            aggregated_apis: BTreeMap::new(),
            broken_extensions: Vec::new(),
            silent: Vec::new(),
            pending: OnceLock::new(),
            snapshot: Arc::new(snapshot),
        };
        cluster.add_extensions();
        cluster.controllers = run::with_storage(&cluster, &cluster.controllers);
        cluster.add_silent(evidence::external(&cluster));
        if evidence::may_show_controllers(&cluster) {
            let silent = evidence::controllers(&cluster);
            if !silent.is_empty() {
                cluster.add_silent(silent);
                cluster.controllers = run::with_storage(&cluster, &default_controllers(version));
                cluster.pending = OnceLock::new();
            }
        }
        cluster
    }

    /// The version of the cluster.
    pub const fn version(&self) -> KubernetesVersion {
        self.version
    }

    /// The data of the dump.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn assumptions(&self) -> &Assumptions {
        &self.assumptions
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
        &self.broken_extensions
    }

    /// The forecast without any intent, until nothing changes any more.
    ///
    /// # Complexity
    /// That of the simulation, the first time.
    pub fn pending(&self) -> &Forecast {
        self.pending
            .get_or_init(|| Run::of(self, Vec::new()).everything())
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
        let run = Run::of_intents(self, intents)?;
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
            controllers: run::with_storage(self, &question.controllers),
            began: question.now,
            horizon: question.horizon,
            ..Run::of_intents(self, &question.intents)?
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
            forecast.findings.push(nothing_selected(self, intents));
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
        let run = Run::of_intents(self, intents)?;
        // The scope of all objects that one schedule affects.
        let Simulated { scope, .. } = run.simulate(run.deletes.iter().filter_map(|delete| delete.position));
        Ok(explore::explore(&run, &scope, bounds))
    }
}
