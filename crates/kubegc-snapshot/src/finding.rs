//! Findings: irregularities in a dump that did not stop the reading, each with its place, object and field.

use std::{collections::BTreeMap, fmt};

use derive_more::Display;

use crate::{
    ObjectName, Place,
    details::Flaw,
    store::{Record, Store},
};

/// The category of a [`Finding`].
///
/// The first group makes the affected kinds incomplete or the object [flawed](crate::ObjectView::is_flawed);
/// the second only informs.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display)]
pub enum Problem {
    /// A file or the rest of it was not read (only with `lenient`); all kinds that it may hold are
    /// incomplete.
    Unread,
    /// An object whose kind or name is missing was left out; its kind is incomplete.
    Unreadable,
    /// An object was stored and has no uid, so references by uid cannot be matched with it; its kind is
    /// incomplete.
    NoUid,
    /// A field has the wrong type or form: it is unread, and the object is flawed. In the metadata it counts
    /// as absent, and controllers decide nothing about the object.
    BadField,
    /// A field that the API server always fills is missing; the object is flawed.
    MissingField,
    /// An owner reference lacks a part that the API server demands; the object is flawed, and controllers
    /// decide nothing about it.
    IncompleteOwner,
    /// A list continues, and the rest is missing; its kind is incomplete.
    ListContinues,
    /// A file ends with an error of kubectl, such as `error: the server doesn't have a resource type "pods"`;
    /// all kinds are incomplete.
    KubectlError,
    /// A YAML file ends without a line break, so it may be cut off before objects of any kind; all kinds are
    /// incomplete.
    NoFinalLineBreak,
    /// The same object at the same or an unordered version, with different contents; its kind is incomplete.
    Contradiction,
    /// The kind of some objects is neither built in, nor defined, nor listed: it cannot be addressed.
    Unresolvable,
    /// A namespaced object without namespace, or a cluster-scoped one with it; the object is flawed.
    WrongScope,

    /// The same object occurs several times with equal contents: merged.
    Repeated,
    /// The same object occurs at several versions: the newest was kept.
    Superseded,
    /// One uid belongs to objects with different names or kinds: all were kept.
    SharedUid,
    /// A field that the API server fills is missing, as in manifests: the value of a new object was assumed.
    Assumed,
    /// An object has neither apiVersion nor kind: its kind was inferred from its fields or from the name of
    /// the file.
    AssumedKind,
    /// A CustomResourceDefinition is not established, so its kind is not served.
    NotEstablished,
    /// A resource is defined twice, differently: the first definition was kept (built in, then discovery,
    /// then definitions).
    ConflictingDefinition,
    /// JSON or YAML documents without kind and metadata: not of the Kubernetes API, skipped and counted (in
    /// directories and archives, elsewhere only with `lenient`).
    NotAnObject,
    /// A file holds a message of kubectl that is not an error: a warning, or that nothing was found.
    KubectlMessage,
    /// A JSON object has the same key several times: the last one was kept, as `encoding/json` of Go keeps
    /// it.
    DuplicateKey,
    /// The kind of some objects is neither built in, nor defined, nor listed: its resource and scope were
    /// inferred from the objects.
    InferredKind,
    /// A file of a known layout is documented to be a complete list: its kind is complete, in a namespace or
    /// in the cluster.
    InferredComplete,
    /// The same, and other objects of the dump contradict it: the kind is incomplete there.
    ListContradicted,
    /// Files of a directory or archive that are not dumps: skipped, and counted in one finding for each
    /// reason.
    SkippedFile,
    /// The cluster's release is newer than those that kubegc knows: behaviour of the newest known one is
    /// used.
    NewerVersion,
}

impl From<Flaw> for Problem {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Unreadable => Self::Unreadable,
            Flaw::NoUid => Self::NoUid,
            Flaw::BadField => Self::BadField,
            Flaw::MissingField => Self::MissingField,
            Flaw::IncompleteOwner => Self::IncompleteOwner,
            Flaw::Assumed => Self::Assumed,
        }
    }
}

