//! Object collection against a simulated API server: the laws of the collector, their documented exceptions,
//! an independent oracle, and the rules case by case. The `laws_*` modules state the laws with their numbers.

mod attempt_rules;
mod collector_rules;
mod common;
mod driver;
mod driver_requests;
mod fingerprints;
mod graph_events;
mod graph_rules;
mod graph_storage;
mod laws_determinism;
mod laws_exceptions;
mod laws_outcome;
mod laws_safety;
mod lists;
mod oracle_fixpoint;
mod probe;
mod retry_rules;
mod versions;
mod worker_rules;
