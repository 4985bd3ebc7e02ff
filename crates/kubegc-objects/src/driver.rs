//! Driver of a [`Collector`] over an [`ObjectStore`] and a [`Clock`]: performs its calls, feeds its watches,
//! keeps its time.
//!
//! The driver makes no decisions. It is one future that needs no particular executor and polls everything
//! concurrent within it.

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{
    FutureExt, StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    select_biased,
    stream::FuturesUnordered,
};

use kubegc_core::{
    ApiResource, Catalog, Clock, ObjectMeta, ObjectRef, ObjectStore, ResourceVersion, StoreError, Timestamp,
    WatchStream,
    backoff::Backoff,
    reflector::{self, Listed, Pace, Progress, Reflector, Source},
    store::{Address, Discovered, WatchItem},
};

use crate::{
    Collector, Settings,
    collector::{Call, CallId, Input, Misuse, MonitorId, Output, Wait, WatchEvent},
    effect::InvalidNamespace,
    request::{Conclusion, Request, Response},
};

/// Delay before the first retry of a list, watch or discovery, and before a watch that ended without an event
/// is opened again; and the longest delay. Each failure in a row doubles it.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Time without the initial lists before the first [`Report::WaitingForSync`].
const SYNC_REPORT_AFTER: Duration = Duration::from_secs(10);
/// Period of later ones.
const SYNC_REPORT_EVERY: Duration = Duration::from_secs(60);
/// Outputs that are processed before inputs are polled again.
const OUTPUTS_PER_POLL: usize = 256;

/// A report of [`run`].
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Report {
    /// A warning to publish as an Event.
    Warning(Box<InvalidNamespace>),
    Performed {
        request: Request,
        response: Response,
    },
    /// A resource could not be listed or watched. It is retried.
    WatchFailed {
        resource: ApiResource,
        error: StoreError,
        /// Failures since the resource last delivered something, this one included.
        failures: u32,
    },
    /// Nothing has been collected for 10 s because initial lists are missing. Repeated every 60 s until
    /// [`Report::Started`].
    WaitingForSync(Box<WaitingForSync>),
    /// The collector starts, or continues after a pause that was reported.
    Started {
        /// Monitored resources that have not delivered their initial list: their objects are not collected.
        unsynced: Vec<ApiResource>,
    },
    /// Discovery failed. It is retried.
    DiscoveryFailed(StoreError),
    /// An attempt ended. Only if the settings record conclusions.
    Concluded {
        object: ObjectRef,
        conclusion: Conclusion,
    },
    /// Nothing to do until a time or an event. Pending watch events are processed next.
    Waiting(Wait),
}

/// Why nothing is collected yet.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingForSync {
    /// When the wait started.
    pub since: Timestamp,
    /// The collector was running and paused because new resources are monitored.
    pub paused: bool,
    /// When the collector starts without the missing lists; `None` if it waits for all of them.
    pub starts_at: Option<Timestamp>,
    /// The resources whose initial lists are missing. Empty if discovery has not succeeded.
    pub unsynced: Vec<Unsynced>,
}

/// A monitored resource whose initial list is missing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsynced {
    pub resource: ApiResource,
    /// The last failure; `None` if the list has no response yet.
    pub error: Option<StoreError>,
}

/// Maximum number of resources in one text.
const UNSYNCED_SHOWN: usize = 5;

impl fmt::Display for WaitingForSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.paused {
            "garbage collection is paused: "
        } else {
            "garbage collection has not started: "
        })?;
        if self.unsynced.is_empty() {
            return f.write_str("API discovery has not succeeded yet");
        }
        let shown = self.unsynced.iter().take(UNSYNCED_SHOWN);
        let shown = shown.map(|Unsynced { resource, error }| match error {
            Some(error) => format!("{} ({error})", resource.qualified_resource()),
            None => resource.qualified_resource(),
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        write!(f, "waiting for the initial list of {shown}")?;
        if let Some(more @ 1..) = self.unsynced.len().checked_sub(UNSYNCED_SHOWN) {
            write!(f, " and {more} more")?;
        }
        match self.starts_at {
            Some(at) => write!(f, "; it starts at {at} in any case"),
            None => {
                f.write_str("; up to Kubernetes 1.31 nothing is collected until every resource is listed")
            }
        }
    }
}