impl Problem {
    /// A summary of several findings of the problem, with its effect.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Unread => "files not read to the end, so every kind counts as incomplete",
            Self::Unreadable => {
                "objects without a readable kind or name left out, so their kinds count as incomplete"
            }
            Self::NoUid => "objects without a uid, so their kinds count as incomplete",
            Self::BadField => "fields of the wrong type not read",
            Self::MissingField => "fields missing that the API server always fills",
            Self::IncompleteOwner => "owner references without a part that the API server demands",
            Self::ListContinues => "lists whose next pages are missing, so their kinds count as incomplete",
            Self::KubectlError => "errors of kubectl among the objects, so every kind counts as incomplete",
            Self::NoFinalLineBreak => {
                "YAML texts without a final line break, which may be cut off, so every kind counts as incomplete"
            }
            Self::Contradiction => "objects with several contents of the same or no resourceVersion",
            Self::Unresolvable => "kinds that nothing defines",
            Self::WrongScope => "objects whose namespace contradicts the scope of their kind",
            Self::Repeated => "objects that occur several times with equal contents",
            Self::Superseded => "objects that occur several times, of which the newest is used",
            Self::SharedUid => "uids that several objects share",
            Self::Assumed => "missing fields for which the values of a new object are assumed",
            Self::AssumedKind => {
                "objects without a kind, which is inferred from their fields or their file's name"
            }
            Self::NotEstablished => "CustomResourceDefinitions that are not established",
            Self::ConflictingDefinition => "resources that are defined differently several times",
            Self::NotAnObject => "documents skipped that are not API objects",
            Self::KubectlMessage => "messages of kubectl among the objects",
            Self::DuplicateKey => "keys that occur several times in a JSON object; the last one is used",
            Self::InferredKind => "kinds that nothing defines, inferred from their objects",
            Self::InferredComplete => "kinds that a known layout lists completely",
            Self::ListContradicted => "complete lists of a known layout that the dump contradicts",
            Self::SkippedFile => "files skipped that are not dumps",
            Self::NewerVersion => {
                "releases that are newer than the known ones; behaviour of the newest known one is used"
            }
        }
    }
}

/// One oddity of the input: of a dump, or as [`NodeFinding`](crate::NodeFinding) of the documents of a node.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Finding<P = Problem, O = ObjectName> {
    pub problem: P,
    /// The position; `None` if the finding concerns the snapshot or the node as a whole.
    pub place: Option<Place>,
    /// The object concerned, as far as it could be read.
    pub object: Option<O>,
    /// Path of the field concerned, such as `metadata.ownerReferences[1].uid`; empty if it is none in
    /// particular.
    pub field: Box<str>,
    /// The particulars, as a phrase.
    pub detail: Box<str>,
}

impl<P, O> Finding<P, O> {
    /// A finding about no object and no field.
    pub(crate) fn new(problem: P, place: Option<Place>, detail: &str) -> Self {
        Self {
            problem,
            place,
            object: None,
            field: "".into(),
            detail: detail.into(),
        }
    }

    /// A finding about a field of this object.
    pub(crate) fn of_object(self, object: O, field: &str) -> Self {
        Self {
            object: Some(object),
            field: field.into(),
            ..self
        }
    }
}

impl Finding {
    /// A finding about a field of a record.
    pub(crate) fn of_record(
        store: &Store,
        record: &Record,
        problem: Problem,
        field: &str,
        detail: &str,
    ) -> Self {
        let finding = Self::new(problem, Some(Place::of(store, record)), detail);
        finding.of_object(store.name_of(record), field)
    }
}

impl<P: fmt::Display, O: fmt::Display> fmt::Display for Finding<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if let Some(place) = &self.place {
            write!(f, ": {place}")?;
        }
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        for part in [&self.field, &self.detail] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}

/// Maximum number of findings of one problem that are listed; further ones are only counted.
pub const FINDINGS_LISTED_MAX: u64 = 1_000;

/// Findings as they come in: the first of each problem listed, all counted.
#[derive(Clone, Debug)]
pub(crate) struct Findings<P = Problem, O = ObjectName> {
    listed: Vec<Finding<P, O>>,
    counts: BTreeMap<P, u64>,
}

impl<P, O> Default for Findings<P, O> {
    fn default() -> Self {
        Self {
            listed: Vec::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<P: Ord, O: Ord> Findings<P, O> {
    /// Adds one finding; `finding` is built only if it is listed.
    pub(crate) fn add(&mut self, problem: P, finding: impl FnOnce() -> Finding<P, O>) {
        let count = self.counts.entry(problem).or_insert(0);
        *count += 1;
        if *count <= FINDINGS_LISTED_MAX {
            self.listed.push(finding());
        }
    }

    /// The listed findings in a fixed order, and the counts.
    pub(crate) fn settle(mut self) -> (Vec<Finding<P, O>>, BTreeMap<P, u64>) {
        self.listed.sort();
        (self.listed, self.counts)
    }
}

impl Findings {
    /// Adds a finding about all objects of a kind.
    pub(crate) fn add_of_kind(&mut self, problem: Problem, api_version: &str, kind: &str, detail: &str) {
        self.add(problem, || {
            let object = ObjectName {
                api_version: api_version.into(),
                kind: kind.into(),
                ..ObjectName::default()
            };
            Finding::new(problem, None, detail).of_object(object, "")
        });
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        for finding in other.listed {
            if let Some(unlisted) = other.counts.get_mut(&finding.problem) {
                *unlisted -= 1;
            }
            self.add(finding.problem, || finding);
        }
        for (problem, unlisted) in other.counts {
            *self.counts.entry(problem).or_insert(0) += unlisted;
        }
    }

    /// Adds one finding that covers this many.
    pub(crate) fn add_many(&mut self, problem: Problem, count: u64, finding: impl FnOnce() -> Finding) {
        self.add(problem, finding);
        *self.counts.entry(problem).or_insert(1) += count.saturating_sub(1);
    }
}
