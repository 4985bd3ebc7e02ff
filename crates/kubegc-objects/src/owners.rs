//! The owner references among a set of objects.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ObjectMeta, OwnerReference, PartialObjectMetadata, Uid, identity::split_api_version};

use crate::classify::{Class, OwnerState, Resolved, Verdict, decide};

/// A set of objects, indexed by their owner references.
///
/// An owner that is not in the set is *unknown*, unless the set is [`complete`](Self::complete): then it is
/// absent. Two objects with one uid count as one, in the state that came last.
///
/// # Complexity
/// O(objects and references) to build; every question costs its answer.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PartialObjectMetadata};
/// use kubegc_objects::Owners;
///
/// let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
/// let mut pod = PartialObjectMetadata::new("v1", "Pod", ObjectMeta::new("shop", "web-0", "u2"));
/// pod.metadata.owner_references.push(set.controller_reference());
/// let owners = Owners::new([set, pod]);
/// assert_eq!(owners.descendants(&"u1".into())[0].object_ref().short(), "pod/web-0 -n shop");
/// assert_eq!(owners.why_kept(&"u2".into()).unwrap().to_string(), "replicaset/web exists");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owners {
    objects: Vec<PartialObjectMetadata>,
    by_uid: HashMap<Uid, usize, FixedState>,
    by_name: BTreeMap<Name, usize>,
    dependents: HashMap<Uid, Vec<usize>, FixedState>,
    is_complete: bool,
}

/// Group, kind, namespace and name.
type Name = (String, Arc<str>, Arc<str>, Arc<str>);

fn name_of(api_version: &str, kind: &Arc<str>, namespace: &Arc<str>, name: &Arc<str>) -> Name {
    let group = split_api_version(api_version).0.to_owned();
    (group, Arc::clone(kind), Arc::clone(namespace), Arc::clone(name))
}

impl Owners {
    pub fn new(objects: impl IntoIterator<Item = PartialObjectMetadata>) -> Self {
        let mut owners = Self::default();
        for object in objects {
            match owners.by_uid.get(&object.metadata.uid) {
                Some(&at) => owners.objects[at] = object,
                None => {
                    owners
                        .by_uid
                        .insert(object.metadata.uid.clone(), owners.objects.len());
                    owners.objects.push(object);
                }
            }
        }
        for (at, object) in owners.objects.iter().enumerate() {
            let PartialObjectMetadata {
                api_version,
                kind,
                metadata,
            } = object;
            let name = name_of(api_version, kind, &metadata.namespace, &metadata.name);
            owners.by_name.insert(name, at);
            let uids: BTreeSet<&Uid> = metadata.owner_references.iter().map(|owner| &owner.uid).collect();
            for uid in uids {
                owners.dependents.entry(uid.clone()).or_default().push(at);
            }
        }
        owners
    }

    /// Declares that no other object exists: an owner that is not in the set is absent.
    #[must_use]
    pub const fn complete(mut self) -> Self {
        self.is_complete = true;
        self
    }

    /// Whether the set was declared to be complete.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The objects, in the order in which they were passed in.
    pub fn objects(&self) -> &[PartialObjectMetadata] {
        &self.objects
    }

    pub fn get(&self, uid: &Uid) -> Option<&PartialObjectMetadata> {
        self.by_uid.get(uid).map(|&at| &self.objects[at])
    }

    /// The owners of an object that are in the set, in the order of its references.
    pub fn owners(&self, uid: &Uid) -> Vec<&PartialObjectMetadata> {
        let references = self.get(uid).map(|object| &object.metadata.owner_references);
        let references = references.into_iter().flatten();
        references
            .filter_map(|reference| self.get(&reference.uid))
            .collect()
    }

