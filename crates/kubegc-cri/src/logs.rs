//! Reads and removes a node's log files: follows links, keeps names inside their folder, and finds the files
//! of one log.

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

/// The kubelet's default folder of pod logs, unless `podLogsDir` sets another.
const PODS: &str = "/var/log/pods";
/// The kubelet's folder of links to container logs.
const LINKS: &str = "/var/log/containers";
/// The suffix of such links.
const SUFFIX: &str = ".log";

/// The log files of this machine.
///
/// # Guarantees
/// Nothing outside the two folders is removed except the log files that the runtime itself names. An entry
/// that is a link is removed, and not its target; the two folders themselves may be links. A listing is
/// complete or an error, except for names that are not UTF-8: a kubelet writes none, they are left out and
/// stay. Errors contain the path.
///
/// # Assumptions
/// The folders and the targets of links must have the same paths here as for the kubelet and the runtime: in
/// a container, mount them, and the folders of the runtime, at their own paths. A link whose target is not
/// mounted seems to dangle. It is removed once its container has ended, or if the runtime has no status for
/// the container or fails to respond, as upstream does
/// ([`NoStatus`](kubegc_node::log::LinkRemoval::NoStatus)).
/// It is used within a tokio runtime. File operations run to their end on their own thread, even if the call
/// was dropped.
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
    /// The logs of pods in one folder, and links to those of containers in another.
    #[must_use]
    pub fn new(pods: impl Into<PathBuf>, containers: impl Into<PathBuf>) -> Self {
        Self {
            pods: pods.into(),
            links: containers.into(),
        }
    }

    /// The link of this path in the folder of links. Planners name links in `/var/log/containers`: that
    /// represents the folder configured here.
    fn link(&self, path: &str) -> Result<PathBuf, RuntimeError> {
        let refused = || RuntimeError::refused(format!("{path}: no link in {}", self.links.display()));
        let (folder, name) = path.rsplit_once('/').ok_or_else(refused)?;
        let folder = Path::new(folder);
        if is_name(name) && name.ends_with(SUFFIX) && (folder == self.links || folder == Path::new(LINKS)) {
            Ok(self.links.join(name))
        } else {
            Err(refused())
        }
    }
}

#[async_trait]
impl LogDirectory for HostLogs {
    /// Names of all entries of the folder of pods, files and links too. A missing folder is an error: a
    /// kubelet creates it when it starts.
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        let folder = self.pods.clone();
        blocking(move || {
            let entries = entries(&folder).map_err(|error| refused(&folder, &error))?;
            let names = entries
                .iter()
                .filter_map(|entry| entry.file_name().to_str().map(Arc::from));
            let mut names: Vec<Arc<str>> = names.collect();
            names.sort();
            Ok(names)
        })
        .await
    }

    /// The entries with the suffix `.log`, link or not, and whether their target exists. A missing folder has
    /// no links.
    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        let folder = self.links.clone();
        blocking(move || {
            let entries = match entries(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(|error| refused(&folder, &error))?,
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

    /// Removes an entry with its content; a link by itself. A missing one is no error.
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        if !is_name(entry) {
            let folder = self.pods.display();
            return Err(RuntimeError::refused(format!("{entry:?}: no entry of {folder}")));
        }
        let path = self.pods.join(entry);
        blocking(move || ignore_missing(remove_tree(&path)).map_err(|error| unknown(&path, &error))).await
    }

    /// Removes a link, not its target; a file in its place too, as upstream does, and never a folder.
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        let path = self.link(path)?;
        blocking(move || match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => Err(RuntimeError::refused(format!("{}: a folder", path.display()))),
            _ => fs::remove_file(&path).map_err(|error| unknown(&path, &error)),
        })
        .await
    }

    /// Removes a log and its rotated copies: the file of this name, and those in its folder whose names
    /// continue with `.` behind it, letter by letter (`0.log`, `0.log.20260101-000000.gz`). Links are
    /// removed, not followed; folders are kept. The first error ends it. A missing file is no error.
    ///
    /// A path that is not absolute, contains `..` or names no file names no log: nothing is removed, and a
    /// warning is logged. An error would keep the container until it is corrected.
    ///
    /// # Upstream
    /// Removes all that matches the pattern `<path>*`, empty folders too. So its `app` takes `app2`, and `[`
    /// and `*` in the path are no letters. A rotated log is named `<path>.<time>`, then `<path>.<time>.gz` by
    /// way of `.tmp`, so nothing of a log is missed here.
    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        let Some((folder, name)) = log_file(log_path) else {
            tracing::warn!(log_path, "no absolute path of a file: no log is removed");
            return Ok(());
        };
        blocking(move || {
            let entries = match entries(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                entries => entries.map_err(|error| refused(&folder, &error))?,
            };
            let is_of_log = |entry: &&DirEntry| {
                let file = entry.file_name();
                let rest = file.as_encoded_bytes().strip_prefix(name.as_bytes());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
            };
            let mut files: Vec<PathBuf> = entries.iter().filter(is_of_log).map(DirEntry::path).collect();
            files.sort();
            for file in files {
                ignore_missing(remove_unless_folder(&file)).map_err(|error| unknown(&file, &error))?;
            }
            Ok(())
        })
        .await
    }
}

/// Runs work on files where it may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(RuntimeError::unknown(format!(
            "work on log files broke off: {error}"
        ))),
    }
}

/// Whether a text is one name: no path, and not the way out of a folder.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains('/')
}

/// The folder of a log and its name there, if the path is absolute and does not lead back up.
fn log_file(path: &str) -> Option<(PathBuf, String)> {
    let (folder, name) = path.rsplit_once('/')?;
    let folder = Path::new(if folder.is_empty() { "/" } else { folder });
    let leads_up = folder.components().any(|part| part == Component::ParentDir);
    (folder.is_absolute() && !leads_up && is_name(name)).then(|| (folder.to_owned(), name.to_owned()))
}

/// All entries of a folder.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(folder)?.collect()
}

/// The target of a link. A link that no longer exists counts as dangling: removing it again finds nothing.
fn target(path: &Path) -> LogTarget {
    match fs::metadata(path) {
        Ok(_) => LogTarget::Exists,
        Err(error) if error.kind() == ErrorKind::NotFound => LogTarget::Missing,
        Err(_) => LogTarget::Unknown,
    }
}

/// Removes a folder with its content, or any other entry. Links are not followed, not even one that takes the
/// folder's place meanwhile.
fn remove_tree(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Removes a file or a link.
fn remove_unless_folder(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        Ok(())
    } else {
        fs::remove_file(path)
    }
}

/// A missing file needs no removal.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A reading that failed: nothing changed.
fn refused(path: &Path, error: &io::Error) -> RuntimeError {
    RuntimeError::refused(format!("{}: {error}", path.display()))
}

/// A removal that failed, perhaps half-way.
fn unknown(path: &Path, error: &io::Error) -> RuntimeError {
    if error.kind() == ErrorKind::NotFound {
        return RuntimeError::NotFound;
    }
    RuntimeError::unknown(format!("{}: {error}", path.display()))
}
