//! Says why there is no connection to a runtime, and what to do about it.

use std::{
    fmt, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Endpoint, EndpointError, RuntimeVersion};

/// Why there is no runtime to speak to. Each message names the socket, what was found, and what to do.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The text names no socket.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// There is no such file.
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
    /// The socket is there, and no process has it open.
    #[error("{}: connection refused: nobody listens; start the runtime that left the socket", path.display())]
    NobodyListens {
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
    /// Nobody answered in time.
    #[error("{}: no answer within {waited:?}: see whether the runtime hangs, or wait longer", path.display())]
    Timeout {
        /// The path.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// Whoever listens does not offer a service of CRI v1.
    #[error(
        "{}: does not serve {service} ({message}): the runtime may be too old (containerd before 1.6 has v1alpha2 only), its CRI plugin disabled, or this another daemon's socket",
        path.display()
    )]
    WrongApi {
        /// The path.
        path: PathBuf,
        /// The service that is missing.
        service: &'static str,
        /// What was answered.
        message: String,
    },
    /// The runtime says that it speaks another version.
    #[error("{}: {version} does not speak CRI v1, which is needed", path.display())]
    WrongVersion {
        /// The path.
        path: PathBuf,
        /// What it says of itself.
        version: RuntimeVersion,
    },
    /// The runtime leaves out what every runtime says of itself.
    #[error("{}: half an answer: Version does not tell {field} ({version:?})", path.display())]
    HalfAnswer {
        /// The path.
        path: PathBuf,
        /// The field that is empty.
        field: &'static str,
        /// What it does say of itself.
        version: RuntimeVersion,
    },
    /// The first questions were answered with an error or in another protocol, or the connection broke.
    #[error("{}: {operation} failed; see whether a container runtime listens there and is well: {message}", path.display())]
    Handshake {
        /// The path.
        path: PathBuf,
        /// What was asked.
        operation: &'static str,
        /// What was answered.
        message: String,
    },
    /// None of several sockets leads to a runtime.
    #[error("no container runtime found; {}", Tried(tried))]
    NoRuntime {
        /// Why each does not, in the order in which they were tried.
        tried: Vec<Self>,
    },
    /// Several sockets lead to runtimes, and nothing says which is meant.
    #[error(
        "several container runtimes found, name the one that is meant: {}.",
        Found(found)
    )]
    Ambiguous {
        /// Each with what it says of itself.
        found: Vec<(Endpoint, RuntimeVersion)>,
    },
    /// A socket leads to a runtime, and another may: why it does not answer as one says nothing of who listens there.
    #[error(
        "name the container runtime that is meant: found {}; perhaps there is another; {}",
        Found(found),
        Tried(unclear)
    )]
    Doubtful {
        /// Each with what it says of itself: one or more.
        found: Vec<(Endpoint, RuntimeVersion)>,
        /// What went wrong with the others, in the order in which they were tried.
        unclear: Vec<Self>,
    },
}

impl ConnectError {
    /// Whether there surely is no runtime that speaks CRI v1: no socket, nobody behind it, or somebody who speaks something else.
    pub(crate) const fn tells_of_no_runtime(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::NotASocket { .. }
                | Self::NobodyListens { .. }
                | Self::WrongApi { .. }
                | Self::WrongVersion { .. }
        )
    }

    /// What kept this socket from being opened. Looks at the file, as the system reports a file that is no socket as one where nobody listens.
    pub(crate) fn opening(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NoSocket { path },
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            io::ErrorKind::ConnectionRefused => match std::fs::metadata(&path) {
                Ok(found) if !found.file_type().is_socket() => Self::NotASocket { path },
                _ => Self::NobodyListens { path },
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

    /// Those that come up whoever runs the tests are told of real sockets elsewhere.
    #[test]
    fn what_the_system_says_of_a_socket_is_told_in_words_of_what_to_do() {
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
            assert!(!error.tells_of_no_runtime(), "{error}");
        }
    }
}
