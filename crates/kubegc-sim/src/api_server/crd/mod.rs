//! Decides what a CustomResourceDefinition brings and takes: the kinds that are served as long as it is there.

mod cleaner;

use std::sync::Arc;

use kubegc_core::{ApiResource, KindId, Scope, identity::join_api_version};
use serde_json::{Value, json};

pub use cleaner::{CrdCleaner, CrdStep};

use super::ApiServer;
use crate::{
    StoredObject,
    status::{self, Refusal},
};

/// The finalizer that every CustomResourceDefinition carries from its creation on.
pub const FINALIZER_CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what the server adds to a definition when it is created.
pub(super) fn prepare(object: &mut StoredObject) {
    if !object.meta.has_finalizer(FINALIZER_CRD_CLEANUP) {
        object.meta.finalizers.push(FINALIZER_CRD_CLEANUP.into());
    }
}

/// Serves the versions of a new definition and notes in its status whether its names were free.
///
/// The real server accepts names a moment later, in a controller; here a definition is established as it is created.
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
    if established {
        serve_all(server, object, resources);
    }
    let names = object.at(&["spec", "names"]).cloned().unwrap_or(Value::Null);
    let versions: Vec<Value> = resources_of(object)
        .iter()
        .map(|resource| Value::from(&*resource.version))
        .collect();
    if object.body.is_some() {
        let accepted = if established { names } else { json!({}) };
        let status = json!({"acceptedNames": accepted, "storedVersions": versions, "conditions": []});
        object.body_mut().insert("status".to_owned(), status);
        set_condition(object, "NamesAccepted", !taken, "NoConflicts");
        set_condition(object, "Established", established, "InitialNamesAccepted");
    }
}

/// Follows a changed definition: new versions are served, versions that left are not.
pub(super) fn follow(server: &mut ApiServer, object: &StoredObject) {
    let resources = resources_of(object);
    // Of a definition without a spec only metadata is known: its kinds are what the catalog says.
    if resources.is_empty() || !is_established(object) {
        return;
    }
    let gone: Vec<KindId> = kinds_of(server, object)
        .into_iter()
        .filter(|&kind| {
            let version = &server.resource(kind).version;
            !resources.iter().any(|resource| resource.version == *version)
        })
        .collect();
    let shape = Arc::make_mut(&mut server.shape);
    for kind in gone {
        shape.kinds[kind.index()].served = false;
    }
    serve_all(server, object, resources);
}

fn serve_all(server: &mut ApiServer, object: &StoredObject, resources: Vec<ApiResource>) {
    for resource in resources {
        let with_status = has_status_subresource(object, &resource.version);
        let known = server
            .shape
            .catalog
            .by_resource(&resource.group, &resource.version, &resource.resource);
        // A kind that was served before comes back where it was; one whose kind is taken elsewhere stays unserved.
        let Some(kind) = known.or_else(|| server.register(resource).ok()) else {
            continue;
        };
        let kind = &mut Arc::make_mut(&mut server.shape).kinds[kind.index()];
        kind.served = true;
        kind.terminating = false;
        kind.status_subresource = with_status;
    }
}

/// Stops serving the kinds of a definition that is gone.
pub(super) fn withdraw(server: &mut ApiServer, object: &StoredObject) {
    let kinds = kinds_of(server, object);
    let shape = Arc::make_mut(&mut server.shape);
    for kind in kinds {
        shape.kinds[kind.index()].served = false;
    }
}

/// Refuses new instances while those that are there are being removed.
///
/// # Upstream
/// `crdHandler` in `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`, 1.20.2.
pub(super) fn refuse_while_terminating(server: &ApiServer, kind: KindId, verb: &str) -> Result<(), Refusal> {
    if server.shape.kinds[kind.index()].terminating {
        let message = format!("{verb} not allowed while custom resource definition is terminating");
        return Err(status::method_not_allowed(server.resource(kind), Some(&message)));
    }
    Ok(())
}

/// Group and plural name of what a definition defines. They are its name, where its spec is not known.
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

/// Whether instances can exist: assumed where the status says nothing of it, as where only metadata is known.
fn is_established(object: &StoredObject) -> bool {
    condition(object, "Established").is_none_or(|status| status == "True")
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

/// The resources that a definition asks for: one a served version.
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

/// The rank of a version of a custom resource: stable above beta above alpha, then the greater numbers; anything else lowest.
///
/// # Upstream
/// `CompareKubeAwareVersionStrings` in `apimachinery/pkg/version/helpers.go`.
#[must_use]
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
    /// The definition that a custom kind comes from; `None` for kinds that were registered without one.
    pub(super) fn definition(&self, kind: KindId) -> Option<&StoredObject> {
        let resource = self.resource(kind);
        if !resource.custom {
            return None;
        }
        let table = self.tables[self.shape.definitions? as usize].as_deref()?;
        let name = format!("{}.{}", resource.resource, resource.group);
        table.find("", &name).map(Arc::as_ref)
    }
}

/// What a definition says of one of its versions under a key, or, where v1beta1 has it, of all of them.
fn of_version<'a>(object: &'a StoredObject, version: &str, key: &str, for_all: &[&str]) -> Option<&'a Value> {
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array);
    let entry = versions.into_iter().flatten();
    let mut entry = entry.filter(|entry| entry.get("name") == Some(&version.into()));
    let own = entry.next().and_then(|entry| entry.get(key));
    own.or_else(|| object.at(for_all))
}

fn subresources<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    of_version(object, version, "subresources", &["spec", "subresources"])
}

fn has_status_subresource(object: &StoredObject, version: &str) -> bool {
    subresources(object, version).is_some_and(|subresources| subresources.get("status").is_some())
}

/// Where the `scale` subresource of a version finds its numbers, if there is one.
pub(super) fn scale<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    subresources(object, version)?.get("scale")
}

/// The schema of a version.
pub(super) fn schema<'a>(object: &'a StoredObject, version: &str) -> Option<&'a Value> {
    of_version(object, version, "schema", &["spec", "validation"])?.get("openAPIV3Schema")
}

/// Whether instances can be selected by a field, such as `spec.color`.
pub(super) fn is_selectable(object: &StoredObject, version: &str, label: &str) -> bool {
    let fields = of_version(object, version, "selectableFields", &["spec", "selectableFields"]);
    let fields = fields.and_then(Value::as_array).into_iter().flatten();
    let mut paths = fields.filter_map(|field| field.get("jsonPath")?.as_str());
    paths.any(|path| path.strip_prefix('.') == Some(label))
}

/// The status of a condition, if the object has it.
fn condition<'a>(object: &'a StoredObject, condition: &str) -> Option<&'a str> {
    let conditions = object.at(&["status", "conditions"])?.as_array()?;
    let mut entries = conditions.iter();
    let entry = entries.find(|entry| entry.get("type") == Some(&condition.into()))?;
    entry.get("status")?.as_str()
}

fn set_condition(object: &mut StoredObject, condition: &str, holds: bool, reason: &str) {
    let status = object.body_mut().entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    let holds = if holds { "True" } else { "False" };
    let entry = json!({"type": condition, "status": holds, "reason": reason});
    match status.get_mut("conditions") {
        Some(Value::Array(conditions)) => {
            match conditions
                .iter_mut()
                .find(|entry| entry.get("type") == Some(&condition.into()))
            {
                Some(stored) => *stored = entry,
                None => conditions.push(entry),
            }
        }
        _ => status["conditions"] = json!([entry]),
    }
}
