//! The endpoint of a runtime: a unix socket.

use std::{
    fmt,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The unix socket of a runtime.
///
/// It has the format of the kubelet's `--container-runtime-endpoint` and of crictl:
/// `unix:///run/containerd/containerd.sock`, or only the path.
///
/// # Examples
/// ```
/// use kubegc_cri::{Endpoint, EndpointError};
/// let endpoint: Endpoint = "unix:///run/containerd/containerd.sock".parse()?;
/// assert_eq!(endpoint, Endpoint::unix("/run/containerd/containerd.sock"));
/// let error = "tcp://127.0.0.1:3735".parse::<Endpoint>();
/// assert!(matches!(error, Err(EndpointError::Scheme { .. })));
/// # Ok::<(), EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    path: PathBuf,
}

impl Endpoint {
    /// The default sockets of runtimes, each with the runtime's name.
    pub const KNOWN: &[(&str, &str)] = &[
        ("containerd", "/run/containerd/containerd.sock"),
        ("CRI-O", "/run/crio/crio.sock"),
        ("cri-dockerd", "/run/cri-dockerd.sock"),
        (
            "containerd of k3s and RKE2",
            "/run/k3s/containerd/containerd.sock",
        ),
        ("containerd of k0s", "/run/k0s/containerd.sock"),
        (
            "containerd of MicroK8s",
            "/var/snap/microk8s/common/run/containerd.sock",
        ),
    ];

    /// Creates an endpoint with this path, which is used unchanged.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The endpoints of [`KNOWN`](Self::KNOWN), in that order.
    pub fn known() -> Vec<Self> {
        Self::KNOWN.iter().map(|(_, path)| Self::unix(path)).collect()
    }

    /// The endpoints of [`KNOWN`](Self::KNOWN) whose socket exists. It does not check whether a process
    /// listens.
    pub fn present() -> Vec<Self> {
        with_socket(Self::known())
    }
}

/// Retains the endpoints whose path is a socket.
fn with_socket(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.retain(|endpoint| {
        std::fs::metadata(&endpoint.path).is_ok_and(|found| found.file_type().is_socket())
    });
    endpoints
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Parses `unix:///path`, `unix:/path` or `/path`. Nothing is decoded: a `%` is a literal character.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        let path = match text.split_once(':') {
            Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((scheme, _)) if !scheme.contains('/') => {
                return Err(EndpointError::Scheme {
                    text: text.to_owned(),
                });
            }
            _ => text,
        };
        if !path.starts_with('/') {
            return Err(EndpointError::Relative {
                text: text.to_owned(),
            });
        }
        if path.contains('\0') {
            return Err(EndpointError::Nul {
                text: text.to_owned(),
            });
        }
        Ok(Self::unix(path))
    }
}

/// The error of parsing an [`Endpoint`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EndpointError {
    /// The text is empty.
    #[error("the endpoint is empty; use one such as unix:///run/containerd/containerd.sock")]
    Empty,
    /// The scheme is not `unix`.
    #[error(
        "{text:?}: only unix sockets are supported; use one such as unix:///run/containerd/containerd.sock"
    )]
    Scheme { text: String },
    /// The path is not absolute.
    #[error("{text:?}: the path of a socket must be absolute, as in unix:///run/containerd/containerd.sock")]
    Relative { text: String },
    /// The path contains a NUL byte.
    #[error("{text:?}: a path must not contain a NUL byte")]
    Nul { text: String },
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, EndpointError, with_socket};

    #[test]
    fn texts_are_endpoints_or_errors() {
        for (text, path) in [
            ("unix:///run/a.sock", "/run/a.sock"),
            ("unix:/run/a.sock", "/run/a.sock"),
            ("/run/a.sock", "/run/a.sock"),
            ("/run/with:colon", "/run/with:colon"),
            ("/run/with%20percent", "/run/with%20percent"),
            ("unix:////run/a.sock", "//run/a.sock"),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Ok(Endpoint::unix(path)), "{text:?}");
        }
        type Refusal = fn(String) -> EndpointError;
        let scheme: Refusal = |text| EndpointError::Scheme { text };
        let relative: Refusal = |text| EndpointError::Relative { text };
        let nul: Refusal = |text| EndpointError::Nul { text };
        for (text, error) in [
            ("tcp://1.2.3.4:5", scheme),
            ("npipe:////./pipe/c", scheme),
            ("UNIX:///a", scheme),
            ("run/a.sock", relative),
            ("unix://run/a.sock", relative),
            ("unix:a.sock", relative),
            ("unix:", relative),
            ("/a\0b", nul),
        ] {
            let error = error(text.to_owned());
            assert!(error.to_string().starts_with(&format!("{text:?}: ")), "{error}");
            assert_eq!(text.parse::<Endpoint>(), Err(error));
        }
        assert_eq!("".parse::<Endpoint>(), Err(EndpointError::Empty));
    }

    #[test]
    fn only_sockets_are_present() {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let at = |name: &str| Endpoint::unix(directory.path().join(name));
        let _listener = std::os::unix::net::UnixListener::bind(at("socket").path()).expect("free");
        std::fs::write(at("file").path(), "").expect("writable");
        std::os::unix::fs::symlink(at("socket").path(), at("link").path()).expect("writable");
        let all = ["missing", "socket", "file", "link"].map(at).to_vec();
        assert_eq!(with_socket(all), [at("socket"), at("link")]);
    }

    #[test]
    fn the_displayed_text_can_be_parsed() {
        for endpoint in Endpoint::known() {
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
    }
}
