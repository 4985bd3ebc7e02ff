//! Systems that a driver uses in addition to the API server: volume plugins, provisioners, the cloud
//! provider, the event recorder.

use async_trait::async_trait;
use kubegc_core::{StoreError, record::ObjectId};

use crate::{Cloud, EventRequest, Guard, Operated, Operation, Plugin};

/// Plugins, provisioners, the cloud provider and the event recorder. By default nothing is known of them, and
/// no object whose deletion depends on them is deleted.
///
/// A `document` is the whole object, as it was read right before.
#[async_trait]
pub trait Outside: Send + Sync {
    /// Finds the plugin that does this work on a volume. Default: not known, so that the volume is kept.
    async fn find_plugin(&self, _volume: &ObjectId, _document: &[u8], _operation: Operation) -> Plugin {
        Plugin::Unknown
    }

    /// Deletes or recycles the storage behind a volume. Must be idempotent: a response can be lost. Default:
    /// fails.
    async fn operate(&self, _volume: &ObjectId, _document: &[u8], _operation: Operation) -> Operated {
        Operated::Failed {
            message: "no volume plugin is configured".to_owned(),
        }
    }

    /// Returns whether an external provisioner's own check allows a volume to be deleted. Default: unknown,
    /// so that the volume is kept. A provisioner without a check returns [`Guard::Allows`].
    async fn may_delete(&self, _volume: &ObjectId, _document: &[u8]) -> Guard {
        Guard::Unknown
    }

    /// Returns whether the cloud provider has an instance for a node. The provider id is empty if the node
    /// has none. Default: the check fails, so that the node is kept.
    async fn exists(&self, _node: &ObjectId, _provider_id: &str) -> Cloud {
        Cloud::Failed("no cloud provider is configured".into())
    }

    /// Returns whether the instance of a node is shut down. Default: not implemented.
    async fn is_shut_down(&self, _node: &ObjectId, _provider_id: &str) -> Cloud {
        Cloud::NotImplemented
    }

    /// Records a Kubernetes Event. Its failure has no effect. Default: the Event is dropped.
    async fn record(&self, _event: &EventRequest) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Nothing is configured: plugins are unknown, the cloud provider is not queried, Events are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NothingOutside;

impl Outside for NothingOutside {}
