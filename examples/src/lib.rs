//! What the examples share: the bundled cluster, an online shop, with what is complete in its dump; one bundled node of it; and for simulated nodes
//! the passing of time, a fortnight of work, and a plot.

#[cfg(feature = "cri")]
pub mod cri;
pub mod fortnight;
pub mod plot;
pub mod simulated;

use std::path::PathBuf;

/// The folder that holds the dump of the shop's cluster.
#[must_use]
pub fn shop_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop"))
}

/// The folder that holds the dump of one node, as `data/node/README.md` describes it. Its pods are all there, and no container mounts an image.
#[must_use]
pub fn node_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/node"))
}

/// When the dump of the node was taken.
pub const NODE_DUMP_TAKEN_AT: &str = "2026-03-01T12:00:00Z";

/// The kinds that the dump holds completely, as `data/shop/README.md` lists them.
#[must_use]
pub fn shop_complete() -> Vec<&'static str> {
    const KINDS: &str = "namespaces pods deployments replicasets statefulsets daemonsets controllerrevisions jobs cronjobs \
        horizontalpodautoscalers services ingresses networkpolicies poddisruptionbudgets persistentvolumeclaims configmaps \
        secrets serviceaccounts roles rolebindings clusterroles clusterrolebindings nodes persistentvolumes storageclasses \
        priorityclasses resourcequotas databases tenants customresourcedefinitions endpointslices@shop";
    KINDS.split_whitespace().collect()
}
