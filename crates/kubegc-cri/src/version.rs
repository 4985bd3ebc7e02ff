//! The version of a runtime.

use std::{fmt, sync::Arc};

/// A runtime's response to `Version`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeVersion {
    /// The name of the runtime, such as `containerd` or `cri-o`.
    pub name: Arc<str>,
    pub version: Arc<str>,
    /// The version of CRI: `v1`. cri-dockerd reports the version of Docker's API instead.
    pub api_version: Arc<str>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (CRI {})", self.name, self.version, self.api_version)
    }
}
