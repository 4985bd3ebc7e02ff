//! Object collection against a simulated API server: the laws of the collector, their documented exceptions,
//! an independent oracle, and the cases that the recordings lack. The `laws_*` modules state the laws with
//! their numbers.

mod attempts;
mod collector;
mod common;
mod driver;
mod fingerprints;
mod graph;
mod hardening;
mod laws_determinism;
mod laws_exceptions;
mod laws_outcome;
mod laws_plan;
mod laws_safety;
mod oracle_fixpoint;
mod releases;
