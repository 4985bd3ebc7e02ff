//! Assumptions about components outside of a dump.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_controllers::{Cloud, Storage};

use crate::finalizers::{self, Owner};

/// Assumptions about kubelets, storage, the cloud provider and operators. Printed with each forecast.
///
/// # Examples
/// ```
/// use kubegc_control_plane::Assumptions;
/// let assumptions = Assumptions { pods_end: false, ..Assumptions::default() };
/// assert!(assumptions.to_string().starts_with("pods never end; "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// Whether terminating pods end after their grace period, except those on nodes whose kubelets do not
    /// run. Default: they do.
    pub pods_end: bool,
    /// Finalizers, and components by their names in [`FINALIZERS`](crate::finalizers::FINALIZERS), of which
    /// it is known whether they are removed, or act. Default: none. Otherwise the controllers of
    /// kube-controller-manager, the cloud controller manager and the CSI sidecars act, and the finalizers
    /// of operators remain.
    pub acting: BTreeMap<Arc<str>, bool>,
    /// The names of admission webhooks, and of CustomResourceDefinitions with conversion webhooks, that
    /// cannot be reached. Default: those whose Service does not exist.
    pub unreachable_webhooks: Vec<Arc<str>>,
    /// APIs of extension API servers that are not available, as `group/version` or by the names of their
    /// APIServices. Default: those of which the dump says so.
    pub unavailable_apis: Vec<Arc<str>>,
    /// Whether volume plugins and provisioners delete storage on request. Default: they do. Otherwise the
    /// outcome of their volumes is unknown.
    pub storage_is_deleted: bool,
    /// Facts about the storage of the cluster. Without them, kube-controller-manager has the volume plugins
    /// and CSI migrations of its release. Default: none.
    pub storage: Storage,
    /// Whether a node that is missing from the dump is ready. While no node of the cluster is ready, the node
    /// lifecycle controller taints none, so that no pod is evicted. Default: there is none.
    pub other_nodes_are_ready: bool,
    /// The cloud provider's responses about nodes, by name. Default: none.
    pub cloud: BTreeMap<Arc<str>, Instance>,
}

/// The cloud provider's response about the instance of a node.
///
/// # Examples
/// The cloud provider no longer has the instance of a node.
/// ```
/// use kubegc_control_plane::{Assumptions, Instance};
/// use kubegc_controllers::Cloud;
/// let instance = Instance { exists: Cloud::No, is_shutdown: Cloud::No };
/// let assumptions = Assumptions { cloud: [("node-1".into(), instance)].into(), ..Assumptions::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub exists: Cloud,
    pub is_shutdown: Cloud,
}

impl Default for Instance {
    fn default() -> Self {
        let unknown = || Cloud::Failed("not queried".into());
        Self {
            exists: unknown(),
            is_shutdown: unknown(),
        }
    }
}

impl Assumptions {
    /// Whether the owner of a finalizer removes it from terminating objects.
    pub fn releases(&self, finalizer: &str) -> bool {
        let (owner, by_default) = match finalizers::find(finalizer).map(|known| known.owner) {
            Some(Owner::External(owner)) => (Some(owner), true),
            Some(Owner::Operator(owner)) => (Some(owner), false),
            _ => (None, false),
        };
        let acts = |owner: &str| self.acting.get(owner).copied();
        acts(finalizer)
            .or_else(|| owner.and_then(acts))
            .unwrap_or(by_default)
    }

    /// Whether a controller of kube-controller-manager, or its garbage collector, runs.
    pub fn runs(&self, controller: &str) -> bool {
        let acts = |name: &str| self.acting.get(name).copied();
        acts(controller)
            .or_else(|| acts(CONTROLLER_MANAGER))
            .unwrap_or(true)
    }
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            pods_end: true,
            acting: BTreeMap::new(),
            unreachable_webhooks: Vec::new(),
            unavailable_apis: Vec::new(),
            storage_is_deleted: true,
            storage: Storage::default(),
            other_nodes_are_ready: false,
            cloud: BTreeMap::new(),
        }
    }
}

impl fmt::Display for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.pods_end {
            "pods end after their grace period; "
        } else {
            "pods never end; "
        })?;
        for (name, acts) in &self.acting {
            let (verb, other) = if name.contains('/') || name.contains('.') {
                ("is removed", "is not removed")
            } else {
                ("acts", "does not act")
            };
            write!(f, "{name} {}; ", if *acts { verb } else { other })?;
        }
        let is_off = |component: &'static str| self.acting.get(component) == Some(&false);
        if finalizers::external_components().any(is_off) {
            f.write_str("other ")?;
        }
        f.write_str("cloud and CSI controllers remove their finalizers; other finalizers stay; ")?;
        if !self.unreachable_webhooks.is_empty() {
            let names = self.unreachable_webhooks.join(", ");
            write!(f, "the webhooks {names} cannot be reached; ")?;
        }
        if !self.unavailable_apis.is_empty() {
            let names = self.unavailable_apis.join(", ");
            write!(f, "the APIs {names} are not available; ")?;
        }
        if !self.storage_is_deleted {
            f.write_str("no storage is deleted; ")?;
        }
        if self.other_nodes_are_ready {
            f.write_str("nodes that are not in the dump are ready; ")?;
        }
        if !self.cloud.is_empty() {
            let names: Vec<&str> = self.cloud.keys().map(|name| &**name).collect();
            write!(
                f,
                "the cloud provider was queried about these nodes: {}; ",
                names.join(", ")
            )?;
        }
        f.write_str("no other controller creates objects again")
    }
}

/// The name of the process that runs the controllers and the garbage collector.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumptions_are_printed() {
        let text = "pods end after their grace period; cloud and CSI controllers remove their finalizers; other \
                    finalizers stay; no other controller creates objects again";
        assert_eq!(Assumptions::default().to_string(), text);
        let all = Assumptions {
            pods_end: false,
            acting: [("a.io/b".into(), true), ("c".into(), false)].into(),
            unreachable_webhooks: vec!["c".into(), "d".into()],
            unavailable_apis: vec!["e/v1".into()],
            storage_is_deleted: false,
            storage: Storage::default(),
            other_nodes_are_ready: true,
            cloud: [
                ("n1".into(), Instance::default()),
                ("n2".into(), Instance::default()),
            ]
            .into(),
        };
        let text = "pods never end; a.io/b is removed; c does not act; cloud and CSI controllers remove their \
                    finalizers; other finalizers stay; the webhooks c, d cannot be reached; the APIs e/v1 are not \
                    available; no storage is deleted; nodes that are not in the dump are ready; the cloud provider \
                    was queried about these nodes: n1, n2; no other controller creates objects again";
        assert_eq!(all.to_string(), text);
    }
}
