//! Runs the namespace controller against the simulated server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::{
    self as controllers, Controller as _, End, FieldChange, Request, Response, Wire, Write,
};
use kubegc_core::{
    ApiResource, KindId, KubernetesVersion, ObjectRef, StoreError, Timestamp,
    record::{Body, Namespace, ObjectId, Pod, Record, Resource},
    store::Discovered,
};
use kubegc_sim::{ApiServer, Selector, StoredObject};
use serde_json::Value;

use crate::timeline::{Act, Actor, Step, Why};

/// When each terminating namespace is visited next.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceController {
    controller: controllers::NamespaceController,
    visits: BTreeMap<Arc<str>, Visit>,
}

#[derive(Clone, Debug)]
struct Visit {
    at: Timestamp,
    failures: u32,
    /// Whether the visit will find something new for sure.
    certain: bool,
}

impl NamespaceController {
    pub(crate) fn new(version: KubernetesVersion) -> Self {
        Self {
            controller: controllers::NamespaceController::new(version),
            visits: BTreeMap::new(),
        }
    }

    /// A namespace is being deleted since this time.
    pub(crate) fn notice_deletion(&mut self, name: &Arc<str>, deleted_at: Timestamp) {
        let at = deleted_at.saturating_add(self.controller.timing().event_delay);
        self.visits.entry(Arc::clone(name)).or_insert(Visit {
            at,
            failures: 0,
            certain: true,
        });
    }

    /// Something in this namespace is gone: its next visit will see that.
    pub(crate) fn notice_change(&mut self, name: &Arc<str>, _now: Timestamp) {
        if let Some(visit) = self.visits.get_mut(name) {
            visit.certain = true;
        }
    }

    /// When the next visit is that is certain to find something new, or that is not.
    pub(crate) fn next_visit(&self, certain: bool) -> Option<Timestamp> {
        self.visits
            .values()
            .filter(|visit| visit.certain == certain)
            .map(|visit| visit.at)
            .min()
    }

    /// Makes one visit that is due. Answers whether there was one.
    pub(crate) fn act(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        let due = self.visits.iter().find(|(_, visit)| visit.at <= now);
        let Some((name, failures)) = due.map(|(name, visit)| (Arc::clone(name), visit.failures)) else {
            return false;
        };
        let Some(kind) = server.catalog().mapping("v1", "Namespace") else {
            return false;
        };
        let id = ObjectId {
            resource: Resource::Namespaces,
            namespace: "".into(),
            name: Arc::clone(&name),
            uid: server
                .object(kind, "", &name)
                .map(|object| object.meta.uid.clone())
                .unwrap_or_default(),
        };
        let mut sequence = self.controller.steps(id, Wire::AsUpstream, now).begin();
        let mut response = None;
        let end = loop {
            match sequence.next(response.take()) {
                controllers::Step::Perform { request, .. } => {
                    let before = server.revision();
                    let (answer, code) = perform(server, kind, &request);
                    note(server, before, code, &request, &name, now.since(began), steps);
                    response = Some(answer);
                }
                controllers::Step::End(end) => break end,
            }
        };
        let visit = match end {
            End::RequeueAfter { after, .. } => Some((after, 0)),
            End::Failed { .. } => Some((self.retry_after(failures), failures.saturating_add(1))),
            End::Done | End::Kept(_) | End::Unknown(_) | End::Stale(_) => None,
        };
        match visit {
            Some((after, failures)) => {
                // Another visit is certain to help only where time is what is missing: pods that have yet to end.
                let visit = Visit {
                    at: now.saturating_add(after),
                    failures,
                    certain: false,
                };
                self.visits.insert(name, visit);
            }
            None => {
                self.visits.remove(&name);
            }
        }
        true
    }

    /// The delay of a retry after this many failures in a row before.
    fn retry_after(&self, failures: u32) -> Duration {
        let [first, longest] = self.controller.timing().backoff;
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        first.saturating_mul(factor).min(longest)
    }
}

