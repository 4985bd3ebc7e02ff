//! How long to wait for a runtime, and how much to take from it.

use std::{path::PathBuf, time::Duration};

use crate::Endpoint;

/// How a runtime is spoken to. The default is what the kubelet does.
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
    /// How long a call may take; stopping a container may take its grace longer. Default: 2 minutes, the kubelet's `runtimeRequestTimeout`. Too short: a busy runtime's
    /// listings fail, and nothing is collected while the disk fills. Too long: a runtime that hangs holds up the pass.
    pub request_timeout: Duration,
    /// How long opening the socket may take, and how long the first answer when connecting. Default: 10 s.
    pub connect_timeout: Duration,
    /// How large an answer may be. Default: 16 MiB, as with the kubelet. A longer listing is an error, never a part of one.
    pub message_bytes_max: usize,
    /// Where images are asked for, if not where containers are. Default: none; the kubelet's `imageServiceEndpoint`.
    pub image_endpoint: Option<Endpoint>,
    /// Where the file systems of the runtime's host are mounted here. Default: `/`. An agent in a container that has the host's under `/host` says so, lest it measure its own. Links are
    /// followed as the host follows them, which takes Linux 5.6; without, nothing is measured.
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
