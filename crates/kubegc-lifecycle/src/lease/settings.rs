//! Says which leases are those of nodes, and what upstream expects of one that it deletes.

use std::sync::Arc;

use kubegc_core::{KubernetesVersion, version::behavior};

/// How node leases are collected. Starts from upstream's defaults for a release; each field may be changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The namespace of node leases. Default: `kube-node-lease`.
    pub namespace: Arc<str>,
    /// Whether upstream's deletions expect the version that was read, besides the uid. Default: since 1.34.
    ///
    /// Off, a lease whose owners change right before its deletion goes nonetheless.
    pub expects_resource_version: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            namespace: "kube-node-lease".into(),
            expects_resource_version: version.has(behavior::DELETES_EXPECT_RESOURCE_VERSION),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
