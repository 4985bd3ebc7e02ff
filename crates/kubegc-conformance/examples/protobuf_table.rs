//! Merges upstream's messages into the table of messages: run it with the directories of a new release.
//!
//! `cargo run -p kubegc-conformance --example protobuf_table DIRECTORY...`: checkouts of `k8s.io/api`,
//! `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver` and `k8s.io/kube-aggregator`.

use std::{fs, path::Path};

use kubegc_conformance::protobuf_table::{merged, sources};

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../kubegc-testkit/src/http/protobuf/messages.txt");
    let mut found = Vec::new();
    for directory in std::env::args_os().skip(1) {
        found.extend(sources(Path::new(&directory))?);
    }
    let table = merged(&fs::read_to_string(&path)?, &found);
    fs::write(path, table)
}
