//! Readers of short documents, and findings as text: common to the tests.

use std::path::PathBuf;

use kubegc_core::Timestamp;
use kubegc_node::Unlisted;
use kubegc_snapshot::{NodeReader, NodeSnapshot};

/// The directory of the bundled node.
pub(crate) fn bundled() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/node")
}

/// The documents of the bundled node, in the order of their names.
pub(crate) const NAMES: [&str; 9] = [
    "configz.json",
    "imagefsinfo.json",
    "images.json",
    "kubectl-pods.json",
    "kubelet.yaml",
    "pods.json",
    "ps.json",
    "records.json",
    "stats-summary.json",
];

/// Text of a document of the bundled node.
pub(crate) fn bundled_text(name: &str) -> String {
    std::fs::read_to_string(bundled().join(name)).expect("the document is in the repository")
}

/// The time of the bundled node's documents.
pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a date")
}

/// A reader of the bundled node.
pub(crate) fn reader() -> NodeReader {
    NodeReader::new().now(now()).pods_are_whole().no_image_volumes()
}

/// Reads documents in turn; each is called `f`, its number, and all must be accepted.
pub(crate) fn read(mut reader: NodeReader, documents: &[&str]) -> NodeSnapshot {
    for (index, document) in documents.iter().enumerate() {
        let read = reader.read(&format!("f{index}"), document.as_bytes());
        if let Err(error) = read {
            panic!("{document}: {}", error.full_text());
        }
    }
    reader.finish().expect("nothing was refused")
}

/// The findings, a line each.
pub(crate) fn findings(node: &NodeSnapshot) -> Vec<String> {
    node.findings.iter().map(ToString::to_string).collect()
}

/// The reason why a fact is unknown, as text.
pub(crate) fn unlisted(error: &Unlisted) -> String {
    match error {
        Unlisted::NotRequested => "not requested".to_owned(),
        Unlisted::Failed(reason) => format!("failed: {reason}"),
    }
}

/// A container as `crictl ps` prints it, with these fields over those of a good one. `null` unsets a field,
/// and `-` leaves it out.
pub(crate) fn container(changes: &[(&str, &str)]) -> String {
    entry(
        &[
            ("id", r#""c1""#),
            ("podSandboxId", r#""s1""#),
            ("metadata", r#"{"name":"web","attempt":2}"#),
            (
                "image",
                r#"{"image":"sha256:77","annotations":{},"runtimeHandler":""}"#,
            ),
            ("imageRef", r#""sha256:77""#),
            ("state", r#""CONTAINER_EXITED""#),
            ("createdAt", r#""1772366400000000000""#),
            (
                "labels",
                r#"{"io.kubernetes.pod.uid":"u1","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"shop"}"#,
            ),
            ("annotations", "{}"),
            ("imageId", r#""sha256:77""#),
        ],
        changes,
    )
}

/// A sandbox as `crictl pods` prints it.
pub(crate) fn sandbox(changes: &[(&str, &str)]) -> String {
    entry(
        &[
            ("id", r#""s1""#),
            (
                "metadata",
                r#"{"name":"web-0","uid":"u1","namespace":"shop","attempt":1}"#,
            ),
            ("state", r#""SANDBOX_NOTREADY""#),
            ("createdAt", r#""1772366300000000000""#),
            ("labels", r#"{"io.kubernetes.pod.uid":"u1"}"#),
            ("annotations", "{}"),
            ("runtimeHandler", r#""""#),
        ],
        changes,
    )
}

/// An image as `crictl images` prints it.
pub(crate) fn image(changes: &[(&str, &str)]) -> String {
    entry(
        &[
            ("id", r#""sha256:77""#),
            ("repoTags", r#"["registry.example/shop/web:1"]"#),
            ("repoDigests", r#"["registry.example/shop/web@sha256:88"]"#),
            ("size", r#""1000""#),
            ("uid", r#"{"value":"0"}"#),
            ("username", r#""""#),
            ("spec", r#"{"image":"","annotations":{},"runtimeHandler":""}"#),
            ("pinned", "false"),
        ],
        changes,
    )
}

fn entry(fields: &[(&str, &str)], changes: &[(&str, &str)]) -> String {
    let changed = |name: &str| changes.iter().find(|(field, _)| *field == name);
    let mut parts: Vec<String> = Vec::new();
    for (name, value) in fields {
        let value = changed(name).map_or(*value, |(_, value)| value);
        if value != "-" {
            parts.push(format!("{name:?}:{value}"));
        }
    }
    for (name, value) in changes {
        if !fields.iter().any(|(field, _)| field == name) {
            parts.push(format!("{name:?}:{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// The listing of these containers.
pub(crate) fn ps(entries: &[String]) -> String {
    format!(r#"{{"containers":[{}]}}"#, entries.join(","))
}

/// The listing of these sandboxes.
pub(crate) fn pods(entries: &[String]) -> String {
    format!(r#"{{"items":[{}]}}"#, entries.join(","))
}

/// The listing of these images.
pub(crate) fn images(entries: &[String]) -> String {
    format!(r#"{{"images":[{}]}}"#, entries.join(","))
}

/// A pod of the API whose name is its uid, with these members of its metadata and its status.
pub(crate) fn api_pod(uid: &str, meta: &str, status: &str) -> String {
    format!(
        r#"{{"kind":"Pod","metadata":{{"namespace":"shop","name":"{uid}","uid":"{uid}"{meta}}},"status":{{{status}}}}}"#
    )
}

/// A list of pods as kubectl prints it.
pub(crate) fn api_list(pods: &[String]) -> String {
    let pods = pods.join(",");
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{pods}],"metadata":{{}}}}"#)
}
