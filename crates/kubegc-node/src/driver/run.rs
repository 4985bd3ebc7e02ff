//! Runs the loops of a node with upstream's periods.

use std::pin::pin;

use futures_util::{
    FutureExt,
    future::{Either, select},
};

use super::{Node, Report};
use crate::{
    LoopHealth,
    container::Mode,
    schedule::{Loop, Next, Schedule},
};

impl Node<'_> {
    /// Runs the loops until `stop` completes. A run in progress is finished first.
    ///
    /// Only one loop runs at a time. Each loop runs again one period after the end of its last run. The
    /// eviction loop is not included, because only the caller can measure the signals: see
    /// [`reclaim`](Self::reclaim).
    pub async fn run(&mut self, stop: impl Future<Output = ()>, mut report: impl FnMut(Report)) {
        let mut stop = pin!(stop.fuse());
        let loops = self.settings().switches.loops();
        let loops = loops
            .into_iter()
            .filter(|which| matches!(which, Loop::Containers | Loop::Images | Loop::Detection));
        let mut schedule = Schedule::new(loops, self.environment.clock.now());
        let mut health = LoopHealth::default();
        loop {
            match schedule.next(self.environment.clock.now()) {
                Next::Busy => return stop.await,
                Next::WaitUntil(at) => {
                    let sleep = pin!(self.environment.clock.sleep_until(at));
                    if let Either::Left(_) = select(stop.as_mut(), sleep).await {
                        return;
                    }
                }
                Next::Run(which) => {
                    self.run_loop(which, &mut health, &mut report).await;
                    // Never an error: the loop was started above.
                    if schedule.finished(which, self.environment.clock.now()).is_err() {
                        return;
                    }
                    if stop.as_mut().now_or_never().is_some() {
                        return;
                    }
                }
            }
        }
    }

    async fn run_loop(&mut self, which: Loop, health: &mut LoopHealth, report: &mut impl FnMut(Report)) {
        match which {
            Loop::Containers => {
                let mut finished = self.collect_containers(Mode::Periodic).await;
                let ended = health.containers_finished(finished.error().as_deref());
                for (container, event) in finished.events.drain(..) {
                    report(Report::ContainerEvent { container, event });
                }
                ended
                    .event
                    .into_iter()
                    .for_each(|event| report(Report::Event(event)));
                report(Report::Containers(Box::new(finished)));
            }
            Loop::Images => {
                let mut finished = self.collect_images().await;
                let ended = health.images_finished(finished.error().as_deref());
                let events = finished.plan.summary.events.drain(..).chain(ended.event);
                events.for_each(|event| report(Report::Event(event)));
                report(Report::Images(Box::new(finished)));
            }
            Loop::Detection => report(Report::Detection(self.detect_images().await)),
            Loop::ImageList | Loop::Eviction => {}
        }
    }
}
