//! Performs the requests of controllers on the server, without intermediate JSON documents.

use std::sync::Arc;

use kubegc_controllers::{Guard, Manager, Operated, Plugin, Request, Response, Write, driver::Resources};
use kubegc_core::{
    ApiResource, KindId, StoreError,
    record::{ObjectId, Record, Resource},
    store::Discovered,
};
use kubegc_documents::JsonDocuments;
use kubegc_sim::{ApiServer, Filter, StoredObject};
use serde_json::Value;

use crate::trace::{Code, code_of};

/// Performs requests of controllers on a simulated API server.
#[derive(Clone, Debug)]
pub struct Requests {
    resources: Arc<Resources>,
    documents: JsonDocuments,
}

impl Requests {
    /// The version of each resource is the one that discovery prefers.
    pub fn new(discovered: &Discovered) -> Self {
        Self {
            resources: Arc::new(Resources::new(discovered)),
            documents: JsonDocuments::default(),
        }
    }

    /// Performs a request. Events are dropped, and what lies outside of the server is unknown.
    pub fn perform(&self, server: &mut ApiServer, request: &Request) -> Response {
        let response = self.respond(server, request, None);
        response.unwrap_or_else(|failure| Response::Failed(failure.error))
    }

    /// Performs a request with the records that the controllers have cached.
    pub(crate) fn respond(
        &self,
        server: &mut ApiServer,
        request: &Request,
        cache: Option<&Manager>,
    ) -> Result<Response, Failure> {
        Ok(match request {
            Request::Get { resource, key } => {
                let (kind, object) = self.object(server, *resource, &key.namespace, &key.name)?;
                Response::Object(Box::new(self.record(server, *resource, kind, &object, cache)))
            }
            Request::List { resource, namespace } => {
                let kind = self.kind(server, *resource)?;
                let objects = server.objects(kind, Some(namespace));
                let records = objects
                    .iter()
                    .map(|object| self.record(server, *resource, kind, object, cache));
                Response::Objects(records.collect())
            }
            Request::Delete { object, options } => {
                let kind = self.kind(server, object.resource)?;
                done(&server.delete_with(kind, &object.namespace, &object.name, options))?
            }
            Request::Write(write) => self.write_object(server, write)?,
            // The simulation records no Events of controllers.
            Request::Event(_) => Response::Done,
            Request::FindPlugin { volume, .. } => {
                self.volume(server, volume)?;
                Response::Plugin(Plugin::Unknown)
            }
            Request::QueryGuard { volume } => {
                self.volume(server, volume)?;
                Response::Guard(Guard::Unknown)
            }
            Request::Operate { volume, .. } => {
                self.volume(server, volume)?;
                Response::Operation(Operated::Done)
            }
            // A simulation assumes responses, and makes no queries.
            Request::QueryCloud { .. } => return Err(StoreError::Unlisted.into()),
            Request::Discover => Response::Discovered(Arc::new(Discovered::from(server.discover()))),
            Request::ListContent { resource, namespace } => {
                let kind = resolve(server, resource)?;
                let list = server.list(kind, Some(namespace), Filter::default());
                failed(&list)?;
                Response::Metadata(list.items().iter().map(|object| object.meta.clone()).collect())
            }
            Request::DeleteCollection {
                resource,
                namespace,
                options,
            } => {
                let kind = resolve(server, resource)?;
                let everything = Filter::default();
                done(&server.delete_collection_with(kind, Some(namespace), &everything, options))?
            }
            Request::DeleteContent {
                resource,
                key,
                options,
            } => {
                let kind = resolve(server, resource)?;
                done(&server.delete_with(kind, &key.namespace, &key.name, options))?
            }
        })
    }

