//! Errors about documents of a node, with their texts, and lenient reading.

use std::{io, path::Path};

use kubegc_snapshot::{NodeDocument, NodeReader};

use crate::common::{container, findings, image, images, pods, ps, sandbox};

#[test]
fn inputs_that_fail_or_are_too_large_are_refused() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let mut reader = NodeReader::new();
    let error = reader.read("f", Broken).expect_err("it fails");
    assert_eq!(error.full_text(), "f: cannot be read: unplugged");

    let text = ps(&[container(&[])]);
    let mut reader = NodeReader::new().document_bytes_max(text.len());
    assert!(reader.read("f", text.as_bytes()).is_ok());
    let mut reader = NodeReader::new().document_bytes_max(text.len() - 1);
    let error = reader.read("f", text.as_bytes()).expect_err("one byte too many");
    assert_eq!(
        error.to_string(),
        format!(
            "f, line 1: larger than the limit of {} bytes for one object",
            text.len() - 1
        )
        .replace("f, line", "f: line")
    );
    let mut reader = NodeReader::new().lenient(true);
    assert!(
        reader
            .read_path(Path::new("no-such-directory"))
            .is_err_and(|error| error.to_string() == "no-such-directory: cannot be read")
    );
}

#[test]
fn lenient_reading_leaves_the_facts_of_an_unread_document_unknown() {
    let good = [
        ps(&[container(&[]), container(&[("id", "\"c2\""), ("state", "1")])]),
        pods(&[sandbox(&[])]),
        images(&[image(&[])]),
        "{\"usedBytes\":\"1\"}".to_owned(),
        "kind: KubeletConfiguration\n".to_owned(),
        "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"uid\":\"u1\"}}]}".to_owned(),
    ];
    let lenient = || {
        let mut reader = NodeReader::new().lenient(true).pods_are_whole();
        for text in &good {
            reader.read("good", text.as_bytes()).expect("good");
        }
        reader
    };
    let known = |reader: NodeReader| {
        let node = reader.finish().expect("lenient");
        let listed = &node.inventory;
        let known = [
            listed.containers.is_ok(),
            listed.sandboxes.is_ok(),
            listed.images.is_ok(),
            listed.image_file_system.is_ok(),
            node.policy.is_some(),
            listed.pods.synced,
        ];
        (known, node.finding_counts.len())
    };
    assert_eq!(known(lenient()), ([true; 6], 0));

    // The kind of the document is unknown, so every listing may be affected.
    let mut reader = lenient();
    reader.read("cut", &b"{\"contai"[..]).expect("lenient");
    assert_eq!(known(reader), ([false; 6], 2));

    // The kind of the document is known.
    let cases = [
        (NodeDocument::Containers, 0),
        (NodeDocument::Sandboxes, 1),
        (NodeDocument::Images, 2),
        (NodeDocument::ImageFileSystem, 3),
        (NodeDocument::KubeletConfiguration, 4),
        (NodeDocument::Pods, 5),
    ];
    for (document, position) in cases {
        for text in ["{\"contai", "[]"] {
            let mut reader = lenient();
            reader.read_as(document, "cut", text.as_bytes()).expect("lenient");
            let (known, _) = known(reader);
            for (index, known) in known.into_iter().enumerate() {
                assert_eq!(known, index != position, "{document:?} {text} {index}");
            }
        }
    }

    // A document of another kind contains no facts of a node.
    let mut reader = lenient();
    reader.read("else", &b"{\"a\":1}"[..]).expect("lenient");
    assert_eq!(known(reader), ([true; 6], 1));
}

#[test]
fn errors_about_named_documents_name_the_missing_fields() {
    use NodeDocument::*;
    for (document, problem, field) in [
        (Containers, "MissingField", "containers: missing"),
        (Sandboxes, "MissingField", "items: missing"),
        (Images, "MissingField", "images: missing"),
        (ContainerStatus, "MissingField", "status: missing, or no map"),
        (StatsSummary, "BadField", "node: expected a map, found nothing"),
        (Configz, "MissingField", "kubeletconfig: missing, or no map"),
        (Pods, "MissingField", "items: missing"),
        (Records, "MissingField", "records: missing"),
    ] {
        let finding = format!("{problem}: f, document 1: {field}");
        let mut reader = NodeReader::new();
        reader.read_as(document, "f", &b"{}"[..]).expect("JSON");
        let node = reader.finish().expect("read");
        assert_eq!(findings(&node), [finding], "{document:?}");
        assert_eq!(node.policy, None);
    }
}

#[test]
fn findings_are_counted_beyond_the_listed_ones() {
    let many = (0..1_200).map(|number| container(&[("id", &format!("\"c{number}\"")), ("createdAt", "0")]));
    let many: Vec<String> = many.collect();
    let mut reader = NodeReader::new();
    reader.read("f", ps(&many).as_bytes()).expect("it is read");
    let node = reader.finish().expect("nothing was refused");
    assert_eq!(node.findings.len(), 1_000);
    assert!(node.finding_counts.values().eq(&[1_200]));
}
