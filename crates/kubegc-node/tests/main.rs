//! Tests of the node planners.

mod eviction;
mod policy;
mod schedule;
