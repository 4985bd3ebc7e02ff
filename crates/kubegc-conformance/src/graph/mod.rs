//! Replays what was recorded of the owner graph and its two workers.

mod conflicting;
mod format;
mod items;
mod machine;
mod sequence;

use kubegc_core::{ApiResource, Catalog, ObjectMeta, PatchType, Scope, Uid};
use kubegc_objects::patch::Change;
use serde::Deserialize;

use self::format::{Owner, ServerObject, references};
pub(crate) use self::{conflicting::replay as replay_conflicting, sequence::replay as replay_sequence};
use crate::{
    Failure, Report,
    failure::equal,
    recording::{Case, release},
};

/// The kinds that the recorded REST mapper knew.
fn catalog() -> Result<Catalog, Failure> {
    use Scope::{Cluster, Namespaced};
    let mut catalog = Catalog::new();
    for (api_version, kind, resource, scope) in [
        ("v1", "Pod", "pods", Namespaced),
        ("v1", "ConfigMap", "configmaps", Namespaced),
        ("v1", "Secret", "secrets", Namespaced),
        ("v1", "Node", "nodes", Cluster),
        ("apps/v1", "Deployment", "deployments", Namespaced),
        ("apps/v1", "ReplicaSet", "replicasets", Namespaced),
        ("rbac.authorization.k8s.io/v1", "Role", "roles", Namespaced),
        ("rbac.authorization.k8s.io/v1beta1", "Role", "roles", Namespaced),
        ("example.com/v1", "Widget", "widgets", Namespaced),
        ("example.com/v1", "ClusterWidget", "clusterwidgets", Cluster),
    ] {
        let resource = ApiResource::new(api_version, kind, resource, scope);
        let resource = if api_version == "example.com/v1" {
            resource.custom()
        } else {
            resource
        };
        catalog.add(resource).map_err(Failure::unreadable)?;
    }
    Ok(catalog)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Patch {
    kind: String,
    uid: String,
    owner_uids: Vec<String>,
    node_owners: Vec<Owner>,
    latest: ServerObject,
    target_finalizer: String,
    no_patch: bool,
    body: String,
}

/// Compares the bytes of a patch. The name of the file shows the release.
pub(crate) fn replay_patch(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let is_latest = case.file().ends_with("_latest");
    let version = release(if is_latest { "latest" } else { "1.20.2" })?;
    let case: Patch = case.read()?;
    let mut object = ObjectMeta::new("", "", &case.uid);
    object.resource_version = case.latest.rv.as_str().into();
    object.owner_references = references(&case.latest.owners);
    let finalizers = case.latest.finalizers.iter();
    object.finalizers = finalizers.map(|name| name.as_str().into()).collect();
    let removed = || Change::RemoveOwners(case.owner_uids.iter().map(|uid| Uid::new(uid)).collect());
    let unblocked = || Change::Unblock(references(&case.node_owners));
    let (change, format) = match case.kind.as_str() {
        "delete_owner_refs_strategic" => (removed(), PatchType::Strategic),
        "delete_owner_refs_merge" => (removed(), PatchType::Merge),
        "unblock_strategic" => (unblocked(), PatchType::Strategic),
        "unblock_merge" => (unblocked(), PatchType::Merge),
        "remove_finalizer" => {
            let finalizer = case.target_finalizer.as_str().into();
            (Change::RemoveFinalizer(finalizer), PatchType::Merge)
        }
        other => return Err(Failure::unreadable(format!("unknown kind of patch {other:?}"))),
    };
    let got = change.body(version, format, &object);
    let got = got.map(|body| String::from_utf8_lossy(&body).into_owned());
    equal(&case.kind, &(!case.no_patch).then_some(case.body), &got)
}