    /// The objects with a reference to this uid, whether or not an object has it.
    pub fn dependents(&self, uid: &Uid) -> Vec<&PartialObjectMetadata> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.map(|&at| &self.objects[at]).collect()
    }

    /// The dependents, their dependents and so on, nearest first, each once and without the object itself.
    pub fn descendants(&self, uid: &Uid) -> Vec<&PartialObjectMetadata> {
        let mut seen = BTreeSet::from([uid.clone()]);
        let mut pending = VecDeque::from([uid.clone()]);
        let mut found = Vec::new();
        // Ends: each uid is added once.
        while let Some(uid) = pending.pop_front() {
            for dependent in self.dependents(&uid) {
                if seen.insert(dependent.metadata.uid.clone()) {
                    pending.push_back(dependent.metadata.uid.clone());
                    found.push(dependent);
                }
            }
        }
        found
    }

    /// The state of each owner of an object, from which the collector decides whether to keep it; `None` if
    /// no object has the uid.
    pub fn why_kept(&self, uid: &Uid) -> Option<Classification> {
        let object = &self.get(uid)?.metadata;
        Some(Classification::of(object, |reference| {
            match self.named(reference, &object.namespace) {
                Some(owner) => Lookup::Found(&owner.metadata),
                None if self.is_complete => Lookup::Absent,
                None => Lookup::Unknown,
            }
        }))
    }

    /// The references to owners that are not in the set, with their dependents. In a set that is not complete
    /// the owners may exist.
    pub fn dangling(&self) -> Vec<(&PartialObjectMetadata, &OwnerReference)> {
        let mut found = Vec::new();
        for object in &self.objects {
            let references = object.metadata.owner_references.iter();
            let dangling = references.filter(|reference| {
                let owner = self.named(reference, &object.metadata.namespace);
                owner.is_none_or(|owner| owner.metadata.uid != reference.uid)
            });
            found.extend(dangling.map(|reference| (object, reference)));
        }
        found
    }

    /// The object that a reference in a namespace names: there, or in no namespace. It can have another uid.
    fn named(&self, reference: &OwnerReference, namespace: &Arc<str>) -> Option<&PartialObjectMetadata> {
        let OwnerReference {
            api_version,
            kind,
            name,
            ..
        } = reference;
        [namespace, &Arc::from("")].into_iter().find_map(|namespace| {
            let name = name_of(api_version, kind, namespace, name);
            self.by_name.get(&name).map(|&at| &self.objects[at])
        })
    }
}

/// The result of the lookup of an owner.
pub(crate) enum Lookup<'a> {
    Found(&'a ObjectMeta),
    Absent,
    Unknown,
}

/// The state of each owner of one object.
///
/// Its text names the owners with their states: `replicaset/web exists`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Classification {
    /// The owners with a known state, in the order of the references.
    pub owners: Vec<Resolved>,
    /// The references whose owners are unknown.
    pub unknown: Vec<OwnerReference>,
    without_dependents: Verdict,
    with_dependents: Verdict,
}

impl Classification {
    pub(crate) fn of<'a>(object: &ObjectMeta, mut lookup: impl FnMut(&OwnerReference) -> Lookup<'a>) -> Self {
        let (mut owners, mut unknown) = (Vec::new(), Vec::new());
        for reference in &object.owner_references {
            let live = match lookup(reference) {
                Lookup::Found(live) => Some(live),
                Lookup::Absent => None,
                Lookup::Unknown => {
                    unknown.push(reference.clone());
                    continue;
                }
            };
            owners.push(Resolved {
                reference: reference.clone(),
                state: OwnerState::of_live(reference, live),
            });
        }
        Self {
            without_dependents: decide(object, &owners, false),
            with_dependents: decide(object, &owners, true),
            owners,
            unknown,
        }
    }

    /// The collector's decision about the object; `None` if that depends on an unknown owner. An object with
    /// dependents can be deleted in another way than one without.
    pub fn verdict(&self, has_dependents: bool) -> Option<&Verdict> {
        let verdict = if has_dependents {
            &self.with_dependents
        } else {
            &self.without_dependents
        };
        self.unknown.is_empty().then_some(verdict)
    }

    /// Whether an owner exists that keeps the object, whatever is unknown.
    pub fn is_kept(&self) -> bool {
        self.owners.iter().any(|owner| owner.class() == Class::Solid)
            || (self.owners.is_empty() && self.unknown.is_empty())
    }
}

impl fmt::Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.owners.is_empty() && self.unknown.is_empty() {
            return f.write_str("it has no owners");
        }
        let known = self.owners.iter();
        let known = known.map(|Resolved { reference, state }| format!("{} {state}", reference.short()));
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|reference| format!("{} is not among the objects", reference.short()));
        f.write_str(&known.chain(unknown).collect::<Vec<_>>().join(", "))
    }
}

/// Classifies the owners of one object. `lookup` returns the object that a reference names, as a live read
/// does that may find another uid, or `None` if nothing has the name.
///
/// # Upstream
/// [`classifyReferences`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/garbagecollector/garbagecollector.go).
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PartialObjectMetadata, PropagationPolicy};
/// use kubegc_objects::{classify::Verdict, owners::classify};
///
/// let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
/// let mut pod = ObjectMeta::new("shop", "web-0", "u2");
/// pod.owner_references.push(set.controller_reference());
/// assert_eq!(classify(&pod, |_| Some(&set.metadata)).verdict(false), Some(&Verdict::Keep));
/// let absent = classify(&pod, |_| None);
/// assert_eq!(absent.verdict(false), Some(&Verdict::Delete(PropagationPolicy::Background)));
/// assert_eq!(absent.to_string(), "replicaset/web does not exist");
/// ```
pub fn classify<'a>(
    object: &ObjectMeta,
    mut lookup: impl FnMut(&OwnerReference) -> Option<&'a ObjectMeta>,
) -> Classification {
    Classification::of(object, |reference| match lookup(reference) {
        Some(live) => Lookup::Found(live),
        None => Lookup::Absent,
    })
}
