//! What the examples share: the bundled cluster, an online shop, and what is complete in its dump.

use std::path::PathBuf;

/// The folder that holds the dump of the shop's cluster.
#[must_use]
pub fn shop_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop"))
}

/// The kinds that the dump holds completely, as `data/shop/README.md` lists them.
#[must_use]
pub fn shop_complete() -> Vec<&'static str> {
    const KINDS: &str = "namespaces pods deployments replicasets statefulsets daemonsets controllerrevisions jobs cronjobs \
        horizontalpodautoscalers services ingresses networkpolicies poddisruptionbudgets persistentvolumeclaims configmaps \
        secrets serviceaccounts roles rolebindings clusterroles clusterrolebindings nodes persistentvolumes storageclasses \
        priorityclasses resourcequotas databases tenants customresourcedefinitions endpointslices@shop";
    KINDS.split_whitespace().collect()
}
