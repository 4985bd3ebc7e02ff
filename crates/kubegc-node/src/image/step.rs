//! The task of an image run, its steps and their responses.

use kubegc_core::{RuntimeError, Timestamp, node_facts::FileSystem};

use super::Action;
use crate::{Inventory, Listing};

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// List images and containers, then pass [`Response::Listed`] to the run.
    List,
    /// Measure the image file system, then pass [`Response::Measured`] to the run.
    Measure,
    /// Perform an action, then pass [`Response::Removed`] to the run.
    Remove(Action),
    /// The run is complete.
    Done,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Response<'a> {
    Listed {
        /// The listings. Only images, containers, volumes and the sandbox image are used.
        inventory: &'a Inventory,
        /// The time after the listings were read. It becomes the last use of images in use.
        at: Timestamp,
    },
    /// The capacity and the available bytes of the file system.
    Measured(Listing<FileSystem>),
    Removed(Result<(), RuntimeError>),
}

/// The task of an image run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Update the records without removals: the detection loop. Upstream: `detectImages`.
    Detect,
    /// Remove images that are unused for longer than the maximum age, and free space if the usage reaches the
    /// high threshold: the image loop. Upstream: `GarbageCollect`.
    #[default]
    Collect,
    /// Remove all unused images, as under node pressure. Upstream: `DeleteUnusedImages`.
    DeleteUnused,
    /// Free this number of bytes, independently of the usage. Upstream: `freeSpace`.
    Free {
        /// Bytes to free. With zero or less, one image is still removed.
        bytes: i64,
    },
}
