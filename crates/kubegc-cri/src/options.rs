//! Timeouts, size limits and endpoints of a connection to a runtime.

use std::{path::PathBuf, time::Duration};

use crate::Endpoint;

/// The options of a connection to a runtime. The default is that of the kubelet.
///
/// # Examples
/// ```
/// let mut options = kubegc_cri::Options::default();
/// options.request_timeout = std::time::Duration::from_secs(20);
/// assert_eq!(options.message_bytes_max, 16 * 1024 * 1024);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Timeout of a call; stopping a container may additionally take its grace period. Default: 2 minutes,
    /// the kubelet's `runtimeRequestTimeout`. Too short: a busy runtime's listings fail, and nothing is
    /// collected while the disk fills. Too long: a blocked runtime delays the pass.
    pub request_timeout: Duration,
    /// Timeout for opening the socket, and for the first response when connecting. Default: 10 s.
    pub connect_timeout: Duration,
    /// Maximum size of a response. Default: 16 MiB, as with the kubelet. A longer listing is an error, never
    /// truncated.
    pub message_bytes_max: usize,
    /// The endpoint for images, if it is not that for containers. Default: none; the kubelet's
    /// `imageServiceEndpoint`.
    pub image_endpoint: Option<Endpoint>,
    /// The mount point of the host's root here. Default: `/`. An agent in a container that has the host's
    /// root under `/host` must set it, or else it measures its own file systems. Links are followed as the
    /// host follows them, which requires Linux 5.6; without it, nothing is measured.
    pub host_root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(10),
            message_bytes_max: 16 * 1024 * 1024,
            image_endpoint: None,
            host_root: PathBuf::from("/"),
        }
    }
}
