//! The repository's choice of recordings matches, and changed recordings do not.

mod api;
mod controllers;
mod graph;
mod node;
mod objects;
mod predict;

use std::path::Path;

use kubegc_conformance::runner::{FileReport, Options, replay};

fn replay_file(path: &Path) -> FileReport {
    replay(path, &Options::default()).expect("the vectors can be read")
}
