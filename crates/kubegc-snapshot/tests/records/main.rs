//! The records that are read of objects, and the patches that change objects.

mod common;
#[path = "../transcript/facts.rs"]
mod facts;
mod fields;
mod laws;
mod patches;
mod records;
