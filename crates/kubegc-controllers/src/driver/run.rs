//! The loop of a driver.

use std::{collections::BTreeMap, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, poll_fn},
    select_biased,
    stream::FuturesUnordered,
};
use kubegc_core::{
    StoreError, Timestamp,
    backoff::Backoff,
    record::{ObjectId, Resource},
    store::Discovered,
};

use super::{
    Driver, Performed, Performer, Report, Resources, Summary,
    watch::{Effects, Step as WatchStep, Watched, retries},
};
use crate::{End, Input, Manager, Output, Reason, Request, Response, Sequence, Step, Task, TaskId, Work};

/// Delay before discovery is repeated because a resource is not served.
const REDISCOVER_AFTER: Duration = Duration::from_secs(300);

pub(super) struct Running {
    driver: Driver,
    manager: Manager,
    watched: BTreeMap<Resource, Watched>,
    resources: Arc<Resources>,
    discovery: Backoff,
    is_discovering: bool,
    discovers_at: Option<Timestamp>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The number of tasks and queries in flight.
    busy: usize,
    summary: Summary,
}

struct Worker {
    task: TaskId,
    controller: &'static str,
    object: ObjectId,
    sequence: Sequence,
    is_action: bool,
    began_at: Timestamp,
}

/// The result of something that was in flight.
enum Done {
    Discovered(Result<Discovered, StoreError>),
    Watched(Box<WatchStep>),
    Responded {
        worker: Box<Worker>,
        sent_at: Timestamp,
        request: Request,
        reason: Option<Reason>,
        response: Box<Response>,
    },
}

/// Why no further task starts.
enum Filled {
    /// The limit of concurrent tasks is reached.
    Busy,
    /// Nothing is due before this time.
    Until(Option<Timestamp>),
}

impl Running {
    pub(super) fn new(mut driver: Driver) -> Self {
        let controllers = std::mem::take(&mut driver.controllers);
        let now = driver.tools.clock.now();
        let manager = Manager::new(controllers, driver.wire, now);
        let resources = manager.resources().into_iter();
        Self {
            watched: resources
                .map(|resource| (resource, Watched::new(resource)))
                .collect(),
            driver,
            manager,
            resources: Arc::default(),
            discovery: retries(),
            is_discovering: false,
            discovers_at: Some(now),
            work: FuturesUnordered::new(),
            busy: 0,
            summary: Summary::default(),
        }
    }

