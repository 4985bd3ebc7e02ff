//! Runs the garbage collector of `kubegc_objects` against an API server: combines store, clock, driver,
//! events and leader election.

use std::num::NonZeroU32;

use kube::Client;
use kubegc_core::{ApiResource, Clock, KubernetesVersion};
use kubegc_objects::{
    Collector, Operation, Request, Response, Settings,
    collector::Conclusion,
    driver::{self, Report},
};
use metrics::counter;
use tokio::sync::{mpsc, watch};

use crate::{
    Error, KubeStore, TokioClock,
    events::{self, Event, WAITING_MAX},
    metrics as names,
    terms::{self, Election, Terms},
};

/// Default maximum number of requests in flight. Upstream has 40 workers that make one request at a time, and
/// a client that allows 20 requests a second (its default `--kube-api-qps`). kube's client has no rate limit,
/// so this limit replaces it. At 10 ms a request it still allows far more than upstream does.
const CALLS_IN_FLIGHT_MAX: u32 = 20;

/// A garbage collector for a live API server. It replaces the one in kube-controller-manager.
///
/// # Guarantees
/// Writes carry all preconditions of the decisions behind them, unless the settings change that. Two
/// collectors that run at the same time send some requests twice, without harm.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kubegc_kube::GarbageCollector;
/// let client = kubegc_kube::client().await?;
/// let hour = tokio::time::sleep(std::time::Duration::from_secs(3_600));
/// let summary = GarbageCollector::new(client).run(hour).await?;
/// println!("{} writes, {} failed", summary.writes, summary.writes_failed);
/// # Ok(())
/// # }
/// ```
#[must_use = "a collector does nothing until it is run"]
pub struct GarbageCollector {
    client: Client,
    version: Option<KubernetesVersion>,
    settings: Option<Settings>,
    calls_in_flight_max: Option<NonZeroU32>,
    events: bool,
    election: Option<Election>,
}

/// The result of a run.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of starts of the collector: one, or one each time leadership was gained.
    pub terms: u32,
    /// Requests for objects.
    pub calls: u64,
    pub writes: u64,
    /// Failed writes, retries included.
    pub writes_failed: u64,
    pub warnings: u64,
    /// Resources that could not be listed at the end, as `resource.group`, sorted.
    pub unsynced: Vec<String>,
}

impl GarbageCollector {
    /// A collector that emulates the version of the API server.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            version: None,
            settings: None,
            calls_in_flight_max: NonZeroU32::new(CALLS_IN_FLIGHT_MAX),
            events: true,
            election: None,
        }
    }

    /// Emulates this version instead of that of the API server, for servers that report a version of their
    /// own.
    pub fn version(mut self, version: KubernetesVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Runs with these settings. Their limit of requests in flight takes precedence over
    /// [`calls_in_flight_max`](Self::calls_in_flight_max).
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Maximum number of requests in flight. Default: 20. A higher number is faster and increases the load of
    /// the API server. With `None` the number of workers in the settings is the limit, 40 by default.
    pub fn calls_in_flight_max(mut self, max: Option<NonZeroU32>) -> Self {
        self.calls_in_flight_max = max;
        self
    }

    /// Whether warnings are published as Kubernetes Events. Default: yes.
    pub fn events(mut self, events: bool) -> Self {
        self.events = events;
        self
    }

    /// Collects only while leading, by a Lease.
    #[cfg(feature = "leader-election")]
    pub fn leader_election(mut self, election: crate::LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Collects until `stop` is ready, then waits for the requests in flight and releases the lease.
    ///
    /// It waits for an unavailable API server: requests for its version and for the lease are repeated after
    /// 1 s, 2 s, and so on up to 30 s, and each failure is logged.
    ///
    /// # Errors
    /// The API server has a version that kubegc does not know, or the configuration of the election is
    /// invalid. Failures of single objects and kinds are retried, logged and counted instead.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        let (client, election) = (self.client.clone(), self.election.take());
        terms::elect(&client, election, stop, |leading, stop| {
            self.run_while_leading(leading, stop)
        })
        .await
    }

    /// Collects while `leading` holds `true`, for callers with a leader election of their own. When
    /// leadership is lost, the collector is stopped at once, so that only the requests in flight finish. When
    /// it is regained, a new collector starts with an empty cache. Ends on `stop`, or when the sender is
    /// dropped while not leading.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_while_leading(
        self,
        leading: watch::Receiver<bool>,
        stop: impl Future<Output = ()>,
    ) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let prepared = Terms::prepare(&self.client, self.version, leading, stop).await?;
        let Some((mut terms, version)) = prepared else {
            return Ok(summary);
        };
        let mut settings = self.settings.clone().unwrap_or_else(|| Settings::new(version));
        settings.calls_in_flight_max = settings.calls_in_flight_max.or(self.calls_in_flight_max);
        settings.record_conclusions = true;
        let store = KubeStore::new(self.client.clone(), version);
        let clock = TokioClock::new();
        loop {
            names::leading(false);
            if !terms.begins().await {
                return Ok(summary);
            }
            names::leading(true);
            tracing::info!("starting the garbage collector");
            let collector = self
                .term(&store, &clock, settings.clone(), terms.ends(), &mut summary)
                .await?;
            tracing::info!("the garbage collector has stopped");
            summary.unsynced = unsynced(&collector);
        }
    }

    async fn term(
        &self,
        store: &KubeStore,
        clock: &TokioClock,
        settings: Settings,
        end: impl Future<Output = ()>,
        summary: &mut Summary,
    ) -> Result<Collector, Error> {
        summary.terms = summary.terms.saturating_add(1);
        let (warn, warnings) = mpsc::channel(WAITING_MAX);
        let events = self.events;
        let report = move |report: Report| {
            log(summary, &report);
            if let (Report::Warning(warning), true) = (report, events)
                && warn.try_send(Event::from(&*warning)).is_err()
            {
                names::warning("dropped");
            }
        };
        let publishing = events::publish(&self.client, clock, warnings, names::warning);
        let collecting = driver::run(store, clock as &dyn Clock, settings, end, report);
        Ok(events::publish_during(collecting, publishing).await?)
    }
}

