//! Forecasts of what deletes do to a Kubernetes cluster, with explanations.
//!
//! A [`Cluster`] is built from a dump and computes forecasts:
//!
//! | question | call |
//! |---|---|
//! | What do these deletes do? | [`Cluster::predict`], with the [`Intent`]s of a [`Selection`] |
//! | What happens without any delete? | [`Cluster::pending`] |
//! | What happens until tomorrow, with these controllers? | [`Cluster::forecast`], with a [`Question`] |
//! | Why does this object have this fate? | [`Forecast::explain`] |
//! | Which objects stay terminating, and which owner references are wrong? | [`Cluster::doctor`] |
//! | What changes with another cascade, version or dump? | [`Forecast::compare`] |
//! | What does a restore of this dump lose? | [`Snapshot::restored`](kubegc_snapshot::Snapshot::restored) |
//! | Which fates are possible if steps happen in another order? | [`Cluster::explore`] |
//! | What does the kubelet of a node remove next? | [`node::node_forecast`] |
//!
//! A [`Forecast`] has the fate of every object that the question can reach, the writes that lead there with
//! their reasons and causes, warnings and findings. Objects that are missing from the dump are unknown, never
//! absent: a fate that depends on them is [undetermined](Fate::Undetermined) and names the missing data.
//!
//! Forecasts have no rules of their own. They are read from a run of the simulated control plane
//! (`kubegc-control-plane`).
//!
//! The modules are layers, and each imports only those before it: the input (`question`, `error`), `facts`
//! (what a dump shows), `simulate` (runs of the part that a question can reach), `judge` (fates from the ends
//! of the runs, with what is missing and what is waited for), the answers (`explore`, `predict`, `closure`,
//! `doctor`), [`Cluster`], and what surrounds it (`selection`, `explain`, `report`). `node` stands alone.

mod closure;
mod cluster;
mod cycle;
pub mod doctor;
mod error;
pub mod explain;
pub mod explore;
mod facts;
mod judge;
pub mod node;
mod predict;
mod question;
mod report;
mod selection;
mod simulate;
mod words;

pub use closure::Closure;
pub use cluster::Cluster;
pub use doctor::Diagnosis;
pub use error::PredictError;
pub use explain::Explanation;
pub use explore::Exploration;
pub use facts::{BrokenExtension, Extension};
pub use judge::{
    BlockedBy, Blocking, Fate, Finding, Forecast, Missing, ObjectFate, Outcomes, Remaining, Removal,
    Undetermined, Wait,
};
pub use kubegc_control_plane::{Assumptions, Instance};
pub use question::{Intent, ObjectName, Question, Target};
pub use report::{
    Detail,
    comparison::{self, Comparison},
    document,
};
pub use selection::Selection;
pub use trace::Step;

/// The writes of a forecast, each with its effects, actor and reason.
pub mod trace {
    pub use kubegc_control_plane::{Act, Actor, Change, Outcome, Refusal, RefusedBy, Step, Why};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
