//! Lists and removes the log files of a node.

use std::{
    fs::{self, DirEntry},
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, RuntimeError,
    node_facts::{LogLink, LogTarget},
};
use tokio::task::spawn_blocking;

/// The default pod log directory of the kubelet; `podLogsDir` can set another.
const PODS: &str = "/var/log/pods";
/// The kubelet's directory of links to container logs.
const LINKS: &str = "/var/log/containers";
/// The suffix of such links.
const SUFFIX: &str = ".log";

/// The log files of the local machine.
///
/// # Guarantees
/// Outside the two directories, only the log files that the runtime reports are removed. Symbolic links are
/// removed, not their targets; the two directories themselves may be links. A listing is complete or an
/// error, except for names that are not UTF-8, which the kubelet does not create: they are not listed. Errors
/// contain the path.
///
/// # Assumptions
/// The directories and the targets of links have the same paths as for the kubelet and the runtime. In a
/// container, mount them, and the runtime's directories, at the same paths. A link whose target is not
/// mounted looks dangling. As upstream, it is removed if its container has exited, or if the runtime returns
/// no status for the container ([`EvictLogs::link`](kubegc_node::log::EvictLogs::link)).
///
/// It is used within a tokio runtime. File operations run on a blocking thread and are completed even if
/// their future is dropped.
///
/// # Upstream
/// `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `legacy.go`; `pkg/kubelet/logs/container_log_manager.go`
/// `Clean`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLogs {
    pods: PathBuf,
    links: PathBuf,
}

impl Default for HostLogs {
    /// `/var/log/pods` and `/var/log/containers`.
    fn default() -> Self {
        Self::new(PODS, LINKS)
    }
}

impl HostLogs {
    /// Creates a log directory from the directory of pod logs and that of links to container logs.
    pub fn new(pods: impl Into<PathBuf>, containers: impl Into<PathBuf>) -> Self {
        Self {
            pods: pods.into(),
            links: containers.into(),
        }
    }

    /// Converts the path of a link. Planners use paths in `/var/log/containers`; they are mapped to the
    /// configured directory of links.
    fn link(&self, path: &str) -> Result<PathBuf, RuntimeError> {
        let refused = || RuntimeError::refused(format!("{path}: not a link in {}", self.links.display()));
        let (directory, name) = path.rsplit_once('/').ok_or_else(refused)?;
        let directory = Path::new(directory);
        if is_file_name(name)
            && name.ends_with(SUFFIX)
            && (directory == self.links || directory == Path::new(LINKS))
        {
            Ok(self.links.join(name))
        } else {
            Err(refused())
        }
    }
}

