//! Server-side apply: the resulting object, the owners of its fields, and the conflicts between managers.
//!
//! Ownership is stored in `metadata.managedFields`, in upstream's form, from the first apply of an object on.
//! Fields that existed before that apply belong to `before-first-apply`. Objects that were never applied have
//! no `managedFields` and cost nothing. Upstream (1.18 and later) stores them for all objects.
//!
//! # Upstream
//! `apimachinery/pkg/util/managedfields`, 1.30, and `structured-merge-diff/v4`, v4.4. Left out: fields of
//! other versions of a kind are not converted, more than ten managers are not merged into `ancient-changes`.

mod compare;
mod config;
mod dialect;
mod element;
mod field_set;
mod last_applied;
mod managed;
mod merge;
mod track;

use kubegc_core::{ApiResource, Behavior, KindId};
use serde_json::{Map, Value, json};

use super::{
    ApiServer, Key, Response, Special, crd,
    patch::{APPLY_IS_SERVED, keep_precision},
    update::AFTER_ADMISSION,
    write::Part,
};
use crate::{
    StoredObject,
    object::managed_fields,
    status::{self, Refusal, Result},
    types::node::{Sent, undeclared},
};
use compare::{compare, set_of, strip};
use config::validate;
use dialect::{
    DEFINITIONS_HAVE_SCHEMAS, EMPTY_OBJECTS_ARE_OWNED, Place, TIMES_ARE_KEPT, VALUES_ARE_COMPARED,
};
use element::Element;
use managed::{Manager, Managers, Operation};
use track::take_managers;

/// Options of an apply request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ApplyOptions {
    /// The manager that applies and then owns the fields. Required, at most 128 bytes.
    pub field_manager: String,
    /// Whether the manager takes over fields that other managers own. Otherwise such a change is a conflict.
    /// Default: false.
    pub force: bool,
}

