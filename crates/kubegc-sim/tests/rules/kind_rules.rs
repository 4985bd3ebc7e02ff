//! Rules of single kinds, as `kind_rules.txt` describes.

use crate::{releases::perform, world::typed};

#[test]
fn rules_of_kinds_hold() {
    let mut failed = Vec::new();
    let rows = include_str!("kind_rules.txt").lines();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let plain = row.strip_prefix("cel ");
        if plain.is_some() && !cfg!(feature = "cel") {
            continue;
        }
        let (requests, expected) = plain.unwrap_or(row).split_once(" | ").unwrap();
        let mut server = typed("1.36.0");
        let mut last = String::new();
        for request in requests.split(" ; ") {
            last = perform(&mut server, request);
        }
        if !last.contains(expected) {
            failed.push(format!("{row}\n{last}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
