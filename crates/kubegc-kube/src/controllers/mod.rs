//! Runs the controllers of kube-controller-manager against an API server.

mod report;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::Client;
use kubegc_controllers::{
    Cache, Controller, Missing, Reason, Request, Wire,
    driver::{Driver, NothingOutside, Outside, Resources, Summary, TaskCounts},
    select_controllers,
};
use kubegc_core::{Clock, KubernetesVersion, record::ObjectId};
use kubegc_snapshot::JsonDocuments;
use tokio::sync::{mpsc, watch};

use self::report::Reporter;
use crate::{
    Error, KubeStore, TokioClock,
    events::{self, WAITING_MAX},
    metrics as names,
    terms::{self, Election, Terms},
};

type WriteGuard = Arc<dyn Fn(&Cache, &Request) -> Result<(), Reason> + Send + Sync>;

/// Controllers of `kubegc-controllers` for a live API server, in the place of those in
/// kube-controller-manager.
///
/// If the same controllers also run in kube-controller-manager, both do the same work: turn them off there
/// with `--controllers`.
///
/// # Guarantees
/// - Every resource that a controller reads is listed once and then watched. The watch delivers whole
///   objects, so that a change costs no further request.
/// - A resource that cannot be listed stops only what depends on it. Each failure is counted; the first in a
///   row and every tenth are logged as warnings.
/// - Writes carry all preconditions of the decisions behind them, unless [`wire`](Self::wire) changes that.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kubegc_controllers::{Reason, protected_by_label};
/// use kubegc_kube::ControllerManager;
/// let protected = protected_by_label("example.com/keep");
/// let summary = ControllerManager::new(kubegc_kube::client().await?)
///     .controllers(["podgc", "ttl-after-finished-controller"])
///     .guard(move |cache, request| match request.object() {
///         Some(object) if request.is_deletion() && protected(cache, object) => {
///             Err(Reason::new("Protected", "it has the label example.com/keep"))
///         }
///         _ => Ok(()),
///     })
///     .run(tokio::time::sleep(std::time::Duration::from_secs(3_600)))
///     .await?;
/// println!("{} writes, {} failed", summary.writes, summary.writes_failed);
/// # Ok(())
/// # }
/// ```
#[must_use = "controllers do nothing until they are run"]
pub struct ControllerManager {
    client: Client,
    version: Option<KubernetesVersion>,
    list: Vec<String>,
    own: Vec<Arc<dyn Controller>>,
    wire: Wire,
    workers: Option<usize>,
    guard: Option<WriteGuard>,
    outside: Arc<dyn Outside>,
    clock: Option<Arc<dyn Clock>>,
    events: bool,
    election: Option<Election>,
}

/// The result of a run of controllers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllersSummary {
    /// Number of starts of the controllers: one, or one each time leadership was gained.
    pub terms: u32,
    /// Results of the tasks of each controller, by its name.
    pub tasks: BTreeMap<&'static str, TaskCounts>,
    /// Successful writes, without Events.
    pub writes: u64,
    /// Writes that failed, each try counted.
    pub writes_failed: u64,
    /// The objects about which a controller could not decide at the end, with the missing fact.
    pub unknown: Vec<(&'static str, ObjectId, Missing)>,
}

impl ControllersSummary {
    fn add(&mut self, term: Summary) {
        for (controller, counts) in term.tasks {
            let sum = self.tasks.entry(controller).or_default();
            for (sum, count) in [
                (&mut sum.done, counts.done),
                (&mut sum.stale, counts.stale),
                (&mut sum.requeued, counts.requeued),
                (&mut sum.failed, counts.failed),
            ] {
                *sum = sum.saturating_add(count);
            }
        }
        self.unknown = term.unknown;
    }
}

