//! The simulated cluster of a cleanup forecast: the server, its control plane, and the controller of all other mechanisms.
//!
//! Whoever has something to do does it at once; when nobody has, time goes on to the next instant at which something is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use kubegc_core::{
    KindId, ObjectMeta, PatchType, StoreError, Timestamp, deletion::Propagation, store::Discovered,
};
use kubegc_lifecycle::{
    controller::{Controller, Ended, Input, Mechanism, Output, Reason, Task},
    driver::{Documents as _, Execution, Hands, Made, Request, Resources},
    fields::{Fields, Record},
    object::{Call, Form, Object, Resource, Wire},
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
    controller: Controller,
    resources: Resources,
    discovered: Discovered,
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
        controller: Controller,
        kubelets: Kubelets,
        now: Timestamp,
    ) -> Self {
        server.set_now(now);
        let catalog = server.catalog();
        let discovered = Discovered::from(catalog.clone());
        let mut kinds = BTreeMap::new();
        for resource in controller.resources() {
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
            controller,
            resources: Resources::new(&discovered),
            discovered,
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
            let due_at = match self.controller.poll_output(self.now) {
                Output::Perform(task) => {
                    self.perform(*task);
                    continue;
                }
                // A controller that is still asks nothing.
                Output::AskCloud(..) => continue,
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

    /// Carries out a task call by call, unless it is about something that is not here.
    fn perform(&mut self, task: Task) {
        let out_of_reach = facts::objects(self.cluster, &task)
            .into_iter()
            .filter(|position| self.scope.members.get(position) != Some(&Member::Affected));
        let before = self.missing.len();
        self.missing.extend(out_of_reach);
        let id = task.id;
        if self.missing.len() > before {
            let ended = Ended::Done;
            self.controller.handle(self.now, Input::Ended { task: id, ended });
            return;
        }
        let actor = Actor::Cleaner(task.mechanism);
        let outside = Storage {
            is_deleted: self.frame.storage_is_deleted,
        };
        let mut execution = Execution::new(task, self.now);
        let ended = loop {
            let hands = Hands {
                store: &self.shared,
                documents: &self.documents,
                outside: &outside,
                resources: &self.resources,
                discovered: &self.discovered,
                wire: Wire::AsUpstream,
                verifies: false,
            };
            // Neither the simulated server nor the answers from outside ever keep anybody waiting.
            match execution.step(&hands, self.now).now_or_never() {
                Some(Some(made)) => self.note(actor, &made),
                Some(None) => break execution.ended().cloned().unwrap_or(Ended::Stale),
                None => break Ended::Stale,
            }
            self.follow();
        };
        self.follow();
        self.controller.handle(self.now, Input::Ended { task: id, ended });
    }

    /// Notes a call in the timeline.
    fn note(&mut self, actor: Actor, made: &Made) {
        let Some(act) = act(&made.request) else { return };
        let code = code(&made.result);
        let why = Why::Cleaner(Box::new(made.reason.clone()));
        let plane = &mut self.plane;
        self.shared.with(|server| {
            let object = &made.object;
            let found = self.resources.find(object.resource).ok().and_then(|resource| {
                server
                    .resolve(&resource.group, &resource.version, &resource.resource)
                    .ok()
            });
            let Some(kind) = found else { return };
            let mut meta = ObjectMeta::new(&object.namespace, &object.name, "");
            meta.uid = object.uid.clone();
            let object = object_ref(server, kind, &meta);
            plane.note(server, actor, act, object, code, why);
        });
    }

    /// Tells the controller what has changed.
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
                EventType::Deleted => Input::Gone {
                    resource,
                    namespace: Arc::clone(&object.meta.namespace),
                    name: Arc::clone(&object.meta.name),
                    uid: object.meta.uid.clone(),
                },
                EventType::Added | EventType::Modified => {
                    let record = Box::new(self.record(resource, kind, &event));
                    Input::Applied { resource, record }
                }
            };
            self.controller.handle(self.now, input);
        }
    }

    /// An object as the mechanisms read it. Its fields are read anew only where its body is another.
    fn record(&self, resource: Resource, kind: KindId, event: &Event) -> Record {
        let object = &event.object;
        let meta = object.meta.clone();
        let Some(body) = &object.body else {
            return Record::unread(meta);
        };
        let before = event
            .previous
            .as_ref()
            .and_then(|previous| previous.body.as_ref());
        if before.is_some_and(|before| Arc::ptr_eq(before, body))
            && let Some(known) = self.controller.record(&Object::new(resource, &meta))
        {
            let fields = known.fields.clone();
            return Record { meta, fields };
        }
        let api_resource = self.shared.with(|server| server.catalog()[kind].clone());
        let document = object.to_json(&api_resource).to_string();
        let read = self.documents.read(resource, document.as_bytes());
        let fields = read.map_or(Fields::Unread, |record| record.fields);
        Record { meta, fields }
    }

    pub(super) fn undecided(&self) -> Vec<Undecided> {
        let all = self.controller.undecided();
        all.map(|(mechanism, object, reason)| Undecided {
            mechanism,
            object: object.clone(),
            reason: reason.clone(),
        })
        .collect()
    }

    /// The objects of the dump about which a mechanism could not decide at some time.
    pub(super) fn open(&self) -> impl Iterator<Item = Open<'_>> {
        let all = self.controller.undecided_since();
        all.filter_map(|(mechanism, object, reason, since)| {
            Some(Open {
                position: facts::position(self.cluster, object)?,
                mechanism,
                touches: match (mechanism, object.resource) {
                    (Mechanism::StatefulSets, Resource::StatefulSets) => Touches::Claims,
                    (Mechanism::Histories, Resource::CronJobs) => Touches::Nothing,
                    _ => Touches::Itself,
                },
                reason,
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
        self.controller.next_at()
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
    pub(super) mechanism: Mechanism,
    pub(super) touches: Touches,
    /// What was not known.
    pub(super) reason: &'a Reason,
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

/// A call as a step of the timeline; `None` where it is not worth one.
fn act(request: &Request) -> Option<Act> {
    let Request::Call(call) = request else {
        return None;
    };
    match call {
        Call::Delete { options, .. } => Some(Act::Delete {
            propagation: match options.propagation {
                Some(Propagation::Policy(policy)) => Some(policy),
                _ => None,
            },
        }),
        Call::Change { form, .. } => Some(match form {
            Form::Patch(PatchType::Strategic) => Act::Patch { merge: false },
            Form::Patch(_) => Act::Patch { merge: true },
            Form::Replace => Act::Update,
        }),
        Call::Outside { operation, .. } => Some(Act::Storage(*operation)),
        Call::Event { .. } => None,
    }
}

/// The HTTP status that such a result stands for.
const fn code(result: &Result<(), StoreError>) -> u16 {
    match result {
        Ok(()) => 200,
        Err(StoreError::NotFound) => 404,
        Err(StoreError::Conflict { .. }) => 409,
        Err(StoreError::Expired) => 410,
        Err(StoreError::UnsupportedMediaType) => 415,
        Err(StoreError::Invalid { .. }) => 422,
        Err(StoreError::Refused { code, .. }) => *code,
        Err(_) => 500,
    }
}
