//! The loop: hands in what is known, takes out what is to be done, and keeps the time.

use std::{collections::BTreeMap, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{AbortHandle, Abortable, BoxFuture, Either, poll_fn, select},
    stream::FuturesUnordered,
};
use kubegc_core::{StoreError, Timestamp, store::Discovered};

use super::{
    Execution, Hands, Made, Report, Resources, Summary,
    watch::{Backoff, Step, Told, Tools, Watched},
};
use crate::{
    controller::{Controller, Ended, Input, Output, Settings, Task},
    node::Cloud,
    object::{Object, Resource},
};

/// When what is served is asked for again because something is not served. New kinds come rarely.
const REDISCOVER_AFTER: Duration = Duration::from_secs(300);

/// A driver that runs.
pub(super) struct Running {
    tools: Arc<Tools>,
    workers: usize,
    observer: Box<dyn FnMut(Report) + Send>,
    controller: Controller,
    watched: BTreeMap<Resource, Watched>,
    /// What discovery said last.
    served: Arc<Served>,
    discovery: Backoff,
    /// Whether discovery is under way, and not waiting to be.
    is_discovering: bool,
    /// When the next discovery begins, or began that is under way.
    discovers_at: Option<Timestamp>,
    /// Ends the wait for the next discovery.
    abort: AbortHandle,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// How many tasks and questions are under way.
    busy: usize,
    summary: Summary,
}

#[derive(Default)]
struct Served {
    resources: Resources,
    discovered: Discovered,
}

/// What came of something that was under way.
enum Done {
    Discovered(Result<Discovered, StoreError>),
    /// Another one comes before it.
    NotDiscovered,
    Watched(Box<Step>),
    Stepped(Box<(Execution, Option<Made>)>),
    Cloud {
        node: Object,
        exists: Cloud,
        is_shutdown: Cloud,
    },
}

/// Why nothing more is begun now.
enum Filled {
    /// As much is under way as may be.
    Busy,
    /// Nothing is due before this time.
    Until(Option<Timestamp>),
}

enum Woken {
    Stop,
    Done(Box<Done>),
    /// It is time, or there is nothing more to wait for.
    Time,
}

impl Running {
    pub(super) fn new(
        tools: Arc<Tools>,
        settings: Settings,
        workers: usize,
        observer: Box<dyn FnMut(Report) + Send>,
    ) -> Self {
        let controller = Controller::new(settings, tools.wire, tools.clock.now());
        let resources = controller.resources().into_iter();
        Self {
            tools,
            workers,
            observer,
            watched: resources
                .map(|resource| (resource, Watched::new(resource)))
                .collect(),
            controller,
            served: Arc::default(),
            discovery: Backoff::default(),
            is_discovering: false,
            discovers_at: None,
            abort: AbortHandle::new_pair().0,
            work: FuturesUnordered::new(),
            busy: 0,
            summary: Summary::default(),
        }
    }

