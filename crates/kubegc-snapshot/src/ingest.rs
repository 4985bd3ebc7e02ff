//! Adds objects to the store: checks the guarantees of the API server, reports violations, and stores the
//! rest compactly.

use std::sync::Arc;

use kubegc_core::Timestamp;

use crate::{
    DetectedVersion, Finding, GroupKind, Place, Problem, SnapshotError, VersionSource,
    body::Raw,
    completeness::{Revocations, Why},
    details::{self, DetailFlaw, Flaw, Kind, Origin},
    finding::Findings,
    item::{Item, ListHead, Meta},
    kindless::{self, TypeName},
    metadata::origin,
    store::{Record, Store, TypeId},
};

/// The position of the object being read, and the kind that is known from elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The document, or the item of a list.
    pub(crate) place: Place,
    /// Number of the file in the store.
    pub(crate) file: u32,
    /// The kind that the caller or the path gives to objects without one.
    pub(crate) hint: Option<TypeId>,
    /// The kind that the head of the list implies.
    pub(crate) list: Option<TypeName>,
    /// Whether it was found in a directory or archive, where other files may be too.
    pub(crate) is_member: bool,
}

impl Source {
    /// The place of the whole document.
    pub(crate) fn document(&self) -> Place {
        self.place.document(self.place.document)
    }

    /// The error for bytes that are not UTF-8 in this line.
    pub(crate) fn not_utf8(&self, line: u64) -> SnapshotError {
        SnapshotError::NotText {
            place: self.place.clone(),
            line,
            problem: "not UTF-8",
        }
    }

    pub(crate) fn not_an_object(&self, problem: impl Into<String>) -> SnapshotError {
        SnapshotError::not_an_object(self.document(), problem)
    }
}

/// An item without a kind, until the kind of its list is known.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Its record; `None` if its identity could not be read.
    record: Option<Box<Record>>,
    item: Option<u32>,
    namespace: Arc<str>,
    name: Arc<str>,
    flaws: Vec<DetailFlaw>,
    contents: Contents,
    /// Whether it has an apiVersion or a kind, and lacks the other.
    has_half_a_type: bool,
}

/// The number of an item's details, 0 if it has none, and the ready time of a pod: pods that are otherwise
/// equal share their details.
type Kept = (u32, Option<Timestamp>);

/// The details of an item, once its kind is known.
#[derive(Debug)]
enum Contents {
    /// These details, by number, and with these flaws, if the item is of the assumed kind; otherwise they are
    /// unknown.
    Read {
        of: TypeName,
        details: Kept,
        flaws: Vec<DetailFlaw>,
    },
    /// They are read from this JSON.
    Unread(Box<str>),
}

impl Pending {
    /// The kind that its fields or the name of its file imply.
    fn inferred(&self, file: &str) -> Option<TypeName> {
        match &self.contents {
            Contents::Unread(body) if self.record.is_some() && !self.has_half_a_type => {
                // `Ingest::contents` wrote it.
                let body: Raw<'_> = serde_json::from_str(body).unwrap_or_default();
                kindless::infer(&body, file)
            }
            _ => None,
        }
    }
}

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

/// The objects, findings and pages that were read.
#[derive(Debug, Default)]
pub(crate) struct Ingest {
    pub(crate) store: Store,
    pub(crate) findings: Findings,
    pub(crate) revocations: Revocations,
    pub(crate) pages: Vec<Page>,
    /// Documents that are not objects of the API: how many, and the first one.
    pub(crate) no_objects: Option<(u64, Finding)>,
    pub(crate) version: Option<DetectedVersion>,
    /// Items without a kind of the list that is being read.
    pub(crate) pending: Vec<Pending>,
}

impl Ingest {
    /// Adds the objects, findings and pages of another ingest. Neither of the two is within a text.
    pub(crate) fn append(&mut self, other: Self) {
        let types = self.store.append(other.store);
        self.findings.append(other.findings);
        self.revocations.append(other.revocations);
        self.pages.extend(other.pages.into_iter().map(|page| Page {
            type_id: types[page.type_id as usize],
            ..page
        }));
        if let Some((count, first)) = other.no_objects {
            self.no_objects.get_or_insert((0, first)).0 += count;
        }
        if let Some(version) = other.version {
            self.set_detected_version(version);
        }
    }

