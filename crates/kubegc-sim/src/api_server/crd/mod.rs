//! CustomResourceDefinitions: the kinds that they define, their deletion, and the controllers for them.

pub(crate) mod beta;
#[cfg(feature = "cel")]
pub(super) mod cel;
mod cleaner;
pub(super) mod convert;
mod instance;
mod openapi;
mod registration;
pub(super) mod resource;
mod selectable;
mod string_formats;
mod structural;
pub(crate) mod validation;

use std::sync::{Arc, LazyLock};

use kubegc_core::{
    ApiResource, Behavior, DeleteOptions, KindId, KubernetesVersion, Scope, Timestamp,
    identity::join_api_version,
};
use serde_json::{Value, json};

pub use cleaner::{CrdCleaner, CrdStep};
pub use convert::Converter;
pub use registration::{CrdRegistration, RegistrationStep};

use super::{ApiServer, Key, Response};
use crate::{
    StoredObject,
    status::{self, Result},
    types::{
        field::{At, Check},
        node::Node,
        rules::{Table, Word},
    },
};

/// The finalizer that keeps a deleted CustomResourceDefinition until its custom resources are removed.
pub(super) const FINALIZER_CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const TABLE: &str = include_str!("rules.txt");

/// The sections of the table. A bad row fails the test of this module.
static RULES: LazyLock<Table> = LazyLock::new(|| Table::parse(TABLE, function).unwrap_or_default());

/// The functions of the rows of `rules.txt` with `fn`.
fn function(name: &str) -> Option<Word> {
    Some(Word::Code(match name {
        "definitions.approval" => validation::approval,
        "definitions.name" => validation::name,
        "definitions.schema" => validation::schema,
        "definitions.stored_versions" => validation::stored_versions,
        "definitions.versions" => validation::versions,
        "definitions.warning" => validation::warning,
        "selectable.fields" => selectable::fields,
        "structural.keys_of_map" => structural::keys_of_map,
        "structural.map_list" => structural::map_list,
        "structural.root_metadata" => structural::root_metadata,
        "structural.value_validation" => structural::value_validation,
        _ => return None,
    }))
}

/// Applies a section of the rules of definitions to a value.
fn section(name: &str, at: &At<'_>, c: &mut Check) {
    RULES.apply(name, at, c);
}

/// Deletes a definition: the first DELETE marks it and adds [`FINALIZER_CRD_CLEANUP`], regardless of its
/// policy.
///
/// Later ones are ordinary deletions. `deletecollection` does not use this function: as upstream, it deletes
/// definitions without the finalizer, and their custom resources remain in the store.
///
/// # Upstream
/// [`REST.Delete`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go),
/// the same from 1.13 to 1.37, but for the precondition on the resourceVersion (1.14).
pub(super) fn delete(server: &mut ApiServer, key: Key<'_>, options: &DeleteOptions) -> Result<Response> {
    let (kind, existing) = (key.kind, server.existing(key)?);
    server.check_preconditions(kind, &existing.meta, options, true)?;
    if existing.meta.is_deleting() {
        return server.delete_object(key, &mut options.clone());
    }
    let now = server.now;
    let response = server.mark(kind, &existing, options, |object| {
        if !object.meta.has_finalizer(FINALIZER_CRD_CLEANUP) {
            object.meta.finalizers.push(FINALIZER_CRD_CLEANUP.into());
        }
        set_condition(object, "Terminating", true, "InstanceDeletionPending", now);
    })?;
    if let Some(object) = response.object().filter(|_| !options.dry_run) {
        follow(server, object);
    }
    Ok(response)
}

