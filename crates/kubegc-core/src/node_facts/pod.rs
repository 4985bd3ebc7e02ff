//! The pods that a node knows, and the state of each.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Uid, identity::kubectl_name};

/// The pod of a container or sandbox.
///
/// Order and equality compare the uid first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", kubectl_name("", "Pod", namespace, name))]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct PodIdentity {
    /// Uid; empty if the runtime does not report it, as upstream.
    pub uid: Uid,
    /// Namespace; empty if the runtime does not report it.
    pub namespace: Arc<str>,
    /// Name; empty if the runtime does not report it.
    pub name: Arc<str>,
}

impl From<[&str; 3]> for PodIdentity {
    /// Namespace, name and uid.
    fn from([namespace, name, uid]: [&str; 3]) -> Self {
        Self {
            uid: Uid::new(uid),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The state of a known pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodState {
    /// The kubelet evicted it, or it was already evicted when the kubelet received it.
    pub evicted: bool,
    pub deleted: bool,
    /// None of its containers is running, and none will be started.
    pub terminated: bool,
}

impl PodState {
    /// A pod that is meant to run.
    pub const ACTIVE: Self = Self {
        evicted: false,
        deleted: false,
        terminated: false,
    };
    /// A pod that completed and still exists in the API (phase Succeeded or Failed).
    pub const COMPLETED: Self = Self {
        evicted: false,
        deleted: false,
        terminated: true,
    };
    /// A pod that is being deleted and whose containers have ended.
    pub const DELETED: Self = Self {
        evicted: false,
        deleted: true,
        terminated: true,
    };
}

/// The pods that the node knows, and whether the list is complete.
///
/// # Guarantees
/// `Default` means *unknown*: no sources are ready, nothing was compared, and no pod counts as removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pods {
    pub known: BTreeMap<Uid, PodState>,
    /// Every configured source of pods (API, static file, static URL) has delivered at least once. Upstream:
    /// `allSourcesReady`.
    pub sources_ready: bool,
    /// The running pods were compared at least once with the desired ones: a uid that is not `known` is
    /// garbage, not a new pod. Upstream: `podsSynced`.
    pub synced: bool,
}
