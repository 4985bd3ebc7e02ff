//! Cache of absent owners, so that a thousand dependents of one vanished owner cost one lookup
//! ([G-36](crate::rules#g-36) and [G-37](crate::rules#g-37)).
//!
//! The cache is bounded: the least recently used owner is evicted. No other event invalidates an entry,
//! because a uid that was absent under an identity is never used again.
//!
//! # Upstream
//! [`uid_cache.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/uid_cache.go),
//! 1.13 (keyed by uid alone) and 1.20.2 (keyed by identity).

use std::{collections::BTreeMap, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use kubegc_core::ObjectRef;

/// A bounded LRU cache of absent owners.
#[derive(Clone, Debug)]
pub struct AbsentOwners {
    /// When each owner was last used, in uses of this cache.
    last_use: HashMap<Arc<ObjectRef>, u64, FixedState>,
    by_use: BTreeMap<u64, Arc<ObjectRef>>,
    uses: u64,
    capacity: usize,
    by_uid: bool,
}

impl AbsentOwners {
    /// Upstream's capacity.
    pub const CAPACITY: usize = 500;

    /// Creates an empty cache for this many owners. `by_uid` is the behavior before 1.20: another owner with
    /// the same uid in another namespace then also counts as absent, which is how kubernetes #65200 spread.
    pub fn new(capacity: usize, by_uid: bool) -> Self {
        Self {
            last_use: HashMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
            capacity,
            by_uid,
        }
    }

    /// Adds an absent owner as the most recently used one. Returns whether it was new.
    pub fn insert(&mut self, owner: ObjectRef) -> bool {
        if self.capacity == 0 || self.contains(owner.clone()) {
            return false;
        }
        let owner = Arc::new(self.key(owner));
        self.uses += 1;
        self.last_use.insert(Arc::clone(&owner), self.uses);
        self.by_use.insert(self.uses, owner);
        if self.last_use.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        true
    }

    /// Returns whether an owner is known to be absent. A hit counts as use.
    pub fn contains(&mut self, owner: ObjectRef) -> bool {
        let owner = self.key(owner);
        let Some(last) = self.last_use.get_mut(&owner) else {
            return false;
        };
        self.uses += 1;
        let before = std::mem::replace(last, self.uses);
        let owner = self.by_use.remove(&before);
        self.by_use.extend(owner.map(|owner| (self.uses, owner)));
        true
    }

    /// The cached owners, least recently used first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ObjectRef> {
        self.by_use.values().map(|owner| &**owner)
    }

    /// The owner as it is cached. If the cache is keyed by uid, the other texts are empty.
    fn key(&self, owner: ObjectRef) -> ObjectRef {
        if !self.by_uid {
            return owner;
        }
        ObjectRef {
            uid: owner.uid,
            ..ObjectRef::new("", "", "", "", "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let name = format!("o{}", draw >> 24 & 7);
                let object = ObjectRef::new("v1", "ConfigMap", namespace, &name, &format!("uid-{name}"));
                let key = match by_uid {
                    true => ObjectRef::new("", "", "", "", &object.uid.text()),
                    false => object.clone(),
                };
                let known = expected.iter().position(|one| *one == key);
                let used = known.map(|at| expected.remove(at));
                if draw >> 28 & 1 == 0 {
                    assert_eq!(absent.contains(object), used.is_some());
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
