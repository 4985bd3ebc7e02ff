//! The desired pods of a node from a list: in a file that is kept up to date and read each time, or from any
//! other source.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use kubegc_core::{PodSource, Runtime, RuntimeError, Timestamp, node_facts::Pods};
use kubegc_node::driver::{add_created_since, add_running};

use super::{NodeProblem, NodeReader};

/// Maximum age of a list when its file is written: it is made first and written then.
const SLACK: Duration = Duration::from_secs(10);

/// The pods of a file that `kubectl get pods` wrote, JSON or YAML, and the running pods.
///
/// The file must list **every pod of the node**, in all namespaces: `kubectl get pods -A --field-selector
/// spec.nodeName=NODE -o json`. A pod that is not in the list, and of which nothing runs, no longer exists. A
/// list does not show that a selector or a namespace restricted it: the caller is responsible for that. The
/// output of `kubectl get` for one named pod is not a list, and is refused.
///
/// # Guarantees
/// The file is read at each call, so a replaced file counts from the next call on. If it cannot be read or is
/// incomplete ([`read_all_pods`]), nothing is known and the error contains the reason. The same applies if
/// the runtime does not list the running pods. The list is always outdated. So a running pod is active even
/// if the file does not have it, and has not terminated for any content of the file ([`add_running`]).
/// A pod that the file does not have is living if it has a sandbox or a container that is younger than the
/// file, or up to 10 seconds older ([`add_created_since`]): it may have begun after the list was made, and
/// may have ended since.
///
/// # Assumptions
/// The writer of the file must replace it in one step, by renaming. The file's modification time must be the
/// time of the list, by the clock of the node: a copy keeps that time (`cp -p`). One case is not covered: the
/// log directory of a pod that began after the list was made and has neither a sandbox nor a container yet.
/// It may be deleted, and the kubelet creates it again with each container. Files are read when the future is
/// polled, without a thread of their own: they are small and local, and this crate has no executor.
///
/// # Complexity
/// That of [`NodeReader`], and two calls of the runtime.
#[derive(Clone)]
pub struct PodsFile {
    path: PathBuf,
    runtime: Arc<dyn Runtime>,
}

impl PodsFile {
    /// The pods of this file, and what runs in this runtime.
    pub fn new(path: impl Into<PathBuf>, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            path: path.into(),
            runtime,
        }
    }
}

#[async_trait]
impl PodSource for PodsFile {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let (mut pods, modified_at) = read_file(&self.path)?;
        // This order misses no pod that starts meanwhile: see `ReadySandboxes`.
        let containers = self.runtime.containers().await?;
        let sandboxes = self.runtime.sandboxes().await?;
        add_running(&mut pods, &containers, &sandboxes);
        add_created_since(
            &mut pods,
            &containers,
            &sandboxes,
            modified_at.saturating_sub(SLACK),
        );
        Ok(pods)
    }
}

/// The pods of a file, all of them, and when it was last modified.
fn read_file(path: &Path) -> Result<(Pods, Timestamp), RuntimeError> {
    let name = path.to_string_lossy();
    let failed = |error: std::io::Error| RuntimeError::refused(format!("{name}: cannot be read: {error}"));
    // A pipe would be waited for, and it can be read only once.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(RuntimeError::refused(format!("{name}: no file")));
    }
    let file = File::open(path).map_err(failed)?;
    // Read the time before the content: if the file is written meanwhile, the older time protects more.
    let modified = file.metadata().and_then(|meta| meta.modified()).map_err(failed)?;
    let since_epoch = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let pods = read_all_pods(&name, file)?;
    Ok((pods, Timestamp::EPOCH.saturating_add(since_epoch)))
}

/// Reads a list of pods that the caller declares complete: the output of `kubectl get pods -o json` or
/// `yaml`, or the API server's response. `name` identifies the input in errors.
///
/// All pods are known then, and every other pod no longer exists: the caller is responsible for a list
/// without selector or namespace. The caller adds the running pods
/// ([`WithRunning`](kubegc_node::driver::WithRunning)).
///
/// # Errors
/// [`Refused`](RuntimeError::Refused), with the problem: the input cannot be read, is not a list of pods (one
/// pod by itself is none), continues elsewhere, is visibly truncated, or has a pod that cannot be read.
///
/// # Complexity
/// That of [`NodeReader::read`].
///
/// # Examples
/// ```
/// let list = br#"{"kind": "PodList", "items": [{"metadata": {"namespace": "shop", "name": "web", "uid": "9c1f"}}]}"#;
/// let pods = kubegc_snapshot::read_all_pods("pods", &list[..])?;
/// assert!(pods.synced && pods.known.len() == 1);
/// let part = br#"{"kind": "PodList", "metadata": {"continue": "next"}, "items": []}"#;
/// assert!(kubegc_snapshot::read_all_pods("pods", &part[..]).is_err());
/// # Ok::<(), kubegc_core::RuntimeError>(())
/// ```
pub fn read_all_pods(name: &str, input: impl Read) -> Result<Pods, RuntimeError> {
    let mut reader = NodeReader::new().pods_are_whole().pods_in_list();
    reader
        .read(name, input)
        .map_err(|error| RuntimeError::refused(error.full_text()))?;
    let node = reader
        .finish()
        .map_err(|error| RuntimeError::refused(error.full_text()))?;
    let pods = node.inventory.pods;
    if pods.sources_ready && pods.synced {
        return Ok(pods);
    }
    let why = node
        .findings
        .iter()
        .find(|finding| finding.problem == NodeProblem::NotWhole)
        .map_or("not all pods are known", |finding| &*finding.detail);
    Err(RuntimeError::refused(if why.starts_with(name) {
        why.to_owned()
    } else {
        format!("{name}: {why}")
    }))
}