fn unsynced(collector: &Collector) -> Vec<String> {
    let mut unsynced: Vec<String> = collector
        .monitors()
        .filter(|(_, _, synced)| !synced)
        .map(|(_, resource, _)| resource.qualified_resource())
        .collect();
    unsynced.sort();
    unsynced
}

fn log(summary: &mut Summary, report: &Report) {
    match report {
        Report::Performed { request, response } => {
            let (operation, outcome) = (operation_name(&request.operation), response_name(response));
            summary.calls = summary.calls.saturating_add(1);
            counter!(names::CALLS, "request" => operation, "reason" => request.reason.name(), "outcome" => outcome)
                .increment(1);
            if request.operation.is_write() {
                let applied = matches!(response, Response::Applied(_));
                let count = if applied {
                    &mut summary.writes
                } else {
                    &mut summary.writes_failed
                };
                *count = count.saturating_add(1);
                trace_write(request, outcome, if applied { "written" } else { "not written" });
            } else {
                tracing::debug!(object = %request.target, request = operation, outcome, reason = request.reason.name(), "{}", request.reason);
            }
        }
        Report::Concluded { object, conclusion } => {
            let name = conclusion_name(conclusion);
            counter!(names::ATTEMPTS, "conclusion" => name).increment(1);
            match conclusion {
                Conclusion::Failed(error) if error.is_reported() => {
                    tracing::warn!(%object, %error, "an attempt failed");
                }
                Conclusion::Failed(error) => tracing::debug!(%object, %error, "an attempt failed"),
                _ => tracing::debug!(%object, conclusion = name, "an attempt ended"),
            }
        }
        Report::Warning(warning) => {
            summary.warnings = summary.warnings.saturating_add(1);
            tracing::warn!(dependent = %warning.dependent, "{warning}");
        }
        Report::WatchFailed {
            resource,
            error,
            failures,
        } => {
            let labels = [
                ("group", resource.group.to_string()),
                ("resource", resource.resource.to_string()),
            ];
            counter!(names::WATCH_ERRORS, &labels).increment(1);
            if is_logged(*failures) {
                tracing::warn!(%resource, %error, failures, "a resource cannot be listed or watched");
            } else {
                tracing::debug!(%resource, %error, failures, "a resource cannot be listed or watched");
            }
        }
        Report::WaitingForSync(waiting) => tracing::warn!("{waiting}"),
        Report::Started { unsynced } if unsynced.is_empty() => {
            tracing::info!("garbage collection has started");
        }
        Report::Started { unsynced } => {
            let names: Vec<String> = unsynced.iter().map(ApiResource::qualified_resource).collect();
            tracing::warn!(
                "garbage collection has started without these resources, whose objects are not collected until \
                 they can be listed: {}",
                names.join(", ")
            );
        }
        Report::DiscoveryFailed(error) => {
            names::sync_error();
            tracing::warn!(%error, "discovery failed");
        }
        _ => {}
    }
}

/// After the first consecutive failure, one of this many is logged as a warning: one in five minutes with the
/// longest delay between them.
const FAILURES_PER_WARNING: u32 = 10;

pub(crate) const fn is_logged(failures: u32) -> bool {
    failures == 1 || failures.is_multiple_of(FAILURES_PER_WARNING)
}

fn trace_write(request: &Request, outcome: &'static str, done: &'static str) {
    let owners = request.reason.owners().iter();
    let owners: Vec<String> = owners
        .map(|owner| format!("{}: {}", owner.reference, owner.state))
        .collect();
    tracing::info!(object = %request.target, request = operation_name(&request.operation), outcome, reason = request.reason.name(), owners = owners.join("; "), "{done}: {}", request.reason);
}

const fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Get => "get",
        Operation::Delete { .. } => "delete",
        Operation::Patch { .. } => "patch",
        Operation::Put { .. } => "update",
    }
}

const fn response_name(response: &Response) -> &'static str {
    match response {
        Response::Found(_) => "found",
        Response::Applied(_) => "applied",
        Response::NotFound => "not_found",
        Response::Conflict => "conflict",
        Response::UnsupportedMediaType => "unsupported_media_type",
        Response::Invalid => "invalid",
        Response::NoMapping => "no_mapping",
        Response::Refused { .. } => "refused",
        Response::Unknown => "unknown",
        _ => "other",
    }
}

const fn conclusion_name(conclusion: &Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Stale => "stale",
        Conclusion::BeingDeleted => "being_deleted",
        Conclusion::Absent => "absent",
        Conclusion::NoOwners => "no_owners",
        Conclusion::Kept => "kept",
        Conclusion::WaitsForDependents => "waits_for_dependents",
        Conclusion::Finalized => "finalized",
        Conclusion::Released => "released",
        Conclusion::Deleted => "deleted",
        Conclusion::Failed(_) => "failed",
        _ => "other",
    }
}
