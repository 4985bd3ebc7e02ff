//! Readers of the documents of a node: listings, settings, pods, archives, bad input, laws, the bundled node.

mod archives;
mod bad_input;
mod bundled;
mod cases;
mod common;
#[path = "../transcript/escapes.rs"]
mod escapes;
#[path = "../transcript/facts.rs"]
mod facts;
mod knowledge;
mod laws;
mod manifests;
#[path = "../transcript/pack.rs"]
mod pack;
mod pods_file;
