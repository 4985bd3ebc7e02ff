//! Difference between the references of a node and those of an event ([G-28](crate::rules#g-28)).

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    record::{Key, Reference},
    records::Records,
};

/// References by kind of change.
#[derive(Default)]
pub(super) struct Diff {
    pub(super) added: SmallVec<[Reference; 4]>,
    pub(super) removed: SmallVec<[Reference; 4]>,
    /// Old and new form of a reference that kept its uid ([G-29](crate::rules#g-29)).
    pub(super) changed: SmallVec<[(Reference, Reference); 2]>,
}

impl Diff {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Compares two lists by uid.
    ///
    /// With `duplicates_count` the first new reference with a known uid is compared with the *last* old one
    /// of that uid, and further ones count as added on every update. Otherwise both lists are first reduced
    /// to the last reference of each uid.
    ///
    /// # Upstream
    /// `referencesDiffs` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2 and 1.16.
    pub(super) fn between(
        records: &Records,
        old: &[Reference],
        new: &[Reference],
        duplicates_count: bool,
    ) -> Self {
        let mut diff = Self::default();
        // The common case: at most one owner, unchanged.
        if old == new && old.len() <= 1 {
            return diff;
        }
        let uid = |reference: &Reference| records.key(reference.coordinates());
        let mut unmatched = Lasts::of(old, uid);
        let mut compare = |reference: Reference| match unmatched.take(uid(&reference)) {
            Some(before) if before != reference => diff.changed.push((before, reference)),
            Some(_) => {}
            None => diff.added.push(reference),
        };
        if duplicates_count {
            new.iter().copied().for_each(&mut compare);
        } else {
            Lasts::of(new, uid).rest().for_each(&mut compare);
        }
        diff.removed.extend(unmatched.rest());
        diff
    }
}

/// The last reference of each uid, in the order in which the uids first appear.
struct Lasts {
    entries: SmallVec<[(Key, Reference, bool); 4]>,
    /// Positions by uid, for lists that are long enough.
    index: Option<HashMap<Key, usize, foldhash::fast::FixedState>>,
}

impl Lasts {
    fn of(references: &[Reference], uid_of: impl Fn(&Reference) -> Key) -> Self {
        let index = (references.len() > 16).then(HashMap::default);
        let mut lasts = Self {
            entries: SmallVec::new(),
            index,
        };
        for reference in references {
            let uid = uid_of(reference);
            if let Some(at) = lasts.position(uid) {
                lasts.entries[at].1 = *reference;
            } else {
                if let Some(index) = &mut lasts.index {
                    index.insert(uid, lasts.entries.len());
                }
                lasts.entries.push((uid, *reference, false));
            }
        }
        lasts
    }

    fn position(&self, uid: Key) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&uid).copied(),
            None => self.entries.iter().position(|entry| entry.0 == uid),
        }
    }

    fn take(&mut self, uid: Key) -> Option<Reference> {
        let at = self.position(uid)?;
        let (_, reference, taken) = &mut self.entries[at];
        (!std::mem::replace(taken, true)).then_some(*reference)
    }

    /// The references that were not taken.
    fn rest(&self) -> impl Iterator<Item = Reference> {
        self.entries.iter().filter(|entry| !entry.2).map(|entry| entry.1)
    }
}
