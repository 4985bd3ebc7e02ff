//! The controllers: the changes that they observe, and the execution of their requests.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_controllers::{
    CloudResponse, End, Form, Guard, Input, Key, Manager, Output, Reason, Request, Response, Task,
};
use kubegc_core::{
    KindId, ObjectRef, PatchType, StoreError, Timestamp,
    deletion::Propagation,
    record::{ObjectId, Record, Resource},
};
use kubegc_sim::{ApiServer, Event, EventType};

use crate::{
    Act, Actor, Assumptions, ControlPlane, Step, Why, assumptions::Instance, perform::Failure,
    trace::identity,
};

impl ControlPlane {
    pub(crate) fn list_records(&mut self, server: &ApiServer, incomplete: &BTreeSet<Resource>) {
        for resource in self.manager.resources() {
            let mut records = Vec::new();
            if let Ok(kind) = self.requests.kind(server, resource) {
                let objects = server.objects(kind, None).into_iter();
                records.extend(objects.map(|object| self.requests.read(server, resource, kind, &object)));
            }
            let is_complete = !incomplete.contains(&resource);
            list_resource(&mut self.manager, self.now, resource, records, is_complete);
        }
        add_cloud_responses(&mut self.manager, self.now, &self.assumptions);
    }

    pub(crate) fn deliver_to_controllers(
        &mut self,
        server: &ApiServer,
        resource: Resource,
        kind: KindId,
        event: &Event,
    ) {
        let object = &event.object;
        let input = match event.event_type {
            EventType::Deleted => Input::Deleted {
                resource,
                key: Key::from(&object.meta),
                uid: object.meta.uid.clone(),
            },
            EventType::Added | EventType::Modified => Input::Applied {
                resource,
                record: Box::new(self.record(server, resource, kind, event)),
            },
        };
        self.manager.handle(self.now, input);
    }

    /// The record of an object. Only changed fields are read again.
    fn record(&self, server: &ApiServer, resource: Resource, kind: KindId, event: &Event) -> Record {
        let object = &event.object;
        let previous = event.previous.as_ref();
        if let (Some(body), Some(before)) =
            (&object.body, previous.and_then(|previous| previous.body.as_ref()))
            && before.is_shared_with(body)
            && let Some(known) = self.manager.record(&ObjectId::new(resource, &object.meta))
        {
            return Record::new(object.meta.clone(), Arc::clone(&known.body));
        }
        self.requests.read(server, resource, kind, object)
    }

    /// Performs one task of a controller. Returns whether there was one.
    pub(crate) fn reconcile(&mut self, server: &mut ApiServer) -> bool {
        match self.manager.poll_output(self.now) {
            Output::Perform(task) => {
                let id = task.id;
                let end = self.perform_task(server, *task);
                self.observe(server);
                self.manager.handle(self.now, Input::Ended { task: id, end });
                true
            }
            Output::Wait { .. } => false,
        }
    }

    fn perform_task(&mut self, server: &mut ApiServer, task: Task) -> End {
        let (info, trigger) = (task.controller.info(), task.cause);
        let object = task.object.clone();
        if info.name == "namespace-controller" {
            self.outside.shrunk.remove(&object.name);
        }
        task.work.into_steps(false).run(|request, reason| {
            let before = server.revision();
            let (latest, code) = match self.respond(server, request) {
                Ok(latest) => (latest, (200, None)),
                Err(Failure { error, code }) => (Response::Failed(error), code),
            };
            let target = request.object().unwrap_or(&object);
            if matches!(latest, Response::Failed(StoreError::NotFound)) {
                self.note_not_found(request, target);
            }
            if let Some(act) = act(request)
                && (server.revision() != before
                    || code.1.is_some()
                    || reason.is_some() && act != Act::DeleteCollection)
            {
                let reason = reason.unwrap_or_else(|| Reason::new("Reconciled", info.summary));
                if let Some(object) = self.object_ref(server, target) {
                    let why = Why::Controller(Box::new(reason));
                    let step = Step::new(Actor::Controller(info.name), act, object, code, why);
                    self.record_step(server, step, trigger);
                }
            }
            self.observe(server);
            latest
        })
    }

    /// Performs a request, under the assumptions about what lies outside of the server.
    fn respond(&self, server: &mut ApiServer, request: &Request) -> Result<Response, Failure> {
        if let (Request::Discover, Some(discovered)) = (request, &self.discovered) {
            return Ok(Response::Discovered(Arc::clone(discovered)));
        }
        let response = self.requests.respond(server, request, Some(&self.manager))?;
        Ok(match response {
            Response::Guard(_) if self.assumptions.storage_is_deleted => Response::Guard(Guard::Allows),
            response => response,
        })
    }

    fn note_not_found(&mut self, request: &Request, target: &ObjectId) {
        let object = match request {
            Request::Get { resource, key } => ObjectId {
                resource: *resource,
                namespace: Arc::clone(&key.namespace),
                name: Arc::clone(&key.name),
                uid: Default::default(),
            },
            _ => target.clone(),
        };
        self.not_found.insert(object);
    }

    /// The identity of an object, in the version of its resource that controllers use.
    fn object_ref(&self, server: &ApiServer, object: &ObjectId) -> Option<ObjectRef> {
        let kind = self.requests.kind(server, object.resource).ok()?;
        let ObjectId {
            namespace, name, uid, ..
        } = object;
        Some(identity(server, kind, namespace, name, uid))
    }
}

/// Passes the objects of a resource to controllers. If the list may be incomplete, no controller relies on
/// the absence of an object.
pub fn list_resource(
    manager: &mut Manager,
    now: Timestamp,
    resource: Resource,
    mut records: Vec<Record>,
    is_complete: bool,
) {
    let listed = match is_complete {
        true => Ok(std::mem::take(&mut records)),
        false => Err(StoreError::Unlisted),
    };
    let listed = Input::Listed {
        resource,
        records: listed,
    };
    manager.handle(now, listed);
    for record in records {
        let record = Box::new(record);
        manager.handle(now, Input::Applied { resource, record });
    }
}

/// Passes the assumed responses of the cloud provider to controllers that have listed nodes.
pub fn add_cloud_responses(manager: &mut Manager, now: Timestamp, assumptions: &Assumptions) {
    for (name, Instance { exists, is_shutdown }) in &assumptions.cloud {
        let key = Key::cluster(Arc::clone(name));
        let Some(record) = manager.cache().get(Resource::Nodes, &key) else {
            continue;
        };
        let node = record.id(Resource::Nodes);
        let response = CloudResponse {
            node_uid: node.uid.clone(),
            exists: exists.clone(),
            is_shut_down: is_shutdown.clone(),
        };
        manager.handle(now, Input::Cloud { node, response });
    }
}

/// A request as a step of the trace; `None` for reads and Events.
fn act(request: &Request) -> Option<Act> {
    match request {
        Request::Delete { options, .. } | Request::DeleteContent { options, .. } => Some(Act::Delete {
            propagation: match options.propagation {
                Some(Propagation::Policy(policy)) => Some(policy),
                _ => None,
            },
        }),
        Request::DeleteCollection { .. } => Some(Act::DeleteCollection),
        Request::Write(write) => Some(match write.form {
            Form::Patch(PatchType::Strategic) => Act::Patch { merge: false },
            Form::Patch(_) => Act::Patch { merge: true },
            Form::Update => Act::Update,
        }),
        Request::Operate { operation, .. } => Some(Act::Storage(*operation)),
        _ => None,
    }
}
