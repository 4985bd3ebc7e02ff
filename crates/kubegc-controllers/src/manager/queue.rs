//! The work queue of all controllers: due times, keys in progress, and failures.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::EntryRef};
use kubegc_core::Timestamp;

use super::Unit;

/// The keys that are due, busy, or have failed. Other keys are not stored.
///
/// # Complexity
/// Each operation is O(log n) in the number of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    units: HashMap<Unit, State, FixedState>,
    /// The keys that are due and not busy.
    due: BTreeSet<(Timestamp, Unit)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    due: Option<Timestamp>,
    /// The key cannot become due up to this time.
    blocked_until: Option<Timestamp>,
    /// The number of tasks in flight, plus one while tasks wait to be handed out.
    in_flight: usize,
    failures: u32,
    /// Whether a task of the present round has failed.
    has_failed: bool,
    /// Whether a task of the present round has succeeded.
    has_succeeded: bool,
}

/// The effect of a task on the retries of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    /// The key is retried with backoff.
    Failed,
    /// The failures stay as they are.
    Neither,
}

impl Queue {
    /// Enqueues a key for this time, unless it is due earlier. A busy key becomes due when it is no longer
    /// busy.
    pub(super) fn add_at(&mut self, unit: &Unit, at: Timestamp) {
        self.change(unit, |state| {
            if state.blocked_until.is_none_or(|until| at > until) {
                state.due = Some(state.due.map_or(at, |due| due.min(at)));
            }
        });
    }

    /// Blocks a key up to `until` and enqueues it for `again_at`. Changes before `until` are handled then.
    pub(super) fn block(&mut self, unit: &Unit, until: Timestamp, again_at: Timestamp) {
        self.change(unit, |state| {
            let due = state.due.filter(|due| *due > until);
            state.due = Some(due.map_or(again_at, |due| due.min(again_at)));
            state.blocked_until = Some(until);
        });
    }

    pub(super) fn unblock(&mut self, unit: &Unit) {
        if self.units.contains_key(unit) {
            self.change(unit, |state| state.blocked_until = None);
        }
    }

    /// Removes the next key that is due by `now`, with the time at which it became due.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Unit)> {
        let (due, _) = self.due.first()?;
        if *due > now {
            return None;
        }
        let (due, unit) = self.due.pop_first()?;
        if let EntryRef::Occupied(mut entry) = self.units.entry_ref(&unit) {
            let state = entry.get_mut();
            (state.due, state.blocked_until) = (None, None);
            if *state == State::default() {
                entry.remove();
            }
        }
        Some((due, unit))
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// When a key is due, busy or not.
    pub(super) fn due_at(&self, unit: &Unit) -> Option<Timestamp> {
        self.units.get(unit).and_then(|state| state.due)
    }

    pub(super) fn is_due(&self, unit: &Unit, now: Timestamp) -> bool {
        self.due_at(unit).is_some_and(|due| due <= now)
    }

    pub(super) fn begin(&mut self, unit: &Unit) {
        self.change(unit, |state| state.in_flight = state.in_flight.saturating_add(1));
    }

    /// A task of the key has ended. Where it was the last one and any of them failed: the number of failures
    /// in a row before.
    pub(super) fn end(&mut self, unit: &Unit, outcome: Outcome) -> Option<u32> {
        let mut before = None;
        self.change(unit, |state| {
            state.in_flight = state.in_flight.saturating_sub(1);
            state.has_failed |= outcome == Outcome::Failed;
            state.has_succeeded |= outcome == Outcome::Succeeded;
            if state.in_flight > 0 {
                return;
            }
            if state.has_failed {
                before = Some(state.failures);
                state.failures = state.failures.saturating_add(1);
            } else if state.has_succeeded {
                state.failures = 0;
            }
            (state.has_failed, state.has_succeeded) = (false, false);
        });
        before
    }

    pub(super) fn failures(&self, unit: &Unit) -> u32 {
        self.units.get(unit).map_or(0, |state| state.failures)
    }

    pub(super) fn forget(&mut self, unit: &Unit) {
        if self.failures(unit) > 0 {
            self.change(unit, |state| state.failures = 0);
        }
    }

    /// Changes the state of a key and keeps the order of what is due.
    fn change(&mut self, unit: &Unit, change: impl FnOnce(&mut State)) {
        let due = |state: &State| state.due.filter(|_| state.in_flight == 0);
        let mut entry = match self.units.entry_ref(unit) {
            EntryRef::Occupied(entry) => entry,
            EntryRef::Vacant(entry) => entry.insert_entry(State::default()),
        };
        let before = due(entry.get());
        change(entry.get_mut());
        let after = due(entry.get());
        if *entry.get() == State::default() {
            entry.remove();
        }
        if before != after {
            if let Some(before) = before {
                self.due.remove(&(before, unit.clone()));
            }
            if let Some(after) = after {
                self.due.insert((after, unit.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn unit(name: &str) -> Unit {
        Unit {
            controller: 0,
            key: Key::new("shop", name),
        }
    }

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn a_busy_key_waits_and_failures_count_once_for_all_its_tasks() {
        let mut queue = Queue::default();
        let unit = unit("a");
        for round in 0..3 {
            queue.begin(&unit);
            queue.begin(&unit);
            queue.add_at(&unit, at(1));
            assert_eq!(queue.next_at(), None);
            assert!(queue.is_due(&unit, at(1)) && !queue.is_due(&unit, at(0)));
            assert_eq!(queue.end(&unit, Outcome::Failed), None);
            assert_eq!(queue.next_at(), None);
            assert_eq!(queue.end(&unit, Outcome::Succeeded), Some(round));
            assert_eq!(queue.pop(at(1)), Some((at(1), unit.clone())));
        }
        queue.begin(&unit);
        assert_eq!(queue.end(&unit, Outcome::Neither), None);
        assert_eq!(queue.failures(&unit), 3);
        queue.begin(&unit);
        assert_eq!(queue.end(&unit, Outcome::Succeeded), None);
        assert_eq!(queue.failures(&unit), 0);
        assert!(queue.units.is_empty() && queue.due.is_empty());
    }

    #[test]
    fn the_earlier_time_counts_and_ties_are_in_the_order_of_keys() {
        let mut queue = Queue::default();
        queue.add_at(&unit("b"), at(5));
        queue.add_at(&unit("b"), at(7));
        queue.add_at(&unit("a"), at(9));
        queue.add_at(&unit("a"), at(5));
        assert_eq!(queue.next_at(), Some(at(5)));
        assert_eq!(queue.pop(at(4)), None);
        let popped = std::iter::from_fn(|| queue.pop(at(5)));
        let popped: Vec<_> = popped.map(|(_, unit)| unit).collect();
        assert_eq!(popped, [unit("a"), unit("b")]);
        assert_eq!(queue.next_at(), None);
        assert!(queue.units.is_empty() && queue.due.is_empty());
    }

    #[test]
    fn a_time_after_the_end_of_a_block_stays() {
        let mut queue = Queue::default();
        queue.add_at(&unit("a"), at(12));
        queue.block(&unit("a"), at(10), at(15));
        assert_eq!(queue.next_at(), Some(at(12)));
    }
}
