//! Why something cannot happen on a simulated node.

use std::sync::Arc;

use kubegc_core::RuntimeError;

/// Why what a caller told could not happen. Nothing changed then, unless the method says otherwise.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NodeError {
    /// The disk has not that many bytes left.
    #[error("no space left on device: {wanted_bytes} bytes wanted, {available_bytes} available")]
    NoSpace {
        /// Bytes that were wanted.
        wanted_bytes: u64,
        /// Bytes that are free.
        available_bytes: u64,
    },
    /// There is no such thing.
    #[error("there is no {noun} {id:?}")]
    NotFound {
        /// What was looked for.
        noun: &'static str,
        /// The id or reference.
        id: Arc<str>,
    },
    /// There is one of that id already.
    #[error("{noun} {id:?} is there already")]
    Exists {
        /// What was to be added.
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
    /// The sandbox is not ready, or the container is in no state for that.
    #[error("{noun} {id:?} is {state}")]
    State {
        /// What is in that state.
        noun: &'static str,
        /// Its id.
        id: Arc<str>,
        /// The state.
        state: &'static str,
    },
}

/// Why an id names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadId {
    Empty,
    Ambiguous,
}

impl From<BadId> for RuntimeError {
    /// containerd answers both with the code `Unknown`; nothing was done.
    fn from(bad: BadId) -> Self {
        Self::unknown(match bad {
            BadId::Empty => "the id is empty",
            BadId::Ambiguous => "more than one id begins like that",
        })
    }
}
