//! Readers after errors, and the number of findings that they list.

use kubegc_snapshot::Problem;

use crate::common::{read, reader};

#[test]
fn after_an_error_there_is_no_snapshot() {
    let mut reader = reader();
    let good = br#"{"kind":"List","apiVersion":"v1","items":[]}"#;
    reader.read("good", &good[..]).expect("good");
    reader.read("bad", &b"{"[..]).expect_err("cut off");
    let error = reader.finish().expect_err("short");
    assert_eq!(
        error.to_string(),
        "bad, document 1: was not read to its end, so there is no snapshot"
    );
}

#[test]
fn findings_are_listed_up_to_a_bound_and_all_counted() {
    let pods = (0..1_500).map(|number| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{number}","namespace":"shop","resourceVersion":"7"}}}}"#)
    });
    let snapshot = read("f", pods.collect::<String>().as_bytes()).expect("objects");
    assert_eq!(snapshot.len(), 1_500);
    let listed = snapshot
        .findings
        .iter()
        .filter(|finding| finding.problem == Problem::NoUid);
    assert_eq!(
        (listed.count(), snapshot.finding_counts[&Problem::NoUid]),
        (1_000, 1_500)
    );
}