#[async_trait]
impl LogDirectory for HostLogs {
    /// The names of all entries of the pod log directory, including files and links. A missing directory is
    /// an error: a kubelet creates it when it starts.
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        let directory = self.pods.clone();
        blocking(move || {
            let entries = entries(&directory).map_err(|error| refused(&directory, &error))?;
            let names = entries
                .iter()
                .filter_map(|entry| entry.file_name().to_str().map(Arc::from));
            let mut names: Vec<Arc<str>> = names.collect();
            names.sort();
            Ok(names)
        })
        .await
    }

    /// The entries of the directory of links with the suffix `.log`, even if they are not links, and whether
    /// their targets exist. A missing directory has no entries.
    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        let directory = self.links.clone();
        blocking(move || {
            let entries = match entries(&directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(|error| refused(&directory, &error))?,
            };
            let links = entries.iter().filter_map(|entry| {
                let path = entry.path();
                let text: Arc<str> = path.to_str().filter(|text| text.ends_with(SUFFIX))?.into();
                Some(LogLink {
                    path: text,
                    target: target(&path),
                })
            });
            let mut links: Vec<LogLink> = links.collect();
            links.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(links)
        })
        .await
    }

    /// Removes an entry with its content. A link is removed without its target. Succeeds if the entry does
    /// not exist.
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        if !is_file_name(entry) {
            let directory = self.pods.display();
            return Err(RuntimeError::refused(format!(
                "{entry:?}: not an entry of {directory}"
            )));
        }
        let path = self.pods.join(entry);
        blocking(move || ignore_missing(remove_tree(&path)).map_err(|error| unknown(&path, &error))).await
    }

    /// Removes a link without its target. As upstream, it removes a file too. A directory is an error.
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        let path = self.link(path)?;
        blocking(move || match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => Err(RuntimeError::refused(format!(
                "{}: is a directory",
                path.display()
            ))),
            _ => fs::remove_file(&path).map_err(|error| unknown(&path, &error)),
        })
        .await
    }

    /// Removes a log and its rotated files: the file with this name, and the files in its directory whose
    /// names start with this name and a `.` (`0.log`, `0.log.20260101-000000.gz`). Links are removed without
    /// their targets. Directories are kept. It stops at the first error. A missing file is not an error.
    ///
    /// If the path is not absolute, contains `..` or has no file name, nothing is removed, and a warning is
    /// logged. With an error, the container could not be removed until the path is corrected.
    ///
    /// # Upstream
    /// Removes everything that matches the pattern `<path>*`, including empty directories: for `app` it also
    /// removes `app2`, and `[` and `*` in the path are special characters. Rotated logs are named
    /// `<path>.<time>`, `<path>.<time>.tmp` and `<path>.<time>.gz`; this function removes all of them.
    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        let Some((directory, name)) = log_file(log_path) else {
            tracing::warn!(log_path, "not an absolute path of a file: no log is removed");
            return Ok(());
        };
        blocking(move || {
            let entries = match entries(&directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                entries => entries.map_err(|error| refused(&directory, &error))?,
            };
            let is_of_log = |entry: &&DirEntry| {
                let file = entry.file_name();
                let rest = file.as_encoded_bytes().strip_prefix(name.as_bytes());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
            };
            let mut files: Vec<PathBuf> = entries.iter().filter(is_of_log).map(DirEntry::path).collect();
            files.sort();
            for file in files {
                ignore_missing(remove_unless_directory(&file)).map_err(|error| unknown(&file, &error))?;
            }
            Ok(())
        })
        .await
    }
}

/// Runs a file operation on a thread that may block.
async fn blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match spawn_blocking(operation).await {
        Ok(result) => result,
        Err(error) => Err(RuntimeError::unknown(format!(
            "an operation on log files was aborted: {error}"
        ))),
    }
}

/// Returns whether a text is a file name: not `.` or `..`, and without `/`.
fn is_file_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains('/')
}

/// The directory and the file name of a log; `None` if the path is not absolute, contains `..`, or has no
/// file name.
fn log_file(path: &str) -> Option<(PathBuf, String)> {
    let (directory, name) = path.rsplit_once('/')?;
    let directory = Path::new(if directory.is_empty() { "/" } else { directory });
    let has_parent = directory.components().any(|part| part == Component::ParentDir);
    (directory.is_absolute() && !has_parent && is_file_name(name))
        .then(|| (directory.to_owned(), name.to_owned()))
}

fn entries(directory: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(directory)?.collect()
}

/// Whether the target of a link exists. A link that no longer exists counts as dangling.
fn target(path: &Path) -> LogTarget {
    match fs::metadata(path) {
        Ok(_) => LogTarget::Exists,
        Err(error) if error.kind() == ErrorKind::NotFound => LogTarget::Missing,
        Err(_) => LogTarget::Unknown,
    }
}

/// Removes a directory with its content, or any other entry. Links are not followed, even if the directory is
/// replaced by a link during the removal.
fn remove_tree(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Removes a file or a link, and keeps a directory.
fn remove_unless_directory(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        Ok(())
    } else {
        fs::remove_file(path)
    }
}

/// Treats a missing file as removed.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The error of a failed read: nothing changed.
fn refused(path: &Path, error: &io::Error) -> RuntimeError {
    RuntimeError::refused(format!("{}: {error}", path.display()))
}

/// The error of a failed removal, which may have removed a part.
fn unknown(path: &Path, error: &io::Error) -> RuntimeError {
    if error.kind() == ErrorKind::NotFound {
        return RuntimeError::NotFound;
    }
    RuntimeError::unknown(format!("{}: {error}", path.display()))
}
