//! A dry run: the unchanged collector, over a store whose writes change nothing, until it is idle.

mod overlay;
mod report;

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures_util::future::{Either, select};
use kubegc_core::{Clock, ObjectStore, Timestamp};
use kubegc_objects::{
    Settings,
    collector::{Misuse, Wait, WaitReason},
    driver::{self, Report},
};
use tokio::sync::watch;

use overlay::{DryRun, Touched};
pub use report::{DryRunReport, NotFollowed, Terminating, Write};

/// Time without work after which a dry run ends. Changes by other clients arrive well within this time.
const QUIET: Duration = Duration::from_secs(2);

/// The event that a dry run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Work is pending.
    Busy,
    /// Nothing until the quiet time is over.
    Quiet,
    /// Lists have yet to be delivered.
    Syncing,
}

fn rest(wait: Wait, now: Timestamp) -> Rest {
    let far = wait.until.is_none_or(|until| until > now.saturating_add(QUIET));
    match wait.why {
        WaitReason::Events | WaitReason::Retries if far => Rest::Quiet,
        WaitReason::Sync => Rest::Syncing,
        _ => Rest::Busy,
    }
}

/// Runs a collector over a store whose writes change nothing. `on_report` receives every report.
///
/// Ends when the collector has had nothing to do for two seconds and the next retry of failing work is
/// further ahead; when it has not begun after `patience` because lists are missing, or has made no new write
/// for as long because of many retries; or when `stop` is ready.
pub(crate) async fn run<S: ObjectStore, C: Clock>(
    store: S,
    clock: &C,
    mut settings: Settings,
    patience: Duration,
    stop: impl Future<Output = ()>,
    mut on_report: impl FnMut(&Report),
) -> Result<DryRunReport, Misuse> {
    // Kinds are discovered once: a dry run covers the cluster as it is now.
    settings.discovery_period = None;
    let store = DryRun::new(store);
    let mut report = DryRunReport::default();
    let mut failed = BTreeMap::new();
    let (rests, watched) = watch::channel((Rest::Busy, 0));
    let note = |news: Report| {
        on_report(&news);
        match news {
            Report::Waiting(wait) => {
                let next = rest(wait, clock.now());
                rests.send_if_modified(|(rest, _)| std::mem::replace(rest, next) != next);
                return;
            }
            Report::Performed { request, response } if request.operation.is_write() => {
                report.note(request, response, &mut failed);
            }
            _ => {}
        }
        rests.send_replace((Rest::Busy, report.writes.len()));
    };
    let mut complete = false;
    let end = async {
        let rested = pin!(at_rest(watched, patience));
        match select(pin!(stop), rested).await {
            Either::Left(_) => {}
            Either::Right((quiet, _)) => complete = quiet,
        }
    };
    let collector = driver::run(&store, clock, settings, end, note).await?;
    let Touched {
        removed,
        terminating,
        not_followed,
    } = store.touched();
    report.removed = removed;
    report.terminating = terminating;
    report.not_followed = not_followed;
    report.complete = complete;
    report.unsynced = collector
        .monitors()
        .filter(|(_, _, synced)| !synced)
        .map(|(_, resource, _)| resource.qualified_resource())
        .collect();
    report.unsynced.sort();
    Ok(report)
}

/// Waits until there has been nothing to do for the quiet time (`true`), or nothing has begun within the
/// patience (`false`).
async fn at_rest(mut rests: watch::Receiver<(Rest, usize)>, patience: Duration) -> bool {
    let mut progressed = tokio::time::Instant::now();
    let mut writes = 0;
    loop {
        let (rest, writes_now) = *rests.borrow_and_update();
        if writes_now > writes {
            writes = writes_now;
            progressed = tokio::time::Instant::now();
        }
        let (wait, is_quiet) = match rest {
            Rest::Quiet => (QUIET, true),
            Rest::Syncing | Rest::Busy => (patience.saturating_sub(progressed.elapsed()), false),
        };
        match tokio::time::timeout(wait, rests.changed()).await {
            Err(_) => return is_quiet,
            Ok(Err(_)) => return false,
            Ok(Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_at_rest_only_if_nothing_is_due_soon() {
        let now = Timestamp::from_secs(100);
        let at = |seconds| Some(Timestamp::from_secs(seconds));
        for (why, until, expected) in [
            (WaitReason::Events, None, Rest::Quiet),
            (WaitReason::Retries, at(103), Rest::Quiet),
            (WaitReason::Retries, at(101), Rest::Busy),
            (WaitReason::Responses, None, Rest::Busy),
            (WaitReason::Sync, at(130), Rest::Syncing),
            (WaitReason::Sync, None, Rest::Syncing),
        ] {
            assert_eq!(rest(Wait { until, why }, now), expected, "{why:?} {until:?}");
        }
    }
}
