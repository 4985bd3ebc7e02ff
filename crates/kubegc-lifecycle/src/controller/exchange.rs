//! What goes into a controller and what comes out of it.

use std::sync::Arc;

use kubegc_core::{StoreError, Timestamp, Uid};

use super::{Ended, Task, TaskId};
use crate::{
    fields::Record,
    node::Cloud,
    object::{Object, Resource},
};

/// Something that a controller is told.
#[expect(clippy::exhaustive_enums, reason = "callers only build these")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All objects of a resource, in the place of what was known of it; or that they cannot be listed: what was known stays, and is not taken for complete.
    ///
    /// A name that comes twice and not alike stays the name of something of which nothing is known.
    Listed {
        /// The resource.
        resource: Resource,
        /// Its objects.
        records: Result<Vec<Record>, StoreError>,
    },
    /// An object is new, or has changed.
    Applied {
        /// The resource.
        resource: Resource,
        /// The object as it is now.
        record: Box<Record>,
    },
    /// An object is gone. Where another one is known under its name, nothing happens.
    Gone {
        /// The resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped resources.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// Uid of the object that is gone.
        uid: Uid,
    },
    /// What the cloud says of a node. Every [`Output::AskCloud`] is answered so, once: the node is not looked at before. An answer that nobody asked for counts as well.
    Cloud {
        /// The node.
        node: Object,
        /// Whether the cloud has an instance for it.
        exists: Cloud,
        /// Whether that is shut down; without a meaning where there is none.
        is_shutdown: Cloud,
    },
    /// A task has ended. Every task that was handed out ends once; for others nothing happens.
    Ended {
        /// Which one.
        task: TaskId,
        /// How.
        ended: Ended,
    },
}

/// What a controller wants.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[derive(Clone, Debug)]
pub enum Output {
    /// The cloud is to be asked whether this node exists and whether it is shut down. The text is the node's provider id, empty where it has none or none is
    /// known. Answer: [`Input::Cloud`].
    AskCloud(Object, Arc<str>),
    /// This is to be done. Its end is told with [`Input::Ended`].
    Perform(Box<Task>),
    /// Nothing is to be done before this time, unless something is told.
    Wait {
        /// The time; `None` where only something that is told can make something due.
        until: Option<Timestamp>,
    },
}
