//! A running scenario: API server, collector, client and namespace controller, and the messages between them.
//!
//! The caller decides what happens next; the world performs and records it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kubegc_core::{
    DeleteOptions, KindId, ObjectMeta, PatchType, Preconditions, PropagationPolicy, Timestamp, Uid,
    deletion::Propagation,
};
use kubegc_objects::{
    Call, Collector, Input, Operation, Output, Request, Response, WatchEvent,
    collector::{CallId, InvalidNamespace, MonitorId},
};
use kubegc_sim::{ApiServer, Event, EventType, StoredObject};

use super::{
    client::Client,
    compare::body_without_version,
    namespace_controller::NamespaceController,
    scene::{Scene, start_collector},
};
use crate::Failure;

/// Time without a call after which the client considers the collector idle.
pub(super) const SILENCE: Duration = Duration::from_millis(1600);

#[derive(Clone)]
pub(super) struct World<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) server: ApiServer,
    pub(super) collector: Option<Collector>,
    pub(super) queues: Vec<MonitorQueue>,
    /// Calls that have not taken effect yet.
    pub(super) calls: Vec<InFlight>,
    pub(super) client: Client,
    pub(super) namespaces: NamespaceController,
    pub(super) now: Timestamp,
    pub(super) last_call_at: Timestamp,
    /// Whether the collector may have further output.
    pub(super) can_poll: bool,
    tick_at: Option<Timestamp>,
    /// Since the last checkpoint.
    pub(super) writes: Vec<Write>,
    pub(super) events: Vec<String>,
    workers: u32,
}

/// The list and events that one monitor has not delivered yet.
#[derive(Clone)]
pub(super) struct MonitorQueue {
    pub(super) kind: KindId,
    monitor: MonitorId,
    /// The revision up to which everything was delivered.
    pub(super) cursor: u64,
    listed: bool,
    list: VecDeque<WatchEvent>,
}

#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) call: Call,
    /// For a write that has arrived, its place among the writes.
    pub(super) arrived: Option<usize>,
    /// The uid of the object that the write will remove; its preconditions have been checked.
    removes: Option<Uid>,
}

/// A write of the collector. Its text lacks the code until it takes effect.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// `verb alias detail code`.
    pub(super) text: String,
    /// Content type and body of a patch; policy and expected uid of a delete.
    pub(super) body: String,
}

/// The result of a call, before the collector receives it.
#[derive(Clone)]
pub(super) struct Committed {
    call: CallId,
    response: Response,
}

impl<'a> World<'a> {
    /// The world before the first step, with this many workers of each kind.
    pub(super) fn new(scene: &'a Scene<'a>, server: &ApiServer, workers: u32) -> Result<Self, Failure> {
        let now = server.now();
        let mut world = Self {
            scene,
            server: server.clone(),
            collector: None,
            queues: Vec::new(),
            calls: Vec::new(),
            client: Client::new(now),
            namespaces: NamespaceController::new(server.version(), server.catalog(), now),
            now,
            last_call_at: now,
            can_poll: false,
            tick_at: None,
            writes: Vec::new(),
            events: Vec::new(),
            workers,
        };
        if scene.scenario.collects() {
            world.start_gc()?;
            for queue in 0..world.queues.len() {
                while !world.is_listed(queue) {
                    world.deliver(queue)?;
                }
            }
        }
        Ok(world)
    }

    /// Starts a collector; its lists are not delivered yet.
    pub(super) fn start_gc(&mut self) -> Result<(), Failure> {
        let kinds = self.scene.monitored(self.server.catalog());
        let (collector, monitored) = start_collector(&self.server, self.workers, &kinds, self.now)?;
        let queue = |(monitor, kind)| MonitorQueue {
            kind,
            monitor,
            cursor: 0,
            listed: false,
            list: VecDeque::new(),
        };
        self.queues = monitored.into_iter().map(queue).collect();
        self.collector = Some(collector);
        self.can_poll = true;
        Ok(())
    }

