//! Admission webhooks of stored configurations. Functions of the caller take the place of the webhooks.
//!
//! # Upstream
//! `apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`,
//! `mutating/reinvocationcontext.go`, `matchconditions/matcher.go`, and `ToStatusErr` in
//! `webhook/errors/statuserror.go`, 1.30.0.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{Behavior, LabelSelector, RequestMatcher, Scope, admission::Webhook};
use serde_json::{Value, json};

use super::{ApiServer, admission, patch::Operations, write::Request};
use crate::{
    StoredObject, label_selector,
    object::list,
    rng,
    status::{self, RefusedBy, Result},
};

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

const CONDITIONS_ARE_EVALUATED: Behavior = Behavior::since(28, 0, "AdmissionWebhookMatchConditions, beta");

/// The response of a webhook.
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

/// A function that reviews requests in place of a webhook. It receives the `request` of an `AdmissionReview`
/// of `admission.k8s.io/v1`, with all its fields, and must not use the server that calls it.
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

/// A webhook of a stored configuration.
struct Configured {
    webhook: Webhook,
    conditions: Vec<String>,
    /// Whether it is called again if a later webhook changed the object.
    is_reinvoked: bool,
    has_side_effects: bool,
}

/// The webhooks that were called, by their positions.
#[derive(Default)]
struct Calls {
    /// Those that are called again if the object changes.
    reinvocable: Vec<usize>,
    /// Those to call again.
    to_reinvoke: Vec<usize>,
}

impl Calls {
    fn object_changed(&mut self) {
        self.to_reinvoke.append(&mut self.reinvocable);
    }
}

impl ApiServer {
    /// Enables the webhooks of stored configurations. A webhook with a [hook](Self::set_admission_hook) is
    /// called; for others, the failure policy decides. They are called for all writes of objects and their
    /// subresources; evictions, bindings and scales cannot be changed by mutating webhooks.
    ///
    /// `matchConditions` are evaluated with the feature `cel`. Conditions that cannot be evaluated, as all of
    /// them without the feature and those that use `authorizer`, refuse the request, or skip the webhook if
    /// its failures are ignored.
    pub fn call_webhooks(&mut self) {
        self.hooks.get_or_insert_default();
    }

    /// Sets the hook of a webhook, such as `pods.example.com`, and enables webhooks.
    pub fn set_admission_hook(&mut self, webhook: &str, hook: AdmissionHook) {
        Arc::make_mut(self.hooks.get_or_insert_default()).insert(webhook.to_owned(), hook);
    }

    /// Sets the name of the user who makes the following requests, as webhooks see it. Default:
    /// `system:kube-controller-manager`.
    pub fn set_user(&mut self, user: &str) {
        if *self.user != *user {
            self.user = user.into();
        }
    }

    /// The name of the user who makes requests.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The `UserInfo` of a user: its name, its UID if it has one, and its groups.
    pub fn user_info(&self, user: &str) -> Value {
        let mut info = json!({"username": user, "groups": ["system:masters", "system:authenticated"]});
        if let Some(uid) = self.settings.user_uids.get(user) {
            info["uid"] = uid.as_str().into();
        }
        info
    }

    /// Calls the mutating webhooks for an object that is to be written, or is to be deleted. If one of them
    /// changes it, `other_plugins` runs again, and so do the webhooks whose `reinvocationPolicy` says so.
    ///
    /// # Errors
    /// The refusal of a webhook, or 500 if one cannot be called or returns a patch that cannot be applied.
    pub(super) fn mutate(
        &self,
        request: Request<'_>,
        mut object: Option<&mut StoredObject>,
        other_plugins: impl Fn(&mut StoredObject) -> Result<()>,
    ) -> Result<()> {
        let webhooks = self.configured(MUTATING);
        let mut calls = Calls::default();
        if !self.call_mutating(&webhooks, request, object.as_deref_mut(), &mut calls, false)? {
            return Ok(());
        }
        if let Some(object) = object.as_deref_mut() {
            let before = object.clone();
            other_plugins(object)?;
            if *object != before {
                calls.object_changed();
            }
        }
        self.call_mutating(&webhooks, request, object, &mut calls, true)?;
        Ok(())
    }

