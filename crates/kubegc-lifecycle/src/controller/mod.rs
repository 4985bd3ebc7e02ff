//! All mechanisms behind one face: told what is listed and what changes, a [`Controller`] says what to do, when, and why.
//!
//! # Driving
//! A driver lists and watches [`Controller::resources`] and hands in what it learns, each time with the present ([`Input`]). It asks
//! [`Controller::poll_output`] until that is [`Output::Wait`], carries out each [`Task`] and tells how it ended. A forecast does the same with a clock of its own.
//!
//! # When a mechanism looks
//! | mechanism | looks |
//! |---|---|
//! | jobs, histories, volumes, external volumes, protection, stateful sets, leases, bootstrap tokens | as soon as something changes that it looks at, and at the very time at which its plan becomes another |
//! | pods | every 20 s, if something changed that could make a pod go or decides that one stays, or a quarantine has ended |
//! | certificates, certificates of pods | every hour |
//! | nodes | every 5 s, at those that are not ready or have changed |
//! | legacy tokens | every 24 h |
//! | namespaces | 5 s after a change of one that is being deleted, and when its last visit asked for another |
//!
//! The first pass comes when all was told of that a mechanism looks at, and each other a period after the one before. Passes that would find nothing are left
//! out. A pass that comes late is one pass, and the next ones count from it.
//!
//! **Invariant.** A unit (a job, a volume, all pods) of which a task is out is not looked at.

mod agenda;
mod cadence;
mod exchange;
mod index;
mod machine;
mod mechanism;
mod reason;
mod retry;
mod settings;
mod table;
mod tables;
mod task;
mod unit;

pub use exchange::{Input, Output};
pub use machine::Controller;
pub use mechanism::Mechanism;
pub use reason::Reason;
pub use settings::{Settings, Storage};
pub use task::{Basis, Ended, Planned, Task, TaskId, Work};
