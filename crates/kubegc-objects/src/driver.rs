//! Runs a [`Collector`] over an [`ObjectStore`] and a [`Clock`]: performs its calls, feeds its watches, keeps its time.
//!
//! No decisions are made here. The loop needs no particular executor: it is one future, and everything that runs at the same time is polled
//! within it.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Either, select},
    stream::FuturesUnordered,
};

use kubegc_core::{
    ApiResource, Catalog, Clock, DeleteOptions, ObjectStore, PropagationPolicy, ResourceVersion, StoreError,
    Timestamp, WatchStream,
    deletion::Propagation,
    store::{Address, Discovered, MetaList, WatchItem},
};

use crate::{
    Collector, Settings,
    call::{Answer, Ask, Request},
    collector::{Call, CallId, Input, Misuse, MonitorId, Output, WatchEvent},
    effect::InvalidNamespace,
};

/// How long to wait before a list, watch or discovery that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many outputs are taken before inputs get their turn again.
const OUTPUTS_PER_TURN: usize = 256;

/// What a [`run`] reports to its caller as it goes on.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Report {
    /// A warning to be published as a Kubernetes Event.
    Warning(Box<InvalidNamespace>),
    /// A call was performed.
    Performed {
        /// The request.
        ask: Ask,
        /// Its answer.
        answer: Answer,
    },
    /// A resource could not be listed or watched; it is tried again.
    WatchFailed {
        /// The resource.
        resource: ApiResource,
        /// Why.
        error: StoreError,
    },
    /// The served kinds could not be asked for; it is tried again.
    DiscoveryFailed(StoreError),
}

/// Collects until `stop` is ready, then finishes the calls in flight and returns the collector.
///
/// # Guarantees
/// Each call is performed once and its answer handed in once; lost answers are [`Answer::Unknown`]. Watches are opened again where they ended, with a new
/// list where they are too old. One resource that cannot be listed does not keep the others from being watched.
///
/// # Errors
/// [`Misuse::TimeWentBack`]: the clock broke its promise.
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
    let mut collector = Collector::new(settings);
    let mut tasks: FuturesUnordered<BoxFuture<'_, Done>> = FuturesUnordered::new();
    let mut watched: BTreeMap<MonitorId, ApiResource> = BTreeMap::new();
    let mut stopping = false;
    collector.handle(clock.now(), Input::Tick)?;
    loop {
        let mut until = None;
        let mut busy = true;
        for _ in 0..OUTPUTS_PER_TURN {
            if stopping {
                break;
            }
            match collector.poll_output() {
                Output::Discover => tasks.push(discover(store, clock, None).boxed()),
                Output::Watch(monitor) => {
                    if let Some(resource) = collector.monitor(monitor) {
                        watched.insert(monitor, resource.clone());
                        tasks.push(list(store, clock, monitor, resource.clone(), None).boxed());
                    }
                }
                Output::Unwatch(monitor) => {
                    watched.remove(&monitor);
                }
                Output::Call(call) => {
                    let catalog = Arc::clone(collector.catalog());
                    tasks.push(perform(store, catalog, call).boxed());
                }
                Output::Event(warning) => report(Report::Warning(warning)),
                Output::Wait(wait) => {
                    until = wait.until;
                    busy = false;
                    break;
                }
            }
        }
        if stopping && collector.calls_in_flight() == 0 {
            return Ok(collector);
        }
        let woken = wait(
            &mut tasks,
            clock,
            until.filter(|_| !busy),
            busy && !stopping,
            &mut stop,
            stopping,
        )
        .await;
        let now = clock.now();
        match woken {
            Woken::Stop => stopping = true,
            Woken::Time => collector.handle(now, Input::Tick)?,
            Woken::Done(Done::Discovered(Ok(Discovered { catalog, failed }))) => {
                collector.handle(
                    now,
                    Input::Catalog {
                        catalog: Arc::new(catalog),
                        failed,
                    },
                )?;
            }
            Woken::Done(Done::Discovered(Err(error))) => {
                report(Report::DiscoveryFailed(error));
                tasks.push(discover(store, clock, Some(now.saturating_add(RETRY_AFTER))).boxed());
            }
            Woken::Done(Done::Performed(id, performed)) => {
                let (ask, answer) = *performed;
                report(Report::Performed {
                    ask,
                    answer: answer.clone(),
                });
                collector.handle(now, Input::Answer { call: id, answer })?;
            }
            Woken::Done(Done::Watched(monitor, watched_step)) => {
                let Some(resource) = watched.get(&monitor) else {
                    continue;
                };
                let next = follow(&mut collector, now, monitor, watched_step, resource, &mut report)?;
                tasks.push(match next {
                    Next::Read(stream) => read(monitor, stream).boxed(),
                    Next::Watch(since) => open(store, monitor, resource.clone(), since).boxed(),
                    Next::List(at) => list(store, clock, monitor, resource.clone(), at).boxed(),
                });
            }
        }
    }
}

enum Done {
    Discovered(Result<Discovered, StoreError>),
    Performed(CallId, Box<(Ask, Answer)>),
    Watched(MonitorId, WatchStep),
}

enum WatchStep {
    Listed(Result<MetaList, StoreError>),
    Opened(Result<Box<dyn WatchStream>, StoreError>),
    Item(Option<Box<Result<WatchItem, StoreError>>>, Box<dyn WatchStream>),
}

