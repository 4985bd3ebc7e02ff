//! Predicts what a delete does to a Kubernetes cluster, and why.
//!
//! A [`Cluster`] is built from a dump. It is asked what an [`Intent`] does and answers with a [`Forecast`]: the fate of every object that can be reached, the
//! writes that lead there with their reasons, the warnings, and what is worth knowing besides. What the dump does not show is unknown, never
//! absent: a fate that hangs on it is undecided, and says what to dump.
//!
//! The answer is not computed by rules of its own. The real API server's semantics (`kubegc-sim`) and the real collector's decisions (`kubegc-objects`) meet here, and what they do to
//! each other is what is predicted.

mod closure;
mod cluster;
mod comparison;
mod doctor;
mod doubt;
mod error;
mod everything;
mod explain;
mod explore;
mod fate;
mod forecast;
mod intent;
pub mod node;
mod question;
mod report;
mod run;
mod selection;
mod unknown;
mod wait;

pub use closure::Closure;
pub use cluster::Cluster;
pub use comparison::{Comparison, Difference};
pub use doctor::{Diagnosis, Fix, ForeignFinalizer, ReferenceProblem, Terminating, WrongReference};
pub use error::PredictError;
pub use explain::{Explanation, Fact, Statement};
pub use explore::{Bounds, Exploration, PossibleFates, Way};
pub use fate::{Fate, Finding, Missing};
pub use forecast::{Forecast, ObjectFate, Removal, Undetermined};
pub use intent::{Intent, KindName, ObjectName, Target};
pub use kubegc_control_plane::{Act, Actor, Assumptions, Change, Instance, Outcome, Step, Why};
pub use node::{NodeForecast, NodeFrame, node_forecast, what_if};
pub use question::Question;
pub use report::Detail;
pub use selection::Selection;
pub use wait::{Remaining, Wait};
