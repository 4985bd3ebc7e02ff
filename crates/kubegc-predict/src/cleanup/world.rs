//! The simulated cluster of a cleanup forecast: the server, its control plane, and the manager of all other controllers.
//!
//! Whoever has something to do does it at once; when nobody has, time goes on to the next instant at which something is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use kubegc_controllers::{
    Documents as _, End, Form, Input, Key, Manager, Missing, Output, Reason, Request, Response, Step, Task,
    driver::{Performer, Resources},
};
use kubegc_core::{
    KindId, ObjectMeta, PatchType, StoreError, Timestamp,
    deletion::Propagation,
    record::{ObjectId, Record, Resource},
    store::Discovered,
};
use kubegc_sim::{ApiServer, Event, EventType, SharedApiServer};
use kubegc_snapshot::JsonDocuments;

use super::{CleanupFrame, Undecided, facts, outside::Storage};
use crate::{
    Cluster, ControlPlane, Turn,
    cluster::{Member, Scope},
    timeline::{Act, Actor, Why},
    world::{World, kubelets::Kubelets, object_ref},
};

/// A bound on the rounds of one run for each object in reach: far more than any needs, so that no cluster keeps a forecast from ending.
const ROUNDS_PER_OBJECT: u64 = 10_000;

/// A running simulation.
pub(super) struct CleanupWorld<'a> {
    cluster: &'a Cluster,
    frame: &'a CleanupFrame,
    scope: &'a Scope,
    shared: SharedApiServer,
    plane: ControlPlane,
    manager: Manager,
    resources: Resources,
    discovered: Arc<Discovered>,
    documents: JsonDocuments,
    /// The resource of each kind that the mechanisms look at.
    kinds: BTreeMap<KindId, Resource>,
    /// How far the controller has seen the changes.
    seen: u64,
    began: Timestamp,
    now: Timestamp,
    gave_up: bool,
    /// Objects of the dump that tasks are about and that are not in reach.
    pub(super) missing: BTreeSet<u32>,
}

