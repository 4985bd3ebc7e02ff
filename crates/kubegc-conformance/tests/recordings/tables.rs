//! The tables of types and of messages are as their generators write them.

use std::path::Path;

use kubegc_conformance::{protobuf_table, types_table};

#[track_caller]
fn assert_same(table: &str, again: &str, what: &str) {
    let differences: Vec<_> = table.lines().zip(again.lines()).filter(|(a, b)| a != b).collect();
    assert!(again == table, "{what}: {:?}", differences.first());
}

#[test]
fn merging_the_releases_again_changes_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = include_str!("../../../kubegc-sim/src/types/schema.txt");
    let releases = types_table::releases(&root.join("schemas")).unwrap();
    let run = "run `cargo run -p kubegc-conformance --example types_table`";
    assert_same(table, &types_table::merged(table, &releases), run);
}

#[test]
fn the_table_of_messages_is_as_the_generator_writes_it() {
    let table = include_str!("../../../kubegc-testkit/src/http/protobuf/messages.txt");
    assert_same(table, &protobuf_table::merged(table, &[]), "another form");
}
