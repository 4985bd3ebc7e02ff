//! Readers of dumps: layouts, bad input, kinds, laws, large streams.

mod admission;
mod bad_input;
mod bundles;
mod common;
mod completeness;
mod kinds;
mod kubectl;
mod laws;
mod layouts;
mod manifests;
mod packed;
mod streaming;
mod threads;