    /// Adds one object.
    ///
    /// # Errors
    /// It is not an object of a cluster: an API error, a table, or metadata without a kind.
    pub(crate) fn object(&mut self, item: &Item<'_>, source: &Source) -> Result<(), SnapshotError> {
        let place = &source.place;
        let type_id = match (item.api_version_str(), item.kind_str()) {
            ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => match source.hint {
                Some(hint) => Some(hint),
                None => return Err(metadata_only(place)),
            },
            (api_version, kind) if !kind.is_empty() && !api_version.is_empty() => {
                refuse_non_objects(api_version, kind, place)?;
                Some(self.store.type_id(api_version, kind))
            }
            _ => source.hint,
        };
        let info = item.body.get("status").get("nodeInfo");
        if matches!(item.kind_str(), "" | "Node")
            && let Some(version) = info.get("kubeletVersion").as_str()
        {
            self.detect_version(version, VersionSource::Kubelet, place);
        }
        let empty = Meta::default();
        let meta = item.meta.get().unwrap_or(&empty);
        let origin = origin(meta);
        let mut flaws: Vec<DetailFlaw> = item
            .wrong()
            .into_iter()
            .map(|wrong| (Flaw::BadField, wrong.field.clone(), wrong.problem()))
            .collect();
        let name: Arc<str> = meta.name.as_str().into();
        let record = if name.is_empty() {
            flaws.push((
                Flaw::Unreadable,
                "metadata.name".to_owned(),
                "missing, so the object cannot be named".to_owned(),
            ));
            None
        } else {
            let mut record = self.store.record(meta, Arc::clone(&name), origin, &mut flaws);
            record.file = source.file;
            record.document = place.document;
            record.item = place.item;
            // So far only the metadata was read.
            record.meta_flawed = flaws.iter().any(|(problem, ..)| flaws_object(*problem));
            record.flawed = record.meta_flawed;
            Some(record)
        };
        let Some(type_id) = type_id else {
            let list = source.list.as_ref().filter(|_| item.depends_on_hint);
            let contents = self.contents(item, list, origin);
            let has_half_a_type = !item.api_version_str().is_empty() || !item.kind_str().is_empty();
            self.pending.push(Pending {
                record: record.map(Box::new),
                item: place.item,
                namespace: meta.namespace.as_str().into(),
                name,
                flaws,
                contents,
                has_half_a_type,
            });
            return Ok(());
        };
        // Metadata alone does not show whether the other fields exist.
        let has_fields = record.is_some() && item.kind_str() != "PartialObjectMetadata";
        let (api_version, kind) = self.store.type_texts(type_id);
        let kind = Kind::of(api_version, kind).filter(|_| has_fields);
        let details = self.details(kind, &item.body, origin, &mut flaws);
        self.add(record, type_id, details, &flaws);
        if !flaws.is_empty() {
            self.report(Some(type_id), meta.namespace.as_str(), &name, flaws, place);
        }
        Ok(())
    }

    /// Adds a record whose kind is known.
    fn add(
        &mut self,
        record: Option<Record>,
        type_id: TypeId,
        (details, ready_at): Kept,
        flaws: &[DetailFlaw],
    ) {
        self.store.records.extend(record.map(|record| Record {
            type_id,
            details,
            ready_at,
            flawed: record.flawed || flaws.iter().any(|(problem, ..)| flaws_object(*problem)),
            ..record
        }));
    }

    /// Records a version of Kubernetes. Returns whether the text is one.
    pub(crate) fn detect_version(&mut self, text: &str, source: VersionSource, place: &Place) -> bool {
        let Some(found) = DetectedVersion::read(text, source, place) else {
            return false;
        };
        self.set_detected_version(found);
        true
    }

    fn set_detected_version(&mut self, found: DetectedVersion) {
        if self.version.as_ref().is_none_or(|known| found.replaces(known)) {
            self.version = Some(found);
        }
    }

