//! Kinds of which a snapshot has all objects. An owner of another kind is never absent for certain.
//!
//! A `v1` List of `kubectl get` does not show whether it spans all namespaces. A raw list of the API server
//! has a resourceVersion and shows where it was cut off, but neither its namespace nor its label or field
//! selector. So there are two proofs: the caller's declaration
//! ([`Reader::complete`](crate::Reader::complete)), and files of layouts that are documented to be complete
//! lists: `kubectl cluster-info dump`, must-gather and support bundles.
//!
//! The data can revoke both: objects that could not be read, that have no uid or two contents, lists that
//! continue elsewhere, truncated files. A list of a layout is not taken as complete either if other objects
//! contradict it ([`Problem::ListContradicted`](crate::Problem::ListContradicted)).
//!
//! Velero backups select by namespace, resource and label, and Insights archives keep samples, so nothing is
//! inferred from them.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    sync::Arc,
};

use derive_more::Display;
use kubegc_core::ApiResource;

use crate::Place;

/// Whether a snapshot has all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// It has all: a missing object does not exist.
    Complete(Proof),
    /// It may lack some: a missing object is unknown.
    Incomplete(Why),
}

impl Coverage {
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete(_))
    }
}

/// The proof that a kind is complete.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The caller declared the kind complete, or the API server listed all of it.
    Declared,
    /// A file of a known layout is a complete list of it.
    Inferred,
}

/// A reason why a kind may have further objects.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display)]
#[display("incomplete: {_variant}")]
pub enum Why {
    /// It was neither declared complete nor inferred to be.
    #[display("not declared")]
    NotDeclared,
    /// It is complete in these namespaces only.
    #[display("complete only in {}", _0.join(", "))]
    OnlyNamespaces(Vec<Arc<str>>),
    /// The kind is not in the catalog.
    #[display("not in the catalog")]
    Unresolvable,
    /// A file that may hold the kind was not read to its end.
    #[display("{_0} was not read to its end")]
    Unread(Place),
    /// A list of the kind continues in a page that is missing.
    #[display("the list in {_0} continues elsewhere")]
    ListContinues(Place),
    /// kubectl reported an error while it wrote the file, so objects of the kind may be missing.
    #[display("kubectl reported an error in {_0}")]
    KubectlError(Place),
    /// A YAML file ends without a line break, and objects of the kind may have followed.
    #[display("{_0} may be cut off")]
    NoFinalLineBreak(Place),
    /// Number of objects that could not be read.
    #[display("{_0} objects could not be read")]
    Unreadable(u64),
    /// Number of objects without uid: each may be the one that a reference names.
    #[display("{_0} objects have no uid")]
    NoUid(u64),
    /// Number of objects that occur with different contents, where nothing shows which one is right.
    #[display("{_0} objects contradict themselves")]
    Contradiction(u64),
    /// The API server did not list it, for this reason.
    #[display("not listed: {_0}")]
    NotListed(Arc<str>),
}

/// Group and kind: versions of one kind share their objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{kind}{}{group}", if group.is_empty() { "" } else { "." })]
pub struct GroupKind {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupKind {
    pub fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }

    pub(crate) fn of(resource: &ApiResource) -> Self {
        Self {
            group: Arc::clone(&resource.group),
            kind: Arc::clone(&resource.kind),
        }
    }
}

/// The proofs that a kind is complete, by namespace; the empty one stands for all.
pub(crate) type Proofs = BTreeMap<Arc<str>, Proof>;

/// The completeness of every kind of the catalog.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_snapshot::Reader;
/// let dump = br#"{"apiVersion":"v1","kind":"List","items":[]}"#;
/// let mut reader = Reader::new(KubernetesVersion::LATEST).complete("configmaps").complete("pods@shop");
/// reader.read("dump.json", &dump[..])?;
/// let completeness = reader.finish()?.completeness;
/// assert!(completeness.of("", "ConfigMap").is_complete());
/// assert!(!completeness.of("", "Pod").is_complete());
/// assert!(completeness.in_namespace("", "Pod", "shop").is_complete());
/// assert!(!completeness.in_namespace("", "Secret", "shop").is_complete());
/// # Ok::<(), kubegc_snapshot::SnapshotError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    pub(crate) kinds: BTreeMap<GroupKind, Proofs>,
    pub(crate) revoked: Revocations,
}

impl Completeness {
    /// Whether the snapshot has all objects of a kind, in every namespace.
    pub fn of(&self, group: &str, kind: &str) -> Coverage {
        self.coverage(group, kind, |proofs| proofs.get(""))
    }

    /// Whether the snapshot has all objects of a kind in one namespace.
    pub fn in_namespace(&self, group: &str, kind: &str, namespace: &str) -> Coverage {
        self.coverage(group, kind, |proofs| {
            proofs.get("").or_else(|| proofs.get(namespace))
        })
    }

    /// The namespaces of which the snapshot has all objects of a kind, if not of all.
    pub fn namespaces(&self, group: &str, kind: &str) -> BTreeSet<Arc<str>> {
        match self.of(group, kind) {
            Coverage::Incomplete(Why::OnlyNamespaces(namespaces)) => namespaces.into_iter().collect(),
            _ => BTreeSet::new(),
        }
    }

    fn coverage(&self, group: &str, kind: &str, proof: impl FnOnce(&Proofs) -> Option<&Proof>) -> Coverage {
        let key = GroupKind::new(group, kind);
        let Some(proofs) = self.kinds.get(&key) else {
            return Coverage::Incomplete(Why::Unresolvable);
        };
        let revoked = &self.revoked.0;
        match (revoked.get(&Some(key)).or(revoked.get(&None)), proof(proofs)) {
            (Some(why), _) => Coverage::Incomplete(why.clone()),
            (None, Some(proof)) => Coverage::Complete(*proof),
            (None, None) if proofs.is_empty() => Coverage::Incomplete(Why::NotDeclared),
            (None, None) => Coverage::Incomplete(Why::OnlyNamespaces(proofs.keys().cloned().collect())),
        }
    }

    /// Every kind of the catalog with its completeness in all namespaces, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupKind, Coverage)> {
        self.kinds.keys().map(|key| (key, self.of(&key.group, &key.kind)))
    }
}

/// The reasons that revoke declarations, by kind; `None` is all kinds. Counts are added; of different reasons
/// the first in the order of [`Why`] is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revocations(pub(crate) BTreeMap<Option<GroupKind>, Why>);

impl Revocations {
    pub(crate) fn add(&mut self, kind: Option<GroupKind>, why: Why) {
        match self.0.entry(kind) {
            btree_map::Entry::Occupied(mut known) => merge(known.get_mut(), why),
            btree_map::Entry::Vacant(none) => {
                none.insert(why);
            }
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        let all = other.0.into_iter();
        all.for_each(|(kind, why)| self.add(kind, why));
    }
}

fn merge(known: &mut Why, why: Why) {
    match (known, why) {
        (Why::Unreadable(known), Why::Unreadable(more))
        | (Why::NoUid(known), Why::NoUid(more))
        | (Why::Contradiction(known), Why::Contradiction(more)) => *known += more,
        (known, why) => {
            if why < *known {
                *known = why;
            }
        }
    }
}
