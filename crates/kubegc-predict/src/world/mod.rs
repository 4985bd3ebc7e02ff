//! The simulated cluster of one forecast: an API server, the collector, and those who act beside it.
//!
//! The collector sees the server only through its watches and calls. Everything is deterministic: a call is performed when it is pulled, and what changed
//! is seen right after.

mod environment;
pub(crate) mod namespaces;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use kubegc_core::{
    Catalog, KindId, KubernetesVersion, ObjectMeta, ObjectRef, PatchType, Timestamp,
    deletion::DeleteOptionsSpec,
};
use kubegc_objects::{
    Collector, Settings,
    call::{Answer, Ask, Request},
    collector::{Input, MonitorId, Output, WaitReason, WatchEvent},
    effect::InvalidNamespace,
};
use kubegc_sim::{ApiServer, EventType, Response, StoredObject};

use self::environment::Environment;
use crate::{
    Assumptions,
    timeline::{Act, Actor, Change, Outcome, Step, Why},
};

/// How long nothing may change before what is left to retry is taken to be hopeless.
const PATIENCE: Duration = Duration::from_secs(30);
/// A bound on the rounds of one run: far more than any cascade needs, so that no cluster keeps a forecast from ending.
const ROUNDS_PER_OBJECT: u64 = 10_000;

/// A change that the collector has yet to see.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: KindId,
    pub(crate) event_type: EventType,
    pub(crate) object: Arc<StoredObject>,
}

/// A running simulation.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) collector: Collector,
    environment: Environment,
    monitors: BTreeMap<KindId, MonitorId>,
    delivered: u64,
    pub(crate) backlog: VecDeque<Seen>,
    now: Timestamp,
    began: Timestamp,
    last_change: Timestamp,
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<InvalidNamespace>,
    /// Whether the bound on rounds was met.
    pub(crate) gave_up: bool,
}

impl World {
    pub(crate) fn new(
        version: KubernetesVersion,
        server: ApiServer,
        catalog: Arc<Catalog>,
        assumptions: &Assumptions,
        now: Timestamp,
    ) -> Self {
        let mut settings = Settings::new(version).as_upstream();
        settings.discovery_period = None;
        let mut world = Self {
            delivered: server.revision(),
            server,
            collector: Collector::new(settings),
            environment: Environment::new(version, assumptions.clone()),
            monitors: BTreeMap::new(),
            backlog: VecDeque::new(),
            now,
            began: now,
            last_change: now,
            steps: Vec::new(),
            warnings: Vec::new(),
            gave_up: false,
        };
        world.server.set_now(now);
        world.tell(Input::Catalog {
            catalog,
            failed: Vec::new(),
        });
        // The first outputs ask for kinds and watches; calls come once every list is in.
        world.pull();
        world.environment.notice_all(&world.server, now);
        world
    }

    /// Forgets what was written so far and counts time from now on.
    pub(crate) fn forget(&mut self) {
        self.steps.clear();
        self.warnings.clear();
        self.began = self.now;
    }

    /// Lets everything happen until nothing is left but retries that change nothing.
    pub(crate) fn settle(&mut self) {
        let mut rounds = (self.server.revision() + 100).saturating_mul(ROUNDS_PER_OBJECT);
        while rounds > 0 {
            rounds -= 1;
            let retry_at = self.pull();
            if !self.deliver() && !self.pass(retry_at) {
                return;
            }
        }
        self.gave_up = true;
    }

    /// With nothing to do now: lets the others act, or time pass. Answers whether there was anything left to wait for.
    pub(crate) fn pass(&mut self, retry_at: Option<Timestamp>) -> bool {
        if self
            .environment
            .act(&mut self.server, self.now, &mut self.steps, self.began)
        {
            self.note_changes_of_last_steps();
            self.notice();
            return true;
        }
        let Some(next) = self.next_time(retry_at) else {
            return false;
        };
        self.now = next;
        self.server.set_now(next);
        self.tell(Input::Tick);
        true
    }

    /// When to go on: at the next certain thing, or at the next retry while there is hope.
    fn next_time(&self, retry_at: Option<Timestamp>) -> Option<Timestamp> {
        let hope = self.last_change.saturating_add(PATIENCE);
        let certain = self.environment.next_certain(&self.server);
        let retries = retry_at.into_iter().chain(self.environment.next_retry());
        certain
            .into_iter()
            .chain(retries.filter(|&at| at <= hope))
            .min()
            .map(|at| at.max(self.now))
    }

