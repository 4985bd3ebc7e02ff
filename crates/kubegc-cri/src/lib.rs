//! A node's container runtime, file systems and log files, as kubegc's node collector wants them. No decisions are made here.

mod bindings;
mod connect;
mod endpoint;
mod error;
mod file_systems;
mod logs;
mod options;
mod read;
mod runtime;

pub use kubegc_tokio::TokioClock;
