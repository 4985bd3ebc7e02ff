//! Creates objects: checks, defaults and generated names.

use std::{borrow::Cow, sync::Arc};

use kubegc_core::{Behavior, KindId, Uid, identity::split_api_version};
use serde_json::{Value, json};

use super::{
    ApiServer, EventType, Response, ResponseBody, Special, crd, namespace,
    write::{Part, Request, Write},
};
use crate::{
    Manifest, StoredObject,
    object::ManagedFields,
    rng,
    status::{self, Cause, Refusal, Result},
    types::{self, facts::Facts},
};

const NAMES_ARE_DRAWN_AGAIN: Behavior = Behavior::since(31, 0, "kubernetes #122887");
const UNNAMED_KINDS_ARE_UNRECOGNIZED: Behavior = Behavior::since(23, 0, "apimachinery 253c5118");
const NAMES_DRAWN_MAX: u32 = 8;

impl ApiServer {
    /// Creates an object from its typed form. The namespace is the one of the request; the namespace of the
    /// object may be empty.
    ///
    /// # Upstream
    /// `Store.Create` in `apiserver/pkg/registry/generic/registry/store.go`, `BeforeCreate` in
    /// `rest/create.go`, 1.20.2.
    pub fn create(&mut self, kind: KindId, namespace: &str, object: StoredObject) -> Response {
        self.create_with_uid(kind, namespace, object, None)
    }

    /// Creates an object whose uid the caller may choose: for tests and replays.
    pub fn create_with_uid(
        &mut self,
        kind: KindId,
        namespace: &str,
        object: StoredObject,
        uid: impl Into<Option<Uid>>,
    ) -> Response {
        self.retyped(kind, object)
            .and_then(|object| self.try_create(kind, namespace, object, uid.into(), None))
            .into()
    }

    /// An object, decoded again by its type.
    pub(super) fn retyped(&self, kind: KindId, object: StoredObject) -> Result<StoredObject> {
        if self.is_decoded(kind) {
            self.manifest(kind, object.to_json(self.resource(kind)))
        } else {
            Ok(object)
        }
    }

    /// Creates an object from its JSON form. `apiVersion` and `kind` may be missing; otherwise they must
    /// match.
    pub fn create_json(&mut self, kind: KindId, namespace: &str, object: Value) -> Response {
        self.manifest(kind, object)
            .and_then(|object| self.try_create(kind, namespace, object, None, None))
            .into()
    }

