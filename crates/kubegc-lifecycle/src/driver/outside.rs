//! Fixes what a driver asks of others than the API server: plugins of volumes, provisioners, the cloud, and whoever publishes events.

use std::fmt;

use async_trait::async_trait;
use kubegc_core::StoreError;

use crate::{
    node::Cloud,
    object::{Object, Operation},
    volume::{external::Guard, reclaim::Plugin},
};

/// Whoever is beyond the API server. Each method stands for nobody unless it is implemented: then nothing is deleted that needs the answer.
///
/// A `document` is the whole object, as it was read right before.
#[async_trait]
pub trait Outside: Send + Sync {
    /// Finds who does this to a volume. Default: not known, so that the volume stays.
    async fn find_plugin(&self, _volume: &Object, _document: &[u8], _operation: Operation) -> Plugin {
        Plugin::Unknown
    }

    /// Has what is behind a volume deleted, or emptied. To be safe to repeat: an answer may be lost. Default: fails.
    async fn operate(&self, _volume: &Object, _document: &[u8], _operation: Operation) -> Operated {
        Operated::Failed {
            message: "nobody is there to do it".to_owned(),
        }
    }

    /// What the external provisioner's own guard says of a volume that is to be deleted. Default: not known, so that the volume stays.
    ///
    /// A provisioner without a guard answers [`Guard::Allows`].
    async fn may_delete(&self, _volume: &Object, _document: &[u8]) -> Guard {
        Guard::Unknown
    }

    /// Whether the cloud has the node. The provider id is that of its spec, and empty where there is none. Default: the question fails, so that the
    /// node stays.
    async fn exists(&self, _node: &Object, _provider_id: &str) -> Cloud {
        Cloud::Failed("nobody asks the cloud".into())
    }

    /// Whether the cloud says that a node, which it has, is shut down. Default: it cannot tell.
    async fn is_shut_down(&self, _node: &Object, _provider_id: &str) -> Cloud {
        Cloud::NotImplemented
    }

    /// Publishes a Kubernetes Event. Nothing hangs on the outcome. Default: the event is dropped.
    async fn publish(&self, _event: &Event) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Nobody is there: plugins are not known, the cloud is not asked, events are dropped.
#[expect(clippy::exhaustive_structs, reason = "there is nothing to it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nobody;

impl Outside for Nobody {}

/// How an operation on what is behind a volume ended.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operated {
    /// It is done, or was done before.
    Done,
    /// It cannot be done yet: what is behind the volume is in use.
    InUse {
        /// The plugin's message.
        message: String,
    },
    /// It failed.
    Failed {
        /// The plugin's message.
        message: String,
    },
}

/// Something to be told about an object.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The object.
    pub object: Object,
    /// Whether its type is `Warning`; `Normal` otherwise.
    pub is_warning: bool,
    /// The reason, such as `SuccessfulDelete`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.reason, self.message)
    }
}
