//! The bundled node is read completely.

use kubegc_node::GoDuration;
use kubegc_snapshot::{NodeReader, NodeSnapshot};

use crate::common::{NAMES, bundled, bundled_text, findings, reader};

fn node() -> NodeSnapshot {
    let mut reader = reader();
    reader
        .read_path(&bundled())
        .unwrap_or_else(|error| panic!("{}", error.full_text()));
    reader.finish().expect("nothing was refused")
}

#[test]
fn the_bundled_node_is_read_without_a_finding_but_its_readme() {
    let found = findings(&node());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("SkippedFile: ")
            && found[0].ends_with("README.md: not a .json, .yaml or .yml file")
    );
}

#[test]
fn the_bundled_policy_is_the_same_from_the_file_and_from_configz() {
    let policy = node().policy.expect("configured");
    assert_eq!(policy.image_minimum_gc_age, GoDuration::from_secs(120));
    assert_eq!(
        policy.eviction_hard.get("nodefs.available").map(String::as_str),
        Some("8%")
    );
    for name in ["kubelet.yaml", "configz.json"] {
        let mut reader = NodeReader::new();
        reader
            .read(name, bundled_text(name).as_bytes())
            .expect("a configuration");
        assert_eq!(
            reader.finish().expect("read").policy.as_ref(),
            Some(&policy),
            "{name}"
        );
    }
}

#[test]
fn the_order_of_files_changes_nothing() {
    let mut reader = reader();
    for name in NAMES.iter().rev() {
        reader
            .read(name, bundled_text(name).as_bytes())
            .expect("a document");
    }
    let other = reader.finish().expect("read");
    let node = node();
    assert_eq!(other.inventory, node.inventory);
    assert_eq!(
        (other.policy, other.stats, other.usage),
        (node.policy, node.stats, node.usage)
    );
}
