//! The result of reading: objects, the kinds of the cluster, completeness, and findings.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use kubegc_core::{
    Catalog, KindId, KubernetesVersion, ObjectMeta, ObjectRef, OwnerReference, SharedMeta, Timestamp, Uid,
    record,
};

use crate::{
    Completeness, Details, DetectedVersion, Finding, Place, Problem,
    store::{Record, Store},
};

/// The objects of a cluster as far as they were dumped.
///
/// Objects are stored compactly, about 200 bytes each with their names, and read in place. Kinds, namespaces,
/// labels and owners' names are shared texts, so built metadata costs little more than its map of labels.
///
/// They are sorted by group, kind, namespace and name, and unique by these.
#[non_exhaustive]
pub struct Snapshot {
    /// The kinds of the cluster: built in, discovered, defined.
    pub catalog: Catalog,
    pub completeness: Completeness,
    /// The findings, sorted: the first [`FINDINGS_LISTED_MAX`](crate::FINDINGS_LISTED_MAX) of each problem.
    pub findings: Vec<Finding>,
    /// Number of occurrences of each problem, listed or not.
    pub finding_counts: BTreeMap<Problem, u64>,
    pub(crate) version: KubernetesVersion,
    pub(crate) detected_version: Option<DetectedVersion>,
    pub(crate) store: Store,
    pub(crate) kind_ids: Vec<Option<KindId>>,
    /// The positions of the objects of each kind, in order.
    pub(crate) kinds: Vec<Range<usize>>,
}

/// Maximum number of reasons in an error.
const REASONS_MAX: usize = 3;

impl Snapshot {
    /// The release whose built-in kinds the catalog has.
    pub const fn version(&self) -> KubernetesVersion {
        self.version
    }

    /// The Kubernetes version of the cluster, if the dump contains it. [`version`](Self::version) is another
    /// one unless the reader [was configured to use it](crate::Reader::detect_version).
    pub const fn detected_version(&self) -> Option<&DetectedVersion> {
        self.detected_version.as_ref()
    }

    pub fn len(&self) -> usize {
        self.store.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.records.is_empty()
    }

    /// The reason why each input has no objects.
    pub(crate) fn why_empty(&self) -> String {
        let is_reason = |finding: &&Finding| {
            matches!(
                finding.problem,
                Problem::Unread
                    | Problem::Unreadable
                    | Problem::KubectlError
                    | Problem::KubectlMessage
                    | Problem::NotAnObject
                    | Problem::SkippedFile
            )
        };
        let mut reasons: Vec<String> = Vec::new();
        for finding in self.findings.iter().filter(is_reason) {
            let text = finding.to_string();
            let problem = format!("{}: ", finding.problem);
            reasons.push(text.strip_prefix(&problem).unwrap_or(&text).to_owned());
        }
        if reasons.is_empty() {
            let files = self.store.files.iter();
            reasons.extend(files.map(|file| format!("{file}: no object in it")));
        }
        let more = reasons.len().saturating_sub(REASONS_MAX);
        reasons.truncate(REASONS_MAX);
        match (reasons.is_empty(), more) {
            (true, _) => "no dump was given".to_owned(),
            (false, 0) => reasons.join("; "),
            (false, more) => format!("{}; and {more} more", reasons.join("; ")),
        }
    }

    /// The same objects after a restore from a backup into an empty cluster: each has a new uid and
    /// references to the old uids of its owners. Terminating objects are not restored.
    ///
    /// # Complexity
    /// O(n) for n objects.
    #[must_use]
    pub fn restored(mut self) -> Self {
        let is_kept: Vec<bool> = self.objects().map(|object| !object.is_deleting()).collect();
        let mut kept = is_kept.iter();
        self.store.records.retain(|_| kept.next() == Some(&true));
        for (number, record) in self.store.records.iter_mut().enumerate() {
            record.uid = format!("restored-{number}").as_str().into();
        }
        self.kinds = kind_ranges(&self.store);
        self
    }

    /// The objects, sorted by group, kind, namespace and name.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = ObjectView<'_>> {
        let records = self.store.records.iter();
        records.map(|record| ObjectView {
            snapshot: self,
            record,
        })
    }

    /// The object at this position of [`objects`](Self::objects).
    pub fn object(&self, position: usize) -> Option<ObjectView<'_>> {
        let record = self.store.records.get(position)?;
        Some(ObjectView {
            snapshot: self,
            record,
        })
    }

    /// The object with this name.
    ///
    /// # Complexity
    /// O(log n) for n objects.
    pub fn find(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<ObjectView<'_>> {
        self.object(self.position(group, kind, namespace, name)?)
    }

    /// The position of the object with this name in [`objects`](Self::objects).
    ///
    /// # Complexity
    /// O(log n) for n objects.
    pub fn position(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<usize> {
        let store = &self.store;
        let of_kind = self.positions_of_kind(group, kind);
        let found = store.records[of_kind.clone()].binary_search_by(|record| {
            let namespace_of = store.texts.text(record.namespace);
            (&**namespace_of, &*record.name).cmp(&(namespace, name))
        });
        Some(of_kind.start + found.ok()?)
    }

    /// The positions of all objects of a kind.
    ///
    /// # Complexity
    /// O(log k) for k kinds.
    pub fn positions_of_kind(&self, group: &str, kind: &str) -> Range<usize> {
        let (store, of) = (&self.store, &(group, kind));
        let found = self
            .kinds
            .binary_search_by(|range| store.group_kind(store.records[range.start].type_id).cmp(of));
        found.map(|at| self.kinds[at].clone()).unwrap_or_default()
    }
}