    /// Performs all that the collector asks for now. Answers when it wants to try again.
    fn pull(&mut self) -> Option<Timestamp> {
        loop {
            match self.collector.poll_output() {
                Output::Discover => {}
                Output::Watch(monitor) => self.list(monitor),
                Output::Unwatch(monitor) => self.monitors.retain(|_, known| *known != monitor),
                Output::Event(warning) => self.warnings.push(*warning),
                Output::Call(call) => {
                    let answer = self.perform(&call.ask);
                    self.tell(Input::Answer {
                        call: call.id,
                        answer,
                    });
                    self.deliver();
                }
                Output::Wait(wait) => {
                    return wait.until.filter(|_| wait.why != WaitReason::Events);
                }
            }
        }
    }

    fn list(&mut self, monitor: MonitorId) {
        let Some(resource) = self.collector.monitor(monitor) else {
            return;
        };
        let Ok(kind) = self
            .server
            .resolve(&resource.group, &resource.version, &resource.resource)
        else {
            return;
        };
        self.monitors.insert(kind, monitor);
        self.tell(Input::Watch {
            monitor,
            event: WatchEvent::Init,
        });
        for object in self.server.objects(kind, None) {
            self.tell(Input::Watch {
                monitor,
                event: WatchEvent::InitApply(Arc::new(object.meta.clone())),
            });
        }
        self.tell(Input::Watch {
            monitor,
            event: WatchEvent::InitDone,
        });
    }

    /// Shows the collector and the others what has changed. Answers whether something had.
    pub(crate) fn deliver(&mut self) -> bool {
        self.notice();
        let any = !self.backlog.is_empty();
        while let Some(seen) = self.backlog.pop_front() {
            self.show(seen);
        }
        any
    }

    /// Shows the others what has changed, and keeps it for the collector's watches.
    pub(crate) fn notice(&mut self) {
        if self.server.revision() == self.delivered {
            return;
        }
        self.last_change = self.now;
        let changes = self.server.changes_since(self.delivered);
        let first = self.backlog.len();
        self.backlog.extend(changes.map(|change| Seen {
            kind: change.kind,
            event_type: change.event.event_type,
            object: Arc::clone(&change.event.object),
        }));
        self.delivered = self.server.revision();
        self.server.prune_events(self.delivered);
        for Seen {
            kind,
            event_type,
            object,
        } in self.backlog.range(first..)
        {
            self.environment
                .notice(&self.server, *kind, *event_type, object, self.now);
        }
    }

    /// Shows the collector the first change of a kind that it has not seen.
    pub(crate) fn show_next(&mut self, kind: KindId) {
        let at = self.backlog.iter().position(|seen| seen.kind == kind);
        if let Some(seen) = at.and_then(|at| self.backlog.remove(at)) {
            self.show(seen);
        }
    }

    fn show(
        &mut self,
        Seen {
            kind,
            event_type,
            object,
        }: Seen,
    ) {
        let Some(&monitor) = self.monitors.get(&kind) else {
            return;
        };
        let meta = Arc::new(object.meta.clone());
        let event = match event_type {
            EventType::Added | EventType::Modified => WatchEvent::Apply(meta),
            EventType::Deleted => WatchEvent::Delete(meta),
        };
        self.tell(Input::Watch { monitor, event });
    }

    pub(crate) fn tell(&mut self, input: Input) {
        // Time only goes forward here, and only calls of this collector are answered.
        let told = self.collector.handle(self.now, input);
        debug_assert!(told.is_ok(), "{told:?}");
    }

    pub(crate) fn perform(&mut self, ask: &Ask) -> Answer {
        let catalog = Arc::clone(self.collector.catalog());
        let resource = &catalog[ask.kind];
        let (namespace, name) = (&*ask.target.namespace, &*ask.target.name);
        let Ok(kind) = self
            .server
            .resolve(&resource.group, &resource.version, &resource.resource)
        else {
            return Answer::NotFound;
        };
        let response = match &ask.request {
            Request::Get => return get(&self.server, kind, namespace, name),
            Request::Delete { wire, propagation } => {
                let options = DeleteOptionsSpec {
                    propagation_policy: Some(propagation.as_str().to_owned()),
                    preconditions: Some(wire.clone()),
                    ..DeleteOptionsSpec::default()
                };
                self.server.delete(kind, namespace, name, &options)
            }
            Request::Patch { format, body } => {
                self.server
                    .patch(kind, namespace, name, format.content_type(), body)
            }
            Request::Put { read_at, finalizers } => {
                put(&mut self.server, kind, namespace, name, read_at, finalizers)
            }
        };
        let act = match &ask.request {
            Request::Delete { propagation, .. } => Act::Delete {
                propagation: Some(*propagation),
            },
            Request::Patch {
                format: PatchType::Strategic,
                ..
            } => Act::Patch { merge: false },
            _ => Act::Patch { merge: true },
        };
        let why = Why::Collector(ask.reason.clone());
        self.record(Actor::GarbageCollector, act, ask.target.clone(), &response, why);
        answer(&response)
    }

