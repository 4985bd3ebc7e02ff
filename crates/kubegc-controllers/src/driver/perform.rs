//! Performs single requests over an [`ObjectStore`].

use std::sync::Arc;

use kubegc_core::{
    ObjectStore, SharedMeta, StoreError,
    record::{ObjectId, Record, Resource},
    store::Address,
};

use super::{Outside, Resources};
use crate::{Cloud, CloudResponse, DocumentError, Documents, Form, Key, Request, Response, Write};

/// Performs requests over an API server and the systems outside of it.
///
/// A write is based on a read of the object right before. If that is another object, or not at the expected
/// resourceVersion, nothing is sent and the response is a conflict.
#[derive(Clone, Copy, derive_more::Debug)]
pub struct Performer<'a> {
    #[debug(skip)]
    pub store: &'a dyn ObjectStore,
    pub documents: &'a dyn Documents,
    #[debug(skip)]
    pub outside: &'a dyn Outside,
    pub resources: &'a Resources,
}

impl Performer<'_> {
    pub async fn perform(&self, request: &Request) -> Response {
        self.try_perform(request).await.unwrap_or_else(Response::Failed)
    }

    async fn try_perform(&self, request: &Request) -> Result<Response, StoreError> {
        let outside = self.outside;
        Ok(match request {
            Request::Get { resource, key } => {
                let (_, record) = self.read(*resource, key).await?;
                Response::Object(Box::new(record))
            }
            Request::List { resource, namespace } => self.list(*resource, namespace).await?,
            Request::Delete { object, options } => {
                let key = Key::from(object);
                let address = self.address(object.resource, &key)?;
                self.store.delete(address, options).await?;
                Response::Done
            }
            Request::Write(write) => self.write(write).await?,
            Request::Event(event) => {
                outside.record(event).await?;
                Response::Done
            }
            Request::FindPlugin { volume, operation } => {
                let document = self.document(volume).await?;
                Response::Plugin(outside.find_plugin(volume, &document, *operation).await)
            }
            Request::QueryGuard { volume } => {
                let document = self.document(volume).await?;
                Response::Guard(outside.may_delete(volume, &document).await)
            }
            Request::Operate { volume, operation } => {
                let document = self.document(volume).await?;
                Response::Operation(outside.operate(volume, &document, *operation).await)
            }
            Request::QueryCloud { node, provider_id } => {
                let exists = outside.exists(node, provider_id).await;
                // Without an instance there is nothing to be shut down.
                let is_shut_down = match exists {
                    Cloud::Yes => outside.is_shut_down(node, provider_id).await,
                    _ => Cloud::No,
                };
                Response::Cloud(CloudResponse {
                    node_uid: node.uid.clone(),
                    exists,
                    is_shut_down,
                })
            }
            Request::Discover => Response::Discovered(Arc::new(self.store.discover().await?)),
            Request::ListContent { resource, namespace } => {
                let list = self.store.list(resource, Some(namespace)).await?;
                Response::Metadata(list.items.into_iter().map(SharedMeta::from).collect())
            }
            Request::DeleteCollection {
                resource,
                namespace,
                options,
            } => {
                let store = self.store;
                store.delete_collection(resource, namespace, options).await?;
                Response::Done
            }
            Request::DeleteContent {
                resource,
                key,
                options,
            } => {
                let address = Address {
                    resource,
                    namespace: &key.namespace,
                    name: &key.name,
                };
                self.store.delete(address, options).await?;
                Response::Done
            }
        })
    }

    async fn read(&self, resource: Resource, key: &Key) -> Result<(Vec<u8>, Record), StoreError> {
        let document = self.store.get_object(self.address(resource, key)?).await?;
        let record = self.documents.read(resource, &document);
        let name = || format!("{}/{}", resource.kubectl_name(), key.name);
        let record = record.map_err(|error| unreadable(&name(), &error))?;
        Ok((document, record))
    }

    /// Reads the object of this identity.
    async fn document(&self, object: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let (document, record) = self.read(object.resource, &Key::from(object)).await?;
        let is_meant = record.meta.uid == object.uid;
        is_meant.then_some(document).ok_or(StoreError::NotFound)
    }

    async fn list(&self, resource: Resource, namespace: &str) -> Result<Response, StoreError> {
        let api_resource = self.resources.find(resource)?;
        let list = self.store.list_objects(api_resource, Some(namespace)).await?;
        let records = list
            .items
            .iter()
            .map(|document| self.documents.read(resource, document));
        let records: Result<_, DocumentError> = records.collect();
        records
            .map(Response::Objects)
            .map_err(|error| unreadable(resource.plural(), &error))
    }

    async fn write(&self, write: &Write) -> Result<Response, StoreError> {
        let Write { object, .. } = write;
        let key = Key::from(object);
        let (document, record) = self.read(object.resource, &key).await?;
        write.check(&record.meta)?;
        let address = self.address(object.resource, &key)?;
        // The finalize subresource of namespaces does not support patches.
        if write.subresource == "finalize" && write.form == Form::Update {
            let body = self.documents.replace(write, &document);
            let body = body.map_err(|error| unreadable(&object.to_string(), &error))?;
            let written = self.store.replace_subresource(address, write.subresource, &body);
            return Ok(Response::Written(Some(written.await?.into())));
        }
        let patch = self.documents.write(write, &document);
        let patch = patch.map_err(|error| unreadable(&object.to_string(), &error))?;
        let Some((patch_type, body)) = patch else {
            return Ok(Response::Written(Some(record.meta)));
        };
        let store = self.store;
        let written = match write.subresource {
            "" => store.patch(address, patch_type, &body).await?,
            part => store.patch_subresource(address, part, patch_type, &body).await?,
        };
        Ok(Response::Written(Some(written.into())))
    }

    fn address<'o>(&'o self, resource: Resource, key: &'o Key) -> Result<Address<'o>, StoreError> {
        Ok(Address {
            resource: self.resources.find(resource)?,
            namespace: &key.namespace,
            name: &key.name,
        })
    }
}

fn unreadable(what: &str, error: &DocumentError) -> StoreError {
    StoreError::Invalid {
        message: format!("{what} cannot be read: {error}"),
    }
}
