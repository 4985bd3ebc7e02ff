//! The reader of dumps: inputs, strictness, and the caller's declarations.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use kubegc_core::KubernetesVersion;

use crate::{
    Finding, Place, Problem, Snapshot, SnapshotError,
    completeness::Why,
    discovery::Discovery,
    document::{self, Settings},
    ingest::{Ingest, Source},
    layout::{self, Found},
    progress::{Counted, Progress},
    settle,
    threads::Threads,
    unpack::{self, Input, Stream, Unpacked, Unpacker},
};

/// Maximum number of bytes of one object, unless [`Reader::object_bytes_max`] sets another.
pub const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of unpacked bytes of one compressed file or archive, unless [`Reader::unpacked_bytes_max`]
/// sets another.
pub const UNPACKED_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Files that a thread reads together have this many bytes: each part of the reading has memory of its own.
const PART_BYTES: u64 = 1 << 20;
/// Number of such parts of one reading.
const PARTS_MAX: u64 = 256;

/// Reads dumps into one [`Snapshot`].
///
/// By default, any document that cannot be read is an error, and after an error there is no snapshot, because
/// it would silently lack objects. [`lenient`](Self::lenient) turns such a document into a finding and makes
/// every kind incomplete. The order in which files and documents are read changes only their places.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_snapshot::{Reader, SnapshotError};
/// let dump = br#"{"apiVersion": "v1", "kind": "List", "items": [
///     {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a", "uid": "1"}}
/// ]}"#;
/// let mut reader = Reader::new(KubernetesVersion::LATEST);
/// reader.read("dump.json", &dump[..])?;
/// let snapshot = reader.finish()?;
/// assert_eq!(snapshot.objects().next().map(|object| object.name().clone()), Some("a".into()));
///
/// let mut reader = Reader::new(KubernetesVersion::LATEST);
/// let error = reader.read("dump.json", &dump[..dump.len() - 10]).expect_err("it is cut off");
/// assert_eq!(error.to_string(), "dump.json, document 1, items[0]: the input ends in the middle of the document, at line 2");
/// assert!(reader.finish().is_err());
/// # Ok::<(), SnapshotError>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    version: KubernetesVersion,
    detects_version: bool,
    settings: Settings,
    declarations: Vec<String>,
    pub(crate) discovery: Discovery,
    ingest: Ingest,
    unpacked_bytes_max: u64,
    /// Number of skipped members, by directory or archive and by reason.
    skipped: BTreeMap<(Arc<str>, &'static str), u64>,
    default_namespace: Option<Box<str>>,
    progress: Option<Progress>,
    threads: Threads,
    failed: Option<Place>,
}

