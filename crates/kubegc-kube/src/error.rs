//! Errors that prevent a run or a snapshot as a whole.

use kubegc_core::{FieldError, StoreError};
use kubegc_objects::collector::Misuse;

/// A reason why a run or a snapshot failed as a whole. Failures of single objects and kinds are not errors of
/// this type.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not respond to `GET /version`.
    #[error("the API server sends no response to GET /version")]
    Version { source: StoreError },
    /// The API server has a version that kubegc does not know.
    #[error("the API server's version {version:?} is not known; choose the version to behave as")]
    UnknownVersion { version: String, source: FieldError },
    #[error("the served kinds cannot be read")]
    Discovery { source: StoreError },
    /// There is no usable configuration of a cluster.
    #[error("no cluster can be reached: {message}")]
    Configuration { message: String },
    #[error(transparent)]
    UnknownController(#[from] kubegc_controllers::UnknownController),
    /// The clock went back.
    #[error("the collector was misused")]
    Misuse {
        #[from]
        source: Misuse,
    },
    /// The parts of a snapshot do not fit together.
    #[error("the snapshot cannot be put together")]
    Snapshot { source: kubegc_snapshot::SnapshotError },
    /// The lease for leader election cannot be used.
    #[error("the lease for leader election cannot be used: {message}")]
    Lease { message: String },
}
