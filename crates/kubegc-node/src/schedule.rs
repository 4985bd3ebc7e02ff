//! The schedule of a kubelet's loops ([N1.1](crate::rules#n1-1) to [N1.5](crate::rules#n1-5)).
//!
//! A period starts at the *end* of a run, so a slow run is never followed immediately by the next one.
//!
//! # Upstream
//! `StartGarbageCollection` in
//! [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go), `Start` in
//! [`image_gc_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go)
//! and in
//! [`eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go),
//! 1.20 to 1.36.

use std::{collections::BTreeMap, time::Duration};

use kubegc_core::Timestamp;

names! {
    /// A loop of the kubelet that is relevant to garbage collection.
    ///
    /// Loops that are due at the same time run in this order.
    pub enum Loop {
        /// Removes dead containers, sandboxes and logs.
        Containers = "container collection";
        /// Removes images.
        Images = "image collection";
        /// Detects images and their use: updates the image records and removes nothing.
        Detection = "image detection";
        /// Updates the image list of the node status. It does not affect garbage collection.
        ImageList = "image list";
        /// Checks the eviction thresholds. It can cause the removal of containers and images.
        Eviction = "eviction";
    }
}

impl Loop {
    /// The time from the end of one run to the start of the next. After a sync that evicts a pod, the
    /// eviction manager does not wait this time: it starts the next sync as soon as the pod is cleaned up.
    pub const fn period(self) -> Duration {
        Duration::from_secs(match self {
            Self::Containers => 60,
            Self::Images | Self::Detection => 300,
            Self::ImageList => 30,
            Self::Eviction => 10,
        })
    }
}

/// The next step of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Run this loop now, and report its end with [`finished`](Schedule::finished). Others can be due as
    /// well.
    Run(Loop),
    /// No loop is due before this time.
    WaitUntil(Timestamp),
    /// Every loop is running, or there is none. The next step can change only when a run ends.
    Busy,
}

/// The error of [`Schedule::finished`] for a loop that is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{which} is not running")]
#[non_exhaustive]
pub struct NotRunning {
    pub which: Loop,
}

/// The loops of a node: which are running, and when the others are due.
///
/// # Guarantees
/// No loop starts while it is running, nor before one period has passed since the end of its last run. If the
/// clock is set back, runs are only delayed.
///
/// # Examples
/// ```
/// use kubegc_core::Timestamp;
/// use kubegc_node::schedule::{Loop, Next, Schedule};
/// let mut schedule = Schedule::new([Loop::Containers], Timestamp::EPOCH);
/// assert_eq!(schedule.next(Timestamp::EPOCH), Next::Run(Loop::Containers));
/// schedule.finished(Loop::Containers, Timestamp::from_secs(7))?;
/// assert_eq!(schedule.next(Timestamp::from_secs(60)), Next::WaitUntil(Timestamp::from_secs(67)));
/// # Ok::<(), kubegc_node::schedule::NotRunning>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The time at which each loop is due; `None` while it is running.
    due: BTreeMap<Loop, Option<Timestamp>>,
    began_gc: Option<Timestamp>,
}

impl Schedule {
    /// Creates a schedule of these loops, each due at `start`. Duplicates are ignored.
    /// [`Switches::loops`](crate::policy::Switches::loops) returns those that a node's settings enable.
    pub fn new(loops: impl IntoIterator<Item = Loop>, start: Timestamp) -> Self {
        Self {
            due: loops.into_iter().map(|which| (which, Some(start))).collect(),
            began_gc: None,
        }
    }

    /// Returns the next step. The loop that has been due for the longest time comes first.
    pub fn next(&mut self, now: Timestamp) -> Next {
        let earliest = self
            .due
            .iter()
            .filter_map(|(which, due)| due.map(|due| (due, *which)))
            .min();
        match earliest {
            None => Next::Busy,
            Some((due, _)) if now < due => Next::WaitUntil(due),
            Some((_, which)) => {
                self.due.insert(which, None);
                if which == Loop::Images {
                    self.began_gc.get_or_insert(now);
                }
                Next::Run(which)
            }
        }
    }

    /// Reports the end of a run: the loop is due again one period later.
    ///
    /// # Errors
    /// The loop is not running. The schedule is unchanged.
    pub fn finished(&mut self, which: Loop, now: Timestamp) -> Result<(), NotRunning> {
        match self.due.get_mut(&which) {
            Some(due @ None) => {
                *due = Some(now.saturating_add(which.period()));
                Ok(())
            }
            Some(Some(_)) | None => Err(NotRunning { which }),
        }
    }

    /// The start of the first run of the image loop; `None` before that, or without an image loop. It is the
    /// [`image_gc_began_at`](crate::Inventory::image_gc_began_at) of an inventory. Upstream: `beganGC`.
    pub const fn began_gc(&self) -> Option<Timestamp> {
        self.began_gc
    }
}
