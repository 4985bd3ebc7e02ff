//! A node's documents in archives and compressed files.

use kubegc_snapshot::{NodeProblem, NodeSnapshot, SnapshotError};

use crate::{
    common::{bundled, reader},
    pack::{gzip, tar, zip},
};

/// The files of the bundled node, in the order of their names.
fn members() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(bundled()).expect("the directory is in the repository");
    let mut members: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("a file"))
        })
        .collect();
    members.sort();
    members
}

fn stream(bytes: &[u8]) -> Result<NodeSnapshot, SnapshotError> {
    let mut reader = reader();
    reader.read("node", bytes)?;
    reader.finish()
}

#[test]
fn an_archive_is_read_as_its_directory() {
    let mut of_directory = reader();
    of_directory.read_path(&bundled()).expect("the bundled node");
    let of_directory = of_directory.finish().expect("nothing was refused");
    let members = members();
    let plain = parts(&members);
    let packed: Vec<(String, Vec<u8>)> = members
        .iter()
        .map(|(name, bytes)| (format!("node/{name}.gz"), gzip(bytes)))
        .collect();
    for (name, archive) in [
        ("tar.gz", gzip(&tar(&plain))),
        ("zip", zip(&plain)),
        ("tar of compressed files", tar(&parts(&packed))),
        (
            "archive in an archive",
            zip(&[("inner.tgz", &gzip(&tar(&plain)))]),
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("node");
        std::fs::write(&path, &archive).expect("a file");
        let mut of_file = reader();
        of_file
            .read_path(&path)
            .unwrap_or_else(|error| panic!("{name}: {}", error.full_text()));
        let of_file = of_file.finish().expect(name);
        let of_stream = stream(&archive).unwrap_or_else(|error| panic!("{name}: {}", error.full_text()));
        for node in [of_file, of_stream] {
            assert_eq!(node.inventory, of_directory.inventory, "{name}");
            assert_eq!(node.policy, of_directory.policy, "{name}");
            assert_eq!(node.stats, of_directory.stats, "{name}");
            assert_eq!(node.usage, of_directory.usage, "{name}");
            assert_eq!(node.statuses, of_directory.statuses, "{name}");
            assert_eq!(node.finding_counts, of_directory.finding_counts, "{name}");
        }
    }
}

#[test]
fn other_documents_are_skipped_among_those_of_the_node() {
    let inspectp =
        br#"{"status":{"id":"s","state":"SANDBOX_READY","runtimeHandler":""},"info":{"runtimeSpec":{}}}"#;
    let members: [(&str, &[u8]); 2] = [("images.json", br#"{"images":[]}"#), ("inspectp.json", inspectp)];
    let node = stream(&zip(&members)).expect("images");
    assert_eq!(node.finding_counts[&NodeProblem::NotRecognized], 1);
    assert_eq!(node.inventory.images.map(|images| images.len()), Ok(0));
}

#[test]
fn bad_archives_are_refused() {
    let whole = gzip(&tar(&parts(&members())));
    for (name, bytes, expected) in [
        ("a cut archive", whole[..whole.len() / 2].to_vec(), "node"),
        ("no gzip", b"\x1f\x8b\x08rest".to_vec(), "node: cannot be read: "),
        (
            "nothing of a node",
            tar(&[("a.log", b"x")]),
            "node: no .json, .yaml or .yml file in this archive",
        ),
        (
            "another document",
            zip(&[("a.json", br#"{"name":"x"}"#)]),
            "node: looks like no document of a node",
        ),
        (
            "a member that is cut off",
            zip(&[("ps.json", br#"{"containers":["#)]),
            "node:ps.json, document 1: the input ends in the middle of the document",
        ),
        (
            "a chart",
            tar(&[("Chart.yaml", b"name: web\n")]),
            "node: looks like a Helm chart",
        ),
    ] {
        let error = stream(&bytes).expect_err(name).full_text();
        assert!(error.starts_with(expected), "{name}: {error}");
        let mut lenient = reader().lenient(true);
        lenient.read("node", &*bytes).expect("a finding instead");
        let node = lenient.finish().expect(name);
        assert!(!node.findings.is_empty(), "{name}");
        // A document that is only read in part never counts as complete.
        if name != "another document" {
            assert!(node.inventory.containers.is_err(), "{name}");
        }
    }
}

/// The same members as `tar` and `zip` take them.
fn parts(members: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    members.iter().map(|(path, bytes)| (&**path, &**bytes)).collect()
}
