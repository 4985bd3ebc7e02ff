//! Finds the client that made each change of the server's history, and checks the collector's changes: no
//! wrong deletion, no wrong release.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{ObjectMeta, OwnerReference, Uid};
use kubegc_sim::EventType;
use kubegc_testkit::{Cluster, Entry, http::Verb};

use crate::world::{Key, Meaning, World, is_held, kind_of, meaning_at, owner_key, owners};

/// The collector's name in audits.
pub(crate) const COLLECTOR: &str = "collector";

/// One change of an object.
struct Change {
    revision: u64,
    /// Group, resource, namespace, name.
    place: [String; 4],
    event_type: EventType,
    previous: Option<Arc<ObjectMeta>>,
    object: Arc<ObjectMeta>,
}

/// The number of a request, and the object that it found.
type Read = (u64, Arc<ObjectMeta>);

/// Follows the changes of a cluster, and checks those of its collector.
#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) world: World,
    /// The problems that it found.
    pub(crate) wrong: Vec<String>,
    /// Changes by the collector: objects deleted or marked, references removed.
    pub(crate) deletions: usize,
    pub(crate) releases: usize,
    /// Deletions that are correct only for the state at the collector's last reads.
    pub(crate) races: usize,
    revision: u64,
    number: u64,
    /// The results of the collector's reads of each object.
    reads: BTreeMap<Key, Vec<Read>>,
    /// All objects that were ever terminating with the finalizer `orphan`.
    orphaning: BTreeSet<String>,
}

