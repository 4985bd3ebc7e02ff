//! The reader of a node's documents: inputs, strictness, and the caller's declarations.

use std::{io::Read, path::Path, sync::Arc};

use kubegc_core::{
    Timestamp,
    node_facts::{Container, Image, Sandbox},
};
use serde_json::Value;

use super::{
    NodeDocument, NodeSnapshot, config, crictl,
    document::{self, Document},
    fields::Entry,
    finding::{NodeProblem, Notes},
    parts::Parts,
    records,
    settle::{self, Declared},
    stats,
};
use crate::{
    Place, SnapshotError, layout,
    reader::{OBJECT_BYTES_MAX, UNPACKED_BYTES_MAX},
    unpack::{self, Input, Unpacked, Unpacker},
};

/// The documents of a node, for a document that is none of them.
const ADVICE: &str = "give the JSON of crictl ps -a, pods, images, imagefsinfo or inspect, the kubelet's stats/summary, configz or configuration, \
     or kubectl get pods -o json";

/// Reads the documents of a node, its runtime and its kubelet into one [`NodeSnapshot`].
///
/// Documents are recognised by their content, or named with [`read_as`](Self::read_as); their order does not
/// matter. By default, a document that cannot be parsed is an error, and so is one that is none of a
/// [`NodeDocument`], outside of directories and archives. After an error there is no snapshot.
///
/// # Guarantees
/// - A part that is in no document stays *not requested*.
/// - A listing with an unreadable entry is *failed*, and a finding names the document, the entry and the
///   field. [`lenient`](Self::lenient) keeps such an entry instead, so that nothing is done to it and
///   everything that it uses stays used. If its id, its sandbox or its image cannot be read, the listing
///   stays failed.
/// - A listing of containers that may come from `crictl ps` without `-a` is *failed*: see
///   [`containers_are_whole`](Self::containers_are_whole).
/// - The desired pods are never inferred from missing ones: see [`pods_are_whole`](Self::pods_are_whole).
///
/// # Assumptions
/// The documents were taken at about the same time, images before containers: an image that was pulled in
/// between and is used by a container in the listing is then not listed, and nothing happens to it.
///
/// # Examples
/// ```
/// use kubegc_snapshot::{NodeReader, SnapshotError};
/// let ps = br#"{"containers": [{"id": "4f0c", "podSandboxId": "a1", "metadata": {"name": "web", "attempt": 0}, "imageRef": "sha256:77",
///     "state": "CONTAINER_RUNNING", "createdAt": "1772366400000000000", "labels": {"io.kubernetes.pod.uid": "9c1f"}}]}"#;
/// let mut reader = NodeReader::new();
/// reader.read("ps.json", &ps[..])?;
/// let node = reader.clone().finish()?;
/// // Only running containers: `-a` may have been forgotten, and dead ones may use images.
/// assert!(node.inventory.containers.is_err());
/// assert_eq!(node.findings[0].problem.to_string(), "MayBePartial");
///
/// let node = reader.containers_are_whole().finish()?;
/// assert_eq!(node.inventory.containers.map(|containers| containers.len()), Ok(1));
/// # Ok::<(), SnapshotError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeReader {
    lenient: bool,
    document_bytes_max: usize,
    declared: Declared,
    parts: Parts,
    notes: Notes,
    failed: Option<Place>,
    /// Number of documents of a node so far.
    documents: u64,
}

impl Default for NodeReader {
    fn default() -> Self {
        Self::new()
    }
}

impl NodeReader {
    pub fn new() -> Self {
        Self {
            lenient: false,
            document_bytes_max: OBJECT_BYTES_MAX,
            declared: Declared::default(),
            parts: Parts::default(),
            notes: Notes::default(),
            failed: None,
            documents: 0,
        }
    }

