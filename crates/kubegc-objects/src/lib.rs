//! Owner-reference garbage collection as pure planners.
//!
//! [`Collector`] is the whole controller without I/O; [`driver`] runs it against an API server. The rules
//! that it implements are listed, with links to upstream, in [`rules`].

pub mod absent_owners;
pub mod attempt;
pub mod backoff;
pub mod call;
pub mod classify;
pub mod collector;
pub mod delete;
pub mod driver;
pub mod effect;
pub mod graph;
mod json;
pub mod orphan;
pub mod patch;
pub mod queue;
pub mod reason;
#[doc = include_str!("../RULES.md")]
pub mod rules {}
mod semantics;
mod settings;

pub use collector::Collector;
pub use graph::{Graph, GraphKind, NodeId};
pub use semantics::Semantics;
pub use settings::{Hardening, Settings};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
