//! Errors of connecting to a runtime, with advice.

use std::{
    fmt, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Endpoint, EndpointError, RuntimeVersion};

/// A reason why there is no connection to a runtime. Each message names the socket, the finding, and the
/// remedy.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The text names no socket.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The file does not exist.
    #[error("{}: no such file: start the runtime, or name the socket that it listens on", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{}: not a socket: name the socket that the runtime listens on", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket, or a folder above it, may not be entered.
    #[error("{}: permission denied: run as root, or as a member of the socket's group", path.display())]
    Permission {
        /// The path.
        path: PathBuf,
    },
    /// The socket exists, and no process has it open.
    #[error("{}: connection refused: no process listens; start the runtime that left the socket", path.display())]
    NoListener {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be opened for another reason.
    #[error("{}: cannot be opened: {message}", path.display())]
    Failed {
        /// The path.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
    /// There was no response in time.
    #[error("{}: no response within {waited:?}: see whether the runtime is blocked, or wait longer", path.display())]
    Timeout {
        /// The path.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
    },
    /// The listening process does not serve CRI v1.
    #[error(
        "{}: does not serve {service} ({message}): the runtime may be too old (containerd before 1.6 has v1alpha2 only), its CRI plugin disabled, or this another daemon's socket",
        path.display()
    )]
    WrongApi {
        /// The path.
        path: PathBuf,
        /// The service that is missing.
        service: &'static str,
        /// The response.
        message: String,
    },
    /// The runtime reports another CRI version.
    #[error("{}: {version} does not speak CRI v1, which is needed", path.display())]
    WrongVersion {
        /// The path.
        path: PathBuf,
        /// Its response to `Version`.
        version: RuntimeVersion,
    },
    /// The runtime's response to `Version` lacks a required field.
    #[error("{}: an incomplete response: Version lacks {field} ({version:?})", path.display())]
    IncompleteResponse {
        /// The path.
        path: PathBuf,
        /// The field that is empty.
        field: &'static str,
        /// The fields that it has.
        version: RuntimeVersion,
    },
    /// The first calls failed with an error or in another protocol, or the connection broke.
    #[error("{}: {operation} failed; see whether a container runtime listens there and is well: {message}", path.display())]
    Handshake {
        /// The path.
        path: PathBuf,
        /// The call.
        operation: &'static str,
        /// The response.
        message: String,
    },
    /// None of several sockets leads to a runtime.
    #[error("no container runtime found; {}", Tried(tried))]
    NoRuntime {
        /// The error of each, in the order in which they were tried.
        tried: Vec<Self>,
    },
    /// Several sockets lead to runtimes, and the intended one is undetermined.
    #[error(
        "several container runtimes found, name the one that is meant: {}.",
        Found(found)
    )]
    Ambiguous {
        /// Each with its response to `Version`.
        found: Vec<(Endpoint, RuntimeVersion)>,
    },
    /// A socket leads to a runtime, and another may: its error does not show which process listens there.
    #[error(
        "name the container runtime that is meant: found {}; perhaps there is another; {}",
        Found(found),
        Tried(unclear)
    )]
    Undetermined {
        /// Each with its response to `Version`: one or more.
        found: Vec<(Endpoint, RuntimeVersion)>,
        /// The errors of the others, in the order in which they were tried.
        unclear: Vec<Self>,
    },
}

impl ConnectError {
    /// Whether there certainly is no runtime that serves CRI v1: no socket, no listening process, or a
    /// process with another protocol.
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

    /// The error of opening this socket. Checks the file type, because the system reports a file that is no
    /// socket like a socket without listener.
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

struct Tried<'a>(&'a [ConnectError]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tried:")?;
        for error in self.0 {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

struct Found<'a>(&'a [(Endpoint, RuntimeVersion)]);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (endpoint, version)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{endpoint} ({version})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use super::ConnectError;

    /// Errors that do not depend on the user who runs the tests are tested with real sockets elsewhere.
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
