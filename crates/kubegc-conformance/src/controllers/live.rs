//! A controller with the recorder's API server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::{
    Cache, Change, CloudResponse, Context, Controller, Deadlines, Decision, Documents, End, EventRequest,
    Form, Key, Missing, Request, Response, Step, Steps, Wire, Write,
};
use kubegc_core::{
    ApiResource, DeleteOptions, FieldError, PatchType, SharedMeta, StoreError, Timestamp,
    record::{ObjectId, Record, Resource},
    store::Discovered,
};
use kubegc_sim::Manifest;
use kubegc_snapshot::JsonDocuments;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    lines::{
        Line, NO_UID, Order, Recorded, event_line, guard_of, plugin_line, recorded_line, wire_options,
        write_line,
    },
    outside::{cloud_response, plugin},
    server::{Call, Place, Refusal, Server, full_resource, is_expected, list, place},
};
use crate::{Failure, failure::equal};

/// A controller with its cache, and the server.
pub(super) struct Live<'c> {
    pub(super) case: &'c Value,
    controller: &'c dyn Controller,
    pub(super) cache: Cache,
    pub(super) server: Server,
    /// The server before the step.
    before: Server,
    /// Every state of an object that the controller has seen, the newest last.
    seen: BTreeMap<Place, Vec<Value>>,
    deadlines: BTreeMap<Key, Deadlines>,
    /// The response of the cloud provider for which the present key is reconciled again.
    cloud: Option<CloudResponse>,
    pub(super) discovered: Option<Result<Arc<Discovered>, StoreError>>,
    documents: JsonDocuments,
    lines: Vec<Line>,
    /// Facts that the controller reports as unknown.
    unknown: Vec<String>,
    /// The refusals of the step, and their classes as texts.
    refusals: Vec<(String, String)>,
}

/// The results of a reconcile, other than its requests.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The texts of errors, and whether the key is retried with backoff.
    pub(super) errors: Vec<(String, bool)>,
    /// When the key is reconciled again.
    pub(super) requeues: Vec<Duration>,
    /// Codes and messages of objects that are kept.
    pub(super) kept: Vec<(&'static str, String)>,
    /// Whether a decision was dropped because a live read has found something else.
    pub(super) is_dropped: bool,
}

impl Outcome {
    pub(super) fn error(&self) -> Option<&str> {
        self.errors.first().map(|(text, _)| text.as_str())
    }
}

/// The time of cases without one.
const NOON: &str = "2026-06-01T12:00:00Z";

