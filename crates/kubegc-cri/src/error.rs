//! Errors of connecting to a runtime.

use std::{
    io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Endpoint, EndpointError, RuntimeVersion};

/// An error of connecting to a runtime. Each message names the socket, the problem, and how to solve it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// There is no file at the path.
    #[error("{}: no such file: start the runtime, or name the socket that it listens on", path.display())]
    NoSocket { path: PathBuf },
    #[error("{}: not a socket: name the socket that the runtime listens on", path.display())]
    NotASocket { path: PathBuf },
    /// The permissions of the socket, or of a parent directory, do not allow access.
    #[error("{}: permission denied: run as root, or as a member of the socket's group", path.display())]
    Permission { path: PathBuf },
    /// The socket exists, but no process listens.
    #[error("{}: connection refused: no process listens on the socket; start the runtime", path.display())]
    NoListener { path: PathBuf },
    /// Opening the socket failed for another reason.
    #[error("{}: cannot be opened: {message}", path.display())]
    Failed {
        path: PathBuf,
        /// The error text of the operating system.
        message: String,
    },
    /// There was no response within the timeout.
    #[error("{}: no response within {waited:?}: check whether the runtime is blocked, or increase the timeout", path.display())]
    Timeout { path: PathBuf, waited: Duration },
    /// The listening process does not serve CRI v1.
    #[error(
        "{}: does not serve {service} ({message}): the runtime may be too old (containerd before 1.6 has v1alpha2 only), its CRI plugin may be disabled, or the socket may belong to another daemon",
        path.display()
    )]
    WrongApi {
        path: PathBuf,
        service: &'static str,
        /// The error text of the response.
        message: String,
    },
    /// The runtime reports another CRI version.
    #[error("{}: {version} does not support CRI v1, which is required", path.display())]
    WrongVersion {
        path: PathBuf,
        /// The runtime's response to `Version`.
        version: RuntimeVersion,
    },
    /// The runtime's response to `Version` lacks a required field.
    #[error("{}: an incomplete response: Version has no {field} ({version:?})", path.display())]
    IncompleteResponse {
        path: PathBuf,
        /// The field that is empty.
        field: &'static str,
        version: RuntimeVersion,
    },
    /// The first request failed: with an error, because of another protocol, or because the connection broke.
    #[error("{}: {operation} failed; check whether a container runtime listens on the socket and is healthy: {message}", path.display())]
    Handshake {
        path: PathBuf,
        /// The method of the request.
        operation: &'static str,
        message: String,
    },
    /// No runtime listens on any of the sockets.
    #[error("no container runtime found; {}", self::tried(tried))]
    NoRuntime {
        /// The error of each socket, in the order in which they were tried.
        tried: Vec<Self>,
    },
    /// Runtimes listen on several sockets.
    #[error(
        "several container runtimes found: {}; set the endpoint of one of them",
        listed(found)
    )]
    Ambiguous {
        /// The socket of each runtime, with its response to `Version`.
        found: Vec<(Endpoint, RuntimeVersion)>,
    },
    /// A runtime listens on one socket, and perhaps on another one too: the error of the other socket does
    /// not show whether the process is a runtime.
    #[error(
        "set the endpoint of the container runtime: found {}, and there may be another one; {}",
        listed(found),
        tried(undetermined)
    )]
    Undetermined {
        /// The socket of each runtime, with its response to `Version`: one or more.
        found: Vec<(Endpoint, RuntimeVersion)>,
        /// The errors of the undetermined sockets, in the order in which they were tried.
        undetermined: Vec<Self>,
    },
}

impl ConnectError {
    /// Returns whether the error proves that no runtime serves CRI v1: there is no socket, no process
    /// listens, or it uses another protocol.
    pub(crate) const fn means_no_runtime(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::NotASocket { .. }
                | Self::NoListener { .. }
                | Self::WrongApi { .. }
                | Self::WrongVersion { .. }
        )
    }

    /// Converts an error of opening a socket. It checks the file type, because the system returns
    /// `ECONNREFUSED` for a regular file too.
    pub(crate) fn opening(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NoSocket { path },
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            io::ErrorKind::ConnectionRefused => match std::fs::metadata(&path) {
                Ok(found) if !found.file_type().is_socket() => Self::NotASocket { path },
                _ => Self::NoListener { path },
            },
            _ => Self::Failed {
                path,
                message: error.to_string(),
            },
        }
    }
}

fn tried(errors: &[ConnectError]) -> String {
    let errors = errors.iter().map(|error| format!("\n  {error}"));
    format!("tried:{}", errors.collect::<String>())
}

fn listed(found: &[(Endpoint, RuntimeVersion)]) -> String {
    let found = found.iter();
    let found = found.map(|(endpoint, version)| format!("{endpoint} ({version})"));
    found.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use super::ConnectError;

    /// Tests only the errors that cannot be provoked with real sockets by every user; see
    /// `tests/scripted/connecting.rs`.
    #[test]
    fn socket_errors_contain_advice() {
        let path = Path::new("/run/no/such.sock");
        let own = || path.to_owned();
        for (kind, expected, text) in [
            (
                io::ErrorKind::PermissionDenied,
                ConnectError::Permission { path: own() },
                "/run/no/such.sock: permission denied: run as root, or as a member of the socket's group",
            ),
            (
                io::ErrorKind::OutOfMemory,
                ConnectError::Failed {
                    path: own(),
                    message: "out of memory".to_owned(),
                },
                "/run/no/such.sock: cannot be opened: out of memory",
            ),
        ] {
            let error = ConnectError::opening(path, &io::Error::from(kind));
            assert_eq!(error, expected);
            assert_eq!(error.to_string(), text);
            assert!(!error.means_no_runtime(), "{error}");
        }
    }
}
