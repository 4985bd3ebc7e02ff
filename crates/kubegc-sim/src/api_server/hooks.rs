//! Admission webhooks of stored configurations. Functions of the caller take the place of the webhooks.
//!
//! # Upstream
//! `apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`, and `ToStatusErr` in
//! `webhook/errors/statuserror.go`, 1.20.2.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{
    KindId, LabelSelector, Scope,
    admission::{Webhook, WebhookRule},
};
use serde_json::{Value, json};

use super::{ApiServer, patch::Operations, update::Part};
use crate::{
    StoredObject, label_selector,
    status::{self, Refusal},
};

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The response of a webhook.
#[expect(clippy::exhaustive_enums, reason = "callers build it")]
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// The request is allowed.
    Allow,
    /// The request is allowed, with this JSON patch of its object. The patch of a validating webhook has no
    /// effect.
    Patch(Value),
    /// The request is refused.
    Deny {
        /// HTTP status; a value below 400 becomes 400.
        code: u16,
        /// The reason; may be empty.
        message: String,
    },
}

type Function = dyn Fn(&Value) -> Admission + Send + Sync;

/// A function that reviews requests in place of a webhook. It receives the `request` of the review, and must
/// not use the server that calls it.
///
/// The request has `kind`, `resource`, `subResource`, `name`, `namespace`, `operation`, `object` and
/// `oldObject`.
#[derive(Clone)]
pub struct AdmissionHook(Arc<Function>);

impl AdmissionHook {
    /// A hook that calls a function.
    pub fn new(review: impl Fn(&Value) -> Admission + Send + Sync + 'static) -> Self {
        Self(Arc::new(review))
    }
}

impl fmt::Debug for AdmissionHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionHook").finish_non_exhaustive()
    }
}

/// The hooks by the names of webhooks; `None` where stored configurations have no effect.
pub(super) type Hooks = Option<Arc<BTreeMap<String, AdmissionHook>>>;

/// A request on one object.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) operation: &'static str,
    pub(super) kind: KindId,
    pub(super) part: Part,
    pub(super) old: Option<&'a StoredObject>,
}

impl ApiServer {
    /// Enables the webhooks of stored configurations. A webhook with a [hook](Self::set_admission_hook) is
    /// called; for others, the failure policy decides. They are called for objects and their status.
    /// `matchConditions` are not evaluated. A webhook that was called before another one changed the object
    /// is not called again.
    pub fn call_webhooks(&mut self) {
        self.hooks.get_or_insert_default();
    }

    /// Sets the hook of a webhook, such as `pods.example.com`, and enables webhooks.
    pub fn set_admission_hook(&mut self, webhook: &str, hook: AdmissionHook) {
        Arc::make_mut(self.hooks.get_or_insert_default()).insert(webhook.to_owned(), hook);
    }

    /// Calls the mutating webhooks for an object that is to be written.
    ///
    /// # Errors
    /// The refusal of a webhook, or 500 if one cannot be called or returns a patch that cannot be applied.
    pub(super) fn mutate(&self, request: Request<'_>, object: &mut StoredObject) -> Result<(), Refusal> {
        for webhook in self.called(MUTATING, request, Some(object)) {
            let Some(Admission::Patch(patch)) = self.review(&webhook, request, Some(object))? else {
                continue;
            };
            let failed = |why: String| {
                let name = status::quoted(&webhook.name);
                status::internal_error(&format!("failed calling webhook {name}: {why}"))
            };
            let document = object.to_json(self.resource(request.kind));
            let patched = Operations::read(patch)?.apply(document, true).map_err(failed)?;
            *object = self.decoded(request.kind, patched).map_err(failed)?;
        }
        Ok(())
    }

    /// Calls the validating webhooks. `object`: the object as it will be stored; `None` where it is deleted.
    ///
    /// # Errors
    /// The refusal of a webhook, or 500 if one cannot be called.
    pub(super) fn ask_webhooks(
        &self,
        request: Request<'_>,
        object: Option<&StoredObject>,
    ) -> Result<(), Refusal> {
        for webhook in self.called(VALIDATING, request, object) {
            self.review(&webhook, request, object)?;
        }
        Ok(())
    }