    /// Calls the webhooks in order. Returns whether one changed the object.
    fn call_mutating(
        &self,
        webhooks: &[Configured],
        request: Request<'_>,
        mut object: Option<&mut StoredObject>,
        calls: &mut Calls,
        is_reinvocation: bool,
    ) -> Result<bool> {
        let mut changed = false;
        for (position, configured) in webhooks.iter().enumerate() {
            if is_reinvocation && !calls.to_reinvoke.contains(&position) {
                continue;
            }
            let new = object.as_deref();
            let Some(admission) = self.review(configured, Request { new, ..request })? else {
                continue;
            };
            if let Admission::Patch(patch) = admission
                && patch.as_array().is_none_or(|operations| !operations.is_empty())
            {
                let name = status::quoted(&configured.webhook.name);
                let object = object.as_deref_mut().filter(|_| request.body.is_none());
                let Some(object) = object else {
                    return Err(status::internal_error(&format!(
                        "admission webhook {name} attempted to modify the object, which is not supported for this operation"
                    )));
                };
                let failed =
                    |why: String| status::internal_error(&format!("failed calling webhook {name}: {why}"));
                let document = object.to_json(self.resource(request.kind));
                let patched = Operations::read(patch)?.apply(document).map_err(failed)?;
                let patched = self.decoded(request.kind, patched).map_err(failed)?;
                if *object != patched {
                    *object = patched;
                    calls.object_changed();
                    changed = true;
                }
            }
            if configured.is_reinvoked {
                calls.reinvocable.push(position);
            }
        }
        Ok(changed)
    }

    /// Evaluates the policies and calls the validating webhooks. Returns warnings.
    ///
    /// # Errors
    /// The refusal of a policy or webhook, or 500 if a webhook cannot be called.
    pub(super) fn call_validating(&mut self, request: Request<'_>) -> Result<Vec<String>> {
        let warnings = self.evaluate_policies(request)?;
        for configured in self.configured(VALIDATING) {
            self.review(&configured, request)?;
        }
        Ok(warnings)
    }

    /// The webhooks of the stored configurations, ordered by the names of the configurations.
    fn configured(&self, resource: &str) -> Vec<Configured> {
        if self.hooks.is_none() {
            return Vec::new();
        }
        let mut versions = ["v1", "v1beta1"].into_iter();
        let catalog = &self.shape.catalog;
        let configurations =
            versions.find_map(|version| catalog.by_resource(admission::GROUP, version, resource));
        let Some(configurations) = configurations.filter(|kind| self.len(*kind) > 0) else {
            return Vec::new();
        };
        let configurations = self.objects(configurations, None);
        let entries = configurations
            .iter()
            .flat_map(|configuration| configuration.list_at(&["webhooks"]));
        entries.map(read).collect()
    }

    /// Calls a webhook. `None`: it does not match. A webhook that cannot be called and whose failure is
    /// ignored allows the request.
    fn review(&self, configured: &Configured, request: Request<'_>) -> Result<Option<Admission>> {
        let webhook = &configured.webhook;
        if !self.is_called(webhook, request) {
            return Ok(None);
        }
        let review = self.review_request(request);
        if !self.conditions_hold(configured, request, &review)? {
            return Ok(None);
        }
        let name = status::quoted(&webhook.name);
        if configured.has_side_effects && review["dryRun"] == true {
            let why = format!("admission webhook {name} does not support dry run");
            return Err(status::bad_request(why));
        }
        let Some(hook) = self.hooks.as_ref().and_then(|hooks| hooks.get(&*webhook.name)) else {
            if !webhook.refuses_on_failure {
                return Ok(Some(Admission::Allow));
            }
            let why = "failed to call webhook: no hook is set for it (ApiServer::set_admission_hook)";
            return Err(admission::failed(webhook, why));
        };
        match (hook.0)(&review) {
            Admission::Deny { code, message } => {
                let denied = format!("admission webhook {name} denied the request");
                let message = match &*message {
                    "" => format!("{denied} without explanation"),
                    message => format!("{denied}: {message}"),
                };
                let refusal = status::refusal(code.max(400), "", message, None);
                Err(refusal.by(RefusedBy::Webhook(Arc::clone(&webhook.name))))
            }
            allowed => Ok(Some(allowed)),
        }
    }

