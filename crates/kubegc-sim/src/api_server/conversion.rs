//! Conversion webhooks that cannot be reached: requests for custom resources at any version other than the
//! storage version fail.
//!
//! Reachable webhooks are assumed to convert every object. With [`Settings::types`](super::Settings::types),
//! a [`Converter`](super::Converter) takes their place.

use std::sync::Arc;

use kubegc_core::{ApiResource, KindId};

use super::ApiServer;
use crate::status::{self, RefusedBy, Result};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConversionWebhook {
    /// Name of the definition. Once that is deleted, the webhook is not called.
    pub definition: Arc<str>,
    pub storage_version: Arc<str>,
    /// Namespace and name of its Service; `None` if it has a URL.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// Its URL, without parameters.
    pub url: Arc<str>,
    /// Why it cannot be reached; `None` if it can. Once its Service is deleted, it cannot.
    pub failure: Option<Arc<str>>,
}

impl ConversionWebhook {
    /// The API server's message about a stored object of this kind.
    ///
    /// # Upstream
    /// `webhookConverter.Convert` in
    /// [`webhook_converter.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go).
    pub fn message(&self, resource: &ApiResource) -> String {
        let Self {
            storage_version, url, ..
        } = self;
        let ApiResource { group, kind, .. } = resource;
        let failure = self.failure.as_deref().unwrap_or_default();
        format!(
            "conversion webhook for {group}/{storage_version}, Kind={kind} failed: \
             Post \"{url}?timeout=30s\": {failure}"
        )
    }
}

impl ApiServer {
    /// The same server, with conversion webhooks.
    #[must_use]
    pub fn with_conversions(mut self, webhooks: Vec<ConversionWebhook>) -> Self {
        self.conversions = Arc::new(webhooks);
        self
    }

    /// Whether a conversion webhook cannot be reached.
    pub fn has_broken_conversions(&self) -> bool {
        self.conversions.iter().any(|one| one.failure.is_some())
    }

    /// The conversion webhook that would have to convert stored objects to the version of a kind, if it
    /// cannot be reached.
    pub fn broken_conversion(&self, kind: KindId) -> Option<&ConversionWebhook> {
        let definition = &self.shape.kinds.get(kind.index())?.definition;
        let mut broken = self.conversions.iter().filter(|one| one.failure.is_some());
        let webhook = broken.find(|one| one.definition == *definition)?;
        (self.resource(kind).version != webhook.storage_version).then_some(webhook)
    }

    /// Whether a list of all objects of a kind fails because they cannot be converted.
    pub fn is_unlistable(&self, kind: KindId) -> bool {
        self.broken_conversion(kind).is_some() && self.len(kind) > 0
    }

    /// The kind in whose version garbage collectors and watchers observe the objects of a kind.
    pub fn watched_as(&self, kind: KindId) -> KindId {
        let known = self.shape.kinds.get(kind.index());
        known.map_or(kind, |known| self.shape.tables[known.table as usize].watched_as)
    }

    /// The kind in the storage version if objects cannot be converted to the version of a kind and the server
    /// serves the storage version; else the kind itself.
    pub fn convertible_kind(&self, kind: KindId) -> KindId {
        let Some(webhook) = self.broken_conversion(kind) else {
            return kind;
        };
        let ApiResource { group, resource, .. } = self.resource(kind);
        self.resolve(group, &webhook.storage_version, resource)
            .unwrap_or(kind)
    }

    /// Refuses a request for stored objects that cannot be converted to the version of a kind.
    pub(super) fn check_conversion(&self, kind: KindId) -> Result<()> {
        match self.broken_conversion(kind) {
            None => Ok(()),
            Some(webhook) => {
                let refusal = status::internal(webhook.message(self.resource(kind)));
                Err(refusal.by(RefusedBy::Conversion(Arc::clone(&webhook.definition))))
            }
        }
    }
}
