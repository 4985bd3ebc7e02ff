//! Compares the bytes of single patches.

use kubegc_core::{ObjectMeta, PatchType, Uid};
use kubegc_objects::patch::Change;
use serde::Deserialize;

use super::format::{Owner, ServerObject, references};
use crate::{Failure, Report, failure::equal, recording::Case};

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

/// Replays one case. The name of the file shows the release.
pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let is_latest = case.file().ends_with("_latest");
    let version = super::release(if is_latest { "latest" } else { "1.20.2" })?;
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