/// Serves the versions of a new definition and sets the conditions of its status.
///
/// The real server accepts names a moment later, in a controller. Here a definition is established when it is
/// created.
pub(super) fn serve(server: &mut ApiServer, object: &mut StoredObject) {
    let resources = resources_of(object);
    let taken = resources.iter().any(|resource| {
        let catalog = &server.shape.catalog;
        let clash = catalog
            .by_resource(&resource.group, &resource.version, &resource.resource)
            .or_else(|| catalog.mapping(&resource.api_version(), &resource.kind));
        clash.is_some_and(|kind| server.serves(kind))
    });
    let established = !taken && !resources.is_empty();
    let versions = resources.iter().map(|resource| &*resource.version).collect();
    if established {
        serve_all(server, object, resources);
    }
    if object.body.is_some() {
        let names = object.at(&["spec", "names"]).cloned().unwrap_or(Value::Null);
        let accepted = if established { names } else { json!({}) };
        let stored = object.at(&["status", "storedVersions"]).cloned();
        let versions: Value = stored.filter(|_| server.settings.types).unwrap_or(versions);
        let status = json!({"acceptedNames": accepted, "storedVersions": versions, "conditions": []});
        object.body_mut().insert("status".to_owned(), status);
        let reason = if taken { "PluralConflict" } else { "NoConflicts" };
        set_condition(object, "NamesAccepted", !taken, reason, server.now);
        let reason = if established {
            "InitialNamesAccepted"
        } else {
            "NotAccepted"
        };
        set_condition(object, "Established", established, reason, server.now);
    }
}

/// Handles a changed definition: its served versions, and whether it accepts new custom resources.
pub(super) fn follow(server: &mut ApiServer, object: &StoredObject) {
    let resources = resources_of(object);
    // Only metadata of a definition without a spec is known: the catalog defines its kinds.
    if !resources.is_empty() && is_established(object) {
        withdraw(server, object);
        serve_all(server, object, resources);
    }
    let terminating = object.condition("Terminating")["status"] == "True";
    for kind in kinds_of(server, object) {
        if server.shape.kinds[kind.index()].terminating != terminating {
            Arc::make_mut(&mut server.shape).kinds[kind.index()].terminating = terminating;
        }
    }
}

fn serve_all(server: &mut ApiServer, object: &StoredObject, resources: Vec<ApiResource>) {
    for resource in resources {
        let subresources = subresources(object, &resource.version);
        let with_status = subresources.is_some_and(|subresources| subresources.get("status").is_some());
        let known = server
            .shape
            .catalog
            .by_resource(&resource.group, &resource.version, &resource.resource);
        // A kind that was served before gets its former position. A kind whose name is now taken stays
        // unserved.
        let Some(kind) = known.or_else(|| server.register(resource).ok()) else {
            continue;
        };
        let kind = &mut Arc::make_mut(&mut server.shape).kinds[kind.index()];
        kind.served = true;
        kind.terminating = false;
        kind.status_subresource = with_status;
    }
}

/// Stops serving the kinds of a removed definition.
pub(super) fn withdraw(server: &mut ApiServer, object: &StoredObject) {
    let kinds = kinds_of(server, object);
    let shape = Arc::make_mut(&mut server.shape);
    for kind in kinds {
        shape.kinds[kind.index()].served = false;
    }
}

/// The refusal names the instance, as an admission plugin does.
const TERMINATING_IS_FORBIDDEN: Behavior = Behavior::since(34, 0, "crdHandler of 1.34");

/// Refuses to create an instance while the existing ones are being removed.
///
/// # Upstream
/// `crdHandler` in
/// [`customresource_handler.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go).
pub(super) fn refuse_while_terminating(server: &ApiServer, kind: KindId, name: &str) -> Result<()> {
    const WHY: &str = "create not allowed while custom resource definition is terminating";
    if !server.shape.kinds[kind.index()].terminating {
        return Ok(());
    }
    let resource = server.resource(kind);
    Err(match server.version.has(TERMINATING_IS_FORBIDDEN) {
        true => status::forbidden(resource, name, WHY, Vec::new()),
        false => status::method_not_allowed(resource, Some(WHY)),
    })
}

/// Group and plural name of the defined resource. Without a spec, they are taken from the name of the
/// definition.
fn defines(object: &StoredObject) -> (&str, &str) {
    match object.text_at(&["spec", "group"]) {
        "" => object
            .meta
            .name
            .split_once('.')
            .map_or(("", ""), |(plural, group)| (group, plural)),
        group => (group, object.text_at(&["spec", "names", "plural"])),
    }
}

