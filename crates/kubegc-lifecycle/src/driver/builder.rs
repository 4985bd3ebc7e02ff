//! Says what a driver runs, over what, and how.

use std::{fmt, sync::Arc};

use kubegc_core::{Clock, ObjectStore};

use super::{Documents, Nobody, Outside, Report, Summary, run::Running, watch::Tools};
use crate::{controller::Settings, object::Wire};

/// How many tasks are carried out at the same time, where nothing else is said: upstream's default for most of its controllers.
const WORKERS: usize = 5;

/// Runs mechanisms as a controller over an [`ObjectStore`] and a [`Clock`].
///
/// No decisions are made here: a [`Controller`](crate::controller::Controller) makes them, and an [`Execution`](super::Execution) carries each out. The
/// loop needs no particular executor: it is one future, and everything that runs at the same time is polled within it.
///
/// # Guarantees
/// - Every resource is listed, then watched from the version of that list on, so that no change is missed. A change makes the object be read; until then the
///   controller goes by what it knew, and an execution reads what its [task rests on](crate::controller::Planned::rests_on) right before.
/// - What is not served counts as empty only where discovery answered for all of its group. What could not be listed is unknown: nothing is planned on it. Once
///   something was listed it stays known until it can be listed again.
/// - A watch that ends is opened again at the version seen last; where that is too old, and where none is known, with a new list. Lists, watches and discovery
///   that fail are tried again after 0.8 s, 1.6 s, and so on up to 30 s, resource by resource.
/// - An object that changed and cannot be read, or not be understood, is known by its metadata only: nothing is decided on the rest. It is read again after
///   waits of its own, of the same lengths.
/// - After `stop` no task is begun; those under way are carried out to their end.
///
/// # Examples
/// ```
/// use std::{future::pending, pin::pin, sync::Arc};
/// use futures_util::FutureExt;
/// use kubegc_core::{Catalog, KubernetesVersion, Timestamp};
/// use kubegc_lifecycle::{controller::{Mechanism, Settings}, driver::Driver};
/// use kubegc_sim::{ApiServer, Manifest, SharedApiServer, SimClock};
/// use kubegc_snapshot::JsonDocuments;
/// use serde_json::json;
///
/// // Two jobs that finished a minute before noon. One may stay for 30 s, the other for 90.
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
/// let driver = Driver::builder(Arc::new(store.clone()), Arc::new(clock), Arc::new(JsonDocuments::default()))
///     .settings(Settings::only(version, [Mechanism::Jobs]))
///     .build();
/// let mut run = pin!(driver.run_until_idle(pending()));
/// // An executor of one's own does this.
/// let summary = loop {
///     if let Some(summary) = run.as_mut().now_or_never() {
///         break summary;
///     }
/// };
/// assert_eq!(summary.of(Mechanism::Jobs).done, 1);
/// assert_eq!(summary.next_at, Some(Timestamp::parse("2026-01-01T12:00:30Z")?));
/// let is_deleted = |name| store.with(|server| server.object(jobs, "shop", name).is_some_and(|job| job.meta.is_deleting()));
/// assert!(is_deleted("report") && !is_deleted("backup"));
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
///
/// # Upstream
/// The informers, the workers and the requeueing of the controllers. One watch serves all mechanisms; workers are shared.
pub struct Driver {
    tools: Arc<Tools>,
    settings: Settings,
    workers: usize,
    observer: Observer,
}

/// Whoever is told what happens.
type Observer = Box<dyn FnMut(Report) + Send>;

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("settings", &self.settings)
            .field("wire", &self.tools.wire)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver over these. It runs nothing, until [`Builder::settings`] says what.
    pub fn builder(
        store: Arc<dyn ObjectStore>,
        clock: Arc<dyn Clock>,
        documents: Arc<dyn Documents>,
    ) -> Builder {
        Builder {
            store,
            clock,
            documents,
            outside: Arc::new(Nobody),
            settings: Settings::none(),
            wire: Wire::default(),
            workers: WORKERS,
            observer: Box::new(|_| {}),
        }
    }

    /// Runs until `stop` is ready, and then to the end of the tasks under way.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Summary {
        self.running().run(stop, false).await
    }

    /// Runs until nothing is due now, for whoever comes by now and then: a cron job, a test. The summary says what could not be decided, and when something
    /// is due next.
    ///
    /// Each resource is listed once: what fails then stays unknown. Changes that the server tells only later are not waited for, and neither is time: nodes
    /// that are missing begin their quarantine anew in each such run, and a namespace is first visited 5 s after its deletion is seen. Both want
    /// [`run`](Self::run), or shorter times in their settings.
    pub async fn run_until_idle(self, stop: impl Future<Output = ()> + Send) -> Summary {
        self.running().run(stop, true).await
    }

    fn running(self) -> Running {
        Running::new(self.tools, self.settings, self.workers, self.observer)
    }
}

/// Builds a [`Driver`].
#[must_use]
pub struct Builder {
    store: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    documents: Arc<dyn Documents>,
    outside: Arc<dyn Outside>,
    settings: Settings,
    wire: Wire,
    workers: usize,
    observer: Observer,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("wire", &self.wire)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Who is asked beyond the API server. Default: [`Nobody`].
    pub fn outside(mut self, outside: Arc<dyn Outside>) -> Self {
        self.outside = outside;
        self
    }

    /// What runs, and how. Default: nothing.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How much of what is expected goes over the wire. Default: all of it.
    pub const fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// How many tasks, and questions to the cloud, are under way at the same time, each with one call at a time. Default: 5; at least 1.
    ///
    /// Too few, and one slow plugin holds up everything; too many are a load on the API server.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Who is told of every call, every end of a task and every failure, as they happen. Default: nobody.
    pub fn observer(mut self, observer: impl FnMut(Report) + Send + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// The driver.
    #[must_use]
    pub fn build(self) -> Driver {
        Driver {
            tools: Arc::new(Tools {
                store: self.store,
                clock: self.clock,
                documents: self.documents,
                outside: self.outside,
                wire: self.wire,
            }),
            settings: self.settings,
            workers: self.workers,
            observer: self.observer,
        }
    }
}
