//! Merges the schemas of releases into the table of types: run it after a file was added to `schemas`.
//!
//! `cargo run -p kubegc-conformance --example types_table`

use std::{fs, path::Path};

use kubegc_conformance::types_table::{merged, releases};

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../kubegc-sim/src/types/schema.txt");
    let table = merged(&fs::read_to_string(&path)?, &releases(&root.join("schemas"))?);
    fs::write(path, table)
}
