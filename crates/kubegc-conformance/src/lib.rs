//! Replays recordings of the real control plane against kubegc and reports the differences.
//!
//! A recording is a `.jsonl` file: one case a line. [`replay`] reads a file line by line, detects the kind of
//! each case, replays it, and returns a [`Report`]. No replay has code for a single case: a case that differs
//! shows a difference between kubegc and the recorded program.

mod api;
mod controllers;
mod failure;
mod graph;
mod namespaces;
mod node;
mod objects;
mod predict;
pub mod protobuf_table;
mod recording;
mod report;
mod runner;
pub mod types_table;

pub use failure::Failure;
pub use objects::{Player, Scenario};
pub use recording::{open, recordings};
pub use report::{FailedCase, Report};
pub use runner::replay;

/// The code in the README of the repository, compiled and run. Packages do not contain that file.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
