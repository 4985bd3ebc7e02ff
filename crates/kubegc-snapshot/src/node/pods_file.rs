//! Decides which pods a node should run by a file that somebody keeps up to date, read anew each time.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{PodSource, Runtime, RuntimeError, node_facts::Pods};
use kubegc_node::driver::WithRunning;

use super::{NodeProblem, NodeReader};

/// The pods of a file that `kubectl get pods` wrote, JSON or YAML, and what runs beside them.
///
/// The file has to list **every pod of the node**, in all namespaces: `kubectl get pods -A --field-selector spec.nodeName=NODE -o json`. A pod that it does not list,
/// and of which nothing runs, is gone. Nothing in a list shows that it was cut down by a selector or a namespace: who gives the file answers for that.
///
/// # Guarantees
/// The file is read anew at each call, so one that was replaced counts from the next call on. Where it cannot be read, is no list of pods, goes on elsewhere, shows
/// that it is cut off, or has a pod that cannot be read, nothing is known and the error says why; likewise where the runtime does not list what runs.
/// A file is always behind: a pod of which something runs is living though the file does not have it, and has not ended whatever the file says
/// ([`WithRunning`]).
///
/// # Assumptions
/// Whoever writes the file puts it in its place in one step, by renaming. Files are read where the future is polled, without a thread of their own: they are small and
/// local, and this crate has no executor.
///
/// # Complexity
/// That of [`NodeReader`], and two calls of the runtime.
pub struct PodsFile(WithRunning<Listed>);

impl PodsFile {
    /// The pods of this file, and what runs in this runtime.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, runtime: Arc<dyn Runtime>) -> Self {
        Self(WithRunning::new(Listed { path: path.into() }, runtime))
    }
}

#[async_trait]
impl PodSource for PodsFile {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        self.0.pods().await
    }
}

/// What the file lists.
struct Listed {
    path: PathBuf,
}

#[async_trait]
impl PodSource for Listed {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        read(&self.path).map_err(RuntimeError::refused)
    }
}

/// The pods of a file, all of them, or why they are not known.
fn read(path: &Path) -> Result<Pods, String> {
    let name = path.to_string_lossy();
    let failed = |error: std::io::Error| format!("{name}: cannot be read: {error}");
    // A pipe would be waited for, and it can be read only once.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(format!("{name}: no file"));
    }
    let mut reader = NodeReader::new().pods_are_whole();
    reader
        .read(&name, File::open(path).map_err(failed)?)
        .map_err(|error| error.full_text())?;
    let node = reader.finish().map_err(|error| error.full_text())?;
    let pods = node.inventory.pods;
    if pods.sources_ready && pods.synced {
        return Ok(pods);
    }
    let why = node
        .findings
        .iter()
        .find(|finding| finding.problem == NodeProblem::NotWhole)
        .map_or("not all pods are known", |finding| &*finding.detail);
    Err(if why.starts_with(&*name) {
        why.to_owned()
    } else {
        format!("{name}: {why}")
    })
}