/// One object of a snapshot, read in place: a loop over all objects pays only for the fields that it reads.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug(
    "{:?}",
    (self.object_ref(), self.kind_id(), self.meta(), self.details(), self.ready_at(), self.is_flawed(),
        self.has_flawed_meta(), self.place())
)]
pub struct ObjectView<'a> {
    snapshot: &'a Snapshot,
    record: &'a Record,
}

impl<'a> ObjectView<'a> {
    /// Group and version, as the dump has it.
    pub fn api_version(&self) -> &'a Arc<str> {
        self.snapshot.store.type_texts(self.record.type_id).0
    }

    /// Kind, as the dump has it.
    pub fn kind(&self) -> &'a Arc<str> {
        self.snapshot.store.type_texts(self.record.type_id).1
    }

    /// The kind in the snapshot's catalog; `None` if it is not there.
    pub fn kind_id(&self) -> Option<KindId> {
        self.snapshot.kind_ids[self.record.type_id as usize]
    }

    /// Namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &'a Arc<str> {
        self.snapshot.store.texts.text(self.record.namespace)
    }

    pub const fn name(&self) -> &'a Arc<str> {
        &self.record.name
    }

    pub const fn uid(&self) -> &'a Uid {
        &self.record.uid
    }

    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: Arc::clone(self.kind()),
            api_version: Arc::clone(self.api_version()),
            namespace: Arc::clone(self.namespace()),
            name: Arc::clone(self.name()),
            uid: self.uid().clone(),
        }
    }

    /// Fields outside the metadata; `None` if there are none to read. A ready pod has the epoch as its ready
    /// time here: otherwise identical pods share their details.
    pub fn details(&self) -> Option<&'a Details> {
        self.snapshot.store.details_of(self.record)
    }

    /// The time at which a pod became ready; `None` if it is not ready or the time is missing.
    pub fn ready_at(&self) -> Option<Timestamp> {
        self.record.ready_at
    }

    /// Whether a part of the metadata or details could not be read, so that everything that depends on it is
    /// undetermined. The findings name the part.
    pub const fn is_flawed(&self) -> bool {
        self.record.flawed
    }

    /// Whether a part of the metadata could not be read or is missing: its [record](Self::record) has nothing
    /// else then.
    pub const fn has_flawed_meta(&self) -> bool {
        self.record.meta_flawed
    }

    pub fn place(&self) -> Place {
        Place::of(&self.snapshot.store, self.record)
    }

    /// The metadata, built from the compact form.
    pub fn meta(&self) -> ObjectMeta {
        self.snapshot.store.meta(self.record)
    }

    /// The record that controllers read. Its body is unread for kinds that no controller reads, and for lists
    /// of metadata.
    ///
    /// If the metadata [is flawed](Self::has_flawed_meta), the record is
    /// [unreadable](record::Record::unreadable): a Job with an unreadable deletion time must not count as one
    /// that is not being deleted. [`JsonDocuments`](crate::JsonDocuments) refuses such objects.
    pub fn record(&self) -> record::Record {
        self.record_with(self.meta().into())
    }

    /// The [record](Self::record), which shares this metadata: that of the object.
    pub fn record_with(&self, meta: SharedMeta) -> record::Record {
        if self.has_flawed_meta() {
            return record::Record::unreadable(meta);
        }
        let body = self.details().map_or_else(record::Body::unread, Details::body);
        let mut record = record::Record::new(meta, body);
        let ready_at = self.ready_at();
        if ready_at.is_some()
            && let record::Body::Pod(pod) = record.body_mut()
        {
            pod.ready_at = ready_at.into();
        }
        record
    }

    pub fn is_deleting(&self) -> bool {
        self.record.deletion_timestamp().is_some()
    }

    /// The finalizers, in stored order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &'a Arc<str>> {
        self.record.finalizers().iter()
    }

    /// The owner references, in stored order.
    pub fn owner_references(&self) -> impl ExactSizeIterator<Item = OwnerReference> + use<'a> {
        self.snapshot.store.owners_of(self.record).iter().cloned()
    }
}

/// The positions of the records of each kind.
pub(crate) fn kind_ranges(store: &Store) -> Vec<Range<usize>> {
    let mut end = 0;
    let is_same = |a: &Record, b: &Record| {
        a.type_id == b.type_id || store.group_kind(a.type_id) == store.group_kind(b.type_id)
    };
    let of_kinds = store.records.chunk_by(is_same);
    let ranges = of_kinds.map(|records| {
        end += records.len();
        end - records.len()..end
    });
    ranges.collect()
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.len())
            .field("kinds", &self.catalog.len())
            .field("finding_counts", &self.finding_counts)
            .finish_non_exhaustive()
    }
}
