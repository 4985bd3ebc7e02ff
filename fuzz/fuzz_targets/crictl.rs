//! Reads any bytes as a document of a node, strictly and leniently, with the kind detected and given: no panic, and nothing that was read in part counts as whole.
#![no_main]

use kubegc_core::{KubernetesVersion, Planner, Timestamp};
use kubegc_fuzz::Choices;
use kubegc_node::{
    Policy, PolicySpec,
    image::{FreeSpace, Task},
};
use kubegc_snapshot::{NodeDocument, NodeReader, NodeSnapshot};
use libfuzzer_sys::fuzz_target;

const DOCUMENTS: [NodeDocument; 10] = [
    NodeDocument::Containers,
    NodeDocument::Sandboxes,
    NodeDocument::Images,
    NodeDocument::ImageFileSystem,
    NodeDocument::ContainerStatus,
    NodeDocument::StatsSummary,
    NodeDocument::KubeletConfiguration,
    NodeDocument::Configz,
    NodeDocument::Pods,
    NodeDocument::Records,
];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let flags = choices.byte();
    let document = *choices.of(&DOCUMENTS);
    let bytes = choices.0;
    if flags & 8 == 8 {
        let mut reader = NodeReader::new();
        if let Ok(words) = str::from_utf8(bytes) {
            reader.read_flags(words.split_whitespace());
        }
        plan(&reader.finish().expect("flags refuse nothing"));
        return;
    }
    let named = (flags & 1 == 1).then_some(document);
    let strict = read(false, flags, named, bytes);
    let lenient = read(true, flags, named, bytes);
    if strict.is_some() {
        assert!(
            lenient.is_some(),
            "what can be read strictly can be read leniently"
        );
    }
    for snapshot in strict.iter().chain(&lenient) {
        plan(snapshot);
        for finding in &snapshot.findings {
            assert!(!finding.to_string().is_empty());
        }
    }
});

fn read(lenient: bool, flags: u8, document: Option<NodeDocument>, bytes: &[u8]) -> Option<NodeSnapshot> {
    let mut reader = NodeReader::new()
        .lenient(lenient)
        .now(Timestamp::from_secs(1_800_000_000))
        .document_bytes_max(1 << 16);
    if flags & 2 == 2 {
        reader = reader.containers_are_whole().no_image_volumes();
    }
    if flags & 4 == 4 {
        reader = reader.pods_are_whole();
    }
    let read = match document {
        Some(document) => reader.read_as(document, "fuzz", bytes),
        None => reader.read("fuzz", bytes),
    };
    let snapshot = reader.finish();
    assert_eq!(read.is_ok(), snapshot.is_ok(), "a refused document ends it");
    snapshot.ok()
}

/// Whatever was read can be planned with, and nothing is planned about what was not.
fn plan(snapshot: &NodeSnapshot) {
    let now = Timestamp::from_secs(1_800_000_000);
    let spec = snapshot.policy.clone().unwrap_or_else(PolicySpec::default);
    let Ok(policy) = Policy::new(&spec, KubernetesVersion::LATEST) else {
        return;
    };
    let inventory = &snapshot.inventory;
    let containers = policy.container.plan(inventory, now);
    assert!(inventory.containers.is_ok() || containers.actions.is_empty());
    let images = FreeSpace {
        task: Task::DeleteUnused,
        ..policy.image
    };
    let images = images.plan(inventory, now);
    let is_known =
        inventory.containers.is_ok() && inventory.images.is_ok() && inventory.image_volumes.is_ok();
    assert!(is_known || images.actions.is_empty());
}
