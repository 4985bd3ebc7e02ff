//! Errors of a simulated node.

use std::sync::Arc;

use kubegc_core::RuntimeError;

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
        /// The id.
        id: Arc<str>,
    },
    /// The disk has a layer of that digest with another size.
    #[error("layer {digest} has {known_bytes} bytes, not {given_bytes}")]
    LayerSize {
        /// The layer.
        digest: Arc<str>,
        /// Its size on disk.
        known_bytes: u64,
        /// The size that was given.
        given_bytes: u64,
    },
    /// The sandbox is not ready, or the state of the container does not allow the change.
    #[error("{noun} {id:?} is {state}")]
    State {
        /// The type of the thing in that state.
        noun: &'static str,
        /// Its id.
        id: Arc<str>,
        /// The state.
        state: &'static str,
    },
}

/// The reason why an id has no match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadId {
    Empty,
    Ambiguous,
}

impl From<BadId> for RuntimeError {
    /// containerd responds to both with the code `Unknown` and does nothing.
    fn from(bad: BadId) -> Self {
        Self::unknown(match bad {
            BadId::Empty => "the id is empty",
            BadId::Ambiguous => "more than one id begins like that",
        })
    }
}
