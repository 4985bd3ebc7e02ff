//! Prunes the history of cron jobs: of the jobs that succeeded and of those that failed, only so many stay.
//!
//! # Guarantees
//! - A job that has not finished is never touched, nor one that no cron job controls.
//! - A limit that is not set, not known or negative prunes nothing of its class. Jobs whose status or uid is not known are not counted: they can only
//!   make the others go earlier, never spare one.
//! - Where there are too many jobs of a class and one of them started nobody knows when, the class is left alone.
//! - Nothing is done that the API server could not check: a job without a uid stays, and so does the whole history of a cron job whose uid or version is
//!   not known.
//! - Limits hold also for cron jobs that are suspended, that have a bad schedule, or that are being deleted (L3.8).
//!
//! # Assumptions
//! A job goes as soon as it is deleted. One that finalizers hold counts and is chosen again, as upstream does (L3.5).
//!
//! Time decides nothing here: upstream prunes whenever it looks at a cron job, which is after events of its jobs and when its schedule is due.
//!
//! # Complexity
//! `n` jobs and `m` cron jobs: `O(n log n + n log m)` time, `O(n + m)` memory.
//!
//! # Upstream
//! `pkg/controller/cronjob/cronjob_controllerv2.go`, `utils.go` and `injection.go`. Differences between releases are fields of [`Settings`], but for one:
//! up to about 1.20 the history is pruned after the schedule was looked at, later before, on the same jobs. Deviation: a negative limit, which the API
//! refuses, ends upstream's controller; here it prunes nothing. Where upstream always writes the status (L3.7), it does so anew at every look, and so do
//! the plans.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, OwnerReference, Planner, Timestamp};
//! use kubegc_lifecycle::{history::{CronJob, Facts, Job, Settings, StartTime, Status}, object::Condition};
//!
//! let mut meta = ObjectMeta::new("shop", "report", "uid-of-report");
//! meta.resource_version = "7".into();
//! let cron_job = CronJob::new(meta);
//! let jobs = (0..4).map(|hour| {
//!     let mut meta = ObjectMeta::new("shop", &format!("report-{hour}"), &format!("uid-{hour}"));
//!     meta.owner_references.push(OwnerReference {
//!         api_version: "batch/v1".into(), kind: "CronJob".into(), name: "report".into(), uid: "uid-of-report".into(),
//!         controller: Some(true), block_owner_deletion: Some(true),
//!     });
//!     let start_time = StartTime::At(Timestamp::from_secs(hour * 3_600));
//!     let conditions = vec![Condition::new("Complete", "True")];
//!     Job { meta, status: Some(Status { conditions, start_time }) }
//! });
//! let facts = Facts::new(vec![cron_job], jobs.collect());
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! // Three may stay. The oldest goes, and the cron job's status forgets it.
//! assert_eq!(plan.actions.len(), 2);
//! assert_eq!(plan.actions[0].reason().to_string(), "4 successful jobs, 3 may stay, and this one is among the oldest");
//! ```

mod action;
mod facts;
mod pass;
mod plan;
mod reason;
mod settings;

pub use action::Action;
pub use facts::{CronJob, FAILED_LIMIT, Facts, Job, Limit, SUCCESSFUL_LIMIT, StartTime, Status};
pub use pass::{Pass, Step};
pub use reason::{Class, Reason, Summary};
pub use settings::Settings;
