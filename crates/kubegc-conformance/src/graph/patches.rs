//! Compares the bytes of single patches.

use kubegc_core::{OwnerReference, ResourceVersion, Uid};
use kubegc_objects::patch;
use serde::Deserialize;

use super::format::{Owner, ServerObject, references};
use crate::{
    Failure,
    failure::equal,
    runner::{Case, Report},
};

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
    let semantics = super::semantics(if is_latest { "latest" } else { "1.20.2" })?;
    let case: Patch = case.read()?;
    let uid = Uid::new(&case.uid);
    let owner_uids: Vec<Uid> = case.owner_uids.iter().map(|uid| Uid::new(uid)).collect();
    let node_owners: Vec<OwnerReference> = references(&case.node_owners);
    let read_at = ResourceVersion::new(&case.latest.rv);
    let body = match case.kind.as_str() {
        "delete_owner_refs_strategic" => Some(patch::remove_owners(&semantics, &uid, &owner_uids)),
        "delete_owner_refs_merge" => {
            let latest: Vec<_> = references(&case.latest.owners);
            Some(patch::remove_owners_merge(&read_at, &latest, &owner_uids))
        }
        "unblock_strategic" => Some(patch::unblock(&semantics, &uid, &node_owners)),
        "unblock_merge" => Some(patch::unblock_merge(&read_at, &node_owners)),
        "remove_finalizer" => {
            let current: Vec<_> = case
                .latest
                .finalizers
                .iter()
                .map(|name| name.as_str().into())
                .collect();
            patch::remove_finalizer(&read_at, &current, &case.target_finalizer)
        }
        other => return Err(Failure::unreadable(format!("unknown kind of patch {other:?}"))),
    };
    let got = body.map(|body| String::from_utf8_lossy(&body).into_owned());
    equal(&case.kind, &(!case.no_patch).then_some(case.body), &got)
}