    /// Stops the collector. Its requests in flight never reach the server.
    pub(super) fn stop_gc(&mut self) {
        self.collector = None;
        self.queues.clear();
        self.calls.clear();
        self.can_poll = false;
        self.tick_at = None;
    }

    /// Whether a queue has delivered its list.
    pub(super) fn is_listed(&self, queue: usize) -> bool {
        self.queues[queue].listed && self.queues[queue].list.is_empty()
    }

    /// Whether there is something to deliver.
    pub(super) fn is_behind(&self, queue: usize) -> bool {
        let MonitorQueue { listed, list, .. } = &self.queues[queue];
        !listed || !list.is_empty() || self.next_event(queue).is_some()
    }

    /// The next change that a queue delivers.
    pub(super) fn next_event(&self, queue: usize) -> Option<&Event> {
        let MonitorQueue { kind, cursor, .. } = self.queues[queue];
        self.server.events_since(kind, cursor).ok()?.next()
    }

    /// Delivers one object of the list, or the next change.
    pub(super) fn deliver(&mut self, at: usize) -> Result<(), Failure> {
        let queue = &mut self.queues[at];
        if !queue.listed {
            queue.listed = true;
            queue.cursor = self.server.revision();
            let objects = self.server.objects(queue.kind, None);
            let objects = objects.iter();
            let objects = objects.map(|object| WatchEvent::InitApply(vec![meta(&object.meta)]));
            queue.list = [WatchEvent::Init].into_iter().chain(objects).collect();
            queue.list.push_back(WatchEvent::InitDone);
        }
        let monitor = queue.monitor;
        let mut ready = Vec::new();
        while let Some(event) = queue.list.pop_front() {
            // `Init` and `InitDone` are delivered with the adjacent object.
            let last = matches!(event, WatchEvent::InitApply(_)) && queue.list.len() > 1;
            ready.push(event);
            if last {
                break;
            }
        }
        if ready.is_empty() {
            let Some(event) = self.next_event(at) else {
                return Ok(());
            };
            let (revision, meta) = (event.revision, meta(&event.object.meta));
            ready.push(match event.event_type {
                EventType::Added | EventType::Modified => WatchEvent::Apply(meta),
                EventType::Deleted => WatchEvent::Delete(meta),
            });
            self.queues[at].cursor = revision;
        }
        for event in ready {
            self.handle(Input::Watch { monitor, event })?;
        }
        Ok(())
    }

    pub(super) fn poll(&mut self) {
        let Some(collector) = &mut self.collector else {
            self.can_poll = false;
            return;
        };
        match collector.poll_output() {
            Output::Call(call) => self.calls.push(InFlight {
                call,
                arrived: None,
                removes: None,
            }),
            Output::Event(warning) => {
                let alias = self.scene.alias_of(&warning.dependent.uid).unwrap_or("None");
                self.events.push(format!("{} {alias}", InvalidNamespace::REASON));
            }
            Output::Discover | Output::Watch(_) | Output::Unwatch(_) => {}
            Output::Wait(wait) => {
                self.can_poll = false;
                self.tick_at = wait.until;
            }
        }
    }

    /// A write in flight as `verb alias detail`; `None` for reads.
    pub(super) fn intent(&self, call: &InFlight) -> Option<String> {
        let request = &call.call.request;
        let (verb, detail) = match &request.operation {
            Operation::Get => return None,
            Operation::Delete { propagation, .. } => ("delete", propagation.as_str()),
            Operation::Patch { format, .. } if *format != PatchType::Merge => ("patch", "smp"),
            Operation::Patch { .. } | Operation::Put { .. } => ("patch", "jmp"),
        };
        let stored = self.stored(request).filter(|_| detail == "jmp");
        let uid = stored.map_or(&request.target.uid, |object| &object.meta.uid);
        let alias = self.scene.target_alias(self.server.catalog(), request, uid);
        Some(format!("{verb} {alias} {detail}"))
    }

    /// The stored object that a request is about.
    fn stored(&self, request: &Request) -> Option<&Arc<StoredObject>> {
        let target = &request.target;
        self.server.object(request.kind, &target.namespace, &target.name)
    }

