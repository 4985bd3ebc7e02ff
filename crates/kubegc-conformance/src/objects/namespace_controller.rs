<<<<<<< HEAD
//! Runs the namespace controller against the API server of a scenario, one request at a time.
=======
//! The namespace controller on the simulated API server, one request at a time.
>>>>>>> w-judge

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::{
<<<<<<< HEAD
    Cache, Context, Controller as _, Deadlines, End, FieldChange, Key, NamespaceController as Controller,
    Request, Response, Sequence, Step, Steps, Wire, Write,
};
use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, PatchType, StoreError, Timestamp,
    record::{Body, Condition, Namespace, Pod, Record, Resource},
};
use kubegc_sim::{ApiServer, Response as Answer, Selector, StoredObject, rng::mix};
use serde_json::{Value, json};

/// The namespace controller with its queue and the pass in progress.
#[derive(Clone)]
pub(super) struct NamespaceController {
    controller: Controller,
    queue: BTreeMap<String, Due>,
    pass: Option<Pass>,
    /// The conditions of all namespaces, whose statuses the scenario does not show.
    conditions: Vec<Condition>,
    /// Seed of the order in which the resources of a namespace are deleted.
=======
    Cache, Context, Controller, Deadlines, Documents, End, Key, NamespaceController as Deleter, Request,
    Response, Step, Steps, Wire,
};
use kubegc_core::{
    Catalog, KindId, KubernetesVersion, StoreError, Timestamp,
    record::{Record, Resource},
};
use kubegc_sim::{ApiServer, Response as Answer, Selector, rng::mix};
use kubegc_snapshot::JsonDocuments;

/// The controller with its queue, and the reconcile that is under way.
#[derive(Clone)]
pub(super) struct NamespaceController {
    deleter: Deleter,
    queue: Vec<Queued>,
    reconcile: Option<Reconcile>,
    /// The seed of the order of the resources.
>>>>>>> w-judge
    order: u64,
    documents: JsonDocuments,
}

<<<<<<< HEAD
#[derive(Clone, Copy)]
struct Due {
    at: Timestamp,
    failures: i32,
}

/// A pass over a namespace, up to the request that is sent next.
struct Pass {
    name: String,
    failures: i32,
    steps: Steps,
    responses: Vec<Response>,
    sequence: Sequence,
    request: Request,
}

impl Clone for Pass {
    /// Replays the responses to a new sequence.
    fn clone(&self) -> Self {
        let mut sequence = self.steps.begin();
        let responses = self.responses.iter().cloned().map(Some);
        for response in [None].into_iter().chain(responses) {
            sequence.next(response);
        }
        Self {
            name: self.name.clone(),
            failures: self.failures,
            steps: self.steps.clone(),
            responses: self.responses.clone(),
            sequence,
            request: self.request.clone(),
        }
    }
=======
/// A namespace that is to be reconciled.
#[derive(Clone)]
struct Queued {
    at: Timestamp,
    name: Arc<str>,
    failures: u32,
>>>>>>> w-judge
}

/// A reconcile under way. Work cannot be cloned, so it is begun anew for each request, with the responses so far.
#[derive(Clone)]
struct Reconcile {
    of: Queued,
    steps: Steps,
    responses: Vec<Response>,
    /// The next request.
    request: Request,
}

impl NamespaceController {
    pub(super) fn new(version: KubernetesVersion) -> Self {
<<<<<<< HEAD
        let mut controller = Controller::new(version);
        controller.follows_discovery_order = true;
        Self {
            controller,
            queue: BTreeMap::new(),
            pass: None,
            conditions: Vec::new(),
=======
        let mut deleter = Deleter::new(version);
        deleter.follows_discovery_order = true;
        Self {
            deleter,
            queue: Vec::new(),
            reconcile: None,
>>>>>>> w-judge
            order: 0,
            documents: JsonDocuments::default(),
        }
    }

<<<<<<< HEAD
    /// Draws another order in which the resources of a namespace are deleted: upstream goes through them in
    /// the order of a map.
=======
    /// Sets another order in which the resources of a namespace are deleted. Upstream's is the random order of a map.
>>>>>>> w-judge
    pub(super) const fn shuffle(&mut self, seed: u64) {
        self.order = seed;
    }

    /// Enqueues a namespace that has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Timestamp) {
<<<<<<< HEAD
        let at = now.saturating_add(self.controller.timing().event_delay);
        self.enqueue(name, Due { at, failures: 0 });
    }

