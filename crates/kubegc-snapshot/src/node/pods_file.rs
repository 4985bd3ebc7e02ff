//! Decides which pods a node should run by a list that somebody else made: one in a file that is kept up to date and read anew each time, or any other.

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

/// How much older than its file a list may be: it is made first and written then.
const SLACK: Duration = Duration::from_secs(10);

/// The pods of a file that `kubectl get pods` wrote, JSON or YAML, and what runs beside them.
///
/// The file has to list **every pod of the node**, in all namespaces: `kubectl get pods -A --field-selector spec.nodeName=NODE -o json`. A pod that it does not list,
/// and of which nothing runs, is gone. Nothing in a list shows that it was cut down by a selector or a namespace: who gives the file answers for that. What `kubectl`
/// writes when it is asked for one pod by its name is no list, and refused.
///
/// # Guarantees
/// The file is read anew at each call, so one that was replaced counts from the next call on. Where it cannot be read or is not whole ([`read_all_pods`]), nothing is
/// known and the error says why; likewise where the runtime does not list what runs.
/// A file is always behind. So a pod of which something runs is living though the file does not have it, and has not ended whatever the file says ([`add_running`]);
/// and a pod that the file does not have is living if it has a sandbox or a container that is younger than the file, or up to 10 seconds older
/// ([`add_created_since`]): it may have begun after the list was made, and may have ended since.
///
/// # Assumptions
/// Whoever writes the file puts it in its place in one step, by renaming, and its time of modification is when the list was made, by the clock of the node: a copy
/// keeps that time (`cp -p`). What stays open is the log directory of a pod that began after the list was made and has neither a sandbox nor a container yet: it may go,
/// and the kubelet makes it anew with each container. Files are read where the future is polled, without a thread of their own: they are
/// small and local, and this crate has no executor.
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
    #[must_use]
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
        // In this order nothing that starts meanwhile is missed: see `ReadySandboxes`.
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
    // Asked before it is read: of a file that is written meanwhile the older time protects more.
    let modified = file.metadata().and_then(|meta| meta.modified()).map_err(failed)?;
    let since_epoch = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let pods = read_all_pods(&name, file)?;
    Ok((pods, Timestamp::EPOCH.saturating_add(since_epoch)))
}

/// Reads a list of pods that claims to be whole: what `kubectl get pods -o json` or `yaml` writes, or the API server's answer. `name` stands for the input in errors.
///
/// All pods are known then, and every other is gone: who asks answers for it that no selector or namespace cut the list down. What runs is to be added by whoever asks
/// ([`WithRunning`](kubegc_node::driver::WithRunning)).
///
/// # Errors
/// [`Refused`](RuntimeError::Refused), with what is wrong: the input cannot be read, is no list of pods (one pod by itself is none), goes on elsewhere, shows that it
/// is cut off, or has a pod that cannot be read.
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
