//! Detection of hot loops: a cluster that does not become idle, and the clients that cause it.

use std::{collections::BTreeMap, fmt};

use super::Inner;
use crate::audit::{Audit, Entry, Since};

/// Number of recent requests in which a hot loop is searched.
const BUSY_WINDOW: usize = 1_000;
/// Number of recent requests, and of the most frequent ones, that are shown.
const SHOWN: usize = 12;

/// A cluster did not become idle within its bound of requests.
///
/// Most often two controllers undo each other's work, or one its own.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSettled {
    pub calls: u64,
    /// The most frequent requests, with their client, among the last thousand, each with its count.
    pub busiest: Vec<(String, usize)>,
    pub last: Audit,
}

/// The message: a test that returns the error prints it with `Debug`.
impl fmt::Debug for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Inner {
    /// Waits until more requests were made than one settle may make, beginning now.
    pub(super) async fn hot_loop(&self) -> Box<NotSettled> {
        let before = self.calls();
        loop {
            let seen = self.pulse.count();
            if let Err(hot) = self.check_bound(before) {
                return hot;
            }
            self.pulse.after(seen).await;
        }
    }

    pub(super) fn check_bound(&self, calls_before: u64) -> Result<(), Box<NotSettled>> {
        let calls = self.calls() - calls_before;
        if calls <= self.calls_max {
            return Ok(());
        }
        let audit = &self.state.lock().audit;
        let window = &audit[audit.len().saturating_sub(BUSY_WINDOW)..];
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for entry in window {
            *counts.entry(signature(entry)).or_default() += 1;
        }
        let mut busiest: Vec<(String, usize)> = counts.into_iter().collect();
        busiest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        busiest.truncate(SHOWN);
        Err(Box::new(NotSettled {
            calls,
            busiest,
            last: Audit::new(audit[audit.len().saturating_sub(SHOWN)..].to_vec()),
        }))
    }
}

/// A request without its time and response.
fn signature(entry: &Entry) -> String {
    let mut out = format!("{} {} {}", entry.client, entry.verb, entry.target());
    if let Some(reason) = &entry.reason {
        out.push_str(" because ");
        out.push_str(reason);
    }
    out
}

impl std::error::Error for NotSettled {}

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, busiest, last } = self;
        writeln!(f, "the cluster is not idle after {calls} requests")?;
        writeln!(f, "most often, of the last {BUSY_WINDOW}:")?;
        for (what, times) in busiest {
            writeln!(f, "  {times} times: {what}")?;
        }
        writeln!(f, "the last requests:")?;
        for entry in last.entries() {
            writeln!(f, "  {entry}")?;
        }
        let span = last.entries().next_back().map(|entry| entry.since_start);
        write!(f, "at {}", Since(span.unwrap_or_default()))
    }
}
