//! GET and LIST.

use kubegc_core::KindId;

use super::{ApiServer, Response};
use crate::{Filter, status::Refusal};

impl ApiServer {
    /// Reads one object.
    pub fn read(&self, kind: KindId, namespace: &str, name: &str) -> Response {
        self.kind(kind)
            .and_then(|_| self.existing(kind, namespace, name))
            .map(Response::ok)
            .into()
    }

    /// Lists the objects of a resource, or those of one namespace, that a filter or label selector matches.
    ///
    /// # Errors
    /// In the response: 400 if objects of the kind cannot be selected by one of the fields.
    pub fn list(&self, kind: KindId, namespace: Option<&str>, filter: impl Into<Filter>) -> Response {
        self.try_list(kind, namespace, &filter.into()).into()
    }

    pub(super) fn try_list(
        &self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<Response, Refusal> {
        self.supports(kind, filter)?;
        let mut items = self.objects(kind, namespace.filter(|_| self.resource(kind).is_namespaced()));
        if !items.is_empty() {
            self.check_conversion(kind)?;
        }
        items.retain(|object| self.matches(kind, filter, object));
        Ok(Response::list(items, self.revision))
    }
}