impl<'a> CleanupWorld<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        frame: &'a CleanupFrame,
        scope: &'a Scope,
        mut server: ApiServer,
        manager: Manager,
        kubelets: Kubelets,
        now: Timestamp,
    ) -> Self {
        server.set_now(now);
        let catalog = server.catalog();
        let discovered = Discovered::from(catalog.clone());
        let mut kinds = BTreeMap::new();
        for resource in manager.resources() {
            let of_resource = catalog
                .iter()
                .filter(|(_, kind)| *kind.group == *resource.group() && *kind.resource == *resource.plural());
            kinds.extend(of_resource.map(|(id, _)| (id, resource)));
        }
        let plane = ControlPlane::beside_cleaners(&server, cluster.assumptions.clone(), kubelets);
        Self {
            cluster,
            frame,
            scope,
            seen: server.revision(),
            shared: SharedApiServer::new(server),
            plane,
            manager,
            resources: Resources::new(&discovered),
            discovered: Arc::new(discovered),
            documents: JsonDocuments::default(),
            kinds,
            began: now,
            now,
            gave_up: false,
            missing: BTreeSet::new(),
        }
    }

    /// Lets everything happen until a time.
    pub(super) fn run(&mut self, until: Timestamp) {
        let mut rounds = (self.seen + 100).saturating_mul(ROUNDS_PER_OBJECT);
        while rounds > 0 {
            rounds -= 1;
            let turn = self.shared.with(|server| self.plane.step(server));
            self.follow();
            let Turn::Idle { certain_at, retry_at } = turn else {
                continue;
            };
            let due_at = match self.manager.poll_output(self.now) {
                Output::Perform(task) => {
                    self.perform(*task);
                    continue;
                }
                // A simulation asks the cloud provider nothing.
                Output::QueryCloud(_) => continue,
                Output::Wait { until } => until,
            };
            let retry_at = retry_at.filter(|&at| self.plane.has_hope(at));
            let next = certain_at.into_iter().chain(retry_at).chain(due_at).min();
            match next.map(|next| next.max(self.now)) {
                Some(next) if next <= until => self.now = next,
                _ => return,
            }
            self.shared.with(|server| server.set_now(self.now));
        }
        self.gave_up = true;
    }

    /// Performs a task, without its requests about objects of the dump that are not in the simulation.
    fn perform(&mut self, task: Task) {
        let id = task.id;
        let end = if self.are_missing(facts::objects(self.cluster, &task)) {
            End::Done
        } else {
            self.play(task)
        };
        self.follow();
        self.manager.handle(self.now, Input::Ended { task: id, end });
    }

    /// Notes which of these objects are not in the simulation. Gives whether any is not.
    fn are_missing(&mut self, positions: Vec<u32>) -> bool {
        let missing = positions
            .into_iter()
            .filter(|position| self.scope.members.get(position) != Some(&Member::Affected));
        let missing: Vec<u32> = missing.collect();
        let is_any = !missing.is_empty();
        self.missing.extend(missing);
        is_any
    }

    fn play(&mut self, task: Task) -> End {
        let controller = task.controller.info().name;
        let object = task.object.clone();
        let mut sequence = task.work.into_steps(false).begin();
        let mut response = None;
        loop {
            let (request, reason) = match sequence.next(response.take()) {
                Step::Perform { request, reason } => (request, reason),
                Step::End(end) => return end,
            };
            if self.are_missing(facts::touched(self.cluster, &request)) {
                // The simulation is repeated with these objects. Other requests of the task may name more of them.
                response = Some(Response::Failed(StoreError::NotFound));
                continue;
            }
            let answer = self.respond(&request);
            if let (Some(act), Some(reason)) = (act(&request), reason) {
                self.note(
                    controller,
                    act,
                    request.object().unwrap_or(&object),
                    reason,
                    &answer,
                );
            }
            self.follow();
            response = Some(answer);
        }
    }

    fn respond(&self, request: &Request) -> Response {
        let outside = Storage {
            is_deleted: self.frame.storage_is_deleted,
        };
        let performer = Performer {
            store: &self.shared,
            documents: &self.documents,
            outside: &outside,
            resources: &self.resources,
            discovered: Some(&self.discovered),
        };
        // Neither the simulated server nor what is outside of it ever waits.
        let response = performer.perform(request).now_or_never();
        response.unwrap_or_else(|| Response::Failed(StoreError::Unlisted))
    }

    /// Notes a request in the timeline.
    fn note(
        &mut self,
        controller: &'static str,
        act: Act,
        object: &ObjectId,
        reason: Reason,
        response: &Response,
    ) {
        let code = match response {
            Response::Failed(error) => code(error),
            _ => 200,
        };
        let why = Why::Controller(Box::new(reason));
        let plane = &mut self.plane;
        self.shared.with(|server| {
            let found = self.resources.find(object.resource).ok().and_then(|resource| {
                server
                    .resolve(&resource.group, &resource.version, &resource.resource)
                    .ok()
            });
            let Some(kind) = found else { return };
            let mut meta = ObjectMeta::new(&object.namespace, &object.name, "");
            meta.uid = object.uid.clone();
            let object = object_ref(server, kind, &meta);
            plane.note(server, Actor::Controller(controller), act, object, code, why);
        });
    }

    /// Feeds the manager what has changed.
    fn follow(&mut self) {
        let (inputs, seen) = self.shared.with(|server| {
            let mut inputs = Vec::new();
            for change in server.changes_since(self.seen) {
                if let Some(&resource) = self.kinds.get(&change.kind) {
                    inputs.push((resource, change.kind, change.event.clone()));
                }
            }
            let seen = server.revision();
            if seen > self.seen {
                server.prune_events(seen.min(self.plane.delivered()));
            }
            (inputs, seen)
        });
        self.seen = seen;
        for (resource, kind, event) in inputs {
            let object = &event.object;
            let input = match event.event_type {
                EventType::Deleted => Input::Deleted {
                    resource,
                    key: Key::from(&object.meta),
                    uid: object.meta.uid.clone(),
                },
                EventType::Added | EventType::Modified => {
                    let record = Box::new(self.record(resource, kind, &event));
                    Input::Applied { resource, record }
                }
            };
            self.manager.handle(self.now, input);
        }
    }

    /// The record of an object. Its body is read again only where it has changed.
    fn record(&self, resource: Resource, kind: KindId, event: &Event) -> Record {
        let object = &event.object;
        let meta = object.meta.clone();
        let Some(body) = &object.body else {
            return Record::metadata_only(meta);
        };
        let before = event
            .previous
            .as_ref()
            .and_then(|previous| previous.body.as_ref());
        if before.is_some_and(|before| Arc::ptr_eq(before, body))
            && let Some(known) = self.manager.record(&ObjectId::new(resource, &meta))
        {
            return Record::new(meta, known.body.clone());
        }
        let api_resource = self.shared.with(|server| server.catalog()[kind].clone());
        let document = object.to_json(&api_resource).to_string();
        match self.documents.read(resource, document.as_bytes()) {
            Ok(record) => Record::new(meta, record.body),
            Err(_) => Record::metadata_only(meta),
        }
    }

    pub(super) fn undecided(&self) -> Vec<Undecided> {
        let all = self.manager.unknown();
        let all = all.filter(|(_, object, ..)| self.manager.record(object).is_some());
        all.map(|(controller, object, missing, _)| Undecided {
            controller: controller.info().name,
            object: object.clone(),
            missing: missing.clone(),
        })
        .collect()
    }

    /// The objects of the dump about which a controller could not decide at some time.
    pub(super) fn open(&self) -> impl Iterator<Item = Open<'_>> {
        let all = self.manager.unknown();
        all.filter_map(|(controller, object, missing, since)| {
            let controller = controller.info().name;
            Some(Open {
                position: facts::position(self.cluster, object)?,
                controller,
                touches: match (controller, object.resource) {
                    ("statefulset-controller", Resource::StatefulSets) => Touches::Claims,
                    ("cronjob-controller", Resource::CronJobs) => Touches::Nothing,
                    _ => Touches::Itself,
                },
                missing,
                since: since.since(self.began),
            })
        })
    }

    /// Whether an object of the dump is gone, or is being deleted. Nothing happens to one that is not in reach.
    pub(super) fn is_deleted(&self, position: u32) -> bool {
        let is_here = self.scope.members.contains_key(&position);
        let Some(view) = self.cluster.snapshot.view(position as usize).filter(|_| is_here) else {
            return false;
        };
        self.shared.with(|server| {
            let kind = view.kind_id();
            let found = kind.and_then(|kind| server.object(kind, view.namespace(), view.name()));
            found.is_none_or(|found| found.meta.uid != *view.uid() || found.meta.is_deleting())
        })
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.manager.next_at()
    }

    /// What is left of it for the comparison of worlds.
    pub(super) fn into_world(self) -> World {
        let empty = self.cluster.empty_server.clone();
        let server = self.shared.with(|server| std::mem::replace(server, empty));
        World {
            server,
            plane: self.plane,
            gave_up: self.gave_up,
        }
    }
}