    /// The status code that a call would get now.
    pub(super) fn code_of(&self, call: &InFlight) -> u16 {
        if call.removes.is_some() {
            200
        } else {
            perform(&mut self.server.clone(), &call.call.request).0
        }
    }

    /// Whether a write would remove its object now: a delete, or a patch that takes the last finalizer.
    pub(super) fn would_remove(&self, call: &InFlight) -> bool {
        let request = &call.call.request;
        let (kind, target) = (request.kind, &request.target);
        let is_there = |server: &ApiServer| server.object(kind, &target.namespace, &target.name).is_some();
        let mut after = self.server.clone();
        call.removes.is_some()
            || is_there(&self.server) && perform(&mut after, request).0 == 200 && !is_there(&after)
    }

    /// Whether a patch is to be checked before it removes its object.
    pub(super) fn is_checkable(&self, call: &InFlight) -> bool {
        call.removes.is_none()
            && matches!(call.call.request.operation, Operation::Patch { .. })
            && self.would_remove(call)
    }

    /// Checks a patch that removes the last finalizer of its object. The object is removed later, regardless
    /// of changes until then.
    ///
    /// # Upstream
    /// `Store.Update` skips the update and calls `deleteWithoutFinalizers`, whose only precondition is the
    /// uid; `registry/store.go`, 1.20.2.
    pub(super) fn check(&mut self, at: usize) {
        self.arrive(at);
        let stored = self.stored(&self.calls[at].call.request);
        self.calls[at].removes = stored.map(|object| object.meta.uid.clone());
    }

    /// Delivers a write to the server, where it may take effect later.
    pub(super) fn arrive(&mut self, at: usize) {
        if let Some(intent) = self.intent(&self.calls[at])
            && self.calls[at].arrived.is_none()
        {
            self.calls[at].arrived = Some(self.writes.len());
            self.writes.push(Write {
                text: intent,
                body: body_of(&self.calls[at].call.request),
            });
        }
    }

    /// Makes a call take effect.
    pub(super) fn commit(&mut self, at: usize) -> Committed {
        self.arrive(at);
        let InFlight {
            call,
            arrived,
            removes,
        } = self.calls.remove(at);
        let (code, response) = match removes {
            None => perform(&mut self.server, &call.request),
            Some(uid) => {
                // With the policy Background neither of the collector's finalizers keeps the object. A
                // missing object is not a failure.
                let options = DeleteOptions {
                    preconditions: Preconditions::uid(uid),
                    ..DeleteOptions::policy(PropagationPolicy::Background)
                };
                let (kind, target) = (call.request.kind, &call.request.target);
                let _gone = self
                    .server
                    .delete_with(kind, &target.namespace, &target.name, &options);
                (200, Response::Applied(None))
            }
        };
        if let Some(write) = arrived.and_then(|place| self.writes.get_mut(place)) {
            write.text = format!("{} {code}", write.text);
        }
        self.last_call_at = self.now;
        Committed {
            call: call.id,
            response,
        }
    }

    pub(super) fn respond(&mut self, committed: Committed) -> Result<(), Failure> {
        let Committed { call, response } = committed;
        self.handle(Input::Response { call, response })
    }

    pub(super) fn request(&mut self) {
        if let Some(namespace) = self.client.request(self.scene, &mut self.server, self.now) {
            self.namespaces
                .namespace_changed(&namespace, &mut self.server, self.now);
        }
    }

