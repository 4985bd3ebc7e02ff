//! Timeouts, size limits and endpoints of a connection to a runtime.

use std::{path::PathBuf, time::Duration};

use crate::Endpoint;

/// The options of a connection to a runtime. `Default` has the kubelet's values.
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
    /// Timeout of a request. That of stopping a container is longer by the container's grace period. Default:
    /// 2 minutes, the kubelet's `runtimeRequestTimeout`. Too short: listings of a busy runtime fail, and
    /// nothing is removed while the disk fills. Too long: a blocked runtime delays the run.
    pub request_timeout: Duration,
    /// Timeout for opening the socket, and for the first response of a new connection. Default: 10 s.
    pub connect_timeout: Duration,
    /// Maximum size of a response in bytes. Default: 16 MiB, the kubelet's value. A longer response is an
    /// error.
    pub message_bytes_max: usize,
    /// The endpoint of the image service, if it differs from that of the runtime. Default: `None`. The
    /// kubelet's `imageServiceEndpoint`.
    pub image_endpoint: Option<Endpoint>,
    /// The directory at which the host's root file system is mounted. Default: `/`. An agent in a container
    /// with the host's root at `/host` must set it; otherwise it measures the file systems of the container.
    /// With another value than `/`, symbolic links are resolved relative to this directory. That requires
    /// Linux 5.6; without it nothing is measured.
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