impl<'c> Live<'c> {
    /// A controller whose cache is synced and empty.
    pub(super) fn new(case: &'c Value, controller: &'c dyn Controller) -> Self {
        let resources = controller.info().resources;
        let mut cache = Cache::new(
            resources.iter().copied(),
            controller.info().indexes.iter().copied(),
        );
        for resource in resources {
            cache.set_listed(*resource, Ok(()));
            cache.replace(*resource, Vec::new());
        }
        Self {
            case,
            controller,
            cache,
            server: Server::default(),
            before: Server::default(),
            seen: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            cloud: None,
            discovered: None,
            documents: JsonDocuments::default(),
            lines: Vec::new(),
            unknown: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Replaces the objects of a resource in the cache.
    pub(super) fn cached(&mut self, resource: Resource, objects: &[Value]) -> Result<(), Failure> {
        let mut records = Vec::new();
        for object in objects {
            records.push(self.record(resource, object)?);
        }
        self.cache.replace(resource, records);
        Ok(())
    }

    pub(super) fn stored(&mut self, resource: Resource, objects: &[Value]) {
        for object in objects {
            self.server.put(resource.group(), resource.plural(), object);
        }
    }

    /// The record of an object that the controller observes.
    fn record(&mut self, resource: Resource, object: &Value) -> Result<Record, Failure> {
        let place = place(resource.group(), resource.plural(), object);
        let document = document(resource, object);
        let record = self.documents.read(resource, document.to_string().as_bytes());
        let record = record.map_err(|problem| Failure::unreadable(format!("{place:?}: {problem}")))?;
        self.seen.entry(place).or_default().push(document);
        Ok(record)
    }

    /// Begins a step of the case, with its faults.
    pub(super) fn begin(&mut self, step: &Value) -> Result<(), Failure> {
        self.server.inject(&step["inject"]).map_err(Failure::unreadable)?;
        self.begin_at(&step["now"])
    }

    /// Begins a step of the case, with the faults of the one before.
    pub(super) fn begin_at(&mut self, now: &Value) -> Result<(), Failure> {
        let now = now.as_str().unwrap_or(NOON);
        self.server.now = Timestamp::parse(now).map_err(Failure::unreadable)?;
        self.before = self.server.clone();
        self.lines.clear();
        self.unknown.clear();
        self.refusals.clear();
        Ok(())
    }

    /// Whether the controller reconciles a key because its object is new.
    pub(super) fn is_affected_by(&self, resource: Resource, key: &Key) -> bool {
        let change = Change {
            resource,
            key,
            old: None,
            new: self.cache.get(resource, key),
        };
        let mut keys = Vec::new();
        self.controller.affected(&self.cache, &change, &mut keys);
        keys.contains(key)
    }

    pub(super) fn reconcile_all(&mut self) -> Outcome {
        let mut keys = Vec::new();
        self.controller.keys(&self.cache, &mut keys);
        keys.sort_unstable();
        keys.dedup();
        let (controller, mut all) = (self.controller, Outcome::default());
        for key in keys {
            self.run(&key, &|cx| controller.reconcile(cx, &key), &mut all);
        }
        all
    }

    pub(super) fn reconcile(&mut self, key: &Key) -> Outcome {
        let (controller, mut outcome) = (self.controller, Outcome::default());
        self.run(key, &|cx| controller.reconcile(cx, key), &mut outcome);
        outcome
    }

    /// Performs the decision about a key, and decides again if a live read shows that it is stale.
    pub(super) fn run(
        &mut self,
        key: &Key,
        decide: &dyn Fn(&Context<'_>) -> Decision,
        outcome: &mut Outcome,
    ) {
        self.cloud = None;
        // Each stale decision updates the cache, so 10 attempts are enough for the facts of a case.
        for _ in 0..10 {
            let (none, cloud) = (Deadlines::default(), self.cloud.take());
            let cx = Context {
                cache: &self.cache,
                now: self.server.now,
                wire: Wire::AsUpstream,
                deadlines: self.deadlines.get(key).unwrap_or(&none),
                cloud: cloud.as_ref(),
                queries_cloud: true,
                notes_kept: true,
            };
            let decision = decide(&cx);
            let now = cx.now;
            if let Some(deadlines) = decision.deadlines {
                self.deadlines.insert(key.clone(), deadlines);
            }
            outcome.kept.extend(
                decision
                    .kept
                    .iter()
                    .map(|kept| (kept.reason.code(), kept.reason.to_string())),
            );
            for unknown in &decision.unknown {
                self.record_unknown(&unknown.reason);
            }
            let work = decision.actions.into_iter().map(|action| action.into_steps(true));
            // Each is performed, even if the one before failed.
            let mut is_stale = false;
            for steps in work.chain(decision.steps) {
                is_stale |= self.perform_steps(&steps, outcome);
            }
            if !is_stale {
                outcome
                    .requeues
                    .extend(decision.requeue_at.map(|at| at.since(now)));
                return;
            }
        }
        self.unknown.push("every decision was stale".to_owned());
    }

    fn record_unknown(&mut self, missing: &Missing) {
        // The response of the cloud provider is unknown to upstream as well.
        if !matches!(missing, Missing::Outside { .. }) {
            self.unknown.push(missing.to_string());
        }
    }

    /// Performs steps. Returns whether their key must be reconciled again at once.
    fn perform_steps(&mut self, steps: &Steps, outcome: &mut Outcome) -> bool {
        let mut sequence = steps.begin();
        let mut response = None;
        loop {
            match sequence.next(response.take()) {
                Step::Perform { request, .. } => {
                    response = Some(self.perform(request).unwrap_or_else(Response::Failed));
                }
                Step::End(End::Done) => return false,
                Step::End(End::Kept(reason)) => outcome.kept.push((reason.code(), reason.to_string())),
                Step::End(End::Unknown(missing)) => self.record_unknown(&missing),
                Step::End(End::RequeueAfter { after, .. }) => outcome.requeues.push(after),
                Step::End(End::Failed {
                    message, is_retried, ..
                }) => {
                    outcome.errors.push((self.server_text(&message), is_retried));
                }
                Step::End(End::Cloud(response)) => {
                    self.cloud = Some(response);
                    return true;
                }
                Step::End(End::Stale(found)) => {
                    if self.controller.timing().period.is_some() {
                        // The next reconcile observes it.
                        outcome.is_dropped = true;
                        return false;
                    }
                    for found in found {
                        self.cache.put(found.resource, &found.key, found.record);
                    }
                    return true;
                }
            }
            if response.is_none() {
                return false;
            }
        }
    }

    /// An error's text, with the server's message instead of the class of a refusal.
    fn server_text(&self, message: &str) -> String {
        let mut message = message.to_owned();
        for (class, words) in self
            .refusals
            .iter()
            .filter(|(class, words)| class.ends_with(words))
        {
            message = message.replace(class, words);
        }
        let is_worded = self.refusals.iter().any(|(_, words)| message.contains(words));
        match self
            .refusals
            .iter()
            .rev()
            .find(|(class, _)| message.contains(class))
        {
            Some((class, words)) if !is_worded => message.replace(class, words),
            _ => message,
        }
    }

    fn perform(&mut self, request: Request) -> Result<Response, StoreError> {
        let of = |resource: Resource| (resource.group(), resource.plural());
        Ok(match request {
            Request::Get { resource, key } => {
                let object = self.handle(&call("get", of(resource), &key.namespace, &key.name))?;
                Response::Object(Box::new(self.observe(resource, &object)?))
            }
            Request::List { resource, namespace } => {
                let objects = self.handle(&call("list", of(resource), &namespace, ""))?;
                let records = list(&objects).iter().map(|object| self.observe(resource, object));
                Response::Objects(records.collect::<Result<_, _>>()?)
            }
            Request::Delete { object, options } => {
                let call = call("delete", of(object.resource), &object.namespace, &object.name);
                self.delete(call, &options)?
            }
            Request::Write(write) => self.write(&write)?,
            Request::Event(EventRequest {
                object,
                is_warning,
                reason,
                message,
                ..
            }) => {
                let resource = full_resource(object.resource.group(), object.resource.plural());
                let event_type = if is_warning { "Warning" } else { "Normal" };
                let place = (resource, object.namespace.to_string(), object.name.to_string());
                let line = event_line(place, &object.uid.to_string(), [event_type, &reason, &message]);
                self.lines.push(line);
                Response::Done
            }
            Request::Discover => match &self.discovered {
                Some(discovered) => Response::Discovered(discovered.clone()?),
                None => return Err(StoreError::Unlisted),
            },
            Request::ListContent { resource, namespace } => {
                let objects = self.handle(&call("list", content(&resource), &namespace, ""))?;
                let objects = list(&objects).iter();
                let metadata = objects.map(content_meta).collect::<Result<_, _>>();
                Response::Metadata(metadata.map_err(|problem| self.unreadable(problem))?)
            }
            Request::DeleteCollection {
                resource,
                namespace,
                options,
            } => {
                let call = call("deletecollection", content(&resource), &namespace, "");
                self.delete(call, &options)?
            }
            Request::DeleteContent {
                resource,
                key,
                options,
            } => {
                let call = call("delete", content(&resource), &key.namespace, &key.name);
                self.delete(call, &options)?
            }
            Request::Operate { operation, .. } => {
                let verb = match operation {
                    kubegc_controllers::Operation::DeleteVolume => "delete",
                    kubegc_controllers::Operation::RecycleVolume => "recycle",
                };
                self.lines.push(plugin_line(verb));
                plugin(self.case, &request)
            }
            Request::FindPlugin { .. } | Request::QueryGuard { .. } => plugin(self.case, &request),
            Request::QueryCloud { node, provider_id } => {
                Response::Cloud(cloud_response(self.case, &node, &provider_id))
            }
        })
    }

    fn handle(&mut self, call: &Call) -> Result<Value, StoreError> {
        let result = self.server.handle(call);
        result.map_err(|refusal| self.refused(&refusal))
    }

    fn observe(&mut self, resource: Resource, object: &Value) -> Result<Record, StoreError> {
        let record = self.record(resource, object);
        record.map_err(|failure| self.unreadable(failure))
    }

    fn refused(&mut self, refusal: &Refusal) -> StoreError {
        let error = refusal.error();
        self.refusals.push((error.to_string(), refusal.message.clone()));
        error
    }

    fn unreadable(&mut self, problem: impl ToString) -> StoreError {
        self.unknown.push(problem.to_string());
        StoreError::Unlisted
    }

    fn delete(&mut self, mut call: Call, options: &DeleteOptions) -> Result<Response, StoreError> {
        call.options = wire_options(options);
        self.send(&call, "")
    }

    fn send(&mut self, call: &Call, guard: &str) -> Result<Response, StoreError> {
        let (line, result) = write_line(&mut self.server, call, guard);
        self.lines.push(line);
        let object = result.map_err(|refusal| self.refused(&refusal))?;
        let resource = Resource::ALL.iter().find(|known| known.plural() == call.resource);
        Ok(match resource {
            _ if object.is_null() => Response::Done,
            // A patch is made of the state that is cached or stored.
            Some(resource) if call.verb != "patch" => {
                Response::Written(Some(self.observe(*resource, &object)?.meta))
            }
            _ => Response::Written(None),
        })
    }

    /// Sends a change of an object, computed from the state that its precondition expects.
    fn write(&mut self, write: &Write) -> Result<Response, StoreError> {
        let ObjectId {
            resource,
            namespace,
            name,
            ..
        } = &write.object;
        let is_update = write.form == Form::Update;
        let verb = if is_update { "update" } else { "patch" };
        let of = (resource.group(), resource.plural());
        let mut call = call(verb, of, namespace, name);
        call.subresource = write.subresource.to_owned();
        let stored = self
            .server
            .objects
            .get(&call.place())
            .map(|object| document(*resource, object));
        let mut states: Vec<Value> = self.seen.get(&call.place()).cloned().unwrap_or_default();
        if !is_update {
            states.extend(stored);
        }
        let expected = json!(write.precondition);
        let is_meant = |state: &&Value| is_expected(&expected, state);
        let state = states.iter().rev().find(is_meant).or(states.last());
        let state = state.unwrap_or(&Value::Null);
        let bytes = state.to_string();
        if is_update {
            let body = self.documents.replace(write, bytes.as_bytes());
            let body = body.map_err(|problem| self.unreadable(problem))?;
            call.body = serde_json::from_slice(&body).unwrap_or_default();
            if write.subresource != "finalize" {
                call.body["metadata"]["resourceVersion"] = expected["resourceVersion"].clone();
            }
        } else {
            let patch = self.documents.write(write, bytes.as_bytes());
            let patch = patch.map_err(|problem| self.unreadable(problem))?;
            let (patch_type, patch) = patch.unwrap_or((PatchType::Merge, b"{}".to_vec()));
            call.patch_type = patch_type.content_type().to_owned();
            call.patch = String::from_utf8_lossy(&patch).into_owned();
        }
        self.send(&call, &guard_of(&expected))
    }

    /// Compares the actions with the recorded ones, and performs the recorded ones on the server before the
    /// step.
    pub(super) fn compare(&mut self, actions: &Value, order: Order) -> Result<(), Failure> {
        let recorded: Vec<Recorded> = Vec::deserialize(actions).map_err(Failure::unreadable)?;
        let mut server = self.before.clone();
        let mut expected = Vec::new();
        for recorded in &recorded {
            expected.extend(recorded_line(&mut server, recorded)?);
        }
        let mut got = std::mem::take(&mut self.lines);
        order.sort(&mut expected);
        order.sort(&mut got);
        let texts = |lines: &[Line]| lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
        equal("actions", &texts(&expected), &texts(&got))?;
        // An object without a creation time was not read completely; in recordings it is zero.
        let is_fact = |missing: &&String| !missing.contains("metadata.creationTimestamp");
        let unknown: Vec<&String> = self.unknown.iter().filter(is_fact).collect();
        equal("facts that are not known", &Vec::<&String>::new(), &unknown)?;
        self.server = server;
        Ok(())
    }
}

/// The object as the API serves it. Recordings leave out kind, version and, in places, the uid.
fn document(resource: Resource, object: &Value) -> Value {
    let mut document = object.clone();
    let version = match resource.group() {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    };
    document["apiVersion"] = version.into();
    document["kind"] = resource.kind().into();
    if document["metadata"]["uid"].is_null() {
        document["metadata"]["uid"] = NO_UID.into();
    }
    document
}

fn call(verb: &str, (group, plural): (&str, &str), namespace: &str, name: &str) -> Call {
    Call {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Call::default()
    }
}

fn content(resource: &ApiResource) -> (&str, &str) {
    (&resource.group, &resource.resource)
}

/// The metadata of an object of any kind.
fn content_meta(object: &Value) -> Result<SharedMeta, FieldError> {
    Manifest::read(json!({"metadata": object["metadata"]})).map(|manifest| manifest.object.meta)
}
