//! Difference between the references of a node and those of an event ([G-28](crate::rules#g-28)).

use foldhash::fast::FixedState;
use indexmap::IndexMap;
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
        let uid = |reference: Reference| records.key(reference.coordinates());
        let lasts =
            |all: &[Reference]| -> Lasts { all.iter().map(|&one| (uid(one), (one, false))).collect() };
        let mut known = lasts(old);
        let mut compare = |reference: Reference| match known.get_mut(&uid(reference)) {
            Some((before, is_matched)) if !*is_matched => {
                *is_matched = true;
                if *before != reference {
                    diff.changed.push((*before, reference));
                }
            }
            _ => diff.added.push(reference),
        };
        if duplicates_count {
            new.iter().copied().for_each(&mut compare);
        } else {
            lasts(new).values().for_each(|&(reference, _)| compare(reference));
        }
        let removed = known.into_values().filter(|(_, is_matched)| !is_matched);
        diff.removed.extend(removed.map(|(reference, _)| reference));
        diff
    }
}

/// The last reference of each uid, in the order in which the uids first appear, and whether it is matched.
type Lasts = IndexMap<Key, (Reference, bool), FixedState>;
