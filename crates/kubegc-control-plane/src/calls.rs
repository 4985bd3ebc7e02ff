//! Requests of the garbage collector and deletes of the client.

use std::sync::Arc;

use kubegc_core::{KindId, ObjectRef, PatchType, ResourceVersion, deletion::DeleteOptionsSpec};
use kubegc_objects::{self as objects, Operation, Request};
use kubegc_sim::{ApiServer, Response, StoredObject};

use crate::{Act, Actor, ControlPlane, Step, Why, trace::code_of};

impl ControlPlane {
    /// Performs a request of the garbage collector and records it.
    pub fn perform(&mut self, server: &mut ApiServer, request: &Request) -> objects::Response {
        let catalog = Arc::clone(self.collector().catalog());
        let resource = &catalog[request.kind];
        let (namespace, name) = (&*request.target.namespace, &*request.target.name);
        let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
            return objects::Response::NotFound;
        };
        let (act, response) = match &request.operation {
            Operation::Get => return get(server, kind, namespace, name),
            Operation::Delete { wire, propagation } => {
                let options = DeleteOptionsSpec {
                    propagation_policy: Some(propagation.as_str().to_owned()),
                    preconditions: Some(wire.clone()),
                    ..DeleteOptionsSpec::default()
                };
                let propagation = Some(*propagation);
                let response = server.delete(kind, namespace, name, &options);
                (Act::Delete { propagation }, response)
            }
            Operation::Patch { format, body, .. } => {
                let merge = *format != PatchType::Strategic;
                let response = server.patch(kind, namespace, name, format.content_type(), body);
                (Act::Patch { merge }, response)
            }
            Operation::Put { read_at, finalizers } => {
                let response = put(server, kind, namespace, name, read_at, finalizers);
                (Act::Patch { merge: true }, response)
            }
        };
        let (object, why) = (
            Arc::clone(&request.target),
            Why::Collector(request.reason.clone()),
        );
        let step = Step::new(Actor::GarbageCollector, act, object, code_of(&response), why);
        self.record_step(server, step, None);
        match response.error() {
            None => objects::Response::Applied(response.object().map(|object| object.meta.clone().into())),
            Some(error) => error.into(),
        }
    }

    /// Deletes an object as the client.
    pub fn delete(
        &mut self,
        server: &mut ApiServer,
        kind: KindId,
        object: ObjectRef,
        options: &kubegc_core::DeleteOptions,
        intent: usize,
    ) -> Response {
        let response = server.delete_with(kind, &object.namespace, &object.name, options);
        let propagation = match options.propagation {
            Some(kubegc_core::deletion::Propagation::Policy(policy)) => Some(policy),
            _ => None,
        };
        let (act, why) = (Act::Delete { propagation }, Why::Intent(intent));
        let step = Step::new(Actor::Client, act, object, code_of(&response), why);
        self.record_step(server, step, None);
        self.observe(server);
        response
    }
}

fn get(server: &ApiServer, kind: KindId, namespace: &str, name: &str) -> objects::Response {
    let namespaced = server.catalog()[kind].is_namespaced();
    if namespaced == namespace.is_empty() {
        // Such an address does not exist.
        return objects::Response::NotFound;
    }
    match server.object(kind, namespace, name) {
        Some(_) if server.broken_conversion(kind).is_some() => objects::Response::Unknown,
        Some(object) => objects::Response::Found(object.meta.clone().into()),
        None => objects::Response::NotFound,
    }
}

fn put(
    server: &mut ApiServer,
    kind: KindId,
    namespace: &str,
    name: &str,
    read_at: &ResourceVersion,
    finalizers: &[Arc<str>],
) -> Response {
    let mut object = match server.object(kind, namespace, name) {
        Some(object) => StoredObject::clone(object),
        // The server's own response.
        None => return server.read(kind, namespace, name),
    };
    object.meta.resource_version = read_at.clone();
    object.meta.finalizers = finalizers.to_vec();
    server.update(kind, namespace, name, object)
}
