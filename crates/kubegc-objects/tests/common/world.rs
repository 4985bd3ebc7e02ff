//! A collector and an API server, with everything between them that can be late: watches, calls, responses.
//!
//! Nothing happens on its own. Each method is one step; `schedule` chooses the order. All messages between
//! the two are recorded in a trace, which checkers verify afterwards.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{KindId, KubernetesVersion, ObjectMeta, ObjectRef, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_objects::{
    Call, Collector, Input, Operation, Output, Request, Response, Settings, WatchEvent,
    collector::{CallId, Conclusion, InvalidNamespace, MonitorId, Wait, WaitReason},
};
use kubegc_sim::{ApiServer, EventType, StoredObject};

use super::cluster::{KINDS, Object, id, server, version};

/// One message between collector and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A collector started, the first one or one after a restart, with this number of resources to list.
    Began,
    Discovered(Vec<MonitorId>),
    Pulled(Call),
    /// The call reached the server, with this response.
    Committed(CallId, Response),
    /// The collector received the response.
    Responded(CallId, Response),
    Reported(MonitorId, WatchEvent),
    Warned(Box<InvalidNamespace>),
    Concluded(ObjectRef, Conclusion),
    Ticked,
}

/// The watch of a monitor: the position up to which it has delivered.
#[derive(Clone, Debug)]
pub(crate) struct WatchState {
    pub(crate) kind: KindId,
    pub(crate) listed: bool,
    pub(crate) cursor: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) collector: Collector,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) watches: BTreeMap<MonitorId, WatchState>,
    /// Calls that were pulled and not executed.
    pub(crate) open_calls: Vec<Call>,
    /// Responses of executed calls that were not delivered.
    pub(crate) responses: Vec<(CallId, Response)>,
    /// The last wait, if nothing happened since.
    pub(crate) waiting: Option<Wait>,
    pub(crate) trace: Vec<(Timestamp, Seen)>,
}

fn settings(version: KubernetesVersion) -> Settings {
    let mut settings = Settings::new(version).as_upstream();
    settings.discovery_period = None;
    settings.record_conclusions = true;
    settings
}

impl World {
    /// A collector that emulates the release, over a server, with a single discovery.
    pub(crate) fn new(version: KubernetesVersion, server: ApiServer) -> Self {
        Self::with(settings(version), server)
    }

    /// The same over a server with these objects.
    pub(crate) fn of(release: &str, objects: &[&Object]) -> Self {
        Self::of_with(release, objects, |_| {})
    }

    /// The same with other settings.
    pub(crate) fn of_with(release: &str, objects: &[&Object], change: impl FnOnce(&mut Settings)) -> Self {
        let mut server = server(version(release), &KINDS);
        objects.iter().for_each(|object| object.insert(&mut server));
        let mut settings = settings(version(release));
        change(&mut settings);
        Self::with(settings, server)
    }

    pub(crate) fn with(settings: Settings, server: ApiServer) -> Self {
        let now = server.now();
        Self {
            collector: Collector::new(settings.clone()),
            server,
            settings,
            now,
            watches: BTreeMap::new(),
            open_calls: Vec::new(),
            responses: Vec::new(),
            waiting: None,
            trace: vec![(now, Seen::Began)],
        }
    }

    pub(crate) fn poll(&mut self) -> Output {
        let output = self.collector.poll_output();
        self.note_conclusions();
        match &output {
            Output::Discover => self.discover(),
            Output::Watch(monitor) => self.watch(*monitor),
            Output::Unwatch(monitor) => {
                self.watches.remove(monitor);
            }
            Output::Call(call) => {
                self.note(Seen::Pulled(call.clone()));
                self.open_calls.push(call.clone());
            }
            Output::Event(warning) => self.note(Seen::Warned(warning.clone())),
            Output::Wait(wait) => self.waiting = Some(*wait),
        }
        output
    }

    /// Runs discovery on the server and passes the result to the collector.
    pub(crate) fn discover(&mut self) {
        let catalog = Arc::new(self.server.discover());
        self.handle(Input::Catalog {
            catalog,
            failed: Vec::new(),
        });
        let monitors = self.collector.monitors().map(|(monitor, _, _)| monitor).collect();
        self.note(Seen::Discovered(monitors));
    }

    fn watch(&mut self, monitor: MonitorId) {
        let resource = self
            .collector
            .monitor(monitor)
            .expect("the monitor was just started");
        let kind = self
            .server
            .resolve(&resource.group, &resource.version, &resource.resource);
        let kind = kind.expect("discovery showed it");
        self.watches.insert(
            monitor,
            WatchState {
                kind,
                listed: false,
                cursor: 0,
            },
        );
    }

    pub(crate) fn monitor_of(&self, kind: KindId) -> MonitorId {
        let watch = self.watches.iter().find(|(_, watch)| watch.kind == kind);
        *watch.expect("the kind is watched").0
    }

