//! Fixes what is known of nodes, and what the cloud says of them.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::sync::Arc;

use kubegc_core::{ObjectMeta, StoreError};

use super::EFFECT;
use crate::object::{Condition, Taint};

/// What a pass rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// All nodes. Where they could not be listed, nothing is planned.
    pub nodes: Result<Vec<Node>, StoreError>,
}

impl Facts {
    /// A complete list.
    #[must_use]
    pub const fn new(nodes: Vec<Node>) -> Self {
        Self { nodes: Ok(nodes) }
    }
}

/// A node, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `status.conditions`, in stored order; `None` where they are not known.
    pub conditions: Option<Vec<Condition>>,
    /// `spec.taints`; `None` where they are not known.
    pub taints: Option<Vec<Taint>>,
    /// `spec.providerID`, empty where the node has none yet; `None` where it is not known.
    pub provider_id: Option<Arc<str>>,
    /// Whether the cloud has an instance for the node.
    pub exists: Cloud,
    /// Whether that instance is shut down.
    pub is_shutdown: Cloud,
}

impl Node {
    /// A node that is ready, or is not, without taints. The cloud was not asked.
    #[must_use]
    pub fn new(meta: ObjectMeta, is_ready: bool, provider_id: &str) -> Self {
        let status = if is_ready { "True" } else { "False" };
        Self {
            meta,
            conditions: Some(vec![Condition::new("Ready", status)]),
            taints: Some(Vec::new()),
            provider_id: Some(provider_id.into()),
            exists: Cloud::NotAsked,
            is_shutdown: Cloud::NotAsked,
        }
    }

    /// Whether the node is ready: its first condition of that type is true; `None` where that is not known.
    #[must_use]
    pub fn is_ready(&self) -> Option<bool> {
        let conditions = self.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| &*condition.kind == "Ready");
        Some(ready.is_some_and(Condition::is_true))
    }

    /// Whether the node has a taint with this key and the effect [`EFFECT`]; `None` where that is not known.
    #[must_use]
    pub fn has_taint(&self, key: &str) -> Option<bool> {
        let is_it = |taint: &Taint| &*taint.key == key && &*taint.effect == EFFECT;
        Some(self.taints.as_ref()?.iter().any(is_it))
    }
}

/// What the cloud says to one question about one node.
///
/// Where a cloud is asked by provider id, "instance not found" is a no to the question of existence.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cloud {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// Yes.
    Yes,
    /// No.
    No,
    /// This cloud cannot tell.
    NotImplemented,
    /// The question failed.
    Failed(Arc<str>),
}
