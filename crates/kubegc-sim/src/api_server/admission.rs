//! Admission webhooks that cannot be reached: they refuse the requests that match.
//!
//! Reachable webhooks are assumed to allow every request and to change nothing.

use std::sync::Arc;

use kubegc_core::{KindId, LabelSelector, ObjectMeta, RequestAttributes, RequestMatcher, admission::Webhook};

use super::{
    ApiServer,
    kinds::Special,
    write::{Part, Request, Write},
};
use crate::{
    StoredObject,
    status::{self, Refusal, RefusedBy, Result},
    types,
};

/// The API group of webhook configurations and policies. Requests about these are not admitted by others.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// A webhook that the API server calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdmissionWebhook {
    pub kind: Arc<str>,
    /// Name of its configuration. Once that is deleted, the webhook is not called.
    pub configuration: Arc<str>,
    /// Why it cannot be reached; `None` if it can. Once its Service is deleted, it cannot.
    pub failure: Option<Arc<str>>,
    pub webhook: Webhook,
}

/// The failure of a call to a Service that does not exist, as the API server words it.
pub fn service_not_found(name: &str) -> Arc<str> {
    format!("service {} not found", status::quoted(name)).into()
}

/// The refusal of a request whose webhook cannot be called.
pub(super) fn failed(webhook: &Webhook, why: &str) -> Refusal {
    let name = status::quoted(&webhook.name);
    let refusal = status::internal_error(&format!("failed calling webhook {name}: {why}"));
    refusal.by(RefusedBy::Webhook(Arc::clone(&webhook.name)))
}

impl ApiServer {
    /// The same server, with webhooks.
    #[must_use]
    pub fn with_webhooks(mut self, mut webhooks: Vec<AdmissionWebhook>) -> Self {
        webhooks.retain(|one| one.webhook.refuses_on_failure);
        self.webhooks = Arc::new(webhooks);
        self
    }

    /// Refuses a request if a required webhook cannot be reached.
    ///
    /// # Upstream
    /// `ShouldCallHook` in
    /// [`generic/webhook.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go),
    /// `MatchNamespaceSelector` in `namespace/matcher.go`, `MatchObjectSelector` in `object/matcher.go`.
    pub(super) fn admit(&self, request: Request<'_>) -> Result<()> {
        let unreachable = self.webhooks.iter();
        let mut unreachable = unreachable.filter_map(|one| Some((&one.webhook, one.failure.as_ref()?)));
        match unreachable.find(|(webhook, _)| self.is_called(webhook, request)) {
            Some((webhook, failure)) => Err(failed(webhook, failure)),
            None => Ok(()),
        }
    }

    /// Admits an object that is to be written. Returns warnings.
    pub(super) fn admit_object(&mut self, write: Write<'_>) -> Result<Vec<String>> {
        let request = Request::new(write.kind, write.part, write.old, Some(write.new));
        self.admit(request)?;
        let is_whole = write.part == Part::Whole;
        let mut warnings = Vec::new();
        if is_whole {
            warnings.extend(self.warnings_of(write));
        }
        if write.part.is_reviewed() {
            warnings.extend(self.call_validating(request)?);
        }
        self.charge_quotas(write)?;
        if is_whole && self.schema(write.kind).is_some() {
            types::admission::refuse(self, self.resource(write.kind), write.new, write.old)?;
        }
        Ok(warnings)
    }

    /// Admits the deletion of an object. Returns warnings.
    pub(super) fn admit_deletion(
        &mut self,
        kind: KindId,
        existing: &StoredObject,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let request = Request {
            dry_run,
            ..Request::new(kind, Part::Whole, Some(existing), None)
        };
        self.admit(request)?;
        self.mutate(request, None, |_| Ok(()))?;
        self.call_validating(request)
    }

