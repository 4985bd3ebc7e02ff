//! Cache of absent owners, so that a thousand dependents of one vanished owner cost one lookup
//! ([G-36](crate::rules#g-36) and [G-37](crate::rules#g-37)).
//!
//! The cache is bounded: the least recently used owner is evicted. No other event invalidates an entry,
//! because a uid that was absent under an identity is never used again.
//!
//! # Upstream
//! [`uid_cache.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/uid_cache.go),
//! 1.13 (keyed by uid alone) and 1.20.2 (keyed by identity).

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use foldhash::fast::FixedState;
use indexmap::{Equivalent, IndexSet};

use kubegc_core::{ObjectRef, OwnerReference, Uid};

/// A bounded LRU cache of absent owners.
#[derive(Clone, Debug)]
pub struct AbsentOwners {
    entries: IndexSet<Key, FixedState>,
    /// When each entry was last used, by its position, in uses of this memory.
    last_used: Vec<u64>,
    /// The positions by last use.
    by_use: BTreeMap<u64, usize>,
    uses: u64,
    capacity: usize,
    by_uid: bool,
}

/// One cached owner. If the cache is keyed by uid, the other texts are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(ObjectRef);

impl AbsentOwners {
    /// Upstream's capacity.
    pub const CAPACITY: usize = 500;

    /// Creates an empty cache for this many owners. `by_uid` is the behavior before 1.20: another owner with
    /// the same uid in another namespace then also counts as absent, which is how kubernetes #65200 spread.
    #[must_use]
    pub fn new(capacity: usize, by_uid: bool) -> Self {
        Self {
            entries: IndexSet::default(),
            last_used: Vec::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            capacity,
            by_uid,
        }
    }

    /// Adds an absent owner as the most recently used one. Returns whether it was new.
    pub fn insert(&mut self, mut owner: ObjectRef) -> bool {
        if self.by_uid {
            owner = ObjectRef {
                uid: owner.uid,
                ..ObjectRef::new("", "", "", "", "")
            };
        }
        if self.capacity == 0 {
            return false;
        }
        let (at, new) = self.entries.insert_full(Key(owner));
        if new {
            self.last_used.push(0);
        }
        self.touch(at);
        if self.entries.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.swap_remove_index(oldest);
            self.last_used.swap_remove(oldest);
            // The last entry has taken its position.
            if let Some(moved) = self.last_used.get(oldest) {
                self.by_use.insert(*moved, oldest);
            }
        }
        new
    }

    /// Returns whether the owner that this reference names, looked up in this namespace, is known to be
    /// absent. A hit counts as use.
    pub fn contains(&mut self, reference: &OwnerReference, namespace: &str) -> bool {
        let found = if self.by_uid {
            self.entries.get_index_of(&Wanted {
                reference: None,
                uid: &reference.uid,
                namespace: "",
            })
        } else {
            self.entries.get_index_of(&Wanted {
                reference: Some(reference),
                uid: &reference.uid,
                namespace,
            })
        };
        found.inspect(|&at| self.touch(at)).is_some()
    }

    /// The cached owners, least recently used first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ObjectRef> {
        self.by_use.values().map(|at| &self.entries[*at].0)
    }

    fn touch(&mut self, at: usize) {
        self.uses += 1;
        if let Some(used) = self.last_used.get_mut(at) {
            self.by_use.remove(used);
            *used = self.uses;
            self.by_use.insert(self.uses, at);
        }
    }
}

struct Wanted<'a> {
    reference: Option<&'a OwnerReference>,
    uid: &'a Uid,
    namespace: &'a str,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The uid alone is enough: other identities with the same uid are rare.
        self.0.uid.hash(state);
    }
}

impl Hash for Wanted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uid.hash(state);
    }
}

impl Equivalent<Key> for Wanted<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        let ObjectRef {
            kind,
            api_version,
            namespace,
            name,
            uid,
        } = &key.0;
        let coordinates = self.reference.map_or(name.is_empty(), |reference| {
            reference.name == *name && reference.kind == *kind && reference.api_version == *api_version
        });
        uid == self.uid && coordinates && **namespace == *self.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, namespace: &str) -> (ObjectRef, OwnerReference) {
        let object = ObjectRef::new("v1", "ConfigMap", namespace, name, &format!("uid-{name}"));
        let reference = OwnerReference {
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        };
        (object, reference)
    }

    /// Each uid has an identity in two namespaces.
    #[test]
    fn g36_the_cache_has_the_order_of_use_of_a_list() {
        assert_eq!(AbsentOwners::CAPACITY, 500);
        for (capacity, by_uid) in [
            (0, false),
            (1, false),
            (3, false),
            (3, true),
            (7, false),
            (7, true),
        ] {
            let mut absent = AbsentOwners::new(capacity, by_uid);
            let mut expected: Vec<ObjectRef> = Vec::new();
            let mut draw = 1_u32;
            for _ in 0..400 {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let namespace = ["x", "y"][(draw >> 27 & 1) as usize];
                let (object, reference) = owner(&format!("o{}", draw >> 24 & 7), namespace);
                let key = match by_uid {
                    true => ObjectRef::new("", "", "", "", &object.uid.text()),
                    false => object.clone(),
                };
                let known = expected.iter().position(|one| *one == key);
                let used = known.map(|at| expected.remove(at));
                if draw >> 28 & 1 == 0 {
                    assert_eq!(absent.contains(&reference, namespace), used.is_some());
                    expected.extend(used);
                } else {
                    assert_eq!(absent.insert(object), used.is_none() && capacity > 0);
                    expected.push(key);
                    let excess = expected.len().saturating_sub(capacity);
                    expected.drain(..excess);
                }
                assert_eq!(absent.iter().cloned().collect::<Vec<_>>(), expected);
            }
        }
    }
}
