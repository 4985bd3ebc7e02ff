//! Runs the loops of a node with upstream's periods ([N1.1](crate::rules#n1-1) to [N1.3](crate::rules#n1-3)),
//! and reports the events of failed runs ([N1.11](crate::rules#n1-11) to [N1.15](crate::rules#n1-15)).
//!
//! Two more loops of the kubelet are not included: the image list of the node status
//! ([N1.4](crate::rules#n1-4)), and the eviction manager ([N1.5](crate::rules#n1-5)), because only the caller
//! can measure its signals: see [`Node::reclaim`].
//!
//! # Upstream
//! `StartGarbageCollection` in
//! [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go), `Start` in
//! [`image_gc_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/image_gc_manager.go),
//! 1.20 to 1.36.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use futures_util::{
    FutureExt,
    future::{Either, select},
};

use super::{Node, Report};
use crate::{Event, container::Mode};

/// A loop. Those that are due at the same time run in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loop {
    Containers,
    Images,
    Detection,
}

impl Loop {
    /// The time from the end of one run to the start of the next.
    const fn period(self) -> Duration {
        Duration::from_secs(match self {
            Self::Containers => 60,
            Self::Images | Self::Detection => 300,
        })
    }
}

impl Node<'_> {
    /// Runs the loops until `stop` completes. A run in progress is finished first.
    ///
    /// Only one loop runs at a time: the one that has been due for the longest time. Each loop runs again one
    /// period after the *end* of its last run, so a slow run is never followed immediately by the next one.
    pub async fn run(&mut self, stop: impl Future<Output = ()>, mut report: impl FnMut(Report)) {
        let mut stop = pin!(stop.fuse());
        let start = self.environment.clock.now();
        let images = self.settings.image_loop.then_some(Loop::Images);
        let loops = [Loop::Containers, Loop::Detection].into_iter().chain(images);
        let mut due: BTreeSet<_> = loops.map(|which| (start, which)).collect();
        let mut images_failed = false;
        while let Some((at, which)) = due.pop_first() {
            if self.environment.clock.now() < at {
                let sleep = pin!(self.environment.clock.sleep_until(at));
                if let Either::Left(_) = select(stop.as_mut(), sleep).await {
                    return;
                }
            }
            self.run_loop(which, &mut images_failed, &mut report).await;
            let ended = self.environment.clock.now();
            due.insert((ended.saturating_add(which.period()), which));
            if stop.as_mut().now_or_never().is_some() {
                return;
            }
        }
    }

    async fn run_loop(&mut self, which: Loop, images_failed: &mut bool, report: &mut impl FnMut(Report)) {
        match which {
            Loop::Containers => {
                let mut finished = self.collect_containers(Mode::Periodic).await;
                for (container, event) in finished.events.drain(..) {
                    report(Report::ContainerEvent { container, event });
                }
                if let Some(error) = finished.error() {
                    report(Report::Event(Event::warning("ContainerGCFailed", error)));
                }
                report(Report::Containers(Box::new(finished)));
            }
            Loop::Images => {
                let mut finished = self.collect_images().await;
                let error = finished.error();
                let failed_before = std::mem::replace(images_failed, error.is_some());
                // The first failure in a row causes no event.
                let failed = error
                    .filter(|_| failed_before)
                    .map(|error| Event::warning("ImageGCFailed", error));
                let events = finished.plan.summary.events.drain(..).chain(failed);
                events.for_each(|event| report(Report::Event(event)));
                report(Report::Images(Box::new(finished)));
            }
            Loop::Detection => report(Report::Detection(self.detect_images().await)),
        }
    }
}
