//! Inputs and outputs of a collector.

use std::sync::Arc;

use kubegc_core::{Catalog, Timestamp};

use crate::{
    effect::InvalidNamespace,
    request::{Request, Response, WatchEvent},
};

/// Identifies one call, so that responses can arrive in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("call {_0}")]
pub struct CallId(pub(super) u64);

/// Identifies one monitored resource. A collector never reuses it for another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonitorId(pub(super) u32);

/// An input of a collector.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) passes in a catalog, watch events and responses.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Input {
    /// The result of discovery.
    Catalog {
        /// All kinds that discovery returned.
        catalog: Arc<Catalog>,
        /// Group versions whose discovery failed, as apiVersion texts ([G-22](crate::rules#g-22)).
        failed: Vec<String>,
    },
    Watch {
        monitor: MonitorId,
        event: WatchEvent,
    },
    Response {
        call: CallId,
        response: Response,
    },
    /// Only time has passed.
    Tick,
}

impl Input {
    /// A discovery without failures.
    pub const fn catalog(catalog: Arc<Catalog>) -> Self {
        let failed = Vec::new();
        Self::Catalog { catalog, failed }
    }

    pub const fn watch(monitor: MonitorId, event: WatchEvent) -> Self {
        Self::Watch { monitor, event }
    }

    pub const fn response(call: CallId, response: Response) -> Self {
        Self::Response { call, response }
    }
}

/// An output of a collector.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) handles each output.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Run discovery and pass in [`Input::Catalog`].
    Discover,
    /// List and watch this resource.
    Watch(MonitorId),
    /// Stop watching this resource.
    Unwatch(MonitorId),
    /// Perform this request and pass in exactly one [`Input::Response`].
    Call(Call),
    /// Publish this warning. It needs no response.
    Event(Box<InvalidNamespace>),
    /// Nothing to do now; polling again returns the same.
    Wait(Wait),
}

/// One request to perform.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) responds to three calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub id: CallId,
    pub request: Request,
}

/// The end of the wait, and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// When a [`Input::Tick`] has an effect; `None` if only another input has.
    pub until: Option<Timestamp>,
    pub why: WaitReason,
}

#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Monitors have not delivered their initial lists.
    Sync,
    /// Calls have no response yet.
    Responses,
    /// Items wait for their next try.
    Retries,
    /// Nothing is pending.
    Events,
}

/// Why the workers do not run: some monitored resources have not delivered their initial list, or no kinds
/// are known yet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotRunning {
    /// The workers ran before and were paused because new resources are monitored, which releases up to 1.31
    /// do ([G-20](crate::rules#g-20)).
    pub paused: bool,
    /// When the workers start without the missing lists; `None` in releases up to 1.31, which wait for all of
    /// them ([G-16](crate::rules#g-16)).
    pub starts_at: Option<Timestamp>,
}

/// An invalid input. The collector is unchanged.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Misuse {
    /// The call does not exist or already has a response.
    #[error("{0} was never made or is answered already")]
    UnknownCall(CallId),
    #[error("monitor {} does not exist or was stopped", .0.0)]
    UnknownMonitor(MonitorId),
    /// The time is before that of an earlier input.
    #[error("time went back to before {last}")]
    TimeWentBack {
        /// The latest time so far.
        last: Timestamp,
    },
}
