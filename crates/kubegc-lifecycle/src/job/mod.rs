//! Deletes jobs that finished longer ago than their `ttlSecondsAfterFinished`.
//!
//! A job is judged twice: as it was listed, and, once that says it has expired, as a live read finds it. Only the second judgement
//! deletes. [`Settings`] is the [`Planner`](kubegc_core::Planner) for all jobs at once, [`Attempt`] upstream's handling of one job, with the
//! read and the deletion as steps that are answered.
//!
//! # Guarantees
//! No job is deleted on what was only listed, unless the caller says with [`Reads::AsListed`](crate::object::Reads::AsListed) that nothing
//! has changed since. An object that took the name of an expired job is judged by its own fields. A job without a uid stays: nothing would
//! guard the next one of its name.
//!
//! # Upstream
//! `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`. Left out: the controller's five workers and its queue with
//! growing waits after failures, of which [`Ending::Retry`] only says that it comes into play.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::{job::{Action, Facts, Job, Settings, Ttl}, object::{Condition, Reads}};
//!
//! let mut complete = Condition::new("Complete", "True");
//! complete.last_transition_time = Some(Timestamp::from_secs(1_000));
//! let report = Job {
//!     meta: ObjectMeta::new("shop", "report", "uid-1"),
//!     ttl: Ttl::Seconds(100),
//!     conditions: Some(vec![complete]),
//! };
//! let facts = Facts { jobs: vec![report], reads: Reads::AsListed };
//!
//! let plan = Settings::default().plan(&facts, Timestamp::from_secs(1_099));
//! assert_eq!(plan.kept[0].reason.to_string(), "finished at 1970-01-01T00:16:40Z and stays until 1970-01-01T00:18:20Z");
//! assert_eq!(plan.next_at, Some(Timestamp::from_secs(1_100)));
//!
//! let plan = Settings::default().plan(&facts, Timestamp::from_secs(1_100));
//! let Action::Delete { object, .. } = &plan.actions[0];
//! assert_eq!(object.to_string(), "Job shop/report");
//! ```

mod attempt;
mod facts;
mod judge;
mod plan;
mod reason;

pub use attempt::{Answer, Attempt, Ending, Step};
pub use facts::{Facts, Job, Settings, Ttl};
pub use plan::{Action, Summary};
pub use reason::{Reason, State};