    /// Changes an object. A patch and an update of the unchanged object have the same effect, because no
    /// other client writes in between.
    fn write_object(&self, server: &mut ApiServer, write: &Write) -> Result<Response, Failure> {
        let ObjectId {
            resource,
            namespace,
            name,
            ..
        } = &write.object;
        let (kind, stored) = self.object(server, *resource, namespace, name)?;
        write.check(&stored.meta)?;
        let mut object = StoredObject::clone(&stored);
        for change in &write.changes {
            if !change.apply_to_metadata(&mut object.meta) {
                let changed = JsonDocuments::change(change, object.body_mut());
                changed.map_err(|error| StoreError::Invalid {
                    message: format!("{} cannot be read: {error}", write.object),
                })?;
            }
        }
        if *resource == Resource::Jobs {
            complete(&mut object);
        }
        if object == *stored {
            return Ok(Response::Written(Some(object.meta)));
        }
        let response = server.update_part(kind, namespace, name, write.subresource, object);
        failed(&response)?;
        let written = response.object().map(|object| object.meta.clone());
        Ok(Response::Written(written))
    }

    /// The record of an object, shared with the cache of the controllers if the cache has observed this
    /// version.
    pub(crate) fn record(
        &self,
        server: &ApiServer,
        resource: Resource,
        kind: KindId,
        object: &StoredObject,
        cache: Option<&Manager>,
    ) -> Record {
        let known = cache.and_then(|cache| cache.record(&ObjectId::new(resource, &object.meta)));
        match known.filter(|known| known.meta.resource_version == object.meta.resource_version) {
            Some(known) => Record::new(object.meta.clone(), Arc::clone(&known.body)),
            None => self.read(server, resource, kind, object),
        }
    }

    pub(crate) fn read(
        &self,
        server: &ApiServer,
        resource: Resource,
        kind: KindId,
        object: &StoredObject,
    ) -> Record {
        let meta = object.meta.clone();
        if object.body.is_none() {
            return Record::metadata_only(meta);
        }
        let fields = object.fields(&server.catalog()[kind]);
        Record::new(meta, self.documents.body(resource, &fields))
    }

    pub(crate) fn kind(&self, server: &ApiServer, resource: Resource) -> Result<KindId, Failure> {
        resolve(server, self.resources.find(resource)?)
    }

    fn object(
        &self,
        server: &ApiServer,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(KindId, Arc<StoredObject>), Failure> {
        let kind = self.kind(server, resource)?;
        let response = server.read(kind, namespace, name);
        failed(&response)?;
        Ok((kind, response.into_object()?))
    }

    fn volume(&self, server: &ApiServer, volume: &ObjectId) -> Result<(), Failure> {
        let (_, object) = self.object(server, volume.resource, &volume.namespace, &volume.name)?;
        if object.meta.uid == volume.uid {
            Ok(())
        } else {
            Err(StoreError::NotFound.into())
        }
    }
}

/// Adds the time at which a Job completed. Upstream writes it with the condition; `kubegc_controllers::job`
/// decides about conditions and counts alone.
fn complete(job: &mut StoredObject) {
    let complete = job.condition("Complete");
    if complete["status"] == "True" {
        let time = complete["lastTransitionTime"].clone();
        if let Some(Value::Object(status)) = job.body_mut().get_mut("status") {
            status.entry("completionTime").or_insert(time);
        }
    }
}

/// An error with the HTTP status code of the response.
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) code: Code,
}

impl From<StoreError> for Failure {
    /// An error without a response of the server.
    fn from(error: StoreError) -> Self {
        let code = error.status().unwrap_or(500);
        Self {
            error,
            code: (code, None),
        }
    }
}

fn failed(response: &kubegc_sim::Response) -> Result<(), Failure> {
    match response.error() {
        None => Ok(()),
        Some(error) => Err(Failure {
            error,
            code: code_of(response),
        }),
    }
}

fn done(response: &kubegc_sim::Response) -> Result<Response, Failure> {
    failed(response).map(|()| Response::Done)
}

fn resolve(server: &ApiServer, resource: &ApiResource) -> Result<KindId, Failure> {
    server
        .resolve(&resource.group, &resource.version, &resource.resource)
        .map_err(|response| match failed(&response) {
            Err(failure) => failure,
            Ok(()) => StoreError::NotFound.into(),
        })
}
