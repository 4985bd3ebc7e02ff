//! Remembers which nodes are missing, and from when on a live read may prove that they are gone.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::Timestamp;

/// The nodes that were found missing, each with the time at which its quarantine ends.
#[expect(clippy::exhaustive_structs, reason = "a value that goes from pass to pass")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quarantine {
    /// When each node may be looked up, by name.
    pub ready_at: BTreeMap<Arc<str>, Timestamp>,
}

impl Quarantine {
    /// Puts a node into quarantine. One that is there already keeps the earlier time (L1.10).
    pub fn add(&mut self, node: &Arc<str>, ready_at: Timestamp) {
        let waits = self.ready_at.entry(Arc::clone(node)).or_insert(ready_at);
        *waits = ready_at.min(*waits);
    }

    /// When the next quarantine ends after `now`.
    #[must_use]
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.ready_at.values().copied();
        ends.filter(|&ready_at| ready_at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_end_stays() {
        for (first, second) in [(40, 60), (60, 40), (40, 40)] {
            let mut quarantine = Quarantine::default();
            quarantine.add(&"a".into(), Timestamp::from_secs(first));
            quarantine.add(&"a".into(), Timestamp::from_secs(second));
            let next = quarantine.next_after(Timestamp::from_secs(39));
            assert_eq!(next, Some(Timestamp::from_secs(40)), "{first} {second}");
            assert_eq!(quarantine.next_after(Timestamp::from_secs(40)), None);
        }
    }
}
