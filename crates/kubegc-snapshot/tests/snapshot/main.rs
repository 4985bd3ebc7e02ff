//! Readers of dumps: layouts, bad input, kinds, laws, large streams.

mod admission;
mod bundles;
mod cases;
mod common;
mod completeness;
#[path = "../transcript/escapes.rs"]
mod escapes;
mod kinds;
mod kubectl;
mod laws;
mod layouts;
mod manifests;
#[path = "../transcript/pack.rs"]
mod pack;
mod packed;
mod streaming;
mod threads;
