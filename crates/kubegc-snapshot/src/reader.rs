//! The door: what is read, how strictly, and what the caller knows that the files cannot say.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use kubegc_core::KubernetesVersion;

use crate::{
    Finding, Place, Problem, Snapshot, SnapshotError,
    completeness::Why,
    discovery::Discovery,
    document::{self, Settings},
    ingest::{Ingest, Source},
    layout::{self, Found},
    settle,
};

/// Bytes that one object may have, unless [`Reader::object_bytes_max`] says otherwise.
pub const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reads dumps into one [`Snapshot`].
///
/// By default any document that cannot be read is an error, and after an error there is no snapshot: what was read before
/// would be silently short. [`lenient`](Self::lenient) turns such a document into a finding and every kind into an incomplete one.
/// The order in which files and documents are read changes nothing but their places.
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
/// assert_eq!(snapshot.objects().next().map(|object| object.meta.name), Some("a".into()));
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
    settings: Settings,
    declarations: Vec<String>,
    pub(crate) discovery: Discovery,
    ingest: Ingest,
    failed: Option<Place>,
}

impl Reader {
    /// A reader for dumps of a cluster of this release, whose built-in kinds it knows.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            version,
            settings: Settings {
                lenient: false,
                object_bytes_max: OBJECT_BYTES_MAX,
            },
            declarations: Vec::new(),
            discovery: Discovery::default(),
            ingest: Ingest::new(),
            failed: None,
        }
    }

    /// Declares that the dump has all objects of a kind: `configmaps`, `ConfigMap`, `cm`, `deployments.apps`, `pods@shop` for one namespace,
    /// or `all` (`all@shop`) for every kind of the catalog.
    ///
    /// The name is resolved by [`finish`](Self::finish), when the definitions in the dump are known.
    #[must_use]
    pub fn complete(mut self, declaration: &str) -> Self {
        self.declarations.push(declaration.to_owned());
        self
    }

    /// Adds the resources of a listing: `kubectl api-resources` (plain or `-o wide`), or the JSON of an `APIResourceList` or
    /// `APIGroupDiscoveryList`.
    ///
    /// # Errors
    /// The listing cannot be read.
    pub fn api_resources(mut self, listing: &str) -> Result<Self, SnapshotError> {
        self.discovery.add(listing)?;
        Ok(self)
    }

    /// Whether a document that cannot be read becomes a finding. Default: no, it is an error.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Self {
        self.settings.lenient = lenient;
        self
    }

    /// How many bytes one object may have. Default: [`OBJECT_BYTES_MAX`]. What is held in memory while reading is in proportion.
    #[must_use]
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.object_bytes_max = bytes;
        self
    }

    /// Reads a file, or all `.json`, `.yaml` and `.yml` files of a folder, in the order of their paths.
    ///
    /// Of a must-gather only `cluster-scoped-resources` and `namespaces` are read. Links to folders are not followed.
    ///
    /// # Errors
    /// A file cannot be read, is no dump, or there is none.
    pub fn read_path(&mut self, path: &Path) -> Result<(), SnapshotError> {
        let found = layout::walk(path).inspect_err(|error| self.fail(error))?;
        self.read_found(found, None)
    }

    /// Reads a file or folder whose objects may not say their kind, as [`read_as`](Self::read_as) reads a stream.
    ///
    /// # Errors
    /// As [`read_path`](Self::read_path).
    pub fn read_path_as(&mut self, path: &Path, api_version: &str, kind: &str) -> Result<(), SnapshotError> {
        let found = layout::walk(path).inspect_err(|error| self.fail(error))?;
        self.read_found(found, Some((api_version, kind)))
    }

    /// Reads the files that a pattern matches: `*` and `?` within a name, `**` across folders.
    ///
    /// # Errors
    /// As [`read_path`](Self::read_path); also where nothing matches.
    pub fn read_glob(&mut self, pattern: &str) -> Result<(), SnapshotError> {
        let found = layout::glob(pattern).inspect_err(|error| self.fail(error))?;
        self.read_found(found, None)
    }

    /// Reads a stream of JSON or YAML documents; `name` stands for it in findings and errors.
    ///
    /// # Errors
    /// The stream fails, or holds what is no dump.
    ///
    /// # Complexity
    /// Linear in the input. Memory: one object of the input at a time, and about 150 bytes for each object kept.
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<(), SnapshotError> {
        self.stream(name.into(), None, input)
    }

    /// Reads a stream whose objects may not say their kind: a `PartialObjectMetadataList`, or a bare array of items.
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
        self.stream(name.into(), Some((api_version, kind)), input)
    }

    /// Ends the reading: merges objects that were seen twice, resolves kinds, and settles what is complete.
    ///
    /// # Errors
    /// An input was refused, or a declaration names no kind.
    ///
    /// # Complexity
    /// O(n log n) for n objects.
    pub fn finish(self) -> Result<Snapshot, SnapshotError> {
        match self.failed {
            Some(place) => Err(SnapshotError::ReadFailed { place }),
            None => settle::settle(self.ingest, self.version, &self.discovery, &self.declarations),
        }
    }

    fn read_found(&mut self, found: Found, hint: Option<(&str, &str)>) -> Result<(), SnapshotError> {
        for (path, reason) in found.passed_over {
            let problem = Problem::PassedOver;
            self.ingest.findings.add(problem, || Finding {
                problem,
                place: Some(Place::new(path)),
                object: None,
                field: "".into(),
                detail: reason.into(),
            });
        }
        for path in found.files {
            let name: Arc<str> = path.to_string_lossy().into();
            match File::open(&path) {
                Ok(file) => self.stream(name, hint, file)?,
                Err(source) => self.settle_failure(SnapshotError::Io { path: name, source })?,
            }
        }
        Ok(())
    }

    fn stream(
        &mut self,
        name: Arc<str>,
        hint: Option<(&str, &str)>,
        input: impl Read,
    ) -> Result<(), SnapshotError> {
        let store = &mut self.ingest.store;
        store.files.push(Arc::clone(&name));
        let mut source = Source {
            place: Place::new(name),
            // As many files as u32 has numbers are not opened in a lifetime.
            file: store.files.len() as u32 - 1,
            hint: hint.map(|(api_version, kind)| store.type_id(api_version, kind)),
        };
        let read = document::read(input, &mut source, self.settings, &mut self.ingest);
        // What a document left open when it failed has no kind.
        self.ingest.settle_pending(source.hint, &source);
        read.or_else(|error| self.settle_failure(error))
    }

    fn settle_failure(&mut self, error: SnapshotError) -> Result<(), SnapshotError> {
        if !self.settings.lenient {
            self.fail(&error);
            return Err(error);
        }
        let place = error.place();
        if let Some(place) = &place {
            self.ingest.spoils.all(Why::Unread(place.clone()));
        }
        let text = error.full_text();
        let detail = match &place {
            Some(place) => text.strip_prefix(&format!("{place}: ")).unwrap_or(&text),
            None => &text,
        };
        let problem = Problem::Unread;
        self.ingest.findings.add(problem, || Finding {
            problem,
            place,
            object: None,
            field: "".into(),
            detail: detail.into(),
        });
        Ok(())
    }

    fn fail(&mut self, error: &SnapshotError) {
        if self.failed.is_none() {
            self.failed = error.place();
        }
    }
}