enum Next {
    Read(Box<dyn WatchStream>),
    Watch(ResourceVersion),
    List(Option<Timestamp>),
}

enum Woken {
    Stop,
    Time,
    Done(Done),
}

async fn wait<C: Clock + ?Sized>(
    tasks: &mut FuturesUnordered<BoxFuture<'_, Done>>,
    clock: &C,
    until: Option<Timestamp>,
    busy: bool,
    stop: &mut (impl Future<Output = ()> + Unpin),
    stopping: bool,
) -> Woken {
    let time = async {
        if busy {
            return;
        }
        match until {
            Some(until) => clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    let done = async {
        match tasks.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    };
    let (done, time) = (pin!(done), pin!(time));
    let work = select(done, time);
    if stopping {
        return woken(work.await);
    }
    match select(stop, work).await {
        Either::Left(_) => Woken::Stop,
        Either::Right((either, _)) => woken(either),
    }
}

fn woken<A, B>(either: Either<(Done, A), ((), B)>) -> Woken {
    match either {
        Either::Left((done, _)) => Woken::Done(done),
        Either::Right(_) => Woken::Time,
    }
}

/// Hands what a watch delivered to the collector and says how the watch goes on.
fn follow(
    collector: &mut Collector,
    now: Timestamp,
    monitor: MonitorId,
    step: WatchStep,
    resource: &ApiResource,
    report: &mut impl FnMut(Report),
) -> Result<Next, Misuse> {
    let mut tell = |event| collector.handle(now, Input::Watch { monitor, event });
    let error = match step {
        WatchStep::Listed(Ok(list)) => {
            tell(WatchEvent::Init)?;
            for item in list.items {
                tell(WatchEvent::InitApply(Arc::new(item)))?;
            }
            tell(WatchEvent::InitDone)?;
            return Ok(Next::Watch(list.resource_version));
        }
        WatchStep::Opened(Ok(stream)) => return Ok(Next::Read(stream)),
        WatchStep::Item(Some(item), stream) => match *item {
            Ok(item) => {
                match item {
                    WatchItem::Applied(meta) => tell(WatchEvent::Apply(Arc::new(meta)))?,
                    WatchItem::Deleted(meta) => tell(WatchEvent::Delete(Arc::new(meta)))?,
                    WatchItem::Bookmark(_) => {}
                }
                return Ok(Next::Read(stream));
            }
            Err(error) => error,
        },
        // The watch ended: what happened since is shown by a new list.
        WatchStep::Item(None, _) => return Ok(Next::List(None)),
        WatchStep::Listed(Err(error)) | WatchStep::Opened(Err(error)) => error,
    };
    if error == StoreError::Expired {
        return Ok(Next::List(None));
    }
    report(Report::WatchFailed {
        resource: resource.clone(),
        error,
    });
    Ok(Next::List(Some(now.saturating_add(RETRY_AFTER))))
}

async fn discover<S: ObjectStore + ?Sized, C: Clock + ?Sized>(
    store: &S,
    clock: &C,
    at: Option<Timestamp>,
) -> Done {
    if let Some(at) = at {
        clock.sleep_until(at).await;
    }
    Done::Discovered(store.discover().await)
}

async fn list<S: ObjectStore + ?Sized, C: Clock + ?Sized>(
    store: &S,
    clock: &C,
    monitor: MonitorId,
    resource: ApiResource,
    at: Option<Timestamp>,
) -> Done {
    if let Some(at) = at {
        clock.sleep_until(at).await;
    }
    Done::Watched(monitor, WatchStep::Listed(store.list(&resource, None).await))
}

async fn open<S: ObjectStore + ?Sized>(
    store: &S,
    monitor: MonitorId,
    resource: ApiResource,
    since: ResourceVersion,
) -> Done {
    let opened = store.watch(&resource, &since).await;
    Done::Watched(monitor, WatchStep::Opened(opened))
}

async fn read(monitor: MonitorId, mut stream: Box<dyn WatchStream>) -> Done {
    let item = stream.next().await;
    Done::Watched(monitor, WatchStep::Item(item.map(Box::new), stream))
}

/// Performs one call.
async fn perform<S: ObjectStore + ?Sized>(store: &S, catalog: Arc<Catalog>, call: Call) -> Done {
    let Call { id, ask } = call;
    let resource = &catalog[ask.kind];
    let address = Address {
        resource,
        namespace: &ask.target.namespace,
        name: &ask.target.name,
    };
    let answer = match &ask.request {
        Request::Get => store.get(address).await.map(|meta| Answer::Found(Arc::new(meta))),
        Request::Delete { wire, propagation } => {
            let options = DeleteOptions {
                preconditions: wire.clone(),
                ..options(*propagation)
            };
            store
                .delete(address, &options)
                .await
                .map(|_| Answer::Applied(None))
        }
        Request::Patch { format, body } => store
            .patch(address, *format, body)
            .await
            .map(|meta| Answer::Applied(Some(Arc::new(meta)))),
        Request::Put { read_at, finalizers } => {
            let written = store.replace_finalizers(address, read_at, finalizers).await;
            written.map(|meta| Answer::Applied(Some(Arc::new(meta))))
        }
    };
    Done::Performed(id, Box::new((ask, answer.unwrap_or_else(Answer::from))))
}

fn options(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions {
        propagation: Some(Propagation::Policy(policy)),
        ..DeleteOptions::default()
    }
}