/// Errors about configurations name the object.
const REFUSALS_NAME_THE_OBJECT: Behavior = Behavior::since(23, 0, "kubernetes #104351");

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl ApiServer {
    /// Applies a configuration (server-side apply): creates the object, or sets the fields that the
    /// configuration names.
    ///
    /// Fields that this manager applied before and omits now are removed, unless another manager owns them
    /// too. Applying the same configuration again to an object that matches it writes nothing. A uid or
    /// resourceVersion in the configuration is a precondition. With `subresource` `status` or `scale` (others
    /// cannot be applied here), only that part is written and no object is created. An apply to `status` uses
    /// only `status`; an apply to the object ignores `status` if it is a subresource.
    ///
    /// # Errors
    /// In the response. 409 with a cause for each field that another manager owns and that would change,
    /// unless forced. 422 without a manager. 400 for a configuration of another version or kind, or with
    /// `managedFields`. 500, as upstream, if items of a merged list have no usable key. 415 before 1.16. Also
    /// the errors of any other write.
    ///
    /// # Complexity
    /// O(n log n) in the size of the object and of its managers' fields.
    ///
    /// # Upstream
    /// `applyPatcher` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.30.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::{Catalog, KubernetesVersion};
    /// use kubegc_sim::{ApiServer, ApplyOptions, Settings};
    /// use serde_json::json;
    /// let version = KubernetesVersion::LATEST;
    /// let settings = Settings { namespaces_must_exist: false, ..Settings::default() };
    /// let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    /// let config_maps = server.catalog().mapping("v1", "ConfigMap").expect("always served");
    /// let config = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}});
    /// let by = |manager: &str| ApplyOptions { field_manager: manager.to_owned(), force: false };
    /// assert_eq!(server.apply(config_maps, "shop", "a", None, config("1"), &by("one")).code, 201);
    /// let refused = server.apply(config_maps, "shop", "a", None, config("2"), &by("two"));
    /// assert_eq!(refused.code, 409);
    /// assert_eq!(refused.status().expect("a refusal").causes()[0].field, ".data.key");
    /// ```
    pub fn apply(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        applied: Value,
        options: &ApplyOptions,
    ) -> Response {
        let key = Key::new(kind, namespace, name);
        match subresource {
            Some("scale") => self.apply_scale(key, applied, options),
            Some(subresource) => self.part(kind, subresource).and_then(|part| match part {
                Part::Status => self.try_apply(key, part, applied, options),
                _ => Err(status::method_not_allowed(self.resource(kind), None)),
            }),
            None => self.try_apply(key, Part::Whole, applied, options),
        }
        .into()
    }

    /// Sets the field manager of the following writes other than applies.
    ///
    /// It only has an effect on objects that were applied, see [`apply`](Self::apply). Default: `unknown`.
    pub fn set_field_manager(&mut self, manager: &str) {
        if *self.field_manager != *manager {
            self.field_manager = manager.into();
        }
    }

    /// The field manager of writes other than applies.
    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }

    pub(super) fn try_apply(
        &mut self,
        key: Key<'_>,
        part: Part,
        applied: Value,
        options: &ApplyOptions,
    ) -> Result<Response> {
        let Key { kind, name, .. } = key;
        self.kind(kind)?;
        if !self.version.has(APPLY_IS_SERVED) {
            // No resource accepts an empty content type.
            let accepted = self.accepted(kind, "");
            return Err(accepted.err().unwrap_or_else(status::unserved));
        }
        validate(options, self.version)?;
        let applied = self.configuration(kind, applied, part)?;
        let namespace = self.namespace_of(kind, key.namespace);
        let existing = self.object(kind, namespace, name);
        let existing = existing.map(|existing| self.shown(kind, existing)).transpose()?;
        if existing.is_none() && part != Part::Whole {
            return Err(status::not_found(self.resource(kind), name));
        }
        let resource = self.resource(kind);
        let mut live = match &existing {
            Some(existing) => existing.to_json(resource),
            None => {
                json!({"apiVersion": resource.api_version(), "kind": &*resource.kind, "metadata": {"name": name}})
            }
        };
        let managers = take_managers(&mut live);
        let api_version = resource.api_version();
        let request = Request {
            applied: &applied,
            resource,
            place: self.place_of(kind),
            manager: self.manager(&options.field_manager, Operation::Apply, &api_version, part),
            force: options.force,
            time: self.now.truncate_to_secs().to_string(),
        };
        let is_definition = self.special(kind) == Special::CustomResourceDefinition;
        if self.settings.types && (!is_definition || self.version.has(DEFINITIONS_HAVE_SCHEMAS)) {
            request.check_fields()?;
        }
        let managers = match (&existing, managers) {
            (Some(_), None) => request.before_first_apply(&live),
            (_, managers) => managers.unwrap_or_default(),
        };
        let (merged, managers) = request.merged(&live, managers)?;
        let managers = Some(managed_fields(managers.to_json()));
        let mut object = self
            .decoded_applied(kind, merged)
            .map_err(|problem| match &existing {
                Some(_) => status::bad_request(format!("unable to read the applied object: {problem}")),
                None => status::cannot_be_handled(resource, &resource.kind, &problem),
            })?;
        if let Some(existing) = &existing {
            keep_precision(&mut object.meta, &existing.meta);
        }
        self.check_names(&object.meta, key)?;
        let Some(existing) = existing else {
            if !object.meta.uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    object.meta.uid
                );
                return Err(status::conflict(resource, name, &why));
            }
            return self.try_create(kind, namespace, object, None, managers);
        };
        let warnings = self.without_equal_references(&mut object.meta, AFTER_ADMISSION);
        self.replace(kind, &existing, object, part, managers, warnings)
    }

    /// The objects of a kind in the graph of types, in the rules of this release.
    fn place_of(&self, kind: KindId) -> Place<'_> {
        let definition = self.definition(kind).map(std::sync::Arc::as_ref);
        Place {
            node: crd::node(self.resource(kind), definition),
            version: self.version,
            types: self.settings.types,
        }
    }

    fn decoded_applied(&self, kind: KindId, object: Value) -> Result<StoredObject, String> {
        if self.is_decoded_by_schema(kind) {
            self.decode_custom(kind, object, true)
        } else {
            let mut object = self.decoded(kind, object)?;
            object.convert_from_unstructured(self.resource(kind));
            Ok(object)
        }
    }

    /// The conflict of an apply that changes the replicas of a scale. Upstream tracks owners of a scale
    /// separately; here they are not stored.
    pub(super) fn scale_conflict(&self) -> Refusal {
        let manager = self.manager(
            BEFORE_FIRST_APPLY,
            Operation::Update,
            "autoscaling/v1",
            Part::Scale,
        );
        let path = ["spec", "replicas"].map(Element::field).into();
        managed::refusal(&[managed::Conflict { manager, path }])
    }
}

