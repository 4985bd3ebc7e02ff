//! The schedule of a kubelet's loops ([N1.1](crate::rules#n1-1) to [N1.5](crate::rules#n1-5)).
//!
//! Periods slide: a loop runs again one period after its last run *ended*, so a slow run is never followed by
//! an immediate one.
//!
//! # Upstream
//! `StartGarbageCollection` in
//! [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go), `Start` in
//! [`image_gc_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go)
//! and in
//! [`eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go),
//! 1.20 to 1.36.

use std::{collections::BTreeMap, fmt, time::Duration};

use kubegc_core::Timestamp;

/// A loop of the kubelet that is relevant to collection.
///
/// Loops that are due at the same time run in this order.
#[expect(clippy::exhaustive_enums, reason = "drivers handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loop {
    /// Dead containers, sandboxes and logs.
    Containers,
    /// Images.
    Images,
    /// Detection of images and their use: only records change.
    Detection,
    /// The image list of the node status. It does not affect collection.
    ImageList,
    /// Eviction thresholds. Can force the removal of containers and images.
    Eviction,
}

impl Loop {
    /// All loops.
    pub const ALL: [Self; 5] = [
        Self::Containers,
        Self::Images,
        Self::Detection,
        Self::ImageList,
        Self::Eviction,
    ];

    /// The time from the end of one run to the start of the next. An eviction round that evicts a pod has no
    /// such end: the kubelet starts the next round as soon as the pod is cleaned up.
    #[must_use]
    pub const fn period(self) -> Duration {
        Duration::from_secs(match self {
            Self::Containers => 60,
            Self::Images | Self::Detection => 300,
            Self::ImageList => 30,
            Self::Eviction => 10,
        })
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Containers => "container collection",
            Self::Images => "image collection",
            Self::Detection => "image detection",
            Self::ImageList => "image list",
            Self::Eviction => "eviction",
        })
    }
}

/// The next step of a driver.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle each step")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Run this loop now, and report its end with [`finished`](Schedule::finished). Others can be due as
    /// well.
    Run(Loop),
    /// Nothing is due before this time.
    WaitUntil(Timestamp),
    /// Every loop is running, or there is none: only the end of a run changes that.
    Busy,
}

/// The end of a run was reported for a loop that is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{which} does not run")]
#[non_exhaustive]
pub struct NotRunning {
    /// The loop.
    pub which: Loop,
}

/// The loops, their running state, and their due times.
///
/// # Guarantees
/// No loop starts before one period has passed since its last run ended, nor while it runs. A clock that goes
/// backwards only delays.
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
    /// When each loop is due; `None` while it runs.
    due: BTreeMap<Loop, Option<Timestamp>>,
    began_gc: Option<Timestamp>,
}

impl Schedule {
    /// Creates a schedule of these loops, each due at `start`. Duplicates count once.
    /// [`Switches::loops`](crate::policy::Switches::loops) returns those that a node's settings enable.
    #[must_use]
    pub fn new(loops: impl IntoIterator<Item = Loop>, start: Timestamp) -> Self {
        Self {
            due: loops.into_iter().map(|which| (which, Some(start))).collect(),
            began_gc: None,
        }
    }

    /// The next step. The loop that has been due for longest comes first.
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
    /// The loop does not run; nothing changes.
    pub fn finished(&mut self, which: Loop, now: Timestamp) -> Result<(), NotRunning> {
        match self.due.get_mut(&which) {
            Some(due @ None) => {
                *due = Some(now.saturating_add(which.period()));
                Ok(())
            }
            Some(Some(_)) | None => Err(NotRunning { which }),
        }
    }

    /// The start of the first run of image collection. `None` before it, and if images are not collected.
    ///
    /// Disuse counts from here. Upstream: `beganGC`.
    #[must_use]
    pub const fn began_gc(&self) -> Option<Timestamp> {
        self.began_gc
    }

    /// The loops of this schedule, in their order.
    pub fn loops(&self) -> impl ExactSizeIterator<Item = Loop> {
        self.due.keys().copied()
    }

    /// Returns whether a loop runs.
    #[must_use]
    pub fn is_running(&self, which: Loop) -> bool {
        self.due.get(&which) == Some(&None)
    }
}