    pub(super) fn is_called(&self, webhook: &Webhook, request: Request<'_>) -> bool {
        *self.resource(request.kind).group != *GROUP
            && self.matches_rules(&webhook.rules, webhook.matches_equivalent, request)
            && self.is_in_namespace(&webhook.namespace_selector, request)
            && request.metas().any(|meta| webhook.object_selector.matches(meta))
    }

    /// Whether one of these rules matches a request, or with `matches_equivalent` the same request in another
    /// group or version.
    pub(super) fn matches_rules(
        &self,
        rules: &[RequestMatcher],
        matches_equivalent: bool,
        request: Request<'_>,
    ) -> bool {
        let kind = request.kind;
        let matches = |resource: &kubegc_core::ApiResource| {
            let request = RequestAttributes {
                verb: request.operation(),
                group: &resource.group,
                version: &resource.version,
                resource: &resource.resource,
                subresource: request.part.subresource(),
                scope: Some(resource.scope),
                name: request.object().map_or("", |object| &*object.meta.name),
                ..RequestAttributes::default()
            };
            rules.iter().any(|rule| rule.matches(&request))
        };
        let equivalent = || {
            let others = self.shape.catalog.iter();
            others
                .filter(|(other, _)| self.serves(*other) && self.share_objects(kind, *other))
                .any(|(_, resource)| matches(resource))
        };
        matches(self.resource(kind)) || matches_equivalent && equivalent()
    }

    /// Whether the labels of the object's namespace match. A Namespace has its own labels. Other
    /// cluster-scoped objects always match.
    pub(super) fn is_in_namespace(&self, selector: &LabelSelector, request: Request<'_>) -> bool {
        let Some(StoredObject { meta: object, .. }) = request.object() else {
            return true;
        };
        if self.special(request.kind) == Special::Namespace {
            return selector.matches(object);
        }
        if object.namespace.is_empty() {
            return true;
        }
        match self.namespace_object(&object.namespace) {
            Some(namespace) => selector.matches(&namespace.meta),
            None => selector.matches(&ObjectMeta::new("", &object.namespace, "")),
        }
    }

    /// Performs requests of the server itself, which no webhook or policy reviews: they use the storage
    /// version.
    pub(super) fn without_webhooks<T>(&mut self, perform: impl FnOnce(&mut Self) -> T) -> T {
        let webhooks = std::mem::take(&mut self.webhooks);
        let conversions = std::mem::take(&mut self.conversions);
        let hooks = self.hooks.take();
        let policies = self.policies.take();
        let result = perform(self);
        self.webhooks = webhooks;
        self.conversions = conversions;
        self.hooks = hooks;
        self.policies = policies;
        result
    }

    /// Follows the removal of a Service, or of the configuration of a webhook, conversion or policy.
    pub(super) fn forget(&mut self, kind: KindId, removed: &ObjectMeta) {
        let is_removed = |service: &Option<(Arc<str>, Arc<str>)>| {
            service
                .as_ref()
                .is_some_and(|(namespace, name)| *namespace == removed.namespace && *name == removed.name)
        };
        let failure = || service_not_found(&removed.name);
        let resource = &self.shape.catalog[kind];
        match self.special(kind) {
            Special::Service => {
                let webhooks = Arc::make_mut(&mut self.webhooks).iter_mut();
                for one in webhooks.filter(|one| is_removed(&one.webhook.service)) {
                    one.failure.get_or_insert_with(failure);
                }
                let conversions = Arc::make_mut(&mut self.conversions).iter_mut();
                for one in conversions.filter(|one| is_removed(&one.service)) {
                    one.failure.get_or_insert_with(failure);
                }
            }
            Special::CustomResourceDefinition => {
                Arc::make_mut(&mut self.conversions).retain(|one| one.definition != removed.name);
            }
            _ if *resource.group == *GROUP => {
                Arc::make_mut(&mut self.webhooks)
                    .retain(|one| one.kind != resource.kind || one.configuration != removed.name);
                if let Some(policies) = &mut self.policies {
                    policies.forget(&resource.kind, &removed.name);
                }
            }
            _ => {}
        }
    }
}