    /// Notes one write, with what it changed.
    pub(crate) fn record(
        &mut self,
        actor: Actor,
        act: Act,
        object: ObjectRef,
        response: &Response,
        why: Why,
    ) {
        let at = self.now.since(self.began);
        let mut step = Step {
            at,
            actor,
            act,
            object,
            code: response.code,
            changes: Vec::new(),
            why,
        };
        note_changes(&self.server, self.delivered, &mut step);
        self.steps.push(step);
    }

    /// The client deletes an object.
    pub(crate) fn delete(
        &mut self,
        kind: KindId,
        object: ObjectRef,
        options: &kubegc_core::DeleteOptions,
        intent: usize,
    ) -> Response {
        let response = self
            .server
            .delete_with(kind, &object.namespace, &object.name, options);
        let propagation = match options.propagation {
            Some(kubegc_core::deletion::Propagation::Policy(policy)) => Some(policy),
            _ => None,
        };
        self.record(
            Actor::Client,
            Act::Delete { propagation },
            object,
            &response,
            Why::Intent(intent),
        );
        self.notice();
        response
    }

    fn note_changes_of_last_steps(&mut self) {
        if let Some(step) = self.steps.last_mut()
            && step.changes.is_empty()
        {
            note_changes(&self.server, self.delivered, step);
        }
    }
}

fn note_changes(server: &ApiServer, since: u64, step: &mut Step) {
    for change in server.changes_since(since) {
        let meta = &change.event.object.meta;
        let outcome = match change.event.event_type {
            EventType::Deleted => Outcome::Gone,
            EventType::Added | EventType::Modified if meta.is_deleting() => Outcome::Terminating,
            EventType::Added | EventType::Modified => Outcome::Changed,
        };
        step.changes.push(Change {
            object: object_ref(server, change.kind, meta),
            outcome,
        });
    }
}

pub(crate) fn object_ref(server: &ApiServer, kind: KindId, meta: &ObjectMeta) -> ObjectRef {
    let resource = &server.catalog()[kind];
    ObjectRef {
        kind: Arc::clone(&resource.kind),
        api_version: resource.api_version().into(),
        namespace: Arc::clone(&meta.namespace),
        name: Arc::clone(&meta.name),
        uid: meta.uid.clone(),
    }
}

fn get(server: &ApiServer, kind: KindId, namespace: &str, name: &str) -> Answer {
    let namespaced = server.catalog()[kind].is_namespaced();
    if namespaced == namespace.is_empty() {
        // Such an address does not exist.
        return Answer::NotFound;
    }
    match server.object(kind, namespace, name) {
        Some(object) => Answer::Found(Arc::new(object.meta.clone())),
        None => Answer::NotFound,
    }
}

fn put(
    server: &mut ApiServer,
    kind: KindId,
    namespace: &str,
    name: &str,
    read_at: &kubegc_core::ResourceVersion,
    finalizers: &[Arc<str>],
) -> Response {
    let mut object = match server.object(kind, namespace, name) {
        Some(object) => StoredObject::clone(object),
        // The server's own answer.
        None => return server.read(kind, namespace, name),
    };
    object.meta.resource_version = read_at.clone();
    object.meta.finalizers = finalizers.to_vec();
    server.update(kind, namespace, name, object)
}

fn answer(response: &Response) -> Answer {
    match response.code {
        200..=299 => Answer::Applied(response.object().map(|object| Arc::new(object.meta.clone()))),
        404 => Answer::NotFound,
        409 => Answer::Conflict,
        415 => Answer::UnsupportedMediaType,
        422 => Answer::Invalid,
        400 | 403 | 405 | 429 => Answer::Refused { retry_after: None },
        _ => Answer::Unknown,
    }
}