    /// When there is something to do. A pass in progress is due at once.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.pass.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.queue.values().map(|due| due.at).min()
=======
        self.enqueue(Queued {
            at: now.saturating_add(self.deleter.timing().event_delay),
            name: name.into(),
            failures: 0,
        });
    }

    /// When there is something to do; in the past where there is already.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.reconcile.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.queue.iter().map(|queued| queued.at).min()
>>>>>>> w-judge
        }
    }

    /// Sends one request.
    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
<<<<<<< HEAD
        if self.pass.is_none() {
            self.begin(server, now);
        }
        let Some(mut pass) = self.pass.take() else {
            return;
        };
        let response = self.perform(server, &pass.request, now);
        pass.responses.push(response.clone());
        let mut step = pass.sequence.next(Some(response));
        while let Step::Perform {
            request: Request::Discover,
            ..
        } = step
        {
            let response = Response::Discovered(Arc::new(shuffled(server.catalog(), self.order).into()));
            pass.responses.push(response.clone());
            step = pass.sequence.next(Some(response));
        }
        match step {
            Step::Perform { request, .. } => self.pass = Some(Pass { request, ..pass }),
            Step::End(end) => self.end(&pass, &end, now),
        }
    }

    /// Begins a pass over the first namespace that is due.
    fn begin(&mut self, server: &ApiServer, now: Timestamp) {
        let Some((name, due)) = self.queue.iter().find(|(_, due)| due.at <= now) else {
            return;
        };
        let (name, failures) = (name.clone(), due.failures);
        self.queue.remove(&name);
        let key = Key::cluster(&*name);
        let mut cache = Cache::new([Resource::Namespaces], []);
        cache.put(Resource::Namespaces, &key, self.namespace(server, &name));
        let cx = Context {
            cache: &cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &Deadlines::new(),
            cloud: None,
            failures: 0,
        };
        let Some(steps) = self.controller.reconcile(&cx, &key).steps else {
            return;
        };
        let mut sequence = steps.begin();
        if let Step::Perform { request, .. } = sequence.next(None) {
            let responses = Vec::new();
            self.pass = Some(Pass {
                name,
                failures,
                steps,
                responses,
                sequence,
                request,
            });
        }
    }

    fn end(&mut self, pass: &Pass, end: &End, now: Timestamp) {
        let (after, failures) = match end {
            End::RequeueAfter { after, .. } => (*after, 0),
            End::Failed { .. } => {
                let [first, longest] = self.controller.timing().backoff;
                let delay = first.as_secs_f64() * 2_f64.powi(pass.failures);
                (
                    Duration::try_from_secs_f64(delay).unwrap_or(longest).min(longest),
                    pass.failures + 1,
                )
            }
            End::Done | End::Kept(_) | End::Unknown(_) | End::Stale(_) => return,
        };
        let at = now.saturating_add(after);
        self.enqueue(&pass.name, Due { at, failures });
    }

    /// A namespace is in the queue once, at the earliest time asked for.
    fn enqueue(&mut self, name: &str, new: Due) {
        let known = self.queue.get(name);
        if known.is_none_or(|known| new.at < known.at) {
            self.queue.insert(name.to_owned(), new);
        }
    }

    fn namespace(&self, server: &ApiServer, name: &str) -> Option<Record> {
        let object = server.object(server.catalog().mapping("v1", "Namespace")?, "", name)?;
        let finalizers = object.at(&["spec", "finalizers"]).and_then(Value::as_array);
        let finalizers = finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Arc::from);
        let namespace = Namespace {
            phase: Arc::<str>::from(object.text_at(&["status", "phase"])).into(),
            finalizers: finalizers.collect::<Vec<_>>().into(),
            conditions: self.conditions.clone().into(),
        };
        Some(Record::new(object.meta.clone(), Body::Namespace(namespace)))
    }

    fn perform(&mut self, server: &mut ApiServer, request: &Request, now: Timestamp) -> Response {
        let found = |kind: Option<KindId>| kind.ok_or(StoreError::NotFound);
        let kind_of = |server: &ApiServer, resource: &ApiResource| {
            let ApiResource {
                group,
                version,
                resource,
                ..
            } = resource;
            found(server.catalog().by_resource(group, version, resource))
        };
        let result = match request {
            Request::Get { name, .. } => {
                let namespace = self.namespace(server, name).ok_or(StoreError::NotFound);
                namespace.map(|namespace| Response::Object(Box::new(namespace)))
            }
            Request::List { namespace, .. } => found(server.catalog().mapping("v1", "Pod")).map(|kind| {
                let pods = server.objects(kind, Some(namespace));
                Response::Objects(pods.iter().map(|pod| pod_record(pod)).collect())
            }),
            Request::ListContent { resource, namespace } => kind_of(server, resource).map(|kind| {
                let objects = server.objects(kind, Some(namespace));
                Response::Metadata(objects.iter().map(|object| object.meta.clone()).collect())
            }),
=======
        let reconcile = match self.reconcile.take() {
            Some(mut reconcile) => {
                let response = self.perform(server, &reconcile.request, now);
                reconcile.responses.push(response);
                reconcile
            }
            None => {
                let Some(at) = self.queue.iter().position(|queued| queued.at <= now) else {
                    return;
                };
                let of = self.queue.remove(at);
                let Some(steps) = self.decide(server, &of.name, now) else {
                    return;
                };
                let (responses, request) = (Vec::new(), Request::Discover);
                let reconcile = Reconcile {
                    of,
                    steps,
                    responses,
                    request,
                };
                self.proceed(server, reconcile, now);
                return self.step(server, now);
            }
        };
        self.proceed(server, reconcile, now);
    }

    /// Goes on to the next request to the server, or to the end.
    fn proceed(&mut self, server: &ApiServer, mut reconcile: Reconcile, now: Timestamp) {
        loop {
            let mut sequence = reconcile.steps.begin();
            let mut step = sequence.next(None);
            for response in &reconcile.responses {
                step = sequence.next(Some(response.clone()));
            }
            match step {
                Step::Perform {
                    request: Request::Discover,
                    ..
                } => {
                    let discovered = Arc::new(shuffled(server.catalog(), self.order).into());
                    reconcile.responses.push(Response::Discovered(discovered));
                }
                Step::Perform { request, .. } => {
                    reconcile.request = request;
                    self.reconcile = Some(reconcile);
                    return;
                }
                Step::End(end) => return self.ended(reconcile.of, &end, now),
            }
        }
    }

    fn ended(&mut self, of: Queued, end: &End, now: Timestamp) {
        let (after, failures) = match end {
            End::RequeueAfter { after, .. } => (*after, 0),
            End::Failed { is_retried: true, .. } => {
                let [first, longest] = self.deleter.timing().backoff;
                let factor = 2_u32.saturating_pow(of.failures);
                (first.saturating_mul(factor).min(longest), of.failures + 1)
            }
            _ => return,
        };
        let at = now.saturating_add(after);
        self.enqueue(Queued { at, failures, ..of });
    }

    /// A namespace is queued once, for the earliest time.
    fn enqueue(&mut self, new: Queued) {
        match self.queue.iter_mut().find(|queued| queued.name == new.name) {
            Some(known) if known.at <= new.at => {}
            Some(known) => *known = new,
            None => self.queue.push(new),
        }
    }

    fn decide(&self, server: &ApiServer, name: &Arc<str>, now: Timestamp) -> Option<Steps> {
        let record = self.namespace(server, name).ok()?;
        let mut cache = Cache::new([Resource::Namespaces], []);
        cache.replace(Resource::Namespaces, vec![record]);
        let cx = Context {
            cache: &cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &Deadlines::default(),
            cloud: None,
            failures: 0,
        };
        self.deleter.reconcile(&cx, &Key::cluster(Arc::clone(name))).steps
    }

    /// The namespace, as the server has it.
    fn namespace(&self, server: &ApiServer, name: &str) -> Result<Record, StoreError> {
        let document = document(server, name)?;
        let unreadable = |problem: kubegc_controllers::DocumentError| StoreError::Invalid {
            message: problem.message,
        };
        self.documents
            .read(Resource::Namespaces, &document)
            .map_err(unreadable)
    }

    fn perform(&mut self, server: &mut ApiServer, request: &Request, now: Timestamp) -> Response {
        match request {
            Request::Get { name, .. } => match self.namespace(server, name) {
                Ok(record) => Response::Object(Box::new(record)),
                Err(error) => Response::Failed(error),
            },
            Request::List { resource, namespace } => {
                let kind = kind_of(server, resource.group(), "v1", resource.plural());
                let objects = kind.map(|kind| (kind, server.objects(kind, Some(namespace))));
                let Some((kind, objects)) = objects else {
                    return Response::Failed(StoreError::NotFound);
                };
                let api = &server.catalog()[kind];
                let records = objects.iter().map(|object| {
                    let document = object.to_json(api).to_string();
                    self.documents.read(*resource, document.as_bytes())
                });
                match records.collect() {
                    Ok(records) => Response::Objects(records),
                    Err(problem) => Response::Failed(StoreError::Invalid {
                        message: problem.message,
                    }),
                }
            }
            Request::ListContent { resource, namespace } => {
                match kind_of(server, &resource.group, &resource.version, &resource.resource) {
                    Some(kind) => {
                        let objects = server.objects(kind, Some(namespace));
                        Response::Metadata(objects.iter().map(|object| object.meta.clone()).collect())
                    }
                    None => Response::Failed(StoreError::NotFound),
                }
            }
>>>>>>> w-judge
            Request::DeleteCollection {
                resource,
                namespace,
                options,
<<<<<<< HEAD
            } => {
                let kind = kind_of(server, resource);
                let everything = Selector::everything();
                kind.and_then(|kind| {
                    done(&server.delete_collection_with(kind, Some(namespace), &everything, options))
                })
            }
=======
            } => match kind_of(server, &resource.group, &resource.version, &resource.resource) {
                Some(kind) => {
                    let all = Selector::everything();
                    done(&server.delete_collection_with(kind, Some(namespace), &all, options))
                }
                None => Response::Failed(StoreError::NotFound),
            },
>>>>>>> w-judge
            Request::DeleteContent {
                resource,
                namespace,
                name,
                options,
<<<<<<< HEAD
            } => {
                let kind = kind_of(server, resource);
                kind.and_then(|kind| done(&server.delete_with(kind, namespace, name, options)))
            }
            Request::Write(write) => {
                let result = self.write(server, write);
                if result.is_ok() && write.subresource == "status" {
                    self.namespace_changed(&write.object.name, now);
=======
            } => match kind_of(server, &resource.group, &resource.version, &resource.resource) {
                Some(kind) => done(&server.delete_with(kind, namespace, name, options)),
                None => Response::Failed(StoreError::NotFound),
            },
            Request::Write(write) => {
                let body = document(server, &write.object.name).and_then(|document| {
                    let conflict = |problem: kubegc_controllers::DocumentError| StoreError::Conflict {
                        message: problem.message,
                    };
                    self.documents.replace(write, &document).map_err(conflict)
                });
                let body = body.map(|body| serde_json::from_slice(&body).unwrap_or_default());
                let (Some(kind), Ok(body)) = (kind_of(server, "", "v1", "namespaces"), body) else {
                    let message = "the namespace was changed".to_owned();
                    return Response::Failed(StoreError::Conflict { message });
                };
                let answer = server.update_subresource(kind, "", &write.object.name, write.subresource, body);
                let response = done(&answer);
                if matches!(response, Response::Done) && write.subresource == "status" {
                    self.namespace_changed(&write.object.name, now);
                }
                match answer.object() {
                    Some(object) => Response::Written(Some(Box::new(object.meta.clone()))),
                    None => response,
>>>>>>> w-judge
                }
                result
            }
<<<<<<< HEAD
            other => Err(StoreError::Unknown {
                message: format!("{other} is none of the namespace controller's"),
            }),
        };
        result.unwrap_or_else(Response::Failed)
    }

    fn write(&mut self, server: &mut ApiServer, write: &Write) -> Result<Response, StoreError> {
        let kind = server
            .catalog()
            .mapping("v1", "Namespace")
            .ok_or(StoreError::NotFound)?;
        let name = &write.object.name;
        let mut conditions = None;
        let mut body = json!({});
        for change in &write.changes {
            match change {
                FieldChange::Phase(phase) => body["status"]["phase"] = json!(&**phase),
                FieldChange::Conditions(new) => {
                    let shown = new.iter().map(|condition| {
                        let Condition {
                            condition_type,
                            reason,
                            message,
                            ..
                        } = condition;
                        json!({"type": &**condition_type, "reason": &**reason, "message": &**message})
                    });
                    body["status"]["conditions"] = shown.collect();
                    conditions = Some(new.clone());
                }
                FieldChange::SpecFinalizers(finalizers) => {
                    body["spec"]["finalizers"] = finalizers.iter().map(|name| &**name).collect();
                }
                _ => {}
            }
=======
            _ => Response::Failed(StoreError::NotSupported {
                operation: "this request",
            }),
>>>>>>> w-judge
        }
        if let Some(version) = &write.precondition.resource_version {
            body["metadata"] = json!({"resourceVersion": version.as_str()});
        }
        let (format, body) = (PatchType::Merge.content_type(), body.to_string());
        done(&server.patch_subresource(kind, "", name, write.subresource, format, body.as_bytes()))?;
        self.conditions = conditions.unwrap_or_else(|| std::mem::take(&mut self.conditions));
        let written = server.object(kind, "", name);
        Ok(Response::Written(
            written.map(|object| Box::new(object.meta.clone())),
        ))
    }
}