/// Runs a collector until `stop` is ready, then finishes the calls in flight and returns the collector.
///
/// # Guarantees
/// Each call is performed once and gets one response; a lost response is [`Response::Unknown`]. A watch that
/// ended is opened again at the last version, at once if it had delivered an event and after a second
/// otherwise. A relist happens only if the version is too old, the resource was not found, or no version is
/// known. Lists and watches that fail are retried after 1 s, 2 s, and so on up to 30 s, each resource on its
/// own ([G-13](crate::rules#g-13)), until an event is delivered. Resources that are no longer watched are
/// dropped at once. A relist is at least as new as everything delivered before.
///
/// # Errors
/// [`Misuse::TimeWentBack`]: the clock went backwards.
pub async fn run<S, C>(
    store: &S,
    clock: &C,
    settings: Settings,
    stop: impl Future<Output = ()>,
    mut report: impl FnMut(Report),
) -> Result<Collector, Misuse>
where
    S: ObjectStore + ?Sized,
    C: Clock + ?Sized,
{
    let mut stop = pin!(stop.fuse());
    let recording = settings.record_conclusions;
    let mut collector = Collector::new(settings);
    let mut tasks: FuturesUnordered<BoxFuture<'_, Woken>> = FuturesUnordered::new();
    let mut watched: BTreeMap<MonitorId, Watched> = BTreeMap::new();
    let mut discovery = retries();
    let mut stopping = false;
    let mut sync = SyncReports::new(clock.now());
    collector.handle(clock.now(), Input::Tick)?;
    loop {
        // Checked before anything new is started.
        stopping = stopping || (&mut stop).now_or_never().is_some();
        let mut until = None;
        let mut busy = true;
        for _ in 0..OUTPUTS_PER_POLL {
            if stopping {
                break;
            }
            match collector.poll_output() {
                Output::Discover => tasks.push(discover(store, clock, None).boxed()),
                Output::Watch(monitor) => {
                    if let Some(resource) = collector.monitor(monitor) {
                        let mut watch = Watched::new(monitor, resource.clone());
                        let first = watch.reflector.start();
                        tasks.push(watch.task(store, clock, first));
                        watched.insert(monitor, watch);
                    }
                }
                Output::Unwatch(monitor) => {
                    if let Some(watch) = watched.remove(&monitor) {
                        watch.abort.abort();
                    }
                }
                Output::Call(call) => {
                    let catalog = Arc::clone(collector.catalog());
                    tasks.push(perform(store, catalog, call).boxed());
                }
                Output::Event(warning) => report(Report::Warning(warning)),
                Output::Wait(wait) => {
                    report(Report::Waiting(wait));
                    until = wait.until;
                    busy = false;
                    break;
                }
            }
        }
        if stopping && collector.calls_in_flight() == 0 {
            return Ok(collector);
        }
        until = until.into_iter().chain(sync.next_at()).min();
        let until = until.filter(|_| !busy);
        let at_once = busy && !stopping;
        let time = async move {
            match until {
                _ if at_once => {}
                Some(until) => clock.sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let mut time = pin!(time.fuse());
        let woken = select_biased! {
            () = stop => Woken::Stop,
            done = tasks.select_next_some() => done,
            () = time => Woken::Time,
        };
        let now = clock.now();
        match woken {
            Woken::Stop => stopping = true,
            Woken::Time => collector.handle(now, Input::Tick)?,
            Woken::Aborted => {}
            Woken::Discovered(Ok(Discovered { catalog, failed })) => {
                discovery.succeeded();
                let catalog = Arc::new(catalog);
                let failed = failed.into_keys().collect();
                collector.handle(now, Input::Catalog { catalog, failed })?;
            }
            Woken::Discovered(Err(error)) => {
                report(Report::DiscoveryFailed(error));
                let at = discovery.failed(now);
                tasks.push(discover(store, clock, Some(at)).boxed());
            }
            Woken::Performed(id, performed) => {
                let (request, response) = *performed;
                report(Report::Performed {
                    request,
                    response: response.clone(),
                });
                collector.handle(now, Input::Response { call: id, response })?;
            }
            Woken::Watched(monitor, response) => {
                let Some(watch) = watched.get_mut(&monitor) else {
                    continue;
                };
                let next = follow(&mut collector, now, watch, response, &mut report)?;
                tasks.push(watch.task(store, clock, next));
            }
        }
        if let Some(due) = sync.follow(&collector, &watched, now) {
            report(due);
        }
        if recording {
            for (object, conclusion) in collector.take_conclusions() {
                report(Report::Concluded { object, conclusion });
            }
        }
    }
}

/// Retries of a list, watch or discovery. Only a success resets the delay.
const fn retries() -> Backoff {
    Backoff::new(RETRY_AFTER, Duration::MAX)
}

/// Schedules the reports that nothing is collected, and that collection starts.
struct SyncReports {
    /// While the collector does not run: the start of the wait, and the time of the next report.
    waiting: Option<(Timestamp, Timestamp)>,
    /// Whether the start is reported: the first one, and those after a reported pause.
    announce: bool,
}

impl SyncReports {
    fn new(now: Timestamp) -> Self {
        Self {
            announce: true,
            waiting: Some((now, now.saturating_add(SYNC_REPORT_AFTER))),
        }
    }

    fn next_at(&self) -> Option<Timestamp> {
        self.waiting.map(|(_, next)| next)
    }

    /// The report that is due now.
    fn follow(
        &mut self,
        collector: &Collector,
        watched: &BTreeMap<MonitorId, Watched>,
        now: Timestamp,
    ) -> Option<Report> {
        let unsynced = || collector.monitors().filter(|(_, _, synced)| !synced);
        let Some(not_running) = collector.not_running() else {
            self.waiting = None;
            let unsynced = || unsynced().map(|(_, resource, _)| resource.clone()).collect();
            return std::mem::take(&mut self.announce).then(|| Report::Started { unsynced: unsynced() });
        };
        let (since, next) = *self
            .waiting
            .get_or_insert((now, now.saturating_add(SYNC_REPORT_AFTER)));
        if now < next {
            return None;
        }
        self.waiting = Some((since, now.saturating_add(SYNC_REPORT_EVERY)));
        self.announce = true;
        let unsynced = unsynced().map(|(monitor, resource, _)| Unsynced {
            resource: resource.clone(),
            error: watched.get(&monitor).and_then(|watch| watch.error.clone()),
        });
        Some(Report::WaitingForSync(Box::new(WaitingForSync {
            since,
            paused: not_running.paused,
            starts_at: not_running.starts_at,
            unsynced: unsynced.collect(),
        })))
    }
}

struct Watched {
    monitor: MonitorId,
    resource: ApiResource,
    reflector: Reflector,
    /// The last failure, until an event or a list is delivered.
    error: Option<StoreError>,
    /// Aborts the current request.
    abort: AbortHandle,
}

impl Watched {
    fn new(monitor: MonitorId, resource: ApiResource) -> Self {
        Self {
            monitor,
            resource,
            reflector: Reflector::new(Pace {
                backoff: retries(),
                reopen_after: Some(RETRY_AFTER[0]),
                // Calls that an event makes due are sent before the next event is handled.
                events_at_once: 1,
            }),
            error: None,
            abort: AbortHandle::new_pair().0,
        }
    }

    /// A request of the watch, as a task.
    fn task<'t, S, C>(
        &mut self,
        store: &'t S,
        clock: &'t C,
        request: reflector::Request<ObjectMeta>,
    ) -> BoxFuture<'t, Woken>
    where
        S: ObjectStore + ?Sized,
        C: Clock + ?Sized,
    {
        let (abort, registration) = AbortHandle::new_pair();
        self.abort = abort;
        let monitor = self.monitor;
        let source = Metadata {
            store,
            resource: self.resource.clone(),
        };
        let performed = async move { Woken::Watched(monitor, request.perform(&source, clock).await) };
        Abortable::new(performed, registration)
            .map(|done| done.unwrap_or(Woken::Aborted))
            .boxed()
    }
}

struct Metadata<'t, S: ?Sized> {
    store: &'t S,
    resource: ApiResource,
}

