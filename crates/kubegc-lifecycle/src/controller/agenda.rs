//! When each unit is due, which are busy, and how often they failed.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::Timestamp;

use super::unit::Unit;

/// The units that are due at some time, are busy, or have failed. Of all others nothing is kept.
///
/// # Complexity
/// Each operation is O(log n) in the number of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    units: HashMap<Unit, State, FixedState>,
    /// The units that are due and not busy.
    due: BTreeSet<(Timestamp, Unit)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    due: Option<Timestamp>,
    /// Nothing makes it due up to this time.
    held_until: Option<Timestamp>,
    /// How many tasks and questions are out, and one more while there are works to hand out.
    out: usize,
    /// How often in a row it has failed before.
    failures: u32,
    /// Whether any of what is or was out since it became busy has failed.
    has_failed: bool,
    /// Whether any of that is done.
    is_done: bool,
}

/// How something ended that kept a unit busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// It is done.
    Done,
    /// It is to be tried again, later each time.
    Failed,
    /// Neither.
    Neither,
}

impl Agenda {
    /// A unit is due at this time, unless it is earlier already. A busy one is so once it no longer is.
    pub(super) fn touch(&mut self, unit: &Unit, at: Timestamp) {
        self.change(unit, |state| {
            if state.held_until.is_none_or(|until| at > until) {
                state.due = Some(state.due.map_or(at, |due| due.min(at)));
            }
        });
    }

    /// A unit is due at `again_at`. What happens up to `until` makes it due no earlier: it is seen then.
    pub(super) fn hold(&mut self, unit: &Unit, until: Timestamp, again_at: Timestamp) {
        self.change(unit, |state| {
            let due = state.due.filter(|due| *due > until);
            state.due = Some(due.map_or(again_at, |due| due.min(again_at)));
            state.held_until = Some(until);
        });
    }

    /// Ends what [`hold`](Self::hold) began.
    pub(super) fn release(&mut self, unit: &Unit) {
        if self.units.contains_key(unit) {
            self.change(unit, |state| state.held_until = None);
        }
    }

    /// Takes the next unit that is due by now, with the time. It is not due any more then.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Unit)> {
        let (due, _) = self.due.first()?;
        if *due > now {
            return None;
        }
        let (due, unit) = self.due.pop_first()?;
        self.change(&unit, |state| (state.due, state.held_until) = (None, None));
        Some((due, unit))
    }

    /// When a unit is due next.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether a unit is due by now, busy or not.
    pub(super) fn is_due(&self, unit: &Unit, now: Timestamp) -> bool {
        let state = self.units.get(unit);
        state.and_then(|state| state.due).is_some_and(|due| due <= now)
    }

    /// One more thing keeps a unit busy.
    pub(super) fn start(&mut self, unit: &Unit) {
        self.change(unit, |state| state.out = state.out.saturating_add(1));
    }

    /// One of these is over. Where it was the last and any has failed: how often in a row that was so before.
    pub(super) fn end(&mut self, unit: &Unit, back: Back) -> Option<u32> {
        let mut before = None;
        self.change(unit, |state| {
            state.out = state.out.saturating_sub(1);
            state.has_failed |= back == Back::Failed;
            state.is_done |= back == Back::Done;
            if state.out > 0 {
                return;
            }
            if state.has_failed {
                before = Some(state.failures);
                state.failures = state.failures.saturating_add(1);
            } else if state.is_done {
                state.failures = 0;
            }
            (state.has_failed, state.is_done) = (false, false);
        });
        before
    }

    /// How often in a row a unit has failed.
    pub(super) fn failures(&self, unit: &Unit) -> u32 {
        self.units.get(unit).map_or(0, |state| state.failures)
    }

    /// A unit counts as one that has never failed.
    pub(super) fn forgive(&mut self, unit: &Unit) {
        if self.failures(unit) > 0 {
            self.change(unit, |state| state.failures = 0);
        }
    }

    /// Changes the state of a unit and keeps the order of what is due.
    fn change(&mut self, unit: &Unit, change: impl FnOnce(&mut State)) {
        let when = |state: &State| state.due.filter(|_| state.out == 0);
        let state = self.units.entry_ref(unit).or_default();
        let before = when(state);
        change(state);
        let after = when(state);
        if *state == State::default() {
            self.units.remove(unit);
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
    use crate::controller::Mechanism;

    fn unit(name: &str) -> Unit {
        (Mechanism::Jobs, ("shop".into(), name.into()))
    }

    #[test]
    fn the_earlier_time_counts_and_ties_go_by_name() {
        let at = Timestamp::from_secs;
        let mut agenda = Agenda::default();
        agenda.touch(&unit("b"), at(5));
        agenda.touch(&unit("b"), at(7));
        agenda.touch(&unit("a"), at(9));
        agenda.touch(&unit("a"), at(5));
        assert_eq!(agenda.next_at(), Some(at(5)));
        assert_eq!(agenda.pop(at(4)), None);
        let popped = std::iter::from_fn(|| agenda.pop(at(5)));
        let popped: Vec<_> = popped.map(|(_, unit)| unit).collect();
        assert_eq!(popped, [unit("a"), unit("b")]);
        assert_eq!(agenda.next_at(), None);
        assert!(agenda.units.is_empty() && agenda.due.is_empty());
    }

    #[test]
    fn nothing_undercuts_what_a_unit_is_held_for() {
        let at = Timestamp::from_secs;
        let mut agenda = Agenda::default();
        let unit = unit("a");
        agenda.touch(&unit, at(1));
        agenda.hold(&unit, at(10), at(15));
        assert_eq!(
            agenda.next_at(),
            Some(at(15)),
            "what happened before is seen then"
        );
        agenda.touch(&unit, at(10));
        assert_eq!(agenda.next_at(), Some(at(15)));
        agenda.touch(&unit, at(11));
        assert_eq!(agenda.pop(at(20)), Some((at(11), unit.clone())));
        assert!(agenda.units.is_empty() && agenda.due.is_empty());

        agenda.touch(&unit, at(12));
        agenda.hold(&unit, at(10), at(15));
        assert_eq!(
            agenda.next_at(),
            Some(at(12)),
            "nothing is put off that comes later"
        );
        agenda.release(&unit);
        agenda.touch(&unit, at(3));
        assert_eq!(agenda.next_at(), Some(at(3)));
    }

    #[test]
    fn a_busy_unit_waits_and_failures_count_once_a_round() {
        let at = Timestamp::from_secs;
        let mut agenda = Agenda::default();
        let unit = unit("a");
        for round in 0..3 {
            agenda.start(&unit);
            agenda.start(&unit);
            agenda.touch(&unit, at(1));
            assert_eq!(agenda.next_at(), None);
            assert!(agenda.is_due(&unit, at(1)) && !agenda.is_due(&unit, at(0)));
            assert_eq!(agenda.end(&unit, Back::Failed), None);
            assert_eq!(agenda.next_at(), None);
            assert_eq!(agenda.end(&unit, Back::Done), Some(round));
            assert_eq!(agenda.pop(at(1)), Some((at(1), unit.clone())));
        }
        agenda.start(&unit);
        assert_eq!(agenda.end(&unit, Back::Neither), None);
        assert_eq!(agenda.failures(&unit), 3);
        agenda.start(&unit);
        assert_eq!(agenda.end(&unit, Back::Done), None);
        assert_eq!(agenda.failures(&unit), 0);
        assert!(agenda.units.is_empty() && agenda.due.is_empty());
    }
}