    /// Returns whether this watch has an event to deliver.
    pub(crate) fn has_pending_events(&self, watch: &WatchState) -> bool {
        let has_events = || {
            self.server
                .events_since(watch.kind, watch.cursor)
                .map(|mut events| events.next().is_some())
        };
        !watch.listed || has_events().unwrap_or(true)
    }

    /// Delivers the list of a resource, or its next event.
    pub(crate) fn deliver(&mut self, monitor: MonitorId) {
        let watch = &self.watches[&monitor];
        if !watch.listed {
            return self.list(monitor);
        }
        let next = self
            .server
            .events_since(watch.kind, watch.cursor)
            .map(|mut events| events.next().cloned());
        match next {
            Ok(Some(event)) => {
                self.watches.get_mut(&monitor).expect("looked up above").cursor = event.revision;
                let meta = event.object.meta.clone().into();
                self.watched(
                    monitor,
                    match event.event_type {
                        EventType::Added | EventType::Modified => WatchEvent::Apply(meta),
                        EventType::Deleted => WatchEvent::Delete(meta),
                    },
                );
            }
            Ok(None) => {}
            Err(_) => self.list(monitor),
        }
    }

    /// Lists a resource, the first time or again.
    pub(crate) fn list(&mut self, monitor: MonitorId) {
        let kind = self.watches[&monitor].kind;
        self.watched(monitor, WatchEvent::Init);
        let objects = self.server.objects(kind, None).into_iter();
        let list = objects.map(|object| object.meta.clone().into()).collect();
        self.watched(monitor, WatchEvent::InitApply(list));
        self.watched(monitor, WatchEvent::InitDone);
        let watch = self.watches.get_mut(&monitor).expect("looked up above");
        (watch.listed, watch.cursor) = (true, self.server.revision());
    }

    pub(crate) fn watched(&mut self, monitor: MonitorId, event: WatchEvent) {
        self.note(Seen::Reported(monitor, event.clone()));
        self.handle(Input::Watch { monitor, event });
    }

    /// Executes a pulled call. Its response is delivered separately.
    pub(crate) fn commit(&mut self, at: usize) {
        let call = self.open_calls.remove(at);
        let response = perform(&mut self.server, &self.collector, &call.request);
        self.note(Seen::Committed(call.id, response.clone()));
        self.responses.push((call.id, response));
    }

    /// Delivers the response of an executed call.
    pub(crate) fn respond(&mut self, at: usize) {
        let (call, response) = self.responses.remove(at);
        self.pass_response(call, response);
    }

    pub(crate) fn pass_response(&mut self, call: CallId, response: Response) {
        self.note(Seen::Responded(call, response.clone()));
        self.handle(Input::Response { call, response });
    }

    /// Responds to the first open call, which is not executed.
    pub(crate) fn respond_with(&mut self, response: Response) {
        let call = self.open_calls.remove(0);
        self.pass_response(call.id, response);
    }

    /// Pulls outputs up to a wait, and returns the reasons of the calls.
    pub(crate) fn pull(&mut self) -> (Vec<&'static str>, WaitReason) {
        let mut reasons = Vec::new();
        loop {
            match self.poll() {
                Output::Call(call) => reasons.push(call.request.reason.name()),
                Output::Wait(wait) => return (reasons, wait.why),
                _ => {}
            }
        }
    }

    /// A client changes an object.
    pub(crate) fn edit(&mut self, object: &Object, change: impl FnOnce(&mut ObjectMeta)) {
        let mut meta = object.live(&self.server).expect("it exists");
        change(&mut meta);
        let kind = id(&self.server, object.kind);
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        let response = self
            .server
            .update(kind, &namespace, &name, StoredObject::from(meta));
        assert!(response.is_success(), "{response:?}");
    }

    /// A client creates an object.
    pub(crate) fn create(&mut self, object: &Object) {
        let (kind, meta) = (id(&self.server, object.kind), &object.meta);
        let response =
            self.server
                .create_with_uid(kind, &meta.namespace, meta.clone().into(), meta.uid.clone());
        assert!(response.is_success(), "{response:?}");
    }

    pub(crate) fn tick(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.server.set_now(self.now);
        self.note(Seen::Ticked);
        self.handle(Input::Tick);
    }

    /// Stops the collector and starts a new one. Calls that were not executed are dropped.
    pub(crate) fn restart(&mut self) {
        self.collector = Collector::new(self.settings.clone());
        self.watches.clear();
        self.open_calls.clear();
        self.responses.clear();
        self.waiting = None;
        self.note(Seen::Began);
    }

    fn handle(&mut self, input: Input) {
        self.waiting = None;
        self.collector
            .handle(self.now, input)
            .expect("responses belong to open calls, and time never goes back");
        self.note_conclusions();
    }

    fn note_conclusions(&mut self) {
        for (object, conclusion) in self.collector.take_conclusions() {
            self.note(Seen::Concluded(object, conclusion));
        }
    }

    fn note(&mut self, seen: Seen) {
        self.trace.push((self.now, seen));
    }

