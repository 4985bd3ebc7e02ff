//! The objects of a snapshot in a compact form: about 150 bytes each and their name; everything repeated is
//! kept once.
//!
//! An [`ObjectMeta`] has several hundred bytes with its label map. A snapshot therefore keeps records of
//! numbers and builds the metadata on access; the texts in it are shared, not copied.

use std::sync::Arc;

use kubegc_core::{ObjectMeta, OwnerReference, ResourceVersion, Timestamp, Uid, identity::split_api_version};

use crate::{
    Details, ObjectName,
    texts::{Numbered, TextId, Texts},
};

/// Number of a kind and version in the store.
pub type TypeId = u32;

#[derive(Clone, Debug)]
pub struct Record {
    pub name: Arc<str>,
    pub uid: Uid,
    pub version: ResourceVersion,
    pub generation: i64,
    pub created: Option<Timestamp>,
    pub type_id: TypeId,
    pub namespace: TextId,
    pub labels: u32,
    pub owners: u32,
    pub extra: Option<Box<Extra>>,
    pub file: u32,
    pub document: u32,
    /// `None` if the object is a document of its own.
    pub item: Option<u32>,
    pub details: u32,
    /// The time at which a pod became ready; `None` if it is not ready or the time is missing.
    pub ready_at: Option<Timestamp>,
    pub flawed: bool,
    /// Whether it was never stored: it has neither uid nor resourceVersion.
    pub is_manifest: bool,
    /// Whether a part of the metadata could not be read, or is missing there.
    pub meta_flawed: bool,
}

impl Record {
    /// The finalizers, in stored order.
    pub fn finalizers(&self) -> &[Arc<str>] {
        self.extra.as_ref().map_or(&[], |extra| &extra.finalizers)
    }

    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.extra.as_ref()?.deletion_timestamp
    }
}

/// Fields that few objects have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub finalizers: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub texts: Texts,
    pub records: Vec<Record>,
    /// The apiVersion and the kind of each type.
    pub types: Numbered<(TextId, TextId)>,
    /// Sorted by key.
    pub label_sets: Numbered<Box<[(TextId, TextId)]>>,
    /// The owner references of objects.
    pub owner_lists: Numbered<Box<[OwnerReference]>>,
    details: Numbered<Details>,
    pub files: Vec<Arc<str>>,
    /// Room to work in.
    pub labels_scratch: Vec<(TextId, TextId)>,
}

impl Store {
    pub fn type_id(&mut self, api_version: &str, kind: &str) -> TypeId {
        let key = (self.texts.number(api_version), self.texts.number(kind));
        self.types.add(key)
    }

    pub fn type_texts(&self, id: TypeId) -> (&Arc<str>, &Arc<str>) {
        let (api_version, kind) = self.types[id];
        (self.texts.text(api_version), self.texts.text(kind))
    }

    pub fn group_kind(&self, id: TypeId) -> (&str, &str) {
        let (api_version, kind) = self.type_texts(id);
        (split_api_version(api_version).0, kind)
    }

    /// The name of an object of a type, if that is known.
    pub fn object_name(
        &self,
        id: Option<TypeId>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> ObjectName {
        let text = |id: TextId| Arc::clone(self.texts.text(id));
        let of = id.map(|id| self.types[id]);
        let (api_version, kind) = of.map_or_else(Default::default, |(of, kind)| (text(of), text(kind)));
        ObjectName {
            api_version,
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn name_of(&self, record: &Record) -> ObjectName {
        let namespace = Arc::clone(self.texts.text(record.namespace));
        self.object_name(Some(record.type_id), namespace, Arc::clone(&record.name))
    }

    pub fn owners_of(&self, record: &Record) -> &[OwnerReference] {
        &self.owner_lists[record.owners]
    }

    /// The metadata of a record, built from the stored parts.
    pub fn meta(&self, record: &Record) -> ObjectMeta {
        let text = |id: TextId| Arc::clone(self.texts.text(id));
        ObjectMeta {
            namespace: text(record.namespace),
            name: Arc::clone(&record.name),
            uid: record.uid.clone(),
            resource_version: record.version.clone(),
            generation: record.generation,
            creation_timestamp: record.created,
            deletion_timestamp: record.deletion_timestamp(),
            deletion_grace_period_seconds: record
                .extra
                .as_ref()
                .and_then(|extra| extra.deletion_grace_period_seconds),
            finalizers: record.finalizers().to_vec(),
            owner_references: self.owners_of(record).iter().cloned().collect(),
            labels: self.label_sets[record.labels]
                .iter()
                .map(|&(key, value)| (text(key), text(value)))
                .collect(),
        }
    }

    /// The details of a record, if its kind has any.
    pub fn details_of(&self, record: &Record) -> Option<&Details> {
        self.details.get(record.details.checked_sub(1)?)
    }

    /// The number of these details, from 1.
    pub fn details_number(&mut self, details: Details) -> u32 {
        self.details.add(details) + 1
    }

    /// Adds the objects of another store; returns the numbers of its types here. All numbers become those
    /// that the same objects would have if this store had taken them in.
    pub fn append(&mut self, other: Self) -> Vec<TypeId> {
        let texts = self.texts.append(other.texts, |text| text);
        let text = |id: TextId| texts[id as usize];
        let types = self
            .types
            .append(other.types, |(api_version, kind)| (text(api_version), text(kind)));
        let label_sets = self.label_sets.append(other.label_sets, |mut labels| {
            for (key, value) in &mut labels {
                (*key, *value) = (text(*key), text(*value));
            }
            labels.sort_unstable_by_key(|&(key, _)| key);
            labels
        });
        let details = self.details.append(other.details, |details| details);
        let owner_lists = self.owner_lists.append(other.owner_lists, |owners| owners);
        let files_before = self.files.len() as u32;
        self.files.extend(other.files);
        self.records
            .extend(other.records.into_iter().map(|record| Record {
                type_id: types[record.type_id as usize],
                namespace: text(record.namespace),
                labels: label_sets[record.labels as usize],
                owners: owner_lists[record.owners as usize],
                file: files_before + record.file,
                details: match record.details {
                    0 => 0,
                    number => details[number as usize - 1] + 1,
                },
                ..record
            }));
        types
    }

    /// Removes all objects. Their shared texts stay until they exceed `shared_max`; then they are removed
    /// too.
    pub fn forget_objects(&mut self, shared_max: usize) {
        let shared = self.texts.len() + self.label_sets.len();
        if shared > shared_max {
            *self = Self::default();
        }
        self.records.clear();
        self.owner_lists.truncate(0);
    }
}
