//! Runs mechanisms as a controller over an [`ObjectStore`](kubegc_core::ObjectStore) and a [`Clock`](kubegc_core::Clock).
//!
//! | item | what it does |
//! |---|---|
//! | [`Driver`] | runs any chosen set of mechanisms, for good or until nothing is due |
//! | [`Execution`] | carries one task of a [`Controller`](crate::controller::Controller) out, call by call, for loops of one's own |
//! | [`Documents`] | reads and changes whole objects: this crate knows no JSON |
//! | [`Outside`] | plugins of volumes, provisioners, the cloud, and whoever publishes events |
//!
//! Nothing here decides what goes. What is decided on may have changed since it was listed: an execution reads it again right before.

mod builder;
mod documents;
mod execution;
mod outside;
mod report;
mod resources;
mod run;
mod watch;

pub use builder::{Builder, Driver};
pub use documents::{DocumentError, Documents};
pub use execution::{Execution, Hands, Made, Request};
pub use outside::{Event, Nobody, Operated, Outside};
pub use report::{Report, Summary, Tally};
pub use resources::Resources;
