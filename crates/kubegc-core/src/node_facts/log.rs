//! Log files on the node: links to the logs of containers.

use std::sync::Arc;

/// The result of following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogTarget {
    Exists,
    /// The file does not exist: the link dangles.
    Missing,
    /// The check failed in another way.
    Unknown,
}

/// One entry of `/var/log/containers` that ends in `.log`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogLink {
    /// Complete path of the link.
    pub path: Arc<str>,
    pub target: LogTarget,
}
