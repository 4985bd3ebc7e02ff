//! The adapter against scripted responses: its requests to the API server, and the meaning of responses.

mod common;
mod controllers;
mod discovery;
mod end_to_end;
#[cfg(feature = "leader-election")]
mod leader;
mod rbac;
mod startup;
mod store;
