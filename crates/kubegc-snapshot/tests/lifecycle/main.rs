//! What the lifecycle mechanisms read of objects, and how they change them.

mod common;
mod laws;
mod namespaces;
mod patches;
mod pods;
mod records;
mod security;
mod storage;
mod workloads;
