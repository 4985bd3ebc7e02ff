//! The adapter against scripted answers: what is asked of the API server, and what its answers are taken for.

mod common;
mod controllers;
mod discovery;
mod end_to_end;
#[cfg(feature = "leader-election")]
mod leader;
mod rbac;
mod startup;
mod store;
