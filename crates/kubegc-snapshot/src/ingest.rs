//! Takes objects in: checks what the API server always guarantees, names what is wrong, and keeps the rest compactly.

use std::sync::Arc;

use kubegc_core::{Timestamp, Uid, identity::split_api_version};

use crate::{
    Details, Finding, ObjectName, Place, Problem, SnapshotError,
    completeness::{Spoils, Why},
    details::{self, DetailFlaw},
    finding::Findings,
    item::{Item, ListHead, Meta, Owner, Text},
    store::{Extra, NO_ITEM, NO_TIME, OwnerRecord, Record, Store, TYPE_PENDING, TypeId, Version},
};

/// Where the document being read stands, and what its kind is known to be from elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) place: Place,
    /// Number of the file in the store.
    pub(crate) file: u32,
    /// The kind that the caller or the path gives to objects that do not say theirs.
    pub(crate) hint: Option<TypeId>,
}

/// An item whose kind its list has yet to say.
#[derive(Debug)]
struct Pending {
    /// Its record; `None` where its identity could not be read.
    record: Option<usize>,
    item: u32,
    namespace: Arc<str>,
    name: Arc<str>,
    flaws: Vec<(Problem, String, String)>,
    /// What the details are if it turns out to be of one of the kinds that have any.
    candidates: Vec<(&'static str, &'static str, Option<Details>, Vec<DetailFlaw>)>,
}

/// Items of an outer list, see [`Ingest::set_aside`].
#[derive(Debug)]
pub(crate) struct SetAside(Vec<Pending>);

/// One page of a typed list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) type_id: TypeId,
    pub(crate) resource_version: String,
    pub(crate) continues: bool,
    pub(crate) remaining: u64,
    pub(crate) items: u64,
    pub(crate) place: Place,
}

/// Everything taken in so far.
#[derive(Debug)]
pub(crate) struct Ingest {
    pub(crate) store: Store,
    pub(crate) findings: Findings,
    pub(crate) spoils: Spoils,
    pub(crate) pages: Vec<Page>,
    pending: Vec<Pending>,
    labels: Vec<(u32, u32)>,
}

