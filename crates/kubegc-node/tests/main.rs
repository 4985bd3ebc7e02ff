//! Tests of the node planners.

mod bad_input;
mod busy;
mod driver;
mod eviction;
mod image;
mod laws;
mod log;
mod pausing;
mod plans;
mod policy;
mod words;
mod world;