    /// Executes every step in order until the collector waits for a time: changes are delivered before the
    /// next call.
    pub(crate) fn settle_now(&mut self) -> Wait {
        loop {
            let output = self.poll();
            let responded = !self.open_calls.is_empty();
            while !self.open_calls.is_empty() {
                self.commit(0);
                self.respond(0);
            }
            let delivered = self.deliver_all();
            if let Output::Wait(wait) = output
                && !delivered
                && !responded
            {
                return wait;
            }
        }
    }

    /// Continues in order until the collector makes a matching call, which is pulled and not executed.
    /// Returns false if it never does.
    pub(crate) fn run_to(&mut self, fits: impl Fn(&Request) -> bool) -> bool {
        let end = self.now.saturating_add(Duration::from_secs(120));
        loop {
            match self.poll() {
                Output::Call(call) if fits(&call.request) => return true,
                Output::Call(_) => {
                    self.commit(self.open_calls.len() - 1);
                    self.respond(0);
                    self.deliver_all();
                }
                Output::Wait(wait) => {
                    let delivered = self.deliver_all();
                    match wait.until {
                        _ if delivered => {}
                        Some(until) if until <= end => self.tick(until),
                        _ => return false,
                    }
                }
                _ => {}
            }
        }
    }

    /// Delivers all pending watch events. Returns whether there were any.
    pub(crate) fn deliver_all(&mut self) -> bool {
        let mut any = false;
        loop {
            let fresh: Vec<MonitorId> = self.with_pending_events().collect();
            if fresh.is_empty() {
                return any;
            }
            any = true;
            for monitor in fresh {
                self.deliver(monitor);
            }
        }
    }

    pub(crate) fn with_pending_events(&self) -> impl Iterator<Item = MonitorId> {
        self.watches
            .iter()
            .filter(|(_, watch)| self.has_pending_events(watch))
            .map(|(&monitor, _)| monitor)
    }

    /// The same, and advances the time for two minutes at most.
    pub(crate) fn settle(&mut self) -> Wait {
        let end = self.now.saturating_add(Duration::from_secs(120));
        loop {
            let wait = self.settle_now();
            match wait.until {
                Some(until) if until <= end => self.tick(until),
                _ => return wait,
            }
        }
    }

    /// All executed writes with their responses, since a position of the trace.
    pub(crate) fn writes(&self, since: usize) -> Vec<(&Request, &Response)> {
        self.calls(since)
            .into_iter()
            .filter(|(request, _)| request.operation.is_write())
            .collect()
    }

    /// All calls with a response, since a position of the trace.
    pub(crate) fn calls(&self, since: usize) -> Vec<(&Request, &Response)> {
        let mut open_calls = BTreeMap::new();
        let mut calls = Vec::new();
        for (_, seen) in &self.trace[since..] {
            match seen {
                Seen::Pulled(call) => {
                    open_calls.insert(call.id, &call.request);
                }
                Seen::Responded(id, response) => {
                    calls.extend(open_calls.get(id).map(|&request| (request, response)))
                }
                _ => {}
            }
        }
        calls
    }

    /// The conclusions of the attempts at an object.
    pub(crate) fn conclusions(&self, uid: &str) -> Vec<&Conclusion> {
        self.trace
            .iter()
            .filter_map(|(_, seen)| match seen {
                Seen::Concluded(object, conclusion) if object.uid == *uid => Some(conclusion),
                _ => None,
            })
            .collect()
    }
}

/// Executes a call.
pub(crate) fn perform(server: &mut ApiServer, collector: &Collector, request: &Request) -> Response {
    let resource = &collector.catalog()[request.kind];
    let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
        return Response::NotFound;
    };
    let (namespace, name) = (&*request.target.namespace, &*request.target.name);
    let response = match &request.operation {
        Operation::Get => {
            let found = server.object(kind, namespace, name);
            return found.map_or(Response::NotFound, |object| {
                Response::Found(object.meta.clone().into())
            });
        }
        Operation::Delete { wire, propagation } => {
            let options = DeleteOptionsSpec {
                propagation_policy: Some(propagation.as_str().to_owned()),
                preconditions: Some(wire.clone()),
                ..DeleteOptionsSpec::default()
            };
            server.delete(kind, namespace, name, &options)
        }
        Operation::Patch { format, body, .. } => {
            server.patch(kind, namespace, name, format.content_type(), body)
        }
        Operation::Put { read_at, finalizers } => match server.object(kind, namespace, name) {
            None => return Response::NotFound,
            Some(object) => {
                let mut written = StoredObject::clone(object);
                written.meta.resource_version = read_at.clone();
                written.meta.finalizers.clone_from(finalizers);
                server.update(kind, namespace, name, written)
            }
        },
    };
    received(&response)
}

fn received(response: &kubegc_sim::Response) -> Response {
    match response.code {
        200..300 => Response::Applied(response.object().map(|object| object.meta.clone().into())),
        404 => Response::NotFound,
        409 => Response::Conflict,
        415 => Response::UnsupportedMediaType,
        422 => Response::Invalid,
        400..500 => Response::Refused { retry_after: None },
        _ => Response::Unknown,
    }
}