impl Checker {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut checker = Self {
            number: cluster.audit().last_number(),
            ..Self::default()
        };
        for change in checker.changes(cluster) {
            checker.apply(&change);
        }
        checker
    }

    fn changes(&self, cluster: &Cluster) -> Vec<Change> {
        cluster.server().with(|server| {
            let changes = server.changes_since(self.revision);
            changes
                .map(|change| {
                    let resource = &server.catalog()[change.kind];
                    let event = change.event;
                    let meta = &event.object.meta;
                    let place = [&resource.group, &resource.resource, &meta.namespace, &meta.name];
                    Change {
                        revision: event.revision,
                        place: place.map(|part| part.to_string()),
                        event_type: event.event_type,
                        previous: event.previous.as_ref().map(|object| object.meta.clone().into()),
                        object: meta.clone().into(),
                    }
                })
                .collect()
        })
    }

    /// Processes the changes since the last call. Requests are performed one after another, so each has made
    /// the next changes, or none.
    pub(crate) fn catch_up(&mut self, cluster: &Cluster) {
        let changes = self.changes(cluster);
        let mut changes = changes.iter().peekable();
        for entry in cluster.audit().after(self.number).entries() {
            self.number = entry.number;
            if entry.verb == Verb::Get {
                self.read(entry);
            }
            while let Some(change) = changes.next_if(|change| change.revision <= entry.revision) {
                if *entry.client == *COLLECTOR {
                    self.check_write(entry, change);
                }
                self.apply(change);
            }
        }
        assert!(changes.next().is_none(), "every change is of a request");
    }

    fn apply(&mut self, change: &Change) {
        self.revision = change.revision;
        let Some(key) = key_of(&change.place) else {
            return;
        };
        if is_held(&change.object, "orphan") {
            self.orphaning.insert(change.object.uid.to_string());
        }
        if change.event_type == EventType::Deleted {
            self.world.objects.remove(&key);
        } else {
            self.world.insert(key, Arc::clone(&change.object));
        }
    }

    /// Records a read of the collector.
    fn read(&mut self, entry: &Entry) {
        let place = [&entry.group, &entry.resource, &entry.namespace, &entry.name];
        if *entry.client != *COLLECTOR || entry.code != Some(200) {
            return;
        }
        let Some(key) = key_of(&place.map(|part| part.to_string())) else {
            return;
        };
        if let Some(found) = self.world.objects.get(&key) {
            let read = (entry.number, Arc::clone(found));
            self.reads.entry(key).or_default().push(read);
        }
    }

    fn check_write(&mut self, entry: &Entry, change: &Change) {
        let (Some(key), Some(previous)) = (key_of(&change.place), change.previous.clone()) else {
            if &*entry.resource != "events" {
                self.report(entry, "is no operation of a collector");
            }
            return;
        };
        let is_removed = change.event_type == EventType::Deleted;
        let ours = |name: &&Arc<str>| !matches!(&***name, "orphan" | "foregroundDeletion");
        let foreign =
            |object: &ObjectMeta| object.finalizers.iter().filter(ours).cloned().collect::<Vec<_>>();
        if is_removed && !foreign(&previous).is_empty() {
            self.report(entry, "removed an object that has a finalizer");
        }
        if !is_removed && foreign(&previous) != foreign(&change.object) {
            self.report(entry, "touched a finalizer that is not its own");
        }
        if !is_removed && previous.labels != change.object.labels {
            self.report(entry, "touched labels");
        }
        match entry.verb {
            Verb::Delete => self.check_deletion(entry, &key, &previous),
            Verb::Patch if is_removed => {
                if previous.deletion_timestamp.is_none() {
                    self.report(entry, "removed an object that no client deleted");
                }
            }
            Verb::Patch => self.check_release(entry, &key, &previous, &change.object),
            _ => self.report(entry, "is no operation of a collector"),
        }
    }

    /// at least one owner, and none that is solid.
    fn check_deletion(&mut self, entry: &Entry, key: &Key, item: &ObjectMeta) {
        self.deletions += 1;
        if item.owner_references.is_empty() {
            self.report(entry, &format!("deleted {} which has no owners", item.uid));
        }
        let since = self.decided_after(key);
        for reference in &item.owner_references {
            match self.world.meaning(key, reference) {
                Meaning::Dangling | Meaning::Waiting => {}
                Meaning::Solid if self.has_been_read_as_waiting(key, reference, since) => self.races += 1,
                meaning => {
                    let problem = format!(
                        "deleted {}, whose owner {} {} is {meaning:?}; {}",
                        item.uid,
                        reference.kind,
                        reference.name,
                        owners(item)
                    );
                    self.report(entry, &problem);
                }
            }
        }
    }

    /// The number of the read after which the attempt at an object decided: it read the object once before,
    /// and again after a conflict.
    fn decided_after(&self, key: &Key) -> u64 {
        let reads = self.reads.get(key).map_or(&[][..], Vec::as_slice);
        let second_last = reads.iter().rev().nth(1);
        second_last.or(reads.last()).map_or(0, |read| read.0)
    }

    /// No request can depend on the state of another object. Where an owner waits when it is read and no
    /// longer waits a moment later, because a client deleted it again with another policy while a
    /// finalizer holds it, its dependents are deleted: upstream has this race, too.
    fn has_been_read_as_waiting(&self, key: &Key, reference: &OwnerReference, since: u64) -> bool {
        let Ok(owner) = owner_key(key, reference) else {
            return false;
        };
        let reads = self.reads.get(&owner).map_or(&[][..], Vec::as_slice);
        let mut recent = reads.iter().filter(|read| read.0 > since);
        recent.any(|(_, found)| meaning_at(reference, Some(found)) == Meaning::Waiting)
    }

    /// References are removed only if the owner is absent, waits, or orphans its dependents.
    fn check_release(&mut self, entry: &Entry, key: &Key, before: &ObjectMeta, after: &ObjectMeta) {
        let same = |a: &OwnerReference, b: &OwnerReference| {
            (&a.api_version, &a.kind, &a.name, &a.uid) == (&b.api_version, &b.kind, &b.name, &b.uid)
        };
        let not_in = |reference: &OwnerReference, object: &ObjectMeta| {
            !object.owner_references.iter().any(|other| same(reference, other))
        };
        if after.owner_references.iter().any(|added| not_in(added, before)) {
            self.report(entry, "added an owner");
        }
        let since = self.decided_after(key);
        let removed: Vec<&OwnerReference> = before
            .owner_references
            .iter()
            .filter(|reference| not_in(reference, after))
            .collect();
        self.releases += usize::from(!removed.is_empty());
        for reference in &removed {
            if self.world.meaning(key, reference) != Meaning::Solid || self.was_orphaning(&reference.uid) {
                continue;
            }
            if self.has_been_read_as_waiting(key, reference, since) {
                self.races += 1;
                continue;
            }
            // Patches name references by uid: removing a wrong one also removes the right one (P-10).
            let is_removed_with = |other: &&OwnerReference| {
                other.uid == reference.uid && self.world.meaning(key, other) != Meaning::Solid
            };
            if !removed.iter().copied().any(|other| is_removed_with(&other)) {
                let problem = format!(
                    "removed the solid owner {} {} of {}; {}",
                    reference.kind,
                    reference.name,
                    before.uid,
                    owners(before)
                );
                self.report(entry, &problem);
            }
        }
    }

    fn was_orphaning(&self, uid: &Uid) -> bool {
        self.orphaning.contains(&uid.to_string())
    }

    fn report(&mut self, entry: &Entry, problem: &str) {
        self.wrong
            .push(format!("request {} ({entry}) {problem}", entry.number));
    }
}

fn key_of([group, resource, namespace, name]: &[String; 4]) -> Option<Key> {
    Some(Key {
        kind: kind_of(group, resource)?,
        namespace: namespace.clone(),
        name: name.clone(),
    })
}
