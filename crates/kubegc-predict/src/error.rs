//! Why a question cannot be asked.

/// An intent that cannot be understood.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PredictError {
    /// No kind of the cluster has this name.
    #[error("no kind {name:?}: neither built in nor defined in the dump")]
    UnknownKind {
        /// The name.
        name: String,
    },
    /// Kinds of several groups have this name.
    #[error("kind {name:?} is ambiguous: {}", candidates.join(" or "))]
    AmbiguousKind {
        /// The name.
        name: String,
        /// Names that are not.
        candidates: Vec<String>,
    },
    /// The dump has no such object.
    #[error("no object {name} in the dump")]
    UnknownObject {
        /// The object's name.
        name: String,
    },
}