    /// The webhooks of stored configurations that match a request, ordered by the names of the
    /// configurations.
    fn called(&self, resource: &str, request: Request<'_>, object: Option<&StoredObject>) -> Vec<Webhook> {
        if self.hooks.is_none() || !matches!(request.part, Part::Whole | Part::Status) {
            return Vec::new();
        }
        let versions = ["v1", "v1beta1"].into_iter();
        let mut kinds = versions.filter_map(|version| {
            let catalog = &self.shape.catalog;
            catalog.by_resource("admissionregistration.k8s.io", version, resource)
        });
        let Some(configurations) = kinds.next() else {
            return Vec::new();
        };
        let metas: Vec<&kubegc_core::ObjectMeta> = [request.old, object]
            .into_iter()
            .flatten()
            .map(|object| &*object.meta)
            .collect();
        let configurations = self.objects(configurations, None);
        let entries = configurations
            .iter()
            .filter_map(|configuration| configuration.at(&["webhooks"])?.as_array());
        let webhooks = entries.flatten().map(read);
        webhooks
            .filter(|webhook| {
                self.is_called(
                    webhook,
                    request.operation,
                    request.kind,
                    request.part.subresource(),
                    &metas,
                )
            })
            .collect()
    }

    /// Calls a webhook; `None` if it cannot be called and its failure is ignored.
    fn review(
        &self,
        webhook: &Webhook,
        request: Request<'_>,
        object: Option<&StoredObject>,
    ) -> Result<Option<Admission>, Refusal> {
        let name = status::quoted(&webhook.name);
        let Some(hook) = self.hooks.as_ref().and_then(|hooks| hooks.get(&*webhook.name)) else {
            if !webhook.refuses_on_failure {
                return Ok(None);
            }
            let why = "failed to call webhook: no function of the caller plays it";
            return Err(status::internal_error(&format!(
                "failed calling webhook {name}: {why}"
            )));
        };
        let resource = self.resource(request.kind);
        let json_of =
            |object: Option<&StoredObject>| object.map_or(Value::Null, |object| object.to_json(resource));
        let meta = object.or(request.old).map(|object| &object.meta);
        let review = json!({
            "kind": {"group": &*resource.group, "version": &*resource.version, "kind": &*resource.kind},
            "resource": {"group": &*resource.group, "version": &*resource.version, "resource": &*resource.resource},
            "subResource": request.part.subresource(),
            "name": meta.map_or("", |meta| &*meta.name),
            "namespace": meta.map_or("", |meta| &*meta.namespace),
            "operation": request.operation,
            "object": json_of(object),
            "oldObject": json_of(request.old),
        });
        match (hook.0)(&review) {
            Admission::Deny { code, message } => {
                let denied = format!("admission webhook {name} denied the request");
                let message = match &*message {
                    "" => format!("{denied} without explanation"),
                    message => format!("{denied}: {message}"),
                };
                Err(status::denied(code.max(400), message))
            }
            answered => Ok(Some(answered)),
        }
    }
}

fn texts(value: &Value, key: &str) -> Vec<Arc<str>> {
    let texts = value.get(key).and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(|text| Some(text.as_str()?.into())).collect()
}

/// Reads one entry of a configuration. The API server has set the defaults of `v1`.
fn read(entry: &Value) -> Webhook {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let rules = entry.get("rules").and_then(Value::as_array).into_iter().flatten();
    let rules = rules.map(|rule| WebhookRule {
        operations: texts(rule, "operations"),
        api_groups: texts(rule, "apiGroups"),
        api_versions: texts(rule, "apiVersions"),
        resources: texts(rule, "resources"),
        scope: match rule.get("scope").and_then(Value::as_str) {
            Some("Cluster") => Some(Scope::Cluster),
            Some("Namespaced") => Some(Scope::Namespaced),
            _ => None,
        },
    });
    Webhook {
        name: text("name").into(),
        service: None,
        refuses_on_failure: text("failurePolicy") != "Ignore",
        matches_equivalent: text("matchPolicy") != "Exact",
        rules: rules.collect(),
        namespace_selector: selector(entry, "namespaceSelector"),
        object_selector: selector(entry, "objectSelector"),
    }
}

fn selector(entry: &Value, key: &str) -> LabelSelector {
    entry.get(key).and_then(label_selector).unwrap_or_default()
}
