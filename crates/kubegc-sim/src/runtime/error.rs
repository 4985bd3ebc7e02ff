//! Errors of a simulated node.

use std::sync::Arc;

/// The reason why a change of the node failed. Nothing changed, unless the method says otherwise.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NodeError {
    /// The disk does not have enough free bytes.
    #[error("no space left on device: {wanted_bytes} bytes wanted, {available_bytes} available")]
    NoSpace {
        /// Requested bytes.
        wanted_bytes: u64,
        /// Free bytes.
        available_bytes: u64,
    },
    /// The named thing does not exist.
    #[error("there is no {noun} {id:?}")]
    NotFound {
        /// Its type.
        noun: &'static str,
        /// The id or reference.
        id: Arc<str>,
    },
    /// The id exists already.
    #[error("{noun} {id:?} is there already")]
    Exists {
        /// The type of the new thing.
        noun: &'static str,
        id: Arc<str>,
    },
    /// The sandbox is not ready, or the state of the container does not allow the change.
    #[error("{noun} {id:?} is {state}")]
    State {
        /// The type of the thing in that state.
        noun: &'static str,
        id: Arc<str>,
        state: &'static str,
    },
}