/// Performs a request. Gives the response and its HTTP status.
fn perform(server: &mut ApiServer, kind: KindId, request: &Request) -> (Response, u16) {
    let resolve = |server: &ApiServer, resource: &ApiResource| {
        server
            .resolve(&resource.group, &resource.version, &resource.resource)
            .ok()
    };
    let not_found = (Response::Failed(StoreError::NotFound), 404);
    match request {
        Request::Get { name, .. } => match server.object(kind, "", name) {
            Some(object) => (Response::Object(Box::new(namespace(object))), 200),
            None => not_found,
        },
        Request::Discover => {
            let discovered = Discovered::from(server.discover());
            (Response::Discovered(Arc::new(discovered)), 200)
        }
        Request::List { namespace, .. } => {
            let pods = server.catalog().mapping("v1", "Pod");
            let pods = pods
                .map(|kind| server.objects(kind, Some(namespace)))
                .unwrap_or_default();
            (
                Response::Objects(pods.iter().map(|object| pod(object)).collect()),
                200,
            )
        }
        Request::ListContent { resource, namespace } => match resolve(server, resource) {
            Some(kind) => {
                let objects = server.objects(kind, Some(namespace));
                let metas = objects.iter().map(|object| object.meta.clone());
                (Response::Metadata(metas.collect()), 200)
            }
            None => not_found,
        },
        Request::DeleteCollection {
            resource,
            namespace,
            options,
        } => match resolve(server, resource) {
            Some(kind) => {
                let everything = Selector::everything();
                answer(&server.delete_collection_with(kind, Some(namespace), &everything, options))
            }
            None => not_found,
        },
        Request::DeleteContent {
            resource,
            namespace,
            name,
            options,
        } => match resolve(server, resource) {
            Some(kind) => answer(&server.delete_with(kind, namespace, name, options)),
            None => not_found,
        },
        Request::Write(write) => self::write(server, kind, write),
        _ => (Response::Done, 200),
    }
}

/// Writes the phase or the finalizers of a namespace. Conditions are skipped: no forecast rests on them.
fn write(server: &mut ApiServer, kind: KindId, write: &Write) -> (Response, u16) {
    let name = &write.object.name;
    let Some(object) = server.object(kind, "", name) else {
        return (Response::Failed(StoreError::NotFound), 404);
    };
    let mut changed = StoredObject::clone(object);
    let mut body = changed.body.as_deref().cloned().unwrap_or_default();
    let mut is_changed = false;
    for change in &write.changes {
        let (part, field, value) = match change {
            FieldChange::Phase(phase) => ("status", "phase", Value::from(&**phase)),
            FieldChange::SpecFinalizers(finalizers) => ("spec", "finalizers", serde_json::json!(finalizers)),
            _ => continue,
        };
        body.insert(part.to_owned(), serde_json::json!({ field: value }));
        is_changed = true;
    }
    if !is_changed {
        return (Response::Written(None), 200);
    }
    changed.body = Some(Arc::new(body));
    answer(&match write.subresource {
        "finalize" => server.finalize_namespace(kind, name, changed),
        _ => server.update_status(kind, "", name, changed),
    })
}

/// Adds a step where a request has changed something.
fn note(
    server: &ApiServer,
    before: u64,
    code: u16,
    request: &Request,
    name: &str,
    at: Duration,
    steps: &mut Vec<Step>,
) {
    if server.revision() == before {
        return;
    }
    let act = if matches!(request, Request::DeleteCollection { .. }) {
        Act::DeleteCollection
    } else {
        Act::Update
    };
    let mut step = Step {
        at,
        actor: Actor::NamespaceController,
        act,
        object: ObjectRef::new("v1", "Namespace", "", name, ""),
        code,
        changes: Vec::new(),
        why: Why::NamespaceTerminating,
    };
    super::calls::note_changes(server, before, &mut step);
    steps.push(step);
}

fn namespace(object: &StoredObject) -> Record {
    let finalizers = object
        .at(&["spec", "finalizers"])
        .and_then(|value| value.as_array());
    let finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
    let body = Namespace {
        phase: Arc::<str>::from(object.text_at(&["status", "phase"])).into(),
        finalizers: finalizers.map(Arc::from).collect::<Vec<Arc<str>>>().into(),
        ..Namespace::default()
    };
    Record::new(object.meta.clone(), Body::Namespace(body))
}

fn pod(object: &StoredObject) -> Record {
    let grace = object
        .at(&["spec", "terminationGracePeriodSeconds"])
        .and_then(|value| value.as_i64());
    let body = Pod {
        node_name: Arc::<str>::from(object.text_at(&["spec", "nodeName"])).into(),
        phase: Arc::<str>::from(object.text_at(&["status", "phase"])).into(),
        termination_grace_period_seconds: grace.into(),
        ..Pod::default()
    };
    Record::new(object.meta.clone(), Body::Pod(body))
}

fn answer(response: &kubegc_sim::Response) -> (Response, u16) {
    let error = match response.code {
        200..=299 => {
            let written = response.object().map(|object| Box::new(object.meta.clone()));
            return (Response::Written(written), response.code);
        }
        404 => StoreError::NotFound,
        409 => StoreError::Conflict {
            message: String::new(),
        },
        code => StoreError::Refused {
            code,
            message: String::new(),
            retry_after: None,
        },
    };
    (Response::Failed(error), response.code)
}