    /// Runs until it is stopped; with a horizon, until nothing is due before it.
    pub(super) async fn run(
        mut self,
        stop: impl Future<Output = ()> + Send,
        horizon: Option<Timestamp>,
    ) -> Summary {
        let mut stop = pin!(stop.fuse());
        let mut is_stopping = false;
        loop {
            // Checked before anything new starts.
            is_stopping = is_stopping || (&mut stop).now_or_never().is_some();
            self.discover();
            let filled = if is_stopping { Filled::Busy } else { self.fill() };
            if is_stopping && self.busy == 0 {
                return self.end();
            }
            let is_idle = horizon.is_some_and(|horizon| self.is_idle(&filled, horizon));
            let until = match filled {
                Filled::Busy => None,
                Filled::Until(until) => until,
            };
            let until = until.into_iter().chain(self.discovers_at).min();
            let tools = self.driver.tools.clone();
            let time = async {
                match until {
                    _ if is_idle => yield_twice().await,
                    Some(until) => tools.clock.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let mut time = pin!(time.fuse());
            let done = select_biased! {
                () = stop => {
                    is_stopping = true;
                    None
                }
                done = self.work.select_next_some() => Some(done),
                () = time => {
                    if is_idle {
                        return self.end();
                    }
                    None
                }
            };
            if let Some(done) = done {
                self.take(done);
            }
        }
    }

    fn end(mut self) -> Summary {
        let unknown = self.manager.unknown();
        self.summary.unknown = unknown
            .map(|(controller, object, missing, _)| (controller.info().name, object.clone(), missing.clone()))
            .collect();
        self.summary.next_at = self.manager.next_at();
        self.summary
    }

    /// Returns whether nothing is due now or before the horizon, and nothing is in flight that could make
    /// something due.
    fn is_idle(&self, filled: &Filled, horizon: Timestamp) -> bool {
        let end = self.driver.tools.clock.now().max(horizon);
        matches!(filled, Filled::Until(until) if until.is_none_or(|until| until > end))
            && self.busy == 0
            && !self.is_discovering
            && self.watched.values().all(Watched::is_settled)
    }

    fn fill(&mut self) -> Filled {
        // Each iteration starts one task.
        while self.busy < self.driver.workers {
            let now = self.driver.tools.clock.now();
            match self.manager.poll_output(now) {
                Output::Perform(task) => self.perform(*task, now),
                Output::Wait { until } => {
                    (self.driver.observer)(Report::Waiting { until });
                    return Filled::Until(until);
                }
            }
        }
        Filled::Busy
    }

    fn perform(&mut self, task: Task, now: Timestamp) {
        self.busy += 1;
        let worker = Worker {
            task: task.id,
            controller: task.controller.info().name,
            object: task.object,
            is_action: matches!(task.work, Work::Action(_)),
            sequence: task.work.into_steps(true).begin(),
            began_at: now,
        };
        self.advance(worker, None, now);
    }

    /// Performs the next step of a task. A write that the guard refuses is not sent.
    fn advance(&mut self, mut worker: Worker, mut response: Option<Response>, now: Timestamp) {
        let (request, reason) = loop {
            let (request, reason) = match worker.sequence.next(response.take()) {
                Step::Perform { request, reason } => (request, reason),
                Step::End(end) => return self.ended(now, &worker, end),
            };
            if !request.is_write() || matches!(request, Request::Event(_)) {
                break (request, reason);
            }
            match (self.driver.guard)(self.manager.cache(), &request) {
                Ok(()) => break (request, reason),
                Err(refusal) if worker.is_action => {
                    return self.ended(now, &worker, End::Kept(refusal));
                }
                Err(refusal) => {
                    response = Some(Response::Failed(StoreError::Refused {
                        code: 403,
                        message: refusal.message().to_owned(),
                        retry_after: None,
                    }));
                }
            }
        };
        let (tools, resources) = (self.driver.tools.clone(), Arc::clone(&self.resources));
        let performed = async move {
            let performer = Performer {
                store: &*tools.store,
                documents: &*tools.documents,
                outside: &*tools.outside,
                resources: &resources,
            };
            let response = Box::new(performer.perform(&request).await);
            Done::Responded {
                worker: Box::new(worker),
                sent_at: now,
                request,
                reason,
                response,
            }
        };
        self.work.push(performed.boxed());
    }

    fn ended(&mut self, now: Timestamp, worker: &Worker, end: End) {
        self.busy -= 1;
        // After a response of the cloud provider, another task continues the work.
        if !matches!(end, End::Cloud(_)) {
            self.summary.count(worker.controller, &end);
            (self.driver.observer)(Report::Ended {
                task: worker.task,
                controller: worker.controller,
                object: worker.object.clone(),
                took: now.since(worker.began_at),
                end: end.clone(),
            });
        }
        let task = worker.task;
        self.manager.handle(now, Input::Ended { task, end });
    }

    fn discover(&mut self) {
        let now = self.driver.tools.clock.now();
        if self.discovers_at.take_if(|at| *at <= now).is_some() {
            self.is_discovering = true;
            let store = Arc::clone(&self.driver.tools.store);
            let discovered = async move { Done::Discovered(store.discover().await) };
            self.work.push(discovered.boxed());
        }
    }

    /// Schedules a discovery, unless one is in progress or due earlier.
    fn discover_at(&mut self, at: Timestamp) {
        if !self.is_discovering {
            self.discovers_at = self.discovers_at.into_iter().chain([at]).min();
        }
    }

    fn take(&mut self, done: Done) {
        let now = self.driver.tools.clock.now();
        let mut effects = Effects::default();
        match done {
            Done::Discovered(response) => self.discovered(now, response, &mut effects),
            Done::Watched(step) => {
                if let Some(watched) = self.watched.get_mut(&step.resource) {
                    watched.take(&self.driver.tools, now, *step, &mut effects);
                }
            }
            Done::Responded {
                worker,
                sent_at,
                request,
                reason,
                response,
            } => {
                if request.is_write() {
                    let performed = Performed {
                        task: worker.task,
                        controller: worker.controller,
                        at: sent_at,
                        request,
                        object: worker.object.clone(),
                        reason: reason.unwrap_or_else(Reason::unspecified),
                        result: response.error().map_or(Ok(()), Err),
                    };
                    (self.driver.observer)(Report::Performed(Box::new(performed)));
                }
                self.advance(*worker, Some(*response), now);
            }
        }
        self.apply(now, effects);
    }

    fn discovered(
        &mut self,
        now: Timestamp,
        response: Result<Discovered, StoreError>,
        effects: &mut Effects,
    ) {
        self.is_discovering = false;
        let again = match response {
            Ok(discovered) => {
                self.resources = Arc::new(Resources::new(&discovered));
                let mut is_complete = true;
                for (resource, watched) in &mut self.watched {
                    let api = self.resources.find(*resource);
                    is_complete &= matches!(api, Ok(_) | Err(StoreError::NoMapping { .. }));
                    watched.discovered(&self.driver.tools, api, effects);
                }
                if is_complete {
                    self.discovery.succeeded();
                    let all_are_served = self.watched.values().all(Watched::is_served);
                    (!all_are_served).then(|| now.saturating_add(REDISCOVER_AFTER))
                } else {
                    Some(self.discovery.failed(now))
                }
            }
            Err(error) => {
                for watched in self.watched.values_mut() {
                    watched.report_unlisted(Err(error.clone()), effects);
                }
                effects.reports.push(Report::DiscoveryFailed(error));
                Some(self.discovery.failed(now))
            }
        };
        if let Some(at) = again {
            self.discover_at(at);
        }
    }

    fn apply(&mut self, now: Timestamp, effects: Effects) {
        let Effects {
            inputs,
            reports,
            work,
            needs_discovery,
        } = effects;
        reports.into_iter().for_each(&mut self.driver.observer);
        for input in inputs {
            self.manager.handle(now, input);
        }
        for step in work {
            self.work
                .push(step.map(|step| Done::Watched(Box::new(step))).boxed());
        }
        if needs_discovery {
            let at = self.discovery.failed(now);
            self.discover_at(at);
        }
    }
}

/// Yields to other futures, so that ready ones are processed first.
async fn yield_twice() {
    let mut yields = 2;
    poll_fn(|context| {
        if yields == 0 {
            return Poll::Ready(());
        }
        yields -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