    /// Decodes an object that was sent to a kind's URL.
    pub(super) fn manifest(&self, kind: KindId, object: Value) -> Result<StoredObject> {
        self.kind(kind)?;
        let resource = self.resource(kind);
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, sent_kind, expected) = (text("apiVersion"), text("kind"), resource.api_version());
        if resource.custom && self.is_decoded_by_schema(kind) {
            return self.custom_manifest(kind, object, &api_version, &sent_kind);
        }
        let has_version = matches!(&*api_version, "" | "/") || api_version == expected;
        let has_kind = sent_kind.is_empty() || *sent_kind == *resource.kind;
        if has_version && has_kind {
            return self
                .decoded(kind, object)
                .map_err(|problem| status::cannot_be_handled(resource, &resource.kind, &problem));
        }
        let api_version = if has_version {
            expected.clone()
        } else {
            api_version
        };
        let sent_kind = match &*sent_kind {
            "" => &*resource.kind,
            sent => sent,
        };
        let sent = self.shape.catalog.mapping(&api_version, sent_kind);
        if !has_version && (resource.custom || sent.is_some_and(|sent| self.share_objects(sent, kind))) {
            return Err(other_version(&api_version, &expected));
        }
        let version = split_api_version(&api_version).1;
        // Of each version, and lists of the core group.
        let is_general = sent_kind == "Status" || sent_kind == "List" && api_version == "v1";
        let problem = if sent.is_some() || is_general {
            status::unknown_conversion(version, sent_kind, &resource.group, &resource.kind)
        } else {
            let scheme = match &*resource.group {
                "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
                _ => "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30",
            };
            let [sent_kind, api_version, scheme] = [sent_kind, &*api_version, scheme].map(status::quoted);
            format!("no kind {sent_kind} is registered for version {api_version} in scheme {scheme}")
        };
        Err(status::sent_cannot_be_handled(
            version,
            sent_kind,
            &resource.kind,
            &problem,
        ))
    }

    /// Whether objects of a kind are decoded by their schema or type.
    pub(super) fn is_decoded(&self, kind: KindId) -> bool {
        self.is_decoded_by_schema(kind) || self.schema(kind).is_some()
    }

    /// Decodes an object whose version and kind match.
    ///
    /// # Errors
    /// Names the field with a value of the wrong type.
    pub(super) fn decoded(&self, kind: KindId, object: Value) -> Result<StoredObject, String> {
        if self.is_decoded_by_schema(kind) {
            return self.decode_custom(kind, object, false);
        }
        let resource = self.resource(kind);
        let (object, differs) = match self.schema(kind) {
            Some(id) => types::decode(object, resource, id, self.version)?,
            None => (object, false),
        };
        let manifest = Manifest::read(object).map_err(|error| error.to_string())?;
        let mut object = manifest.object;
        if differs {
            object.decoded = object.body.as_deref().cloned().map(Arc::new);
            types::normalize(&mut object, resource, self.version)?;
        }
        Ok(object)
    }

    /// Decodes a custom resource that was sent to its kind's URL.
    fn custom_manifest(
        &self,
        kind: KindId,
        object: Value,
        api_version: &str,
        sent_kind: &str,
    ) -> Result<StoredObject> {
        let resource = self.resource(kind);
        let expected = resource.api_version();
        let refuse = |problem: String| status::cannot_be_handled(resource, &resource.kind, &problem);
        if sent_kind.is_empty() && self.version.has(UNNAMED_KINDS_ARE_UNRECOGNIZED) {
            let shown = object.to_string();
            let excerpt = match shown.char_indices().nth(30) {
                Some((end, _)) => format!("{} ...", &shown[..end]),
                None => shown.clone(),
            };
            return Err(status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}' ({excerpt})",
                resource.kind
            )));
        }
        if sent_kind.is_empty() {
            return Err(refuse(format!(
                "unmarshalerDecoder: Object 'Kind' is missing in '{object}'"
            )));
        }
        if *api_version != *expected {
            return Err(other_version(api_version, &expected));
        }
        if *sent_kind != *resource.kind {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(self.refuse_other_kind(kind, name, sent_kind));
        }
        self.decode_custom(kind, object, false).map_err(refuse)
    }

    /// Creates an object. `applied`: the managers of fields that an apply results in.
    pub(super) fn try_create(
        &mut self,
        kind: KindId,
        namespace: &str,
        mut object: StoredObject,
        uid: Option<Uid>,
        applied: Option<ManagedFields>,
    ) -> Result<Response> {
        let known = self.kind(kind)?.clone();
        crd::refuse_while_terminating(self, kind, &object.meta.name)?;
        self.place(kind, namespace, &mut object)?;
        self.name_generated(kind, &mut object);
        let mut warnings = self.without_equal_references(&mut object.meta, "");
        namespace::refuse_content(self, kind, &object)?;

        match applied {
            Some(managers) => object.managers = managers,
            None if self.settings.types => {
                let resource = self.resource(kind);
                let is_dropped = match known.special {
                    Special::CustomResourceDefinition => true,
                    _ if resource.custom => known.status_subresource,
                    _ => types::prepare::owns_no_status(resource, self.version),
                };
                let mut sent = Cow::Borrowed(&object);
                if is_dropped && !self.tracks_sent_fields() && object.at(&["status"]).is_some() {
                    sent.to_mut().body_mut().remove("status");
                }
                object.managers = self.tracked(kind, None, &sent, Part::Whole);
            }
            None => {}
        }
        drop_ignored_metadata(&mut object);
        let typed = self.schema(kind).is_some();
        if typed {
            types::admission::complete(self, self.resource(kind), &mut object, None)?;
        }
        let request = Request::new(kind, Part::Whole, None, None);
        self.mutate(request, Some(&mut object), |object| match typed {
            true => types::admission::complete(self, self.resource(kind), object, None),
            false => Ok(()),
        })?;
        let meta = &mut object.meta;
        meta.deletion_timestamp = None;
        meta.deletion_grace_period_seconds = None;
        meta.creation_timestamp = Some(self.now.truncate_to_secs());
        let resource = self.resource(kind);
        // Without types, pods have no generation: the forecasts of all releases are the same.
        let is_counted = resource.custom
            || known.special != Special::Pod && Facts::of(resource).has("generation", self.version);
        if !typed && is_counted {
            meta.generation = 1;
        }
        if known.status_subresource && self.resource(kind).custom && object.at(&["status"]).is_some() {
            object.body_mut().remove("status");
        }
        match known.special {
            Special::Namespace => {
                prepare_namespace(&mut object, self.version.has(types::NAMESPACES_ARE_LABELLED))
            }
            Special::Pod if !typed => prepare_pod(&mut object),
            Special::CustomResourceDefinition if self.settings.types => {
                crd::resource::set_initial_status(&mut object)
            }
            Special::Pod | Special::CustomResourceDefinition | Special::Service | Special::None => {}
        }
        if typed {
            object.meta.uid = uid.clone().unwrap_or_else(|| self.draw_uid());
            self.prepare_typed(kind, &mut object, None, Part::Whole)?;
            if known.special == Special::Service {
                super::service::refuse_unreferable(self, &object)?;
            }
        }
        let is_allocated_first = typed && self.is_allocated_first(kind);
        if is_allocated_first {
            self.allocate(kind, &mut object, None)?;
        }
        let write = Write {
            kind,
            part: Part::Whole,
            new: &object,
            old: None,
        };
        self.refuse_invalid(kind, &object.meta.name, self.problems(write))?;
        warnings.extend(self.admit_object(write)?);
        if !object.meta.resource_version.is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(status::internal(why));
        }
        let resource = self.resource(kind);
        let resource_is_custom = resource.custom;
        if let Some(existing) = self.object(kind, &object.meta.namespace, &object.meta.name) {
            let deleting = existing.meta.is_deleting();
            // The server knows only that there is a prefix, not that it completed the name.
            let has_prefix = !object.text_at(&["metadata", "generateName"]).is_empty();
            let suffix = match has_prefix && self.version.has(NAMES_ARE_DRAWN_AGAIN) {
                true => ", the server was not able to generate a unique name for the object",
                false => "",
            };
            let name = &object.meta.name;
            return Err(status::already_exists(resource, name, deleting, suffix));
        }
        let defines = known.special == Special::CustomResourceDefinition;
        if defines && !self.settings.types {
            crd::serve(self, &mut object);
        }
        if resource_is_custom {
            self.to_stored_version(kind, &mut object)?;
        }
        if !typed {
            object.meta.uid = uid.unwrap_or_else(|| self.draw_uid());
        } else if !is_allocated_first {
            self.allocate(kind, &mut object, None)?;
        }
        let object = self.commit(kind, object, EventType::Added);
        if defines && self.settings.types {
            self.accept_names(kind, &object);
        }
        if known.special == Special::Namespace {
            self.create_default_account(&object.meta.name);
        }
        Ok(Response::new(201, ResponseBody::Object(object)).with(warnings))
    }

    /// The problems that the schema of a kind finds.
    pub(super) fn kind_problems(&self, write: Write<'_>) -> Vec<Cause> {
        let resource = self.resource(write.kind);
        let (is_whole, is_typed) = (write.part == Part::Whole, self.schema(write.kind).is_some());
        let is_definition = self.special(write.kind) == Special::CustomResourceDefinition;
        match (&*resource.group, &*resource.kind) {
            // `v1beta1` requires less than is checked here; there is no check of its own.
            _ if is_definition && self.settings.types && is_whole && &*resource.version != "v1beta1" => {
                let causes = crd::validation::problems(self.version, write);
                #[cfg(feature = "cel")]
                if causes.is_empty() {
                    return self.rules().definition(write);
                }
                causes
            }
            _ if resource.custom && self.is_decoded_by_schema(write.kind) => self.custom_problems(write),
            _ if is_definition || resource.custom => Vec::new(),
            #[cfg(feature = "cel")]
            (super::admission::GROUP, kind @ ("MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy")) => {
                let is_mutating = kind == "MutatingAdmissionPolicy";
                let problems =
                    (is_whole && is_typed).then(|| self.rules().policy_problems(write, is_mutating));
                problems.unwrap_or_default()
            }
            #[cfg(feature = "cel")]
            (super::admission::GROUP, _) => self.rules().conditions(write),
            ("resource.k8s.io", _) if is_whole => {
                let is_new = write.old.is_none() && is_typed;
                let causes = is_new
                    .then(|| self.admin_access_problem(write.new))
                    .flatten()
                    .into_iter();
                #[cfg(feature = "cel")]
                let causes = causes.chain(self.rules().device_selectors(write));
                causes.collect()
            }
            _ => Vec::new(),
        }
    }

    /// The problem of a claim or template that requests access to devices as an administrator.
    ///
    /// # Upstream
    /// `AuthorizedForAdmin` in
    /// [`pkg/registry/resource`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/resource/utils.go).
    fn admin_access_problem(&self, object: &StoredObject) -> Option<Cause> {
        const LABEL: &str = "resource.kubernetes.io/admin-access";
        let paths = [
            &["spec", "devices", "requests"][..],
            &["spec", "spec", "devices", "requests"],
        ];
        let mut requests = paths.into_iter().flat_map(|path| object.list_at(path));
        let index = requests.position(|request| request["exactly"]["adminAccess"] == true)?;
        let namespace = self.namespace_object(&object.meta.namespace)?;
        let label = namespace.meta.labels.get(LABEL);
        let is_allowed = label.is_some_and(|label| **label == *"true");
        let problem =
            format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        let field = format!("spec.devices.requests[{index}].adminAccess");
        (!is_allowed).then(|| Cause::forbidden(field, &problem))
    }

    /// Sets the namespace of the request.
    fn place(&self, kind: KindId, namespace: &str, object: &mut StoredObject) -> Result<()> {
        let own = &mut object.meta.namespace;
        if !self.resource(kind).is_namespaced() {
            if !own.is_empty() {
                *own = "".into();
            }
        } else if own.is_empty() {
            *own = namespace.into();
        } else if **own != *namespace {
            return Err(other_namespace());
        }
        Ok(())
    }

    /// Completes `generateName` if there is no name. From 1.31 on the name is free, if one of eight attempts
    /// finds a free one.
    fn name_generated(&mut self, kind: KindId, object: &mut StoredObject) {
        if !object.meta.name.is_empty() {
            return;
        }
        let prefix = object.text_at(&["metadata", "generateName"]).to_owned();
        let is_named_first = prefix.is_empty() || !self.version.has(NAMES_ARE_DRAWN_AGAIN);
        let resource = self.resource(kind);
        match (&*resource.group, &*resource.resource) {
            ("", "limitranges") if is_named_first => {
                object.meta.name = self.draw_uid().to_string().into();
                return;
            }
            _ if prefix.is_empty() => return,
            // Their names are addresses.
            ("networking.k8s.io", "ipaddresses") => {
                object.meta.name = prefix.into();
                return;
            }
            _ => {}
        }
        let draws = match self.version.has(NAMES_ARE_DRAWN_AGAIN) {
            true => NAMES_DRAWN_MAX,
            false => 1,
        };
        for _ in 0..draws {
            self.uids_generated += 1;
            object.meta.name = format!("{prefix}{}", self.letters(self.uids_generated)).into();
            let meta = &object.meta;
            if self.object(kind, &meta.namespace, &meta.name).is_none() {
                return;
            }
        }
    }

    /// Performs a write on a copy of the server and returns its response. Uids and names that the write
    /// generated are not generated again.
    ///
    /// # Complexity
    /// That of the write, plus copying the changed tables.
    pub fn dry_run(&mut self, write: impl FnOnce(&mut Self) -> Response) -> Response {
        let mut copy = self.clone();
        copy.is_dry_run = true;
        let response = write(&mut copy);
        self.uids_generated = copy.uids_generated;
        response
    }

    /// Five letters of a generated name, by a number that no other name of the prefix has.
    pub(crate) fn letters(&self, number: u64) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut letters = rng::Rng::new(self.settings.seed ^ rng::mix(number));
        // Drawn below the number of letters.
        let mut letter = || char::from(LETTERS[letters.below(LETTERS.len() as u64) as usize]);
        (0..5).map(|_| letter()).collect()
    }

    /// Creates the service account `default` of a namespace, as its controller does.
    pub(super) fn create_default_account(&mut self, namespace: &str) {
        if !(self.settings.service_accounts && self.settings.types) {
            return;
        }
        let Some(kind) = self.shape.catalog.mapping("v1", "ServiceAccount") else {
            return;
        };
        let manager = std::mem::replace(&mut self.field_manager, "kube-controller-manager".into());
        let user = std::mem::replace(&mut self.user, "system:kube-controller-manager".into());
        // A terminating namespace refuses it.
        let _refused = self.create_json(kind, namespace, json!({"metadata": {"name": "default"}}));
        (self.field_manager, self.user) = (manager, user);
    }
}

