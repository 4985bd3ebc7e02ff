//! The namespace controller on the simulated API server, one request at a time.

use std::sync::Arc;

use kubegc_controllers::{
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
    order: u64,
    documents: JsonDocuments,
}

/// A namespace that is to be reconciled.
#[derive(Clone)]
struct Queued {
    at: Timestamp,
    name: Arc<str>,
    failures: u32,
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
        let mut deleter = Deleter::new(version);
        deleter.follows_discovery_order = true;
        Self {
            deleter,
            queue: Vec::new(),
            reconcile: None,
            order: 0,
            documents: JsonDocuments::default(),
        }
    }

    /// Sets another order in which the resources of a namespace are deleted. Upstream's is the random order of a map.
    pub(super) const fn shuffle(&mut self, seed: u64) {
        self.order = seed;
    }

    /// Enqueues a namespace that has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Timestamp) {
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
        }
    }

    /// Performs one request.
    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
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
            Request::DeleteCollection {
                resource,
                namespace,
                options,
            } => match kind_of(server, &resource.group, &resource.version, &resource.resource) {
                Some(kind) => {
                    let all = Selector::everything();
                    done(&server.delete_collection_with(kind, Some(namespace), &all, options))
                }
                None => Response::Failed(StoreError::NotFound),
            },
            Request::DeleteContent {
                resource,
                namespace,
                name,
                options,
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
                }
            }
            _ => Response::Failed(StoreError::NotSupported {
                operation: "this request",
            }),
        }
    }
}

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
    }
    shuffled
}

fn done(answer: &Answer) -> Response {
    match answer.code {
        ..300 => Response::Done,
        404 => Response::Failed(StoreError::NotFound),
        409 => Response::Failed(StoreError::Conflict {
            message: String::new(),
        }),
        code => Response::Failed(StoreError::Refused {
            code,
            message: String::new(),
            retry_after: None,
        }),
    }
}
