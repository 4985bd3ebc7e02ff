//! Those outside of the cluster, as a forecast takes them to be: plugins and provisioners that do as they are told, or nobody.

use std::sync::Arc;

use async_trait::async_trait;
use kubegc_controllers::{Documents as _, Guard, Operated, Operation, Plugin, driver::Outside};
use kubegc_core::record::{ObjectId, Record, Resource};
use kubegc_snapshot::JsonDocuments;

/// Whoever deletes storage, or nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    pub(super) is_deleted: bool,
}

#[async_trait]
impl Outside for Storage {
    async fn find_plugin(&self, _volume: &ObjectId, document: &[u8], operation: Operation) -> Plugin {
        let read = JsonDocuments::default().read(Resource::PersistentVolumes, document);
        match read.ok().as_ref().and_then(provisioner) {
            Some(name) if !is_in_tree(name) && operation == Operation::DeleteVolume => Plugin::External,
            Some(name) if is_in_tree(name) && self.is_deleted => Plugin::InTree,
            _ => Plugin::Unknown,
        }
    }

    async fn operate(&self, _volume: &ObjectId, _document: &[u8], _operation: Operation) -> Operated {
        Operated::Done
    }

    async fn may_delete(&self, _volume: &ObjectId, _document: &[u8]) -> Guard {
        if self.is_deleted {
            Guard::Allows
        } else {
            Guard::Unknown
        }
    }
}

/// Who provisioned a volume, as far as that was read.
pub(super) fn provisioner(volume: &Record) -> Option<&Arc<str>> {
    let annotations = volume.persistent_volume()?.annotations.known()?;
    let name = annotations.provisioned_by.as_ref()?;
    (!name.is_empty()).then_some(name)
}

/// Whether a provisioner is one within Kubernetes.
pub(super) fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with("kubernetes.io/")
}
