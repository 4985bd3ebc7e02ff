//! The pods of a node's static manifests, with the uids that the runtime has for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError, Uid,
    node_facts::{PodState, Pods, Sandbox},
};
use kubegc_node::driver::add_running;
use serde_json::Value;

use super::{
    document::{self, Document},
    fields::Entry,
    finding::Notes,
};

/// The largest manifest that a kubelet reads.
const MANIFEST_BYTES_MAX: usize = 10 << 20;

/// The pods of a directory of static manifests, the kubelet's `staticPodPath`, and the running pods: for
/// nodes without an API server.
///
/// A static pod is called `<name>-<node name>`, the node name in small letters, in the manifest's namespace
/// or `default`. Its uid is that in the manifest, or else the kubelet computes it from the manifest in a way
/// that cannot be repeated here. So the uid comes from the runtime: it is that of the newest sandbox of a pod
/// of that name.
///
/// This is safe: every running pod is known in any case, by its uid in the runtime ([`add_running`]), so only
/// ended pods are in question. The newest sandbox belongs to the manifest as the kubelet started it last.
/// Older uids of the name are from before a change, and their remains are garbage once nothing of them runs.
/// A uid without a sandbox has nothing else either. Only a manifest that is changed back loses something: the
/// remains of its first time (dead containers, logs) are deleted, until it runs again. If no sandbox has the
/// name, the uid is undetermined, and **nothing is known**: the kubelet has not started the pod yet, refuses
/// its manifest, or has another node name.
///
/// # Guarantees
/// The directory is read at each call, before the runtime is queried. The same files are read as by the
/// kubelet: the files of the directory and those that links in it lead to, not names that begin with a dot,
/// and no subdirectories; or one file in place of the directory. A kubelet skips a manifest that it cannot
/// read, and ends its pod. Here nothing is known in that case: the error names the file, the pod and the
/// field. The same applies to a YAML text that ends inside a line and may be truncated, and to a document of
/// another kind, even behind a first one, which is all that the kubelet reads. Nothing is known either if the
/// path is neither directory nor file, or a directory without any manifest, because a directory that is not
/// mounted looks the same. [`or_none`](Self::or_none) allows such a directory. All pods are living: a
/// manifest knows no other state. A pod without manifest lives as long as something of it runs, and no longer
/// exists after that.
///
/// # Assumptions
/// This node has only static pods, or the remains of other pods may be deleted once nothing of them runs. The
/// machine's clock was not set back between two revisions of a manifest: the newest sandbox is the one with
/// the latest time. Files are read when the future is polled, without a thread of their own: they are small
/// and local, and this crate has no executor.
///
/// # Complexity
/// Linear in the manifests' bytes; two calls of the runtime, and `O(n log n)` for `n` containers, sandboxes
/// and manifests.
///
/// # Upstream
/// `pkg/kubelet/config/{common,file}.go`: `applyDefaults`, `generatePodName`, `extractFromDir`; alike in
/// copies from 2018 to 2025.
#[derive(Clone)]
pub struct PodManifests {
    path: PathBuf,
    node_name: String,
    runtime: Arc<dyn Runtime>,
    none_allowed: bool,
}

impl PodManifests {
    /// The pods of this directory on the node of this name, as the kubelet has it, and what runs in this
    /// runtime.
    pub fn new(path: impl Into<PathBuf>, node_name: impl Into<String>, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            path: path.into(),
            node_name: node_name.into(),
            runtime,
            none_allowed: false,
        }
    }

    /// Accepts a directory without any manifest: then only the running pods are known. By default it is an
    /// error, because a directory that is not mounted looks the same.
    #[must_use]
    pub const fn or_none(mut self) -> Self {
        self.none_allowed = true;
        self
    }
}

#[async_trait]
impl PodSource for PodManifests {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let manifests = read(&self.path).map_err(RuntimeError::refused)?;
        if manifests.is_empty() && !self.none_allowed {
            return Err(RuntimeError::refused(format!(
                "no manifest in {}: a directory that is not mounted looks so",
                self.path.display()
            )));
        }
        // This order misses no pod that starts meanwhile: see `ReadySandboxes`.
        let containers = self.runtime.containers().await?;
        let sandboxes = self.runtime.sandboxes().await?;
        let known = uids(&manifests, &self.node_name, &sandboxes).map_err(RuntimeError::refused)?;
        let mut pods = Pods {
            known: known.into_iter().map(|uid| (uid, PodState::ACTIVE)).collect(),
            sources_ready: true,
            synced: true,
        };
        add_running(&mut pods, &containers, &sandboxes);
        Ok(pods)
    }
}