#[async_trait]
impl<S: ObjectStore + ?Sized> Source<ObjectMeta> for Metadata<'_, S> {
    async fn list(&self, at_least: &ResourceVersion) -> Result<Listed<ObjectMeta>, StoreError> {
        let list = self.store.list_for_watch(&self.resource, at_least).await?;
        Ok(Listed {
            items: list.items,
            resource_version: list.resource_version,
            stream: None,
        })
    }

    async fn watch(&self, since: &ResourceVersion) -> Result<Box<dyn WatchStream>, StoreError> {
        self.store.watch(&self.resource, since).await
    }

    fn version_of<'o>(&self, object: &'o ObjectMeta) -> &'o ResourceVersion {
        &object.resource_version
    }
}

/// The end of a task, or another reason to continue.
enum Woken {
    Stop,
    Time,
    Discovered(Result<Discovered, StoreError>),
    Performed(CallId, Box<(Request, Response)>),
    Watched(MonitorId, reflector::Response<ObjectMeta>),
    /// The resource is no longer watched.
    Aborted,
}

/// Passes what a watch delivered to the collector and returns the next request of the watch.
fn follow(
    collector: &mut Collector,
    now: Timestamp,
    watch: &mut Watched,
    response: reflector::Response<ObjectMeta>,
    report: &mut impl FnMut(Report),
) -> Result<reflector::Request<ObjectMeta>, Misuse> {
    let monitor = watch.monitor;
    let mut handle = |event| collector.handle(now, Input::Watch { monitor, event });
    let Progress {
        listed,
        events,
        failed,
        next,
    } = watch.reflector.handle(now, response);
    if matches!(listed, Some(Ok(_))) || !events.is_empty() {
        watch.error = None;
    }
    if let Some(Ok(items)) = listed {
        handle(WatchEvent::Init)?;
        let items = items.into_iter().map(Arc::new).collect();
        handle(WatchEvent::InitApply(items))?;
        handle(WatchEvent::InitDone)?;
    }
    for event in events {
        match event {
            WatchItem::Applied(meta) => handle(WatchEvent::Apply(Arc::new(meta)))?,
            WatchItem::Deleted(meta) => handle(WatchEvent::Delete(Arc::new(meta)))?,
            WatchItem::Bookmark(_) => {}
        }
    }
    if let Some(error) = failed {
        watch.error = Some(error.clone());
        report(Report::WatchFailed {
            resource: watch.resource.clone(),
            error,
            failures: watch.reflector.failures(),
        });
    }
    Ok(next)
}

