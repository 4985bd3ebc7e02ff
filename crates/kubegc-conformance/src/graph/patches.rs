//! Compares the bytes of single patches.

use kubegc_core::{OwnerReference, ResourceVersion, Uid};
use kubegc_objects::patch;
use serde::Deserialize;

use super::format::{Owner, ServerObject, references};
use crate::{Failure, failure::equal};

#[derive(Deserialize)]
struct Case {
    kind: String,
    semantics: Option<String>,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    owner_uids: Vec<String>,
    #[serde(default)]
    node_owners: Vec<Owner>,
    #[serde(default)]
    latest: ServerObject,
    #[serde(default)]
    target_finalizer: String,
    #[serde(default)]
    no_patch: bool,
    body: String,
}

/// Replays one case.
pub(crate) fn replay(line: &str, semantics_by_name: &str) -> Result<(), Failure> {
    let case: Case = serde_json::from_str(line).map_err(Failure::unreadable)?;
    let semantics = super::semantics(case.semantics.as_deref().unwrap_or(semantics_by_name))?;
    let uid = Uid::new(&case.uid);
    let owner_uids: Vec<Uid> = case.owner_uids.iter().map(|uid| Uid::new(uid)).collect();
    let node_owners: Vec<OwnerReference> = references(&case.node_owners);
    let read_at = ResourceVersion::new(&case.latest.rv);
    let body = match case.kind.as_str() {
        "delete_owner_refs_strategic" => Some(patch::remove_owners(&semantics, &uid, &owner_uids)),
        "delete_owner_refs_merge" => {
            let latest: Vec<_> = case.latest.owners.iter().map(|owner| owner.0.clone()).collect();
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
    let text = |body: Option<&str>| body.map_or_else(|| "no patch".to_owned(), ToOwned::to_owned);
    let got = body.map(|body| String::from_utf8_lossy(&body).into_owned());
    equal(
        &case.kind,
        text((!case.no_patch).then_some(&case.body)),
        text(got.as_deref()),
    )
}