    /// The next operation of the client.
    pub(super) fn op(&self) -> &'a str {
        self.client.op(self.scene)
    }

    pub(super) fn advance_to(&mut self, until: Timestamp) -> Result<(), Failure> {
        self.now = self.now.max(until);
        self.server.set_now(self.now);
        if self.tick_at.is_some_and(|due| due <= self.now) {
            self.tick_at = None;
            self.handle(Input::Tick)?;
        }
        Ok(())
    }

    /// The next time at which something is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let later = |at: &Timestamp| *at > self.now;
        let client = Some(self.client.ready_at).filter(later);
        let namespaces = self.namespaces.next_at().filter(later);
        self.tick_at.into_iter().chain(client).chain(namespaces).min()
    }

    /// Whether the collector only waits, and for longer than [`SILENCE`].
    pub(super) fn is_silent(&self) -> bool {
        let settled = !self.can_poll
            && self.calls.is_empty()
            && (0..self.queues.len()).all(|queue| !self.is_behind(queue));
        settled
            && self.client.ready_at <= self.now
            && self
                .tick_at
                .is_none_or(|due| due.since(self.last_call_at) > SILENCE)
    }

    pub(super) fn describe(&self) -> String {
        let calls = self.calls.iter().map(|call| {
            let target = call.call.request.target.short();
            let read = || format!("get {target} ({})", call.call.request.reason.name());
            format!(
                "{}{}",
                self.intent(call).unwrap_or_else(read),
                if call.arrived.is_some() { " (arrived)" } else { "" }
            )
        });
        let behind = (0..self.queues.len()).filter(|&queue| self.is_behind(queue));
        let behind = behind.map(|queue| {
            self.server.catalog()[self.queues[queue].kind]
                .resource
                .to_string()
        });
        format!(
            "{} calls of the client completed; writes: {:?}; in flight: {:?}; undelivered: {:?}",
            self.client.calls.len(),
            self.writes
                .iter()
                .map(|write| write.text.as_str())
                .collect::<Vec<_>>(),
            calls.collect::<Vec<_>>(),
            behind.collect::<Vec<_>>(),
        )
    }

    fn handle(&mut self, input: Input) -> Result<(), Failure> {
        let Some(collector) = &mut self.collector else {
            return Ok(());
        };
        self.can_poll = true;
        collector.handle(self.now, input).map_err(Failure::unreadable)
    }
}

fn meta(meta: &ObjectMeta) -> Arc<ObjectMeta> {
    Arc::new(meta.clone())
}

/// Performs a call. Returns the HTTP status and the response.
fn perform(server: &mut ApiServer, request: &Request) -> (u16, Response) {
    let (kind, namespace, name) = (request.kind, &*request.target.namespace, &*request.target.name);
    // There is no such path: a read of a cluster-scoped object in a namespace, or the reverse.
    if server.catalog()[kind].is_namespaced() == namespace.is_empty() {
        return (404, Response::NotFound);
    }
    let response = match &request.operation {
        Operation::Get => server.read(kind, namespace, name),
        Operation::Delete { wire, propagation } => {
            let options = DeleteOptions {
                propagation: Some(Propagation::Policy(*propagation)),
                preconditions: wire.clone(),
                ..DeleteOptions::default()
            };
            server.delete_with(kind, namespace, name, &options)
        }
        Operation::Patch { format, body, .. } => {
            server.patch(kind, namespace, name, format.content_type(), body)
        }
        // Releases before 1.15 only; none of them was recorded.
        Operation::Put { .. } => return (405, Response::Refused { retry_after: None }),
    };
    let object = response.object().map(|object| meta(&object.meta));
    let reported = match response.code {
        ..300 if request.operation == Operation::Get => object.map_or(Response::Unknown, Response::Found),
        ..300 => Response::Applied(object),
        code => kubegc_core::StoreError::from_status(code, "", None).into(),
    };
    (response.code, reported)
}

fn body_of(request: &Request) -> String {
    match &request.operation {
        Operation::Patch { format, body, .. } => {
            format!(
                "{format} {}",
                body_without_version(&String::from_utf8_lossy(body))
            )
        }
        Operation::Delete { wire, propagation } => {
            let uid = wire.uid.as_ref().map(ToString::to_string);
            // Recordings replace the version.
            let version = wire.resource_version.as_ref().map(|_| "<rv>");
            format!("{propagation} uid={uid:?} resourceVersion={version:?}")
        }
        Operation::Get | Operation::Put { .. } => String::new(),
    }
}
