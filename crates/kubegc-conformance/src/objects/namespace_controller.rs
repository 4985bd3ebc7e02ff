//! Runs the namespace controller against the API server of a scenario, one request at a time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::{
    Cache, Context, Controller as _, Deadlines, End, FieldChange, Key, NamespaceController as Controller,
    Request, Response, Sequence, Step, Steps, Wire, Write,
};
use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, PatchType, StoreError, Timestamp,
    record::{Body, Condition, Namespace, Pod, Record, Resource},
};
use kubegc_sim::{ApiServer, Filter, Response as ServerResponse, StoredObject, rng::mix};
use serde_json::{Value, json};

/// The namespace controller with its queue and the sync in progress.
#[derive(Clone)]
pub(super) struct NamespaceController {
    controller: Controller,
    queue: BTreeMap<String, Due>,
    sync: Option<Sync>,
    /// The conditions of all namespaces, whose statuses the scenario does not show.
    conditions: Vec<Condition>,
    /// Seed of the order in which the resources of a namespace are deleted.
    order: u64,
}

#[derive(Clone, Copy)]
struct Due {
    at: Timestamp,
    failures: i32,
}

/// A sync of a namespace, up to the request that is sent next.
struct Sync {
    name: String,
    failures: i32,
    steps: Steps,
    responses: Vec<Response>,
    sequence: Sequence,
    request: Request,
}

impl Clone for Sync {
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
}

impl NamespaceController {
    pub(super) fn new(version: KubernetesVersion) -> Self {
        let mut controller = Controller::new(version);
        controller.follows_discovery_order = true;
        Self {
            controller,
            queue: BTreeMap::new(),
            sync: None,
            conditions: Vec::new(),
            order: 0,
        }
    }

    /// Draws another order in which the resources of a namespace are deleted: upstream iterates over them in
    /// the order of a map.
    pub(super) const fn shuffle(&mut self, seed: u64) {
        self.order = seed;
    }

    /// Enqueues a namespace that has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Timestamp) {
        let at = now.saturating_add(self.controller.timing().event_delay);
        self.enqueue(name, Due { at, failures: 0 });
    }

    /// The time of the next request. A sync in progress is due at once.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.sync.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.queue.values().map(|due| due.at).min()
        }
    }

    /// Sends one request.
    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
        if self.sync.is_none() {
            self.begin(server, now);
        }
        let Some(mut sync) = self.sync.take() else {
            return;
        };
        let response = self.perform(server, &sync.request, now);
        sync.responses.push(response.clone());
        let mut step = sync.sequence.next(Some(response));
        while let Step::Perform {
            request: Request::Discover,
            ..
        } = step
        {
            let response = Response::Discovered(Arc::new(shuffled(server.catalog(), self.order).into()));
            sync.responses.push(response.clone());
            step = sync.sequence.next(Some(response));
        }
        match step {
            Step::Perform { request, .. } => self.sync = Some(Sync { request, ..sync }),
            Step::End(end) => self.end(&sync, &end, now),
        }
    }

    /// Begins the sync of the first namespace that is due.
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
            self.sync = Some(Sync {
                name,
                failures,
                steps,
                responses,
                sequence,
                request,
            });
        }
    }

    fn end(&mut self, sync: &Sync, end: &End, now: Timestamp) {
        let (after, failures) = match end {
            End::RequeueAfter { after, .. } => (*after, 0),
            End::Failed { .. } => {
                let [first, longest] = self.controller.timing().backoff;
                let delay = first.as_secs_f64() * 2_f64.powi(sync.failures);
                (
                    Duration::try_from_secs_f64(delay).unwrap_or(longest).min(longest),
                    sync.failures + 1,
                )
            }
            End::Done | End::Kept(_) | End::Unknown(_) | End::Stale(_) => return,
        };
        let at = now.saturating_add(after);
        self.enqueue(&sync.name, Due { at, failures });
    }

    /// A namespace is in the queue once, at the earliest requested time.
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
            Request::DeleteCollection {
                resource,
                namespace,
                options,
            } => {
                let kind = kind_of(server, resource);
                let everything = Filter::default();
                kind.and_then(|kind| {
                    done(&server.delete_collection_with(kind, Some(namespace), &everything, options))
                })
            }
            Request::DeleteContent {
                resource,
                namespace,
                name,
                options,
            } => {
                let kind = kind_of(server, resource);
                kind.and_then(|kind| done(&server.delete_with(kind, namespace, name, options)))
            }
            Request::Write(write) => {
                let result = self.write(server, write);
                if result.is_ok() && write.subresource == "status" {
                    self.namespace_changed(&write.object.name, now);
                }
                result
            }
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
        }
        if let Some(version) = &write.precondition.resource_version {
            body["metadata"] = json!({"resourceVersion": version.as_str()});
        }
        let (format, body) = (PatchType::Merge.content_type(), body.to_string());
        done(&server.patch_subresource(kind, "", name, write.subresource, format, body.as_bytes()))?;
        self.conditions = conditions.unwrap_or_else(|| std::mem::take(&mut self.conditions));
        let written = server.object(kind, "", name);
        Ok(Response::Written(written.map(|object| object.meta.clone())))
    }
}

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
    }
    shuffled
}

fn done(answer: &ServerResponse) -> Result<Response, StoreError> {
    match answer.code {
        ..300 => Ok(Response::Done),
        code => Err(StoreError::from_status(code, "", None)),
    }
}