/// The fields of a static pod that are read.
struct Manifest {
    file: Arc<str>,
    namespace: String,
    name: String,
    /// Empty if the manifest does not say.
    uid: String,
}

/// The uids of the pods of the manifests, or the pod whose uid is undetermined.
fn uids(
    manifests: &[Manifest],
    node_name: &str,
    sandboxes: &[Arc<Sandbox>],
) -> Result<BTreeSet<Uid>, String> {
    let mut of_pod: BTreeMap<(&str, &str), Vec<&Sandbox>> = BTreeMap::new();
    for sandbox in sandboxes.iter().filter(|sandbox| !sandbox.pod.uid.is_empty()) {
        let pod = (&*sandbox.pod.namespace, &*sandbox.pod.name);
        of_pod.entry(pod).or_default().push(sandbox);
    }
    let suffix = node_name.to_lowercase();
    let mut uids = BTreeSet::new();
    for manifest in manifests {
        if !manifest.uid.is_empty() {
            uids.insert(Uid::new(&manifest.uid));
            continue;
        }
        let (namespace, name) = (&*manifest.namespace, format!("{}-{suffix}", manifest.name));
        let of_name = of_pod
            .get(&(namespace, name.as_str()))
            .map_or(&[][..], Vec::as_slice);
        let Some(newest) = of_name.iter().map(|sandbox| sandbox.created_at).max() else {
            return Err(format!(
                "{}: pod {namespace}/{name} has no sandbox yet, so its uid is unknown; or the node is not called {node_name}",
                manifest.file
            ));
        };
        // Of two that are equally old each may be the pod's.
        let newest = of_name.iter().filter(|sandbox| sandbox.created_at == newest);
        uids.extend(newest.map(|sandbox| sandbox.pod.uid.clone()));
    }
    Ok(uids)
}

fn read(path: &Path) -> Result<Vec<Manifest>, String> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.is_file() {
        return read_file(path);
    }
    if !found.is_dir() {
        return Err(format!("{}: no directory and no file", path.display()));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
        let entry = entry.map_err(|error| unreadable(path, &error))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    files.sort();
    let mut manifests = Vec::new();
    for file in files {
        manifests.extend(read_file(&file)?);
    }
    Ok(manifests)
}

/// The manifests of a file. Directories, pipes and devices in the directory have none: a kubelet skips them.
fn read_file(path: &Path) -> Result<Vec<Manifest>, String> {
    let failed = |error: io::Error| unreadable(path, &error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(Vec::new());
    }
    let file: Arc<str> = path.to_string_lossy().into();
    let input = File::open(path).map_err(failed)?;
    let documents = document::read(&file, input, MANIFEST_BYTES_MAX).map_err(|error| error.full_text())?;
    documents
        .iter()
        .map(|document| manifest(&file, document))
        .collect()
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be read: {error}", path.display())
}

/// The manifest of a document, or the first thing that is wrong with it.
fn manifest(file: &Arc<str>, document: &Document) -> Result<Manifest, String> {
    let place = &document.place;
    let Value::Object(map) = &document.value else {
        return Err(format!(
            "{place}: expected a pod, found {}",
            crate::tree::type_name(&document.value)
        ));
    };
    if document.may_be_truncated {
        return Err(format!("{place}: may be cut off: it ends without a line break"));
    }
    let mut notes = Notes::default();
    let mut pod = Entry::new(map, place, "", &mut notes);
    let called = pod.peek(&["metadata", "name"]).unwrap_or("?").to_owned();
    pod.call(format!("pod {called}"));
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Pod")] {
        match pod.text(&[field]) {
            Some(found) if found != expected => {
                pod.bad(&[field], &format!("expected {expected}, found {found:?}"));
            }
            Some(_) => {}
            None => pod.missing(&[field]),
        }
    }
    let [name, namespace, uid] = ["name", "namespace", "uid"]
        .map(|field| pod.text(&["metadata", field]).unwrap_or_default().to_owned());
    if name.is_empty() {
        pod.missing(&["metadata", "name"]);
    }
    // A kubelet refuses a pod without containers, and a text that was cut off may have lost its namespace
    // with them.
    if pod.list(&["spec", "containers"]).is_none_or(<[Value]>::is_empty) {
        pod.missing(&["spec", "containers"]);
    }
    if let Some(flaw) = pod.flaw() {
        return Err(format!("{place}: pod {called}: {flaw}"));
    }
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    Ok(Manifest {
        file: Arc::clone(file),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        name,
        uid,
    })
}