struct Request<'a> {
    applied: &'a Value,
    resource: &'a ApiResource,
    /// The objects of the kind.
    place: Place<'a>,
    manager: Manager,
    force: bool,
    time: String,
}

impl Request<'_> {
    /// Refuses a configuration with fields that the schema does not declare.
    fn check_fields(&self) -> Result<()> {
        let mut found = Vec::new();
        undeclared(self.applied, self.place.node, Sent::Applied, "", &mut found);
        for path in &mut found {
            path.push_str(": field not declared in schema");
        }
        match found.as_slice() {
            [] => Ok(()),
            [only] => Err(self.malformed(only)),
            several => Err(self.malformed(&format!("errors:\n  {}", several.join("\n  ")))),
        }
    }

    /// The refusal of a configuration that cannot be decoded as its kind.
    fn malformed(&self, problem: &str) -> Refusal {
        const FAILED: &str = "failed to create typed patch object";
        if !self.place.has(REFUSALS_NAME_THE_OBJECT) {
            return status::internal(format!("{FAILED}: {problem}"));
        }
        let metadata = &self.applied["metadata"];
        let [namespace, name] = ["namespace", "name"].map(|key| metadata[key].as_str().unwrap_or_default());
        let resource = self.resource;
        status::internal(format!(
            "{FAILED} ({namespace}/{name}; {}/{}, Kind={}): {problem}",
            resource.group, resource.version, resource.kind
        ))
    }

    /// The object after the configuration was applied, and the owners of its fields.
    ///
    /// # Upstream
    /// `Updater.Apply` in `structured-merge-diff/v4/merge/update.go`, v4.4, and
    /// `managedFieldsUpdater.Apply` in
    /// [`managedfieldsupdater.go`](https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/managedfields/internal/managedfieldsupdater.go).
    fn merged(&self, live: &Value, mut managers: Managers) -> Result<(Value, Managers)> {
        let (applied, place, manager) = (self.applied, self.place, &self.manager);
        let malformed = |problem: String| self.malformed(&problem);
        // This manager takes over what its client applied by itself.
        let upgrades = manager.name == "kubectl" && place.has(last_applied::IS_UPGRADED);
        let mut fields = set_of(applied, place).map_err(malformed)?;
        strip(&mut fields, place);
        let mut merged = merge::merge(live.clone(), applied, place);
        managers.follow_schema(live, place);
        let last = managers.put(manager, fields.clone());
        let mut owned = managers.owned();
        // Metadata stays, as every configuration has the name.
        owned.insert(&["metadata", "name"].map(Element::field));
        if place.types && !place.has(EMPTY_OBJECTS_ARE_OWNED) {
            merged = merge::prune_by_sets(&merged, place, &last, &owned).map_err(malformed)?;
        } else {
            merge::prune(&mut merged, place, &last.without(&owned), &owned);
        }
        let comparison = compare(live, &merged, place);
        let mut conflicts = managers.conflicts(manager, &comparison);
        if upgrades && !conflicts.is_empty() {
            last_applied::allow(&mut conflicts, live, &manager.api_version, place);
        }
        if !self.force && !conflicts.is_empty() {
            return Err(managed::refusal(&conflicts));
        }
        let is_changed = match place.has(VALUES_ARE_COMPARED) {
            true => merged != *live,
            false => !comparison.is_empty(),
        };
        if is_changed || !place.has(TIMES_ARE_KEPT) && last != fields {
            managers.touch(manager, &self.time);
        }
        managers.follow(Some(manager), &comparison);
        if upgrades {
            last_applied::update(&mut merged, applied);
        }
        Ok((merged, managers))
    }

    /// The single manager of all existing fields.
    fn before_first_apply(&self, live: &Value) -> Managers {
        let nothing = Value::Object(Map::new());
        let fields = compare(&nothing, live, self.place).added;
        let mut managers = Managers::default();
        let manager = Manager {
            name: BEFORE_FIRST_APPLY.to_owned(),
            operation: Operation::Update,
            ..self.manager.clone()
        };
        managers.give(&manager, &fields, &self.time);
        managers
    }
}
