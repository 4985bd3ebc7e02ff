//! The table of types has what the schemas of the releases say.

use std::path::Path;

use kubegc_conformance::types_table::{merged, releases};

#[test]
fn merging_the_releases_again_changes_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = include_str!("../../../kubegc-sim/src/types/schema.txt");
    let releases = releases(&root.join("schemas")).unwrap();
    let again = merged(table, &releases);
    let differences: Vec<_> = table.lines().zip(again.lines()).filter(|(a, b)| a != b).collect();
    assert!(
        again == table,
        "run `cargo run -p kubegc-conformance --example types_table`: {:?}",
        differences.first()
    );
}
