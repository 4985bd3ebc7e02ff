//! Admission of objects: the chain of its plugins, warnings about accepted objects, and webhooks that cannot
//! be reached. They refuse the requests that match; others are assumed to allow every request.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Behavior, KindId, KubernetesVersion, LabelSelector, ObjectMeta, RequestAttributes, RequestMatcher,
    admission::Webhook,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};
use serde_json::Value;

use super::{
    ApiServer, crd,
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

const FINALIZERS_ARE_WARNED_OF: Behavior = Behavior::since(29, 0, "validator.go of 1.29");
/// The warning asks for a path where the name has a dot.
const PATHS_ARE_PREFERRED: Behavior = Behavior::since(32, 0, "validator.go of 1.32");
const FORMATS_ARE_WARNED_OF: Behavior = Behavior::since(34, 0, "formats.go of 1.34");

/// Names without a domain that Kubernetes itself uses.
const STANDARD: [&str; 3] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];

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

    /// The warnings about an object that is to be written.
    fn warnings_of(&self, write: Write<'_>) -> Vec<String> {
        if self.resource(write.kind).custom {
            of_metadata(self.version, write)
        } else if self.settings.types && self.special(write.kind) == Special::CustomResourceDefinition {
            of_definition(self.version, write)
        } else {
            Vec::new()
        }
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

/// The warnings about the metadata of a custom resource: new finalizers should have a domain.
///
/// # Upstream
/// `validateKubeFinalizerName` in
/// [`validator.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/validator.go).
fn of_metadata(version: KubernetesVersion, write: Write<'_>) -> Vec<String> {
    if !version.has(FINALIZERS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let is_new = |name: &&str| write.old.is_none_or(|old| !old.meta.has_finalizer(name));
    let names = write.new.meta.finalizers.iter().map(|finalizer| &**finalizer);
    let mut names: Vec<&str> = names.filter(is_new).collect();
    names.retain(|name| !name.contains('/') && !STANDARD.contains(name));
    names.sort_unstable();
    names.dedup();
    let warnings = names.into_iter().map(|name| {
        let path = match name.contains('.') && version.has(PATHS_ARE_PREFERRED) {
            true => " including a path (/)",
            false => "",
        };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers",
            status::quoted(name)
        )
    });
    warnings.collect()
}

/// The warnings about a definition: new formats that nothing checks.
///
/// # Upstream
/// `GetUnrecognizedFormats` in
/// [`formats.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apiserver/validation/formats.go).
fn of_definition(version: KubernetesVersion, write: Write<'_>) -> Vec<String> {
    if !version.has(FORMATS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let of = |definition: &StoredObject| {
        let mut found = Vec::new();
        for (_, schema) in crd::validation::schemas(definition) {
            unrecognized_formats(version, &schema, &mut found);
        }
        found
    };
    let known: BTreeSet<String> = write.old.map(of).into_iter().flatten().collect();
    let formats = of(write.new).into_iter();
    formats
        .filter(|format| !known.contains(format))
        .map(|format| format!("unrecognized format {}", status::quoted(&format)))
        .collect()
}

/// Depth is bounded by the parser that read the schema.
fn unrecognized_formats(version: KubernetesVersion, schema: &Value, found: &mut Vec<String>) {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    let format = text("format");
    let is_recognized = match text("type") {
        _ if format.is_empty() => true,
        "" | "string" => crd::is_known_format(version, format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !is_recognized {
        found.push(format.to_owned());
    }
    let one = ["items", "not", "additionalProperties", "additionalItems"];
    let many = ["properties", "patternProperties", "definitions", "dependencies"];
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let one = one
        .into_iter()
        .filter_map(|key| schema.get(key))
        .filter(|below| below.is_object());
    let many = many.into_iter().filter_map(|key| schema.get(key)?.as_object());
    let lists = lists.into_iter().filter_map(|key| schema.get(key)?.as_array());
    let below = one
        .chain(lists.flatten())
        .chain(many.flat_map(|schemas| schemas.values()));
    for schema in below {
        unrecognized_formats(version, schema, found);
    }
}
