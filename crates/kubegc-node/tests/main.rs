//! Tests of the node planners.

mod bad_input;
mod container;
mod driver;
mod eviction;
mod image;
mod laws;
mod log;
mod pausing;
mod policy;
mod sandbox;
mod world;
