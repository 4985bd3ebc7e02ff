//! Runs controllers over an [`ObjectStore`] and a [`Clock`].

mod execute;
mod outside;
mod perform;
mod permissions;
mod report;
mod resources;
mod run;
mod watch;

use std::sync::Arc;

use kubegc_core::{Clock, ObjectStore, Timestamp};

pub use self::{
    execute::{Executed, execute},
    outside::{NothingOutside, Outside},
    perform::Performer,
    permissions::permissions,
    report::{Performed, Report, Summary, TaskCounts},
    resources::Resources,
};
use self::{run::Running, watch::Tools};
use crate::{Cache, Controller, Documents, Reason, Request, Wire};

/// Tasks that run at the same time by default: upstream's default of most controllers.
const WORKERS: usize = 5;

/// Runs controllers over an API server.
///
/// It needs no particular async runtime: a run is one future that polls all its tasks.
///
/// # Guarantees
/// - Every resource is listed, then watched from the version of the list, so that no change is missed. The
///   watch delivers whole objects.
/// - A resource that is not served has no objects only if discovery of its whole group succeeded. Objects
///   that could not be listed are unknown, and no action depends on them. Objects that were listed once stay
///   cached until the next list.
/// - A watch that ends is opened again at its last version; an expired version, or an object that cannot be
///   read, leads to a new list. Lists, watches and discovery are retried after 0.8 s, 1.6 s, ... 30 s.
/// - After `stop` no task starts, and those in flight are finished.
///
/// # Examples
/// ```
/// use std::{future::pending, pin::pin, sync::Arc};
/// use futures_util::FutureExt;
/// use kubegc_controllers::{TtlAfterFinished, driver::Driver};
/// use kubegc_core::{Catalog, KubernetesVersion, Timestamp};
/// use kubegc_sim::{ApiServer, Manifest, SharedApiServer, SimClock};
/// use kubegc_snapshot::JsonDocuments;
/// use serde_json::json;
///
/// // Two Jobs that finished a minute before noon, with TTLs of 30 and 90 seconds.
/// let version = KubernetesVersion::LATEST;
/// let mut server = ApiServer::new(version, Catalog::builtin(version));
/// let jobs = server.catalog().mapping("batch/v1", "Job").expect("always served");
/// for (name, ttl) in [("report", 30), ("backup", 90)] {
///     let job = Manifest::read(json!({
///         "metadata": { "namespace": "shop", "name": name, "uid": name, "creationTimestamp": "2026-01-01T11:58:00Z" },
///         "spec": { "ttlSecondsAfterFinished": ttl },
///         "status": { "conditions": [{ "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:59:00Z" }] },
///     }))?;
///     server.insert(jobs, job.object)?;
/// }
/// let noon = Timestamp::parse("2026-01-01T12:00:00Z")?;
/// let (store, clock) = (SharedApiServer::new(server), SimClock::new(noon));
///
/// let driver = Driver::new(Arc::new(store.clone()), Arc::new(clock), Arc::new(JsonDocuments::default()))
///     .controller(TtlAfterFinished::new(version));
/// let mut run = pin!(driver.run_until_idle(pending()));
/// // An async runtime does this.
/// let summary = loop {
///     if let Some(summary) = run.as_mut().now_or_never() {
///         break summary;
///     }
/// };
/// assert_eq!(summary.of("ttl-after-finished-controller").done, 1);
/// assert_eq!(summary.next_at, Some(Timestamp::parse("2026-01-01T12:00:30Z")?));
/// let is_terminating = |name| store.with(|server| server.object(jobs, "shop", name).is_some_and(|job| job.meta.is_deleting()));
/// assert!(is_terminating("report") && !is_terminating("backup"));
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(derive_more::Debug)]
#[must_use]
pub struct Driver {
    #[debug(skip)]
    tools: Tools,
    controllers: Vec<Arc<dyn Controller>>,
    wire: Wire,
    workers: usize,
    #[debug(skip)]
    guard: Guard,
    #[debug(skip)]
    observer: Observer,
}

type Observer = Box<dyn FnMut(Report) + Send>;

type Guard = Box<dyn FnMut(&Cache, &Request) -> Result<(), Reason> + Send>;

impl Driver {
    pub fn new(store: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>, documents: Arc<dyn Documents>) -> Self {
        Self {
            tools: Tools {
                store,
                clock,
                documents,
                outside: Arc::new(NothingOutside),
            },
            controllers: Vec::new(),
            wire: Wire::default(),
            workers: WORKERS,
            guard: Box::new(|_, _| Ok(())),
            observer: Box::new(|_| {}),
        }
    }

    /// Runs until `stop` is ready, and then to the end of the tasks in flight.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Summary {
        Running::new(self).run(stop, None).await
    }

    /// Runs until no key is due, for use in a CronJob and in tests. The summary has the unknown objects and
    /// the time when the next key is due.
    ///
    /// Each resource is listed once, and it does not wait for time to pass: the quarantine of podgc (40 s)
    /// and the delay of the namespace controller (5 s) need [`run`](Self::run) or
    /// [`run_until_idle_after`](Self::run_until_idle_after).
    pub async fn run_until_idle(self, stop: impl Future<Output = ()> + Send) -> Summary {
        self.run_until_idle_after(Timestamp::EPOCH, stop).await
    }

    /// The same, but also reconciles the keys that become due before this time.
    pub async fn run_until_idle_after(
        self,
        horizon: Timestamp,
        stop: impl Future<Output = ()> + Send,
    ) -> Summary {
        Running::new(self).run(stop, Some(horizon)).await
    }

    pub fn controller(mut self, controller: impl Controller + 'static) -> Self {
        self.controllers.push(Arc::new(controller));
        self
    }

    pub fn controllers(mut self, controllers: impl IntoIterator<Item = Arc<dyn Controller>>) -> Self {
        self.controllers.extend(controllers);
        self
    }

    /// Systems outside the API server. Default: [`NothingOutside`].
    pub fn outside(mut self, outside: Arc<dyn Outside>) -> Self {
        self.tools.outside = outside;
        self
    }

    /// The preconditions of requests. Default: [`Wire::Strict`].
    pub const fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Limit of concurrent tasks and queries to the cloud provider, each with one request at a time. Default:
    /// 5; at least 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Sets a guard that can refuse writes, except Events. Default: all are allowed.
    ///
    /// An action whose write may not be sent ends as [`End::Kept`](crate::End::Kept) with the reason.
    /// [`Steps`](crate::Steps) receive a 403 for the write, and continue as the controller does after such an
    /// error.
    pub fn guard(
        mut self,
        guard: impl FnMut(&Cache, &Request) -> Result<(), Reason> + Send + 'static,
    ) -> Self {
        self.guard = Box::new(guard);
        self
    }

    /// Receives every report as it happens. Default: none.
    pub fn observer(mut self, observer: impl FnMut(Report) + Send + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }
}