/// Whether instances can exist. Assumed where the status has no condition, as where only metadata is known.
fn is_established(object: &StoredObject) -> bool {
    object.condition("Established")["status"]
        .as_str()
        .is_none_or(|status| status == "True")
}

/// The served kinds that belong to a definition.
fn kinds_of(server: &ApiServer, object: &StoredObject) -> Vec<KindId> {
    let (group, plural) = defines(object);
    let catalog = server.shape.catalog.iter();
    catalog
        .filter(|(kind, resource)| {
            resource.custom
                && *resource.group == *group
                && *resource.resource == *plural
                && server.serves(*kind)
        })
        .map(|(kind, _)| kind)
        .collect()
}

/// The resources of a definition: one for each served version.
fn resources_of(object: &StoredObject) -> Vec<ApiResource> {
    let text = |path: &[&str]| object.text_at(path);
    let (group, kind, plural) = (
        text(&["spec", "group"]),
        text(&["spec", "names", "kind"]),
        text(&["spec", "names", "plural"]),
    );
    if group.is_empty() || kind.is_empty() || plural.is_empty() {
        return Vec::new();
    }
    let scope = if text(&["spec", "scope"]) == "Cluster" {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    let mut versions: Vec<&str> = match object.at(&["spec", "versions"]).and_then(Value::as_array) {
        Some(versions) => versions
            .iter()
            .filter(|version| version.get("served").is_none_or(|served| served != false))
            .filter_map(|version| version.get("name")?.as_str())
            .collect(),
        // apiextensions.k8s.io/v1beta1 with its single version.
        None => vec![text(&["spec", "version"])],
    };
    versions.retain(|version| !version.is_empty());
    let preferred = versions
        .iter()
        .copied()
        .max_by_key(|version| version_priority(version));
    versions
        .into_iter()
        .map(|version| {
            let mut resource =
                ApiResource::new(&join_api_version(group, version), kind, plural, scope).custom();
            resource.preferred = Some(version) == preferred;
            resource
        })
        .collect()
}

/// The rank of a version of a custom resource: stable above beta above alpha, then the greater numbers;
/// anything else lowest.
///
/// # Upstream
/// `CompareKubeAwareVersionStrings` in `apimachinery/pkg/version/helpers.go`.
pub fn version_priority(version: &str) -> impl Ord + use<'_> {
    let rank = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let (class, minor) = match &rest[digits..] {
            "" => (3, 0),
            tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                (Some(minor), _) => (2, minor.parse().ok()?),
                (_, Some(minor)) => (1, minor.parse().ok()?),
                _ => return None,
            },
        };
        Some((class, major, minor))
    };
    let (class, major, minor) = rank().unwrap_or((0, 0, 0));
    (class, major, minor, std::cmp::Reverse(version))
}

impl ApiServer {
    /// The definition of a custom kind; `None` for kinds that were registered without a definition.
    pub fn definition(&self, kind: KindId) -> Option<&Arc<StoredObject>> {
        if !self.resource(kind).custom {
            return None;
        }
        let table = self.table_of("customresourcedefinitions.apiextensions.k8s.io")?;
        table.find("", &self.shape.kinds.get(kind.index())?.definition)
    }
}

/// The value of a key in one version of a definition, or, in v1beta1, in the definition itself.
fn of_version<'a>(object: &'a StoredObject, version: &str, key: &str, for_all: &[&str]) -> Option<&'a Value> {
    let mut versions = object.list_at(&["spec", "versions"]).iter();
    let entry = versions.find(|entry| entry["name"] == version);
    let own = entry.and_then(|entry| entry.get(key));
    own.or_else(|| object.at(for_all))
}

fn subresources<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    of_version(object, version, "subresources", &["spec", "subresources"])
}

pub(super) fn scale<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    subresources(object, version)?.get("scale")
}

