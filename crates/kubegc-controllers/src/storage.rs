//! Names and indexes that the controllers of persistent volumes and claims share.

use std::sync::Arc;

use kubegc_core::record::Resource;

use crate::{Index, Key};

/// The finalizer that kube-controller-manager keeps on a volume until the storage behind it is deleted.
pub const FINALIZER_IN_TREE: &str = "kubernetes.io/pv-controller";
/// The finalizer that external provisioners keep on a volume until the storage behind it is deleted.
pub const FINALIZER_EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The annotation with the CSI driver that has taken a volume over.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The annotation of volumes that the binder has bound, as opposed to a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Returns whether a provisioner is one of the volume plugins of kube-controller-manager.
pub fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with("kubernetes.io/")
}

/// Pods by the claims of their volumes, claims of ephemeral volumes included.
pub(crate) static PODS_BY_CLAIM: Index = Index::new(Resource::Pods, |record, keys| {
    let volumes = record.pod().and_then(|pod| pod.volumes.known());
    for volume in volumes.into_iter().flatten() {
        if let Some(claim) = volume.claim_name(&record.meta.name) {
            keys.push(Key::new(Arc::clone(&record.meta.namespace), claim));
        }
    }
});

/// The key of objects that an index finds by their namespace alone.
pub(crate) fn namespace_key(namespace: &Arc<str>) -> Key {
    Key::new(Arc::clone(namespace), "")
}
