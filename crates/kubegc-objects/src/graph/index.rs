//! A hash index from uids to positions.
//!
//! A slot has 32 bits of the hash beside the position. So the index grows without reading what the positions
//! lead to, and a search seldom reads a wrong entry. A lookup reads one cache line in most cases: the slots
//! are probed one after another, and the home slot grows with the hash, so that growing reads and writes
//! memory in order.

/// Positions by hash. Values with equal hashes are distinguished by the caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// 0, or the hash above the position plus one.
    slots: Vec<u64>,
    len: usize,
}

/// The free slot at which a search for a hash ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    slot: usize,
    hash: u32,
}

const SLOTS_MIN: usize = 16;

impl Index {
    /// The position with this hash that `is_it` accepts; otherwise where to insert one.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl FnMut(u32) -> bool) -> Result<u32, Gap> {
        self.slot_of(hash, is_it).map(|slot| position(self.slots[slot]))
    }

    /// Adds a position where a search for its hash ended. It is below `u32::MAX`.
    #[inline]
    pub(super) fn insert(&mut self, gap: Gap, at: u32) {
        let value = u64::from(gap.hash) << 32 | u64::from(at + 1);
        self.len += 1;
        if self.len * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
            self.put(value);
        } else {
            self.slots[gap.slot] = value;
        }
    }

    pub(super) fn remove(&mut self, hash: u32, at: u32) {
        let Ok(mut gap) = self.slot_of(hash, |other| other == at) else {
            return;
        };
        self.len -= 1;
        // Values after the gap move into it unless that puts them before their home.
        let count = self.slots.len();
        let mut slot = self.after(gap);
        while self.slots[slot] != 0 {
            let home = self.home(tag(self.slots[slot]));
            let distance = |from: usize| (slot + count - from) % count;
            if distance(home) >= distance(gap) {
                self.slots[gap] = self.slots[slot];
                gap = slot;
            }
            slot = self.after(slot);
        }
        self.slots[gap] = 0;
    }

    /// Reads the first slot of a hash.
    pub(super) fn read_home(&self, hash: u32) -> u32 {
        self.slots.get(self.home(hash)).map_or(0, |value| *value as u32)
    }

    /// Makes room for more positions.
    pub(super) fn reserve(&mut self, additional: usize) {
        let wanted = (self.len + additional) * 4 / 3 + 1;
        if wanted > self.slots.len() {
            // At least twice as many, so that many small reservations do not each resize.
            self.resize(wanted.max(self.slots.len() * 2));
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        // Searches for what is there stay short. The next insertion makes room again.
        let wanted = (self.len * 8).div_ceil(7);
        if wanted < self.slots.len() {
            self.resize(wanted);
        }
    }

    #[inline]
    fn slot_of(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Result<usize, Gap> {
        let mut slot = self.home(hash);
        loop {
            let Some(&value) = self.slots.get(slot) else {
                if self.slots.is_empty() {
                    return Err(Gap { slot, hash });
                }
                slot = 0;
                continue;
            };
            if value == 0 {
                return Err(Gap { slot, hash });
            }
            if tag(value) == hash && is_it(position(value)) {
                return Ok(slot);
            }
            slot += 1;
        }
    }

    /// Puts a value into the first free slot. There is one: at most seven eighths are in use.
    #[inline]
    fn put(&mut self, value: u64) {
        let (Ok(slot) | Err(Gap { slot, .. })) = self.slot_of(tag(value), |_| false);
        self.slots[slot] = value;
    }

    fn resize(&mut self, count: usize) {
        let slots = std::mem::replace(&mut self.slots, vec![0; count]);
        for value in slots.into_iter().filter(|value| *value != 0) {
            self.put(value);
        }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }
}

fn tag(value: u64) -> u32 {
    (value >> 32) as u32
}

fn position(value: u64) -> u32 {
    value as u32 - 1
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// Few hashes, at both ends of the range: long runs of slots, also around the end of the memory.
        #[test]
        fn an_index_finds_what_was_inserted_and_not_removed(
            steps in vec((0_u32..60, 0_u32..4, any::<bool>(), 0_u8..20), 0..400),
        ) {
            let mut index = Index::default();
            let mut known = [None; 60];
            for (at, hash, high, rare) in steps {
                let hash = if high { u32::MAX - hash } else { hash };
                match known[at as usize].take() {
                    Some(hash) => index.remove(hash, at),
                    None => {
                        let gap = index.find(hash, |_| false).expect_err("nothing is accepted");
                        index.insert(gap, at);
                        known[at as usize] = Some(hash);
                    }
                }
                match rare {
                    0 => index.shrink_to_fit(),
                    1 => index.reserve(30),
                    _ => {}
                }
                for (at, hash) in (0..).zip(known) {
                    let found = |hash| index.find(hash, |other| other == at).ok();
                    prop_assert_eq!(hash.and_then(found), hash.map(|_| at));
                    let anywhere = (0..4).any(|hash| found(hash).or(found(u32::MAX - hash)).is_some());
                    prop_assert_eq!(anywhere, hash.is_some());
                }
            }
        }
    }
}
