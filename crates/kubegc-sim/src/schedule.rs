//! The order and the delay of changes in watches: in order within a resource, reordered between resources.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kubegc_core::{KindId, Timestamp};

use crate::rng::mix;

/// The delays of changes. The same seed gives the same delays.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_sim::Schedule;
/// let calm = Schedule { seed: 1, delay_max: Duration::from_millis(5) };
/// assert_eq!(calm.delay(3, 17), calm.delay(3, 17));
/// assert!(calm.delay(3, 17) <= Duration::from_millis(5));
/// ```
#[expect(clippy::exhaustive_structs, reason = "a value that callers build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The seed of the delays.
    pub seed: u64,
    /// The maximum delay after the commit. Zero delivers everything immediately, in the order of revisions.
    pub delay_max: Duration,
}

impl Schedule {
    /// The delay of one change: between zero and `delay_max`, in whole microseconds. `lane` identifies the
    /// resource.
    #[must_use]
    pub fn delay(&self, lane: u64, revision: u64) -> Duration {
        let choices = u64::try_from(self.delay_max.as_micros())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let draw = mix(self.seed ^ mix(lane.wrapping_add(0x5eed) ^ mix(revision)));
        Duration::from_micros(((u128::from(draw) * u128::from(choices)) >> 64) as u64)
    }
}

/// Changes that are committed and not yet delivered.
///
/// # Guarantees
/// Changes of one resource are delivered in their order. Each is delivered at most `delay_max` after its
/// commit, or as soon as the change before it was delivered. Changes of different resources are delivered in
/// the order of their delays.
///
/// # Complexity
/// O(1) per commit, O(k) per delivery, k the number of resources with undelivered changes.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_core::{Catalog, KubernetesVersion, Timestamp};
/// use kubegc_sim::{Schedule, schedule::Deliveries};
/// let catalog = Catalog::builtin(KubernetesVersion::LATEST);
/// let (pods, secrets) = (catalog.mapping("v1", "Pod").unwrap(), catalog.mapping("v1", "Secret").unwrap());
/// let mut deliveries = Deliveries::new(Schedule { seed: 4, delay_max: Duration::from_millis(5) });
/// let now = Timestamp::from_secs(1);
/// for revision in 1..=10 {
///     deliveries.commit(if revision % 2 == 0 { pods } else { secrets }, revision, now, ());
/// }
/// let mut seen = Vec::new();
/// while let Some(at) = deliveries.next_at() {
///     let (_, revision, ()) = deliveries.deliver(at).expect("due by now");
///     seen.push(revision);
/// }
/// let evens: Vec<u64> = seen.iter().copied().filter(|revision| revision % 2 == 0).collect();
/// assert_eq!(evens, [2, 4, 6, 8, 10]);
/// assert!(!seen.is_sorted(), "the resources overtake each other");
/// ```
#[derive(Clone, Debug)]
pub struct Deliveries<T> {
    schedule: Schedule,
    lanes: BTreeMap<KindId, Lane<T>>,
}

#[derive(Clone, Debug)]
struct Lane<T> {
    /// The due time of the last committed change.
    last: Timestamp,
    changes: VecDeque<(Timestamp, u64, T)>,
}

impl<T> Deliveries<T> {
    /// No undelivered changes.
    #[must_use]
    pub const fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            lanes: BTreeMap::new(),
        }
    }

    /// Adds a change that was just committed.
    pub fn commit(&mut self, kind: KindId, revision: u64, now: Timestamp, change: T) {
        let lane = self.lanes.entry(kind).or_insert_with(|| Lane {
            last: now,
            changes: VecDeque::new(),
        });
        let delay = self.schedule.delay(kind.index() as u64, revision);
        let due = now.saturating_add(delay).max(lane.last);
        lane.last = due;
        lane.changes.push_back((due, revision, change));
    }

    /// The due time of the next change.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.first().map(|(due, _, _)| due)
    }

    /// Delivers the next change, if it is due by `now`. Changes with the same due time are delivered in an
    /// order that the seed determines.
    pub fn deliver(&mut self, now: Timestamp) -> Option<(KindId, u64, T)> {
        let (_, _, kind) = self.first().filter(|(due, _, _)| *due <= now)?;
        let (_, revision, change) = self.lanes.get_mut(&kind)?.changes.pop_front()?;
        Some((kind, revision, change))
    }

    /// The number of undelivered changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.values().map(|lane| lane.changes.len()).sum()
    }

    /// Whether there are no undelivered changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.changes.is_empty())
    }

    fn first(&self) -> Option<(Timestamp, u64, KindId)> {
        let fronts = self.lanes.iter().filter_map(|(&kind, lane)| {
            let (due, revision, _) = lane.changes.front()?;
            // Without delays nothing is reordered; with them, ties are broken at random.
            let rank = if self.schedule.delay_max.is_zero() {
                *revision
            } else {
                mix(self.schedule.seed ^ mix(*revision))
            };
            Some((*due, rank, kind))
        });
        fronts.min()
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::{Catalog, KubernetesVersion};

    use super::*;

    fn delivered(schedule: Schedule) -> Vec<(u64, Timestamp)> {
        let catalog = Catalog::builtin(KubernetesVersion::LATEST);
        let kinds: Vec<KindId> = catalog.iter().map(|(kind, _)| kind).take(3).collect();
        let mut deliveries = Deliveries::new(schedule);
        for revision in 0..30 {
            let now = Timestamp::from_nanos(revision as i64 * 1_000_000);
            deliveries.commit(kinds[revision as usize % kinds.len()], revision, now, ());
        }
        assert_eq!(deliveries.len(), 30);
        let mut seen = Vec::new();
        while let Some(at) = deliveries.next_at() {
            let (_, revision, ()) = deliveries.deliver(at).unwrap();
            seen.push((revision, at));
        }
        assert!(deliveries.is_empty());
        seen
    }

    #[test]
    fn a_schedule_is_a_function_of_its_seed() {
        let schedule = |seed| Schedule {
            seed,
            delay_max: Duration::from_millis(5),
        };
        assert_eq!(delivered(schedule(1)), delivered(schedule(1)));
        assert_ne!(delivered(schedule(1)), delivered(schedule(2)));
    }

    #[test]
    fn without_delay_changes_arrive_as_they_were_made() {
        let seen = delivered(Schedule::default());
        assert!(
            seen.iter()
                .enumerate()
                .all(|(index, (revision, _))| index as u64 == *revision)
        );
    }

    #[test]
    fn nothing_is_delivered_before_its_commit_or_long_after() {
        let delay_max = Duration::from_millis(5);
        for seed in 0..20 {
            for (revision, at) in delivered(Schedule { seed, delay_max }) {
                let committed = Timestamp::from_nanos(revision as i64 * 1_000_000);
                assert!(at >= committed && at <= committed.saturating_add(delay_max));
            }
        }
    }
}
