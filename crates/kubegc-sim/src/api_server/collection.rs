//! DELETE of a collection: one deletion per object, with the same options.

use std::sync::Arc;

use kubegc_core::{DeleteOptions, KindId, deletion::DeleteOptionsSpec, version::behavior};

use super::{ApiServer, Key, Response, delete::valid};
use crate::{
    Filter, StoredObject,
    status::{self, Result},
};

impl ApiServer {
    /// Deletes the objects of a resource in a namespace (in all of them without one) that match a filter.
    ///
    /// Preconditions apply to each object. The first refusal other than *not found* ends the deletion and is
    /// the response; the objects before it stay deleted. The response to a success is the list as it was
    /// read.
    ///
    /// # Upstream
    /// `Store.DeleteCollection` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2, with one
    /// worker.
    pub fn delete_collection_with(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
        options: &DeleteOptions,
    ) -> Response {
        self.deletes_collections(kind)
            .and_then(|()| self.listed(kind, namespace, filter))
            .and_then(|list| self.delete_listed(kind, list, options))
            .into()
    }

    /// Deletes these objects of a kind, such as those of one page of a list, as
    /// [`delete_collection_with`](Self::delete_collection_with) does.
    pub fn delete_objects(
        &mut self,
        kind: KindId,
        objects: Vec<Arc<StoredObject>>,
        options: &DeleteOptionsSpec,
    ) -> Response {
        let list = Response::list(objects, self.revision);
        valid(self.version, options)
            .and_then(|options| self.delete_listed(kind, list, &options))
            .into()
    }

    fn deletes_collections(&self, kind: KindId) -> Result<()> {
        self.kind(kind)?;
        if self.resource(kind).verbs.delete_collection {
            return Ok(());
        }
        Err(status::method_not_allowed(self.resource(kind), None))
    }

    /// Deletes the objects of a list, and responds with it.
    fn delete_listed(&mut self, kind: KindId, list: Response, options: &DeleteOptions) -> Result<Response> {
        self.deletes_collections(kind)?;
        let each_its_own = self.version.has(behavior::COLLECTION_OPTIONS_ARE_COPIED);
        let mut warnings = self.deletion_warnings(kind, options);
        let mut each = options.clone();
        for object in list.items() {
            if each_its_own {
                each.grace_period_seconds = options.grace_period_seconds;
            }
            let key = Key::new(kind, &object.meta.namespace, &object.meta.name);
            match self.delete_object(key, &mut each) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                Ok((response, _)) => {
                    let mut new = response.warnings;
                    new.retain(|warning| !warnings.contains(warning));
                    warnings.append(&mut new);
                }
                // Deleted since the list was read.
                Err(_) => {}
            }
        }
        Ok(list.with(warnings))
    }
}
