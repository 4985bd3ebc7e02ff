//! DELETE of a collection: one deletion per object, with the same options.

use std::sync::Arc;

use kubegc_core::{DeleteOptions, KindId, deletion::DeleteOptionsSpec, version::behavior};

use super::{ApiServer, Response};
use crate::{
    Filter, Selector, StoredObject,
    status::{self, Refusal},
};

impl ApiServer {
    /// Deletes the objects of a resource that a selector matches, in one namespace or in all.
    ///
    /// Preconditions apply to each object. The first error other than *not found* ends the deletion and is
    /// the response; objects that were already deleted stay deleted. A successful response contains the list
    /// as it was read.
    ///
    /// # Upstream
    /// `Store.DeleteCollection` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2, with one worker.
    pub fn delete_collection(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteOptionsSpec,
    ) -> Response {
        self.delete_collection_filtered(kind, namespace, &selector.clone().into(), options)
    }

    /// Deletes the objects of a collection that a filter matches: as
    /// [`delete_collection`](Self::delete_collection) does.
    pub fn delete_collection_filtered(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
        options: &DeleteOptionsSpec,
    ) -> Response {
        if let Err(refusal) = self.kind(kind) {
            return refusal.into();
        }
        match options.validate() {
            Ok(options) => self.delete_collection_filtered_with(kind, namespace, filter, &options),
            Err(errors) => status::invalid_delete_options(&errors).into(),
        }
    }

    /// Deletes a collection, with validated options.
    pub fn delete_collection_with(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteOptions,
    ) -> Response {
        self.delete_collection_filtered_with(kind, namespace, &selector.clone().into(), options)
    }

    /// Deletes the objects that a filter matches, with validated options.
    pub fn delete_collection_filtered_with(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
        options: &DeleteOptions,
    ) -> Response {
        self.try_delete_collection(kind, namespace, filter, options)
            .into()
    }

    fn try_delete_collection(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
        options: &DeleteOptions,
    ) -> Result<Response, Refusal> {
        self.kind(kind)?;
        if !self.resource(kind).verbs.delete_collection {
            return Err(status::method_not_allowed(self.resource(kind), None));
        }
        let list = self.try_list(kind, namespace, filter)?;
        self.delete_each(kind, list.items(), options)?;
        Ok(list)
    }

    /// Deletes these objects of a kind, such as those of one page of a list, as
    /// [`delete_collection`](Self::delete_collection) does. A successful response contains them.
    pub fn delete_objects(
        &mut self,
        kind: KindId,
        objects: Vec<Arc<StoredObject>>,
        options: &DeleteOptionsSpec,
    ) -> Response {
        let revision = self.revision;
        let deleted = match options.validate() {
            Err(errors) => Err(status::invalid_delete_options(&errors)),
            Ok(_) if !self.resource(kind).verbs.delete_collection => {
                Err(status::method_not_allowed(self.resource(kind), None))
            }
            Ok(options) => self.delete_each(kind, &objects, &options),
        };
        deleted.map(|()| Response::list(objects, revision)).into()
    }

    fn delete_each(
        &mut self,
        kind: KindId,
        objects: &[Arc<StoredObject>],
        options: &DeleteOptions,
    ) -> Result<(), Refusal> {
        let each_its_own = self.version.has(behavior::COLLECTION_OPTIONS_ARE_COPIED);
        let mut grace = options.grace_period_seconds;
        for object in objects {
            if each_its_own {
                grace = options.grace_period_seconds;
            }
            let mut options = options.clone();
            options.grace_period_seconds = grace;
            match self.delete_object(
                kind,
                &object.meta.namespace,
                &object.meta.name,
                &options,
                &mut grace,
            ) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                // Deleted since the list was read.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}