impl Reader {
    /// A reader for dumps of a cluster of this release, whose built-in kinds it knows.
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            version,
            detects_version: false,
            settings: Settings {
                lenient: false,
                object_bytes_max: OBJECT_BYTES_MAX,
            },
            declarations: Vec::new(),
            default_namespace: None,
            progress: None,
            threads: Threads::default(),
            discovery: Discovery::default(),
            ingest: Ingest::default(),
            unpacked_bytes_max: UNPACKED_BYTES_MAX,
            skipped: BTreeMap::new(),
            failed: None,
        }
    }

    /// Whether the [version in the dump](Snapshot::detected_version) replaces the one given to
    /// [`new`](Self::new), which then counts only if the dump has none. Default: no.
    #[must_use]
    pub fn detect_version(mut self, detect: bool) -> Self {
        self.detects_version = detect;
        self
    }

    /// Declares that the dump has all objects of a kind: `configmaps`, `ConfigMap`, `cm`, `deployments.apps`,
    /// `pods@shop` for one namespace, or `all` (`all@shop`) for every kind of the catalog.
    ///
    /// The name is resolved by [`finish`](Self::finish), when the definitions in the dump are known.
    #[must_use]
    pub fn complete(mut self, declaration: &str) -> Self {
        self.declarations.push(declaration.to_owned());
        self
    }

    /// Adds the resources of a listing: `kubectl api-resources` (plain or `-o wide`), or the JSON of an
    /// `APIResourceList` or `APIGroupDiscoveryList`.
    ///
    /// # Errors
    /// The listing cannot be read.
    pub fn api_resources(mut self, listing: &str) -> Result<Self, SnapshotError> {
        self.discovery.add(listing)?;
        Ok(self)
    }

    /// The namespace of manifests without one, as that of the context is for kubectl. Default: none, so that
    /// the object is [flawed](crate::ObjectView::is_flawed). Manifests are objects without uid and
    /// resourceVersion.
    #[must_use]
    pub fn default_namespace(mut self, namespace: &str) -> Self {
        self.default_namespace = Some(namespace.into());
        self
    }

    /// Calls `report` with the number of bytes read so far, unpacked, after each megabyte. Default: no
    /// reports.
    #[must_use]
    pub fn on_progress(mut self, report: impl FnMut(u64) + Send + 'static) -> Self {
        self.progress = Some(Progress::new(report));
        self
    }

    /// Reads files on the threads on which `run` calls its argument. `run` returns when these calls have
    /// returned; the calling thread reads the files that they left. Default: the calling thread reads all
    /// files.
    ///
    /// The threads change neither the snapshot nor the errors. They divide the files of directories and of
    /// [several paths](Self::read_paths); one thread reads all of a file, also if it is an archive.
    ///
    /// # Complexity
    /// Each thread needs the memory of [`read`](Self::read) for the object that it reads. What a thread read
    /// waits for the files before it. It takes as much memory as in the snapshot, and texts that several
    /// threads read take it several times.
    ///
    /// # Examples
    /// Any way to run a function on several threads will do, for example `rayon::broadcast`.
    /// ```
    /// use std::{num::NonZeroUsize, thread};
    ///
    /// use kubegc_core::KubernetesVersion;
    /// use kubegc_snapshot::Reader;
    /// # let directory = tempfile::tempdir()?;
    /// # let dump = directory.path();
    /// # for name in ["a", "b"] {
    /// #     let node = format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}", "uid": "{name}"}}}}"#);
    /// #     std::fs::write(dump.join(name).with_extension("json"), node)?;
    /// # }
    /// let mut reader = Reader::new(KubernetesVersion::LATEST).on_threads(|read_files| {
    ///     let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    ///     thread::scope(|scope| {
    ///         for _ in 0..cores {
    ///             scope.spawn(read_files);
    ///         }
    ///     });
    /// });
    /// reader.read_path(dump)?;
    /// # assert_eq!(reader.finish()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_threads(mut self, run: impl Fn(&(dyn Fn() + Sync)) + Send + Sync + 'static) -> Self {
        self.threads = Threads::new(run);
        self
    }

    /// Whether a document that cannot be read becomes a finding. Default: no, it is an error.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Self {
        self.settings.lenient = lenient;
        self
    }

    /// Maximum number of bytes of one object. Default: [`OBJECT_BYTES_MAX`]. Memory use while reading is
    /// proportional.
    #[must_use]
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.object_bytes_max = bytes;
        self
    }

    /// Maximum number of unpacked bytes of one compressed file or archive. Default: [`UNPACKED_BYTES_MAX`].
    /// They are read as a stream, so this bounds the time, not the memory.
    #[must_use]
    pub fn unpacked_bytes_max(mut self, bytes: u64) -> Self {
        self.unpacked_bytes_max = bytes;
        self
    }

    /// Reads a file, an archive, or the files of a directory, in the order of the paths.
    ///
    /// Compressed files, archives and UTF-16 are recognised by their first bytes. Of a directory or an
    /// archive, `.json`, `.jsonl`, `.ndjson`, `.yaml`, `.yml`, `.tar`, `.zip` and their compressed forms are
    /// read, and `.txt` if it begins as JSON does. Other files, and documents that are not objects of the
    /// Kubernetes API, are counted. Links to directories are not followed.
    ///
    /// # Errors
    /// A file cannot be read, is not a dump, or does not exist.
    pub fn read_path(&mut self, path: &Path) -> Result<(), SnapshotError> {
        self.read_paths([path])
    }

    /// Reads several files, archives or directories, one after another or on
    /// [several threads](Self::on_threads).
    ///
    /// # Errors
    /// As [`read_path`](Self::read_path). If one of the paths does not exist, none is read.
    pub fn read_paths<P: AsRef<Path>>(
        &mut self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<(), SnapshotError> {
        let found: Result<Vec<_>, _> = paths.into_iter().map(|path| found_at(path.as_ref())).collect();
        let found = found.inspect_err(|error| self.fail(error))?;
        self.read_found(&found)
    }

    /// Reads a stream: JSON or YAML documents, compressed or not, or an archive of them, recognised by the
    /// first bytes. `name` is its name in findings and errors.
    ///
    /// # Errors
    /// The stream fails, or is not a dump.
    ///
    /// # Complexity
    /// Linear in the input. Memory: one object of the input at a time, and about 200 bytes for each object
    /// kept. A zip archive is kept in memory while it is read, because its directory is at its end.
    ///
    /// # Examples
    /// ```no_run
    /// use kubegc_core::KubernetesVersion;
    /// use kubegc_snapshot::Reader;
    /// let mut reader = Reader::new(KubernetesVersion::LATEST);
    /// reader.read("standard input", std::io::stdin().lock())?;
    /// # Ok::<(), kubegc_snapshot::SnapshotError>(())
    /// ```
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<(), SnapshotError> {
        self.read_stream(name, None, input)
    }

    /// Reads a stream whose objects may lack a kind: a `PartialObjectMetadataList`, or a bare array of items.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_as(
        &mut self,
        name: &str,
        api_version: &str,
        kind: &str,
        input: impl Read,
    ) -> Result<(), SnapshotError> {
        self.read_stream(name, Some((api_version, kind)), input)
    }

    /// Adds what another reader read, as if this reader had read it now.
    fn append(&mut self, other: Self) -> Result<(), SnapshotError> {
        self.ingest.append(other.ingest);
        self.discovery.append(other.discovery);
        for (key, count) in other.skipped {
            *self.skipped.entry(key).or_insert(0) += count;
        }
        let Some(place) = other.failed else {
            return Ok(());
        };
        let error = SnapshotError::ReadFailed { place };
        self.fail(&error);
        Err(error)
    }

    /// Ends the reading: merges duplicate objects, resolves kinds, and determines completeness.
    ///
    /// # Errors
    /// An input was refused, or a declaration names no kind.
    ///
    /// # Complexity
    /// O(n log n) for n objects.
    pub fn finish(self) -> Result<Snapshot, SnapshotError> {
        if let Some(place) = self.failed {
            return Err(SnapshotError::ReadFailed { place });
        }
        let detected = self.ingest.version.as_ref().filter(|_| self.detects_version);
        let version = detected.map_or(self.version, |detected| detected.version);
        let (declarations, namespace) = (&self.declarations, self.default_namespace.as_deref());
        settle::settle(self.ingest, version, &self.discovery, declarations, namespace)
    }

    /// As [`finish`](Self::finish), for a caller to whom a snapshot without objects is useless: an answer
    /// about it looks as if nothing were wrong.
    ///
    /// # Errors
    /// As `finish`; also if there is no object. The error has the reason for each input.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::KubernetesVersion;
    /// use kubegc_snapshot::Reader;
    /// let mut reader = Reader::new(KubernetesVersion::LATEST);
    /// reader.read("pods.json", &br#"{"apiVersion": "v1", "kind": "PodList", "items": []}"#[..])?;
    /// let error = reader.finish_with_objects().expect_err("an empty list");
    /// assert_eq!(error.to_string(), "no Kubernetes object was read: pods.json: no object in it");
    /// # Ok::<(), kubegc_snapshot::SnapshotError>(())
    /// ```
    pub fn finish_with_objects(self) -> Result<Snapshot, SnapshotError> {
        let snapshot = self.finish()?;
        match snapshot.is_empty() {
            true => Err(SnapshotError::NoObjects {
                why: snapshot.why_empty(),
            }),
            false => Ok(snapshot),
        }
    }

    /// Reads the files that were found for several names.
    fn read_found(&mut self, found: &[(Arc<str>, Found)]) -> Result<(), SnapshotError> {
        let parts: Vec<(usize, &[PathBuf])> = parts(found);
        let read = self.threads.map(
            &parts,
            |&(at, files)| {
                let (root, found) = &found[at];
                let mut reader = self.part();
                let texts = reader.read_files(root, found.is_directory, files);
                (reader, texts)
            },
            |(_, texts)| texts.is_err(),
        );
        let mut parts = parts.into_iter().zip(read).peekable();
        for (at, (root, found)) in found.iter().enumerate() {
            for (_, reason) in &found.skipped {
                self.skip(root, reason);
            }
            let mut texts = 0;
            while let Some(((_, files), read)) = parts.next_if(|((of, _), _)| *of == at) {
                texts += match read {
                    Some((reader, texts)) => {
                        let appended = self.append(reader);
                        texts.and_then(|texts| appended.map(|()| texts))?
                    }
                    None => self.read_files(root, found.is_directory, files)?,
                };
            }
            if found.is_directory && texts == 0 {
                let error = layout::nothing(root);
                self.fail(&error);
                return Err(error);
            }
            self.report_skipped(root);
        }
        Ok(())
    }

    /// An empty reader with the settings that matter while files are read.
    fn part(&self) -> Self {
        Self {
            settings: self.settings,
            unpacked_bytes_max: self.unpacked_bytes_max,
            progress: self.progress.clone(),
            ..Self::new(self.version)
        }
    }

    /// Reads files in their order; returns the number of texts in them.
    fn read_files(
        &mut self,
        root: &Arc<str>,
        is_directory: bool,
        files: &[PathBuf],
    ) -> Result<u64, SnapshotError> {
        let mut texts = 0;
        for file in files {
            let name: Arc<str> = file.to_string_lossy().into();
            texts += self.unpack(&name, None, root, Input::File(file, is_directory))?;
        }
        Ok(texts)
    }

    fn read_stream(
        &mut self,
        name: &str,
        hint: Option<(&str, &str)>,
        mut input: impl Read,
    ) -> Result<(), SnapshotError> {
        let name: Arc<str> = name.into();
        self.unpack(&name, hint, &name, Input::Stream(&mut input))?;
        self.report_skipped(&name);
        Ok(())
    }

    /// Reads all texts of one input; returns their number, at least one if it failed. Skipped members are
    /// counted for `root`.
    fn unpack(
        &mut self,
        name: &Arc<str>,
        hint: Option<(&str, &str)>,
        root: &Arc<str>,
        input: Input<'_>,
    ) -> Result<u64, SnapshotError> {
        let mut unpacker = Unpacker::new(self.unpacked_bytes_max, layout::role);
        let mut texts = 0;
        let read = unpacker.read(name, input, &mut |unpacked| match unpacked {
            Unpacked::Text(stream) => {
                texts += 1;
                self.text(stream, hint)
            }
            Unpacked::Skipped(reason) => {
                self.skip(root, reason);
                Ok(())
            }
        });
        let error = match read {
            Ok(()) if texts == 0 && name == root => SnapshotError::nothing(name, unpack::NOTHING_IN_ARCHIVE),
            Ok(()) => return Ok(texts),
            Err(error) => error,
        };
        self.settle_failure(error)?;
        Ok(texts.max(1))
    }

    fn skip(&mut self, root: &Arc<str>, reason: &'static str) {
        *self.skipped.entry((Arc::clone(root), reason)).or_insert(0) += 1;
    }

    fn report_skipped(&mut self, root: &Arc<str>) {
        if let Some((count, first)) = self.ingest.no_objects.take() {
            self.ingest
                .findings
                .add_many(first.problem, count, || match count {
                    1 => first,
                    _ => Finding {
                        place: Some(Place::new(Arc::clone(root))),
                        detail: format!("{count} documents skipped: {}", first.detail).into(),
                        ..first
                    },
                });
        }
        for ((root, reason), count) in std::mem::take(&mut self.skipped) {
            let problem = Problem::SkippedFile;
            let files = if count == 1 { "file" } else { "files" };
            self.ingest.findings.add_many(problem, count, || {
                let detail = format!("{count} {files} skipped: {reason}");
                Finding::new(problem, Some(Place::new(root)), &detail)
            });
        }
    }

    fn text(&mut self, stream: Stream<'_>, hint: Option<(&str, &str)>) -> Result<(), SnapshotError> {
        if stream.is_member && layout::is_bundled_discovery(stream.path) {
            return self.resources(stream);
        }
        let hint = hint.or_else(|| layout::kind_in_path(stream.path));
        let store = &mut self.ingest.store;
        store.files.push(Arc::clone(&stream.name));
        let mut source = Source {
            place: Place::new(stream.name),
            // As many files as u32 has numbers are not opened in a lifetime.
            file: store.files.len() as u32 - 1,
            hint: hint.map(|(api_version, kind)| store.type_id(api_version, kind)),
            list: None,
            is_member: stream.is_member,
        };
        let input = Counted {
            input: stream.input,
            progress: self.progress.clone(),
        };
        let read = document::read(input, &mut source, self.settings, &mut self.ingest);
        // The pending items of a document that failed have no kind.
        self.ingest.settle_pending(source.hint, &source);
        read.or_else(|error| match error {
            // Among other files, an empty one is the output of a failed command.
            SnapshotError::Nothing { .. } if source.is_member => {
                self.unread(&error);
                Ok(())
            }
            // The log of a pod may begin as JSON does.
            SnapshotError::Syntax { place, .. }
                if source.is_member
                    && layout::is_plain_text(stream.path)
                    && (place.document, place.item) == (1, None) =>
            {
                self.ingest.no_object(place, "it is not JSON");
                Ok(())
            }
            error => self.settle_failure(error),
        })
    }

    /// Reads the resources that a support bundle lists.
    fn resources(&mut self, stream: Stream<'_>) -> Result<(), SnapshotError> {
        let place = Place::new(stream.name);
        let read = unpack::read_all(stream.input, &place, self.settings.object_bytes_max);
        let read = read.and_then(|text| {
            let added = self.discovery.add_lists(&text);
            added.map_err(|problem| SnapshotError::not_an_object(place, problem))
        });
        read.or_else(|error| self.settle_failure(error))
    }

    fn settle_failure(&mut self, error: SnapshotError) -> Result<(), SnapshotError> {
        if !self.settings.lenient {
            self.fail(&error);
            return Err(error);
        }
        self.unread(&error);
        Ok(())
    }

    fn unread(&mut self, error: &SnapshotError) {
        let (place, detail) = error.at_place();
        if let Some(place) = &place {
            self.ingest.revocations.add(None, Why::Unread(place.clone()));
        }
        let problem = Problem::Unread;
        let finding = || Finding::new(problem, place, &detail);
        self.ingest.findings.add(problem, finding);
    }

    fn fail(&mut self, error: &SnapshotError) {
        if self.failed.is_none() {
            self.failed = error.place();
        }
    }
}

fn found_at(path: &Path) -> Result<(Arc<str>, Found), SnapshotError> {
    Ok((path.to_string_lossy().into(), layout::walk(path, layout::role)?))
}

/// Parts of the reading: consecutive files of one of the paths, and its position.
fn parts(found: &[(Arc<str>, Found)]) -> Vec<(usize, &[PathBuf])> {
    let bytes_of = |file: &PathBuf| fs::metadata(file).map_or(0, |meta| meta.len());
    let all = found.iter().flat_map(|(_, found)| &found.files);
    let part_bytes = PART_BYTES.max(all.map(bytes_of).sum::<u64>() / PARTS_MAX);
    let parts = found.iter().enumerate().flat_map(|(at, (_, found))| {
        let mut bytes = 0;
        let of_path = found.files.chunk_by(move |file, _| {
            bytes += bytes_of(file);
            let is_full = bytes >= part_bytes;
            if is_full {
                bytes = 0;
            }
            !is_full
        });
        of_path.map(move |files| (at, files))
    });
    parts.collect()
}