impl ControllerManager {
    /// All controllers that run by default in the API server's version.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            version: None,
            list: vec!["*".to_owned()],
            own: Vec::new(),
            wire: Wire::default(),
            workers: None,
            guard: None,
            outside: Arc::new(NothingOutside),
            clock: None,
            events: true,
            election: None,
        }
    }

    /// The controllers to run, as in the flag `--controllers` of kube-controller-manager: see
    /// [`select_controllers`]. Default: `*`.
    pub fn controllers<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Self {
        self.list = list.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a controller to those of the list, such as one of the program's own or one with other settings.
    pub fn controller(mut self, controller: impl Controller + 'static) -> Self {
        self.own.push(Arc::new(controller));
        self
    }

    /// Behaves as this version instead of requesting the API server's own.
    pub fn version(mut self, version: KubernetesVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// The preconditions of writes. Default: [`Wire::Strict`].
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Number of concurrent tasks, each with one request at a time. Default: 5, for all controllers together.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets a function that decides before each write, except Events, whether it may be sent, for protected
    /// objects and limits. See [`guard`](kubegc_controllers::driver::Driver::guard) of the driver. Default:
    /// all may.
    pub fn guard(
        mut self,
        guard: impl Fn(&Cache, &Request) -> Result<(), Reason> + Send + Sync + 'static,
    ) -> Self {
        self.guard = Some(Arc::new(guard));
        self
    }

    /// Volume plugins, external provisioners and the cloud provider. Default: [`NothingOutside`], so that no
    /// deletion happens that needs their response.
    pub fn outside(mut self, outside: Arc<dyn Outside>) -> Self {
        self.outside = outside;
        self
    }

    /// The clock. Default: a [`TokioClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Whether the controllers' Events are published. Default: yes.
    pub fn events(mut self, events: bool) -> Self {
        self.events = events;
        self
    }

    /// Works only while leading, by a Lease: see
    /// [`LeaderElection::for_controllers`](crate::LeaderElection::for_controllers).
    #[cfg(feature = "leader-election")]
    pub fn leader_election(mut self, election: crate::LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Runs the controllers until `stop` is ready, then waits for the tasks in flight and releases the Lease.
    ///
    /// An API server that is not available yet is waited for, as in
    /// [`GarbageCollector::run`](crate::GarbageCollector::run).
    ///
    /// # Errors
    /// A name belongs to no controller, the API server has a version that kubegc does not know, or the
    /// configuration of the election is invalid. Failures of single objects and resources are retried, logged
    /// and counted instead.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<ControllersSummary, Error> {
        let (client, election) = (self.client.clone(), self.election.take());
        terms::elect(&client, election, stop, |leading, stop| {
            self.run_while_leading(leading, stop)
        })
        .await
    }

    /// Runs the controllers while `leading` holds `true`, for callers with a leader election of their own.
    /// When leadership is lost no task begins, and those in flight are finished. When it is regained
    /// everything is listed again. Ends on `stop`, or when the sender is dropped while not leading.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_while_leading(
        self,
        leading: watch::Receiver<bool>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<ControllersSummary, Error> {
        let prepared = Terms::prepare(&self.client, self.version, leading, stop).await?;
        let Some((mut terms, version)) = prepared else {
            return Ok(ControllersSummary::default());
        };
        let mut controllers = select_controllers(version, &self.list)?;
        controllers.extend(self.own.iter().cloned());
        let store = KubeStore::new(self.client.clone(), version);
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(TokioClock::new()));
        let summary = Arc::new(Mutex::new(ControllersSummary::default()));
        while terms.begins().await {
            tracing::info!("starting {} controllers", controllers.len());
            names::running(&controllers, true);
            self.term(&store, &clock, &controllers, terms.ends(), &summary)
                .await;
            names::running(&controllers, false);
            tracing::info!("the controllers have stopped");
        }
        Ok(std::mem::take(
            &mut *summary.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    async fn term(
        &self,
        store: &KubeStore,
        clock: &Arc<dyn Clock>,
        controllers: &[Arc<dyn Controller>],
        end: impl Future<Output = ()> + Send,
        summary: &Arc<Mutex<ControllersSummary>>,
    ) {
        let (send, events) = mpsc::channel(WAITING_MAX);
        let mut reporter = Reporter::new(
            Arc::clone(summary),
            self.events.then_some(send),
            Resources::new(&store.builtin().clone().into()),
        );
        let mut driver = Driver::new(
            Arc::new(store.clone()),
            Arc::clone(clock),
            Arc::new(JsonDocuments::default()),
        )
        .controllers(controllers.iter().cloned())
        .wire(self.wire)
        .outside(Arc::clone(&self.outside))
        .observer(move |report| reporter.report(report));
        if let Some(workers) = self.workers {
            driver = driver.workers(workers);
        }
        if let Some(guard) = self.guard.clone() {
            driver = driver.guard(move |cache, request| guard(cache, request));
        }
        let publishing = events::publish(&self.client, &**clock, events, names::controller_event);
        let ended = events::publish_during(driver.run(end), publishing).await;
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.terms = summary.terms.saturating_add(1);
        summary.add(ended);
    }
}
