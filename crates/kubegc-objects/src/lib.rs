//! Owner-reference garbage collection as pure planners.
//!
//! [`Collector`] is the whole controller without I/O; [`driver`] runs it against an API server. The rules
//! that it implements are listed, with links to upstream, in [`rules`].
#![cfg_attr(
    not(feature = "replay"),
    expect(unreachable_pub, reason = "the feature `replay` exports them")
)]

mod absent_owners;
mod attempt;
mod backoff;
pub mod classify;
pub mod collector;
pub mod driver;
mod effect;
pub mod execute;
pub mod graph;
pub mod owners;
pub mod patch;
pub mod plan;
mod queue;
mod reason;
mod request;
#[doc = include_str!("../RULES.md")]
pub mod rules {}
pub mod settings;

pub use collector::{Call, Collector, Input, Output, WatchEvent};
pub use graph::Graph;
pub use owners::{Owners, classify};
pub use plan::{collect, delete, orphan};
pub use reason::Reason;
pub use request::{Operation, Request, Response};
pub use settings::Settings;

/// Single parts of the collector, for replays of recordings, fuzz targets and benches. Unstable.
#[cfg(feature = "replay")]
pub mod replay {
    pub use crate::{
        absent_owners::AbsentOwners,
        attempt::{
            Context, Latest, NoMonitors, delete::Attempt as DeleteAttempt, orphan::Attempt as OrphanAttempt,
        },
        queue::WorkQueue,
        request::{Lane, Outcome, Step},
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
