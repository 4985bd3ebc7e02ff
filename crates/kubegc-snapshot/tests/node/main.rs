//! Readers of the documents of a node: listings, settings, pods, archives, bad input, laws, the bundled node.

mod archives;
mod bad_input;
mod bundled;
mod common;
mod containers;
mod disks;
mod knowledge;
mod laws;
mod listings;
mod manifests;
mod pods_file;
mod settings;