async fn discover<S: ObjectStore + ?Sized, C: Clock + ?Sized>(
    store: &S,
    clock: &C,
    at: Option<Timestamp>,
) -> Woken {
    if let Some(at) = at {
        clock.sleep_until(at).await;
    }
    Woken::Discovered(store.discover().await)
}

async fn perform<S: ObjectStore + ?Sized>(store: &S, catalog: Arc<Catalog>, call: Call) -> Woken {
    let Call { id, request } = call;
    let resource = &catalog[request.kind];
    let address = Address {
        resource,
        namespace: &request.target.namespace,
        name: &request.target.name,
    };
    let response = request.operation.send(store, address).await;
    Woken::Performed(id, Box::new((request, response.unwrap_or_else(Response::from))))
}

#[cfg(test)]
mod tests {
    use kubegc_core::Scope;

    use super::*;

    #[test]
    fn a_wait_for_lists_names_at_most_five_resources() {
        let unsynced = |count: u32| {
            let one = |at| Unsynced {
                resource: ApiResource::new("x.dev/v1", "Kind", &format!("r{at}"), Scope::Namespaced),
                error: (at == 1).then_some(StoreError::NotFound),
            };
            (0..count).map(one).collect()
        };
        let since = Timestamp::EPOCH;
        let lines = [
            (0, false, None),
            (0, true, Some(since)),
            (1, true, None),
            (5, false, Some(since)),
            (7, false, None),
        ]
        .map(|(count, paused, starts_at)| {
            let waiting = WaitingForSync {
                since,
                paused,
                starts_at,
                unsynced: unsynced(count),
            };
            format!("{waiting}\n")
        });
        let expected = "\
garbage collection has not started: API discovery has not succeeded yet
garbage collection is paused: API discovery has not succeeded yet
garbage collection is paused: waiting for the initial list of r0.x.dev; NOTHING
garbage collection has not started: waiting for the initial list of FIVE; it starts at 1970-01-01T00:00:00Z in any case
garbage collection has not started: waiting for the initial list of FIVE and 2 more; NOTHING
"
        .replace("FIVE", "r0.x.dev, r1.x.dev (not found), r2.x.dev, r3.x.dev, r4.x.dev")
        .replace(
            "NOTHING",
            "up to Kubernetes 1.31 nothing is collected until every resource is listed",
        );
        assert_eq!(lines.concat(), expected);
    }
}
