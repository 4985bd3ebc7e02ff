//! Which pods the node knows, and how far each has come to its end.

use std::{collections::BTreeMap, sync::Arc};

use crate::Uid;

/// The pod that a container or sandbox belongs to.
///
/// Order and equality go by uid first.
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodIdentity {
    /// Uid; empty where the runtime does not say, as upstream has it.
    pub uid: Uid,
    /// Namespace; empty where the runtime does not say.
    pub namespace: Arc<str>,
    /// Name; empty where the runtime does not say.
    pub name: Arc<str>,
}

impl Default for PodIdentity {
    fn default() -> Self {
        Self {
            uid: Uid::new(""),
            namespace: Arc::default(),
            name: Arc::default(),
        }
    }
}

/// How far a known pod has come to its end.
#[expect(clippy::exhaustive_structs, reason = "a fact that pod sources build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodState {
    /// The kubelet evicted it, or it came already evicted.
    pub evicted: bool,
    /// Its deletion was asked for.
    pub deleted: bool,
    /// None of its containers runs any more, and none will.
    pub terminated: bool,
}

impl PodState {
    /// A pod that is meant to run.
    pub const LIVING: Self = Self {
        evicted: false,
        deleted: false,
        terminated: false,
    };
    /// A pod that ran to its end and is still in the API (phase Succeeded or Failed).
    pub const COMPLETED: Self = Self {
        evicted: false,
        deleted: false,
        terminated: true,
    };
    /// A pod whose deletion was asked for and whose containers have ended.
    pub const GONE: Self = Self {
        evicted: false,
        deleted: true,
        terminated: true,
    };
}

/// The pods that the node knows, and whether it knows them all.
///
/// # Guarantees
/// `Default` is *nothing is known*: no sources are ready, nothing was compared, and no pod counts as gone.
#[expect(clippy::exhaustive_structs, reason = "a fact that pod sources build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pods {
    /// The pods, by uid.
    pub known: BTreeMap<Uid, PodState>,
    /// Every configured source of pods (API, static file, static URL) has delivered at least once. Upstream: `allSourcesReady`.
    pub sources_ready: bool,
    /// What runs was compared at least once with what should: a uid that is not `known` is garbage, not news. Upstream: `podsSynced`.
    pub synced: bool,
}
