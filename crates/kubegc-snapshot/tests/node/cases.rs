//! Transcripts of documents of a node: the files in this directory have documents, and the facts and findings
//! in them.
//!
//! Each line of an input is an option of the reader or a document. `containers`, `sandboxes` and `images` are
//! listings of good entries with these fields changed; a field that is `"-"` is left out. Other documents
//! begin with `>`.

use kubegc_core::Timestamp;
use kubegc_fixtures::check_transcript;
use kubegc_node::{Listing, PolicySpec, Unlisted};
use kubegc_snapshot::{NodeReader, NodeSnapshot, SnapshotError};
use serde_json::{Map, Value};

use crate::{
    common::{container, findings, image, images, now, pods, ps, sandbox, unlisted},
    escapes::unescaped,
    facts::changes,
};

/// The entries of a listing, each with its changed fields.
fn entries(changes: &str, entry: fn(&[(&str, &str)]) -> String) -> Vec<String> {
    let changes: Vec<Map<String, Value>> = serde_json::from_str(changes).expect("a list of maps");
    let of_entry = |fields: Map<String, Value>| {
        let texts: Vec<(String, String)> = fields
            .into_iter()
            .map(|(name, value)| match value.as_str() {
                Some("-") => (name, "-".to_owned()),
                _ => (name, value.to_string()),
            })
            .collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, value)| (&**name, &**value)).collect();
        entry(&texts)
    };
    changes.into_iter().map(of_entry).collect()
}

/// The facts and the findings in the documents.
fn output(input: &str) -> String {
    let (mut reader, mut nothing) = (NodeReader::new(), NodeReader::new());
    let mut documents = Vec::new();
    for line in input.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "lenient" => reader = reader.lenient(true),
            "now" => (reader, nothing) = (reader.now(now()), nothing.now(now())),
            "containers-are-whole" => reader = reader.containers_are_whole(),
            "pods-are-whole" => reader = reader.pods_are_whole(),
            "no-image-volumes" => reader = reader.no_image_volumes(),
            "image-gc-began-at" => {
                let at = Timestamp::from_secs(rest.parse().expect("seconds"));
                reader = reader.image_gc_began_at(at);
            }
            "flags" => reader.read_flags(rest.split(' ')),
            "containers" => documents.push(ps(&entries(rest, container)).into_bytes()),
            "sandboxes" => documents.push(pods(&entries(rest, sandbox)).into_bytes()),
            "images" => documents.push(images(&entries(rest, image)).into_bytes()),
            ">" => documents.push(unescaped(rest)),
            word => panic!("{word}: no option and no document"),
        }
    }
    for (number, document) in documents.iter().enumerate() {
        if let Err(error) = reader.read(&format!("f{number}"), &**document) {
            assert!(matches!(reader.finish(), Err(SnapshotError::ReadFailed { .. })));
            return format!("refused: {}", error.full_text().replace('\n', "\\n"));
        }
    }
    let node = reader.finish().expect("nothing was refused");
    let mut lines = facts(node.clone(), &nothing.finish().expect("nothing was read"));
    lines.extend(findings(&node));
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines.join("\n")
}

/// A listing as text, a line each.
fn listing<T>(name: &str, listing: &Listing<Vec<T>>, line: impl Fn(&T) -> String) -> Vec<String> {
    match listing {
        Ok(entries) if entries.is_empty() => vec![format!("no {name}s")],
        Ok(entries) => entries
            .iter()
            .map(|entry| format!("{name} {}", line(entry)))
            .collect(),
        Err(Unlisted::NotRequested) => Vec::new(),
        Err(error) => vec![format!("{name}s {}", unlisted(error))],
    }
}

/// The facts that differ from those of a node without documents.
fn facts(mut node: NodeSnapshot, nothing: &NodeSnapshot) -> Vec<String> {
    let inventory = &node.inventory;
    let containers = listing("container", &inventory.containers, |one| {
        format!(
            "{} {:?} {} in {}, {:?} since {}, of {}, image {:?}",
            one.id,
            one.name,
            one.attempt,
            one.sandbox_id,
            one.state,
            one.created_at,
            pod(&one.pod),
            one.image
        )
    });
    let sandboxes = listing("sandbox", &inventory.sandboxes, |one| {
        let pod = pod(&one.pod);
        format!(
            "{} {}, {:?} since {}, of {pod}",
            one.id, one.attempt, one.state, one.created_at
        )
    });
    let images = listing("image", &inventory.images, |one| format!("{one:?}"));
    let mut lines = [containers, sandboxes, images].concat();
    node.inventory
        .containers
        .clone_from(&nothing.inventory.containers);
    node.inventory.sandboxes.clone_from(&nothing.inventory.sandboxes);
    node.inventory.images.clone_from(&nothing.inventory.images);
    if let Some(policy) = node.policy.take() {
        let changed = changes(&policy, &PolicySpec::default());
        lines.push(
            format!("policy: {}", if changed.is_empty() { "defaults" } else { "" })
                .trim_end()
                .to_owned(),
        );
        lines.extend(changed.iter().map(|change| format!("  {change}")));
    }
    let records = std::mem::take(&mut node.inventory.image_records);
    lines.extend(records.iter().map(|record| format!("{record:?}")));
    if records.detected() {
        lines.push("images were detected".to_owned());
    }
    node.findings.clear();
    node.finding_counts.clear();
    let mut nothing = nothing.clone();
    nothing.findings.clear();
    nothing.finding_counts.clear();
    lines.extend(changes(&node, &nothing));
    lines
}

fn pod(pod: &kubegc_core::node_facts::PodIdentity) -> String {
    format!("{}/{}/{}", pod.namespace, pod.name, pod.uid)
}

#[test]
fn containers() {
    check_transcript("tests/node/containers.txt", output);
}

#[test]
fn sandboxes_and_images() {
    check_transcript("tests/node/listings.txt", output);
}

#[test]
fn settings_of_a_kubelet() {
    check_transcript("tests/node/settings.txt", output);
}

#[test]
fn file_systems_and_container_statuses() {
    check_transcript("tests/node/disks.txt", output);
}

#[test]
fn pods_and_records_of_images() {
    check_transcript("tests/node/pods.txt", output);
}

#[test]
fn inputs_that_cannot_be_read_are_refused() {
    check_transcript("tests/node/refused.txt", output);
}