    /// The `request` of an `AdmissionReview`.
    pub(super) fn review_request(&self, request: Request<'_>) -> Value {
        let resource = self.resource(request.kind);
        let body = request.body.unwrap_or(resource);
        let json_of =
            |object: Option<&StoredObject>| object.map_or(Value::Null, |object| object.to_json(body));
        let meta = request.metas().next();
        let operation = request.operation();
        let kind = json!({"group": &*body.group, "version": &*body.version, "kind": &*body.kind});
        let addressed = json!({"group": &*resource.group, "version": &*resource.version, "resource": &*resource.resource});
        let options = match operation {
            "DELETE" => json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}),
            operation => json!({
                "kind": if operation == "CREATE" { "CreateOptions" } else { "UpdateOptions" },
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": self.field_manager(),
            }),
        };
        // Webhooks only return it.
        let letters = operation.bytes();
        let letters = letters.fold(0, |sum, byte| sum * 31 + u64::from(byte));
        let numbers = [self.revision, self.uids_generated, letters].into_iter();
        let id = numbers.fold(self.settings.seed, |id, number| rng::mix(id ^ number));
        let mut review = json!({
            "uid": format!("00000000-0000-4000-8000-{:012x}", id >> 16),
            "kind": kind,
            "resource": addressed,
            "requestKind": kind,
            "requestResource": addressed,
            "name": meta.map_or("", |meta| &*meta.name),
            "operation": operation,
            "userInfo": self.user_info(&self.user),
            "object": json_of(request.new),
            "oldObject": json_of(request.old),
            "dryRun": request.dry_run || self.is_dry_run,
            "options": options,
        });
        // Empty fields are omitted.
        let namespace = meta.map_or("", |meta| &*meta.namespace);
        let subresource = request.part.subresource();
        let more = [
            ("namespace", namespace),
            ("subResource", subresource),
            ("requestSubResource", subresource),
        ];
        for (key, text) in more.into_iter().filter(|(_, text)| !text.is_empty()) {
            review[key] = text.into();
        }
        review
    }

    /// Whether the conditions of a webhook hold for a request.
    ///
    /// # Errors
    /// 403 where conditions cannot be evaluated, none is false and failures are not ignored.
    fn conditions_hold(&self, configured: &Configured, request: Request<'_>, review: &Value) -> Result<bool> {
        if configured.conditions.is_empty() || !self.version.has(CONDITIONS_ARE_EVALUATED) {
            return Ok(true);
        }
        let mut problems = Vec::new();
        for expression in &configured.conditions {
            #[cfg(feature = "cel")]
            let result = self.rules().condition(expression, review);
            #[cfg(not(feature = "cel"))]
            let result: Result<bool, String> = Err("evaluation needs the feature `cel`".to_owned());
            match result {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(problem) => {
                    problems.push(format!("expression '{expression}' resulted in error: {problem}"))
                }
            }
        }
        if problems.is_empty() {
            return Ok(true);
        }
        if !configured.webhook.refuses_on_failure {
            return Ok(false);
        }
        let name = review["name"].as_str().unwrap_or_default();
        let (resource, why) = (self.resource(request.kind), status::joined(&problems));
        Err(status::forbidden(resource, name, &why, Vec::new()))
    }
}

pub(super) fn texts(value: &Value, key: &str) -> Vec<Arc<str>> {
    list(value, key)
        .filter_map(|text| Some(text.as_str()?.into()))
        .collect()
}

pub(super) fn matcher(rule: &Value) -> Option<RequestMatcher> {
    let scope = match rule.get("scope").and_then(Value::as_str) {
        Some("Cluster") => Some(Scope::Cluster),
        Some("Namespaced") => Some(Scope::Namespaced),
        _ => None,
    };
    let lists = ["apiGroups", "apiVersions", "resources"].map(|key| texts(rule, key));
    RequestMatcher::of_webhook(texts(rule, "operations"), lists, scope)
}

/// Reads one entry of a configuration. The API server has set the defaults of `v1`.
fn read(entry: &Value) -> Configured {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let webhook = Webhook {
        name: text("name").into(),
        service: None,
        refuses_on_failure: text("failurePolicy") != "Ignore",
        matches_equivalent: text("matchPolicy") != "Exact",
        rules: list(entry, "rules").filter_map(matcher).collect(),
        namespace_selector: selector(entry, "namespaceSelector"),
        object_selector: selector(entry, "objectSelector"),
    };
    Configured {
        webhook,
        conditions: list(entry, "matchConditions")
            .map(|condition| condition["expression"].as_str().unwrap_or_default().to_owned())
            .collect(),
        is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
        has_side_effects: matches!(text("sideEffects"), "Some" | "Unknown"),
    }
}

pub(super) fn selector(entry: &Value, key: &str) -> LabelSelector {
    entry.get(key).and_then(label_selector).unwrap_or_default()
}