    /// Revokes all completeness, with a finding.
    pub(crate) fn revoke_all(
        &mut self,
        why: Why,
        problem: Problem,
        place: &Place,
        field: &str,
        detail: &str,
    ) {
        self.revocations.add(None, why);
        self.findings.add(problem, || Finding {
            field: field.into(),
            ..Finding::new(problem, Some(place.clone()), detail)
        });
    }

    /// Counts a document that is not an object of the API.
    pub(crate) fn no_object(&mut self, place: Place, problem: &str) {
        match &mut self.no_objects {
            Some((count, _)) => *count += 1,
            None => {
                let first = Finding::new(Problem::NotAnObject, Some(place), problem);
                self.no_objects = Some((1, first));
            }
        }
    }

    /// Records an entry that is not an object.
    pub(crate) fn unreadable(&mut self, source: &Source, problem: &str) {
        let flaws = vec![(Flaw::Unreadable, String::new(), problem.to_owned())];
        if source.hint.is_some() {
            self.report(source.hint, "", "", flaws, &source.place);
            return;
        }
        self.pending.push(Pending {
            record: None,
            item: source.place.item,
            namespace: "".into(),
            name: "".into(),
            flaws,
            contents: Contents::Unread("{}".into()),
            has_half_a_type: false,
        });
    }

    /// Sets the kind of items without one to that of their list, else to the inferred one, or reports them as
    /// unreadable.
    pub(crate) fn settle_pending(&mut self, type_id: Option<TypeId>, source: &Source) {
        for mut entry in std::mem::take(&mut self.pending) {
            let place = Place {
                item: entry.item,
                ..source.document()
            };
            let type_id = type_id.or_else(|| {
                let (api_version, kind) = entry.inferred(&source.place.file)?;
                let type_id = self.store.type_id(&api_version, &kind);
                let problem = Problem::AssumedKind;
                self.findings.add(problem, || {
                    let detail = format!("missing, taken as {kind} of {api_version}");
                    let object = self
                        .store
                        .object_name(Some(type_id), &*entry.namespace, &*entry.name);
                    Finding::new(problem, Some(place.clone()), &detail).of_object(object, "kind")
                });
                Some(type_id)
            });
            let Some(type_id) = type_id else {
                entry.flaws.retain(|(problem, ..)| *problem != Flaw::NoUid);
                if entry
                    .flaws
                    .iter()
                    .all(|(problem, ..)| *problem != Flaw::Unreadable)
                {
                    let detail = "neither the object nor its list has a kind".to_owned();
                    entry.flaws.push((Flaw::Unreadable, "kind".to_owned(), detail));
                }
                self.report(None, &entry.namespace, &entry.name, entry.flaws, &place);
                continue;
            };
            if let Some(record) = entry.record {
                let origin = match record.is_manifest {
                    true => Origin::Manifest,
                    false => Origin::Dump,
                };
                let details = self.settle_contents(entry.contents, type_id, origin, &mut entry.flaws);
                self.add(Some(*record), type_id, details, &entry.flaws);
            }
            if !entry.flaws.is_empty() {
                self.report(Some(type_id), &entry.namespace, &entry.name, entry.flaws, &place);
            }
        }
    }

    /// Whether all pending items have an inferred kind.
    pub(crate) fn all_are_inferred(&self, source: &Source) -> bool {
        let mut pending = self.pending.iter();
        pending.all(|entry| entry.inferred(&source.place.file).is_some())
    }

    /// Discards the items read since there were so many records: their document is one object with a field
    /// `items`.
    pub(crate) fn discard_since(&mut self, mark: usize) {
        self.store.records.truncate(mark);
        self.pending.clear();
    }

    /// Records a page of a typed list.
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

    fn details(
        &mut self,
        kind: Option<Kind>,
        body: &Raw<'_>,
        origin: Origin,
        flaws: &mut Vec<DetailFlaw>,
    ) -> Kept {
        let found = kind.and_then(|kind| details::read(kind, body, origin, &mut self.store.texts, flaws));
        let Some(mut details) = found else {
            return Kept::default();
        };
        let ready_at = details.ready_at_mut();
        let ready_at = ready_at.map(|at| std::mem::replace(at, Timestamp::EPOCH));
        (self.store.details_number(details), ready_at)
    }