/// The namespace of an object is not that of the URL.
pub(super) fn other_namespace() -> Refusal {
    status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

fn other_version(found: &str, expected: &str) -> Refusal {
    status::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// Drops the sent metadata that no object stores.
///
/// # Upstream
/// `BeforeCreate` and `BeforeUpdate` in `apiserver/pkg/registry/rest`, 1.20.2.
pub(super) fn drop_ignored_metadata(object: &mut StoredObject) {
    const IGNORED: [&str; 2] = ["clusterName", "selfLink"];
    let has_some = |rest: &Value| IGNORED.iter().any(|key| rest.get(key).is_some());
    if object.at(&["metadata"]).is_some_and(has_some) {
        let rest = object.rest_of_metadata_mut();
        rest.retain(|key, _| !IGNORED.contains(&key.as_str()));
    }
}

fn prepare_namespace(object: &mut StoredObject, labelled: bool) {
    if labelled {
        let name = Arc::clone(&object.meta.name);
        let labels = &mut object.meta.labels;
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
    let mut finalizers = namespace::spec_finalizers(object).to_vec();
    if !finalizers.contains(&json!("kubernetes")) {
        finalizers.push(json!("kubernetes"));
    }
    object.put(&["spec", "finalizers"], Some(&finalizers.into()));
    object.put(&["status"], Some(&json!({"phase": "Active"})));
}

/// Sets the defaults of a pod that affect its deletion.
fn prepare_pod(object: &mut StoredObject) {
    if object.body.is_none() {
        return;
    }
    let body = object.body_mut();
    body.insert("status".to_owned(), json!({"phase": "Pending"}));
    if let Some(Value::Object(spec)) = body.get_mut("spec") {
        spec.entry("terminationGracePeriodSeconds")
            .or_insert_with(|| json!(30));
    }
}
