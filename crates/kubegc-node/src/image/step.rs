//! Steps and responses of an image run.

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
