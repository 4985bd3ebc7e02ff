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

/// Whether the collector of a dry run has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Work is pending.
    Busy,
    /// There is no work within [`QUIET`].
    Quiet,
    /// Lists have yet to be delivered.
    Syncing,
}

fn activity(wait: Wait, now: Timestamp) -> Activity {
    let far = wait.until.is_none_or(|until| until > now.saturating_add(QUIET));
    match wait.why {
        WaitReason::Events | WaitReason::Retries if far => Activity::Quiet,
        WaitReason::Sync => Activity::Syncing,
        _ => Activity::Busy,
    }
}

/// Runs a collector over a store whose writes change nothing. `on_report` receives every report.
///
/// Ends when the collector has no work for two seconds, not even a retry; when it has not started or has not
/// made a write within `wait_timeout`; or when `stop` is ready.
pub(crate) async fn run<S: ObjectStore, C: Clock>(
    store: S,
    clock: &C,
    mut settings: Settings,
    wait_timeout: Duration,
    stop: impl Future<Output = ()>,
    mut on_report: impl FnMut(&Report),
) -> Result<DryRunReport, Misuse> {
    // Kinds are discovered once: a dry run covers the cluster as it is now.
    settings.discovery_period = None;
    let store = DryRun::new(store);
    let mut report = DryRunReport::default();
    let mut failed = BTreeMap::new();
    let (activities, watched) = watch::channel((Activity::Busy, 0));
    let note = |reported: Report| {
        on_report(&reported);
        match reported {
            Report::Waiting(wait) => {
                let next = activity(wait, clock.now());
                activities.send_if_modified(|(activity, _)| std::mem::replace(activity, next) != next);
                return;
            }
            Report::Performed { request, response } if request.operation.is_write() => {
                report.note(request, response, &mut failed);
            }
            _ => {}
        }
        activities.send_replace((Activity::Busy, report.writes.len()));
    };
    let mut complete = false;
    let end = async {
        let has_ended = pin!(until_idle(watched, wait_timeout));
        match select(pin!(stop), has_ended).await {
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

/// Waits until there is no work within [`QUIET`] (`true`), or until no write was made within the timeout
/// (`false`).
async fn until_idle(mut activities: watch::Receiver<(Activity, usize)>, wait_timeout: Duration) -> bool {
    let mut progressed = tokio::time::Instant::now();
    let mut writes = 0;
    loop {
        let (activity, writes_now) = *activities.borrow_and_update();
        if writes_now > writes {
            writes = writes_now;
            progressed = tokio::time::Instant::now();
        }
        let (wait, is_quiet) = match activity {
            Activity::Quiet => (QUIET, true),
            Activity::Syncing | Activity::Busy => (wait_timeout.saturating_sub(progressed.elapsed()), false),
        };
        match tokio::time::timeout(wait, activities.changed()).await {
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
    fn a_run_is_quiet_only_if_no_work_is_due_soon() {
        let now = Timestamp::from_secs(100);
        let at = |seconds| Some(Timestamp::from_secs(seconds));
        for (why, until, expected) in [
            (WaitReason::Events, None, Activity::Quiet),
            (WaitReason::Retries, at(103), Activity::Quiet),
            (WaitReason::Retries, at(101), Activity::Busy),
            (WaitReason::Responses, None, Activity::Busy),
            (WaitReason::Sync, at(130), Activity::Syncing),
            (WaitReason::Sync, None, Activity::Syncing),
        ] {
            assert_eq!(activity(Wait { until, why }, now), expected, "{why:?} {until:?}");
        }
    }
}