<<<<<<< HEAD
fn pod_record(object: &StoredObject) -> Record {
    let grace = object.at(&["spec", "terminationGracePeriodSeconds"]);
    let pod = Pod {
        phase: Arc::<str>::from(object.text_at(&["status", "phase"])).into(),
        termination_grace_period_seconds: grace.and_then(Value::as_i64).into(),
        ..Pod::default()
    };
    Record::new(object.meta.clone(), Body::Pod(pod))
}

/// The same kinds in an order drawn by a seed.
fn shuffled(catalog: &Catalog, seed: u64) -> Catalog {
    let rank = |resource: &ApiResource| {
        let name = resource.group.bytes().chain(resource.resource.bytes());
        name.fold(mix(seed), |rank, byte| mix(rank ^ u64::from(byte)))
    };
    let mut resources: Vec<&ApiResource> = catalog.iter().map(|(_, resource)| resource).collect();
    resources.sort_by_key(|resource| rank(resource));
    let mut shuffled = Catalog::new();
    for resource in resources {
        // Each is in the catalog once.
        let _added = shuffled.add(resource.clone());
=======
/// The whole namespace as JSON.
fn document(server: &ApiServer, name: &str) -> Result<Vec<u8>, StoreError> {
    let kind = kind_of(server, "", "v1", "namespaces").ok_or(StoreError::NotFound)?;
    let object = server.object(kind, "", name).ok_or(StoreError::NotFound)?;
    Ok(object.to_json(&server.catalog()[kind]).to_string().into_bytes())
}

fn kind_of(server: &ApiServer, group: &str, version: &str, resource: &str) -> Option<KindId> {
    server.catalog().by_resource(group, version, resource)
}

/// The same resources in an order that depends on a seed.
fn shuffled(catalog: &Catalog, seed: u64) -> Catalog {
    let mut resources: Vec<_> = catalog.iter().map(|(_, resource)| resource).collect();
    resources.sort_by_cached_key(|resource| {
        let name = resource.group.bytes().chain(resource.resource.bytes());
        name.fold(mix(seed), |rank, byte| mix(rank ^ u64::from(byte)))
    });
    let mut shuffled = Catalog::new();
    for resource in resources {
        // Each of them is in the other catalog once.
        let _is_added = shuffled.add(resource.clone());
>>>>>>> w-judge
    }
    shuffled
}

<<<<<<< HEAD
fn done(answer: &Answer) -> Result<Response, StoreError> {
    match answer.code {
        ..300 => Ok(Response::Done),
        404 => Err(StoreError::NotFound),
        409 => Err(StoreError::Conflict {
            message: String::new(),
        }),
        code => Err(StoreError::Refused {
=======
fn done(answer: &Answer) -> Response {
    match answer.code {
        ..300 => Response::Done,
        404 => Response::Failed(StoreError::NotFound),
        409 => Response::Failed(StoreError::Conflict {
            message: String::new(),
        }),
        code => Response::Failed(StoreError::Refused {
>>>>>>> w-judge
            code,
            message: String::new(),
            retry_after: None,
        }),
    }
}
