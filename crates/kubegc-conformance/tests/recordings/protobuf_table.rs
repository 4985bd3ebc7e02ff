//! The table of messages is in the form that its generator writes.

use kubegc_conformance::protobuf_table::merged;

#[test]
fn the_table_of_messages_is_as_the_generator_writes_it() {
    let table = include_str!("../../../kubegc-testkit/src/http/protobuf/messages.txt");
    let again = merged(table, &[]);
    let differences: Vec<_> = table.lines().zip(again.lines()).filter(|(a, b)| a != b).collect();
    assert!(again == table, "{:?}", differences.first());
}
