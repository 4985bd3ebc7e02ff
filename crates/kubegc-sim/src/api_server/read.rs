//! Decides what reads answer.

use kubegc_core::KindId;

use super::{ApiServer, Response};
use crate::{Selector, status::Refusal};

impl ApiServer {
    /// Reads one object.
    #[must_use]
    pub fn read(&self, kind: KindId, namespace: &str, name: &str) -> Response {
        self.kind(kind)
            .and_then(|_| self.existing(kind, namespace, name))
            .map(Response::ok)
            .into()
    }

    /// Lists the objects of a resource, or those of one namespace.
    #[must_use]
    pub fn list(&self, kind: KindId, namespace: Option<&str>, selector: &Selector) -> Response {
        self.try_list(kind, namespace, selector).into()
    }

    pub(super) fn try_list(
        &self,
        kind: KindId,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Response, Refusal> {
        self.kind(kind)?;
        let mut items = self.objects(kind, namespace.filter(|_| self.resource(kind).is_namespaced()));
        items.retain(|object| selector.matches(&object.meta));
        Ok(Response::list(items, self.revision))
    }
}
