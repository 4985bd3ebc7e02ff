//! Lists that `kubectl cluster-info dump` wrote up to 1.13: types that are not of the API, as Go prints them.
//!
//! Their list is under `Items`, the metadata of an object is at its top level, and there is no kind. The kind
//! comes from the `selfLink` of the list or from the name of the file. All other fields have the names of Go
//! and are not read.

use kubegc_core::json::{Soft, Text};
use serde::Deserialize;

use crate::{
    SnapshotError,
    ingest::{Ingest, Source},
    item::{Item, Meta},
    layout,
    store::TypeId,
};

/// The files of such a dump and the resources in `selfLink`, with the kinds that an API server serves today:
/// the nodes, and what is dumped of each namespace, in the order of the output.
pub(crate) const KINDS: [(&str, &str, &str, &str); 8] = [
    ("nodes", "nodes", "v1", "Node"),
    ("events", "events", "v1", "Event"),
    (
        "replication-controllers",
        "replicationcontrollers",
        "v1",
        "ReplicationController",
    ),
    ("services", "services", "v1", "Service"),
    ("daemonsets", "daemonsets", "apps/v1", "DaemonSet"),
    ("deployments", "deployments", "apps/v1", "Deployment"),
    ("replicasets", "replicasets", "apps/v1", "ReplicaSet"),
    ("pods", "pods", "v1", "Pod"),
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    kind: String,
    self_link: String,
}

/// The kind of the items of a list. `head` is the text before them, without its closing brace or whole.
pub(crate) fn kind_of(head: &[u8], file: &str) -> Option<(&'static str, &'static str)> {
    let closed = [head, b"}"].concat();
    let head: Head = serde_json::from_slice(head)
        .or_else(|_| serde_json::from_slice(&closed))
        .unwrap_or_default();
    if !head.kind.is_empty() {
        return None;
    }
    let resource = head.self_link.rsplit('/').next().unwrap_or_default();
    let file = layout::unpacked_name(file);
    let name = file.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let found = KINDS
        .iter()
        .find(|(_, known, ..)| *known == resource)
        .or_else(|| KINDS.iter().find(|(known, ..)| *known == stem));
    found.map(|&(.., api_version, kind)| (api_version, kind))
}

/// Adds the metadata of one object.
pub(crate) fn object(
    ingest: &mut Ingest,
    text: &str,
    type_id: TypeId,
    source: &Source,
) -> Result<(), SnapshotError> {
    let source = Source {
        hint: Some(type_id),
        ..source.clone()
    };
    let meta: Meta<'_> = match serde_json::from_str(text) {
        Ok(meta) => meta,
        Err(error) => {
            ingest.unreadable(&source, &format!("its metadata cannot be read: {error}"));
            return Ok(());
        }
    };
    let of_metadata = |text: &'static str| Soft::Is(Text(text.into()));
    let object = Item {
        api_version: of_metadata("meta.k8s.io/v1"),
        kind: of_metadata("PartialObjectMetadata"),
        meta: Soft::Is(meta),
        ..Item::default()
    };
    ingest.object(&object, &source)
}
