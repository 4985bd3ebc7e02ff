//! The adapter against scripted responses and simulated clusters.

mod common;
mod controllers;
mod discovery;
mod end_to_end;
#[cfg(feature = "leader-election")]
mod leader;
mod rbac;
mod startup;
mod store;