/// The kinds with details, for items that do not say theirs.
const KINDS_WITH_DETAILS: [(&str, &str); 3] = [
    ("v1", "Pod"),
    ("v1", "Namespace"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

impl Ingest {
    pub(crate) fn new() -> Self {
        Self {
            store: Store::new(),
            findings: Findings::default(),
            spoils: Spoils::default(),
            pages: Vec::new(),
            pending: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Takes one object in.
    ///
    /// # Errors
    /// It is something that is no object of a cluster at all: an API error, a table, metadata without a kind.
    pub(crate) fn object(
        &mut self,
        item: &Item<'_>,
        source: &Source,
        position: Option<u32>,
    ) -> Result<(), SnapshotError> {
        let place = || position.map_or_else(|| source.place.clone(), |at| source.place.item(at));
        let type_id = match (item.api_version_str(), item.kind_str()) {
            ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => match source.hint {
                Some(hint) => hint,
                None => return Err(metadata_only(place())),
            },
            (api_version, kind) if !kind.is_empty() && !api_version.is_empty() => {
                refuse_odd_kinds(api_version, kind, place)?;
                self.store.type_id(api_version, kind)
            }
            _ => source.hint.unwrap_or(TYPE_PENDING),
        };
        let empty = Meta::default();
        let meta = item.meta.as_ref().unwrap_or(&empty);
        let mut flaws: Vec<(Problem, String, String)> = item
            .flaws
            .iter()
            .map(|flaw| (Problem::BadField, flaw.field.clone(), flaw.problem.clone()))
            .collect();
        let text = |text: &Option<Text<'_>>| text.as_ref().map_or(Arc::from(""), |text| text.as_str().into());
        let name: Arc<str> = text(&meta.name);
        let record = if name.is_empty() {
            flaws.push((
                Problem::Unreadable,
                "metadata.name".to_owned(),
                "not there, so the object cannot be named".to_owned(),
            ));
            None
        } else {
            let mut record = self.record(meta, Arc::clone(&name), &mut flaws);
            record.type_id = type_id;
            record.file = source.file;
            record.document = source.place.document;
            record.item = position.unwrap_or(NO_ITEM);
            record.flawed = flaws.iter().any(|(problem, ..)| flaws_object(*problem));
            self.store.records.push(record);
            Some(self.store.records.len() - 1)
        };
        if type_id == TYPE_PENDING {
            let candidates = self.candidates(item);
            self.pending.push(Pending {
                record,
                item: position.unwrap_or(NO_ITEM),
                namespace: text(&meta.namespace),
                name,
                flaws,
                candidates,
            });
            return Ok(());
        }
        if let Some(record) = record {
            let mut missing = Vec::new();
            let (api_version, kind) = self.store.type_texts(type_id);
            let (api_version, kind) = (Arc::clone(api_version), Arc::clone(kind));
            let of_metadata_only = item.kind_str() == "PartialObjectMetadata";
            if !of_metadata_only && crate::item::has_details(&kind) {
                let texts = &mut self.store.texts;
                let found = details::read(
                    &api_version,
                    &kind,
                    item.spec.as_ref(),
                    item.status.as_ref(),
                    texts,
                    &mut missing,
                );
                self.set_details(record, found);
            }
            take_missing(&mut flaws, &missing);
            self.store.records[record].flawed |= flaws.iter().any(|(problem, ..)| flaws_object(*problem));
        }
        if !flaws.is_empty() {
            self.report(type_id, &text(&meta.namespace), &name, flaws, &place());
        }
        Ok(())
    }

    /// Marks an entry that is no object at all.
    pub(crate) fn unreadable(&mut self, source: &Source, position: Option<u32>, problem: &str) {
        let flaws = vec![(Problem::Unreadable, String::new(), problem.to_owned())];
        let type_id = source.hint.unwrap_or(TYPE_PENDING);
        if type_id == TYPE_PENDING {
            self.pending.push(Pending {
                record: None,
                item: position.unwrap_or(NO_ITEM),
                namespace: "".into(),
                name: "".into(),
                flaws,
                candidates: Vec::new(),
            });
        } else {
            let place = position.map_or_else(|| source.place.clone(), |at| source.place.item(at));
            self.report(type_id, "", "", flaws, &place);
        }
    }

    /// Gives the items that did not say their kind the kind of their list, or finds them unreadable.
    pub(crate) fn settle_pending(&mut self, type_id: Option<TypeId>, source: &Source) {
        let pending = std::mem::take(&mut self.pending);
        let mut orphans = Vec::new();
        for mut entry in pending {
            let place = if entry.item == NO_ITEM {
                source.place.clone()
            } else {
                source.place.item(entry.item)
            };
            let Some(type_id) = type_id else {
                let detail = "neither the object nor its list says its kind".to_owned();
                entry.flaws.retain(|(problem, ..)| *problem != Problem::NoUid);
                entry.flaws.push((Problem::Unreadable, "kind".to_owned(), detail));
                orphans.extend(entry.record);
                self.report(TYPE_PENDING, &entry.namespace, &entry.name, entry.flaws, &place);
                continue;
            };
            if let Some(record) = entry.record {
                let (api_version, kind) = self.store.type_texts(type_id);
                let group = split_api_version(api_version).0;
                let fits = |version: &str, of: &str| split_api_version(version).0 == group && of == &**kind;
                if let Some(at) = entry
                    .candidates
                    .iter()
                    .position(|(version, of, ..)| fits(version, of))
                {
                    let (_, _, found, missing) = entry.candidates.swap_remove(at);
                    take_missing(&mut entry.flaws, &missing);
                    self.set_details(record, found);
                }
                self.store.records[record].type_id = type_id;
                self.store.records[record].flawed |=
                    entry.flaws.iter().any(|(problem, ..)| flaws_object(*problem));
            }
            if !entry.flaws.is_empty() {
                self.report(type_id, &entry.namespace, &entry.name, entry.flaws, &place);
            }
        }
        let (mut at, mut orphans) = (0, orphans.into_iter().peekable());
        if orphans.peek().is_some() {
            self.store.records.retain(|_| {
                let is_orphan = orphans.next_if_eq(&at).is_some();
                at += 1;
                !is_orphan
            });
        }
    }

    /// Sets the items of a list aside while a list inside it is read.
    pub(crate) fn set_aside(&mut self) -> SetAside {
        SetAside(std::mem::take(&mut self.pending))
    }

    /// Takes up the items that were set aside.
    pub(crate) fn take_up(&mut self, aside: SetAside) {
        self.pending = aside.0;
    }

    /// How many records there are: a mark for [`forget_since`](Self::forget_since).
    pub(crate) fn mark(&self) -> usize {
        self.store.records.len()
    }

    /// Forgets the items taken in since the mark: their document turned out to be one object with a field `items`.
    pub(crate) fn forget_since(&mut self, mark: usize) {
        self.store.records.truncate(mark);
        self.pending.clear();
    }

    /// Notes a page of a typed list.
    pub(crate) fn page(&mut self, head: &ListHead, type_id: TypeId, items: u64, place: &Place) {
        if !head.resource_version.is_empty() || head.continues {
            self.pages.push(Page {
                type_id,
                resource_version: head.resource_version.clone(),
                continues: head.continues,
                remaining: head.remaining.unwrap_or(0),
                items,
                place: place.clone(),
            });
        }
    }

    fn set_details(&mut self, record: usize, details: Option<Details>) {
        if let Some(details) = details {
            self.store.records[record].details = self.store.details_number(details);
        }
    }

    fn candidates(
        &mut self,
        item: &Item<'_>,
    ) -> Vec<(&'static str, &'static str, Option<Details>, Vec<DetailFlaw>)> {
        let mut candidates = Vec::new();
        for (api_version, kind) in KINDS_WITH_DETAILS {
            let mut flaws = Vec::new();
            let texts = &mut self.store.texts;
            let found = details::read(
                api_version,
                kind,
                item.spec.as_ref(),
                item.status.as_ref(),
                texts,
                &mut flaws,
            );
            candidates.push((api_version, kind, found, flaws));
        }
        candidates
    }

    /// The record of an object's metadata, and what is wrong with that.
    fn record(
        &mut self,
        meta: &Meta<'_>,
        name: Arc<str>,
        flaws: &mut Vec<(Problem, String, String)>,
    ) -> Record {
        let uid = Uid::new(meta.uid.as_ref().map_or("", Text::as_str));
        if uid.is_empty() {
            flaws.push((Problem::NoUid, "metadata.uid".to_owned(), "not there".to_owned()));
        }
        let mut date = |text: &Option<Text<'_>>, field: &str| {
            let text = text.as_ref()?.as_str();
            Timestamp::parse(text)
                .map_err(|_| {
                    flaws.push((
                        Problem::BadField,
                        format!("metadata.{field}"),
                        format!("{text:?} is no date"),
                    ))
                })
                .ok()
        };
        let created = date(&meta.creation_timestamp, "creationTimestamp");
        let extra = Extra {
            deletion_timestamp: date(&meta.deletion_timestamp, "deletionTimestamp"),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            finalizers: self.finalizers(meta.finalizers.as_deref().unwrap_or_default()),
        };
        let extra = if extra == Extra::default() {
            0
        } else {
            self.store.extras.push(extra);
            self.store.extras.len() as u32 - 1
        };
        let owners_start = self.store.owners.len() as u32;
        for (index, owner) in meta.owner_references.iter().flatten().enumerate() {
            let owner = self.owner(owner, index, flaws);
            self.store.owners.push(owner);
        }
        let version = meta.resource_version.as_ref().map_or("", Text::as_str);
        Record {
            name,
            uid,
            version: self.version(version),
            generation: meta.generation.unwrap_or(0),
            created: created.map_or(NO_TIME, Timestamp::as_nanos),
            type_id: TYPE_PENDING,
            namespace: self
                .store
                .texts
                .number(meta.namespace.as_ref().map_or("", Text::as_str)),
            labels: self.labels(meta),
            owners_start,
            owners_count: self.store.owners.len() as u32 - owners_start,
            extra,
            file: 0,
            document: 0,
            item: NO_ITEM,
            details: 0,
            flawed: false,
        }
    }

    fn finalizers(&mut self, names: &[Text<'_>]) -> u32 {
        let numbers: Vec<u32> = names
            .iter()
            .map(|name| self.store.texts.number(name.as_str()))
            .collect();
        self.store.finalizer_lists.number(&numbers)
    }

    fn labels(&mut self, meta: &Meta<'_>) -> u32 {
        self.labels.clear();
        for (key, value) in meta.labels.iter().flat_map(|pairs| &pairs.0) {
            let texts = &mut self.store.texts;
            self.labels
                .push((texts.number(key.as_str()), texts.number(value.as_str())));
        }
        // One order for equal sets, whatever the order in the document. Of equal keys the last one counts, as in Go.
        self.labels.reverse();
        self.labels.sort_by_key(|&(key, _)| key);
        self.labels.dedup_by_key(|&mut (key, _)| key);
        self.store.label_sets.number(&self.labels)
    }

    fn owner(
        &mut self,
        owner: &Owner<'_>,
        index: usize,
        flaws: &mut Vec<(Problem, String, String)>,
    ) -> OwnerRecord {
        let fields = [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ];
        for (field, text) in fields {
            if text.as_ref().is_none_or(|text| text.as_str().is_empty()) {
                let field = format!("metadata.ownerReferences[{index}].{field}");
                flaws.push((Problem::IncompleteOwner, field, "not there".to_owned()));
            }
        }
        let [api_version, kind, name, uid] = fields.map(|(_, text)| text.as_ref().map_or("", Text::as_str));
        let texts = &mut self.store.texts;
        OwnerRecord {
            uid: Uid::new(uid),
            api_version: texts.number(api_version),
            kind: texts.number(kind),
            name: texts.number(name),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }

    fn version(&mut self, text: &str) -> Version {
        if text.is_empty() {
            return Version::None;
        }
        // Only the form that the number prints back as, so that the text survives.
        match text.parse::<u64>() {
            Ok(number) if !text.starts_with(['+', '0']) || text == "0" => Version::Number(number),
            _ => Version::Text(self.store.texts.number(text)),
        }
    }

    /// Turns what is wrong with an object into findings, and marks its kind where an owner could hide behind it.
    fn report(
        &mut self,
        type_id: TypeId,
        namespace: &str,
        name: &str,
        flaws: Vec<(Problem, String, String)>,
        place: &Place,
    ) {
        let (api_version, kind): (Arc<str>, Arc<str>) = if type_id == TYPE_PENDING {
            ("".into(), "".into())
        } else {
            let (api_version, kind) = self.store.type_texts(type_id);
            (Arc::clone(api_version), Arc::clone(kind))
        };
        for (problem, field, detail) in flaws {
            let why = match problem {
                Problem::Unreadable => Some(Why::Unreadable(1)),
                Problem::NoUid => Some(Why::NoUid(1)),
                _ => None,
            };
            match why {
                Some(why) if type_id == TYPE_PENDING => self.spoils.all(why),
                Some(why) => self.spoils.kind(split_api_version(&api_version).0, &kind, why),
                None => {}
            }
            self.findings.add(problem, || Finding {
                problem,
                place: Some(place.clone()),
                object: Some(ObjectName {
                    api_version: Arc::clone(&api_version),
                    kind: Arc::clone(&kind),
                    namespace: namespace.into(),
                    name: name.into(),
                }),
                field: field.into(),
                detail: detail.into(),
            });
        }
    }
}

/// Whether the problem leaves the object's own metadata in doubt.
fn flaws_object(problem: Problem) -> bool {
    matches!(
        problem,
        Problem::BadField | Problem::MissingField | Problem::IncompleteOwner | Problem::NoUid
    )
}

fn take_missing(flaws: &mut Vec<(Problem, String, String)>, missing: &[DetailFlaw]) {
    for &(problem, field, detail) in missing {
        // A field of the wrong type was read as absent, and is named already.
        if !flaws.iter().any(|(_, known, _)| known == field) {
            flaws.push((problem, field.to_owned(), detail.to_owned()));
        }
    }
}

fn metadata_only(place: Place) -> SnapshotError {
    SnapshotError::NotAnObject {
        place,
        problem: "PartialObjectMetadata does not say the kind of the object; give it with read_as".to_owned(),
    }
}

/// Kinds that are answers about objects, not objects.
pub(crate) fn refuse_odd_kinds(
    api_version: &str,
    kind: &str,
    place: impl FnOnce() -> Place,
) -> Result<(), SnapshotError> {
    let problem = match (api_version, kind) {
        ("v1", "Status") => "it is a Status, the API server's answer to a request that failed",
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "Table") => {
            "it is a Table, made for printing; list again with -o json"
        }
        (_, "APIResourceList" | "APIGroupList" | "APIGroupDiscoveryList") => {
            "it is a discovery listing; give it to api_resources"
        }
        _ => return Ok(()),
    };
    Err(SnapshotError::NotAnObject {
        place: place(),
        problem: problem.to_owned(),
    })
}