/// An object about which a mechanism could not decide.
pub(super) struct Open<'a> {
    /// Where it stands in the dump.
    pub(super) position: u32,
    pub(super) controller: &'static str,
    pub(super) touches: Touches,
    /// The fact that was missing.
    pub(super) missing: &'a Missing,
    /// When that was so first.
    pub(super) since: Duration,
}

/// What a mechanism may bring to an end that looks at an object.
pub(super) enum Touches {
    /// The object.
    Itself,
    /// The claims of the stateful set: those that it gives away go with it, or with its pods.
    Claims,
    /// Nothing that it does not look at by itself.
    Nothing,
}

/// A request as a step of the timeline; `None` for reads and Events.
fn act(request: &Request) -> Option<Act> {
    match request {
        Request::Delete { options, .. } => Some(Act::Delete {
            propagation: match options.propagation {
                Some(Propagation::Policy(policy)) => Some(policy),
                _ => None,
            },
        }),
        Request::Write(write) => Some(match write.form {
            Form::Patch(PatchType::Strategic) => Act::Patch { merge: false },
            Form::Patch(_) => Act::Patch { merge: true },
            Form::Update => Act::Update,
        }),
        Request::Operate { operation, .. } => Some(Act::Storage(*operation)),
        _ => None,
    }
}

/// The HTTP status of an error.
const fn code(error: &StoreError) -> u16 {
    match error {
        StoreError::NotFound => 404,
        StoreError::Conflict { .. } => 409,
        StoreError::Expired => 410,
        StoreError::UnsupportedMediaType => 415,
        StoreError::Invalid { .. } => 422,
        StoreError::Refused { code, .. } => *code,
        _ => 500,
    }
}
