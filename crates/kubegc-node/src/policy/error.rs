//! Errors in a kubelet's configuration, with upstream's texts where upstream reports the error.

use crate::aggregate;

/// All errors in a kubelet's configuration and flags.
///
/// `Display` writes one message as it is, and several as `[a, b]`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", aggregate(problems).unwrap_or_default())]
pub struct InvalidPolicy {
    /// The texts of the errors, in this order: those of the kubelet's validation
    /// ([N1.21](crate::rules#n1-21) to [N1.27](crate::rules#n1-27)), the minimum age of containers
    /// ([N1.18](crate::rules#n1-18)), images, eviction.
    pub problems: Vec<String>,
}