    /// Whether an unreadable document becomes a finding, and an unreadable entry is kept. Default: no.
    /// Documents that were read before this call are not affected.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Self {
        self.lenient = lenient;
        self
    }

    /// Maximum number of bytes of one input. Default: [`OBJECT_BYTES_MAX`]. Memory use while reading is
    /// proportional.
    #[must_use]
    pub fn document_bytes_max(mut self, bytes: usize) -> Self {
        self.document_bytes_max = bytes;
        self
    }

    /// The time at which the documents were taken. Objects that were created later are findings. Without
    /// other data, images are watched since this time. Call it before reading.
    #[must_use]
    pub fn now(mut self, now: Timestamp) -> Self {
        self.declared.now = Some(now);
        self
    }

    /// Declares that the listing of containers has all of them, in every state.
    ///
    /// `crictl ps` without `-a` prints the same shape with the running ones only, and an image that a dead
    /// container uses would seem unused. Without this declaration a listing counts as whole only if a
    /// container in it does not run, and one runs if a sandbox is ready.
    #[must_use]
    pub fn containers_are_whole(mut self) -> Self {
        self.declared.containers_whole = true;
        self
    }

    /// Declares that the documents of `kubectl get pods` have every pod of the node. A pod that they do not
    /// have, and of which nothing runs, no longer exists, and its remains are garbage. Ignored if a pod could
    /// not be read.
    #[must_use]
    pub fn pods_are_whole(mut self) -> Self {
        self.declared.pods_whole = true;
        self
    }

    /// Requires that the pods that are declared complete come as a list: `kubectl get` of one named pod
    /// prints that pod by itself.
    #[must_use]
    pub(crate) fn pods_in_list(mut self) -> Self {
        self.declared.pods_in_list = true;
        self
    }

    /// Declares that no container mounts an image as a volume. Otherwise that is known only once every
    /// container was inspected.
    #[must_use]
    pub fn no_image_volumes(mut self) -> Self {
        self.declared.no_image_volumes = true;
        self
    }

    /// The time since which the use of images was watched; takes precedence over a document of records.
    /// Without both, it is [`now`](Self::now), and without that the end of all times, so that no image seems
    /// unused for long.
    #[must_use]
    pub fn image_gc_began_at(mut self, since: Timestamp) -> Self {
        self.declared.watched_since = Some(since);
        self
    }

    /// Reads a file, an archive, or the files of a directory, in the order of the paths.
    ///
    /// Compressed files, archives and UTF-16 are recognised by their first bytes. Of a directory or an
    /// archive, `.json`, `.yaml`, `.yml`, `.tar`, `.zip` and their compressed forms are read. Other files are
    /// findings, and so are documents that are none of a node's, such as that of `crictl inspectp`. An input
    /// may unpack to [`UNPACKED_BYTES_MAX`].
    ///
    /// # Errors
    /// A file cannot be read or does not exist, or the path has no document of a node.
    pub fn read_path(&mut self, path: &Path) -> Result<(), SnapshotError> {
        let found = layout::walk(path, layout::node_role).inspect_err(|error| self.fail(error))?;
        let documents = self.documents;
        for (path, reason) in found.skipped {
            let place = Place::new(path);
            self.notes.at(NodeProblem::SkippedFile, &place, reason);
        }
        for path in found.files {
            let name: Arc<str> = path.to_string_lossy().into();
            self.unpack(&name, None, Input::File(&path, found.is_directory))?;
        }
        self.some_since(documents, &path.to_string_lossy().into())
    }

    /// Reads one or several documents, compressed or not, or an archive of them; `name` identifies the input
    /// in findings and errors.
    ///
    /// # Errors
    /// The input fails, is not JSON or YAML, or contains a document that is not one of a node.
    ///
    /// # Complexity
    /// O(n log n) for n entries; one file and its tree are held while it is read.
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<(), SnapshotError> {
        self.stream(name, None, input)
    }

    /// Reads documents that are known to be of this kind.
    ///
    /// # Errors
    /// The input fails, or is not JSON or YAML.
    pub fn read_as(
        &mut self,
        document: NodeDocument,
        name: &str,
        input: impl Read,
    ) -> Result<(), SnapshotError> {
        self.stream(name, Some(document), input)
    }

    /// Takes the words of a kubelet's command line. Flags that have no bearing on garbage collection are
    /// skipped; one that a kubelet would refuse is a finding, and the policy is unknown then.
    pub fn read_flags<'w>(&mut self, words: impl IntoIterator<Item = &'w str>) {
        let place = Place::new("flags");
        let mut flags = self.parts.flags.value().cloned().unwrap_or_default();
        match flags.read(words, &place, &mut self.notes) {
            Err(why) => self.parts.flags.fail(&why),
            Ok(()) if self.parts.flags.is_failed() => {}
            Ok(()) => self.parts.flags.set(place, flags),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// An input was refused.
    ///
    /// # Complexity
    /// O(n log n) for n containers, sandboxes and images.
    pub fn finish(self) -> Result<NodeSnapshot, SnapshotError> {
        match self.failed {
            Some(place) => Err(SnapshotError::ReadFailed { place }),
            None => Ok(settle::settle(self.parts, &self.declared, self.notes)),
        }
    }

    fn stream(
        &mut self,
        name: &str,
        expected: Option<NodeDocument>,
        mut input: impl Read,
    ) -> Result<(), SnapshotError> {
        let name: Arc<str> = name.into();
        let documents = self.documents;
        self.unpack(&name, expected, Input::Stream(&mut input))?;
        self.some_since(documents, &name)
    }

    /// Reads all texts of one input.
    fn unpack(
        &mut self,
        name: &Arc<str>,
        expected: Option<NodeDocument>,
        input: Input<'_>,
    ) -> Result<(), SnapshotError> {
        let mut unpacker = Unpacker::new(UNPACKED_BYTES_MAX, layout::node_role);
        let mut texts = 0_u64;
        let read = unpacker.read(name, input, &mut |unpacked| match unpacked {
            Unpacked::Text(stream) => {
                texts += 1;
                self.input(stream.name, expected, stream.is_member, stream.input)
            }
            Unpacked::Skipped(reason) => {
                let place = Place::new(Arc::clone(name));
                self.notes.at(NodeProblem::SkippedFile, &place, reason);
                Ok(())
            }
        });
        match read {
            Ok(()) if texts > 0 => Ok(()),
            Ok(()) => {
                let error = SnapshotError::nothing(name, unpack::NOTHING_IN_ARCHIVE);
                self.settle_failure(error, expected)
            }
            Err(error) => self.settle_failure(error, expected),
        }
    }

    fn input(
        &mut self,
        name: Arc<str>,
        expected: Option<NodeDocument>,
        is_member: bool,
        input: impl Read,
    ) -> Result<(), SnapshotError> {
        let documents = match document::read(&name, input, self.document_bytes_max) {
            Ok(documents) => documents,
            Err(error) => return self.settle_failure(error, expected),
        };
        for document in documents {
            // `crictl inspect` prints several containers as a list.
            let (values, is_list) = match &document.value {
                Value::Array(values) => (values.as_slice(), true),
                other => (std::slice::from_ref(other), false),
            };
            if values.is_empty() {
                self.not_recognized(expected, is_member, &document.place)?;
            }
            for (index, value) in values.iter().enumerate() {
                let place = if is_list {
                    document.place.item(u32::try_from(index).unwrap_or(u32::MAX))
                } else {
                    document.place.clone()
                };
                let kind = expected.or_else(|| value.as_object().and_then(NodeDocument::of));
                match kind {
                    Some(kind) => self.document(kind, value, &place, &document),
                    None => self.not_recognized(None, is_member, &place)?,
                }
            }
        }
        Ok(())
    }

    /// Skips a document with a finding if other files may have those of the node; else it is an error.
    fn not_recognized(
        &mut self,
        expected: Option<NodeDocument>,
        is_member: bool,
        place: &Place,
    ) -> Result<(), SnapshotError> {
        if !self.lenient && !is_member {
            return self.no_document(&place.file);
        }
        let detail = "skipped: no document of a node";
        self.notes.at(NodeProblem::NotRecognized, place, detail);
        if expected.is_some() {
            self.parts
                .fail(expected, &format!("{place}: no document of a node"));
        }
        Ok(())
    }

    /// Checks that a directory or archive had a document of a node.
    fn some_since(&mut self, documents: u64, root: &Arc<str>) -> Result<(), SnapshotError> {
        match self.lenient || self.documents > documents {
            true => Ok(()),
            false => self.no_document(root),
        }
    }

    fn no_document(&mut self, file: &Arc<str>) -> Result<(), SnapshotError> {
        let error = SnapshotError::refused(file, "no document of a node", ADVICE);
        self.fail(&error);
        Err(error)
    }

    fn document(&mut self, kind: NodeDocument, value: &Value, place: &Place, document: &Document) {
        self.documents += 1;
        if document.may_be_truncated {
            let detail = "may be cut off";
            self.notes.at(NodeProblem::NoFinalLineBreak, place, detail);
            self.parts.fail(Some(kind), &format!("{place}: {detail}"));
        }
        let (lenient, now, what) = (self.lenient, self.declared.now, kind.as_str());
        let (parts, notes) = (&mut self.parts, &mut self.notes);
        use NodeDocument as D;
        match kind {
            D::Containers => {
                let key = |one: &Container| (Arc::clone(&one.id), Arc::default());
                let read = |entry: &mut Entry<'_, '_>| crictl::container(entry, now);
                let result = crictl::listing(value, "containers", place, lenient, notes, key, read);
                parts.containers.take(result, place, what, notes);
            }
            D::Sandboxes => {
                let key = |one: &Sandbox| (Arc::clone(&one.id), Arc::default());
                let read = |entry: &mut Entry<'_, '_>| crictl::sandbox(entry, now);
                let result = crictl::listing(value, "items", place, lenient, notes, key, read);
                parts.sandboxes.take(result, place, what, notes);
            }
            D::Images => {
                let key = |one: &Image| (Arc::clone(&one.id), Arc::clone(&one.runtime_handler));
                let result = crictl::listing(value, "images", place, lenient, notes, key, crictl::image);
                parts.images.take(result, place, what, notes);
            }
            D::ImageFileSystem => parts
                .usage
                .take(crictl::usage(value, place, notes), place, what, notes),
            D::StatsSummary => parts
                .stats
                .take(stats::read(value, place, notes), place, what, notes),
            D::KubeletConfiguration => {
                let wrapper = value.get(config::GKE_WRAPPER).map(|_| config::GKE_WRAPPER);
                let result = config::read(value, wrapper, place, notes);
                parts.config.take(result, place, what, notes);
            }
            D::Configz => {
                let result = config::read(value, Some("kubeletconfig"), place, notes);
                parts.configz.take(result, place, what, notes);
            }
            D::Records => parts
                .records
                .take(records::read(value, place, notes), place, what, notes),
            D::Pods => parts.pods.read(value, place, notes),
            D::ContainerStatus => match crictl::status(value, place, notes) {
                Ok((id, status)) => {
                    let known = parts.statuses.get(&id);
                    if known.is_some_and(|known| *known != status) {
                        let detail = "another document has other data of this container";
                        notes.note(NodeProblem::Contradiction, Some(place), &id, "status", detail);
                        parts.statuses_failed = Some(format!("{place}: {detail}"));
                    }
                    parts.statuses.insert(id, status);
                }
                Err(why) => parts.statuses_failed = Some(why),
            },
        }
    }

    fn settle_failure(
        &mut self,
        error: SnapshotError,
        expected: Option<NodeDocument>,
    ) -> Result<(), SnapshotError> {
        if !self.lenient {
            self.fail(&error);
            return Err(error);
        }
        let (place, detail) = error.at_place();
        self.notes
            .note(NodeProblem::Unread, place.as_ref(), "", "", &detail);
        self.parts.fail(expected, &error.full_text());
        Ok(())
    }

    fn fail(&mut self, error: &SnapshotError) {
        if self.failed.is_none() {
            self.failed = error.place();
        }
    }
}