    /// Goes on until it is stopped; where `ends_idle`, until nothing is due.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()> + Send, ends_idle: bool) -> Summary {
        let mut stop = pin!(stop.fuse());
        let mut is_stopping = false;
        self.discover(None);
        loop {
            // Looked at before anything new is begun.
            is_stopping = is_stopping || (&mut stop).now_or_never().is_some();
            let filled = if is_stopping { Filled::Busy } else { self.fill() };
            if is_stopping && self.busy == 0 {
                return self.end();
            }
            let is_idle = ends_idle && self.is_idle(&filled);
            let until = match filled {
                Filled::Busy => None,
                Filled::Until(until) => until,
            };
            let woken = {
                let clock = &*self.tools.clock;
                let time = async {
                    match until {
                        _ if is_idle => yielded().await,
                        Some(until) => clock.sleep_until(until).await,
                        None => std::future::pending().await,
                    }
                };
                wait(&mut self.work, time, &mut stop, is_stopping).await
            };
            match woken {
                Woken::Stop => is_stopping = true,
                Woken::Time if is_idle => return self.end(),
                Woken::Time => {}
                Woken::Done(done) => self.take(*done),
            }
        }
    }

    fn end(mut self) -> Summary {
        let undecided = self.controller.undecided();
        self.summary.undecided = undecided
            .map(|(mechanism, object, reason)| (mechanism, object.clone(), reason.clone()))
            .collect();
        self.summary.next_at = self.controller.next_at();
        self.summary
    }

    /// Whether nothing is due now, and nothing is under way that could make something due.
    fn is_idle(&self, filled: &Filled) -> bool {
        let now = self.tools.clock.now();
        matches!(filled, Filled::Until(until) if until.is_none_or(|until| until > now))
            && self.busy == 0
            && !self.is_discovering
            && self.watched.values().all(|watched| watched.is_settled(now))
    }

    /// Begins as much as may be under way of what is due.
    fn fill(&mut self) -> Filled {
        // Each turn begins one thing.
        while self.busy < self.workers {
            let now = self.tools.clock.now();
            match self.controller.poll_output(now) {
                Output::Perform(task) => self.perform(*task, now),
                Output::AskCloud(node, provider_id) => self.ask_cloud(node, provider_id),
                Output::Wait { until } => {
                    (self.observer)(Report::Waiting { until });
                    return Filled::Until(until);
                }
            }
        }
        Filled::Busy
    }

    fn perform(&mut self, task: Task, now: Timestamp) {
        self.busy += 1;
        self.go_on(Execution::new(task, now), now);
    }

    /// Makes the next call of a task.
    fn go_on(&self, mut execution: Execution, now: Timestamp) {
        let (tools, served) = (Arc::clone(&self.tools), Arc::clone(&self.served));
        let step = async move {
            let hands = Hands {
                store: &*tools.store,
                documents: &*tools.documents,
                outside: &*tools.outside,
                resources: &served.resources,
                discovered: &served.discovered,
                wire: tools.wire,
                verifies: true,
            };
            let made = execution.step(&hands, now).await;
            Done::Stepped(Box::new((execution, made)))
        };
        self.work.push(step.boxed());
    }

    fn ask_cloud(&mut self, node: Object, provider_id: Arc<str>) {
        self.busy += 1;
        let tools = Arc::clone(&self.tools);
        let asked = async move {
            let exists = tools.outside.exists(&node, &provider_id).await;
            // Nobody asks whether something is shut down that does not exist.
            let is_shutdown = match exists {
                Cloud::Yes => tools.outside.is_shut_down(&node, &provider_id).await,
                _ => Cloud::NotAsked,
            };
            Done::Cloud {
                node,
                exists,
                is_shutdown,
            }
        };
        self.work.push(asked.boxed());
    }

    /// Asks what is served, now or later. One question at a time: the earliest.
    fn discover(&mut self, at: Option<Timestamp>) {
        let due = at.unwrap_or_else(|| self.tools.clock.now());
        if self.discovers_at.is_some_and(|earlier| earlier <= due) {
            return;
        }
        self.abort.abort();
        let (abort, registration) = AbortHandle::new_pair();
        self.abort = abort;
        self.discovers_at = Some(due);
        self.is_discovering = at.is_none();
        let tools = Arc::clone(&self.tools);
        let discovered = async move {
            tools.wait(at).await;
            Done::Discovered(tools.store.discover().await)
        };
        let discovered = Abortable::new(discovered, registration);
        let discovered = discovered.map(|done| done.unwrap_or(Done::NotDiscovered));
        self.work.push(discovered.boxed());
    }

    fn take(&mut self, done: Done) {
        let now = self.tools.clock.now();
        let mut told = Told::default();
        match done {
            Done::Discovered(answer) => self.discovered(now, answer, &mut told),
            Done::NotDiscovered => {}
            Done::Watched(step) => {
                if let Some(watched) = self.watched.get_mut(&step.resource) {
                    watched.take(&self.tools, now, *step, &mut told);
                }
            }
            Done::Stepped(stepped) => self.stepped(now, *stepped, &mut told),
            Done::Cloud {
                node,
                exists,
                is_shutdown,
            } => {
                self.busy -= 1;
                told.inputs.push(Input::Cloud {
                    node,
                    exists,
                    is_shutdown,
                });
            }
        }
        self.tell(now, told);
    }

    fn discovered(&mut self, now: Timestamp, answer: Result<Discovered, StoreError>, told: &mut Told) {
        self.discovers_at = None;
        self.is_discovering = false;
        let again = match answer {
            Ok(discovered) => {
                self.served = Arc::new(Served {
                    resources: Resources::new(&discovered),
                    discovered,
                });
                let mut is_complete = true;
                for (resource, watched) in &mut self.watched {
                    let api = self.served.resources.find(*resource);
                    is_complete &= matches!(api, Ok(_) | Err(StoreError::NoMapping { .. }));
                    watched.discovered(&self.tools, api, told);
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
                    watched.tell_unlisted(Err(error.clone()), told);
                }
                told.reports.push(Report::DiscoveryFailed(error));
                Some(self.discovery.failed(now))
            }
        };
        if again.is_some() {
            self.discover(again);
        }
    }

    fn stepped(&mut self, now: Timestamp, stepped: (Execution, Option<Made>), told: &mut Told) {
        let (execution, made) = stepped;
        if let Some(made) = made {
            told.reports.push(Report::Made(Box::new(made)));
            return self.go_on(execution, now);
        }
        self.busy -= 1;
        let (task, mechanism) = (execution.task(), execution.mechanism());
        // A task that has nothing more to do has ended.
        let ended = execution.ended().cloned().unwrap_or(Ended::Stale);
        self.summary.count(mechanism, &ended);
        told.reports.push(Report::Ended {
            task,
            mechanism,
            ended: ended.clone(),
            kept: execution.kept().cloned(),
        });
        told.inputs.push(Input::Ended { task, ended });
    }

    /// Hands on what was told.
    fn tell(&mut self, now: Timestamp, told: Told) {
        let Told {
            inputs,
            reports,
            work,
            rediscovers,
        } = told;
        reports.into_iter().for_each(&mut self.observer);
        for input in inputs {
            self.controller.handle(now, input);
        }
        for step in work {
            self.work
                .push(step.map(|step| Done::Watched(Box::new(step))).boxed());
        }
        if rediscovers {
            let at = self.discovery.failed(now);
            self.discover(Some(at));
        }
    }
}

/// Waits for whatever comes first.
async fn wait(
    work: &mut FuturesUnordered<BoxFuture<'static, Done>>,
    time: impl Future<Output = ()>,
    stop: &mut (impl Future<Output = ()> + Unpin),
    is_stopping: bool,
) -> Woken {
    let done = async {
        match work.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    };
    let (done, time) = (pin!(done), pin!(time));
    let either = select(done, time);
    let woken = |either| match either {
        Either::Left((done, _)) => Woken::Done(Box::new(done)),
        Either::Right(_) => Woken::Time,
    };
    if is_stopping {
        return woken(either.await);
    }
    match select(stop, either).await {
        Either::Left(_) => Woken::Stop,
        Either::Right((either, _)) => woken(either),
    }
}

/// Lets everything else have a turn, so that what is ready comes first.
async fn yielded() {
    let mut turns = 2;
    poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
