//! Fixes what is known of leases and of the nodes that own them.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ObjectMeta, OwnerReference, StoreError};

use crate::object::Live;

/// What a plan rests on.
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The leases. Where they could not be listed, nothing is planned.
    pub leases: Result<Vec<ObjectMeta>, StoreError>,
    /// What is known of nodes.
    pub nodes: Nodes,
}

/// What is known of nodes.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Nodes {
    /// All of them: who is not among these does not exist.
    All(Vec<ObjectMeta>),
    /// These were looked up, by name. Of others nothing is known.
    Of(BTreeMap<Arc<str>, Live<ObjectMeta>>),
}

impl Default for Nodes {
    /// Nothing is known.
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

/// The one reference that the kubelet gives the lease of its node: neither a controller nor blocking.
#[must_use]
pub fn owner_of(node: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: Arc::clone(&node.name),
        uid: node.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}