    /// Keeps the content of an item until its kind is known.
    fn contents(&mut self, item: &Item<'_>, list: Option<&TypeName>, origin: Origin) -> Contents {
        match list {
            Some(of) => {
                let mut flaws = Vec::new();
                let details = self.details(Kind::of(&of.0, &of.1), &item.body, origin, &mut flaws);
                let of = of.clone();
                Contents::Read { of, details, flaws }
            }
            // Texts and numbers can always be written.
            None => Contents::Unread(serde_json::to_string(&item.body).unwrap_or_default().into()),
        }
    }

    /// The details of an item whose kind is now known.
    fn settle_contents(
        &mut self,
        contents: Contents,
        type_id: TypeId,
        origin: Origin,
        flaws: &mut Vec<DetailFlaw>,
    ) -> Kept {
        let (api_version, kind) = self.store.type_texts(type_id);
        match contents {
            Contents::Read {
                of,
                details,
                flaws: found,
            } => {
                let is_it = (&of.0, &of.1) == (api_version, kind);
                flaws.extend(found.into_iter().filter(|_| is_it));
                if is_it { details } else { Kept::default() }
            }
            Contents::Unread(body) => {
                let kind = Kind::of(api_version, kind);
                // This function reads what it wrote above.
                let body: Raw<'_> = serde_json::from_str(&body).unwrap_or_default();
                self.details(kind, &body, origin, flaws)
            }
        }
    }

    /// Reports the flaws of an object as findings, and marks its kind if an owner could be hidden behind it.
    fn report(
        &mut self,
        type_id: Option<TypeId>,
        namespace: &str,
        name: &str,
        flaws: Vec<DetailFlaw>,
        place: &Place,
    ) {
        let object = self.store.object_name(type_id, namespace, name);
        for (flaw, field, detail) in flaws {
            match flaw {
                Flaw::Unreadable => self.revoke(type_id, Why::Unreadable(1)),
                Flaw::NoUid => self.revoke(type_id, Why::NoUid(1)),
                _ => {}
            }
            let problem = flaw.into();
            self.findings.add(problem, || {
                Finding::new(problem, Some(place.clone()), &detail).of_object(object.clone(), &field)
            });
        }
    }

    /// Revokes the completeness of a kind; of all while it is not known.
    pub(crate) fn revoke(&mut self, type_id: Option<TypeId>, why: Why) {
        let kind = type_id.map(|type_id| {
            let (group, kind) = self.store.group_kind(type_id);
            GroupKind::new(group, kind)
        });
        self.revocations.add(kind, why);
    }
}

/// Whether the problem makes the object itself unreliable.
fn flaws_object(problem: Flaw) -> bool {
    matches!(
        problem,
        Flaw::BadField | Flaw::MissingField | Flaw::IncompleteOwner | Flaw::NoUid
    )
}

fn metadata_only(place: &Place) -> SnapshotError {
    let problem = "PartialObjectMetadata does not say the kind of the object; give it with read_as";
    SnapshotError::not_an_object(place.clone(), problem)
}

/// Describes documents of the API server that have no objects, such as audit events and discovery listings.
pub(crate) fn without_objects(api_version: &str, kind: &str) -> Option<&'static str> {
    match kind {
        "Event" | "EventList" if api_version.starts_with("audit.k8s.io/") => Some(
            "it is an audit event, which shows a request and no state; dump the objects with kubectl get -o json",
        ),
        "APIResourceList" | "APIGroupList" | "APIGroup" | "APIVersions" | "APIGroupDiscoveryList" => {
            Some("it is a discovery listing; give it to api_resources")
        }
        _ => None,
    }
}

/// Refuses kinds that are responses about objects, not objects.
pub(crate) fn refuse_non_objects(api_version: &str, kind: &str, place: &Place) -> Result<(), SnapshotError> {
    let problem = match (api_version, kind) {
        ("v1", "Status") => "it is a Status, the API server's response to a failed request",
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "Table") => {
            "it is a Table, made for printing; list again with -o json"
        }
        _ => match without_objects(api_version, kind) {
            Some(problem) => problem,
            None => return Ok(()),
        },
    };
    Err(SnapshotError::not_an_object(place.clone(), problem))
}