pub(super) fn storage_version(object: &StoredObject) -> &str {
    let mut versions = object.list_at(&["spec", "versions"]).iter();
    let stored = versions.find(|version| version["storage"] == true);
    let name = stored.and_then(|version| version.get("name")?.as_str());
    name.unwrap_or_else(|| object.text_at(&["spec", "version"]))
}

pub(super) fn schema<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    of_version(object, version, "schema", &["spec", "validation"])?.get("openAPIV3Schema")
}

/// Formats for names of Kubernetes objects.
const NAMES_ARE_FORMATS: Behavior = Behavior::since(35, 0, "k8s-short-name, k8s-long-name");

/// Whether a release checks strings of a format.
pub(super) fn is_known_format(version: KubernetesVersion, format: &str) -> bool {
    string_formats::is_known(format)
        || version.has(NAMES_ARE_FORMATS) && matches!(format, "k8s-short-name" | "k8s-long-name")
}

/// The objects of a kind in the graph of types. `definition`: that of a custom kind.
pub(super) fn node<'a>(resource: &ApiResource, definition: Option<&'a StoredObject>) -> Node<'a> {
    if resource.custom {
        return Node::Custom(definition.and_then(|definition| schema(definition, &resource.version)));
    }
    Node::of(resource)
}

/// Whether instances can be selected by a field, such as `spec.color`.
pub(super) fn is_selectable(object: &StoredObject, version: &str, label: &str) -> bool {
    let fields = of_version(object, version, "selectableFields", &["spec", "selectableFields"]);
    let mut fields = fields.and_then(Value::as_array).into_iter().flatten();
    fields.any(|field| field["jsonPath"].as_str().and_then(|path| path.strip_prefix('.')) == Some(label))
}

/// Sets a condition of a definition.
fn set_condition(object: &mut StoredObject, condition: &str, holds: bool, reason: &str, now: Timestamp) {
    let holds = if holds { "True" } else { "False" };
    let entry = json!({"type": condition, "status": holds, "reason": reason, "message": message(reason)});
    put_condition(object, entry, now);
}

/// Sets a condition; its transition time changes with its status only.
///
/// # Upstream
/// [`SetCRDCondition`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/helpers.go),
/// and `UpdateDisruptionAllowedCondition` in `component-helpers/apps/poddisruptionbudget/helpers.go`, 1.30.
pub(super) fn put_condition(object: &mut StoredObject, mut entry: Value, now: Timestamp) {
    let mut conditions = object.list_at(&["status", "conditions"]).to_vec();
    let mut stored = conditions.iter_mut();
    let stored = stored.find(|stored| stored["type"] == entry["type"]);
    let same = stored
        .as_ref()
        .filter(|stored| stored["status"] == entry["status"]);
    let since = same.and_then(|same| same.get("lastTransitionTime").cloned());
    entry["lastTransitionTime"] = since.unwrap_or_else(|| now.truncate_to_secs().to_string().into());
    match stored {
        Some(stored) => *stored = entry,
        None => conditions.push(entry),
    }
    object.put(&["status", "conditions"], Some(&conditions.into()));
}

fn message(reason: &str) -> &'static str {
    match reason {
        "NoConflicts" => "no conflicts found",
        "PluralConflict" => "the plural name or the kind is already in use",
        "InitialNamesAccepted" => "the initial names have been accepted",
        "NotAccepted" => "not all names are accepted",
        "InstanceDeletionPending" => {
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        }
        "InstanceDeletionInProgress" => "CustomResource deletion is in progress",
        "InstanceDeletionCompleted" => "removed all instances",
        "InstanceDeletionCheck" => {
            "could not confirm zero CustomResources remaining: timed out waiting for the condition"
        }
        "InstanceDeletionFailed" => "could not issue all deletes",
        "OverlappingBuiltInResource" => "instances overlap with built-in resources in storage",
        "NeverEstablished" => "resource was never established",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let table = Table::parse(TABLE, function).unwrap_or_else(|line| panic!("{line}"));
        assert!(table.has("Definition"));
    }
}
